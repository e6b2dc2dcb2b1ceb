"""Histories made by hand for tests/chaos/verify.py: one in order, the others each with one thing that must be found."""
import copy
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
VERIFY = sys.argv[1]
CASES = []


def case(rule, what):
    """A change of the good history, and the rule that must find it."""
    def add(f):
        CASES.append((rule, what, f))
        return f
    return add


def at(s):
    return "2026-01-02T03:04:%02d.000000Z" % s


def us(s):
    return 1767323040_000000 + s * 1_000_000  # at(s), as the faults' times are


def event(ids, attempt, kind, **data):
    ids[0] += 1
    return {"id": ids[0], "attempt": attempt, "at": at(1), "type": kind, "data": data}


def job(number, name, command, status, exit_code, reason, begin, end, gpu):
    ids = [number * 100]
    places = [{"node": "host%d" % (i + 1), "ranks": 1, "gpus": [gpu]} for i in range(2)]
    events = [event(ids, 0, "submitted"), event(ids, 1, "placed", epoch=1)]
    events += [event(ids, 1, "rank_started", rank=r) for r in range(2)]
    events += [event(ids, 1, "rank_exited", rank=r, exit_code=exit_code if r == 1 else 0) for r in range(2)]
    events += [event(ids, 1, "ended")]
    return {
        "id": number, "name": name, "status": status, "exit_code": exit_code, "reason": reason,
        "spec": {"command": command}, "events": events,
        "attempts": [{"number": 1, "nodes": ["host1", "host2"], "placement": places, "started_at": at(begin),
                      "ended_at": at(end)}],
        "streams": [{"attempt": 1, "stream": "rank-%d" % r, "lost": 0} for r in range(2)],
    }


def ran(number, rank, steps, code, begin, gpu, attempt=1):
    lines = ["start %d pid=7 host=host%d gpus=%d" % (begin, rank + 1, gpu)]
    lines += ["step %d %d" % (k, begin + k * 1000) for k in range(1, steps + 1)]
    lines += ["end %d code=%d write_max_us=10" % (begin + (steps + 1) * 1000, code)]
    log = ["step %d of %d rank %d attempt %d" % (k, steps, rank, attempt) for k in range(1, steps + 1)]
    name = "%d.%d.%d" % (number, attempt, rank)
    return {"side/" + name: lines, "logs/" + name: log}


def good():
    """Two jobs on the same GPUs, one after the other: one completes, one fails with 3. A third was stopped."""
    h = {"jobs": [
        job(1, "a", ["./steps", "/mnt", "5", "20"], "completed", 0, "", 1, 5, 0),
        job(2, "b", ["./steps", "-r", "1", "/mnt", "5", "20", "3"], "failed", 3, "rank 1 exited with 3", 6, 9, 0)],
        "client": [
            {"t0": us(0), "t1": us(0), "op": "submit", "args": ["a"], "rc": 0, "out": "1"},
            {"t0": us(0), "t1": us(0), "op": "submit", "args": ["b"], "rc": 0, "out": "2"},
            {"t0": us(0), "t1": us(0), "op": "submit", "args": ["c"], "rc": 5, "out": ""},
            {"t0": us(3), "t1": us(3), "op": "logs", "args": ["1", "0", "1"], "rc": 0, "out": "step 1 of 5 rank 0 attempt 1\n"},
            {"t0": us(9), "t1": us(9), "op": "show", "args": ["2"], "rc": 0,
             "out": json.dumps({"id": 2, "status": "failed", "exit_code": 3, "reason": "rank 1 exited with 3"})}],
        "faults": [{"t": us(2), "do": "inject", "fault": "kill_agent", "args": "host1", "lasting": True},
                   {"t": us(3), "do": "heal", "fault": "kill_agent", "args": "host1"},
                   {"t": us(10), "do": "inject", "fault": "kill_hearthd", "args": "", "lasting": True},
                   {"t": us(11), "do": "heal", "fault": "kill_hearthd", "args": ""}],
        "files": {"store.txt": ["0"], "dead.txt": [], "left/host1": [], "left/host2": [], "daemons/hearthd.log": ["info"]}}
    for rank in range(2):
        h["files"].update(ran(1, rank, 5, 0, 1_000_000, 0))
        h["files"].update(ran(2, rank, 5, 3 if rank == 1 else 0, 6_000_000, 0))
    return h


def lose(h, name, line, told=None, lines=None):
    """A line of a log of job 1 is lost, and said so; or `told` bytes of it, with `lines` in its place."""
    log = h["files"]["logs/" + name]
    n = told if told is not None else len(log[line]) + 1
    log[line:line + 1] = lines or ["[hearth: %d bytes are missing here]" % n]
    h["jobs"][0]["streams"][int(name[-1])]["lost"] += n


