"""Compares two runs of the benchmarks.

    compare.py BEFORE AFTER [PERCENT]

Both are files of JSON lines (run-all.sh). Lines that say the same of themselves (all members that are no measurement: words,
and the numbers of PARAMETERS) belong together; several of them are one by their median, and it is said when they are not as many
in both. Prints each measurement that both have, its ratio, and marks those that changed by more than PERCENT (default 10).
Ends with 1 when one became worse by that: a rate (RATES) that fell, anything else that rose. The two runs must be of one
machine in one state: the machine lines are shown.
"""
import json
import statistics
import sys

RATES = ("per_s", "mb_s", "held")
# Numbers that say what was measured. One that is missing here makes one line of lines that have nothing to do with each other.
PARAMETERS = {"hosts", "connections", "stored", "running", "waiting", "ended", "agents", "mb", "runs", "jobs", "nodes", "pending", "points",
              "in_flight", "jobs_before", "lines", "every_ms", "queued"}
# What says nothing about better or worse: how long was measured, how much was found, the one slowest of many.
APART = {"seconds", "submits", "found", "failed", "starts", "started", "min_ms", "max_ms", "max_us", "answer_max_us"}


def is_label(key, value):
    return value is not None and (key in PARAMETERS or isinstance(value, (str, bool)))


def flat(line, prefix=""):
    for key, value in line.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def read(path):
    found, machine = {}, None
    with open(path) as f:
        for text in f:
            line = json.loads(text)
            if line.get("bench") == "machine":
                machine = machine or text.strip()
                continue
            label = " ".join(f"{k}={v}" for k, v in line.items() if is_label(k, v))
            for key, value in flat(line):
                if not is_label(key, value) and isinstance(value, (int, float)):
                    found.setdefault((label, key), []).append(value)
    return machine, found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    percent = float(sys.argv[3]) if len(sys.argv) > 3 else 10
    machine_a, before = read(sys.argv[1])
    machine_b, after = read(sys.argv[2])
    print(f"before: {machine_a}\nafter:  {machine_b}\n")
    worse = 0
    for label, key in before:
        if (label, key) not in after or key in APART:
            continue
        a, b = statistics.median(before[label, key]), statistics.median(after[label, key])
        ratio = b / a if a else float("inf") if b else 1.0
        rate = key.endswith(RATES)
        mark = ""
        if abs(ratio - 1) * 100 > percent:
            good = (ratio > 1) == rate
            mark = "better" if good else "WORSE"
            worse += not good
        if len(before[label, key]) != len(after[label, key]):
            mark += f" ({len(before[label, key])} lines before, {len(after[label, key])} after)"
        print(f"{label:70} {key:26} {a:12g} {b:12g}  {ratio:6.2f}  {mark}")
    lost = [f"{label}: {key}" for label, key in before if (label, key) not in after]
    if lost:
        print("\nnot in the second run:\n  " + "\n  ".join(lost))
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
