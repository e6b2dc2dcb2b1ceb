"""Trains a small network on the UCI hand-written digits with PyTorch DistributedDataParallel.

An ordinary script: rank and addresses come from the usual torch.distributed variables, hyperparameters as arguments, and what it
leaves in the model directory is kept. It also saves checkpoints and goes on from one when it is told to.
"""
import argparse
import json
import os
import socket
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
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


def split_digits(seed):
    """The 1,797 real images: four fifths to train on, one fifth to test on."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    images = torch.tensor(images[order], dtype=torch.float32) / 16
    labels = torch.tensor(labels[order], dtype=torch.long)
    cut = len(images) * 4 // 5
    return (images[:cut], labels[:cut]), (images[cut:], labels[cut:])


def save_checkpoint(directory, step, epoch, model, optimizer):
    if not directory:
        return
    os.makedirs(directory, exist_ok=True)
    final = os.path.join(directory, f"step-{step}.pt")
    torch.save({"step": step, "epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, final + ".part")
    os.rename(final + ".part", final)  # complete or absent


def load_checkpoint(path, model, optimizer):
    if os.path.isdir(path):
        found = [f for f in os.listdir(path) if f.startswith("step-") and f.endswith(".pt")]
        if not found:
            sys.exit(f"no checkpoint step-N.pt in {path}")
        wanted = os.environ.get("HEARTH_RESUME_STEP")
        name = f"step-{wanted}.pt" if wanted else max(found, key=lambda f: int(f[5:-3]))
        path = os.path.join(path, name)
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["epoch"] + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model-dir", default=os.environ.get("SM_MODEL_DIR", "."))
    args = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.manual_seed(args.seed)
    if world > 1:
        if rank > 0:
            wait_for_port(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=world)

    (train_x, train_y), (test_x, test_y) = split_digits(args.seed)
    network = nn.Sequential(nn.Linear(64, args.hidden), nn.ReLU(), nn.Linear(args.hidden, 10))
    optimizer = torch.optim.SGD(network.parameters(), args.lr, momentum=0.9)
    step = first_epoch = 0
    if os.environ.get("HEARTH_RESUME_FROM"):
        step, first_epoch = load_checkpoint(os.environ["HEARTH_RESUME_FROM"], network, optimizer)
        print(f"resumed from step {step}", flush=True)
    model = DistributedDataParallel(network) if world > 1 else network
    loss_of = nn.CrossEntropyLoss()
    print(f"rank {rank} of {world} on {socket.gethostname()}: {len(train_x)} images to train on", flush=True)

    for epoch in range(first_epoch, args.epochs):
        # Every rank draws the same order and takes its own share of it.
        order = torch.randperm(len(train_x), generator=torch.Generator().manual_seed(args.seed + epoch))
        usable = len(order) // (args.batch_size * world) * args.batch_size * world
        for batch in order[:usable].view(-1, world, args.batch_size)[:, rank]:
            optimizer.zero_grad()
            loss = loss_of(model(train_x[batch]), train_y[batch])
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0 and step % 10 == 0:
                print(f"step={step} epoch={epoch} loss={loss.item():.4f}", flush=True)
        if rank == 0 and (epoch + 1) % 10 == 0:
            save_checkpoint(os.environ.get("HEARTH_CHECKPOINT_DIR"), step, epoch, network, optimizer)

    if rank == 0:
        with torch.no_grad():
            accuracy = (network(test_x).argmax(1) == test_y).float().mean().item()
        os.makedirs(args.model_dir, exist_ok=True)
        torch.save(network.state_dict(), os.path.join(args.model_dir, "digits.pt"))
        with open(os.path.join(args.model_dir, "result.json"), "w", encoding="utf-8") as f:
            json.dump({"test_accuracy": accuracy, "steps": step, "world_size": world}, f)
        print(f"step={step} test_accuracy={accuracy:.4f}", flush=True)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
