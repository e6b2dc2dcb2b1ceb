#!/usr/bin/env python3
"""A training program that saves by the write order of one framework, and may kill itself at a random instant.

    saver.py CONVENTION --steps N [--every S] [--pause SECONDS] [--seed SEED --kill-after SECONDS]: after the first save
             [--ranks N]: so many writers, one of which is the main one
    saver.py --check FOLDER     whole checkpoints of known steps are in FOLDER: prints "NAME STEP", exits with 1 when one is torn

Each file has its step in its first line, random bytes of that step, and its digest in its last line: a reader can say whether it
is whole, and of which step.
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time

RANKS = 2
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


def ranks(step, path, part=None):
    """Each rank writes its own file, at its own time; path has %d for the rank."""

    def one(rank):
        time.sleep(random.random() * 0.2)
        (part or write)(path % rank, step)

    writers = [threading.Thread(target=one, args=(rank,)) for rank in range(RANKS)]
    for writer in writers:
        writer.start()
    return writers


def joined(writers):
    for writer in writers:
        writer.join()


def overwrite(step):
    write(TOP + "/ckpt.pt", step)


def rename(step):
    write(TOP + "/model.pt.tmp", step)
    os.replace(TOP + "/model.pt.tmp", TOP + "/model.pt")


def named(step):
    write(TOP + "/model_%d.pt" % step, step)


def two_files(step):
    for name in ("model_%d.pt", "optim_%d.pt"):
        write(TOP + "/" + name % step + ".tmp", step)
        os.rename(TOP + "/" + name % step + ".tmp", TOP + "/" + name % step)
        time.sleep(0.7)


def big(step):
    """A large file; the one before is removed at once."""
    data = b"".join(content(step, str(i)) for i in range(30))
    body = b"step %d\n" % step + data
    with open(TOP + "/big_%d.pt" % step, "wb") as f:
        f.write(body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n")
    old = TOP + "/big_%d.pt" % (step - 8)
    if os.path.exists(old):
        os.remove(old)


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


def torch_save(step):
    """The real one, to one name each time."""
    import torch

    torch.save({"step": step, "state": torch.full((50000,), float(step))}, TOP + "/ckpt.pt")


def rank_files(step):
    joined(ranks(step, TOP + "/ckpt_%d_rank%%d.pt" % step))


def rank_overwrite(step):
    joined(ranks(step, TOP + "/state-rank%d.pt"))


def hf_deepspeed(step):
    folder = TOP + "/checkpoint-%d" % step
    deepspeed(step, folder)
    write(folder + "/scheduler.pt", step)
    time.sleep(2.2)
    text(folder + "/trainer_state.json", json.dumps({"global_step": step}))


def hf_fsdp(step):
    folder = TOP + "/checkpoint-%d" % step
    dcp_parts(step, folder + "/pytorch_model_fsdp_0")
    time.sleep(2.2)
    dcp_parts(step, folder + "/optimizer_0")
    write(folder + "/scheduler.pt", step)
    text(folder + "/trainer_state.json", json.dumps({"global_step": step}))
    old = TOP + "/checkpoint-%d" % (step - 8)
    if os.path.isdir(old):
        shutil.rmtree(old)


def lightning_link(step):
    """save_last="link": the link is removed and made again."""
    name = "epoch=0-step=%d.ckpt" % step
    write(TOP + "/" + name, step)
    if os.path.lexists(TOP + "/last.ckpt"):
        os.remove(TOP + "/last.ckpt")
    os.symlink(name, TOP + "/last.ckpt")


def lightning_folder(step):
    folder = TOP + "/epoch=0-step=%d.ckpt" % step
    dcp_parts(step, folder)
    write(folder + "/meta.pt", step)


def lightning_v1(step):
    """A second run in one folder counts its versions; the one before is removed (save_top_k=1)."""
    write(TOP + "/epoch=0-step=%d-v1.ckpt" % step, step)
    write(TOP + "/last-v1.ckpt", step)
    old = TOP + "/epoch=0-step=%d-v1.ckpt" % (step - 8)
    if os.path.exists(old):
        os.remove(old)


def megatron_dcp(step):
    folder = TOP + "/iter_%07d" % step
    write(folder + "/common.pt", step)
    dcp_parts(step, folder)
    text(TOP + "/latest_checkpointed_iteration.txt", "%d" % step)


def dcp_ranks(step):
    def one(path, step):
        write(path, step)
        meta = path.replace("_0.distcp", ".metadata")
        write(meta + ".tmp", step)
        os.rename(meta + ".tmp", meta)

    joined(ranks(step, TOP + "/step_%d/__%%d_0.distcp" % step, one))


def lightning(step):
    write(TOP + "/epoch=0-step=%d.ckpt" % step, step)
    write(TOP + "/last.ckpt", step)


def deepspeed(step, top=None):
    top = top or TOP
    folder = top + "/global_step%d" % step
    write(folder + "/mp_rank_00_model_states.pt", step)
    others = ranks(step, folder + "/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt")
    others[0].join()
    text(top + "/latest", "global_step%d" % step)
    joined(others)


def megatron(step):
    joined(ranks(step, TOP + "/iter_%07d/mp_rank_%%02d/model_optim_rng.pt" % step))
    text(TOP + "/latest_checkpointed_iteration.txt", "%d" % step)


def dcp_parts(step, folder):
    joined(ranks(step, folder + "/__%d_0.distcp"))
    write(folder + "/.metadata.tmp", step)
    os.rename(folder + "/.metadata.tmp", folder + "/.metadata")


def dcp(step):
    dcp_parts(step, TOP + "/step_%d" % step)


SAVERS = {
    f.__name__: f
    for f in (overwrite, torch_save, rename, named, big, two_files, rank_files, rank_overwrite, hearth, hf_trainer, hf_deepspeed, hf_fsdp)
    + (lightning, lightning_link, lightning_folder, lightning_v1, deepspeed, megatron, megatron_dcp, dcp, dcp_ranks)
}


def step_of(path):
    """The step of a file that is whole; None: it is torn; -1: a marker."""
    with open(path, "rb") as f:
        data = f.read()
    if data.startswith(b"PK"):
        import torch

        try:
            state = torch.load(path)
        except Exception:
            return None
        return state["step"] if (state["state"] == state["step"]).all() else None
    if not data.startswith(b"step "):
        return None if len(data) > 50000 else -1
    body, _, last = data[:-1].rpartition(b"\n")
    return int(data.split()[1]) if hashlib.sha256(body).hexdigest().encode() == last else None


def check(top, want=None):
    """True: something is torn, or of another step than the one that is wanted."""
    bad = False
    for name in sorted(os.listdir(top)):
        path = os.path.join(top, name)
        files = [path] if os.path.isfile(path) else [os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs]
        steps = {step_of(f) for f in files} - {-1}
        if len(steps) == 1 and None not in steps and want in (None, *steps):
            print(name, steps.pop())
        elif steps:
            print(name, "torn, or of another step:", sorted(str(s) for s in steps))
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
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--below", default="", help="folder for checkpoints")
    a = p.parse_args()
    global RANKS, TOP
    RANKS = a.ranks
    if a.check:
        sys.exit(check(a.check))
    if a.convention == "torch_save":
        __import__("torch")  # takes seconds, which do not count
    kill = a.seed is not None and os.environ.get("HEARTH_ATTEMPT", "1") == "1"
    first = 1 + int(os.environ.get("HEARTH_RESUME_STEP") or 0)
    if a.below:
        TOP += "/" + a.below
        os.makedirs(TOP, exist_ok=True)
    print("begins with", sorted(os.listdir(TOP)), "at", first, flush=True)
    if first > 1 and check(TOP, first - 1):
        sys.exit("a checkpoint to begin with is torn, or of another step")
    for step in range(first, first + a.steps):
        print("step=%d" % step, flush=True)
        time.sleep(a.pause / 2)
        if step % a.every == 0:
            SAVERS[a.convention](step)
            if kill:  # from the first save on: a busy machine reaches it late
                delay = a.kill_after + random.Random(a.seed).random()
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
                kill = False
        time.sleep(a.pause / 2)


main()
