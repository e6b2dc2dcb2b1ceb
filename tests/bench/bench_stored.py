"""A controller with many stored jobs: start to serving, lists, submits.

    bench_stored.py BUILD [ENDED [RUNNING [SECONDS]]]

Makes a store (bench_fill), starts hearthd on it, kills it with SIGKILL and starts it again; then asks for lists over
HTTP and submits. Start is from exec to the first 200 of GET /healthz, which the state thread gives
when all is loaded. Prints JSON lines. Needs a few
GB below TMPDIR for a million jobs.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from unixhttp import UnixConnection


def say(**line):
    print(json.dumps(line), flush=True)


def status(pid, name):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(name + ":"))


def get(connection, target):
    connection.request("GET", target if target == "/healthz" else "/api/v1" + target)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit(f"GET {target}: {answer.status} {body[:300]}")
    return json.loads(body)


class Hearthd:
    def __init__(self, build, data):
        self.program, self.data = f"{build}/controller/hearthd", data
        self.sock = f"{data}/hearthd.sock"

    def start(self):
        begin = time.perf_counter()
        with open(f"{self.data}.log", "a") as log:
            self.process = subprocess.Popen([self.program, "--data", self.data, "--listen", "127.0.0.1:0"], stdout=log, stderr=log)
        while True:
            try:
                connection = UnixConnection(self.sock)
                get(connection, "/healthz")
                connection.close()
                return time.perf_counter() - begin
            except (ConnectionError, FileNotFoundError):
                if self.process.poll() is not None:
                    sys.exit(f"hearthd ended: see {self.data}.log")
                if time.perf_counter() - begin > 300:
                    sys.exit("hearthd does not serve")
                time.sleep(0.002)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


LISTS = {
    "newest 100": "/jobs?limit=100",
    "running": "/jobs?status=running&limit=100",
    "failed": "/jobs?status=failed&limit=100",
    "owner": "/jobs?owner=user7&limit=100",
    "owner and failed": "/jobs?owner=user7&status=failed&limit=100",
    "name": "/jobs?name=train-77&limit=100",
    "name prefix": "/jobs?name=train-77*&limit=100",
    "experiment": "/jobs?experiment=sweep&limit=100",
    "tag": "/jobs?tag=team:team7&limit=100",
    "tag and failed": "/jobs?tag=team:team7&status=failed&limit=100",
    "one job": "/jobs/1234",
    "deep page": "/jobs?limit=100&before=1000",
    "nobody's": "/jobs?owner=nobody&limit=100",
}


def lists(sock, stored, runs):
    connection = UnixConnection(sock)
    for name, target in LISTS.items():
        took = []
        found = 0
        for _ in range(runs):
            begin = time.perf_counter()
            answer = get(connection, target)
            took.append((time.perf_counter() - begin) * 1000)
            found = len(answer.get("jobs", [answer]))
        took.sort()
        say(bench="list", what=name, stored=stored, found=found, median_ms=round(took[len(took) // 2], 2), p95_ms=round(took[int(len(took) * 0.95)], 2))


def main():
    build = sys.argv[1]
    ended, running = int(sys.argv[2]) if len(sys.argv) > 2 else 1000000, int(sys.argv[3]) if len(sys.argv) > 3 else 10000
    seconds = sys.argv[4] if len(sys.argv) > 4 else "5"
    with tempfile.TemporaryDirectory(prefix="hb") as folder:
        data = os.environ.get("BENCH_STORE") or f"{folder}/d"
        if not os.path.exists(f"{data}/hearth.db"):
            subprocess.run([f"{build}/tests/bench/bench_fill", data, str(ended), str(running)], check=True)
        hearthd = Hearthd(build, data)
        try:
            for when in ("first", "after SIGKILL", "after SIGKILL"):
                took = hearthd.start()
                say(bench="start", when=when, stored=ended, running=running, ms=round(took * 1000), rss_mib=status(hearthd.process.pid, "VmRSS") // 1024)
                if when == "first":
                    hearthd.kill()
                    continue
                break
            lists(hearthd.sock, ended, 40)
            subprocess.run([f"{build}/tests/bench/bench_submit", hearthd.sock, seconds], check=True)
            hearthd.kill()
            took = hearthd.start()
            say(bench="start", when="after SIGKILL under load", stored=ended, running=running, ms=round(took * 1000), rss_mib=status(hearthd.process.pid, "VmRSS") // 1024)
        finally:
            if hearthd.process.poll() is None:
                hearthd.kill()


main()
