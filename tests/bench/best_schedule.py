#!/usr/bin/env python3
"""Is there a schedule of a trace that beats given figures? An exhaustive search, by the simulator's rules.

usage: best_schedule.py TRACE.csv --nodes N --gpus-per-node G [--speedup X] [--any-place | --hold] [--jct S]
                        [--wait S] [--states N] [--json]

Asked is a schedule with a mean completion time below --jct and a longest wait of at most --wait. Without
them: below the better of fifo-skip and easy x3, and 1.1 x the wait of easy x3 (tests/unit/scheduler/sim/sim_reference.py).

Without --hold: every schedule that starts jobs as long as one that waits fits, at each arrival and end, by the
simulator's placement (best fit, lowest number); with --any-place at whatever place. With --hold: every schedule
there is, so also jobs that are kept waiting while they would fit, at any place. Then only starts need to be tried
that cannot be moved to an earlier time at the same place: at a job's own arrival, or at an end without which it
would not fit where it goes. (Moved so, one by one in order of start, no job of any schedule starts later than
before.) Of jobs alike (run time and GPUs) the one that came first goes first: exchanged, the sum of waits is the
same, the longest no longer. The search sees all run times and arrivals to come: what it does not find, no
scheduler can find.

What can still happen depends only on what runs where until when, and who waits: of ways to the same of it the
cheapest is followed, with --hold also instead of ways to what has no GPU free sooner. Ways are followed in order
of the waits that they have cost and will at least cost (what runs is not stopped), so the first schedule that is
complete is the best there is. With --hold the trace is cut wherever fifo-skip leaves the cluster empty: a schedule
of the whole, seen for the jobs of one part only, is a schedule of that part, so the least sums of the parts add up
to a lower bound; parts whose best schedules would meet are joined and searched again. The answer is "none",
"found" (with the best there is), or "not settled" when the bound on states is reached."""

import argparse
import heapq
import itertools
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unit"))
sys.dont_write_bytecode = True
import sim_reference as reference  # noqa: E402


class OutOfStates(Exception):
    pass


def free_of(nodes):
    return [node.count(0) for node in nodes]


def every_place(nodes, free, gpus, per_node):
    """[(node, gpus there)], of nodes alike only the first."""
    whole, rest = divmod(gpus, per_node)
    seen = set()
    for empty in itertools.combinations([i for i, f in enumerate(free) if f == per_node], whole):
        rests = [i for i, f in enumerate(free) if f >= rest and i not in empty] if rest else [None]
        for last in rests:
            alike = (tuple(sorted(nodes[i] for i in empty)), None if last is None else nodes[last])
            if alike not in seen:
                seen.add(alike)
                yield [(i, per_node) for i in empty] + ([] if last is None else [(last, rest)])


