"""Two runs of benchmarks made by hand, for tests/bench/compare.py: in each case one measurement of the second differs."""
import contextlib
import copy
import io
import json
import runpy
import sys
import tempfile

COMPARE = sys.argv[1]
sys.dont_write_bytecode = True
# Lines of each program, with neighbours that differ in one parameter only.
LINES = [
    {"bench": "decide", "policy": p, "nodes": n, "pending": q, "p50_us": 100.0 * n, "p99_us": 200.0 * n, "max_us": 300, "started": 7}
    for p in ("block", "live") for n in (100, 1000) for q in (1000, 10000)] + [
    {"bench": "starts", "policy": p, "nodes": n, "starts": 170, "starts_per_s": 1000 * n} for p in ("block", "live") for n in (100, 1000)] + [
    {"bench": "queue", "jobs": n, "bytes_per_job": 300, "add_us": 1.5} for n in (1000, 1000000)] + [
    {"bench": "core_queue", "queued": n, "bytes_per_job": 2000, "add_us": 20} for n in (20000, 1000000)] + [
    {"bench": "submit", "connections": c, "seconds": 5.0, "submits": 100, "per_s": 900, "p99_us": 30} for c in (1, 16)] + [
    {"bench": "tiny", "system": "hearth", "jobs": 300, "stored": n, "per_s": 90, "all_s": 3.1} for n in (0, 100000) for _ in range(3)] + [
    {"bench": "follow", "via": v, "lines": 1000, "every_ms": 20.0, "p50_us": 300, "p99_us": 900} for v in ("raw", "sse")] + [
    {"bench": "launch", "what": w, "hosts": h, "runs": 8, "median_ms": 40 * h} for w in ("hearth", "mpirun") for h in (1, 2)] + [
    {"bench": "log", "follower": f, "mb": 512, "rank_to_disk_mb_s": 900, "cpu_ns_a_byte": {"agent": 1.0, "hearthd": 2.0}} for f in (True, False)] + [
    {"bench": "agents", "agents": 1000, "hearthd_cpu_percent": 8.0, "longest_turn_us": 900}] + [
    {"bench": b, "in_flight": n, "jobs_before": j, "per_s": 4000, "p50_us": 90} for b in ("submit", "events") for n in (1, 64) for j in (0, 1000)]
NO_MEASUREMENT = {"seconds", "submits", "starts", "started", "max_us"}


def compare(before, after, *more):
    with tempfile.TemporaryDirectory(prefix="hearth-compare-") as d:
        for name, lines in (("before", before), ("after", after)):
            with open(f"{d}/{name}", "w") as f:
                f.write("".join(json.dumps(x) + "\n" for x in [{"bench": "machine", "cpus": "2"}] + lines))
        said = io.StringIO()
        sys.argv = [COMPARE, d + "/before", d + "/after", *more]
        try:
            with contextlib.redirect_stdout(said):
                runpy.run_path(COMPARE, run_name="__main__")
        except SystemExit as e:
            return e.code, said.getvalue()


def result(good, what, text=""):
    result.n += 1
    result.failed += not good
    print("%sok %d - %s" % ("" if good else "not ", result.n, what))
    if not good:
        print("".join("# %s\n" % line for line in text.splitlines()))


result.n = result.failed = 0


def measurements(line):
    """Names of what was measured, by the units that they end with."""
    return [k for k in line if k.endswith(("_us", "_ms", "_s", "_job", "_percent")) and k not in NO_MEASUREMENT and k != "every_ms"]


def main():
    rc, text = compare(LINES, LINES)
    result(rc == 0 and "WORSE" not in text, "the same run twice is no change", text)
    rc, text = compare(LINES, LINES[::-1])
    result(rc == 0 and "WORSE" not in text, "in another order, too", text)
    seen = set()
    for i, line in enumerate(LINES):
        for key in measurements(line):
            if (json.dumps(line), key) in seen:
                continue  # one of several runs of the same
            seen.add((json.dumps(line), key))
            after = copy.deepcopy(LINES)
            rate = key.endswith(("per_s", "mb_s"))
            for other in after:
                if other == line:
                    other[key] = other[key] / 100 if rate else other[key] * 100
            rc, text = compare(LINES, after)
            marked = [x for x in text.splitlines() if x.endswith("WORSE")]
            result(rc == 1 and len(marked) == 1 and (" 0.01 " if rate else " 100.00 ") in marked[0],
                   "a hundred times worse: %s of %s" % (key, json.dumps({k: v for k, v in line.items() if k not in measurements(line)})), text)
    after = copy.deepcopy(LINES)
    after[0]["p50_us"] /= 100
    rc, text = compare(LINES, after)
    result(rc == 0 and text.count("better") == 1, "a hundred times better is no failure", text)
    after = copy.deepcopy(LINES)
    after[0]["p50_us"] *= 1.05
    result(compare(LINES, after)[0] == 0, "5 percent are let pass by default")
    result(compare(LINES, after, "3")[0] == 1, "and not when asked for 3")
    tiny = next(i for i, x in enumerate(LINES) if x["bench"] == "tiny")
    rc, text = compare(LINES, LINES[:tiny] + LINES[tiny + 1:])
    result("(3 lines before, 2 after)" in text, "a run that is missing among several is said", text)
    rc, text = compare(LINES, LINES[1:])
    result("not in the second run" in text and "policy=block nodes=100 pending=1000: p50_us" in text, "a line that is missing is named", text)
    after = copy.deepcopy(LINES)
    next(x for x in after if x["bench"] == "log")["cpu_ns_a_byte"]["hearthd"] = 9.0
    result(compare(LINES, after)[0] == 1, "a measurement within a measurement is seen")
    print("1..%d" % result.n)
    return 1 if result.failed else 0


sys.exit(main())
