#!/usr/bin/env python3
"""Measures the watches on recorded curves: python3 tests/bench/watch_eval.py [--sensitivity] JOBCTL

The curves are in HEARTH_TEST_DATA, else in ../shared/data: loss-curves/ with labels in SOURCES.md, and step-times/.
Prints JSON lines. Every watch acts as strongly as it can (rollback), so that a wrong rollback shows.
With --sensitivity each threshold moves by 20 % both ways, and a line says what changes.
"""
import csv
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

THRESHOLDS = {"spike_floor": 0.2, "spike_share": 0.05, "spike_sigma": 5, "heal_sigma": 3, "drop_share": 0.15, "drop_sigma": 8,
              "divergence_share": 0.12, "divergence_sigma": 3, "plateau_share": 0.001, "plateau_steps": 2000,
              "rising_steps": 50, "patience_steps": 200}
STEP_THRESHOLDS = {"slow_share": 0.04, "slow_sigma": 1.5, "hang_s": 60, "hang_times": 2, "stall_times": 10}
ACTIONS = {"on_" + kind: "rollback" for kind in ("spike", "drop", "nan", "divergence")}
TOLERANCE = 10  # steps by which an onset may be before the labelled start


def replay(jobctl, verb, path, watch):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as spec:
        json.dump(watch, spec)
        spec.flush()
        out = subprocess.run([jobctl, verb, path, "--json", "--watch", spec.name], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def read_labels(folder):
    """Returns {file: [(start, end, peak)]} of the sustained spikes in the table of SOURCES.md."""
    labels = {}
    with open(os.path.join(folder, "SOURCES.md")) as f:
        for line in f:
            cells = [c.strip() for c in line.split("|")]
            if len(cells) < 7 or not cells[1].endswith(".csv") or not cells[2].isdigit():
                continue
            events = []
            for part in cells[4].split(";"):
                span, peak = re.search(r"(\d+)-(\d+)", part), re.search(r"\+(\d+\.\d+)", part)
                if span and peak:
                    events.append((int(span[1]), int(span[2]), float(peak[1])))
            labels[cells[1]] = events
    return labels


def measure_loss(jobctl, folder, changed):
    total = {"points": 0, "events": 0, "found": 0, "large": 0, "large_found": 0, "false_alarms": 0, "rollbacks": 0}
    delays, missed, wrong = [], [], []
    for name, events in sorted(read_labels(folder).items()):
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        with open(path) as f:
            total["points"] += sum(1 for _ in f) - 1
        out = replay(jobctl, "replay-loss", path, {**ACTIONS, **changed})
        used = set()
        for start, end, peak in events:
            hits = [a for a in out["alarms"] if start - TOLERANCE <= a["onset"] <= end and a["kind"] in ("spike", "divergence", "nan")]
            used.update(id(a) for a in hits)
            total["events"] += 1
            total["large"] += peak >= 0.4
            if hits:
                total["found"] += 1
                total["large_found"] += peak >= 0.4
                delays.append(hits[0]["step"] - start)
            else:
                missed.append([name, start])
        wrong += [[name, a["step"], a["kind"]] for a in out["alarms"] if id(a) not in used]
        total["rollbacks"] += sum(a["action"] == "rollback" for a in out["actions"])
    total["false_alarms"] = len(wrong)
    total["median_delay"] = statistics.median(delays) if delays else None
    total["max_delay"] = max(delays, default=None)
    return {**total, "missed": missed, "wrong": wrong}


def with_drop(rows, share):
    half = len(rows) // 2
    out = tempfile.NamedTemporaryFile("w", suffix=".csv")
    out.write("step,seconds\n")
    for i, (step, seconds) in enumerate(rows):
        out.write("%d,%r\n" % (step, seconds * (1 + share) if i >= half else seconds))
    out.flush()
    return out, rows[half][0]


def measure_steps(jobctl, folder, changed):
    total = {"series": 0, "steps": 0, "false_alarms": 0}
    delays = {0.05: [], 0.1: []}
    for path in sorted(glob.glob(os.path.join(folder, "*.csv"))):
        with open(path) as f:
            rows = [(int(r["step"]), float(r["seconds"])) for r in csv.DictReader(f)]
        total["series"] += 1
        total["steps"] += len(rows)
        total["false_alarms"] += len(replay(jobctl, "replay-steps", path, changed)["alarms"])
        for share, list_ in delays.items():
            series, at = with_drop(rows, 1 / (1 - share) - 1)
            with series:
                slow = [a["step"] - at + 1 for a in replay(jobctl, "replay-steps", series.name, changed)["alarms"] if a["step"] >= at]
            list_ += slow[:1]
    for share, list_ in delays.items():
        total["drop_%g" % share] = {"found": len(list_), "steps": list_}
    return total


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    data = os.environ.get("HEARTH_TEST_DATA") or os.path.join(top, "..", "shared", "data")
    if len(words) != 1:
        sys.exit(__doc__)
    if not os.path.isdir(os.path.join(data, "loss-curves")):
        sys.exit("watch_eval: no recorded curves in %s; set HEARTH_TEST_DATA" % data)
    for what, measure, thresholds in (("loss-curves", measure_loss, THRESHOLDS), ("step-times", measure_steps, STEP_THRESHOLDS)):
        folder = os.path.join(data, what)
        usual = measure(words[0], folder, {})
        print(json.dumps({"data": what, **usual}))
        for key, value in thresholds.items() if "--sensitivity" in sys.argv else ():
            for factor in (0.8, 1.2):
                moved = value * factor
                now = measure(words[0], folder, {key: round(moved) if key.endswith("_steps") else moved})
                print(json.dumps({"data": what, "key": key, "factor": factor, "changes": {k: v for k, v in now.items() if v != usual[k]}}))


if __name__ == "__main__":
    main()
