#!/usr/bin/env python3
"""A training program that saves by the write order of one framework, and may kill itself at a random instant.

    saver.py CONVENTION --steps N [--every S] [--pause SECONDS] [--seed SEED --kill-after SECONDS]
    saver.py --check FOLDER     whole checkpoints of known steps are in FOLDER: prints "NAME STEP", exits with 1 when one is torn

Each file has its step in its first line, random bytes of that step, and its digest in its last line: a reader can say whether it
is whole, and of which step.
"""
import argparse
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time

TOP = os.environ.get("HEARTH_CHECKPOINT_DIR", "checkpoints")


def content(step, name):
    body = b"step %d %s\n" % (step, name.encode()) + random.Random(step).randbytes(200000)
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def write(path, step):
    """In pieces, so that a kill leaves half of it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = content(step, os.path.basename(path))
    with open(path, "wb") as f:
        for at in range(0, len(data), 20000):
            f.write(data[at : at + 20000])
            f.flush()
            time.sleep(0.002)


def text(path, words):
    with open(path, "w") as f:
        f.flush()
        time.sleep(0.005)
        f.write(words)


def overwrite(step):
    write(TOP + "/ckpt.pt", step)


def rename(step):
    write(TOP + "/model.pt.tmp", step)
    os.replace(TOP + "/model.pt.tmp", TOP + "/model.pt")


def named(step):
    write(TOP + "/model_%d.pt" % step, step)


def hearth(step):
    folder = TOP + "/at-%d" % step
    write(folder + "/model.pt", step)
    files = {"model.pt": {"size": os.path.getsize(folder + "/model.pt")}}
    text(folder + "/hearth.json", json.dumps({"step": step, "files": files}))


def hf_trainer(step):
    folder = TOP + "/checkpoint-%d" % step
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"):
        write(folder + "/" + name, step)
    text(folder + "/trainer_state.json", json.dumps({"global_step": step, "log_history": ["x" * 100] * 100}))


def lightning(step):
    write(TOP + "/epoch=0-step=%d.ckpt" % step, step)
    write(TOP + "/last.ckpt", step)


def deepspeed(step):
    folder = TOP + "/global_step%d" % step
    write(folder + "/mp_rank_00_model_states.pt", step)
    text(TOP + "/latest", "global_step%d" % step)
    write(folder + "/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", step)


def megatron(step):
    write(TOP + "/iter_%07d/mp_rank_00/model_optim_rng.pt" % step, step)
    text(TOP + "/latest_checkpointed_iteration.txt", "%d" % step)


def dcp(step):
    folder = TOP + "/step_%d" % step
    for part in ("__0_0.distcp", "__1_0.distcp"):
        write(folder + "/" + part, step)
    write(folder + "/.metadata.tmp", step)
    os.rename(folder + "/.metadata.tmp", folder + "/.metadata")


SAVERS = {f.__name__: f for f in (overwrite, rename, named, hearth, hf_trainer, lightning, deepspeed, megatron, dcp)}


def step_of(path):
    """The step of a file that is whole; None: it is torn; -1: a marker."""
    with open(path, "rb") as f:
        data = f.read()
    if not data.startswith(b"step "):
        return None if len(data) > 50000 else -1
    body, _, last = data[:-1].rpartition(b"\n")
    return int(data.split()[1]) if hashlib.sha256(body).hexdigest().encode() == last else None


def check(top):
    bad = False
    for name in sorted(os.listdir(top)):
        path = os.path.join(top, name)
        files = [path] if os.path.isfile(path) else [os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs]
        steps = {step_of(f) for f in files} - {-1}
        if len(steps) == 1 and None not in steps:
            print(name, steps.pop())
        elif steps:
            print(name, "torn:", sorted(str(s) for s in steps))
            bad = True
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("convention", nargs="?", choices=sorted(SAVERS))
    p.add_argument("--check")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--pause", type=float, default=0.5)
    p.add_argument("--seed", type=int)
    p.add_argument("--kill-after", type=float, default=0)
    a = p.parse_args()
    if a.check:
        sys.exit(check(a.check))
    if a.seed is not None:
        delay = a.kill_after + random.Random(a.seed).random()
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    first = 1 + int(os.environ.get("HEARTH_RESUME_STEP") or 0)
    print("begins with", sorted(os.listdir(TOP)), "at", first, flush=True)
    if first > 1 and check(TOP):
        sys.exit("a checkpoint to begin with is torn")
    for step in range(first, first + a.steps):
        print("step=%d" % step, flush=True)
        time.sleep(a.pause / 2)
        if step % a.every == 0:
            SAVERS[a.convention](step)
        time.sleep(a.pause / 2)


main()
