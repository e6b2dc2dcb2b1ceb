#!/usr/bin/env python3
"""Measures the watches: python3 tests/bench/watch_eval.py [--sensitivity] [--made N [--first SEED]] [--verbose] JOBCTL

With --made N it makes N curves and N series of step times with known events (watch_curves.py). Else the curves are in HEARTH_TEST_DATA, else in ../shared/data: loss-curves/ with labels in SOURCES.md, and step-times/.
Prints JSON lines. Every watch acts as strongly as it can (rollback), so that a wrong rollback shows.
With --sensitivity each threshold moves by 20 % both ways, and a line says what changes.
"""
import csv
import glob
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import watch_curves

THRESHOLDS = {"spike_floor": 0.2, "spike_share": 0.05, "spike_sigma": 5, "heal_sigma": 3, "drop_share": 0.15, "drop_sigma": 8,
              "divergence_share": 0.12, "divergence_sigma": 3, "plateau_share": 0.001, "plateau_steps": 2000,
              "rising_steps": 50, "patience_steps": 200}
STEP_THRESHOLDS = {"slow_share": 0.04, "slow_sigma": 1.5, "hang_s": 60, "hang_times": 2, "stall_times": 60}
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


# ---- made curves ----


def write_rows(rows, column):
    out = tempfile.NamedTemporaryFile("w", suffix=".csv")
    out.write("step,%s\n" % column)
    out.writelines("%d,%.7g\n" % row for row in rows)
    out.flush()
    return out


def belongs(alarm, event, cadence):
    """An alarm is an event's if its onset is not before it; a slow rise has no clear beginning."""
    early = 2000 if watch_curves.DIVERGENCE in (event["kind"], alarm["kind"]) else TOLERANCE + 3 * cadence
    return event["start"] - early <= alarm["onset"] and event["start"] <= alarm["step"] and alarm["onset"] <= event["end"] + 5 * cadence


def judge_curve(curve, out, total, delays, verbose, seed):
    bad = []
    for event in curve["events"]:
        hits = [a for a in out["alarms"] if belongs(a, event, curve["cadence"]) and a["kind"] != "plateau"]
        if not event["clear"] and event["kind"] == watch_curves.SPIKES:
            continue
        large = event["peak"] >= 0.16 or event["kind"] != watch_curves.SPIKES
        keys = [event["kind"]] + ["large"] * (large and event["kind"] == watch_curves.SPIKES)
        for key in keys:
            total[key] = total.get(key, 0) + 1
            total[key + "_found"] = total.get(key + "_found", 0) + bool(hits)
        if hits and event["kind"] == watch_curves.SPIKES and curve["cadence"] == 1:
            delays.append(hits[0]["step"] - event["start"])
        if not hits:
            bad.append("missed %s at %d, peak %.3f" % (event["kind"], event["start"], event["peak"]))
    wrong = [a for a in out["alarms"] if a["kind"] != "plateau" and not any(belongs(a, e, curve["cadence"]) for e in curve["events"])]
    acts = [a for a in out["actions"] if a["action"] in ("rollback", "stop")]
    lasting = [e for e in curve["events"] if e["kind"] not in (watch_curves.SPIKES, watch_curves.NONE)]
    total["false_alarms"] += len(wrong)
    total["wrong_rollbacks"] += len(acts) if not lasting else sum(a["step"] < lasting[0]["start"] for a in acts)
    total["lasting_acted"] += bool(lasting) and any(a["step"] >= lasting[0]["start"] for a in acts)
    total["lasting_all"] += bool(lasting)
    bad += ["false %s at %d (onset %d)" % (a["kind"], a["step"], a["onset"]) for a in wrong]
    bad += ["rollback at %d: %s" % (a["step"], a["reason"]) for a in acts if not lasting]
    if lasting and not acts:
        bad.append("no rollback of %s at %d" % (lasting[0]["kind"], lasting[0]["start"]))
    if bad and verbose:
        print("seed %d: %s: %s" % (seed, curve["about"], "; ".join(bad)))


def measure_made_loss(jobctl, seeds, verbose):
    total, delays = {"curves": len(seeds), "steps": 0, "false_alarms": 0, "wrong_rollbacks": 0, "lasting_all": 0, "lasting_acted": 0}, []
    for seed in seeds:
        curve = watch_curves.make_loss(seed)
        total["steps"] += curve["rows"][-1][0]
        with write_rows(curve["rows"], "loss") as f:
            judge_curve(curve, replay(jobctl, "replay-loss", f.name, ACTIONS), total, delays, verbose, seed)
    total["median_delay"] = statistics.median(delays) if delays else None
    total["false_per_100000"] = round(total["false_alarms"] * 1e5 / total["steps"], 2)
    return total


def measure_made_steps(jobctl, seeds, verbose):
    total = {"series": len(seeds), "steps": 0, "false_alarms": 0, "drops": 0, "drops_in_20": 0, "hangs": 0, "hangs_found": 0}
    for seed in seeds:
        made = watch_curves.make_steps(seed)
        total["steps"] += len(made["rows"])
        with write_rows(made["rows"], "seconds") as f:
            alarms = replay(jobctl, "replay-steps", f.name, {})["alarms"]
        at, kinds = (made["drop"][0], ("slow",)) if made["drop"] else (made["hang"], ("hang", "stall")) if made["hang"] else (None, ())
        hits = [a for a in alarms if at and a["step"] >= at and a["kind"] in kinds]
        wrong = [a for a in alarms if a not in hits]
        in_time = bool(hits) and hits[0]["step"] - at + 1 <= 20
        total["drops"] += made["drop"] is not None
        total["drops_in_20"] += made["drop"] is not None and in_time
        total["hangs"] += made["hang"] is not None
        total["hangs_found"] += made["hang"] is not None and in_time
        total["false_alarms"] += len(wrong)
        if verbose and (wrong or (at and not in_time)):
            print("seed %d: %s: wrong %s, first hit %s at %s" % (seed, made["about"], [(a["step"], a["kind"]) for a in wrong[:4]], hits[:1], at))
    return total


def option(name, default):
    return next((int(b) for a, b in itertools.pairwise(sys.argv) if a == name), default)


def main():
    words = [w for i, w in enumerate(sys.argv) if i and not w.startswith("--") and sys.argv[i - 1] not in ("--made", "--first")]
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    data = os.environ.get("HEARTH_TEST_DATA") or os.path.join(top, "..", "shared", "data")
    if len(words) != 1:
        sys.exit(__doc__)
    made, first = option("--made", 0), option("--first", 1)
    if made:
        seeds, verbose = range(first, first + made), "--verbose" in sys.argv
        print(json.dumps({"data": "made loss curves", **measure_made_loss(words[0], seeds, verbose)}))
        print(json.dumps({"data": "made step times", **measure_made_steps(words[0], seeds, verbose)}))
        return
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
