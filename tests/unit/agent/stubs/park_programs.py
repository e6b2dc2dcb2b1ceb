"""Programs that must behave the same in a waiting interpreter and in a new one: name: source, or a dict of files of
which main.py is the program. Keys of `special`: what a run needs beyond that."""

PROGRAMS = {
    "main's attributes": """
import sys
names = [n for n in globals() if n != "sys"]
print(names)
print(__name__, __doc__, __package__, __spec__, __file__, __cached__, type(__loader__), __builtins__)
print(__loader__.name, __loader__.path, globals().get("__annotations__"))
print(sys.modules["__main__"].__dict__ is globals(), type(sys.modules["__main__"]))
""",
    "docstring and annotations": '''"""About this."""
x: int = 5
print(__doc__, __annotations__)
''',
    "sys": """
import sys
print(sys.argv, getattr(sys, "orig_argv", None), sys.path, sys.flags, sys.executable, sys.prefix, sys.exec_prefix)
print(sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix, sys.getrecursionlimit())
print(sys.stdin.name, sys.stdout.name, sys.stderr.name, sys.stderr is sys.__stderr__, sys.stdin is sys.__stdin__)
print(sys.stdin.encoding, sys.stdin.errors, sys.stdin.mode, sys.stdout.mode, sys.stdout.line_buffering)
print(sys.excepthook is sys.__excepthook__, sys.displayhook, sys.getswitchinterval(), sys.gettrace(), sys.getprofile())
print(sorted(vars(sys)))
print([type(f) for f in sys.path_hooks], [getattr(f, "__name__", f) for f in sys.meta_path], sorted(sys.path_importer_cache))
""",
    "modules": """
import sys
print(sorted(sys.modules))
print([(n, sys.modules[n] is not None) for n in ("os", "site", "runpy", "ctypes", "_ctypes", "_socket")if n in sys.modules])
import os, socket, ctypes, _ctypes, runpy, itertools, functools
print(ctypes.c_int(3), socket.AF_UNIX, ctypes.sizeof(ctypes.c_void_p), functools.reduce(lambda a, b: a + b, [1, 2]))
""",
    "descriptors": """
import os
print(sorted(int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2)[:-1])
""",
    "environment": """
import os, ctypes, subprocess, posix
print(list(os.environ.items()))
libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p
print([libc.getenv(n) for n in (b"RANK", b"HEARTH_JOB", b"HEARTH_PARK_FD", b"SM_ODD", b"OLD_ONE")])
print(posix.environ == os.environb._data, os.environ["SM_ODD"], os.environb[b"SM_ODD"])
print(subprocess.run(["env"], stdout=subprocess.PIPE).stdout)
os.environ["RANK"] = "9"; print(libc.getenv(b"RANK")); del os.environ["RANK"]; print(libc.getenv(b"RANK"))
print(os.getcwd())
""",
    "argparse": """
import argparse
p = argparse.ArgumentParser(description="x"); p.add_argument("--lr", type=float, required=True); p.add_argument("rest", nargs="*")
print(p.parse_args(["--lr", "0.1", "a"]))
p.parse_args()
""",
    "pickle of main's classes": """
import pickle, copyreg
class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x
data = pickle.dumps(Point(3)); print(data, pickle.loads(data) == Point(3), Point, Point.__module__, Point.__qualname__)
""",
    "functions know their globals": """
def f(): return g() + x
def g(): return 1
x = 2
class A:
    def __del__(self): print("gone", f(), x)
a = A()
print(f(), f.__globals__ is globals(), f.__module__, f.__code__.co_filename)
import inspect, linecache
print(inspect.getsource(f), inspect.getsourcefile(g), inspect.getmodule(f), linecache.getline(__file__, 2))
""",
    "uncaught exception": "def f(): raise ValueError('x\\ny')\n\ndef g():\n    f()\n\ng()\n",
    "chained exception": """
try:
    1 / 0
except ZeroDivisionError as e:
    raise KeyError("k") from e
""",
    "exception in an import": {"main.py": "import other\n", "other.py": "import json\njson.loads('{')\n"},
    "AttributeError": "import os\nos.nothing\n",
    "StopIteration": "next(iter([]))\n",
    "custom exception": "class E(Exception):\n    def __str__(self): return 'odd'\nraise E\n",
    "exception whose text fails": "class E(Exception):\n    def __str__(self): 1 / 0\nraise E\n",
    "exception group": "import sys\nif sys.version_info >= (3, 11):\n    raise eval('ExceptionGroup')('g', [ValueError(1), KeyError(2)])\nraise ValueError\n",
    "RecursionError": "def f(n):\n    return f(n + 1) + 1\nf(0)\n",
    "recursion depth": """
import sys
n = 0
def f():
    global n
    n += 1
    f()
try: f()
except RecursionError: print(n)
""",
    "SyntaxError": "x = 1\nprint('never')\ny = (\n",
    "IndentationError": "if 1:\nx\n",
    "tabs": "if 1:\n        x=1\n\ty=2\n",
    "bad encoding": b"# -*- coding: latin-9999 -*-\nprint(1)\n",
    "bad bytes": b"print('\xff\xfe')\n",
    "null byte": b"print(1)\0\n",
    "latin-1": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
    "byte order mark": b"\xef\xbb\xbfprint('bom')\n",
    "CRLF": b"print('a')\r\nx = '''a\r\nb'''\r\nprint(repr(x))\r\n",
    "no newline at the end": b"print(1)",
    "empty": b"",
    "future import": "from __future__ import annotations\nx: Missing = 1\nprint(__annotations__)\nexec('def f(a: Missing2): pass', globals())\n",
    "SyntaxWarning": "x = 1\nprint(x is 1)\nassert (x, 'y')\n",
    "invalid escape": "print('\\d')\n",
    "exit 0": "import sys; print('a'); sys.exit(0)\n",
    "exit 7": "import sys; sys.exit(7)\n",
    "exit 256": "import sys; sys.exit(256)\n",
    "exit -1": "import sys; sys.exit(-1)\n",
    "exit with a huge number": "import sys; sys.exit(10 ** 30)\n",
    "exit None": "raise SystemExit\n",
    "exit with a text": "import sys; sys.exit('no GPU, é')\n",
    "exit with an object": "import sys\nclass O:\n    def __str__(self): return 'odd object'\nsys.exit(O())\n",
    "exit with True": "import sys; sys.exit(True)\n",
    "exit with a tuple": "raise SystemExit(1, 2)\n",
    "exit()": "exit(5)\n",
    "exit in a function": "import sys, atexit\natexit.register(print, 'atexit')\ndef f():\n    try: sys.exit(3)\n    finally: print('finally')\nf()\n",
    "os._exit": "import os; print('lost?', flush=True); os._exit(9)\n",
    "KeyboardInterrupt": "raise KeyboardInterrupt\n",
    "KeyboardInterrupt with atexit": "import atexit\natexit.register(print, 'atexit')\nraise KeyboardInterrupt('why')\n",
    "subclass of KeyboardInterrupt": "class K(KeyboardInterrupt): pass\nraise K\n",
    "SIGINT": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n",
    "SIGTERM": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "SIGKILL": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "abort": "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nos.abort()\n",
    "segmentation fault": "import ctypes, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nctypes.string_at(0)\n",
    "faulthandler": "import faulthandler, os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nfaulthandler.enable()\ndef f(): os.abort()\nf()\n",
    "signal handlers": """
import signal, os, time
print([(s.name, str(signal.getsignal(s))) for s in sorted(signal.valid_signals()) if hasattr(s, "name")])
print(open("/proc/self/status").read().split("SigBlk")[1].split("CapInh")[0])
def h(n, frame): print("got", n, frame.f_back, frame.f_code.co_name)
signal.signal(signal.SIGUSR1, h)
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
""",
    "SIGPIPE": "import subprocess, sys\nprint(subprocess.run(['sh', '-c', 'kill -PIPE $$'], check=False).returncode)\nimport os\nr, w = os.pipe(); os.close(r)\nos.write(w, b'x')\n",
    "warnings": """
import warnings, sys
warnings.warn("one")
def f(): warnings.warn("two", stacklevel=2)
f(); f()
for _ in range(2): warnings.warn("three", DeprecationWarning)
warnings.warn("beyond", stacklevel=2)
warnings.warn("far beyond", stacklevel=9)
print(sorted(k for k in globals().get("__warningregistry__", {}) if k != "version"))
print(warnings.filters, getattr(warnings, "onceregistry", None))
warnings.simplefilter("once"); warnings.warn("four"); warnings.warn("four")
""",
    "unclosed file": "import sys\nf = open(__file__)\ndel f\nprint(1)\n",
    "atexit": """
import atexit, sys, threading
atexit.register(print, "first registered")
@atexit.register
def last():
    print("last registered", sys.modules["__main__"].__name__, "__file__" in globals())
    import traceback; traceback.print_stack(file=sys.stdout)
class D:
    def __del__(self): print("deleted")
d = D()
print("end")
""",
    "atexit that fails": "import atexit\natexit.register(lambda: 1 / 0)\natexit.register(print, 'other')\n",
    "atexit that exits": "import atexit, sys\natexit.register(lambda: sys.exit(4))\nprint(1)\n",
    "file at exit": "import atexit\ndef f(): print(globals().get('__file__'), globals().get('__cached__', 'none'))\natexit.register(f)\n",
    "file at exit after an exception": "import atexit\ndef f(): print(globals().get('__file__'), globals().get('__cached__', 'none'))\natexit.register(f)\n1/0\n",
    "threads left behind": """
import threading, time
def work(): time.sleep(0.2); print("thread done", threading.main_thread().is_alive())
threading.Thread(target=work).start()
print("main done", threading.current_thread() is threading.main_thread(), threading.active_count(), threading.enumerate()[0].name)
""",
    "daemon threads": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('end')\n",
    "exception in a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t'); t.start(); t.join()\n",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[2].tb_frame.f_back)\n1 / 0\n",
    "sys.last_value": "import atexit, sys\natexit.register(lambda: print(repr(sys.last_value), sys.last_traceback.tb_lineno))\n1 / 0\n",
    "stack": """
import inspect, sys, traceback
print([f.function for f in inspect.stack()], sys._getframe().f_back)
try: sys._getframe(1)
except ValueError as e: print(e)
traceback.print_stack()
def f(): traceback.print_stack(limit=5)
f()
""",
    "logging": "import logging, sys\nlogging.basicConfig(format='%(pathname)s %(lineno)d %(funcName)s %(module)s %(process)d'.replace(' %(process)d', ''))\nlogging.warning('a', stack_info=True)\ntry: 1/0\nexcept Exception: logging.exception('b')\n",
    "pdb post mortem": "import pdb, sys, io\ntry:\n    1 / 0\nexcept Exception:\n    p = pdb.Pdb(stdin=io.StringIO('w\\nl\\nq\\n'), stdout=sys.stdout)\n    p.reset(); p.interaction(None, sys.exc_info()[2])\n",
    "standard input at its end": "import sys\nprint(repr(sys.stdin.read()), sys.stdin.isatty())\ntry: input('?')\nexcept EOFError as e: print('EOF', e)\n",
    "output without a newline": "import sys, os\nprint('a', end='')\nsys.stderr.write('b')\nos.write(1, b'c')\n",
    "closed output": "import sys\nsys.stdout.close()\n",
    "output that fails": "import sys, os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('x')\n",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.flags)'], stdout=subprocess.PIPE).stdout)\n",
    "fork": """
import os, sys
print("before", flush=True)
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    sys.exit(5)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
    "fork to the end": "import os\npid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1])\nelse: raise ValueError('child')\n",
    "execv of itself": """
