"""Compares two runs of the benchmarks.

    compare.py BEFORE AFTER [PERCENT]

Both are files of JSON lines (run-all.sh). Lines that say the same of themselves (all members that are no measurement)
belong together; several of them are one by their median. Prints each measurement that both have, its ratio, and marks
those that changed by more than PERCENT (default 10). Ends with 1 when one became worse by that: a rate (per_s, mb_s)
that fell, anything else that rose. The two runs must be of one machine in one state: the machine lines are shown.
"""
import json
import statistics
import sys

RATES = ("per_s", "mb_s", "beats_per_s")
LABELS = {"bench", "what", "hosts", "connections", "stored", "running", "waiting", "ended", "system", "submitted", "agents", "when", "follower", "mb", "runs", "jobs"}


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
            # The count of jobs a submit benchmark made differs from run to run; what was asked for does not.
            label = " ".join(f"{k}={v}" for k, v in line.items() if k in LABELS and v is not None)
            for key, value in flat(line):
                if key not in LABELS and isinstance(value, (int, float)) and not isinstance(value, bool):
                    found.setdefault((label, key), []).append(value)
    return machine, {k: statistics.median(v) for k, v in found.items()}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    percent = float(sys.argv[3]) if len(sys.argv) > 3 else 10
    machine_a, before = read(sys.argv[1])
    machine_b, after = read(sys.argv[2])
    print(f"before: {machine_a}\nafter:  {machine_b}\n")
    worse = 0
    for label, key in before:
        if (label, key) not in after or key in ("seconds", "submits", "found", "min_ms", "max_ms", "max_us", "answer_max_us"):
            continue
        a, b = before[label, key], after[label, key]
        ratio = b / a if a else float("inf") if b else 1.0
        rate = key.endswith(RATES)
        mark = ""
        if abs(ratio - 1) * 100 > percent:
            good = (ratio > 1) == rate
            mark = "better" if good else "WORSE"
            worse += not good
        print(f"{label:70} {key:26} {a:12g} {b:12g}  {ratio:6.2f}  {mark}")
    lost = [f"{label}: {key}" for label, key in before if (label, key) not in after]
    if lost:
        print("\nnot in the second run:\n  " + "\n  ".join(lost))
    sys.exit(1 if worse else 0)


main()
