"""One optimiser step of DistributedDataParallel over gloo; a line a rank when it is done. The last rank's line is the slowest of the first steps,
because the step waits for all. Ranks beside the first look for its port every 2 ms; torch itself would look once in a second."""
import os
import socket
import time

import torch
import torch.distributed as dist
from torch import nn

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
deadline = time.monotonic() + 60
while rank and time.monotonic() < deadline:
    try:
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=1).close()
        break
    except OSError:
        time.sleep(0.002)
dist.init_process_group("gloo", rank=rank, world_size=size)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loss = nn.functional.cross_entropy(model(torch.randn(64, 64)), torch.randint(0, 10, (64,)))
loss.backward()
optimizer.step()
print("rank", rank, "loss", float(loss), flush=True)
dist.barrier()
dist.destroy_process_group()
