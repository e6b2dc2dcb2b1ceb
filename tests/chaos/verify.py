#!/usr/bin/python3
"""verify: reads what was written down while faults were injected, and says whether Hearth kept its promises.

    verify.py collect SOCKET HIST    asks hearthd for everything that it has on record (before it is taken down)
    verify.py check HIST             prints one line "RULE: what" per finding; ends with 1 when there is one

Nothing here asks a running part: a finding can be looked at again from the folder alone.

    HIST/client.jsonl    what a client asked, and what it was answered: {"t0","t1","op","args","rc","out"}
    HIST/faults.jsonl    what was done to the cluster: {"t","do":"inject"|"heal","fault","args","host","job"}; host,
                         job and launcher say whose work may end otherwise because of it (none: nobody's)
    HIST/side/J.A.R      what rank R of attempt A of job J did, by its own account (tests/programs/steps.c)
    HIST/record.json     jobs with attempts, ranks, events and lists of logs, as hearthd tells them
    HIST/logs/J.A.R      the log of that rank
    HIST/left/HOST       a line per process, folder, mount or control group that is left on that host; "unknown: WHY"
                         when nobody could look
    HIST/store.txt       what `hearthd --verify` says; its exit status is the last line
    HIST/dead.txt        programs of Hearth that are gone although nobody killed them
    HIST/daemons/*.log   logs of the daemons

Times of side files are on one clock (CLOCK_BOOTTIME of the machine that all hosts share), so that "at the
same time" means just that.
"""
import collections
import glob
import http.client
import json
import os
import re
import socket
import sys

ENDS = ("completed", "failed", "stopped")
# What a job may not have after its end: anything but these.
AFTER_END = {"changed", "tagged", "removed", "cleanup"}
FINAL_RANK = {"rank_exited", "rank_lost", "rank_failed"}
CRASH = re.compile(r"assert|Assertion|Sanitizer|stack smashing|event=fault_unknown|event=illegal|event=impossible")
# What stands in a log in place of bytes that did not come.
NOTE = re.compile(r"^\[hearth: (\d+) bytes are missing here\]\n", re.M)
# A fault acts a little before and after its time stamps, and what it did to a job may show later.
SLACK_US = 2_000_000


# ---- collecting ---------------------------------------------------------------------------------------
class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def fetch(conn, path):
    conn.request("GET", "/api/v1" + path)
    answer = conn.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit("GET %s: %d %s" % (path, answer.status, body[:300]))
    return body


def pages(conn, path, key, step):
    """All records of a listing; step(last) gives the query of the next page."""
    out, query = [], step(None)
    while True:
        page = json.loads(fetch(conn, path + query))[key]
        if not page:
            return out
        out += page
        query = step(page[-1])


def collect(sock, hist):
    conn = Unix(sock)
    listed = json.loads(fetch(conn, "/jobs?limit=1000"))
    ids = [j["id"] for j in listed["jobs"]]
    if len(ids) >= 1000:
        raise SystemExit("collect: 1000 jobs or more in one run are not looked at")
    os.makedirs(os.path.join(hist, "logs"), exist_ok=True)
    jobs = []
    for job_id in sorted(ids):
        base = "/jobs/%d" % job_id
        job = json.loads(fetch(conn, base))
        job["events"] = pages(conn, base + "/events", "events",
                              lambda last: "?limit=1000&after=%d" % (last["id"] if last else 0))
        job["streams"] = []
        for attempt in job["attempts"]:
            number = attempt["number"]
            job["streams"] += json.loads(fetch(conn, base + "/logs?attempt=%d" % number))["streams"]
        for stream in job["streams"]:
            if not stream["stream"].startswith("rank-"):
                continue
            text = fetch(conn, base + "/logs/%s?attempt=%d" % (stream["stream"], stream["attempt"]))
            name = "%d.%d.%s" % (job_id, stream["attempt"], stream["stream"][5:])
            with open(os.path.join(hist, "logs", name), "wb") as f:
                f.write(text)
        jobs.append(job)
    with open(os.path.join(hist, "record.json"), "w") as f:
        json.dump({"jobs": jobs}, f, indent=1)
    return 0


# ---- reading ------------------------------------------------------------------------------------------
def lines_of(path):
    try:
        with open(path, errors="replace") as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return None


def json_lines(path):
    return [json.loads(line) for line in lines_of(path) or [] if line.strip()]


