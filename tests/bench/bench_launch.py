"""Cold launch: submit -> first line of rank 0, and plain mpirun over sshd on the same hosts in the same run.

Called by bench_launch.sh, which brings the hosts up. Prints one JSON line a series. The clock starts when the HTTP request is written (for mpirun:
when it is started) and stops when the first byte of rank 0's output arrives at the follower (at mpirun's standard output).
"""
import json
import os
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


def hearth_once(sock, spec):
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
    ssh = json.loads(os.environ["BENCH_SSH_MCA"])
    for hosts in (1, 2, 4):
        for name, launcher, command in (("echo", "direct", ["/bin/echo", "hello"]), ("echo", "mpirun", ["/bin/echo", "hello"]), ("mpi", "mpirun", [program])):
            spec = {"name": f"bench-{name}-{hosts}", "command": command, "launcher": launcher, "resources": {"instances": hosts}}
            hearth_once(sock, spec)  # warm up
            ours = report(f"hearth {launcher} {name}", hosts, [hearth_once(sock, spec) for _ in range(runs)])
            if launcher == "mpirun":
                names = ",".join(f"host{i}:1" for i in range(1, hosts + 1))
                plain = head + ["mpirun", "--allow-run-as-root", *ssh, "--host", names, "-np", str(hosts), *command]
                theirs = report(f"mpirun over sshd {name}", hosts, [mpirun_once(plain) for _ in range(runs)])
                print(json.dumps({"bench": "launch", "what": f"ratio hearth / mpirun over sshd, {name}", "hosts": hosts, "ratio": round(ours / theirs, 3)}), flush=True)


main()
