"""Interpreters that wait: from go to the first line, from go to the first step of DistributedDataParallel, memory, CPU.

    bench_park.py [RUNS [IDLE-SECONDS]]

Starts hearth-park without shim and agent, with the modules torch and torch.distributed, and sends the frame itself.
The same programs in new interpreters are what to compare with. Ranks meet by gloo on the loopback. Prints JSON lines.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/unit/agent/stubs"))
from park_kit import Parked  # noqa: E402

PARK = os.path.join(TOP, "agent/stubs/park.py")
PYTHON = "/usr/bin/python3"
MODULES = ["torch", "torch.distributed"]
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
       "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
LINE = "print('line', flush=True)\n"
STEP = """import os, socket, time, torch, torch.distributed as dist, torch.nn as nn
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
while rank:
    try: socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])), timeout=1).close(); break
    except OSError: time.sleep(.002)
dist.init_process_group('gloo', rank=rank, world_size=world)
m = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
o = torch.optim.SGD(m.parameters(), .1); x = torch.randn(64, 64); y = torch.randint(0, 10, (64,))
l = nn.functional.cross_entropy(m(x), y); l.backward(); o.step()
print('step', float(l), flush=True)
os._exit(0)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def one_run(folder, script, ranks, parked):
    """Milliseconds from go to the line of every rank."""
    port, argv = str(free_port()), [PYTHON, script]
    envs = [dict(ENV, RANK=str(r), WORLD_SIZE=str(ranks), MASTER_PORT=port) for r in range(ranks)]
    if parked:
        waiting = [Parked(PARK, PYTHON, MODULES, (), ENV, "/", stderr=subprocess.DEVNULL) for _ in range(ranks)]
        time.sleep(.3)
        begin = time.monotonic()
        for p, env in zip(waiting, envs):
            if p.go(argv, env, folder) != b"g":
                sys.exit("the interpreter was not used")
        processes = [p.process for p in waiting]
    else:
        begin = time.monotonic()
        processes = [subprocess.Popen(argv, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for env in envs]
    lines = [p.stdout.readline() for p in processes]
    took = (time.monotonic() - begin) * 1e3
    for p in processes:
        p.communicate()
    if not all(lines):
        sys.exit("a rank printed nothing")
    return took


def memory_of(pid):
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as f:
        fields = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in f if line.endswith("kB\n")}
    return {"rss_mb": round(fields["Rss"]), "pss_mb": round(fields["Pss"]), "private_mb": round(fields["Private_Dirty"])}


def cpu_ms(pid):
    with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e6


def main():
    runs, idle = (int(sys.argv[1]) if len(sys.argv) > 1 else 10), (float(sys.argv[2]) if len(sys.argv) > 2 else 60)
    with tempfile.TemporaryDirectory(prefix="benchpark") as folder:
        for name, text in (("line.py", LINE), ("step.py", STEP)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as f:
                f.write(text)
        for what, script, ranks in (("first line", "line.py", 1), ("first step", "step.py", 1), ("first step", "step.py", 2)):
            for parked in (True, False):
                took = sorted(one_run(folder, script, ranks, parked) for _ in range(runs))
                print(json.dumps({"bench": "park", "what": what, "waits": parked, "jobs": ranks, "runs": runs,
                                  "median_ms": round(statistics.median(took), 2), "min_ms": round(took[0], 2),
                                  "max_ms": round(took[-1], 2)}), flush=True)
        begin = time.monotonic()
        p = Parked(PARK, PYTHON, MODULES, (), ENV, "/", stderr=subprocess.DEVNULL)
        ready, before = time.monotonic() - begin, cpu_ms(p.process.pid)
        time.sleep(idle)
        print(json.dumps({"bench": "park", "what": "waiting", "ready_ms": round(ready * 1e3), "seconds": idle,
                          "idle_cpu_ms": round(cpu_ms(p.process.pid) - before, 3), **memory_of(p.process.pid)}), flush=True)
        p.drop()


if __name__ == "__main__":
    main()
