"""A training program without a library: its state is a function of the step, so each restart can be checked.

train.py STEPS SAVE_EVERY STEP_SECONDS. Rank 0 saves step-N/state by a rename. Each rank prints "did ATTEMPT RANK STEP TIME", and exits with 70
when the checkpoint that it loads is not that of its step. The last line is "final loss=X". The environment may add:

    TRAIN_SIDE=DIR   the same lines in DIR/JOB.ATTEMPT.RANK, which no network carries; .alive there has the last time at which the rank ran
    TRAIN_LATER=S    the step time of later attempts
    TRAIN_EACH=1     each rank saves a part of its own
    TRAIN_TEAR=STEP  the first attempt dies while rank 0 saves STEP, and leaves half of it under its final name
    TRAIN_GROW=MIB   rank 1 of the first attempt takes so much memory in each step after the first save
"""
import os
import signal
import sys
import time

SIDE = os.environ.get("TRAIN_SIDE")
RANK, ATTEMPT = int(os.environ["RANK"]), os.environ["HEARTH_ATTEMPT"]
NAME = f"{SIDE}/{os.environ['HEARTH_JOB']}.{ATTEMPT}.{RANK}"
ALIVE = os.open(NAME + ".alive", os.O_WRONLY | os.O_CREAT, 0o644) if SIDE else -1


def state_after(step):
    """A number that only the right sequence of steps gives."""
    state = 1
    for i in range(1, step + 1):
        state = (state * 6364136223846793005 + i) % (1 << 64)
    return state


def note(line):
    print(line, flush=True)
    if SIDE:
        with open(NAME, "a") as f:
            f.write(line + "\n")


def rest(seconds):
    """Sleeps in short parts and writes down that the rank still runs."""
    end = time.monotonic() + seconds
    while SIDE and time.monotonic() < end:
        os.pwrite(ALIVE, b"%.6f\n" % time.time(), 0)
        time.sleep(0.02)
    time.sleep(max(0.0, end - time.monotonic()))


def save(folder, step, state):
    if os.environ.get("TRAIN_TEAR") == str(step) and ATTEMPT == "1":
        os.makedirs(os.path.join(folder, f"step-{step}"))
        with open(os.path.join(folder, f"step-{step}", "state"), "w") as f:
            f.write(f"{step} ")
        os.kill(os.getpid(), signal.SIGKILL)
    work = os.path.join(folder, f".new-{step}")
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "state"), "w") as f:
        f.write(f"{step} {state}\n")
    os.rename(work, os.path.join(folder, f"step-{step}"))


def main():
    steps, save_every, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    if ATTEMPT != "1":
        seconds = float(os.environ.get("TRAIN_LATER", seconds))
    folder = os.environ["HEARTH_CHECKPOINT_DIR"]
    grown = []
    step = 0
    path = os.environ.get("HEARTH_RESUME_FROM")
    rest(0.001)
    if path:
        with open(os.path.join(path, "state")) as f:
            step, state = (int(v) for v in f.read().split())
        named = os.environ.get("HEARTH_RESUME_STEP")
        if state != state_after(step) or named != str(step):
            print(f"the checkpoint {path} is wrong: step {step}, named {named}", flush=True)
            sys.exit(70)
        print(f"resumed from step {step}", flush=True)
    state = state_after(step)
    while step < steps:
        step += 1
        state = (state * 6364136223846793005 + step) % (1 << 64)
        note(f"did {ATTEMPT} {RANK} {step} {time.time():.6f}")
        if RANK == 0:
            print(f"step={step} loss={state % 1000003 / 1000003:.9f}", flush=True)
        if (RANK == 0 or os.environ.get("TRAIN_EACH")) and step % save_every == 0:
            save(folder, step, state)
        if RANK == 1 and ATTEMPT == "1" and step > save_every:
            grown.append(b"x" * (int(os.environ.get("TRAIN_GROW", 0)) << 20))
        rest(seconds)
    if RANK == 0:
        note(f"final loss={state % 1000003 / 1000003:.9f}")


main()
