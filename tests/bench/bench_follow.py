"""From a rank's write to its follower: latency of single lines at a low rate, over the raw endpoint, server-sent events and jobctl.

  bench_follow.py SOCKET JOBCTL-AS-JSON-LIST [LINES] [EVERY-MS]

Called by bench_follow.sh, which brings the hosts up. The rank stands on another host than hearthd and puts the time (CLOCK_REALTIME) into each line; all
hosts are this machine, so one clock serves. Prints one JSON line a way of following.
"""
import json
import subprocess
import sys
import threading
import time

from unixhttp import UnixConnection

RANK = """
import sys, time
for i in range(int(sys.argv[1])):
    print("t=%d" % time.clock_gettime_ns(time.CLOCK_REALTIME), flush=True)
    time.sleep(float(sys.argv[2]) / 1000)
"""


def call(sock, method, path, body=None):
    c = UnixConnection(sock)
    c.request(method, "/api/v1" + path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    answer = c.getresponse()
    data = answer.read()
    if answer.status >= 300:
        sys.exit(f"{method} {path}: {answer.status} {data.decode()}")
    return json.loads(data)


def note(took, text):
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    at = text.find("t=")
    if at >= 0:
        took.append((now - int(text[at + 2:].split()[0].strip('"\\n}').split("\\")[0])) / 1000)


def over_http(sock, job, headers, took):
    c = UnixConnection(sock)
    c.request("GET", f"/api/v1/jobs/{job}/logs/rank-0?follow=1", headers=headers)
    answer = c.getresponse()
    for line in answer:
        note(took, line.decode())


def over_jobctl(argv, job, took):
    with subprocess.Popen(argv + ["logs", str(job), "-f"], stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            note(took, line)


def main():
    sock, jobctl = sys.argv[1], json.loads(sys.argv[2])
    lines, every = (sys.argv[3:] + ["1000", "20"][len(sys.argv) - 3:])[:2]
    spec = {"name": "follow", "command": ["/usr/bin/python3", "-c", RANK, lines, every], "launcher": "direct"}
    job = call(sock, "POST", "/jobs", {"spec": json.dumps(spec)})["id"]
    took = {"raw": [], "sse": [], "jobctl": []}
    threads = [threading.Thread(target=over_http, args=(sock, job, {}, took["raw"])),
               threading.Thread(target=over_http, args=(sock, job, {"Accept": "text/event-stream"}, took["sse"])),
               threading.Thread(target=over_jobctl, args=(jobctl, job, took["jobctl"]))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for via, v in took.items():
        if len(v) != int(lines):
            sys.exit(f"{via}: {len(v)} of {lines} lines came")
        v.sort()
        print(json.dumps({"bench": "follow", "via": via, "lines": len(v), "every_ms": float(every), "p50_us": round(v[len(v) // 2]),
                          "p99_us": round(v[min(len(v) - 1, len(v) * 99 // 100)]), "max_us": round(v[-1])}))


main()