class Side:
    """One rank's own account of its life."""

    def __init__(self, path):
        self.job, self.attempt, self.rank = (int(x) for x in os.path.basename(path).split("."))
        self.starts, self.steps, self.ends = [], [], []
        self.wrong = []
        for line in lines_of(path):
            words = line.split()
            if words[0] == "start":
                said = dict(w.split("=", 1) for w in words[2:])
                self.starts.append((int(words[1]), said))
            elif words[0] == "step":
                self.steps.append((int(words[1]), int(words[2])))
            elif words[0] == "end":
                said = dict(w.split("=", 1) for w in words[2:])
                self.ends.append((int(words[1]), int(said["code"]), int(said["write_max_us"])))
            else:
                self.wrong.append(line)

    def first(self):
        return min(t for t, _ in self.starts) if self.starts else self.last()

    def last(self):
        times = [t for t, _ in self.starts] + [t for _, t in self.steps] + [e[0] for e in self.ends]
        return max(times)

    def name(self):
        return "job %d attempt %d rank %d" % (self.job, self.attempt, self.rank)


class History:
    def __init__(self, hist):
        self.hist = hist
        self.client = json_lines(os.path.join(hist, "client.jsonl"))
        self.faults = json_lines(os.path.join(hist, "faults.jsonl"))
        with open(os.path.join(hist, "record.json")) as f:
            self.jobs = json.load(f)["jobs"]
        self.by_id = {j["id"]: j for j in self.jobs}
        self.side = [Side(p) for p in sorted(glob.glob(os.path.join(hist, "side", "*")))]
        self.side_of = {(s.job, s.attempt, s.rank): s for s in self.side}

    def log_text(self, job, attempt, rank):
        try:
            with open(os.path.join(self.hist, "logs", "%d.%d.%d" % (job, attempt, rank)), encoding="latin-1", newline="") as f:
                return f.read()
        except FileNotFoundError:
            return ""


class Program:
    """What the command of a job says that its ranks do (tests/programs/steps.c), or None for another program."""

    def __init__(self, argv):
        rest, self.only, self.signal, self.pad = list(argv[1:]), None, 0, 0
        while rest and rest[0].startswith("-"):
            value = int(rest[1])
            if rest[0] == "-r":
                self.only = value
            elif rest[0] == "-s":
                self.signal = value
            elif rest[0] == "-b":
                self.pad = value
            rest = rest[2:]
        self.steps = int(rest[1])
        self.code = int(rest[3]) if len(rest) > 3 else 0

    @staticmethod
    def of(job):
        argv = job["spec"]["command"]
        return Program(argv) if os.path.basename(argv[0]) == "steps" else None

    def line(self, step, rank, attempt):
        text = "step %d of %d rank %d attempt %d" % (step, self.steps, rank, attempt)
        return text.ljust(self.pad - 1, ".") + "\n" if self.pad else text + "\n"

    def output(self, rank, attempt):
        """All that a rank prints."""
        return "".join(self.line(k, rank, attempt) for k in range(1, self.steps + 1))

    def bytes_of(self, steps, rank, attempt):
        """How much of it the first steps are."""
        return sum(len(self.line(k, rank, attempt)) for k in range(1, steps + 1))

    def wanted(self):
        """(status, exit_code) of a job that nothing was done to."""
        if self.signal:
            return "failed", 128 + self.signal
        return ("failed", self.code) if self.code else ("completed", 0)


def time_us(text):
    """RFC 3339 with microseconds to microseconds."""
    import datetime

    t = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return int(t.timestamp()) * 1_000_000 + t.microsecond


def ranks_of(attempt):
    """[(rank, node)] in rank order."""
    out = []
    for place in attempt["placement"]:
        out += [(len(out) + i, place["node"]) for i in range(place["ranks"])]
    return out


# ---- rules --------------------------------------------------------------------------------------------
# Each takes the history and yields what is wrong. The name of the function is the name of the rule.
RULES = []


def rule(f):
    RULES.append(f)
    return f


def spans_of_faults(h):
    """[(from, to, fault)]: an injection lasts until the heal of the same fault and arguments, or is an instant."""
    out, open_ = [], {}
    for f in h.faults:
        key = (f["fault"], f.get("args", ""))
        if f["do"] == "inject":
            out.append([f["t"], f["t"], f])
            open_[key] = out[-1]
        elif key in open_:
            open_.pop(key)[1] = f["t"]
    for span in open_.values():
        if span[2].get("lasting"):
            span[1] = 1 << 62
    return out


def disturbed(h, job):
    """Was anything done that may change how this job ends?"""
    for begin, end, f in spans_of_faults(h):
        if f.get("job") == job["id"]:
            return True
        if not f.get("host") or f.get("launcher") not in (None, job["spec"].get("launcher", "mpirun")):
            continue
        for a in job["attempts"]:
            if f["host"] not in a["nodes"] and f["host"] != "head":
                continue
            if begin <= (time_us(a["ended_at"]) if a["ended_at"] else 1 << 62) + SLACK_US and \
                    time_us(a["started_at"]) <= end + SLACK_US:
                return True
    return False


