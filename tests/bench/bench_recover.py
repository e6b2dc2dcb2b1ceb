"""Injects faults into a job on two hosts and times what follows; called by bench_recover.sh, which has a cluster of four hosts with one spare.

Times are milliseconds from the injection:
    alarm   hearthd has the exit of the rank, or suspects the node (its log)
    killed  the last rank of the attempt is dead (pidfds)
    lost    hearthd declares the node lost (its log); null: it did not need to
    step    the last rank of the next attempt has made its first step (the program's own time)
    begin   the last of those ranks has begun to run, the interpreter's start excluded
A large job has a source tree of 20 MB and requirements. A warm spare has worked ahead for it; a cold node fetches and builds at the launch.
Prints one JSON line a fault: mean, p50, p99 of each. mpirun alone: killed as above, ended: mpirun has ended.
"""
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
import zipfile
from datetime import datetime, timezone

CLUSTER, RUNS, LEASE, ONLY = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[5]
SPARE = "host4"
HEAD = json.loads(sys.argv[4])["head"]
JOBCTL = os.environ["HEARTH_TOP_BUILDDIR"] + "/jobctl/jobctl"
SPEC = {"name": "recover", "command": ["/usr/bin/python3", "-S", "-E", "rank.py"], "source_dir": CLUSTER + "/src", "launcher": "direct",
        "limits": {"grace_s": 2}, "resources": {"instances": 2, "gpus_per_instance": 1}}
PATIENCE = 40  # seconds


def die(text):
    print(f"bench_recover: {text}", file=sys.stderr)
    sys.exit(1)


def shell(verb, host):
    print(verb, host, flush=True)
    answer = sys.stdin.readline().strip()
    if answer != "ok":
        die(f"{verb} {host}: {answer}")


