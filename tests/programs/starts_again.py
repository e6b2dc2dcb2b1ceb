"""Do the starts of a cluster follow from what its scheduler was told?

    starts_again.py HEARTH.DB SCHED_AGAIN BACKFILL [PATH=WEIGHT...]

The events of a hearthd that has ended all its jobs, in their order, are told to the scheduler library again
(sched_again): jobs that came, GPUs that were given back, nodes that were drained and resumed, each at the second of
the library's time that is on record. Wherever a start is on record the library is asked which job is next, and on
which nodes; where a pass of the scheduler was over, whether it would start nothing more. Prints the number of starts that are equal, or the first that differs and ends with 1. Weights that are
given stand in place of the recorded ones."""

import json
import sqlite3
import subprocess
import sys

database, program, backfill, *given = sys.argv[1:]
db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
given = dict(g.split("=") for g in given)
lines, starts = [], []  # starts: (job, nodes), None where nothing could start
nodes, jobs = {}, {}
for name, number, inventory in db.execute("SELECT name, id, inventory FROM node"):
    have = json.loads(inventory)
    nodes[name] = (number, len(have["gpus"]), have["slots"])
for number, owner, queue, spec in db.execute("SELECT job.id, owner, queue, spec FROM job JOIN job_spec ON job_spec.id = job.id"):
    jobs[number] = (owner, queue, json.loads(spec))


def tell(*words):
    lines.append(" ".join(str(w) for w in words))


def node(name, usable):
    tell("node", *nodes[name], usable)


def submitted(number):
    owner, queue, spec = jobs[number]
    r, limits = spec["resources"], spec["limits"]
    tell("job", number, f"@{owner}", queue, r.get("instances", 1), r["gpus_per_instance"],
         limits["max_runtime_s"] + limits["grace_s"])


passes = 0
for job, attempt, kind, data in db.execute("SELECT job, attempt, type, data FROM event ORDER BY id"):
    data = json.loads(data)
    if data.get("pass", passes) != passes:
        passes = data["pass"]
        tell("now", data["pass_s"])
        tell("start")
        starts.append(None)
    if "sched_s" in data:
        tell("now", data["sched_s"])
    if kind == "queue_set":
        tell("weight", data["queue"], given.get(data["queue"], data["weight"]))
    elif kind == "connected":
        node(data["node"], 1)
    elif kind in ("drained", "resumed"):
        node(data["node"], int(kind == "resumed"))
    elif kind == "submitted":
        submitted(job)
    elif kind == "node_cleaned":
        tell("release", job, nodes[data["node"]][0])
    elif kind == "ended":
        tell("end", job, int(data["status"] == "completed"))
    elif kind == "placed":
        tell("start")
        starts.append((job, [n["node_id"] for n in data["nodes"]]))
answer = subprocess.run([program, backfill], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout.split("\n")
total, at = sum(s is not None for s in starts), 0
for start, said in zip(starts, answer):
    at += start is not None
    want = f"{start[0]} {','.join(map(str, start[1]))}" if start else "none"
    if said != want:
        print(f"start {at} of {total}: the cluster started {want}, the library {said}")
        sys.exit(1)
print(f"{total} starts, as the library says")
