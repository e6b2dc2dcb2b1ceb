"""Prints numbered lines with a loss, waits at line 100 until the file `go` is in its channel `side`, prints on."""
import os
import sys
import time

rank = int(os.environ["RANK"])
go = os.path.join(os.environ["SM_CHANNEL_SIDE"], "go")
for i in range(1, 301):
    print("rank %d line %d loss=%.4f \u00e4\u2713" % (rank, i, 1 / i), flush=True)
    if i % 50 == 0:
        print("rank %d warning %d" % (rank, i), file=sys.stderr, flush=True)
    if i == 100:
        deadline = time.monotonic() + 60
        while not os.path.exists(go) and time.monotonic() < deadline:
            time.sleep(0.01)
print("rank %d end" % rank, flush=True)
