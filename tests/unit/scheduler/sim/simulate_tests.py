"""jobctl simulate: sound schedules and right figures on random and on recorded traces, helpful errors.

Recorded traces come from HEARTH_TEST_DATA/traces (by default ../shared/data beside the sources); where they are not there,
that part says so. HEARTH_SOAK=1 also compares the longest trace under the policies that take the reference minutes."""

import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import xml.dom.minidom

import sim_reference as reference

JOBCTL = os.environ["HEARTH_TOP_BUILDDIR"] + "/jobctl/jobctl"
DATA = os.environ.get("HEARTH_TEST_DATA") or os.environ["HEARTH_TOP_SRCDIR"] + "/../shared/data"
FIXED = ["fifo", "fifo-skip", "easy", "sjf", "sjf-skip", "saf", "saf-skip"]
HEADER = "submit_s,duration_s,gpus,user_or_vc,status\n"
tests = failed = 0
tmp = tempfile.TemporaryDirectory()


def test_name():
    """The outermost function that runs, with a colon; empty outside of functions."""
    frame, name = sys._getframe(2), ""
    while frame and frame.f_code.co_name != "<module>":
        frame, name = frame.f_back, frame.f_code.co_name + ": "
    return name


def ok(good, what, detail=""):
    global tests, failed
    tests += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {tests} - {test_name()}{what}")
    if not good and detail:
        print("# " + str(detail).replace("\n", "\n# "))
    return good


def skip(what, why):
    global tests
    tests += 1
    print(f"ok {tests} - {test_name()}{what} # SKIP {why}")


def jobctl(*words):
    env = dict(os.environ, LC_ALL="C")
    return subprocess.run([JOBCTL, "simulate", *map(str, words)], capture_output=True, text=True, env=env, timeout=1200)


def simulate(path, nodes, per_node, policy, estimate="true", speedup=1, more=()):
    """Figures and {row: (start, end, nodes)}."""
    out = tmp.name + "/schedule.csv"
    p = jobctl(path, "--nodes", nodes, "--gpus-per-node", per_node, "--policy", policy, "--estimate", estimate,
               "--speedup", speedup, "--json", "--schedule", out, *more)
    assert p.returncode == 0, p.stderr
    plan = {}
    with open(out) as f:
        next(f)
        for line in f:
            row, _, start, end, _, where = line.rstrip("\n").split(",")
            if start:
                plan[int(row)] = (int(start), int(end), [int(n) for n in where.split()])
    return json.loads(p.stdout), plan


def given_twice(plan, nodes, per_node):
    """Is there a moment at which a node gives more GPUs than it has? plan: (GPUs, start, end, nodes) of each run."""
    changes = []
    for gpus, start, end, where in plan:
        for k, node in enumerate(where):
            n = per_node if k < gpus // per_node else gpus % per_node
            changes += [(start, 1, node, n), (end, 0, node, -n)] if start < end else []
    used = [0] * nodes
    for t, _, node, n in sorted(changes):
        used[node] += n
        if used[node] > per_node:
            return f"node {node} gives {used[node]} GPUs at {t}"
    return None


