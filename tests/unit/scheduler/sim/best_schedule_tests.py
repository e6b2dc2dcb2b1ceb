"""tests/bench/best_schedule.py finds the best schedule that trying every one finds, on random tiny clusters."""
import json
import os
import random
import subprocess
import sys
import tempfile

TOP = os.environ["HEARTH_TOP_SRCDIR"]
PROGRAM = TOP + "/tests/bench/best_schedule.py"
DATA = os.environ.get("HEARTH_TEST_DATA") or TOP + "/../shared/data"
sys.path[:0] = [TOP + "/tests/bench", TOP + "/tests/unit"]
import best_schedule as best  # noqa: E402
import sim_reference as reference  # noqa: E402

tests = failed = 0


def ok(good, what, detail=""):
    global tests, failed
    tests += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {tests} - {what}")
    if not good:
        print("# " + str(detail).replace("\n", "\n# "))


# ---- every schedule, second by second ---------------------------------------------------------------------------


def places(nodes, per_node, gpus):
    """Every way to take so many GPUs: whole nodes and, for a remainder, one more."""
    whole, rest = divmod(gpus, per_node)
    sets = [[]]
    for _ in range(whole):
        sets = [s + [n] for s in sets for n in range(s[-1] + 1 if s else 0, nodes)]
    for s in sets:
        taken = [(n, per_node) for n in s]
        if not rest:
            yield taken
        for n in range(nodes) if rest else []:
            if n not in s:
                yield taken + [(n, rest)]


def least_of_all(jobs, nodes, per_node, longest):
    """Every start of every job from its arrival to the longest wait, at every place: least sum of waits."""
    horizon = max(s for s, _, _ in jobs) + longest + max(d for _, d, _ in jobs) + 1
    used, least = [[0] * horizon for _ in range(nodes)], [None]

    def put(spots, start, duration, sign):
        for n, g in spots:
            for t in range(start, start + duration):
                used[n][t] += sign * g

    def try_from(i, total):
        if least[0] is not None and total >= least[0]:
            return
        if i == len(jobs):
            least[0] = total
            return
        submit, duration, gpus = jobs[i]
        for start in range(submit, submit + longest + 1):
            for spots in places(nodes, per_node, gpus):
                if all(used[n][t] + g <= per_node for n, g in spots for t in range(start, start + duration)):
                    put(spots, start, duration, 1)
                    try_from(i + 1, total + start - submit)
                    put(spots, start, duration, -1)

    try_from(0, 0)
    return least[0]


def least_of_orders(jobs, nodes, per_node, longest, any_place):
    """Every order in which a cluster that lets nobody wait who fits can start jobs: least sum of waits."""
    found = []

    def second(now, free, running, left, total):
        if not left:
            found.append(total)
            return
        if any(now - jobs[i][0] > longest for i in left):
            return
        running = list(running)
        for r in [r for r in running if r[0] == now]:
            running.remove(r)
            free = [f + sum(g for n, g in r[1] if n == at) for at, f in enumerate(free)]
        moves = []
        for i in left:
            if jobs[i][0] <= now:
                fit = reference.place(free, per_node, jobs[i][2])
                spots = places(nodes, per_node, jobs[i][2]) if any_place else [fit] if fit else []
                moves += [(i, s) for s in spots if all(free[n] >= g for n, g in s)]
        for i, s in moves:
            less = [f - sum(g for n, g in s if n == at) for at, f in enumerate(free)]
            second(now, less, running + [(now + jobs[i][1], s)], left - {i}, total + now - jobs[i][0])
        if not moves:
            second(now + 1, free, running, left, total)

    second(0, [per_node] * nodes, [], frozenset(range(len(jobs))), 0)
    return min(found, default=None)


def sound(jobs, starts, nodes, per_node):
    """Whether never more GPUs are held than there are (places are looked at where the best is compared)."""
    times = sorted(set(starts.values()))
    return len(starts) == len(jobs) and all(starts[i] >= jobs[i][0] for i in starts) and all(
        sum(g for i, (_, d, g) in enumerate(jobs) if starts[i] <= t < starts[i] + d) <= nodes * per_node for t in times)


