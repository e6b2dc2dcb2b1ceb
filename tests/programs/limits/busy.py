"""Four busy processes for two seconds; says how many CPUs they used together, and whether that is at most the share (with a tenth for measuring)."""
import os
import resource
import time

share = len(os.sched_getaffinity(0))
children = []
began = time.monotonic()
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        while time.monotonic() - began < 2:
            pass
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
took = time.monotonic() - began
u = resource.getrusage(resource.RUSAGE_CHILDREN)
used = (u.ru_utime + u.ru_stime) / took
asked = int(os.environ["OMP_NUM_THREADS"])
print("share=%d used=%.2f %s" % (share, used, "ok" if used <= asked * 1.1 else "too much"))