def asked(h, job, *ops):
    return any(c["op"] in ops and c["args"] and c["args"][0] == str(job["id"]) for c in h.client)


@rule
def something_happened(h):
    """A check of nothing would pass."""
    if not h.jobs or not h.side or not any(s.steps for s in h.side):
        yield "no job of this run wrote anything: nothing was tested"
    if not h.faults:
        yield "no fault was injected"
        return
    last = max(f["t"] for f in h.faults)
    before = [c for c in h.client if c["rc"] == 0 and c["t1"] <= last]
    if not any(c["op"] == "show" and json.loads(c["out"])["status"] in ENDS for c in before):
        yield "no end of a job was shown before a fault: that it stays was not tested"
    if not any(c["op"] == "logs" and c["out"] for c in before):
        yield "no line of a log was shown before a fault: that it stays was not tested"


@rule
def acknowledged_jobs_exist(h):
    for c in h.client:
        if c["op"] != "submit" or c["rc"] != 0:
            continue
        job = h.by_id.get(int(c["out"]))
        if not job:
            yield "job %s (%s) was acknowledged and is not on record" % (c["out"], c["args"][0])
        elif job["name"] != c["args"][0]:
            yield "job %s was acknowledged for %s and is %s" % (c["out"], c["args"][0], job["name"])


@rule
def nothing_unasked(h):
    names = collections.Counter(c["args"][0] for c in h.client if c["op"] == "submit")
    for name, n in collections.Counter(j["name"] for j in h.jobs).items():
        if name not in names:
            yield "job %s is on record and nobody submitted it" % name
        elif n > names[name]:
            yield "%s was submitted %d times and is %d times on record" % (name, names[name], n)


@rule
def jobs_end(h):
    for j in h.jobs:
        if j["status"] not in ENDS:
            yield "job %d (%s) is %s at the end of the run" % (j["id"], j["name"], j["status"])
        elif j["status"] == "failed" and not j["reason"]:
            yield "job %d failed without a reason" % j["id"]


@rule
def ends_never_change(h):
    for c in h.client:
        if c["op"] != "show" or c["rc"] != 0:
            continue
        seen = json.loads(c["out"])
        if seen["status"] not in ENDS:
            continue
        job = h.by_id.get(seen["id"])
        if not job or any(seen[k] != job[k] for k in ("status", "exit_code", "reason")):
            yield "job %d was shown as %s and is %s" % (seen["id"], seen["status"], job and job["status"])


@rule
def ends_are_right(h):
    """What nothing was done to ends as its program does; and nobody says success without every rank's own word."""
    for j in h.jobs:
        p = Program.of(j)
        if not p or j["status"] not in ENDS:
            continue
        if j["status"] == "completed":
            a = j["attempts"][-1]
            for rank, _ in ranks_of(a):
                s = h.side_of.get((j["id"], a["number"], rank))
                if not s or not s.ends or s.ends[-1][1] != 0:
                    yield "job %d is completed but its rank %d never said that it ended with 0" % (j["id"], rank)
        if not asked(h, j, "stop", "requeue") and not disturbed(h, j):
            got = (j["status"], j["exit_code"])
            if got != p.wanted():
                yield "job %d (%s) is %s with %s instead of %s with %s: %s" % (
                    (j["id"], j["name"]) + got + p.wanted() + (j["reason"],))
            if len(j["attempts"]) != 1:
                yield "job %d has %d attempts though nothing was done to it" % (j["id"], len(j["attempts"]))


@rule
def exit_codes_are_exact(h):
    for j in h.jobs:
        p = Program.of(j)
        for e in j["events"]:
            if e["type"] != "rank_exited":
                continue
            s = h.side_of.get((j["id"], e["attempt"], e["data"]["rank"]))
            code = e["data"].get("exit_code")
            if not p or not s or code is None:
                continue
            if not s.ends and code == 0:
                yield "%s is recorded with exit code 0 and did not come to its end" % s.name()
            elif s.ends and s.ends[-1][1] != code and not p.signal:
                yield "%s ended with %d and is recorded with %d" % (s.name(), s.ends[-1][1], code)


