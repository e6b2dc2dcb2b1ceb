"""PyTorch DistributedDataParallel over gloo: ten steps, all ranks must end with the same weights. Works under any launcher."""
import os
import socket
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
end = time.monotonic() + 60
while rank > 0 and time.monotonic() < end:
    try:
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 0.5).close()
        break
    except OSError:
        time.sleep(0.01)
dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(1, 11):
    x = torch.randn(16, 8)
    loss = ((model(x).squeeze() - x.sum(1)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank={rank} step={step} loss={loss.item():.5f}", flush=True)
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
others = [torch.zeros_like(weights) for _ in range(world)]
dist.all_gather(others, weights)
same = all(torch.equal(weights, w) for w in others)
print(f"rank {rank} of {world} on {socket.gethostname()} same={same}", flush=True)
assert same
dist.barrier()
dist.destroy_process_group()
