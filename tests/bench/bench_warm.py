"""Starts on warm pools beside cold ones and beside peers on the same hosts in the same run. Called by bench_warm.sh, which brings the hosts up.

A series is (what, hosts, launcher). Each of its runs is one of
  cold         no pool
  environment  the pool of the run before, taken at once: nothing is parked yet
  parked       the pool of the run before, taken when its launch is parked
The clock starts when the HTTP request is written (peers: when the command is started; "jobctl": when jobctl is executed), and stops when the first byte
of rank 0's output arrives at the reader. Programs of MPI and torch print after a step in which all ranks took part. A run whose level is not the one it
is to measure is counted apart (`other_level`), never dropped in silence.

Prints JSON lines: medians and p99 in ms, ratios to peers.
"""
import json
import os
import statistics
import subprocess
import sys
import time

from unixhttp import UnixConnection

ENDED = ("completed", "failed", "stopped")
PARKED_LEVELS = ("launch", "interpreter")


class Hearth:
    def __init__(self, sock):
        self.sock = sock

    def call(self, method, path, body=None, connection=None):
        c = connection or UnixConnection(self.sock)
        c.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = c.getresponse()
        data = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {data.decode()}")
        return json.loads(data) if data else None

    def first_byte(self, job, log, deadline):
        while time.perf_counter() < deadline:
            log.request("GET", f"/api/v1/jobs/{job}/logs/rank-0?offset=0&follow=1")
            answer = log.getresponse()
            if answer.status == 200 and answer.read1(1):
                return time.perf_counter()
            answer.read()
            time.sleep(0.0005)
            if time.perf_counter() > deadline - 30 and self.call("GET", f"/jobs/{job}")["status"] in ENDED:
                break
        sys.exit(f"job {job} printed nothing: {self.call('GET', f'/jobs/{job}').get('failure')}")

    def end(self, job):
        deadline = time.perf_counter() + 120
        while time.perf_counter() < deadline:
            got = self.call("GET", f"/jobs/{job}")
            if got["status"] in ENDED:
                if got["status"] != "completed":
                    sys.exit(f"job {job} ended {got['status']}: {got.get('failure')}")
                return got
            time.sleep(0.01)
        sys.exit(f"job {job} did not end")

    def run(self, spec):
        """Returns (seconds, level, job)."""
        api, log = UnixConnection(self.sock), UnixConnection(self.sock)
        api.connect()
        log.connect()
        start = time.perf_counter()
        job = self.call("POST", "/jobs", {"spec": json.dumps(spec)}, api)["id"]
        took = self.first_byte(job, log, start + 60) - start
        log.close()
        got = self.end(job)
        pool = got["attempts"][-1].get("pool")
        return took, pool["level"] if pool else "cold", got

    def wait_parked(self, seconds=60):
        """Waits until the one pool is parked; False: it is not going to be."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            pools = [p for p in self.call("GET", "/pools")["pools"] if p["state"] == "available"]
            if pools:
                parked = self.call("GET", f"/pools/{pools[0]['id']}").get("parked") or {}
                if parked.get("state") == "parked":
                    return True
                if parked.get("state") == "failed":
                    return False
            time.sleep(0.01)
        return False

    def drop_all(self):
        for p in self.call("GET", "/pools")["pools"]:
            self.call("DELETE", f"/pools/{p['id']}")
        deadline = time.perf_counter() + 60
        while self.call("GET", "/pools")["pools"] and time.perf_counter() < deadline:
            time.sleep(0.02)


def put(**fields):
    print(json.dumps({"bench": "warm", **fields}), flush=True)


def report(what, hosts, state, samples, **more):
    if not samples:
        put(what=what, hosts=hosts, state=state, runs=0, **more)
        return None
    ms = sorted(s * 1000 for s in samples)
    median = statistics.median(ms)
    put(what=what, hosts=hosts, state=state, runs=len(ms), median_ms=round(median, 1), min_ms=round(ms[0], 1),
        p99_ms=round(ms[min(len(ms) - 1, int(len(ms) * 0.99))], 1), max_ms=round(ms[-1], 1), **more)
    return median


def peer(command, runs):
    samples = []
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not process.stdout.read(1):
            sys.exit(f"{command[:4]} printed nothing")
        samples.append(time.perf_counter() - start)
        process.communicate()
        if process.returncode:
            sys.exit(f"{command[:4]} ended with {process.returncode}")
    return samples


def warm_series(hearth, spec, runs, parked, idle_s=0):
    """One first run makes the pool; returns (samples at the wanted level, {other level: count}, job of the last run)."""
    hearth.drop_all()
    last = hearth.run(spec)[2]
    samples, other = [], {}
    for _ in range(runs):
        if parked and not hearth.wait_parked():
            return samples, {"not parked": 1, **other}, last
        if idle_s:
            time.sleep(idle_s)
        took, level, last = hearth.run(spec)
        if (level in PARKED_LEVELS) == parked and level != "cold":
            samples.append(took)
        else:
            other[level] = other.get(level, 0) + 1
    hearth.drop_all()
    return samples, other, last


def series(hearth, what, hosts, spec, runs, peers, peer_runs, idle_s):
    cold = dict(spec)
    del cold["warm_pool"]
    hearth.drop_all()
    hearth.run(cold)  # caches of the machine
    medians = {"cold": report(what, hosts, "cold", [hearth.run(cold)[0] for _ in range(max(3, runs // 4))])}
    for state, parked in (("environment", False), ("parked", True)):
        samples, other, last = warm_series(hearth, spec, runs, parked)
        medians[state] = report(what, hosts, state, samples, other_level=other)
        if parked:
            phases = [{k: p[k] for k in ("name", "seconds") if k in p} for p in last["attempts"][-1].get("phases", [])]
            put(what=what, hosts=hosts, state=state, phases=phases)
    if idle_s:
        samples, other, _ = warm_series(hearth, spec, 1, True, idle_s)
        report(what, hosts, f"parked, after {idle_s} idle s", samples, other_level=other)
    for name, command in peers:
        medians[name] = report(what, hosts, name, peer(command, peer_runs))
    for name, took in medians.items():
        if name != "parked" and took and medians["parked"]:
            put(what=what, hosts=hosts, ratio=f"parked / {name}", value=round(medians["parked"] / took, 3))


def main():
    sock, runs, idle_s = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ring, ddp = sys.argv[4], sys.argv[5]
    hosts_list = [int(n) for n in os.environ.get("BENCH_HOSTS", "1 2 4").split()]
    head = json.loads(os.environ["BENCH_HEAD"])  # command prefix: run on the head host
    ssh = json.loads(os.environ["BENCH_SSH_MCA"])
    slurm = json.loads(os.environ.get("BENCH_SLURM", "null"))
    hearth = Hearth(sock)
    for hosts in hosts_list:
        names = ",".join(f"host{i}:1" for i in range(1, hosts + 1))
        mpirun = head + ["mpirun", "--allow-run-as-root", *ssh, "--host", names, "-np", str(hosts)]
        srun = slurm and slurm + ["srun", "-N", str(hosts), "-n", str(hosts)]
        pool = {"keep_alive_s": 3600}
        resources = {"instances": hosts}
        for what, launcher, command, warm in (("line", "direct", ["/bin/echo", "hello"], pool), ("line", "mpirun", ["/bin/echo", "hello"], pool),
                                              ("mpi", "mpirun", [ring], pool),
                                              ("torch", "mpirun", ["/usr/bin/python3", ddp], {**pool, "preload": ["torch", "torch.distributed"]})):
            spec = {"name": f"bench-{what}-{hosts}", "command": command, "launcher": launcher, "resources": resources, "warm_pool": warm}
            peers = []
            if launcher == "mpirun" and what != "torch":
                peers.append(("mpirun over sshd", mpirun + command))
            if srun and what == "line":
                peers.append(("srun", srun + command))
            if srun and what == "mpi":
                peers.append(("srun --mpi=pmix", srun + ["--mpi=pmix"] + command))
            few = what == "torch"
            series(hearth, f"{what}, {launcher}", hosts, spec, max(5, runs // 2) if few else runs, peers, 5, idle_s if hosts == 2 else 0)


main()