@rule
def nothing_runs_twice(h):
    for s in h.side:
        if len(s.starts) != 1:
            yield "%s was started %d times" % (s.name(), len(s.starts))
        job = h.by_id.get(s.job)
        if not job:
            yield "%s ran and the job is not on record" % s.name()
            continue
        attempt = [a for a in job["attempts"] if a["number"] == s.attempt]
        if not attempt:
            yield "%s ran and the attempt is not on record" % s.name()
            continue
        node = dict(ranks_of(attempt[0])).get(s.rank)
        for _, said in s.starts:
            if said["host"] != node:
                yield "%s ran on %s and is recorded on %s" % (s.name(), said["host"], node)
        if s.wrong:
            yield "%s: line that is none: %s" % (s.name(), s.wrong[0])
        if [k for k, _ in s.steps] != list(range(1, len(s.steps) + 1)):
            yield "%s: its own steps are not 1, 2, 3..." % s.name()


@rule
def attempts_do_not_overlap(h):
    spans = collections.defaultdict(dict)
    for s in h.side:
        first, last = spans[s.job].get(s.attempt, (s.first(), s.last()))
        spans[s.job][s.attempt] = (min(first, s.first()), max(last, s.last()))
    for job, attempts in spans.items():
        numbers = sorted(attempts)
        for i, a in enumerate(numbers):
            for b in numbers[i + 1:]:
                both = attempts[a][1] - attempts[b][0]
                if both >= 0:
                    yield "job %d: attempt %d still ran %.3f s after attempt %d had begun" % (job, a, both / 1e6, b)


@rule
def no_gpu_is_given_twice(h):
    used = collections.defaultdict(list)
    for s in h.side:
        for t, said in s.starts:
            for gpu in said["gpus"].split(","):
                if gpu not in ("-", ""):
                    used[(said["host"], gpu)].append((t, s.last(), s.job, s.attempt))
    for (host, gpu), spans in used.items():
        spans.sort()
        for i, a in enumerate(spans):
            for b in spans[i + 1:]:
                if b[0] > a[1]:
                    break
                if a[2:] != b[2:]:
                    yield "GPU %s of %s is used by job %d attempt %d and job %d attempt %d at once" % (
                        (gpu, host) + a[2:] + b[2:])


def check_log(h, j, attempt, rank, stream):
    """Findings of one log, byte by byte: what is there is what the rank wrote, in its order; what is missing is announced
    in its place and counted exactly."""
    s, p = h.side_of.get((j["id"], attempt["number"], rank)), Program.of(j)
    name = "job %d attempt %d rank %d" % (j["id"], attempt["number"], rank)
    lost = stream["lost"] if stream else 0
    wrote = p.output(rank, attempt["number"])
    at = told = 0  # in what the rank wrote; bytes that notes tell of
    for part, gap in parts_of(h.log_text(j["id"], attempt["number"], rank)):
        # A note that comes within a line has a line end before it that the rank never wrote.
        if gap and wrote[at:at + len(part)] != part and part.endswith("\n"):
            part = part[:-1]
        if wrote[at:at + len(part)] != part:
            yield "%s: %s" % (name, difference(wrote, at, part))
            return
        at, told = at + len(part) + gap, told + gap
    if told != lost:
        yield "%s: notes in the log tell of %d missing bytes, %d are counted" % (name, told, lost)
    if not s:
        if at:
            yield "%s: has a log and never ran" % name
        return
    done = s.steps[-1][0] if s.steps else 0
    if at > p.bytes_of(done, rank, attempt["number"]):
        yield "%s: the log goes to byte %d, the rank came to step %d" % (name, at, done)
    # A rank that was killed between its own note and its line has one line less.
    least = p.bytes_of(done if s.ends else max(done - 1, 0), rank, attempt["number"])
    well = j["status"] == "completed" and attempt is j["attempts"][-1]
    whole = well or not (disturbed(h, j) or j["status"] not in ENDS)
    if whole and at < least:
        yield "%s: the log ends at byte %d, the rank came to step %d (%d bytes, %d are told as lost)" % (
            name, at, done, least, told)
    if well and at != len(wrote):
        yield "%s: completed with %d of %d bytes in its log or told as lost" % (name, at, len(wrote))


def parts_of(text):
    """[(text, bytes missing behind it)] of a log."""
    at = 0
    for m in NOTE.finditer(text):
        yield text[at:m.start()], int(m.group(1))
        at = m.end()
    yield text[at:], 0


def difference(wrote, at, part):
    """The first line of part that is not what was written from `at` on."""
    same = len(os.path.commonprefix([wrote[at:at + len(part)], part]))
    begin = part.rfind("\n", 0, same) + 1
    return "byte %d: %r instead of %r" % (at + same, part[begin:begin + 100].split("\n")[0],
                                         wrote[at + begin:at + begin + 100].split("\n")[0])