def hearth(*words):
    done = subprocess.run(["nsenter", "-t", HEAD, "-n", "-u", "-m", "-p", "-i", "env", "-u", "HEARTH_URL", "-u", "HEARTH_TOKEN", f"HOME={CLUSTER}/home",
                           JOBCTL, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        die(f"jobctl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def until(what, holds, seconds=PATIENCE, pause=0.05):
    end = time.time() + seconds
    while time.time() < end:
        got = holds()
        if got:
            return got
        time.sleep(pause)
    die(f"{what} did not come in {seconds} s")


# ---- ranks ------------------------------------------------------------------------------------------------------------
def environ(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)


def ranks(job, attempt):
    """Process of each rank, as this process sees them."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if b"rank.py" not in f.read():
                    continue
            env = environ(pid)
        except OSError:
            continue
        if env.get(b"HEARTH_JOB") == b"%d" % job and env.get(b"HEARTH_ATTEMPT") == b"%d" % attempt:
            found[int(env[b"RANK"])] = int(pid)
    return found


def lines(job, attempt, rank):
    try:
        with open(f"{CLUSTER}/side/{job}.{attempt}.{rank}") as f:
            return f.read().splitlines()
    except OSError:
        return []


def first_steps(job, attempt):
    """Begin and first step of the last rank of two; None: they have not made it."""
    both = [lines(job, attempt, r) for r in (0, 1)]
    if any(len(b) < 2 for b in both):
        return None
    return max(float(b[0].split()[1]) for b in both), max(float(b[1].split()[1]) for b in both)


def deaths(pids, seconds=PATIENCE):
    """Time at which the last of them has died."""
    poll, last = select.poll(), time.time()
    fds = []
    for pid in pids:
        try:
            fds.append(os.pidfd_open(pid))
        except ProcessLookupError:
            continue
        poll.register(fds[-1], select.POLLIN)
    left, end = len(fds), time.time() + seconds
    while left:
        for fd, _ in poll.poll(max(0, (end - time.time()) * 1000)):
            last = time.time()
            poll.unregister(fd)
            left -= 1
        if time.time() >= end and left:
            die("ranks are left alive")
    for fd in fds:
        os.close(fd)
    return last


# ---- hearthd ------------------------------------------------------------------------------------------------------------
def log_time(pattern, since):
    """Time of the first line of hearthd's log that matches, at or after `since`."""
    with open(f"{CLUSTER}/hearthd.log") as f:
        for line in f:
            if not re.search(pattern, line):
                continue
            at = datetime.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
            if at >= since - 0.001:
                return at
    return None


def nodes_up():
    nodes = json.loads(hearth("nodes", "--json"))["nodes"]
    return all(n["state"] == "up" and not n.get("suspect_since") for n in nodes)


def checkpointed(job):
    found = json.loads(hearth("checkpoints", str(job), "--json"))["checkpoints"]
    return any(c["complete"] and all(p["state"] == "verified" for p in c["places"]) for c in found)


def large_tree():
    """A source tree of 20 MB with requirements that no node has in its caches."""
    top = f"{CLUSTER}/large-{time.time_ns()}"
    shutil.copytree(f"{CLUSTER}/src", top)
    with open(f"{top}/weights", "wb") as f:
        f.write(os.urandom(20000000))
    with zipfile.ZipFile(f"{top}/tinyreq-1.0-py3-none-any.whl", "w") as z:
        z.writestr("tinyreq.py", "ANSWER = 42\n")
        z.writestr("tinyreq-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinyreq\nVersion: 1.0\n")
        z.writestr("tinyreq-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("tinyreq-1.0.dist-info/RECORD", "tinyreq.py,,\ntinyreq-1.0.dist-info/METADATA,,\ntinyreq-1.0.dist-info/WHEEL,,\ntinyreq-1.0.dist-info/RECORD,,\n")
    with open(f"{top}/requirements.txt", "w") as f:
        f.write(f"# {top}\n--no-index\n--find-links .\ntinyreq\n")
    return {"source_dir": top, "requirements": "requirements.txt"}


def prepared(job):
    """The spare has the trees and the environment of the job."""
    with open(f"{CLUSTER}/agent-{SPARE}.log") as f:
        text = f.read()
    return all(re.search(f"event={what} job={job} .*code=0 ", text) for what in ("prefetched", "env_ahead"))


def start_job(fault):
    with open(f"{CLUSTER}/recover.json", "w") as f:
        json.dump({**SPEC, "environment": {"RANK_CHILD": str(int("child" in fault))}, **(large_tree() if "large" in fault else {})}, f)
    job = int(hearth("submit", f"{CLUSTER}/recover.json").strip())
    until("a checkpoint outside of the node", lambda: checkpointed(job))
    if "warm" in fault:
        until("the work of the spare", lambda: prepared(job))
    return job


def pid_of(name):
    with open(f"{CLUSTER}/{name}") as f:
        return int(f.read())


# ---- faults: inject, what it kills by itself, heal ----------------------------------------------------------------------
def kill_rank(_host, pid):
    os.kill(pid, signal.SIGKILL)


def power_off(host, _pid):
    os.kill(pid_of(f"{host}/pid1"), signal.SIGKILL)


def kill_agent(host, _pid):
    os.kill(pid_of(f"agent-{host}.pid"), signal.SIGKILL)


FAULTS = {
    "rank killed": (kill_rank, r"event=ending job={job} ", None),
    "rank killed, a child holds its output": (kill_rank, r"event=ending job={job} ", None),
    "host off, reset": (power_off, r"event=node_suspect node={host} ", "host"),
    "host off, reset, large job, warm spare": (power_off, r"event=node_suspect node={host} ", "host"),
    "host off, reset, large job, cold node": (power_off, r"event=node_suspect node={host} ", "host"),
    "host cut, silent": (lambda host, _pid: shell("cut", host), r"event=node_suspect node={host} ", "heal"),
    "agent killed": (kill_agent, r"event=node_suspect node={host} ", "agent"),
}


def once(fault):
    inject, alarm, heal = FAULTS[fault]
    if "cold" in fault:
        hearth("node", "spare", SPARE, "--off")
    job = start_job(fault)
    host = json.loads(hearth("show", str(job), "--json"))["attempts"][0]["nodes"][1]
    procs = ranks(job, 1)
    if len(procs) != 2:
        die(f"job {job} has ranks {sorted(procs)}")
    start = time.time()
    inject(host, procs[1])
    begun = time.time() if heal == "heal" else start
    killed = deaths(procs.values())
    begin, step = until("the next attempt", lambda: first_steps(job, 2))
    found = {"alarm": log_time(alarm.format(job=job, host=host), start), "killed": killed,
             "lost": log_time(f"event=node_lost node={host} ", start), "begin": begin, "step": step}
    hearth("stop", str(job))
    until("its end", lambda: json.loads(hearth("show", str(job), "--json"))["status"] == "stopped")
    if heal:
        shell(heal, host)
    until("all nodes", nodes_up)
    if "cold" in fault:
        hearth("node", "spare", SPARE)
    return {k: (v - begun) * 1000 for k, v in found.items() if v is not None}


# ---- mpirun ---------------------------------------------------------------------------------------------------------------
def sleepers(word):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if f.read() == b"sleep\0" + word.encode() + b"\0":
                    found.append(int(pid))
        except OSError:
            continue
    return found


def mpirun_once(more):
    word = "98761234"
    command = ["nsenter", "-t", HEAD, "-n", "-u", "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", f"{CLUSTER}/rsh", "--mca", "oob_tcp_if_include",
               "eth0", *more, "-np", "2", "--host", "host1:1,host2:1", "sleep", word]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    until("ranks of mpirun", lambda: len(sleepers(word)) == 2, 20)
    time.sleep(0.5)
    pids = sleepers(word)
    start = time.time()
    os.kill(pids[1], signal.SIGKILL)
    killed = deaths(pids, 20)
    process.wait(timeout=20)
    return {"killed": (killed - start) * 1000, "ended": (time.time() - start) * 1000}


# ---- output -----------------------------------------------------------------------------------------------------------------
def report(what, samples):
    line = {"bench": "recover", "what": what, "lease_s": str(LEASE), "runs": len(samples)}
    for key in ("alarm", "killed", "lost", "begin", "step", "ended"):
        ms = sorted(s[key] for s in samples if key in s)
        if ms:
            line[key] = {"mean_ms": round(statistics.mean(ms), 1), "p50_ms": round(statistics.median(ms), 1), "p99_ms": round(ms[-1 - len(ms) // 100], 1)}
    print(json.dumps(line), flush=True)


def main():
    for fault in filter(lambda name: ONLY in name, FAULTS):
        report(fault, [once(fault) for _ in range(RUNS)])
    if ONLY in "mpirun alone" and subprocess.run(["which", "mpirun"], capture_output=True).returncode == 0:
        report("mpirun alone, rank killed", [mpirun_once([]) for _ in range(RUNS)])
        report("mpirun alone, rank killed, odls_base_sigkill_timeout 0", [mpirun_once(["--mca", "odls_base_sigkill_timeout", "0"]) for _ in range(RUNS)])
    print("end", flush=True)


main()
