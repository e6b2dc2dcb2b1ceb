"""Fits a line by gradient descent, so that a learning rate can be better or worse than another. Needs Python alone.

The learning rate comes as an argument; each step prints its loss, which job.json's patterns read.
"""
import argparse
import random
import time


def points(seed=1, n=64):
    """y = 3x - 1, with some noise."""
    draw = random.Random(seed)
    return [(x, 3 * x - 1 + draw.gauss(0, 0.1)) for x in (draw.uniform(-1, 1) for _ in range(n))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds that a step takes, for others to catch up")
    args = parser.parse_args()
    data, slope, offset = points(), 0.0, 0.0
    for step in range(1, args.steps + 1):
        errors = [(slope * x + offset - y, x) for x, y in data]
        loss = sum(e * e for e, _ in errors) / len(data)
        print(f"step={step} loss={loss:.6g}", flush=True)
        slope -= args.lr * sum(2 * e * x for e, x in errors) / len(data)
        offset -= args.lr * sum(2 * e for e, _ in errors) / len(data)
        time.sleep(args.pause)


main()
