"""Log throughput: rank -> disk of its node, and rank -> follower over the raw endpoint.

    bench_log.py BUILD [MEGABYTES]

Brings up a local cluster of one node in a home of its own. The job writes lines of 100 bytes as fast as they are taken
and says on its last line how long that took: rank -> disk. Beside it a reader follows the log over HTTP from the
start: rank -> follower, from the first byte to the last. Then the same with nobody reading, and with three metric
patterns that find nothing, so that each line is searched three times. Prints JSON lines, with the CPU time that a byte
costs each program on the way. The job completes when all of its log is searched.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from unixhttp import UnixConnection

LINE = b"step=000017 loss=0.123456 lr=0.001000 throughput=1234.5 images/s gpu=0.98 mem=12.3GiB time=0.1234 ok.....\n"[:99] + b"\n"


def call(sock, method, path, body=None):
    connection = UnixConnection(sock)
    connection.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def must(sock, method, path, body=None):
    status, data = call(sock, method, path, body)
    if status >= 300:
        sys.exit(f"{method} {path}: {status} {data[:300]}")
    return data


def programs(build):
    """CPU seconds so far of hearthd, agent and shim of this build."""
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            exe = os.readlink(f"/proc/{pid}/exe")
            if not exe.startswith(build + "/"):
                continue
            fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        name = os.path.basename(exe).removeprefix("lt-")
        used[name] = used.get(name, 0) + (int(fields[11]) + int(fields[12])) / ticks
    return used


def follow(sock, job):
    while True:
        connection = UnixConnection(sock)
        connection.request("GET", f"/api/v1/jobs/{job}/logs/rank-0?offset=0&follow=1&skip=0")
        answer = connection.getresponse()
        if answer.status == 200:
            break
        answer.read()
        connection.close()
        time.sleep(0.005)
    first = last = None
    total = 0
    tail = b""
    while True:
        piece = answer.read1(1 << 20)
        if not piece:
            break
        last = time.perf_counter()
        first = first or last
        total += len(piece)
        tail = (tail + piece)[-200:]
    return total, last - first, tail


def ended(sock, job):
    while True:
        status = json.loads(must(sock, "GET", f"/jobs/{job}"))["status"]
        if status in ("completed", "failed", "stopped"):
            return status
        time.sleep(0.05)


def wait_cleaned(sock, job):
    """The node cleans up when hearthd has its log and its log is searched."""
    while not any(e["type"] == "node_cleaned" for e in json.loads(must(sock, "GET", f"/jobs/{job}/events?limit=1000"))["events"]):
        time.sleep(0.05)


PATTERNS = [{"name": "val_loss", "regex": "val_loss[=:] *([0-9.eE+-]+)"}, {"name": "epoch", "regex": "epoch ([0-9]+)"},
            {"name": "accuracy", "regex": "(?:acc|accuracy)=([0-9.]+)%"}]


def once(build, sock, lines, copies, with_follower, metrics=()):
    spec = {"name": "bench-log", "launcher": "direct", "metrics": list(metrics),
            "command": ["/bin/sh", "-c", f"s=$(date +%s%N); cat {' '.join([lines] * copies)}; e=$(date +%s%N); echo took=$((e - s))"]}
    before, start = programs(build), time.perf_counter()
    job = json.loads(must(sock, "POST", "/jobs", {"spec": json.dumps(spec)}))["id"]
    size = os.path.getsize(lines) * copies
    follower = None
    if with_follower:
        total, seconds, tail = follow(sock, job)
        if total < size:
            sys.exit(f"the follower got {total} bytes of {size}: {tail!r}")
        follower = size / seconds / 1e6
    if ended(sock, job) != "completed":
        sys.exit(f"job {job} did not complete")
    deadline = time.perf_counter() + 300
    while True:
        status, tail = call(sock, "GET", f"/jobs/{job}/logs/rank-0?offset=-100")
        took = re.search(rb"took=(\d+)\n$", tail) if status == 200 else None
        if took:
            break
        if time.perf_counter() > deadline:
            sys.exit(f"the end of the log did not come: {status} {tail!r}")
        time.sleep(0.02)
    at_hearthd = time.perf_counter() - start
    wait_cleaned(sock, job)
    searched = time.perf_counter() - start
    used = programs(build)
    cpu = {name: round((used[name] - before.get(name, 0)) * 1e9 / size, 1) for name in sorted(used) if used[name] > before.get(name, 0)}
    print(json.dumps({"bench": "log", "follower": with_follower, "mb": round(size / 1e6), "rank_to_disk_mb_s": round(size / (int(took[1]) / 1e9) / 1e6, 1),
                      "rank_to_follower_mb_s": follower and round(follower, 1), "submit_to_all_at_hearthd_s": round(at_hearthd, 2), "patterns": len(metrics),
                      "submit_to_all_searched_s": round(searched, 2), "cpu_ns_a_byte": cpu}), flush=True)


def main():
    build = os.path.realpath(sys.argv[1])
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else 512
    home = tempfile.mkdtemp(prefix="hbl", dir="/var/tmp")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HEARTH_", "XDG_"))} | {"HOME": home}
    jobctl = f"{build}/jobctl/jobctl"
    lines = f"{home}/lines"
    with open(lines, "wb") as f:
        f.write(LINE * (32 * 1000 * 1000 // len(LINE)))
    try:
        subprocess.run([jobctl, "local", "up", "--nodes", "1"], env=env, check=True, stdout=subprocess.DEVNULL)
        sock = f"{home}/.local/share/hearth/local/hearthd/hearthd.sock"
        for with_follower in (True, False, True, False):
            once(build, sock, lines, max(1, megabytes // 32), with_follower)
        once(build, sock, lines, max(1, megabytes // 32), False, PATTERNS)
    finally:
        subprocess.run([jobctl, "local", "down"], env=env, stdout=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", "--one-file-system", home])


main()
