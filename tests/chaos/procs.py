#!/usr/bin/python3
"""procs: what runs on the hosts of a cluster (tests/lib/cluster.sh), one line a process:

    HOST PID KIND LAUNCH RANK COMMAND...

PID as the caller's namespace counts. KIND: init, agent, hearthd, hold, shim (of a rank), shim-orted, shim-mpirun,
rank, orted, mpirun, rsh, stub, other. LAUNCH is JOB.ATTEMPT, RANK a number; "-" where there is none or it is not
known (yet). A process is told by its pid namespace and by the shim above it, never by its name alone.

    procs.py CLUSTER [HOST]
"""
import os
import re
import sys

SHIM_DIR = re.compile(r"/(\d+\.\d+)/([a-z]+)(?:-(\d+))?$")


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


class Process:
    def __init__(self, pid, host):
        self.pid, self.host = pid, host
        self.argv = read("/proc/%d/cmdline" % pid).decode(errors="replace").split("\0")[:-1]
        stat = read("/proc/%d/stat" % pid).decode(errors="replace")
        self.comm = stat[stat.find("(") + 1:stat.rfind(")")]
        rest = stat[stat.rfind(")") + 2:].split()
        self.state, self.ppid = (rest[0], int(rest[1])) if len(rest) > 1 else ("?", 0)
        self.kind, self.launch, self.rank = "other", "-", "-"

    def environ(self, name):
        for entry in read("/proc/%d/environ" % self.pid).split(b"\0"):
            if entry.startswith(name.encode() + b"="):
                return entry[len(name) + 1:].decode(errors="replace")
        return None

    def shim_of(self):
        if self.argv and os.path.basename(self.argv[0]) == "hearth-shim" and "--dir" in self.argv:
            return SHIM_DIR.search(self.argv[self.argv.index("--dir") + 1])
        return None


def hosts_of(cluster, only):
    out = {}
    for host in sorted(os.listdir(cluster)):
        pid1 = read(os.path.join(cluster, host, "pid1")).strip()
        if pid1 and only in (None, host):
            try:
                out[os.stat("/proc/%d/ns/pid" % int(pid1)).st_ino] = (host, int(pid1))
            except OSError:
                pass  # switched off
    return out


def name_kinds(procs):
    names = {"hearth-agent": "agent", "hearthd": "hearthd", "hearth-hold": "hold", "hearth-rsh": "rsh",
             "hearth-rank": "stub"}
    for p in procs.values():
        base = os.path.basename(p.argv[0]) if p.argv else p.comm
        p.kind = names.get(base, p.kind)
        m = p.shim_of()
        if m:
            p.kind, p.launch = ("shim" if m.group(2) == "rank" else "shim-" + m.group(2)), m.group(1)
    for p in procs.values():
        m = procs[p.ppid].shim_of() if p.ppid in procs else None
        # Before it executes its program the child of a shim looks like a shim.
        if m and p.kind != "shim" and not p.shim_of():
            p.kind = m.group(2)
            if p.kind == "rank":
                p.rank = p.environ("RANK") or "-"
                procs[p.ppid].rank = p.rank
        if p.kind == "stub":
            p.rank = p.environ("OMPI_COMM_WORLD_RANK") or "-"
        up, steps = p, 0
        while p.launch == "-" and up.ppid in procs and steps < 50:
            up, steps = procs[up.ppid], steps + 1
            p.launch = up.launch if up.kind.startswith("shim") else "-"


def main(argv):
    hosts = hosts_of(argv[1], argv[2] if len(argv) > 2 else None)
    procs = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            ns = os.stat("/proc/%s/ns/pid" % entry).st_ino
        except OSError:
            continue
        if ns in hosts:
            p = Process(int(entry), hosts[ns][0])
            if p.state not in ("Z", "?"):
                procs[p.pid] = p
    for host, pid1 in hosts.values():
        if pid1 in procs:
            procs[pid1].kind = "init"
        for p in procs.values():
            # The first process of a host waits in a sleep.
            if p.ppid == pid1 and p.argv == ["sleep", "3600"]:
                p.kind = "init"
    name_kinds(procs)
    for p in sorted(procs.values(), key=lambda p: (p.host, p.pid)):
        print(p.host, p.pid, p.kind, p.launch, p.rank, " ".join(p.argv)[:200].replace("\n", " ") or p.comm)


if __name__ == "__main__":
    main(sys.argv)