@rule
def logs_are_whole(h):
    for j in h.jobs:
        if not Program.of(j):
            continue
        streams = {(s["attempt"], s["stream"]): s for s in j["streams"]}
        for a in j["attempts"]:
            for rank, _ in ranks_of(a):
                yield from check_log(h, j, a, rank, streams.get((a["number"], "rank-%d" % rank)))


@rule
def shown_lines_stay(h):
    for c in h.client:
        if c["op"] != "logs" or c["rc"] != 0:
            continue
        job, rank, attempt = (int(x) for x in c["args"])
        if not h.log_text(job, attempt, rank).startswith(c["out"].rstrip("\n")):
            yield "job %d attempt %d rank %d: lines that were shown are not in its log any more" % (job, attempt, rank)


@rule
def events_are_sound(h):
    for j in h.jobs:
        ids = [e["id"] for e in j["events"]]
        if ids != sorted(set(ids)):
            yield "job %d: ids of events do not rise" % j["id"]
        types = [e["type"] for e in j["events"]]
        if j["status"] in ENDS and types.count("ended") != 1:
            yield "job %d: %d events say that it ended" % (j["id"], types.count("ended"))
        if "ended" in types:
            for e in j["events"][types.index("ended") + 1:]:
                if e["type"] not in AFTER_END:
                    yield "job %d: %s after its end" % (j["id"], e["type"])
        finals = collections.Counter((e["attempt"], e["data"]["rank"]) for e in j["events"] if e["type"] in FINAL_RANK)
        for (attempt, rank), n in finals.items():
            if n > 1:
                yield "job %d attempt %d: rank %d ended %d times" % (j["id"], attempt, rank, n)
        epochs = [e["data"]["epoch"] for e in j["events"] if e["type"] == "placed"]
        if epochs != sorted(set(epochs)):
            yield "job %d: epochs do not rise: %s" % (j["id"], epochs)
        if types.count("placed") != len(j["attempts"]):
            yield "job %d: %d attempts, placed %d times" % (j["id"], len(j["attempts"]), types.count("placed"))


@rule
def ranks_are_reported(h):
    """Every rank of an attempt that ended has one end on record."""
    for j in h.jobs:
        finals = {(e["attempt"], e["data"]["rank"]) for e in j["events"] if e["type"] in FINAL_RANK}
        for s in h.side:
            if s.job == j["id"] and j["status"] in ENDS and (s.attempt, s.rank) not in finals:
                yield "%s ran, and how it ended is not on record" % s.name()


@rule
def nothing_is_left(h):
    for path in sorted(glob.glob(os.path.join(h.hist, "left", "*"))):
        for line in lines_of(path):
            yield "left on %s: %s" % (os.path.basename(path), line)
    if not os.path.isdir(os.path.join(h.hist, "left")):
        yield "nobody looked for what is left"


@rule
def store_is_sound(h):
    said = lines_of(os.path.join(h.hist, "store.txt"))
    if not said or said[-1] != "0":
        yield "hearthd --verify: %s" % " / ".join(said or ["was not run"])


@rule
def nobody_died_alone(h):
    for line in lines_of(os.path.join(h.hist, "dead.txt")) or []:
        yield "%s died, and nobody killed it" % line
    for path in sorted(glob.glob(os.path.join(h.hist, "daemons", "*.log"))):
        for line in lines_of(path):
            if CRASH.search(line):
                yield "%s: %.300s" % (os.path.basename(path), line)


# ---- main ---------------------------------------------------------------------------------------------
def check(hist):
    h = History(hist)
    found = 0
    for f in RULES:
        for text in f(h):
            found += 1
            print("%s: %s" % (f.__name__, text))
    ends = collections.Counter(j["status"] for j in h.jobs)
    print("# %d jobs (%s), %d attempts, %d ranks ran, %d steps, %d requests (%d of them show or logs), %d faults, %d rules: %d findings" % (
        len(h.jobs), ", ".join("%d %s" % (n, s) for s, n in sorted(ends.items())), sum(len(j["attempts"]) for j in h.jobs),
        len(h.side), sum(len(s.steps) for s in h.side), len(h.client), sum(c["op"] in ("show", "logs") for c in h.client),
        sum(f["do"] == "inject" for f in h.faults), len(RULES), found))
    return 1 if found else 0


def main(argv):
    if len(argv) == 4 and argv[1] == "collect":
        return collect(argv[2], argv[3])
    if len(argv) == 3 and argv[1] == "check":
        return check(argv[2])
    print("usage: verify.py collect SOCKET HIST | check HIST", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