class Search:
    """Least sum of waits of a list of jobs (submit, duration, gpus), in order of submission, with no wait above
    `longest` and a sum below `below`: .sum (None: there is none), .starts, .end.

    A state: of each node the times at which its GPUs become free, in order, 0 for those that are; who waits; how
    many jobs have come. Time itself is not part of it: nothing happens before the next of these times."""

    def __init__(self, jobs, nodes, per_node, what, below, longest, states):
        self.jobs, self.per_node = jobs, per_node
        self.hold, self.any_place = what == "hold", what != "fit"
        self.below, self.longest, self.left = below, longest, states
        self.sum, self.starts, self.end = None, {}, 0
        self.front = {}  # (who waits, how many have come) -> [(cost, now, nodes)], none better than another
        self.run(tuple((0,) * per_node for _ in range(nodes)))

    def run(self, empty):
        # A way: (state, cost, way before it, time, started then).
        first, tie = ((empty, (), 0), 0, None, 0, ()), 0
        self.worse(0, *first[:2])
        heap = [(0, 0, 0, first)]
        while heap:
            way = heapq.heappop(heap)[3]
            nodes, waiting, come = way[0]
            if (way[1], way[3], nodes) not in self.front[waiting, come]:
                continue  # a better one was found since
            if come == len(self.jobs) and not waiting:
                self.reached(way)
                return
            for now, after, started, cost in self.moment(*way[:2]):
                if not self.worse(now, after, cost):
                    tie += 1
                    least = cost + self.to_wait(now, *after)
                    heapq.heappush(heap, (least, -now, tie, (after, cost, way, now, started)))

    def worse(self, now, state, cost):
        """Whether another way here is at least as good; if not, this one is remembered."""
        nodes, waiting, come = state
        front = self.front.setdefault((waiting, come), [])
        if any(self.covers(f, cost, now, nodes) for f in front):
            return True
        mine = (cost, now, nodes)
        front[:] = [f for f in front if not self.covers(mine, *f)] + [mine]
        return False

    def covers(self, one, cost, now, nodes):
        if one[0] > cost:
            return False
        if not self.hold:
            return one[2] == nodes
        # No GPU becomes free later, and it is no later: what can follow there can follow here.
        return one[1] <= now and all(a <= b for x, y in zip(one[2], nodes) for a, b in zip(x, y))

    def reached(self, way):
        self.sum = way[1]
        while way:
            for i in way[4]:
                self.starts[i] = way[3]
            way = way[2]
        self.end = max((t + self.jobs[i][1] for i, t in self.starts.items()), default=0)

    def next_time(self, nodes, come):
        times = [end for node in nodes for end in node if end]
        if come < len(self.jobs):
            times.append(self.jobs[come][0])
        return min(times, default=None)

    def moment(self, state, cost):
        """All ways to go through the next time at which something happens."""
        nodes, waiting, come = state
        now = self.next_time(nodes, come)
        if now is None:
            return  # all were held back for nothing
        before = free_of(nodes)
        nodes = tuple(tuple(0 if end <= now else end for end in node) for node in nodes)
        while come < len(self.jobs) and self.jobs[come][0] == now:
            waiting, come = waiting + (come,), come + 1
        if waiting and now - self.jobs[waiting[0]][0] > self.longest:
            return
        yield from self.passes(now, before, nodes, waiting, come, cost)

    def passes(self, now, before, nodes, waiting, come, cost):
        seen, stack = set(), [(nodes, waiting, (), cost)]
        while stack:
            nodes, waiting, started, cost = stack.pop()
            self.left -= 1
            if self.left < 0:
                raise OutOfStates
            could = False
            for i, spots in self.starts_of(now, before, nodes, waiting):
                could = True
                end, to = now + self.jobs[i][1], list(nodes)
                for node, g in spots:
                    to[node] = tuple(sorted(to[node][g:] + (end,) * g))
                after = (tuple(to), tuple(w for w in waiting if w != i))
                if after not in seen:
                    seen.add(after)
                    stack.append((*after, started + (i,), cost + now - self.jobs[i][0]))
            if (self.hold or not could) and cost + self.to_wait(now, nodes, waiting, come) < self.below:
                # Nodes are alike but for what runs there; best fit goes by their numbers, too.
                yield now, (tuple(sorted(nodes)) if self.any_place else nodes, waiting, come), started, cost

    def to_wait(self, now, nodes, waiting, come):
        """What those that have not started will at least wait: until what runs makes room."""
        total, last, room = 0, max(node[-1] for node in nodes), {}
        for w in itertools.chain(waiting, range(come, len(self.jobs))):
            submit, _, gpus = self.jobs[w]
            if submit >= last and w >= come:
                break  # nor those that come after it
            if gpus not in room:
                room[gpus] = self.room_at(nodes, gpus)
            total += max(room[gpus], submit, now) - submit
        return total

    def room_at(self, nodes, gpus):
        whole, rest = divmod(gpus, self.per_node)
        if whole:
            return sorted(node[-1] for node in nodes)[whole - 1]
        return min(node[rest - 1] for node in nodes) if rest else 0

    def starts_of(self, now, before, nodes, waiting):
        free, kinds = free_of(nodes), set()
        for i in waiting:
            submit, duration, gpus = self.jobs[i]
            if (duration, gpus) in kinds:
                continue
            kinds.add((duration, gpus))
            if not self.any_place:
                spots = reference.place(free, self.per_node, gpus)
                if spots is not None:
                    yield i, spots
                continue
            # Nodes that differ in what was free before this time are not alike here.
            for spots in every_place(tuple(zip(before, nodes)), free, gpus, self.per_node):
                if not self.hold or submit == now or any(before[node] < g for node, g in spots):
                    yield i, spots


def parts(jobs, nodes, per_node):
    """Lists of numbers of jobs: a new part begins where fifo-skip has left the cluster empty."""
    run = reference.Run([(s, d, g, "") for s, d, g in jobs], nodes, per_node, "fifo-skip")
    out, until = [], None
    for i, (submit, _, _) in enumerate(jobs):
        if until is None or submit >= until:
            out.append([])
        out[-1].append(i)
        until = max(until or 0, run.end[i])
    return out


def waits_of(jobs, nodes, per_node):
    run = reference.Run([(s, d, g, "") for s, d, g in jobs], nodes, per_node, "fifo-skip")
    return [run.start[i] - jobs[i][0] for i in range(len(jobs))]


def search_part(jobs, nodes, per_node, longest, states):
    """A part by itself, with --hold: (least sum of waits or None, starts, end, states used)."""
    waits = waits_of(jobs, nodes, per_node)
    below = sum(waits) + 1 if max(waits) <= longest else float("inf")
    s = Search(jobs, nodes, per_node, "hold", below, longest, states)
    return s.sum, s.starts, s.end, states - s.left


def best_holding(jobs, nodes, per_node, longest, states):
    """(least sum of all waits, start of each) by parts; None: no schedule keeps all waits."""
    todo, total, starts = parts(jobs, nodes, per_node), 0, {}
    at, used = 0, 0
    while at < len(todo):
        part = todo[at]
        least, own, end, cost = search_part([jobs[i] for i in part], nodes, per_node, longest, states - used)
        used += cost
        if least is None:
            return None, {}, used
        if at + 1 < len(todo) and end > jobs[todo[at + 1][0]][0]:
            todo[at] = part + todo.pop(at + 1)  # they would meet
            continue
        total += least
        starts.update({part[i]: t for i, t in own.items()})
        at += 1
    return total, starts, used


