#!/usr/bin/env python3
# hearth-park: a Python interpreter that imports modules ahead and waits for its program.
#
#     python3 [options] hearth-park [--cuda-context] MODULE ...
#
# Installed as hearth-park, started by a shim for a rank of a pool (docs/spec/03-shim.md, 15-pools.md). The
# socket HEARTH_PARK_FD carries the protocol:
#
#     "ready\n"       to the shim: the modules are imported, nothing was started
#     "bad TEXT\n"    to the shim: no program may run here, and why; it ends with 1
#     frame           from the shim: u32 length of the rest, then argv, env and [cwd], each a u32 count and for
#                     each text a u32 length and its bytes; numbers are big-endian
#     "g"             to the shim: the program runs now, in this interpreter
#     "c TEXT\n"      to the shim instead: the interpreter executes argv afresh, and why
#
# The program must behave as if `python3 script.py` had been started now. Two rules follow.
#
# - Nothing of this file may be seen by it. The file has no docstring and no annotations, and imports only
#   modules that are part of the interpreter; those that a new interpreter lacks leave sys.modules again.
# - No frame of this file may be below the script's: tracebacks, warnings and inspect would show it. So the
#   file ends, and Python itself flushes sys.stderr then, from C. The stream is ours for that moment. It waits,
#   and its flush is PyRun_AnyFileExFlags, the function that runs the script of any `python3 script.py`.
#   A module (-m) has one frame more below it, because C offers no such function for runpy.
#
# Doubt ends in "c": a cold start is slower, but never wrong.