def random_case(rng, most):
    nodes, per_node = rng.choice([(1, 2), (1, 3), (2, 2), (2, 2), (3, 2)])
    span, long = rng.choice([2, 6]), rng.choice([2, 5])
    count = rng.randint(1, most)
    jobs = sorted((rng.randint(0, span), rng.randint(1, long), rng.randint(1, nodes * per_node)) for _ in range(count))
    return jobs, nodes, per_node


def differences(seed, what, most, everything):
    rng = random.Random(seed)
    jobs, nodes, per_node = random_case(rng, most)
    longest = rng.choice([2, 4, 7])
    least = everything(jobs, nodes, per_node, longest)
    got = best.search(jobs, nodes, per_node, what, 10**6, longest, 10**6)
    starts = got["starts"]
    if got["sum"] != least:
        return f"seed {seed}: {jobs} on {nodes} x {per_node}, waits to {longest}: {got['sum']}, not {least}"
    waits = sum(starts[i] - jobs[i][0] for i in starts)
    if least is not None and (waits != least or not sound(jobs, starts, nodes, per_node)):
        return f"seed {seed}: {jobs} on {nodes} x {per_node}: starts {starts} are not a schedule of {least}"
    return None


def test_random():
    for what, most, count, everything in [
            ("hold", 4, 150, least_of_all),
            ("fit", 6, 150, lambda *a: least_of_orders(*a, any_place=False)),
            ("place", 5, 150, lambda *a: least_of_orders(*a, any_place=True))]:
        wrong = [w for w in (differences(seed, what, most, everything) for seed in range(count)) if w]
        ok(not wrong, f"{what}: as small a sum of waits as trying everything, {count} times", "\n".join(wrong[:5]))


# ---- the program ------------------------------------------------------------------------------------------------


def answer(path, nodes, per_node, *words):
    cluster = ["--nodes", str(nodes), "--gpus-per-node", str(per_node)]
    p = subprocess.run([sys.executable, PROGRAM, path, *cluster, "--json", *words],
                       capture_output=True, text=True, timeout=600)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def test_answers():
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        # A job for all GPUs, held back for 1 s, would let two short ones pass.
        f.write("submit_s,duration_s,gpus,user_or_vc\n0,100,2,a\n1,1,1,b\n1,1,1,b\n")
        f.flush()
        a = answer(f.name, 1, 2, "--wait", "1000")
        ok(a["answer"] == "none" and a["beat_jct_s"] == 100, "who may not hold back finds nothing", a)
        a = answer(f.name, 1, 2, "--wait", "1000", "--hold")
        ok(a["answer"] == "found" and a["least_jct_s"] == 104 / 3 and a["by_best_fit"] and
           [m["wait_s"] for m in a["moved"]] == [2, 0, 0], "who may finds that the long one can wait 2 s", a)
        a = answer(f.name, 1, 2, "--wait", "1", "--hold")
        ok(a["answer"] == "none", "but not with a wait of 1 s", a)
        a = answer(f.name, 1, 2, "--hold", "--wait", "1000", "--states", "2")
        ok(a["answer"] == "not settled", "with two states nothing is settled", a)


def test_recorded():
    global tests
    path = DATA + "/traces/helios-venus-vcvlY.csv"
    if not os.path.exists(path):
        tests += 1
        print(f"ok {tests} - a recorded trace # SKIP {path} is missing: set HEARTH_TEST_DATA")
        return
    for word in ([], ["--any-place"]):
        a = answer(path, 2, 8, *word)
        ok(a["answer"] == "none", " ".join(["a recorded trace: nobody who lets jobs start beats fifo-skip", *word]), a)
    a = answer(path, 2, 8, "--hold")
    ok(a["answer"] == "found" and a["max_wait_s"] <= a["wait_limit_s"] and a["least_jct_s"] < a["beat_jct_s"],
       "a recorded trace: who knows what will come and holds a job back does", a)


test_random()
test_answers()
test_recorded()
print(f"1..{max(tests, 1)}")
sys.exit(failed > 0)
