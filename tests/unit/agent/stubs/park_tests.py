"""hearth-park: each program behaves the same in a waiting interpreter and in a new one.

    park_tests.py PARK

Runs each program of park_programs.py twice and compares standard output, standard error and exit status byte for
byte. Then the protocol itself, and what is refused.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from park_kit import Parked
from park_programs import MODULES, PROGRAMS

PARK = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "RANK": "0",
       "PYTHONDONTWRITEBYTECODE": "1", "OLD_ONE": "kept", "MASTER_PORT": "1"}
LATER = dict(ENV, RANK="3", HEARTH_JOB="17", SM_ODD="é\udcff=x", MASTER_PORT="29500")
count = failed = 0


def ok(good, text, *detail):
    global count, failed
    count += 1
    failed += not good
    print("%s %d - %s" % ("ok" if good else "not ok", count, text.replace("#", "")), flush=True)
    if not good:
        for line in detail:
            print("# %s" % ascii(line))


def write_files(folder, files):
    if not isinstance(files, dict):
        files = {"main.py": files}
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())


def run_plainly(argv, cwd, data=None):
    p = subprocess.run(argv, cwd=cwd, env=LATER, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60,
                       **({"input": data} if data is not None else {"stdin": subprocess.DEVNULL}))
    return p.returncode, p.stdout, p.stderr


def run_parked(argv, options, cwd, modules=()):
    """The same in an interpreter that waited in another folder with another environment."""
    p = Parked(PARK, argv[0], modules, options, ENV, "/")
    if p.said != b"ready\n":
        return (p.said, *p.end())
    answer = p.go(argv, LATER, cwd)
    if answer != b"g":
        return (answer, *p.end())
    return p.end()


def differences(plain, parked):
    # Addresses differ between any two runs.
    plain, parked = ([re.sub(rb"0x[0-9a-f]{6,}", b"0x", x) if isinstance(x, bytes) else x for x in r] for r in (plain, parked))
    # Up to Python 3.11 the calls that run the script count as two levels of recursion.
    deep = re.compile(rb"repeated 99\d more|^99\d$", re.MULTILINE)
    plain, parked = ([deep.sub(b"deep", x) if isinstance(x, bytes) else x for x in r] for r in (plain, parked))
    found = []
    for what, a, b in zip(("status", "stdout", "stderr"), plain, parked):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))) if isinstance(a, bytes) and isinstance(b, bytes) else 0
            found += [what, *(x[max(at - 60, 0):at + 200] if isinstance(x, bytes) else x for x in (a, b))]
    return found


def compare(python, name, files, argv, options=(), modules=()):
    folder = tempfile.mkdtemp(prefix="park")
    try:
        write_files(folder, files)
        command = [python, *options, *argv]
        plain = run_plainly(command, folder)
        found = differences(plain, run_parked(command, options, folder, modules))
        ok(not found, "%s: %s" % (name, " ".join([os.path.basename(python), *options, *argv])), *found)
    finally:
        shutil.rmtree(folder)


def test_programs(python):
    for name, source in PROGRAMS.items():
        compare(python, name, source, ["main.py", "--x", "a b"])
    for name, (module, files) in MODULES.items():
        compare(python, name, files, ["-m", module, "--x", "a"])


def test_spawn(python):
    compare(python, "the folder of children that are spawned", "import multiprocessing.process as p\nprint(p.ORIGINAL_DIR)\n",
            ["main.py"], modules=["multiprocessing"])


def test_options(python):
    shown = PROGRAMS["sys"] + PROGRAMS["modules"] + PROGRAMS["main's attributes"] + "assert 0\n"
    for options in (["-u"], ["-O"], ["-OO"], ["-B", "-b"], ["-W", "error"], ["-Wignore", "-X", "dev"], ["-s"], ["-S"],
                    ["-E"], ["-I"], ["-X", "faulthandler"], ["-bb", "-d"], ["-q", "-R"]):
        compare(python, "options", shown, ["main.py"], options)
    compare(python, "deprecated call is an error", "import warnings\nwarnings.warn('x')\n", ["main.py"], ["-W", "error"])
    compare(python, "module alone", {"mod.py": shown}, ["-m", "mod"], ["-I"])
    compare(python, "module alone", {"mod.py": shown}, ["-m", "mod"], ["-O", "-u"])


def test_places(python):
    """The script is named in other ways."""
    shown = "import sys\nprint(sys.path[0], sys.argv, __file__)\nraise ValueError\n"
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        write_files(folder, {"d/main.py": shown, "work/none": ""})
        os.symlink("d/main.py", os.path.join(folder, "link.py"))
        os.symlink(os.path.join(folder, "link.py"), os.path.join(folder, "work", "far.py"))
        os.symlink("d", os.path.join(folder, "e"))
        for cwd, script in ((".", "d/main.py"), (".", "./d/main.py"), ("work", "../d/main.py"), (".", "link.py"),
                            ("work", "far.py"), (".", "e/main.py"), ("d", "main.py"), ("d", "./main.py"),
                            ("d", ".//main.py"), ("d", "././main.py"), ("e", "main.py"), (".", folder + "/d/main.py"),
                            (".", folder + "/e/../d//main.py"), (".", "d//main.py")):
            command = [python, script]
            found = differences(run_plainly(command, os.path.join(folder, cwd)),
                                run_parked(command, (), os.path.join(folder, cwd)))
            ok(not found, "script %s in %s" % (script.replace(folder, "DIR"), cwd), *found)


def test_cold(python):
    """Programs that need an interpreter of their own get one, and behave the same."""
    def check(name, files, argv, reason, modules=(), env=None, change=None):
        with tempfile.TemporaryDirectory(prefix="park") as folder:
            write_files(folder, files)
            p = Parked(PARK, python, modules, (), dict(ENV, **(env or {})), folder)
            if change:
                change(folder)
            answer = p.go([python, *argv], LATER, folder)
            said = p.end()
            found = differences(run_plainly([python, *argv], folder), said)
            ok(answer.startswith(b"c ") and reason.encode() in answer and not found, name, answer, *found)

    check("another option", "import sys; print(sys.flags)\n", ["-O", "main.py"], "its options differ")
    check("folder as program", {"prog/__main__.py": "import sys; print(sys.argv, __name__)\n"}, ["prog"], "prog is not a file")
    check("missing script", {}, ["none.py"], "none.py: No such file")
    check("a variable that imports read", "print(1)\n", ["main.py"], "MKL_X differs", env={"MKL_X": "1"})
    check("a module of the script's folder goes first", {"main.py": "import json; print(json.x)\n", "json.py": "x = 'mine'\n"},
          ["main.py"], "has a module json", modules=["json"])
    check("a package of the script's folder goes first",
          {"main.py": "import json; print(json.x)\n", "json/__init__.py": "x = 'mine'\n"}, ["main.py"],
          "has a module json", modules=["json"])
    check("SIGPIPE is as at a start", "import signal, subprocess\nprint(subprocess.run(['sh', '-c', 'kill -PIPE $$'], restore_signals=False))\n"
          "print(signal.getsignal(signal.SIGPIPE))\n", ["main.py"], "MKL_X", env={"MKL_X": "1"})


def test_locale(python):
    """Python sets variables of its own before the first line runs, for each program again."""
    shown = "import os\nprint(sorted(os.environ.items()))\n"
    for given in ({}, {"LANG": "C"}, {"LC_ALL": "C"}, {"LANG": "POSIX", "LC_CTYPE": "C"}):
        env = dict({name: value for name, value in ENV.items() if name != "LANG"}, **given)
        later = dict(env, RANK="3")
        with tempfile.TemporaryDirectory(prefix="park") as folder:
            write_files(folder, shown)
            p = Parked(PARK, python, ["json"], (), env, folder)
            answer = p.go([python, "main.py"], later, folder)
            plain = subprocess.run([python, "main.py"], cwd=folder, env=later, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            found = differences((plain.returncode, plain.stdout, plain.stderr), p.end())
            ok(answer == b"g" and not found, "variables in the locale %s" % given, answer, *found)
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        write_files(folder, shown)
        p = Parked(PARK, python, ["json"], (), dict(ENV, LANG="C"), folder)
        answer = p.go([python, "main.py"], dict(ENV, LANG="C", LC_CTYPE="C"), folder)
        ok(answer.startswith(b"c LC_CTYPE differs"), "a program that brings the variable itself", answer)
        p.end()


def test_changed_package(python):
    """A module that was replaced after its import is never used."""
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        site = os.path.join(folder, "site")
        write_files(folder, {"site/dep/__init__.py": "from .part import x\n", "site/dep/part.py": "x = 1\n",
                             "main.py": "import dep; print(dep.x)\n"})
        env, later = dict(ENV, PYTHONPATH=site), dict(LATER, PYTHONPATH=site)
        # A file that changed within 10 ms of the imports counts as changed; Python takes longer to start.
        ok(run_plainly([python, "-c", "print(1)"], folder)[0] == 0, "a package is installed")
        for edit, expected, answer in ((None, b"1\n", b"g"), ("x = 22\n", b"22\n", b"c "), ("x = 33\n", b"33\n", b"c ")):
            p = Parked(PARK, python, ["dep"], (), env, "/")
            if edit:
                with open(os.path.join(site, "dep", "part.py"), "w", encoding="ascii") as f:
                    f.write(edit)
            said = p.go([python, "main.py"], later, folder)
            ok(said.startswith(answer) and p.end()[1] == expected, "a package edited to %s" % edit, said)
        p = Parked(PARK, python, ["dep"], (), env, "/")
        write_files(folder, {"site/dep-2.dist-info/METADATA": ""})
        said = p.go([python, "main.py"], later, folder)
        ok(said.startswith(b"c ") and b"changed" in said and p.end()[1] == b"33\n", "another package was installed", said)
        p = Parked(PARK, python, ["dep"], (), env, "/")
        shutil.copytree(site, site + ".new")
        os.rename(site, site + ".old")
        os.rename(site + ".new", site)
        said = p.go([python, "main.py"], later, folder)
        ok(said.startswith(b"c ") and p.end()[1] == b"33\n", "the whole folder was replaced by an equal one", said)
        p = Parked(PARK, python, ["dep"], (), env, "/")
        times = os.stat(os.path.join(site, "dep/part.py"))
        write_files(site, {"dep/part.py": "x = 44\n"})
        os.utime(os.path.join(site, "dep/part.py"), ns=(times.st_atime_ns, times.st_mtime_ns))
        said = p.go([python, "main.py"], later, folder)
        ok(said.startswith(b"c "), "a file edited in place, of equal size and time", said)
        p.end()


def test_refused(python):
    """What a preload must not do; the answer names module and thing."""
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        write_files(folder, {
            "thread.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n",
            "sock.py": "import socket\ns = socket.socket()\n",
            "opened.py": "f = open('/etc/passwd')\n",
            "child.py": "import subprocess\np = subprocess.Popen(['sleep', '99'])\n",
            "handler.py": "import signal\nsignal.signal(signal.SIGUSR1, lambda *a: None)\n",
            "ignored.py": "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n",
            "masked.py": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])\n",
            "dice.py": "import random\nrandom.random()\n",
            "rank.py": "import os\nos.environ['RANK'] = '7'\n",
            "umasked.py": "import os\nos.umask(0o77)\n", "kind.py": "import os\nos.setpriority(os.PRIO_PROCESS, 0, 19 if os.nice(0) < 19 else 18)\n",
            "bound.py": "import os\nos.sched_setaffinity(0, [max(os.sched_getaffinity(0))])\n",
            "limited.py": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n",
            "timed.py": "import signal\nsignal.setitimer(signal.ITIMER_VIRTUAL, 3600)\n",
            "deep.py": "import sys\nsys.setrecursionlimit(77777)\n",
            "short.py": "import sys\nsys.tracebacklimit = 1\n",
            "moved.py": "import os\nos.chdir('/proc')\n",
            "broken.py": "1 / 0\n", "exits.py": "import sys\nsys.exit('bye')\n",
            "work/none": "", "harmless.py": "import os, random\nos.environ['KMP_X'] = '1'\nopen('/etc/passwd').close()\n"})
        env = dict(ENV, PYTHONPATH=folder)
        for name, reason in (("thread", "thread started a thread"), ("sock", "sock opened socket:["),
                             ("opened", "opened opened /etc/passwd"), ("child", "child started a process"),
                             ("handler", "handler changed the handler of signal 10"),
                             ("ignored", "ignored changed the handler of signal 1"),
                             ("masked", "masked changed the mask of signal 12"), ("dice", "dice used random numbers"),
                             ("rank", "rank changed the variable RANK"), ("umasked", "umasked changed the umask"),
                             ("kind", "kind changed the nice value"), ("limited", "limited changed the limit Max open files"),
                             ("timed", "timed changed the interval timers"), ("deep", "deep changed the recursion limit"),
                             ("short", "short changed the limit of tracebacks"),
                             ("moved", "moved changed the folder"), ("bound", "bound changed the CPUs"), ("broken", "broken: ZeroDivisionError: division"),
                             ("exits", "exits: SystemExit: bye"), ("missing_one", "missing_one: ModuleNotFoundError")):
            if (name == "kind" and os.nice(0) == 19 and os.geteuid()) or (name == "bound" and len(os.sched_getaffinity(0)) == 1):
                continue  # it cannot change here
            p = Parked(PARK, python, ["json", name], (), env, "/", start_new_session=True)
            status = p.process.wait(30)
            os.killpg(p.process.pid, 9) if name == "child" else None
            ok(p.said.startswith(b"bad " + reason.encode()) and p.said.endswith(b"\n") and status == 1, reason, p.said, status)
            p.end()
        p = Parked(PARK, python, ["harmless"], (), env, "/")
        write_files(folder, {"work/main.py": "import os, random; print(os.environ['KMP_X'], os.environ['RANK'])\n"})
        answer = p.go([python, "work/main.py"], dict(LATER, PYTHONPATH=folder), folder)
        ok(answer == b"g" and p.end()[1] == b"1 3\n", "a variable that a preload set remains", answer)


def test_protocol(python):
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        write_files(folder, "import sys, random; print(sys.stdin.read(), sys.stdin.name); print(random.random(), hash('a'), file=sys.stderr)\n")
        read, write = os.pipe()
        p = Parked(PARK, python, ["random"], (), ENV, "/", stdin=read)
        answer = p.go([python, "main.py"], LATER, folder)
        os.close(read)
        os.write(write, b"from the launcher")
        os.close(write)
        one = p.end()
        ok(answer == b"g" and one[1] == b"from the launcher <stdin>\n", "what comes on the standard input while it waits is the program's", one)
        p = Parked(PARK, python, ["random"], (), ENV, "/")
        p.go([python, "main.py"], LATER, folder)
        other = p.end()
        ok(other[2] != one[2], "two waiting interpreters have other seeds", one, other)
        p = Parked(PARK, python, (), (), ENV, "/")
        p.link.close()
        ok(p.process.wait(10) == 1, "it ends when its shim ends")
        p.end()
        p = Parked(PARK, python, (), (), ENV, "/")
        p.link.sendall(b"\xff\xff\xff\xff")
        ok(p.process.wait(10) == 1, "a frame of 4 GiB is refused")
        p.end()
        p = Parked(PARK, python, (), (), ENV, "/")
        answer = p.go([python, "main.py"], LATER, "/nonexistent")
        ok(answer.startswith(b"bad /nonexistent: No such file") and p.end()[0] == 1, "a folder that is missing", answer)
        p = Parked(PARK, python, ["json"], (), ENV, "/")
        before = os.times()
        ticks = cpu_of(p.process.pid)
        try:
            p.process.wait(0.5)
        except subprocess.TimeoutExpired:
            pass
        ok(cpu_of(p.process.pid) - ticks <= 1 and before, "it uses no CPU while it waits")
        p.drop()


def cpu_of(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def test_python_path(python):
    """Folders of PYTHONPATH that are relative mean those below the program's own folder."""
    for value, answer in (("src", b"g"), ("src:/usr/lib/none:lib", b"g"), (".", b"g"), ("src:src", b"g"), ("hides:src", b"c ")):
        with tempfile.TemporaryDirectory(prefix="park") as folder:
            write_files(folder, {"elsewhere/none": "", "src/mine.py": "x = 'mine'\n", "hides/json.py": "y = 1\n", "mine.py": "x = 'here'\n",
                                 "main.py": "import sys, mine, json; print(sys.path, mine.x, mine.__file__, json)\n"})
            later = dict(LATER, PYTHONPATH=value)
            p = Parked(PARK, python, ["json"], (), dict(ENV, PYTHONPATH=value), os.path.join(folder, "elsewhere"))
            said = p.go([python, "main.py"], later, folder)
            plain = subprocess.run([python, "main.py"], cwd=folder, env=later, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            found = differences((plain.returncode, plain.stdout, plain.stderr), p.end())
            ok(said.startswith(answer) and not found, "PYTHONPATH=%s" % value, said, *found)


DRIVER = """
#include <stdio.h>
#include <stdlib.h>
static int fails(const char *name, int device)
{
	FILE *f = fopen(getenv("DRIVER_LOG"), "a");
	const char *bad = getenv("DRIVER_FAILS");
	fprintf(f, "%s %d\\n", name, device);
	fclose(f);
	return bad && *bad == name[2] ? 100 : 0;
}
int cuInit(unsigned flags) { return fails("cuInit", (int)flags); }
int cuDeviceGetCount(int *n) { *n = 4; return fails("cuDeviceGetCount", 0); }
int cuDeviceGet(int *device, int n) { *device = n + 10; return fails("cuDeviceGet", n); }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &fails; return fails("cuDevicePrimaryCtxRetain", device); }
"""


def test_context(python):
    """The calls of --cuda-context, with a driver of its own."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        ok(True, "CUDA context # SKIP no C compiler")
        return
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        write_files(folder, {"driver.c": DRIVER, "main.py": "print(1)\n"})
        subprocess.run([compiler, "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"], cwd=folder, check=True)
        log = os.path.join(folder, "log")
        env = dict(ENV, LD_LIBRARY_PATH=folder, DRIVER_LOG=log, LOCAL_RANK="6")
        p = Parked(PARK, python, ["--cuda-context", "json"], (), env, "/")
        answer = p.go([python, "main.py"], dict(LATER, LD_LIBRARY_PATH=folder, DRIVER_LOG=log), folder)
        with open(log, encoding="ascii") as f:
            calls = f.read().split("\n")
        ok(answer == b"g" and p.end()[1] == b"1\n" and calls == ["cuInit 0", "cuDeviceGetCount 0", "cuDeviceGet 2",
                                                               "cuDevicePrimaryCtxRetain 12", ""], "a CUDA context", answer, *calls)
        p = Parked(PARK, python, ["--cuda-context"], (), dict(env, DRIVER_FAILS="I"), "/")
        ok(p.said == b"bad cuda_context: cuInit failed with 100\n" and p.end()[0] == 1, "a driver that fails", p.said)
        p = Parked(PARK, python, ["--cuda-context"], (), dict(ENV, LD_LIBRARY_PATH="/nonexistent"), "/")
        known = p.said == b"ready\n"
        ok(known or p.said.startswith(b"bad cuda_context: "), "a node without a driver", p.said)
        p.drop()


def test_tables():
    """The two lists of late-safe variables are one."""
    with open(os.path.join(HERE, "../../../../common/spec/preload.c"), encoding="utf-8") as f:
        table = f.read().split("late_safe[] = {")[1].split("};")[0]
    with open(PARK, encoding="utf-8") as f:
        body = f.read().split("def late_safe(name):")[1].split("def ")[0]
    names, prefixes = body.split("name.startswith")
    in_c = re.findall(r'\{"(\w+)", (\d)\}', table)
    with open(os.path.join(HERE, "../../../../agent/stubs/rank.c"), encoding="utf-8") as f:
        launcher = set(re.findall(r'"(\w+)"', f.read().split("prefixes[] = {")[1].split("}")[0]))
    ok(len(launcher) > 3 and launcher <= {n for n, p in in_c if p == "1"}, "what hearth-rank passes on is late-safe")
    ok({n for n, p in in_c if p == "0"} == set(re.findall(r'b"(\w+)"', names)) and
       {n for n, p in in_c if p == "1"} == set(re.findall(r'b"(\w+)"', prefixes)), "hearth-park and hearthd agree on late-safe variables")


TORCH = {
    "torch: a step, pickles, a traceback": """
import io, torch
torch.manual_seed(3)
m = torch.nn.Linear(4, 2); o = torch.optim.SGD(m.parameters(), 0.1)
l = m(torch.ones(2, 4)).sum(); l.backward(); o.step()
print(float(l), m.weight, torch.get_num_threads())
class N(torch.nn.Module):
    def __init__(self): super().__init__(); self.w = torch.nn.Parameter(torch.ones(2))
f = io.BytesIO(); torch.save(N(), f); f.seek(0); print(torch.load(f))
torch.ones(2) @ torch.ones(3)
""",
    "torch: gloo, workers; sklearn: a fit": """
import os, torch, torch.distributed as d
from torch.utils.data import DataLoader, Dataset
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
class D(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.tensor(i)
if __name__ == "__main__":
    d.init_process_group("gloo", init_method="file://" + os.path.abspath("rdv"), rank=0, world_size=1)
    t = torch.ones(3); d.all_reduce(t); print(t)
    m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    m(torch.ones(1, 2)).sum().backward(); print(m.module.weight.grad)
    os.remove("rdv")
    print([x.tolist() for x in DataLoader(D(), 2, num_workers=2)])
    x, y = load_digits(return_X_y=True)
    print(LogisticRegression(max_iter=20, random_state=0).fit(x[:300], y[:300]).score(x, y))
""",
}


def test_torch(python):
    known = subprocess.run([python, "-c", "import torch, numpy, sklearn, torch.distributed"], env=ENV, stderr=subprocess.DEVNULL, check=False)
    if known.returncode:
        return
    modules = ["torch", "numpy", "sklearn", "torch.distributed"]
    for name, source in TORCH.items():
        compare(python, name, source, ["main.py"], modules=modules)
    with tempfile.TemporaryDirectory(prefix="park") as folder:
        write_files(folder, "import torch, numpy, random\nprint(torch.initial_seed(), numpy.random.rand(), random.random())\n")
        said = []
        for _ in range(2):
            p = Parked(PARK, python, modules, (), ENV, "/")
            p.go([python, "main.py"], LATER, folder)
            said.append(p.end()[1].split())
        ok(len(said[0]) == 3 and not set(said[0]) & set(said[1]), "seeds of torch, numpy and random are new each time", *said)
        write_files(folder, {"seeded.py": "import torch\ntorch.manual_seed(1)\n", "drawn.py": "import numpy\nnumpy.random.rand()\n"})
        for name, reason in (("seeded", b"random numbers of torch"), ("drawn", b"random numbers of numpy.random")):
            p = Parked(PARK, python, [name], (), dict(ENV, PYTHONPATH=folder), "/")
            ok(p.said.startswith(b"bad ") and reason in p.said, "%s: refused" % name, p.said)
            p.end()
    if subprocess.run([python, "-c", "import mpi4py"], env=ENV, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        compare(python, "mpi4py", "from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(3))\n", ["main.py"], modules=["mpi4py"])


def main():
    first = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    test_tables()
    for python in [first, *os.environ.get("HEARTH_TEST_PYTHONS", "").split()]:
        test_protocol(python)
        test_refused(python)
        test_cold(python)
        test_locale(python)
        test_changed_package(python)
        test_places(python)
        test_python_path(python)
        test_context(python)
        test_options(python)
        test_spawn(python)
        test_programs(python)
        test_torch(python)
    print("1..%d" % count)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