def _hearth_park(main):
    import sys

    startup = frozenset(sys.modules)
    import posix

    before = frozenset(main) - {"_hearth_park", "__file__", "__cached__"}
    own_path = main["__file__"]
    limit_frame = 16 << 20

    def decode(data):
        return data.decode(sys.getfilesystemencoding(), "surrogateescape")

    def encode(word):
        return word.encode(sys.getfilesystemencoding(), "surrogateescape")

    def read_file(path):
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            parts = []
            while True:
                part = posix.read(fd, 1 << 16)
                if not part:
                    return b"".join(parts)
                parts.append(part)
        finally:
            posix.close(fd)

    # ---- what a preload may have started ----

    def descriptors():
        found = {}
        for name in posix.listdir("/proc/self/fd"):
            try:
                found[int(name)] = posix.readlink("/proc/self/fd/" + name)
            except OSError:  # the folder's own
                pass
        return found

    def signals():
        wanted = (b"SigBlk:", b"SigIgn:", b"SigCgt:")
        lines = read_file("/proc/self/status").split(b"\n")
        return {line[:6].decode(): int(line[7:], 16) for line in lines if line.startswith(wanted)}

    def signal_change(was):
        for what, mask in signals().items():
            changed = was[what] ^ mask
            if changed:
                word = {"SigBlk": "mask", "SigIgn": "handler", "SigCgt": "handler"}[what]
                return "changed the %s of signal %d" % (word, (changed & -changed).bit_length())
        return None

    def threads():
        import _thread

        return len(posix.listdir("/proc/self/task")), _thread._count()

    # What a process hands on, also through the execve of a start afresh, and two settings of Python.
    def settings():
        import _signal

        found = {"umask": [line for line in read_file("/proc/self/status").split(b"\n") if line.startswith(b"Umask:")],
                 "nice value": posix.getpriority(posix.PRIO_PROCESS, 0), "CPUs": posix.sched_getaffinity(0),
                 "folder": posix.getcwd(), "recursion limit": sys.getrecursionlimit(),
                 "limit of tracebacks": getattr(sys, "tracebacklimit", None),
                 "interval timers": [_signal.getitimer(which) != (0.0, 0.0) for which in range(3)]}
        for line in read_file("/proc/self/limits").split(b"\n")[1:]:
            found["limit " + line[:26].decode().strip()] = line[26:]
        return found

    def setting_change(was):
        now = settings()
        return next(("changed the " + name for name in now if now[name] != was[name]), None)

    def thread_change(was):
        tasks, known = threads()
        if known > was[1]:
            return "started a thread"
        # A numeric library starts one thread for each CPU when it is loaded, and they sleep until they are used.
        try:
            room = max(len(posix.sched_getaffinity(0)), int(posix.environ.get(b"OMP_NUM_THREADS", b"1") or 1))
        except ValueError:
            room = len(posix.sched_getaffinity(0))
        if tasks - known - (was[0] - was[1]) > room:
            return "started %d threads" % (tasks - known - (was[0] - was[1]))
        return None

    def children():
        try:
            posix.waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def seed_change():
        module = sys.modules.get("random")
        # 624 numbers are made at once; the index says that none was used yet.
        if module and module._inst.getstate()[1][-1] != 624:
            return "used random numbers of the module random"
        module = sys.modules.get("numpy.random.mtrand")
        if module and module._rand.get_state()[2] != module.RandomState().get_state()[2]:
            return "used or seeded the random numbers of numpy.random"
        module = sys.modules.get("torch")
        if module:
            # torch seeds itself with 64 random bits; a seed of fewer is somebody's own.
            seed = module.default_generator.initial_seed()
            fresh = module.Generator().manual_seed(seed)
            if seed < 1 << 32 or module.default_generator.get_state().ne(fresh.get_state()).any():
                return "used or seeded the random numbers of torch"
        return None

    def started(was):
        change = thread_change(was["threads"]) or signal_change(was["signals"]) or setting_change(was["settings"])
        if not change and children():
            change = "started a process"
        if not change:
            for fd, name in descriptors().items():
                if was["descriptors"].get(fd) != name:
                    change = "opened %s" % name
                    break
        return change or seed_change() or variable_change()

    # Variables that Python or an import sets (sklearn: KMP_DUPLICATE_LIB_OK) come over the program's own, which are equal.
    def set_by_imports():
        return {name: value for name, value in posix.environ.items() if first_env.get(name) != value}

    def variable_change():
        for name in posix.environ.keys() | first_env.keys():
            if posix.environ.get(name) != first_env.get(name) and late_safe(name):
                return "changed the variable %s" % decode(name)
        return None

    # ---- the connection ----

    def send(data):
        while data:
            data = data[posix.write(link, data):]

    def one_line(words):
        return encode(" ".join(words.split()))

    def refuse(reason):
        send(b"bad " + one_line(reason)[:4000] + b"\n")
        flush_streams()
        posix._exit(1)

    def flush_streams():
        for stream in (sys.stdout, sys.stderr):
            if stream:
                stream.flush()

    # ---- modules and the CUDA context ----

    def import_one(name, was):
        try:
            __import__(name)
        except BaseException as failure:
            refuse("%s: %s: %s" % (name, type(failure).__name__, failure))
        change = started(was)
        if change:
            refuse("%s %s" % (name, change))

    # The driver's own call makes the context that every library shares, and no current device, seed or state of a
    # framework changes.
    def make_context():
        try:
            cuda = _ctypes.dlopen("libcuda.so.1", 2)
        except OSError as failure:
            refuse("cuda_context: %s" % failure)
        count, device, context = make_int(0), make_int(0), make_pointer(None)
        local_rank = posix.environ.get(b"LOCAL_RANK", b"0")

        def call(name, *arguments):
            rc = function(_ctypes.dlsym(cuda, name), make_int, python=False)(*arguments)
            if rc:
                refuse("cuda_context: %s failed with %d" % (name, rc))

        call("cuInit", 0)
        call("cuDeviceGetCount", _ctypes.byref(count))
        if not count.value:
            refuse("cuda_context: no GPU is visible")
        call("cuDeviceGet", _ctypes.byref(device), int(local_rank or 0) % count.value)
        call("cuDevicePrimaryCtxRetain", _ctypes.byref(context), device)

    # ---- what must be the same at the start of the program ----

    # No program can set the time of a change, as it can that of the contents.
    def stamp(path):
        try:
            s = posix.stat(path)
        except OSError:
            return None
        return s.st_dev, s.st_ino, s.st_size, s.st_ctime_ns

    def loaded_files():
        files = {sys.executable}
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path[:1] == "/":
                files.add(path)
        for line in read_file("/proc/self/maps").split(b"\n"):
            path = line[line.find(b"/"):] if b"/" in line else b""
            if path and not path.startswith((b"/dev/", b"/memfd:", b"/SYSV")):
                files.add(decode(path))
        for prefix in {sys.prefix, sys.exec_prefix}:
            files.add(prefix + "/pyvenv.cfg")
        files.discard(own_path)
        return files

    # A look at 2,000 files takes 4 ms, at their 200 folders 0.4 ms. An installer replaces files, which changes
    # the folder; only the owner of a file edits it in place. inotify was rejected: its close takes 15 ms.
    def places(files):
        folders, own = set(), []
        for path in files:
            folders |= {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
            if posix.access(path, posix.W_OK):
                own.append(path)
        return {folder: stamp(folder) for folder in folders}, own

    # A file that changed after the imports began may not be the one that was loaded: it counts as changed.
    def recent(path):
        now = stamp(path)
        return "recent" if now and now[3] >= begun else now

    # Returns the first file that is not the one that was loaded, or None.
    def changed_file():
        folders, own = state["places"]
        paths = own
        if any(stamp(folder) != was for folder, was in folders.items()):
            paths = state["files"]
        for path in paths:
            if stamp(path) != state["files"][path]:
                return path
        return None

    # Top-level modules that a file of the program's own folder would have replaced.
    def preloaded_names():
        return {name for name in sys.modules if "." not in name and name not in startup} - set(sys.builtin_module_names)

    # The first of those names that a folder offers, by the rules of Python's own search.
    def shadow(folder, names):
        try:
            entries = posix.listdir(folder)
        except OSError:
            return None
        for entry in entries:
            name, _, rest = entry.partition(".")
            if name not in names:
                continue
            if rest in ("py", "pyc") or rest.endswith("so"):
                return name
            if not rest and stamp("%s/%s/__init__.py" % (folder, entry)):
                return name
        return None

    def holds_modules(folder, files):
        return any(path.startswith(folder + "/") for path in files)

    # The kernel's clock of files is up to 10 ms late.
    def started_ns():
        import time

        return time.time_ns() - 10_000_000

    # ---- the frame ----

    def receive_bytes(n):
        data = b""
        while len(data) < n:
            part = posix.read(link, n - len(data))
            if not part:
                posix._exit(1)
            data += part
        return data

    def receive():
        length = int.from_bytes(receive_bytes(4), "big")
        if length > limit_frame:
            posix._exit(1)
        return split(receive_bytes(length))

    def split(frame):
        lists, at = [], 0

        def number():
            nonlocal at
            at += 4
            if at > len(frame):
                posix._exit(1)
            return int.from_bytes(frame[at - 4:at], "big")

        for _ in range(3):
            words = []
            for _ in range(number()):
                n = number()
                words.append(frame[at:at + n])
                at += n
            lists.append(words)
        return lists[0], lists[1], lists[2][0] if lists[2] else b""

    # ---- the start ----

    def late_safe(name):
        return name in (
            b"CURRENT_HOST", b"SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY", b"RANK", b"LOCAL_RANK", b"NODE_RANK",
            b"GROUP_RANK", b"ROLE_RANK", b"ROLE_NAME", b"WORLD_SIZE", b"LOCAL_WORLD_SIZE", b"GROUP_WORLD_SIZE",
            b"ROLE_WORLD_SIZE", b"TF_CONFIG", b"PWD", b"OLDPWD",
        ) or name.startswith((
            b"HEARTH_", b"SM_", b"TRAINING_JOB_", b"MASTER_", b"TORCHELASTIC_", b"OMPI_", b"PMIX_", b"PMI_", b"ORTE_", b"PRTE_",
        ))

    def variables(env):
        found = {}
        for entry in env:
            name, sign, value = entry.partition(b"=")
            if sign and name:
                found.setdefault(name, value)
        return found

    def changed_variable(now):
        for name in sorted(now.keys() | first_env.keys()):
            if now.get(name) != first_env.get(name) and not late_safe(name):
                return decode(name)
        return None

    # Python made the relative folders of PYTHONPATH absolute when it started. Pairs of what it made then and would make
    # now.
    def moved_folders(cwd):
        if state["cwd"] == cwd or sys.flags.ignore_environment or sys.flags.no_site:
            return []
        entries = decode(first_env.get(b"PYTHONPATH", b""))
        relative = dict.fromkeys(entry for entry in entries.split(":") if entry[:1] != "/") if entries else ()
        return [[os.path.abspath(os.path.join(folder, entry)) for folder in (state["cwd"], cwd)] for entry in relative]

    def misfit_folders(moved):
        for was, now in moved:
            if was not in sys.path or now in sys.path:
                return "PYTHONPATH has %s twice" % now
            name = shadow(now, state["names"])
            if name or holds_modules(was, state["files"]):
                return "%s has a module %s" % (now, name or "that was loaded from %s" % was)
        return None

    # Returns why the program needs an interpreter of its own, or None.
    def misfit(argv, now, state):
        name = changed_variable(now)
        if name:
            return "%s differs" % name
        rest = argv[len(state["prefix"]):]
        if argv[:len(state["prefix"])] != state["prefix"] or not rest or (rest[0][:1] == b"-" and rest[0] != b"-m"):
            return "the interpreter or its options differ"
        path = changed_file()
        if path:
            return "%s changed" % path
        for folder, was in state["folders"].items():
            if stamp(folder) == was:
                continue
            if holds_modules(folder, state["files"]):
                return "%s changed" % folder
            name = shadow(folder, state["names"])
            if name:
                return "%s has a module %s" % (folder, name)
        return None

    def misfit_program(program, folder, state):
        if program[:1] != b"-":
            try:
                mode = posix.stat(program).st_mode
            except OSError as failure:
                return "%s: %s" % (decode(program), failure.strerror)
            if mode & 0o170000 != 0o100000:
                return "%s is not a file" % decode(program)
        if folder is not None:
            name = shadow(folder, state["names"])
            if name:
                return "%s has a module %s" % (folder, name)
        return None

    # As execvp: the first file of PATH that can be executed.
    def execute(argv, now):
        import _signal

        for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):
            if hasattr(_signal, name):
                _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
        program, failure = argv[0], None
        folders = [b""] if b"/" in program else now.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin").split(b":")
        for folder in folders:
            try:
                posix.execve(folder + b"/" + program if folder else program, argv, now)
            except OSError as error:
                failure = error
        posix.write(2, b"hearth-park: %s: %s\n" % (program, encode(failure.strerror)))
        posix._exit(127)

    # putenv and unsetenv change what getenv of C sees; os.environ calls them.
    def set_environment(now):
        later, gone = set_by_imports(), first_env.keys() - posix.environ.keys()
        os.environ.clear()
        for name, value in {**now, **later}.items():
            if name not in gone:
                os.environb[name] = value

    # A finder keeps the list of a folder, and None for a folder that was missing.
    def forget_folders():
        for path, finder in list(sys.path_importer_cache.items()):
            if path not in state["cached"] or path == own_folder or (finder is None and stamp(path)):
                del sys.path_importer_cache[path]
            elif hasattr(finder, "invalidate_caches"):
                finder.invalidate_caches()

    def clean_up():
        for name in [name for name in sys.modules if name not in state["modules"]]:
            del sys.modules[name]
        for name in [name for name in main if name not in before]:
            del main[name]
        forget_folders()

    # The folder that Python puts first on sys.path, None if it puts none.
    def first_folder(program):
        if not own_first:
            return None
        if program == b"-m":
            return posix.getcwd()
        return os.path.dirname(os.path.realpath(decode(program)))

    def begin():
        argv, env, cwd = receive()
        now = variables(env)
        try:
            if cwd:
                posix.chdir(cwd)
        except OSError as failure:
            refuse("%s: %s" % (decode(cwd), failure.strerror))
        moved = moved_folders(posix.getcwd())
        reason = misfit(argv, now, state) or misfit_folders(moved)
        at = len(state["prefix"])
        folder = None if reason else first_folder(argv[at])
        reason = reason or misfit_program(argv[at], folder, state)
        if reason:
            send(b"c " + one_line(reason)[:200] + b"\n")
            execute(argv, now)
        set_environment(now)
        words = [decode(word) for word in argv]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = words
        for was, now in moved:
            sys.path[sys.path.index(was)] = now
        processes = sys.modules.get("multiprocessing.process")
        if processes and processes.ORIGINAL_DIR == state["cwd"]:  # where a child that is spawned begins
            processes.ORIGINAL_DIR = posix.getcwd()
        if folder is not None:
            sys.path.insert(0, folder)
        module = words[at + 1] if words[at] == "-m" else None
        sys.argv = ["-m"] + words[at + 2:] if module else words[at:]
        clean_up()
        runner = None if module else file_runner(argv[at])
        send(b"g")
        posix.close(link)
        return run_module(module) if module else runner

    # ---- a script ----

    def function(address, result, python=True):
        class Function(_ctypes.CFuncPtr):
            _flags_ = _ctypes.FUNCFLAG_CDECL | (_ctypes.FUNCFLAG_PYTHONAPI if python else 0)
            _restype_ = result

        return Function(address)

    def symbol(name, python=True, result=None):
        return function(_ctypes.dlsym(_ctypes.dlopen(None, 2), name), result or make_int, python)

    # True where an exit with 1 must follow. After an interrupt Python ends itself by the signal.
    def failed(rc):
        last = getattr(sys, "last_exc", None)
        kind = type(last) if last is not None else getattr(sys, "last_type", None)
        return rc != 0 and kind is not KeyboardInterrupt

    # One call without arguments that runs the script and, if it failed, ends with 1. All of it is C.
    def file_runner(program):
        path = program if program[:1] == b"/" else encode(posix.getcwd()) + b"/" + program
        stream = make_pointer(symbol("fopen", False, make_pointer)(path, b"rb"))
        if not stream.value:
            raise OSError("%s cannot be opened" % decode(path))
        sys.path_importer_cache[decode(path)] = None
        run, leave = symbol("PyRun_AnyFileExFlags"), symbol("Py_Exit")
        calls = itertools.starmap(run, [(stream, path, 1, None)])
        return _functools.partial(next, map(_functools.partial(leave, 1), filter(failed, calls)), None)

    # ---- a module ----

    def run_module(name):
        import runpy

        try:
            runpy._run_module_as_main(name, True)
        except SystemExit as end:
            return _functools.partial(symbol("Py_Exit"), exit_status(end.code))
        except BaseException as failure:
            failure.__traceback__ = failure.__traceback__.tb_next
            sys.last_type, sys.last_value, sys.last_traceback = type(failure), failure, failure.__traceback__
            sys.excepthook(type(failure), failure, failure.__traceback__)
            if type(failure) is KeyboardInterrupt:
                note_interrupt()
            else:
                return _functools.partial(symbol("Py_Exit"), 1)
        return int

    def exit_status(code):
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xff
        sys.stderr.write(str(code) + "\n")
        return 1

    # Python remembers an interrupt that ended a text, and then ends itself by the signal.
    def note_interrupt():
        try:
            exec("raise KeyboardInterrupt")
        except KeyboardInterrupt:
            pass

    # ---- the order of things ----

    class Waiting:
        @property
        def flush(self):
            sys.stderr = stderr
            try:
                return begin()
            except BaseException as failure:
                posix.write(2, b"hearth-park: %s\n" % one_line("%s: %s" % (type(failure).__name__, failure)))
                posix._exit(1)

    # What was given. Python adds LC_CTYPE in the locale C, and site what its owner wants: both do it for each program.
    first_env = variables(read_file("/proc/self/environ").split(b"\0"))
    begun = started_ns()
    link = int(posix.environ.get(b"HEARTH_PARK_FD", b"-1"))
    if link < 0 or sys.version_info < (3, 9):
        posix.write(2, b"hearth-park: it is started by a shim, with Python 3.9 or newer\n")
        posix._exit(2)
    own_first = not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))
    own_folder = sys.path[0] if own_first else None
    if own_first:
        del sys.path[0]
    posix.set_inheritable(link, False)
    names = sys.argv[1:]
    was = {"threads": threads(), "signals": signals(), "descriptors": descriptors(),
           "settings": settings()}
    for name in names:
        if name != "--cuda-context":
            import_one(name, was)
    state = {"modules": startup | set(sys.modules), "names": preloaded_names(), "cached": set(sys.path_importer_cache),
             "cwd": posix.getcwd()}
    try:
        import os
        import itertools
        import _ctypes
        import _functools
    except ImportError as failure:
        refuse("this Python cannot wait: %s" % failure)

    class make_int(_ctypes._SimpleCData):
        _type_ = "i"

    class make_pointer(_ctypes._SimpleCData):
        _type_ = "P"

    if "--cuda-context" in names:
        make_context()
    words = read_file("/proc/self/cmdline").split(b"\0")[:-1]
    state["prefix"] = words[:len(words) - len(sys.argv)]
    files = loaded_files()
    state["places"] = places(files)
    state["files"] = {path: recent(path) for path in files}
    state["folders"] = {path: stamp(path) for path in sys.path if path}
    flush_streams()
    stderr = sys.stderr
    sys.stderr = Waiting()
    send(b"ready\n")


_hearth_park(globals())