def by_best_fit(jobs, starts, nodes, per_node):
    """Whether these starts are possible with the simulator's placement, starts of one time in order of submission."""
    free, ends = [per_node] * nodes, []
    for start, i in sorted((t, i) for i, t in starts.items()):
        for e in [e for e in ends if e[0] <= start]:
            ends.remove(e)
            for node, g in e[1]:
                free[node] += g
        spots = reference.place(free, per_node, jobs[i][2])
        if spots is None:
            return False
        for node, g in spots:
            free[node] -= g
        ends.append((start + jobs[i][1], spots))
    return True


def search(jobs, nodes, per_node, what, below, longest, states):
    """`what`: "fit" (the simulator's place), "place" (any), "hold" (any schedule). `below`: the sum of waits to
    beat. A dictionary: answer, sum, starts, states."""
    try:
        if what == "hold":
            least, starts, used = best_holding(jobs, nodes, per_node, longest, states)
        else:
            s = Search(jobs, nodes, per_node, what, below, longest, states)
            least, starts, used = s.sum, s.starts, states - s.left
    except OutOfStates:
        return {"answer": "not settled", "sum": None, "starts": {}, "states": states}
    found = least is not None and least < below
    return {"answer": "found" if found else "none", "sum": least, "starts": starts, "states": used}


def measures(jobs_rows, nodes, per_node, speedup):
    """The figures to beat: of fifo-skip and easy x3."""
    skip = reference.Run(jobs_rows, nodes, per_node, "fifo-skip", "true", speedup).figures()
    easy = reference.Run(jobs_rows, nodes, per_node, "easy", "x3", speedup).figures()
    return min(skip["avg_jct_s"], easy["avg_jct_s"]), 1.1 * easy["max_wait_s"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("trace")
    p.add_argument("--nodes", type=int, required=True)
    p.add_argument("--gpus-per-node", type=int, required=True)
    p.add_argument("--speedup", type=int, default=1)
    p.add_argument("--any-place", dest="what", action="store_const", const="place", default="fit",
                   help="at any place, not only at that of best fit")
    p.add_argument("--hold", dest="what", action="store_const", const="hold",
                   help="also schedules that let a job wait that would fit; at any place")
    p.add_argument("--jct", type=float, help="mean completion time to beat, in seconds")
    p.add_argument("--wait", type=float, help="longest wait that is allowed, in seconds")
    p.add_argument("--states", type=int, default=5_000_000, help="tried at most")
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def main():
    a = arguments()
    rows = reference.read(a.trace)
    jct, wait = measures(rows, a.nodes, a.gpus_per_node, a.speedup)
    jct, wait = a.jct if a.jct is not None else jct, a.wait if a.wait is not None else wait
    # In the simulator's order: by (submit, row); jobs that are larger than the cluster are dropped.
    largest = a.nodes * a.gpus_per_node
    order = sorted((s // a.speedup, row, d, g) for row, (s, d, g, _) in enumerate(rows) if g <= largest)
    jobs = [(s, d, g) for s, _, d, g in order]
    run = sum(d for _, d, _ in jobs)
    got = search(jobs, a.nodes, a.gpus_per_node, a.what, round((jct * len(jobs) - run) * 1000) / 1000, wait, a.states)
    out = {"trace": os.path.basename(a.trace), "nodes": a.nodes, "gpus_per_node": a.gpus_per_node, "speedup": a.speedup,
           "search": a.what, "jobs": len(jobs), "beat_jct_s": jct, "wait_limit_s": wait, "answer": got["answer"],
           "states": got["states"]}
    if got["sum"] is not None:
        starts = got["starts"]
        out["least_jct_s"] = (got["sum"] + run) / len(jobs)
        out["max_wait_s"] = max(starts[i] - jobs[i][0] for i in starts)
        if a.what != "fit":
            out["by_best_fit"] = by_best_fit(jobs, starts, a.nodes, a.gpus_per_node)
        usual = waits_of(jobs, a.nodes, a.gpus_per_node)
        out["moved"] = [{"row": order[i][1], "submit_s": jobs[i][0], "duration_s": jobs[i][1], "gpus": jobs[i][2],
                         "wait_s": starts[i] - jobs[i][0], "fifo_skip_wait_s": usual[i]}
                        for i in sorted(starts) if starts[i] - jobs[i][0] != usual[i]]
    if a.json:
        print(json.dumps(out))
        return
    for key, value in out.items():
        if key != "moved":
            print(f"{key}: {value}")
    for m in out.get("moved", []):
        print("  row {row}: submitted {submit_s}, {gpus} GPUs for {duration_s} s, waits {wait_s} instead of "
              "{fifo_skip_wait_s}".format(**m))


if __name__ == "__main__":
    main()
