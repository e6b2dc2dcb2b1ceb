#!/usr/bin/env python3
"""A training program whose ranks each have a state of their own, on nodes that share no folder.

    shards.py HOW [--every S] [--pause SECONDS]

HOW: main   rank 0 saves the state of all, model_N.pt
     every  each rank saves its own, ckpt_N_rankR.pt
     two    ranks 0 and 2 save a half each, at-N/partR.pt, and commit it as one of two shards

Each file names its step and its writer. At the start the program lists what it finds: "finds step N of writers 0,2".
"""
import argparse
import json
import os
import re
import time

TOP = os.environ["HEARTH_CHECKPOINT_DIR"]
RANK = int(os.environ["RANK"])


def write(path, step):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".tmp", "w") as f:
        f.write("step %d writer %d\n" % (step, RANK) + "x" * 100000)
    os.rename(path + ".tmp", path)


def save(how, step):
    if how == "main" and RANK == 0:
        write(TOP + "/model_%d.pt" % step, step)
    elif how == "every":
        write(TOP + "/ckpt_%d_rank%d.pt" % (step, RANK), step)
    elif how == "two" and RANK in (0, 2):
        write(TOP + "/at-%d/part%d.pt" % (step, RANK), step)
        with open(TOP + "/at-%d/hearth.json" % step, "w") as f:
            json.dump({"step": step, "shards": 2, "files": {"part%d.pt" % RANK: {"size": os.path.getsize(TOP + "/at-%d/part%d.pt" % (step, RANK))}}}, f)


def found():
    steps, writers = set(), set()
    for folder, _, files in os.walk(TOP):
        for name in files:
            if name.endswith(".pt"):
                with open(os.path.join(folder, name)) as f:
                    step, writer = re.match(r"step (\d+) writer (\d+)", f.readline()).groups()
                steps.add(step)
                writers.add(writer)
    return "step %s of writers %s" % (",".join(sorted(steps)), ",".join(sorted(writers)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("how", choices=("main", "every", "two"))
    p.add_argument("--every", type=int, default=5)
    p.add_argument("--pause", type=float, default=0.3)
    a = p.parse_args()
    first = 1 + int(os.environ.get("HEARTH_RESUME_STEP") or 0)
    if first > 1:
        print("rank %d finds %s" % (RANK, found()), flush=True)
    for step in range(first, first + 10000):
        print("step=%d" % step, flush=True)
        time.sleep(a.pause)
        if step % a.every == 0:
            save(a.how, step)


main()
