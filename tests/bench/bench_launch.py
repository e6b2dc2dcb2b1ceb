"""Cold launch: submit -> first line of rank 0, and mpirun over sshd on the same hosts in the same run, in two ways: plain, as somebody starts it
from the head, and "alike", with the options and MCA settings that Hearth gave its own mpirun and, like it, from the first of the hosts.
What Hearth is faster by than the first is mostly settings; the rest of its time over the second one is its own.

Called by bench_launch.sh, which brings the hosts up. Prints one JSON line a series. The clock starts when the HTTP request is written (for mpirun:
when it is started) and stops when the first byte of rank 0's output arrives at the follower (at mpirun's standard output).
"""
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time

from unixhttp import UnixConnection


def call(connection, method, path, body=None):
    connection.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    if answer.status >= 300:
        sys.exit(f"{method} {path}: {answer.status} {data.decode()}")
    return json.loads(data) if data else None


def words_of_hearth(sock, job):
    """The options of the mpirun that Hearth started for that job, without its way to the other hosts."""
    c = UnixConnection(sock)
    c.request("GET", f"/api/v1/jobs/{job}/logs/system?node=algo-1")
    answer = c.getresponse()
    text = answer.read().decode()
    line = re.search(r"mpirun: (mpirun .*)", text)
    if answer.status != 200 or not line:
        sys.exit(f"job {job}: no mpirun line in its system log: {answer.status} {text[:300]}")
    words = shlex.split(line.group(1))
    words = words[1:words.index("--host")]
    at = words.index("plm_rsh_agent")
    return words[:at - 1] + words[at + 2:]


def hearth_once(sock, spec, started=None):
    api, log = UnixConnection(sock), UnixConnection(sock)
    api.connect()
    log.connect()
    start = time.perf_counter()
    job = call(api, "POST", "/jobs", {"spec": json.dumps(spec)})["id"]
    deadline = start + 60
    while time.perf_counter() < deadline:
        log.request("GET", f"/api/v1/jobs/{job}/logs/rank-0?offset=0&follow=1")
        answer = log.getresponse()
        if answer.status == 200 and answer.read1(1):
            took = time.perf_counter() - start
            break
        answer.read()
        time.sleep(0.001)
    else:
        sys.exit(f"job {job} printed nothing in 60 s")
    log.close()
    if started is not None:
        started.append(job)
    while call(api, "GET", f"/jobs/{job}")["status"] not in ("completed", "failed", "stopped"):
        time.sleep(0.01)
    status = call(api, "GET", f"/jobs/{job}")["status"]
    if status != "completed":
        sys.exit(f"job {job} ended {status}")
    return took


def mpirun_once(command):
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if not process.stdout.read(1):
        sys.exit("mpirun printed nothing")
    took = time.perf_counter() - start
    process.communicate()
    if process.returncode:
        sys.exit(f"mpirun ended with {process.returncode}")
    return took


def report(what, hosts, samples, **more):
    ms = sorted(s * 1000 for s in samples)
    print(json.dumps({"bench": "launch", "what": what, "hosts": hosts, "runs": len(ms), "median_ms": round(statistics.median(ms), 1),
                      "min_ms": round(ms[0], 1), "max_ms": round(ms[-1], 1), **more}), flush=True)
    return statistics.median(ms)


def main():
    sock, runs = sys.argv[1], int(sys.argv[2])
    program = sys.argv[3]  # prints one line a rank after MPI_Init and an Allreduce
    head = json.loads(os.environ["BENCH_HEAD"])  # command prefix: run on the head host
    first = json.loads(os.environ["BENCH_FIRST"])  # on the first of the hosts
    agent = os.environ["BENCH_SSH_AGENT"]
    ssh = json.loads(os.environ["BENCH_SSH_MCA"])
    for hosts in (1, 2, 4):
        for name, launcher, command in (("echo", "direct", ["/bin/echo", "hello"]), ("echo", "mpirun", ["/bin/echo", "hello"]), ("mpi", "mpirun", [program])):
            spec = {"name": f"bench-{name}-{hosts}", "command": command, "launcher": launcher, "resources": {"instances": hosts}}
            started = []
            hearth_once(sock, spec, started)  # warm up
            ours = report(f"hearth {launcher} {name}", hosts, [hearth_once(sock, spec) for _ in range(runs)])
            if launcher == "mpirun":
                names = ",".join(f"host{i}:1" for i in range(1, hosts + 1))
                plain = head + ["mpirun", "--allow-run-as-root", *ssh, "--host", names, "-np", str(hosts), *command]
                theirs = report(f"mpirun over sshd {name}", hosts, [mpirun_once(plain) for _ in range(runs)])
                names = ",".join(["localhost:1"] + [f"host{i}:1" for i in range(2, hosts + 1)])
                alike = first + ["mpirun", "--mca", "plm_rsh_agent", agent, *words_of_hearth(sock, started[0]), "--host", names, "-np", str(hosts), *command]
                mpirun_once(alike)
                same = report(f"mpirun over sshd, alike, {name}", hosts, [mpirun_once(alike) for _ in range(runs)])
                for peer, took in (("mpirun over sshd", theirs), ("mpirun over sshd, alike", same)):
                    print(json.dumps({"bench": "launch", "what": f"ratio hearth / {peer}, {name}", "hosts": hosts, "ratio": round(ours / took, 3)}), flush=True)


main()