def findings(h):
    with tempfile.TemporaryDirectory(prefix="hearth-verify-") as d:
        for name, lines in h["files"].items():
            os.makedirs(os.path.dirname(os.path.join(d, name)), exist_ok=True)
            with open(os.path.join(d, name), "w") as f:
                f.write("".join(line + "\n" for line in lines))
        with open(d + "/record.json", "w") as f:
            json.dump({"jobs": h["jobs"]}, f)
        for name in ("client", "faults"):
            with open("%s/%s.jsonl" % (d, name), "w") as f:
                f.write("".join(json.dumps(x) + "\n" for x in h[name]))
        r = subprocess.run(["/usr/bin/python3", "-B", VERIFY, "check", d], capture_output=True, text=True)
        return r.returncode, r.stdout + r.stderr


# ---- what must be found ---------------------------------------------------------------------------------
@case("something_happened", "a run in which no rank did anything")
def _(h):
    for name in [n for n in h["files"] if n.startswith(("side/", "logs/"))]:
        del h["files"][name]


@case("something_happened", "a run without a fault")
def _(h):
    h["faults"] = []


@case("something_happened", "a run in which no end was shown before a fault")
def _(h):
    del h["faults"][2:]


@case("something_happened", "a run in which no line was shown before a fault")
def _(h):
    del h["client"][3]


@case("something_happened", "a run in which only an empty log was shown")
def _(h):
    h["client"][3]["out"] = ""


@case("acknowledged_jobs_exist", "an acknowledged job that is gone")
def _(h):
    h["client"].append({"t0": 0, "t1": 0, "op": "submit", "args": ["d"], "rc": 0, "out": "3"})


@case("acknowledged_jobs_exist", "an acknowledged id that is another job")
def _(h):
    h["client"][0]["out"] = "2"


@case("nothing_unasked", "one submit that made two jobs")
def _(h):
    h["jobs"][1]["name"] = "a"


@case("nothing_unasked", "a job that nobody submitted")
def _(h):
    del h["client"][1]


@case("jobs_end", "a job that has not ended")
def _(h):
    h["jobs"][0]["status"] = "running"


@case("jobs_end", "a failure without a reason")
def _(h):
    h["jobs"][1]["reason"] = ""


@case("ends_never_change", "an end state that was shown and has changed")
def _(h):
    h["jobs"][1].update(status="completed", exit_code=0)


@case("ends_are_right", "a success although a rank did not come to its end")
def _(h):
    h["files"]["side/1.1.1"].pop()


@case("ends_are_right", "a success although a rank ended with 1")
def _(h):
    h["files"]["side/1.1.1"][-1] = "end 2000000 code=1 write_max_us=1"


@case("ends_are_right", "a failure of a job that nothing was done to")
def _(h):
    h["jobs"][0].update(status="failed", exit_code=143, reason="rank 0 was ended by signal 15 (SIGTERM)")


@case("ends_are_right", "a wrong exit code of the job")
def _(h):
    h["jobs"][1]["exit_code"] = 4
    h["client"].pop()


@case("ends_are_right", "a second attempt of a job that nothing was done to")
def _(h):
    h["jobs"][0]["attempts"].append(dict(h["jobs"][0]["attempts"][0], number=2, placement=[]))


@case("ends_are_right", "a kill aimed at one job that ended another")
def _(h):
    h["faults"].append({"t": us(2), "do": "inject", "fault": "kill_part", "args": "rank 2 0", "job": 2, "lasting": False})
    h["jobs"][0].update(status="failed", exit_code=137, reason="x")


@case("ends_are_right", "a fault that excuses jobs of another launcher only")
def _(h):
    h["faults"].append({"t": us(2), "do": "inject", "fault": "freeze", "args": "host1", "host": "host1", "launcher": "mpirun", "lasting": False})
    h["jobs"][0]["spec"]["launcher"] = "direct"
    h["jobs"][0].update(status="failed", exit_code=137, reason="x")


@case("exit_codes_are_exact", "a rank's exit code on record that is not its own")
def _(h):
    h["jobs"][1]["events"][5]["data"]["exit_code"] = 9


@case("exit_codes_are_exact", "exit code 0 on record of a rank that was killed")
def _(h):
    h["files"]["side/2.1.0"].pop()


@case("nothing_runs_twice", "an attempt's rank that was started twice")
def _(h):
    h["files"]["side/1.1.0"].append("start 1900000 pid=8 host=host1 gpus=0")


