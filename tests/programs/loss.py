"""A training program without a library whose loss goes wrong as told.

loss.py STEPS STEP_SECONDS FAULT FROM TO. FAULT: none, nan and high (for ever, once step FROM was trained), spike (steps FROM to TO), always (NaN in the 60th
step that it trains after each start). Its one parameter moves towards 1 with each step; a step in HEARTH_SKIP_STEPS is left out. It saves step-N/state by a rename
each 20 steps. The last line is "final loss=X", which depends on the trained steps alone.
"""
import os
import sys
import time


def skipped():
    """The steps that the program leaves out."""
    out = set()
    for part in filter(None, os.environ.get("HEARTH_SKIP_STEPS", "").split(",")):
        first, last = part.split("-")
        out.update(range(int(first), int(last) + 1))
    return out


def save(folder, step, value):
    """Saves the parameter, whole or not at all."""
    work = os.path.join(folder, f".new-{step}")
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "state"), "w") as f:
        f.write(f"{step} {value!r}\n")
    os.rename(work, os.path.join(folder, f"step-{step}"))


def main():
    steps, seconds, fault = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    first, last = int(sys.argv[4]), int(sys.argv[5])
    folder, skip = os.environ["HEARTH_CHECKPOINT_DIR"], skipped()
    step, value, bad = 0, 0.0, False
    path = os.environ.get("HEARTH_RESUME_FROM")
    if path:
        with open(os.path.join(path, "state")) as f:
            step, value = (float(v) for v in f.read().split())
        step = int(step)
    trained = 0
    print(f"began at step {step}, leaves out {os.environ.get('HEARTH_SKIP_STEPS', 'nothing')}", flush=True)
    while step < steps:
        step += 1
        if step in skip:
            continue
        trained += 1
        value += 0.05 * (1 - value)
        bad = bad or (fault in ("nan", "high") and step == first) or (fault == "always" and trained == 60)
        high = 1.5 if (bad and fault == "high") or (fault == "spike" and first <= step <= last) else 0
        loss = 2 + 2 * (1 - value) + 0.01 * ((step * 7919) % 101 / 101 - 0.5) + high
        print(f"step={step} loss={'nan' if bad and not high else format(loss, '.6f')}", flush=True)
        if step % 20 == 0 and not bad:
            save(folder, step, value)
        time.sleep(seconds)
    print(f"final loss={2 + 2 * (1 - value):.2f}", flush=True)


main()
