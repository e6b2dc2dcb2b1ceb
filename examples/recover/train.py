"""Trains a small network with PyTorch DistributedDataParallel so that a restart changes nothing.

The data of a step follows from the step alone, and the checkpoint has model, optimizer and step. Two runs therefore end with the
same loss, however often nodes were lost between their steps. Outside of Hearth the script starts from zero, as one process.
"""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import hearth


def batch_of(step, rank, world, size):
    """The samples of one rank in one step: the same in every run."""
    made = torch.Generator().manual_seed(step * world + rank)
    x = torch.randn(size, 8, generator=made)
    return x, torch.sin(x.sum(1, keepdim=True))


def save(step, model, optimizer):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    hearth.commit_checkpoint(lambda folder: torch.save(state, os.path.join(folder, "state.pt")), step)


def load(model, optimizer):
    """Returns the step of the checkpoint to begin with; 0: none."""
    found = hearth.resume()
    if not found:
        return 0
    path, step = found
    state = torch.load(os.path.join(path, "state.pt"), map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"resumed from step {step}", flush=True)
    return step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="wait so long in each step")
    args = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(7)
    torch.set_num_threads(1)
    if world > 1:
        hearth.wait_for_master()
        dist.init_process_group("gloo", rank=rank, world_size=world)
    network = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(network.parameters(), args.lr, momentum=0.9)
    done = load(network, optimizer)
    model = DistributedDataParallel(network) if world > 1 else network
    for step in range(done + 1, args.steps + 1):
        if hearth.should_skip(step):  # data that made the loss of an earlier attempt bad
            continue
        x, y = batch_of(step, rank, world, args.batch_size)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step={step} loss={loss.item():.6f}", flush=True)
        if rank == 0 and step % args.save_every == 0:
            save(step, network, optimizer)
        time.sleep(args.step_seconds)
    if rank == 0:
        x, y = batch_of(0, 0, 1, 1024)
        with torch.no_grad():
            print(f"final loss={nn.functional.mse_loss(network(x), y).item():.6f}", flush=True)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
