"""A slow and obvious simulator by the rules of docs/spec/05c-simulator.md, to compare jobctl simulate with.

It shares nothing with the C one: lists are scanned, sorted and copied at each decision."""

import csv


def read(path, limit=None):
    with open(path, newline="") as f:
        rows = [(int(r["submit_s"]), int(r["duration_s"]), int(r["gpus"]), r["user_or_vc"]) for r in csv.DictReader(f)]
    return rows[:limit]


def place(free, per_node, gpus):
    """[(node, gpus there)] or None."""
    if gpus <= per_node:
        fitting = [(f, i) for i, f in enumerate(free) if f >= gpus]
        return [(min(fitting)[1], gpus)] if fitting else None
    whole, rest = divmod(gpus, per_node)
    empty = [i for i, f in enumerate(free) if f == per_node]
    if len(empty) < whole:
        return None
    got = [(i, per_node) for i in empty[:whole]]
    if rest:
        fitting = [(f, i) for i, f in enumerate(free) if f >= rest and i not in empty[:whole]]
        if not fitting:
            return None
        got.append((min(fitting)[1], rest))
    return got


class Run:
    def __init__(self, rows, nodes, per_node, estimate="true", speedup=1):
        self.per_node, self.nodes = per_node, nodes
        jobs = [(s // speedup, i, d, g) for i, (s, d, g, _) in enumerate(rows)]
        self.dropped = sum(1 for j in jobs if j[3] > nodes * per_node)
        self.jobs = {j[1]: j for j in jobs if j[3] <= nodes * per_node}
        self.believed = {i: j[2] * (3 if estimate == "x3" else 1) for i, j in self.jobs.items()}
        self.free = [per_node] * nodes
        self.where, self.start, self.end = {}, {}, {}
        self.running = []
        self.promised = {}  # job -> its first place in time
        self.kept = {}  # job -> (from, to, [(node, gpus)])
        self.run()

    def begin(self, i, now, spots):
        for node, n in spots:
            self.free[node] -= n
            assert self.free[node] >= 0
        self.where[i], self.start[i], self.end[i] = spots, now, now + self.jobs[i][2]
        self.running.append(i)
        if i in self.promised:
            assert now <= self.promised[i], "a job started later than promised"

    def finish(self, i):
        for node, n in self.where[i]:
            self.free[node] += n
        self.running.remove(i)

    def run(self):
        arrivals = sorted(self.jobs, key=lambda i: self.jobs[i][:2])
        queue, at = [], 0
        while at < len(arrivals) or self.running:
            times = [self.end[i] for i in self.running]
            if at < len(arrivals):
                times.append(self.jobs[arrivals[at]][0])
            now = min(times)
            for i in [i for i in self.running if self.end[i] == now]:
                self.finish(i)
            while at < len(arrivals) and self.jobs[arrivals[at]][0] == now:
                queue.append(arrivals[at])
                at += 1
            queue = self.conservative(queue, now)
        assert not queue

    def gone(self, i, now):
        """When a running job is believed to end: not yet."""
        return max(self.start[i] + self.believed[i], now + 1)

    def free_at(self, t, now):
        free = [self.per_node] * self.nodes
        there = [self.where[i] for i in self.running if self.gone(i, now) > t]
        there += [spots for begin, end, spots in self.kept.values() if begin <= t < end]
        for spots in there:
            for node, n in spots:
                free[node] -= n
        return free

    def least_free(self, begin, end, now):
        """What is free throughout: at the beginning and wherever something changes."""
        changes = {self.gone(i, now) for i in self.running}
        for a, b, _ in self.kept.values():
            changes |= {a, b}
        least = self.free_at(begin, now)
        for t in changes:
            if begin < t < end:
                least = [min(a, b) for a, b in zip(least, self.free_at(t, now))]
        return least

    def conservative(self, queue, now):
        """A place in time for each job, in order; each takes a sooner one than it has when there is one."""
        for i in queue:
            old = self.kept.pop(i, None)
            length = max(self.believed[i], 1)
            times = {now} | {self.gone(k, now) for k in self.running} | {end for _, end, _ in self.kept.values()}
            for t in sorted(times):
                spots = place(self.least_free(t, t + length, now), self.per_node, self.jobs[i][3])
                if spots is not None:
                    break
            assert old is None or t <= old[0], "a place that was kept is gone"
            self.kept[i] = (t, t + length, spots)
            self.promised.setdefault(i, t)
        for i in queue:
            if self.kept[i][0] == now:
                self.begin(i, now, self.kept.pop(i)[2])
        return [i for i in queue if i in self.kept]