@case("nothing_runs_twice", "a rank of an attempt that is not on record")
def _(h):
    h["files"].update(ran(1, 0, 5, 0, 90_000_000, 0, attempt=2))


@case("nothing_runs_twice", "a rank of a job that is not on record")
def _(h):
    h["files"].update(ran(7, 0, 5, 0, 90_000_000, 0))


@case("nothing_runs_twice", "a rank on another node than recorded")
def _(h):
    h["files"]["side/1.1.0"][0] = "start 1000000 pid=7 host=host2 gpus=1"


@case("attempts_do_not_overlap", "an attempt that began before the one before it had ended")
def _(h):
    h["jobs"][0]["attempts"].append(dict(h["jobs"][0]["attempts"][0], number=2))
    h["files"].update(ran(1, 0, 5, 0, 1_003_000, 0, attempt=2))


@case("no_gpu_is_given_twice", "two jobs on one GPU at once")
def _(h):
    h["files"].update(ran(2, 0, 5, 0, 1_001_000, 0))


@case("logs_are_whole", "a gap in a log")
def _(h):
    del h["files"]["logs/1.1.0"][2]


@case("logs_are_whole", "a line twice")
def _(h):
    h["files"]["logs/1.1.0"].insert(2, h["files"]["logs/1.1.0"][1])


@case("logs_are_whole", "lines out of order")
def _(h):
    h["files"]["logs/1.1.0"].reverse()


@case("logs_are_whole", "a log that ends too early")
def _(h):
    h["files"]["logs/2.1.0"].pop()


@case("logs_are_whole", "a log that is not there at all")
def _(h):
    del h["files"]["logs/1.1.1"]


@case("logs_are_whole", "a line of another rank")
def _(h):
    h["files"]["logs/1.1.0"][1] = h["files"]["logs/1.1.1"][1]


@case("logs_are_whole", "more in the log than the rank wrote")
def _(h):
    h["files"]["logs/2.1.0"].append("step 6 of 5 rank 0 attempt 1")


@case("logs_are_whole", "a gap that only the count tells of")
def _(h):
    lose(h, "1.1.0", 2)
    del h["files"]["logs/1.1.0"][2]


@case("logs_are_whole", "a gap whose note tells of a byte too few")
def _(h):
    lose(h, "1.1.0", 2, told=28)


@case("logs_are_whole", "a gap whose note tells of a byte too many")
def _(h):
    lose(h, "1.1.0", 2, told=30)


@case("logs_are_whole", "a count that is not that of the notes")
def _(h):
    lose(h, "1.1.0", 2)
    h["jobs"][0]["streams"][0]["lost"] = 28


@case("logs_are_whole", "a second gap beside one that is told")
def _(h):
    lose(h, "1.1.0", 1)
    del h["files"]["logs/1.1.0"][3]


@case("logs_are_whole", "a line that is not its own beside a gap that is told")
def _(h):
    lose(h, "1.1.0", 1)
    h["files"]["logs/1.1.0"][3] = h["files"]["logs/1.1.1"][3]


@case("logs_are_whole", "a line that is none beside a gap that is told")
def _(h):
    lose(h, "1.1.0", 1)
    h["files"]["logs/1.1.0"].append("step 5 of")


@case("logs_are_whole", "an end that is missing behind a gap that is told")
def _(h):
    lose(h, "1.1.0", 1)
    h["files"]["logs/1.1.0"].pop()


@case("logs_are_whole", "a torn line without a gap")
def _(h):
    h["files"]["logs/1.1.0"][2] = h["files"]["logs/1.1.0"][2][5:]


@case("shown_lines_stay", "lines of a second attempt that were shown and are gone")
def _(h):
    h["jobs"][0]["attempts"].append(dict(h["jobs"][0]["attempts"][0], number=2))
    h["files"].update(ran(1, 0, 5, 0, 90_000_000, 0, attempt=2))
    h["client"].append({"t0": us(3), "t1": us(3), "op": "logs", "args": ["1", "0", "2"], "rc": 0,
                        "out": "step 1 of 5 rank 0 attempt 2\nstep 2 of 5 rank 0 attempt 1\n"})


@case("shown_lines_stay", "lines that were shown and are gone")
def _(h):
    h["client"][3]["out"] = "step 1 of 5 rank 0 attempt 1\nstep 2 of 5 rank 0 attempt 9\n"


@case("events_are_sound", "two ends")
def _(h):
    h["jobs"][0]["events"].append(dict(h["jobs"][0]["events"][-1], id=199))


