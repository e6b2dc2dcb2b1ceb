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
    def __init__(self, rows, nodes, per_node, policy, estimate="true", speedup=1):
        self.per_node, self.nodes = per_node, nodes
        self.base = policy.split("-")[0]
        self.skip = policy.endswith("-skip")
        jobs = [(s // speedup, i, d, g) for i, (s, d, g, _) in enumerate(rows)]
        self.dropped = sum(1 for j in jobs if j[3] > nodes * per_node)
        self.jobs = {j[1]: j for j in jobs if j[3] <= nodes * per_node}
        self.believed = {i: j[2] * (3 if estimate == "x3" else 1) for i, j in self.jobs.items()}
        self.free = [per_node] * nodes
        self.where, self.start, self.end = {}, {}, {}
        self.running = []
        self.promised = {}  # easy: head -> its first shadow time; conservative: job -> its first place in time
        self.kept = {}  # conservative: job -> (from, to, [(node, gpus)])
        self.run()

    def key(self, i):
        submit, row, duration, gpus = self.jobs[i]
        if self.base == "sjf":
            return (duration, row)
        if self.base == "saf":
            return (gpus * duration, row)
        return (submit, row)

    def begin(self, i, now, spots):
        for node, n in spots:
            self.free[node] -= n
            assert self.free[node] >= 0
        self.where[i], self.start[i], self.end[i] = spots, now, now + self.jobs[i][2]
        self.running.append(i)
        if i in self.promised:
            assert now <= self.promised[i], "a head started after its first shadow time"

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
            came = 0
            while at < len(arrivals) and self.jobs[arrivals[at]][0] == now:
                queue.append(arrivals[at])
                at, came = at + 1, came + 1
            if self.base in ("sjf", "saf") and came:
                queue.sort(key=self.key)
            if self.base == "conservative":
                queue = self.conservative(queue, now)
            else:
                queue = self.easy(queue, now) if self.base == "easy" else self.simple(queue, now)
        assert not queue

    def simple(self, queue, now):
        left, no_place, blocked = [], set(), False
        for at, i in enumerate(queue):
            gpus = self.jobs[i][3]
            # Within a pass nothing becomes free: what did not fit once does not fit again.
            spots = None if gpus in no_place else place(self.free, self.per_node, gpus)
            if spots is not None:
                self.begin(i, now, spots)
                continue
            no_place.add(gpus)
            left.append(i)
            if not self.skip:
                blocked = True
                break
        return left + queue[at + 1 :] if blocked else left

    def easy(self, queue, now):
        while queue:
            spots = place(self.free, self.per_node, self.jobs[queue[0]][3])
            if spots is None:
                break
            self.begin(queue.pop(0), now, spots)
        if not queue:
            return queue
        if not any(self.free) and all(self.jobs[i][3] for i in queue):
            return queue  # nothing free, and nobody who needs nothing
        head = queue[0]
        need = self.jobs[head][3]
        ends = sorted((self.start[i] + self.believed[i], i) for i in self.running)
        then, shadow = list(self.free), None
        for end, i in ends:
            if shadow is not None and end > shadow:
                break
            for node, n in self.where[i]:
                then[node] += n
            if shadow is None and place(then, self.per_node, need) is not None:
                shadow = end
        self.promised.setdefault(head, shadow)
        left, no_place = [head], set()
        for i in queue[1:]:
            gpus = self.jobs[i][3]
            spots = None if gpus in no_place else place(self.free, self.per_node, gpus)
            if spots is None:
                no_place.add(gpus)
                left.append(i)
                continue
            if now + self.believed[i] > shadow:
                beside = list(then)
                for node, n in spots:
                    beside[node] -= n
                if place(beside, self.per_node, need) is None:
                    left.append(i)
                    continue
                then = beside
            self.begin(i, now, spots)
        return left

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

    def figures(self):
        jct = sorted(self.end[i] - self.jobs[i][0] for i in self.jobs)
        wait = [self.start[i] - self.jobs[i][0] for i in self.jobs]
        n = len(jct)

        def percentile(p):
            return next(v for at, v in enumerate(jct, 1) if at * 100 >= p * n)

        span = max(self.end.values()) - min(j[0] for j in self.jobs.values()) if n else 0
        busy = sum(j[2] * j[3] for j in self.jobs.values())
        return {
            "jobs": n,
            "dropped": self.dropped,
            "avg_jct_s": sum(jct) / n if n else 0,
            "avg_wait_s": sum(wait) / n if n else 0,
            "p50_jct_s": percentile(50) if n else 0,
            "p95_jct_s": percentile(95) if n else 0,
            "p99_jct_s": percentile(99) if n else 0,
            "max_wait_s": max(wait, default=0),
            "makespan_s": span,
            "utilization": busy / (self.nodes * self.per_node * span) if span else 0,
        }