import os, sys
print(sys.argv, os.environ.get("RANK"), flush=True)
if sys.argv[-1] != "again":
    os.execv(sys.executable, [sys.executable] + sys.argv + ["again"])
""",
    "multiprocessing spawn": """
import multiprocessing as mp
class C:
    def __init__(self, v): self.v = v
def work(c): return c.v * 2, __name__, mp.current_process().name
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as p: print(p.map(work, [C(1), C(2)]))
""",
    "multiprocessing fork": """
import multiprocessing as mp
class C:
    def __init__(self, v): self.v = v
def work(c): return c.v * 2, __name__
if __name__ == "__main__":
    with mp.get_context("fork").Pool(1) as p: print(p.map(work, [C(1), C(2)]))
    p = mp.get_context("fork").Process(target=exit, args=(3,)); p.start(); p.join(); print(p.exitcode)
""",
    "multiprocessing forkserver": """
import multiprocessing as mp
class C:
    def __init__(self, v): self.v = v
def work(c): return c.v * 2, __name__
if __name__ == "__main__":
    with mp.get_context("forkserver").Pool(1) as p: print(p.map(work, [C(1), C(2)]))
""",
    "concurrent.futures": "import concurrent.futures as f\nwith f.ThreadPoolExecutor(2) as e: print(list(e.map(len, ['a', 'bb'])))\n",
    "asyncio": "import asyncio\nasync def f(): await asyncio.sleep(0.01); return 3\nprint(asyncio.run(f()))\n",
    "asyncio that fails": "import asyncio\nasync def f(): raise ValueError('x')\nasyncio.run(f())\n",
    "local modules": {"main.py": "import helper, pkg.sub\nprint(helper.x, pkg.sub.y, helper.__file__)\n", "helper.py": "x = 1\n",
                      "pkg/__init__.py": "", "pkg/sub.py": "from . import other\nfrom .other import y\n", "pkg/other.py": "y = 2\n"},
    "relative import without a package": {"main.py": "from . import helper\n", "helper.py": ""},
    "main imported again": "import sys\nif __name__ == '__main__':\n    import main\n    print('main', sys.modules['main'] is sys.modules['__main__'])\nelse:\n    print('imported as', __name__)\n",
    "unraisable": "class D:\n    def __del__(self): 1 / 0\nd = D()\ndel d\nprint(1)\n",
    "dataclass and namedtuple": "from dataclasses import dataclass\nfrom collections import namedtuple\n@dataclass\nclass A:\n    x: int = 1\nprint(A(), namedtuple('N', 'a b')(1, 2).__class__.__module__)\n",
    "gc": "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.get_freeze_count(), gc.callbacks)\n",
    "locale": "import locale, sys\nprint(locale.getlocale(), sys.getfilesystemencoding(), locale.getpreferredencoding())\n",
    "trace function": "import sys\nseen = []\ndef t(frame, event, arg): seen.append((event, frame.f_code.co_name)); return t\nsys.settrace(t)\ndef f(): return 1\nf()\nsys.settrace(None)\nprint(seen)\n",
    "umask and limits": "import os, resource\nm = os.umask(0); print(m, resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), os.getpriority(os.PRIO_PROCESS, 0), os.getsid(0) == os.getpid())\n",
    "zero modules of its own": "import sys\nprint(any('park' in (getattr(m, '__file__', '') or '') for m in list(sys.modules.values())))\nimport gc\nprint([o for o in gc.get_objects() if isinstance(o, dict) and '_hearth_park' in o])\n",
    "unwritable": "print('é' * 3, '\\udcff')\n",
    "quit of the site module": "print(quit, exit, copyright.__class__, __import__('builtins').__dict__.get('_'))\n",
    "read its own source": "print(open(__file__).read() == open(__import__('sys').argv[0]).read())\n",
}

# As `python3 -m NAME`. The files stand for a folder in which python is started.
MODULES = {
    "module": ("pkg.run", {"pkg/__init__.py": "print('package', __name__)\n", "pkg/run.py": """
import sys, os
from . import near
print(__name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0], near.x, getattr(sys, "orig_argv", None), __loader__.__class__)
print([n for n in globals()][:9], sorted(sys.modules))
""", "pkg/near.py": "x = 1\n"}),
    "package with main": ("pkg", {"pkg/__init__.py": "", "pkg/__main__.py": "import sys\nprint(sys.argv)\nsys.exit('text')\n"}),
    "module that is missing": ("nothing.here", {}),
    "package without main": ("pkg", {"pkg/__init__.py": ""}),
    "module that fails": ("mod", {"mod.py": "def f(): raise ValueError(1)\nf()\n"}),
    "module with a mistake": ("mod", {"mod.py": "x = (\n"}),
    "module that exits": ("mod", {"mod.py": "import sys, atexit\natexit.register(print, 'atexit')\nsys.exit(7)\n"}),
    "module with an interrupt": ("mod", {"mod.py": "import atexit\natexit.register(print, 'atexit')\nraise KeyboardInterrupt\n"}),
    "module and spawn": ("mod", {"mod.py": """
import multiprocessing as mp
def work(x): return x * 2, __name__
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as p: print(p.map(work, [1]))
"""}),
}