def unsound(rows, plan, nodes, per_node, speedup=1):
    """The first thing wrong with a schedule, by an account of its own; None."""
    for row, (start, end, where) in plan.items():
        submit, duration, gpus, _ = rows[row]
        if start < submit // speedup or end != start + duration:
            return f"row {row}: times {start}..{end}"
        if len(set(where)) != len(where) or any(not 0 <= n < nodes for n in where):
            return f"row {row}: nodes {where}"
        if len(where) != max(1, -(-gpus // per_node)):
            return f"row {row}: {gpus} GPUs on {len(where)} nodes"
    return given_twice([(rows[row][2], *run) for row, run in plan.items()], nodes, per_node)


def figures_of(rows, plan, nodes, per_node, speedup):
    """What the figures have to be, from the schedule."""
    jobs = [i for i, r in enumerate(rows) if r[2] <= nodes * per_node]
    submit = {i: rows[i][0] // speedup for i in jobs}
    jct = sorted(plan[i][1] - submit[i] for i in jobs)
    wait = [plan[i][0] - submit[i] for i in jobs]
    n = len(jct)

    def percentile(p):
        return next(v for at, v in enumerate(jct, 1) if at * 100 >= p * n)

    span = max(plan[i][1] for i in jobs) - min(submit.values()) if n else 0
    busy = sum(rows[i][1] * rows[i][2] for i in jobs)
    return {
        "jobs": n,
        "dropped": len(rows) - n,
        "avg_jct_s": sum(jct) / n if n else 0,
        "avg_wait_s": sum(wait) / n if n else 0,
        "p50_jct_s": percentile(50) if n else 0,
        "p95_jct_s": percentile(95) if n else 0,
        "p99_jct_s": percentile(99) if n else 0,
        "max_wait_s": max(wait, default=0),
        "makespan_s": span,
        "utilization": busy / (nodes * per_node * span) if span else 0,
    }


def mistakes(path, rows, nodes, per_node, policy, estimate="true", speedup=1):
    """What is wrong with schedule and figures. unit/scheduler/sim/test_sim_slow.c compares the decisions."""
    got, plan = simulate(path, nodes, per_node, policy, estimate, speedup)
    bad = unsound(rows, plan, nodes, per_node, speedup)
    if bad or len(plan) != got["jobs"]:
        return [bad or "a job is missing"]
    figures = figures_of(rows, plan, nodes, per_node, speedup)
    return [f"{k}: {got[k]!r}, by the schedule {v!r}" for k, v in figures.items() if got[k] != v]


def differences(path, rows, nodes, per_node, policy, estimate="true", speedup=1):
    """Conservative: what differs from the reference."""
    want = reference.Run(rows, nodes, per_node, estimate, speedup)
    got, plan = simulate(path, nodes, per_node, policy, estimate, speedup)
    wrong = []
    for row in want.jobs:
        there = [n for n, _ in want.where[row]]
        if plan.get(row) != (want.start[row], want.end[row], there):
            wrong.append(f"row {row}: {plan.get(row)}, reference {(want.start[row], want.end[row], there)}")
            break
    return wrong


def ways():
    for policy in FIXED:
        yield policy, "true"
    yield "easy", "x3"


def ways_of_plan():
    """Slow in the reference: for random and short traces."""
    yield "conservative", "true"
    yield "conservative", "x3"


def write(rows, path=None):
    path = path or tmp.name + "/trace.csv"
    with open(path, "w") as f:
        f.write(HEADER + "".join(f"{s},{d},{g},{u},x\n" for s, d, g, u in rows))
    return path


def random_case(seed):
    rng = random.Random(seed)
    nodes, per_node = rng.randint(1, 6), rng.choice([1, 2, 3, 4, 8])
    sizes = rng.choice([[1], [1, 2, 4, 8, 16], list(range(0, nodes * per_node + 3))])
    long, span, t, rows = rng.choice([3, 30, 1000]), rng.choice([0, 1, 5, 40]), 0, []
    for _ in range(rng.randint(0, 120)):
        t += rng.randint(0, span)
        rows.append((t, rng.randint(1, long), rng.choice(sizes), f"u{rng.randint(0, 3)}"))
    if rng.random() < 0.2:
        rng.shuffle(rows)
    return rows, nodes, per_node, rng.choice([1, 1, 2, 7])


def test_random():
    first = int(os.environ.get("HEARTH_SEED", 1))
    last = first if "HEARTH_SEED" in os.environ else first + 24
    for seed in range(first, last + 1):
        rows, nodes, per_node, speedup = random_case(seed)
        path, wrong = write(rows), []
        for policy, estimate in [*ways(), *ways_of_plan()]:
            found = mistakes(path, rows, nodes, per_node, policy, estimate, speedup)
            if policy == "conservative":
                found += differences(path, rows, nodes, per_node, policy, estimate, speedup)
            wrong += [f"{policy} {estimate}: {w}" for w in found]
        ok(not wrong, f"seed {seed}: {len(rows)} jobs on {nodes} x {per_node} under all policies", "\n".join(wrong[:5]))


# trace, nodes, GPUs a node, speedup, least possible average completion time
LOADED = [
    ("philly-0e4a51", 24, 8, 1, 119336),
    ("philly-0e4a51", 8, 8, 1, 435731),
    ("helios-venus-vcvlY", 2, 8, 1, 9307),
    ("acme-kalos-completed", 128, 8, 4, 15422),
]


def test_recorded():
    for name, nodes, per_node, speedup, least in LOADED:
        path = f"{DATA}/traces/{name}.csv"
        if not os.path.exists(path):
            skip(f"{name} at {nodes} x {per_node}", f"{name}.csv is missing: set HEARTH_TEST_DATA")
            continue
        rows, wrong = reference.read(path), []
        if len(rows) > 50000 and os.environ.get("HEARTH_SANITIZED"):
            skip(f"{os.path.basename(path)}: sound under every policy", "too long for instrumented code")
            continue
        for policy, estimate in ways():
            wrong += [f"{policy} {estimate}: {w}" for w in
                      mistakes(path, rows, nodes, per_node, policy, estimate, speedup)]
            got, _ = simulate(path, nodes, per_node, policy, estimate, speedup)
            if got["avg_jct_s"] < least - 1:
                wrong.append(f"{policy}: {got['avg_jct_s']} is below what any schedule can reach ({least})")
        ok(not wrong, f"{name} at {nodes} x {per_node}: sound, with right figures, under all policies", "\n".join(wrong[:5]))


def test_live():
    """What runs when no policy is named, and with which settings."""
    rows = [(i, 900 + 37 * (i % 11), 1 + i % 5, f"u{i % 3}") for i in range(200)]
    path, out = write(rows), tmp.name + "/live.csv"
    p = jobctl(path, "--nodes", 3, "--gpus-per-node", 4, "--json", "--schedule", out)
    got = json.loads(p.stdout)
    named, plan = simulate(path, 3, 4, "live")
    del got["wall_s"], named["wall_s"]
    ok(got == named and got["policy"] == "live" and got["estimate"] == "true", "without --policy the live policy runs", got)
    ok(len(plan) == 200 and unsound(rows, plan, 3, 4) is None, "live: all jobs end, and the schedule is sound")
    fair, _ = simulate(path, 3, 4, "fair", "true")
    ok(fair["policy"] == "fair", "fair is another policy")
    p = jobctl(path, "--nodes", 3, "--gpus-per-node", 4, "--policy", "default")
    ok(p.returncode == 2 and "'default' is not known" in p.stderr, "the policy default is unknown", p.stderr)
    # User b has used the only GPU. Jobs of twenty users without use go before b's second job until it is due.
    day = 86400
    rows = [(0, day, 1, "b"), (1, day, 1, "b")] + [(1, day, 1, f"a{i}") for i in range(20)]
    _, plan = simulate(write(rows), 1, 1, "live")
    ok(7 * day <= plan[1][0] <= 9 * day, "live: a job is due after seven days", plan[1])


def test_all_traces():
    """Every trace there is, also those nobody has told of here."""
    paths = sorted(glob.glob(DATA + "/traces/*.csv"))
    if not paths:
        skip("every recorded trace under every policy", "no traces: set HEARTH_TEST_DATA")
    for path in paths:
        rows, wrong = reference.read(path), []
        for policy, estimate in [*ways(), ("fair", "learned"), ("live", "true"), ("live", "learned"), ("easy", "learned"),
                                 *ways_of_plan()]:
            if len(rows) > 50000 and policy in ("fair", "live"):
                continue  # tens of seconds; see test_long
            if len(rows) > 1000 and policy == "conservative":
                continue  # as long
            got, plan = simulate(path, 32, 8, policy, estimate)
            bad = unsound(rows, plan, 32, 8)
            if bad or got["jobs"] + got["dropped"] != len(rows) or len(plan) != got["jobs"]:
                wrong.append(f"{policy} {estimate}: {bad or 'a job is missing'}")
        ok(not wrong, f"{os.path.basename(path)}: sound under every policy", "\n".join(wrong))


def test_long():
    path = f"{DATA}/traces/philly-all.csv"
    what = "philly-all: sound, with right figures, at 64 x 8"
    if not os.path.exists(path):
        skip(what, "philly-all.csv is missing: set HEARTH_TEST_DATA")
        return
    rows = reference.read(path)
    got, _ = simulate(path, 311, 8, "fifo")
    ok(got["avg_wait_s"] == 0 and got["avg_jct_s"] == sum(r[1] for r in rows) / len(rows),
       "philly-all: at its true size nobody waits")
    for nodes, least in [(64, 13136), (48, 15153)]:
        below = [f"{p} {e}: {g['avg_jct_s']}" for p, e in ways()
                 for g in [simulate(path, nodes, 8, p, e)[0]] if g["avg_jct_s"] < least - 1]
        ok(not below, f"philly-all at {nodes} x 8: no policy is below what any schedule can reach", below)
    soak = os.environ.get("HEARTH_SOAK")
    for policy, estimate in ways() if soak else []:
        wrong = mistakes(path, rows, 64, 8, policy, estimate)
        ok(not wrong, f"{what} by {policy} {estimate}", "\n".join(wrong))
    if not soak:
        rows = rows[:2500]
        short = write(rows)
        wrong = [w for p, e in ways() for w in mistakes(short, rows, 4, 8, p, e)]
        ok(not wrong, "philly-all, its first 2500 jobs: sound, with right figures, at 4 x 8", "\n".join(wrong[:5]))


def stopped_case(seed):
    rng = random.Random(seed)
    nodes, per_node = rng.choice([(2, 4), (3, 8), (5, 2)])
    rows = []
    for _ in range(120):
        rows.append((rng.randrange(2000), rng.randrange(1, 900), rng.choice([0, 1, 1, 2, per_node, per_node + 1]), rng.choice("abc"),
                     rng.choice([-3, 0, 0, 0, 7]), rng.random() < 0.8))
    return rows, nodes, per_node, rng.choice([0, 50, 300]), rng.choice([0, 20])


def runs_of(path, nodes, per_node, policy, more):
    """Figures and (row, start, end, nodes) of all runs; of a job the last is the one that ended by itself."""
    out = tmp.name + "/runs.csv"
    p = jobctl(path, "--nodes", nodes, "--gpus-per-node", per_node, "--policy", policy, "--json", "--schedule", out, *more)
    assert p.returncode == 0, p.stderr
    with open(out) as f:
        lines = [line.rstrip("\n").split(",") for line in list(f)[1:]]
    return json.loads(p.stdout), [(int(f[0]), int(f[2]), int(f[3]), [int(n) for n in f[5].split()]) for f in lines if f[2]]


def wrong_stops(rows, figures, runs, nodes, per_node, every, restart, quotas):
    """What the schedule and the figures say of runs that were stopped, worked out from the rules."""
    of, lost, stops = {}, 0, []
    for row, start, end, _ in runs:
        of.setdefault(row, []).append((start, end))
    for row, mine in of.items():
        submit, duration, gpus, user, priority, may_stop = rows[row]
        saved, mine = 0, sorted(mine)
        for k, (start, end) in enumerate(mine):
            warm = restart if k else 0
            if k == len(mine) - 1:
                if end - start != warm + duration - saved:
                    return f"row {row}: its last run took {end - start}, {saved} were saved"
                continue
            work = saved + max(0, end - start - warm)
            kept = work // every * every if every else 0
            lost += (end - start - (kept - saved)) * gpus
            saved = kept
            stops.append((row, start, end))
    if (len(stops), lost) != (figures["preemptions"], figures["lost_gpu_s"]):
        return f"{len(stops)} stops, {lost} GPU-seconds lost, not {figures}"
    waits = [mine[-1][1] - rows[r][0] - sum(e - s for s, e in mine) for r, mine in ((r, sorted(m)) for r, m in of.items())]
    if max(waits) != figures["max_wait_s"]:
        return f"longest wait {max(waits)}, not {figures['max_wait_s']}"
    for row, start, end in stops:
        user, priority, may_stop = rows[row][3:]
        quota = quotas.get(user, 10**9)
        held = sum(rows[r][2] for r, s, e, _ in runs if rows[r][3] == user and s <= end <= e)  # with what began just then
        begun = [r for r, s, e, _ in runs if s == end]
        figures["in_vain"] = figures.get("in_vain", 0) + (not any((rows[r][4] > priority and may_stop) or (held > quota and rows[r][3] != user and rows[r][4] >= priority) for r in begun))
    return None


def test_stops():
    total = reclaimed = in_vain = 0
    for seed in range(30):
        rows, nodes, per_node, every, restart = stopped_case(seed)
        path = tmp.name + "/stops.csv"
        with open(path, "w") as f:
            f.write("submit_s,duration_s,gpus,user_or_vc,priority,preemptible\n")
            f.writelines(f"{s},{d},{g},{u},{p},{int(m)}\n" for s, d, g, u, p, m in rows)
        quotas = {"a": per_node, "b": per_node} if seed % 3 else {}
        bad = None
        for policy in ["fair", "live"]:
            more = ["--preempt", f"{every},{restart}"]
            for user, gpus in quotas.items():
                more += ["--quota", f"{user}={gpus},borrow"]
            figures, runs = runs_of(path, nodes, per_node, policy, more)
            plan = [(rows[r][2], s, e, where) for r, s, e, where in runs]
            bad = bad or given_twice(plan, nodes, per_node) or wrong_stops(rows, figures, runs, nodes, per_node, every, restart, quotas)
            total += figures["preemptions"]
            in_vain += figures.get("in_vain", 0)
            reclaimed += figures["preemptions"] if quotas else 0
        ok(not bad, f"runs that stop for others, seed {seed}", bad)
    ok(total > 100 and reclaimed > 50, f"{total} runs were stopped, {reclaimed} where there are quotas")
    ok(in_vain < total / 50, f"{in_vain} of them for a job that did not start then")
    p = jobctl(path, "--nodes", 2, "--gpus-per-node", 4, "--policy", "fifo", "--preempt", 60)
    ok(p.returncode == 2 and "live, fair (or easy" in p.stderr, "not under policies of fixed order", p.stderr)
    for words, says in [(("--preempt", "x"), "seconds between two checkpoints"), (("--preempt", "5,"), "expected the seconds"),
                        (("--quota", "a"), "USER=GPUS,borrow"), (("--quota", "z=4"), "no job of this trace is of a user 'z'"),
                        (("--weight", "a=0"), "expected USER=N")]:
        p = jobctl(path, "--nodes", 2, "--gpus-per-node", 4, "--policy", "fair", *words)
        ok(p.returncode == 2 and says in p.stderr, f"{' '.join(words)} is refused", p.stderr)
    with open(path, "w") as f:
        f.write("submit_s,duration_s,gpus,priority\n0,5,1,9999\n")
    p = jobctl(path, "--nodes", 2, "--gpus-per-node", 4, "--policy", "fair", "--preempt", 60)
    ok(p.returncode == 2 and "priority" in p.stderr, "a priority that is none is refused", p.stderr)
    p = jobctl(path, "--nodes", 2, "--gpus-per-node", 4, "--policy", "fair")
    ok(p.returncode == 0, "where nobody stops for others that column is passed over", p.stderr)
    with open(path, "w") as f:
        f.write(HEADER + "0,5,4,a,x\n0,5,1,a,x\n")
    p = jobctl(path, "--nodes", 2, "--gpus-per-node", 4, "--policy", "fair", "--quota", "a=2", "--json")
    ok(p.returncode == 0 and json.loads(p.stdout)["given_up"] == 1, "who has more than its quota never starts, which is told", p.stderr)


def test_bytes():
    rows, nodes, per_node, _ = random_case(77)
    path, seen = write(rows), set()
    for i in range(2):
        svg = f"{tmp.name}/{i}.svg"
        p = jobctl(path, "--nodes", nodes, "--gpus-per-node", per_node, "--policy", "easy", "--svg", svg)
        with open(svg) as f:
            picture = f.read()
        seen.add((p.stdout.split("wall_s")[0], picture))
    ok(len(seen) == 1, "the same input gives the same bytes")
    root = xml.dom.minidom.parseString(picture).documentElement
    ok(root.tagName == "svg" and len(root.getElementsByTagName("path")) >= 2, "the picture is well-formed SVG")
    p = jobctl(write([]), "--nodes", 1, "--gpus-per-node", 1, "--svg", tmp.name + "/empty.svg", "--json")
    ok(p.returncode == 0 and json.loads(p.stdout)["jobs"] == 0, "a trace of no jobs", p.stderr)
    xml.dom.minidom.parse(tmp.name + "/empty.svg")


def test_failures():
    rows = [(i * 60, 7200, 1 + i % 8, "u") for i in range(300)]
    path = write(rows)
    calm, _ = simulate(path, 6, 8, "easy")
    for policy in [*FIXED, "fair", "live", "conservative"]:
        got, plan = simulate(path, 6, 8, policy, "true", more=["--failures", 48])
        again, _ = simulate(path, 6, 8, policy, "true", more=["--failures", 48])
        del got["wall_s"], again["wall_s"]
        ok(got == again and got["node_failures"] > 0 and got["lost_gpu_s"] > 0 and got["given_up"] == 0 and
           len(plan) == 300 and unsound(rows, plan, 6, 8) is None, f"{policy}: all jobs end in spite of failing nodes", got)
    ok(got["makespan_s"] > calm["makespan_s"], "which takes longer")
    got, plan = simulate(path, 1, 8, "fifo", more=["--failures", 0.1])
    ok(got["given_up"] > 0 and len(plan) + got["given_up"] == 300, "what never gets through is given up", got)


def test_mistakes():
    cases = [
        ("", "line 1, column 1: submit_s: the first line must name this column"),
        ("submit_s,duration_s\n", "line 1, column 1: gpus: the first line must name this column"),
        ("gpus,submit_s,duration_s,gpus\n", "line 1, column 26: gpus: this column is there twice"),
        (HEADER + "1,2,3,u,x\n4,x5,6,u,x\n", "line 3, column 3: duration_s: expected a whole number"),
        (HEADER + "1,2,-3,u,x\n", "line 2, column 5: gpus: expected a whole number, not negative"),
        (HEADER + "1,2.5,3,u,x\n", "line 2, column 4: duration_s: expected a whole number"),
        (HEADER + "1,,3,u,x\n", "line 2, column 3: duration_s: a whole number is missing"),
        (HEADER + "1,2,3\n", "line 2, column 6: fewer fields than the first line has"),
        (HEADER + "1,2,3,u,x,y\n", "line 2, column 11: more fields than the first line has"),
        (HEADER + '1,2,3,"u,x\n4,5,6,v,x\n', "line 2, column 7: a quote is opened here and not closed"),
        (HEADER + '1,2,3,"u\nv"w,x\n', "line 3, column 3: expected a comma or the end of the line after the closing quote"),
        (HEADER + '1,2,"3\n",u,x\n', "expected a whole number, not negative"),
        (HEADER + '1,2,"3""",u,x\n', "line 2, column 5: gpus: expected a whole number, not negative"),
        (HEADER + '1,2,3,"u\nv",x\n4,5,6,v\n', "line 4, column 8: fewer fields than the first line has"),
        (HEADER + '1,2,3,u,"x', "line 2, column 9: a quote is opened here and not closed"),
        (HEADER + '1,2,3,u,"', "line 2, column 9: a quote is opened here and not closed"),
        (HEADER + "1,99999999999999999999999,3,u,x\n", "line 2, column 3: duration_s: the number is too large"),
    ]
    path = tmp.name + "/bad.csv"
    for text, want in cases:
        with open(path, "w") as f:
            f.write(text)
        p = jobctl(path, "--nodes", 1, "--gpus-per-node", 1)
        ok(p.returncode == 2 and want in p.stderr, want, p.stderr)
    good = write([(0, 1, 1, "u")])
    for words, want in [
        (["--nodes", 4], "--nodes and --gpus-per-node are needed"),
        (["--nodes", 4, "--gpus-per-node", 8, "--policy", "eazy"], "did you mean easy?"),
        (["--nodes", 4, "--gpus-per-node", 65], "GPUs per node: from 1 to 64"),
        (["--nodes", 4, "--gpus-per-node", 8, "--speedup", 0], "--speedup '0'"),
        (["--nodes", 4, "--gpus-per-node", 8, "--failures", "soon"], "--failures 'soon'"),
    ]:
        p = jobctl(good, *words)
        ok(p.returncode == 2 and want in p.stderr, want, p.stderr)
    p = jobctl(tmp.name + "/none.csv", "--nodes", 1, "--gpus-per-node", 1)
    ok(p.returncode == 2, "a missing trace is a fault of usage", p.stderr)


def test_forms():
    """Other column orders, CRLF, a byte order mark, blank lines, no last newline, jobs too large, jobs that take no time."""
    path = tmp.name + "/forms.csv"
    with open(path, "w", newline="") as f:
        f.write("\ufeffgpus,submit_s,extra,duration_s\r\n4,0,a,10\r\n\r\n9,0,b,5\r\n1,3,,0")
    got, plan = simulate(path, 1, 8, "fifo")
    ok(got["jobs"] == 2 and got["dropped"] == 1 and plan == {0: (0, 10, [0]), 2: (3, 3, [0])}, "other forms of CSV", plan)
    # In quotes: the same jobs of the same users, so the fair order of two users is the same.
    plain = ["0,50,8,a b,x", "1,30,8,a b,x", "2,30,8,c,x", "3,30,8,a b,x"]
    quoted = ['0,50,"8",a b,"x,y"', '1,30,8,"a b","x ""y"""', '"2",30,8,"c","x\r\ny\n"', '3,"30",8,"a b",x']
    named = ["0,50,8,\"a, \"\"b\"\"\",x", "1,30,8,\"a, \"\"b\"\"\",x", "2,30,8,c,x", "3,30,8,\"a, \"\"b\"\"\",x"]
    plans = []
    for head, lines in [(HEADER, plain), (HEADER, quoted), ('"submit_s","duration_s",gpus,"user_or_vc","sta""tus"\r\n', quoted), (HEADER, named)]:
        with open(path, "w", newline="") as f:
            f.write(head + "\r\n".join(lines) + "\r\n")
        plans.append(simulate(path, 1, 8, "fair")[1])
    ok(all(p == plans[0] for p in plans) and len(plans[0]) == 4, "fields in quotes are the fields", plans)
    ok(plans[0][2][0] < plans[0][1][0], "and there are two users: the second one's job is not the last", plans[0])
    rows = [(0, 100, 4, "u"), (15, 100, 4, "u"), (19, 10, 9, "u")]
    got, plan = simulate(write(rows), 1, 4, "fifo", speedup=10)
    ok(got["dropped"] == 1 and plan == {0: (0, 100, [0]), 1: (100, 200, [0])} and got["max_wait_s"] == 99,
       "submit times are divided as whole numbers", plan)


for test in [test_random, test_recorded, test_live, test_all_traces, test_long, test_stops, test_bytes, test_failures, test_mistakes, test_forms]:
    test()
tmp.cleanup()
print(f"1..{tests}")
sys.exit(failed > 0)
