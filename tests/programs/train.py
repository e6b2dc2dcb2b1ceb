"""A training program without a library: its state is a function of the step, so each restart can be checked.

train.py STEPS SAVE_EVERY STEP_SECONDS. Rank 0 saves step-N/state by a rename. Each rank prints "did ATTEMPT RANK STEP TIME", and exits with 70
when the checkpoint that it loads is not that of its step. The last line is "final loss=X".
"""
import os
import sys
import time


def state_after(step):
    """A number that only the right sequence of steps gives."""
    state = 1
    for i in range(1, step + 1):
        state = (state * 6364136223846793005 + i) % (1 << 64)
    return state


def main():
    steps, save_every, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    rank, attempt = int(os.environ["RANK"]), os.environ["HEARTH_ATTEMPT"]
    folder = os.environ["HEARTH_CHECKPOINT_DIR"]
    step = 0
    path = os.environ.get("HEARTH_RESUME_FROM")
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
        print(f"did {attempt} {rank} {step} {time.time():.6f}", flush=True)
        if rank == 0:
            print(f"step={step} loss={state % 1000003 / 1000003:.9f}", flush=True)
        if rank == 0 and step % save_every == 0:
            work = os.path.join(folder, f".new-{step}")
            os.makedirs(work, exist_ok=True)
            with open(os.path.join(work, "state"), "w") as f:
                f.write(f"{step} {state}\n")
            os.rename(work, os.path.join(folder, f"step-{step}"))
        time.sleep(seconds)
    if rank == 0:
        print(f"final loss={state % 1000003 / 1000003:.9f}", flush=True)


main()
