#!/usr/bin/env python3
"""The training loop of bench_keep.sh: bench_keep.py SECONDS MB EVERY [plain]: prints "result {...}" as JSON."""
import hashlib
import json
import os
import sys
import time

seconds, mb, every = (float(x) for x in sys.argv[1:4])
top = os.environ["HEARTH_CHECKPOINT_DIR"]
if sys.argv[4:] == ["plain"]:
    top = os.path.dirname(top) + "/plain"
    os.mkdir(top)
data = os.urandom(1 << 20)
block = b"x" * 200000
begin = saved = time.monotonic()
steps, save_s, cpu = 0, 0.0, time.process_time()
step_s = cpu_s = 0.0
while time.monotonic() - begin < seconds:
    t, c = time.monotonic(), time.process_time()
    for _ in range(20):
        hashlib.sha256(block).digest()
    steps += 1
    step_s += time.monotonic() - t
    cpu_s += time.process_time() - c
    if steps % 100 == 0:
        print("step=%d loss=%.4f" % (steps, 1 + 1 / steps), flush=True)
    if time.monotonic() - saved >= every:
        saved = time.monotonic()
        with open("%s/model_%d.pt.tmp" % (top, steps), "wb") as f:
            for _ in range(int(mb)):
                f.write(data)
        os.rename("%s/model_%d.pt.tmp" % (top, steps), "%s/model_%d.pt" % (top, steps))
        save_s += time.monotonic() - saved
        for old in sorted((os.path.getmtime(os.path.join(top, n)), n) for n in os.listdir(top))[:-2]:
            os.remove(os.path.join(top, old[1]))
result = {"steps": steps, "all_s": time.monotonic() - begin, "step_us": step_s / steps * 1e6, "cpu_us": cpu_s / steps * 1e6, "save_s": save_s}
print("result", json.dumps({k: round(v, 3) for k, v in result.items()}), flush=True)
