"""Trains a small network with PyTorch DistributedDataParallel so that a restart changes nothing.

The data of a step follows from the step alone, and the checkpoint has model, optimizer and step. Two runs therefore end with the
same loss, however often nodes were lost between their steps. The script reads HEARTH_RESUME_FROM, HEARTH_RESUME_STEP and
HEARTH_SKIP_STEPS; without Hearth it starts from zero.
"""
import argparse
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def wait_for_port(host, port, seconds=60.0):
    """Waits until rank 0 listens: torch's own client sleeps a whole second between its tries."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection((host, port), 0.5).close()
            return
        except OSError:
            time.sleep(0.005)
    sys.exit(f"rank 0 does not listen on {host}:{port} after {seconds:.0f} s")


def batch_of(step, rank, world, size):
    """The samples of one rank in one step: the same in every run."""
    made = torch.Generator().manual_seed(step * world + rank)
    x = torch.randn(size, 8, generator=made)
    return x, torch.sin(x.sum(1, keepdim=True))


def skipped_steps(text):
    """HEARTH_SKIP_STEPS, such as "120-150,300-320": steps whose data made the loss bad."""
    steps = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        steps.update(range(int(first), int(last or first) + 1))
    return steps


def save_checkpoint(directory, step, model, optimizer):
    os.makedirs(directory, exist_ok=True)
    final = os.path.join(directory, f"step-{step}.pt")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, final + ".part")
    os.rename(final + ".part", final)  # complete or absent


def load_checkpoint(path, model, optimizer):
    """Loads the file, or the newest one in the folder. Returns its step."""
    if os.path.isdir(path):
        found = [f for f in os.listdir(path) if f.startswith("step-") and f.endswith(".pt")]
        path = os.path.join(path, max(found, key=lambda f: int(f[5:-3])))
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="wait so long in each step")
    args = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        if rank > 0:
            wait_for_port(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=world)
    torch.manual_seed(7)
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(network.parameters(), args.lr, momentum=0.9)
    first = 1
    if os.environ.get("HEARTH_RESUME_FROM"):
        first = load_checkpoint(os.environ["HEARTH_RESUME_FROM"], network, optimizer) + 1
        print(f"resumed from step {first - 1}", flush=True)
    skipped = skipped_steps(os.environ.get("HEARTH_SKIP_STEPS", ""))
    model = DistributedDataParallel(network) if world > 1 else network
    for step in range(first, args.steps + 1):
        if step in skipped:
            continue
        x, y = batch_of(step, rank, world, args.batch_size)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if world > 1:
            dist.all_reduce(mean)
            mean /= world
        if rank == 0:
            print(f"step={step} loss={mean.item():.9f}", flush=True)
            if step % args.save_every == 0:
                save_checkpoint(os.environ.get("HEARTH_CHECKPOINT_DIR", "checkpoints"), step, network, optimizer)
        time.sleep(args.step_seconds)
    if rank == 0:
        x, y = batch_of(0, 0, 1, 1024)
        with torch.no_grad():
            print(f"final loss={nn.functional.mse_loss(network(x), y).item():.9f}", flush=True)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