@case("events_are_sound", "something after the end")
def _(h):
    h["jobs"][0]["events"].append({"id": 199, "attempt": 1, "at": at(9), "type": "artifact", "data": {}})


@case("events_are_sound", "a rank that ended twice")
def _(h):
    h["jobs"][0]["events"].insert(6, dict(h["jobs"][0]["events"][5]))


@case("events_are_sound", "an epoch that does not rise")
def _(h):
    e = h["jobs"][0]["events"]
    e.insert(2, dict(e[1], id=e[1]["id"]))


@case("ranks_are_reported", "a rank that ran and whose end is not on record")
def _(h):
    del h["jobs"][0]["events"][5]


@case("nothing_is_left", "a process that is left behind")
def _(h):
    h["files"]["left/host2"].append("process host2 99 rank 1.1 0 ./steps")


@case("nothing_is_left", "a host that nobody could look at")
def _(h):
    h["files"]["left/host2"].append("unknown: host2 is off")


@case("nothing_is_left", "a run where nobody looked")
def _(h):
    del h["files"]["left/host1"], h["files"]["left/host2"]


@case("store_is_sound", "a store that does not replay")
def _(h):
    h["files"]["store.txt"] = ["job 1: status differs", "1"]


@case("store_is_sound", "a store that nobody checked")
def _(h):
    del h["files"]["store.txt"]


@case("nobody_died_alone", "a daemon that died by itself")
def _(h):
    h["files"]["dead.txt"].append("agent-host2")


@case("nobody_died_alone", "an assertion in a log")
def _(h):
    h["files"]["daemons/hearthd.log"].append("hearthd: turn.c:12: f: Assertion `x' failed.")


# ---- what must pass ---------------------------------------------------------------------------------------
def allowed():
    h = good()
    yield "a history that is in order", h
    h = good()
    h["faults"].append({"t": us(2), "do": "inject", "fault": "kill_part", "args": "rank 1 0", "job": 1, "lasting": False})
    h["jobs"][0].update(status="failed", exit_code=137, reason="rank 0 was ended by signal 9 (SIGKILL)")
    yield "a job that failed because of what was done to it", h
    h = good()
    h["faults"].append({"t": us(2), "do": "inject", "fault": "freeze", "args": "host1", "host": "host1", "launcher": "mpirun", "lasting": False})
    h["jobs"][0].update(status="failed", exit_code=None, reason="mpirun exited with code 244")
    yield "a job of the launcher that the fault excuses", h
    h = good()
    h["client"].append({"t0": us(2), "t1": us(2), "op": "stop", "args": ["1"], "rc": 0, "out": ""})
    h["jobs"][0].update(status="stopped", exit_code=143, reason="stopped")
    yield "a job that was stopped by its owner", h
    h = good()
    lose(h, "1.1.0", 2)
    yield "a gap that is told", h
    h = good()
    lose(h, "1.1.0", 1, told=14, lines=["step 2 of 5", "[hearth: 14 bytes are missing here]", "t 1"])
    yield "a gap within a line", h
    h = good()
    h["jobs"][0]["spec"]["command"] = ["./steps", "-b", "40", "/mnt", "5", "20"]
    for rank in range(2):
        name = "logs/1.1.%d" % rank
        h["files"][name] = [line.ljust(39, ".") for line in h["files"][name]]
    h["client"][3]["out"] = h["files"]["logs/1.1.0"][0]
    yield "lines that are filled up", h


def main():
    n = failed = 0
    for what, h in allowed():
        n += 1
        rc, text = findings(h)
        failed += rc != 0
        print("%sok %d - passes: %s" % ("" if rc == 0 else "not ", n, what))
        if rc:
            print("".join("# %s\n" % line for line in text.splitlines()))
    for rule, what, doctor in CASES:
        n += 1
        h = copy.deepcopy(good())
        doctor(h)
        rc, text = findings(h)
        found = rc == 1 and any(line.startswith(rule + ":") for line in text.splitlines())
        failed += not found
        print("%sok %d - %s finds %s" % ("" if found else "not ", n, rule, what))
        if not found:
            print("".join("# %s\n" % line for line in text.splitlines()))
    with open(VERIFY) as f:
        source = f.read()
    rules = {part.split("(")[0] for part in source.split("@rule\ndef ")[1:]}
    n += 1
    missing = rules - {c[0] for c in CASES}
    failed += bool(missing)
    print("%sok %d - every rule has a case that it finds%s" % ("not " if missing else "", n, " " + str(missing) if missing else ""))
    print("1..%d" % n)
    return 1 if failed else 0


sys.exit(main())
