"""hearth: for programs that Hearth trains, and for notebooks that give it work.

One file, Python 3.8 or later, nothing beside the standard library: import it from share/hearth/python, or copy it.

In a training program (all of it works outside a job as well: log() does nothing there, checkpoints go to ./checkpoints):

    import hearth

    found = hearth.resume()                          # (path, step) of the checkpoint to go on from, or None
    hearth.wait_for_master(60)                       # rank 0's rendezvous port is open
    for step in range(start, steps):
        if hearth.should_skip(step):                 # data that an earlier attempt stumbled over
            continue
        ...
        hearth.log(step=step, loss=loss)             # any numbers; never blocks, survives the agent
        if step % 1000 == 0 and rank == 0:
            hearth.commit_checkpoint(lambda d: torch.save(state, d + "/model.pt"), step, loss=loss)

In a notebook:

    job = hearth.submit("job.json")                  # or a dict, and source_dir=...
    for line in job.logs(follow=True):
        print(line)
    job.wait(); job.status; job.metrics("loss"); job.get("model"); job.stop()

The controller is found as by jobctl: arguments, HEARTH_URL and HEARTH_TOKEN, ~/.config/hearth/config, the local cluster.
"""

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import pwd
import re
import shutil
import socket
import ssl
import stat
import tempfile
import time
import urllib.parse
import uuid

__all__ = [
    "HearthError",
    "Job",
    "checkpoint_dir",
    "commit_checkpoint",
    "log",
    "resume",
    "should_skip",
    "skip_steps",
    "submit",
    "wait_for_master",
]


class HearthError(Exception):
    """What the controller refused, or that it could not be reached. status: of HTTP, 0 when there was no answer."""

    def __init__(self, text, status=0, hint=None):
        super().__init__(text if not hint else "%s\n%s" % (text, hint))
        self.status = status
        self.hint = hint


# ---- metrics ---------------------------------------------------------------------------------------------------------


def _metrics_fd():
    """The descriptor, if it is really ours: a child process may have inherited the variable without the file."""
    try:
        fd = int(os.environ["HEARTH_METRICS_FD"])
        if stat.S_ISREG(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
            return fd
    except (KeyError, ValueError, OSError):
        pass
    return None


def log(step=None, **metrics):
    """Records numbers, with the step they belong to. Tensors and arrays of one element are taken too.

    One write of one line to a file: it does not block and does not fail the program when the disk is full. Outside a job
    nothing happens. True when it was written.
    """
    values = {"step": int(step)} if step is not None else {}
    for name, value in metrics.items():
        values[name] = float(value)
    fd = _metrics_fd()
    if fd is None or not metrics:
        return False
    line = json.dumps(values, separators=(",", ":")) + "\n"
    try:
        return os.write(fd, line.encode()) == len(line)
    except OSError:
        return False


# ---- checkpoints -----------------------------------------------------------------------------------------------------

MANIFEST = "hearth.json"
_STEP_DIR = re.compile(r"^step-(\d+)$")


def checkpoint_dir(default="checkpoints"):
    """Where checkpoints of this job belong; `default` outside a job. The folder exists afterwards."""
    path = os.environ.get("HEARTH_CHECKPOINT_DIR") or default
    os.makedirs(path, exist_ok=True)
    return os.path.abspath(path)


def _sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _files_below(top):
    for folder, names, files in os.walk(top):
        names.sort()
        for name in sorted(files):
            yield os.path.join(folder, name)


def _move_into(source, folder):
    """Moves a file into folder, or what a folder holds."""
    if not os.path.isdir(source):
        shutil.move(source, os.path.join(folder, os.path.basename(source)))
        return
    for name in os.listdir(source):
        shutil.move(os.path.join(source, name), os.path.join(folder, name))
    os.rmdir(source)


def _write_manifest(folder, step, info):
    files = {}
    for path in _files_below(folder):
        files[os.path.relpath(path, folder)] = {"size": os.path.getsize(path), "sha256": _digest(path)}
        _sync(path)
    manifest = {"step": step, "time": time.time(), "files": files}
    for name in ("HEARTH_JOB", "HEARTH_ATTEMPT"):
        if os.environ.get(name, "").isdigit():
            manifest[name[7:].lower()] = int(os.environ[name])
    manifest.update({k: v for k, v in info.items() if k not in manifest})
    path = os.path.join(folder, MANIFEST)
    with open(path, "w") as f:
        json.dump(manifest, f, indent=1, sort_keys=True, default=float)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())


def commit_checkpoint(source, step, **info):
    """Makes a checkpoint whole: checkpoint_dir()/step-STEP appears with everything in it, or not at all.

    source: a file or folder that was written already (it is moved), or a function that writes into the empty folder whose
    path it gets. info: numbers and texts for the manifest, such as loss=0.3. Call it from one rank. A checkpoint of the same
    step is replaced. Returns the path.
    """
    step = int(step)
    top = checkpoint_dir()
    final = os.path.join(top, "step-%d" % step)
    work = tempfile.mkdtemp(prefix=".writing-step-%d-" % step, dir=top)
    as_folder = not callable(source) and os.path.isdir(source)
    try:
        os.chmod(work, 0o755)
        if callable(source):
            source(work)
        else:
            _move_into(os.fspath(source), work)
        if os.listdir(work) in ([], [MANIFEST]):
            raise ValueError("the checkpoint of step %d is empty" % step)
        _write_manifest(work, step, info)
        _sync(work)
        old = None
        if os.path.lexists(final):
            old = tempfile.mkdtemp(prefix=".old-step-%d-" % step, dir=top)
            os.rename(final, os.path.join(old, "it"))
        os.rename(work, final)
        _sync(top)
        if old:
            shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        if callable(source) or not _move_back(work, os.fspath(source), as_folder):
            shutil.rmtree(work, ignore_errors=True)
        raise
    return final


def _move_back(work, source, as_folder):
    """What was moved belongs to the caller again. True: work must not be removed."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(work, MANIFEST))
    try:
        if as_folder and not os.path.exists(source):
            os.makedirs(source)
        for name in os.listdir(work):
            shutil.move(os.path.join(work, name), os.path.join(source, name) if as_folder else source)
    except OSError:
        return True
    return False


def _step_of(path):
    """From the manifest, else the last number in the name; None when there is neither."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(os.path.join(path, MANIFEST)) as f:
            return int(json.load(f)["step"])
    numbers = re.findall(r"\d+", os.path.basename(os.path.normpath(path)))
    return int(numbers[-1]) if numbers else None


def resume():
    """(path, step) of the checkpoint to start from, or None on a first start.

    Inside a job Hearth decides. After a requeue it gives the folder of all checkpoints, and names no step unless one was
    asked for: then it is the newest whole one of ours in it. Where none of it is ours it is (folder, None), and the program
    has to look; where there is nothing in it, None. Outside a job it is the newest whole one in checkpoint_dir().
    """
    path = os.environ.get("HEARTH_RESUME_FROM")
    if not path:
        return None if os.environ.get("HEARTH_JOB") else _newest_in(os.environ.get("HEARTH_CHECKPOINT_DIR") or "checkpoints")
    text = os.environ.get("HEARTH_RESUME_STEP", "")
    if not os.path.exists(os.path.join(path, MANIFEST)):
        inner = os.path.join(path, "step-%s" % text) if text.isdigit() else None
        if inner and os.path.isdir(inner):
            return inner, int(text)
        found = _newest_in(path) if not text.isdigit() else None
        if found:
            return found
        if not text.isdigit() and os.path.isdir(path) and all(name.startswith(".") for name in os.listdir(path)):
            return None
    return path, int(text) if text.isdigit() else _step_of(path)


def _newest_in(top):
    best = None
    with contextlib.suppress(OSError):
        for name in os.listdir(top):
            match = _STEP_DIR.match(name)
            if match and os.path.exists(os.path.join(top, name, MANIFEST)) and (not best or int(match[1]) > best[1]):
                best = (os.path.join(os.path.abspath(top), name), int(match[1]))
    return best


def skip_steps():
    """[(first, last), ...] of the steps whose data should be left out, both inclusive."""
    ranges = []
    for part in filter(None, os.environ.get("HEARTH_SKIP_STEPS", "").split(",")):
        first, _, last = part.partition("-")
        ranges.append((int(first), int(last or first)))
    return ranges


def should_skip(step):
    return any(first <= step <= last for first, last in skip_steps())


def wait_for_master(timeout=60.0):
    """Waits until rank 0's rendezvous port takes connections: a client that comes too early may lose a whole second.

    Rank 0 itself, and a program without MASTER_ADDR, need not wait. TimeoutError when it does not open in time.
    """
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if not host or not port or os.environ.get("RANK") == "0":
        return
    deadline, pause = time.monotonic() + timeout, 0.005
    while True:
        left = deadline - time.monotonic()
        try:
            socket.create_connection((host, int(port)), timeout=max(0.05, min(left, 5.0))).close()
            return
        except OSError as e:
            if time.monotonic() + pause >= deadline:
                raise TimeoutError("port %s of %s did not open in %g s: %s" % (port, host, timeout, e)) from e
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


# ---- source trees ----------------------------------------------------------------------------------------------------
# The format is Hearth's own (chunks addressed by SHA-256 and a manifest): the digests must be those that jobctl finds.

CHUNK_MAX = 4 * 1024 * 1024
_PACK_MAX = 256 * 1024
_PACK_FILES = 32
_PATH_MAX = 4095
_DEPTH_MAX = 128


_CLASSES = {
    b"alnum": bytes.isalnum,
    b"alpha": bytes.isalpha,
    b"blank": lambda c: c in b" \t",
    b"digit": bytes.isdigit,
    b"lower": bytes.islower,
    b"space": bytes.isspace,
    b"upper": bytes.isupper,
    b"xdigit": lambda c: c in b"0123456789abcdefABCDEF",
}


def _bracket(pattern, i):
    """What follows '[' at i: (bytes that fit, position behind ']'), or None when it is not closed."""
    n, fits = len(pattern), set()
    negate = pattern[i : i + 1] in (b"!", b"^")
    start = i = i + negate
    while i < n and (pattern[i : i + 1] != b"]" or i == start):
        named = re.compile(rb"\[:([a-z]+):\]").match(pattern, i)
        if named and named[1] in _CLASSES:
            fits |= {c for c in range(256) if _CLASSES[named[1]](bytes([c]))}
            i = named.end()
            continue
        i += pattern[i : i + 1] == b"\\"
        low = pattern[i : i + 1]
        i += 1
        high = low
        if pattern[i : i + 1] == b"-" and pattern[i + 1 : i + 2] not in (b"]", b""):
            i += 2 if pattern[i + 1 : i + 2] == b"\\" else 1
            high = pattern[i : i + 1]
            i += 1
        if low and high:
            fits |= set(range(low[0], high[0] + 1))
    if i >= n:
        return None
    return (set(range(256)) - fits if negate else fits), i + 1


def _translate(pattern, in_path):
    """A pattern of fnmatch(3) as a regular expression over bytes; in_path: only a '/' fits a '/'."""
    anything, one = (b"[^/]*", b"[^/]") if in_path else (b".*", b".")
    out, i, n = b"", 0, len(pattern)
    while i < n:
        c = pattern[i : i + 1]
        i += 1
        bracket = _bracket(pattern, i) if c == b"[" else None
        if bracket:
            fits, i = bracket
            fits -= set(b"/" if in_path else b"")
            out += b"[" + b"".join(b"\\x%02x" % x for x in sorted(fits)) + b"]" if fits else b"(?!)"
        elif c == b"*":
            out += anything
        elif c == b"?":
            out += one
        elif c == b"\\":
            out += re.escape(pattern[i : i + 1]) if i < n else b"(?!)"  # one at the end fits nothing
            i += 1
        else:
            out += re.escape(c)
    return re.compile(out + rb"\Z", re.S)


class _Ignore:
    """What of a source folder is left out, with .hearthignore in it: the rules are jobctl's."""

    def __init__(self, top):
        self.patterns = []
        lines = [b".git", b"__pycache__/", b"*.pyc"]
        with contextlib.suppress(FileNotFoundError), open(os.path.join(top, b".hearthignore"), "rb") as f:
            lines += [line.rstrip(b" \t\r") for line in f.read(256 * 1024 + 1).split(b"\n")]
        for line in lines:
            if not line or line[:1] == b"#" or line in (b"!", b"/"):
                continue
            if len(line) > 511:
                raise HearthError(".hearthignore: a pattern has at most 511 bytes")
            back = line[:1] == b"!"
            line = line[back:]
            only_dirs = line[-1:] == b"/"
            line = line[:-1] if only_dirs else line
            in_path = b"/" in line
            self.patterns.append((_translate(line[1:] if line[:1] == b"/" else line, in_path), in_path, only_dirs, back))

    def skips(self, path, is_dir):
        name = path.rsplit(b"/", 1)[-1]
        for pattern, in_path, only_dirs, back in reversed(self.patterns):
            if (is_dir or not only_dirs) and pattern.match(path if in_path else name):
                return not back
        return False


def _link_stays(path, target):
    """Does a link at path lead nowhere out of the tree, whatever other links there are?"""
    depth, descended = path.count(b"/"), False
    if not target or target[:1] == b"/" or len(target) > _PATH_MAX:
        return False
    for part in target.split(b"/"):
        if part == b"..":
            if descended or not depth:
                return False
            depth -= 1
        elif part not in (b"", b"."):
            descended = True
    return True


def _walk(top, folder, ignore, depth, found):
    with os.scandir(os.path.join(top, folder) if folder else top) as entries:
        for entry in entries:
            path = folder + b"/" + entry.name if folder else entry.name
            if len(path) > _PATH_MAX or depth >= _DEPTH_MAX:
                raise HearthError("%s: the path is too long or too deep" % os.fsdecode(path))
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except FileNotFoundError:
                continue  # removed meanwhile
            if ignore.skips(path, stat.S_ISDIR(mode)):
                continue
            if stat.S_ISLNK(mode):
                target = os.readlink(os.path.join(top, path))
                if _link_stays(path, target):
                    found.append((path, "l", 0o777, target))
            elif stat.S_ISREG(mode):
                found.append((path, "f", mode & 0o777, None))
            elif stat.S_ISDIR(mode):
                found.append((path, "d", mode & 0o777, None))
                _walk(top, path, ignore, depth + 1, found)


def _open_plain(path, flags):
    """Neither through a link nor waiting on a pipe that stands in the file's place meanwhile."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise HearthError("%s was changed while the folder was read" % os.fsdecode(path))
    return fd


def _escape(path):
    return re.sub(rb"[\x00-\x20%\x7f]", lambda m: b"%%%02X" % m[0][0], path)


def scan_tree(folder, give=None):
    """(digest, manifest) of a folder, as jobctl finds them. give(digest, bytes) gets each chunk once, in order."""
    top = os.fsencode(folder)
    found, parts, seen = [], {}, set()
    pack, packed = bytearray(), []

    def chunk(data):
        digest = hashlib.sha256(data).hexdigest()
        if digest not in seen:
            seen.add(digest)
            if give:
                give(digest, bytes(data))
        return digest

    def close_pack():
        if packed:
            digest = chunk(pack)
            for path, offset, size in packed:
                parts[path] = "%s:%d:%d" % (digest, offset, size)
            del pack[:], packed[:]

    _walk(top, b"", _Ignore(top), 0, found)
    found.sort()
    lines = []
    for path, kind, mode, target in found:
        if kind != "f":
            to = b" " + _escape(target) if target else b""
            lines.append((path, b"%s %o %s%s\n" % (kind.encode(), mode, _escape(path), to)))
            continue
        with open(os.path.join(top, path), "rb", opener=_open_plain) as f:
            st = os.fstat(f.fileno())
            size, left, pieces = st.st_size, st.st_size, []
            if 0 < size <= _PACK_MAX:
                if len(pack) + size > CHUNK_MAX:
                    close_pack()
                data = f.read(size)
                packed.append((path, len(pack), size))
                pack += data
                left -= len(data)
                if hashlib.sha256(path).digest()[0] % _PACK_FILES == 0:
                    close_pack()
            while left > 0 and size > _PACK_MAX:
                data = f.read(min(left, CHUNK_MAX))
                if not data:
                    break
                pieces.append("%s:0:%d" % (chunk(data), len(data)))
                left -= len(data)
            if left:
                raise HearthError("%s became shorter while it was read" % os.fsdecode(path))
            if not size or pieces:
                parts[path] = ",".join(pieces) or "-"
        lines.append((path, b"f %o %d %s " % (st.st_mode & 0o777, size, _escape(path))))
    close_pack()
    whole = [line if line.endswith(b"\n") else line + parts[path].encode() + b"\n" for path, line in lines]
    manifest = b"".join([b"hearth-tree 1\n"] + whole)
    return hashlib.sha256(manifest).hexdigest(), manifest


# ---- the controller --------------------------------------------------------------------------------------------------

_ENDED = ("completed", "failed", "stopped")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def _home():
    home = os.environ.get("HOME", "")
    return home if home.startswith("/") else pwd.getpwuid(os.geteuid()).pw_dir


def _below(variable, default, *parts):
    base = os.environ.get(variable, "")
    return os.path.join(base if base.startswith("/") else os.path.join(_home(), default), *parts)


def _read_config():
    values = {}
    with contextlib.suppress(FileNotFoundError), open(_below("XDG_CONFIG_HOME", ".config", "hearth/config")) as f:
        for line in f:
            key, eq, value = line.partition("=")
            if eq and not line.lstrip().startswith("#"):
                values[key.strip()] = value.strip()
    return values


def _find_controller(url, token):
    """url, token, ca. A token is used only with the address that it stands beside."""
    config, env = _read_config(), os.environ
    chosen = url

    def consider(other_url, other_token):
        nonlocal chosen, token
        chosen = chosen or other_url
        if not other_url or chosen.rstrip("/") == other_url.rstrip("/"):
            token = token or other_token

    consider(env.get("HEARTH_URL"), env.get("HEARTH_TOKEN"))
    if config.get("url") or not chosen:
        consider(config.get("url"), config.get("token"))
    if not chosen:
        path = _below("XDG_DATA_HOME", ".local/share", "hearth/local/hearthd/hearthd.sock")
        chosen = "unix://" + path if os.path.exists(path) else "http://127.0.0.1:7070"
    return chosen, token or None, env.get("HEARTH_CA") or config.get("ca") or None


class Client:
    """Calls of the HTTP API. All of them may be repeated (a POST carries an Idempotency-Key): they are, for `patience`
    seconds, when the controller cannot be reached or is busy."""

    def __init__(self, url=None, token=None, patience=10.0, timeout=60.0):
        self.url, self.token, self._ca = _find_controller(url, token)
        self.patience, self.timeout = patience, timeout
        if not self.url.startswith(("http://", "https://", "unix:///")):
            raise HearthError("url %r: expected http://HOST:PORT, https://HOST:PORT or unix:///PATH" % self.url)

    def _connect(self, timeout):
        if self.url.startswith("unix://"):
            return _UnixConnection(self.url[7:], timeout)
        at = urllib.parse.urlsplit(self.url)
        if at.scheme == "https":
            context = ssl.create_default_context(cafile=self._ca)
            return http.client.HTTPSConnection(at.hostname, at.port or 443, timeout=timeout, context=context)
        return http.client.HTTPConnection(at.hostname, at.port or 80, timeout=timeout)

    def open(self, method, path, body=None, headers=None, timeout=None):
        """One request. (connection, response): the caller reads and closes. HearthError when refused."""
        connection = self._connect(timeout or self.timeout)
        headers = dict(headers or {}, **{"User-Agent": "hearth.py"})
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        try:
            connection.request(method, "/api/v1" + path, body=body, headers=headers)
            response = connection.getresponse()
            if response.status < 300:
                return connection, response
            self._refused(response)
        except ssl.SSLCertVerificationError as e:
            connection.close()
            raise HearthError("the certificate of %s was not accepted: %s" % (self.url, e), 403) from e
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise HearthError("no controller at %s: %s" % (self.url, e or type(e).__name__)) from e
        except HearthError:
            connection.close()
            raise

    @staticmethod
    def _refused(response):
        text, problem = response.read(1 << 20), {}
        with contextlib.suppress(ValueError):
            problem = json.loads(text)
        if not isinstance(problem, dict):
            problem = {}
        detail = problem.get("detail") or problem.get("title") or "HTTP %d without an explanation" % response.status
        raise HearthError(detail, response.status, problem.get("hint"))

    def _once(self, method, path, body, headers):
        connection, response = self.open(method, path, body, headers)
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as e:
            raise HearthError("the answer of %s broke off: %s" % (self.url, e)) from e
        finally:
            connection.close()

    def call(self, method, path, body=None, data=None, raw=False):
        """The parsed answer, None when it is empty (raw: its bytes). body: sent as JSON; data: sent as bytes."""
        headers, pause, deadline = {"Accept": "application/json"}, 0.05, time.monotonic() + self.patience
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        elif data is not None:
            headers["Content-Type"] = "application/octet-stream"
        if method == "POST":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        while True:
            try:
                text = self._once(method, path, data, headers)
                return text if raw else json.loads(text) if text else None
            except HearthError as e:
                if e.status not in (0, 429, 502, 503) or time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 1.0)


def _upload(client, folder):
    """Sends what the controller lacks of a folder; the digest of its manifest."""
    batch, size = [], 0

    def flush():
        nonlocal size
        missing = set(client.call("POST", "/blobs/missing", {"digests": [d for d, _ in batch]})["missing"]) if batch else ()
        for digest, data in batch:
            if digest not in missing:
                continue
            for offset in range(0, max(len(data), 1), CHUNK_MAX):
                path = "/blobs/%s?offset=%d&size=%d" % (digest, offset, len(data))
                client.call("PUT", path, data=data[offset : offset + CHUNK_MAX])
        batch.clear()
        size = 0

    def take(digest, data):
        nonlocal size
        if len(batch) == 1000 or size + len(data) > 32 << 20:
            flush()
        batch.append((digest, data))
        size += len(data)

    if not os.path.isdir(folder):
        raise HearthError("source_dir: %s is not a directory" % folder, 400)
    digest, manifest = scan_tree(folder, take)
    take(digest, manifest)
    flush()
    return digest


def _blob(client, digest, query):
    data = client.call("GET", "/blobs/%s?%s" % (digest, query), raw=True)
    if hashlib.sha256(data).hexdigest() != digest:
        raise HearthError("the controller gave other bytes than those of %s" % digest)
    return data


def _entries(manifest):
    """(kind, mode, path, rest of the line) of a manifest, which comes from outside: every path stays in the folder, below
    folders that it made itself."""
    lines, folders = manifest.split(b"\n"), {b""}
    if lines[0] != b"hearth-tree 1" or lines.pop() != b"":
        raise HearthError("this is no manifest of a tree")
    for line in lines[1:]:
        words = line.split(b" ")
        at = 3 if words[0] == b"f" else 2
        path = urllib.parse.unquote_to_bytes(words[at]) if len(words) > at else b""
        folder, _, name = path.rpartition(b"/")
        if words[0] not in (b"d", b"f", b"l") or folder not in folders or name in (b"", b".", b"..") or path[:1] == b"/" or b"\0" in path:
            raise HearthError("the manifest has a path that leads elsewhere: %r" % path[:100])
        if words[0] == b"d":
            folders.add(path)
        yield words[0], int(words[1], 8) & 0o777, path, words[-1]


def _download(client, digest, query, folder):
    top, recent, folders = os.fsencode(folder), {}, []
    for kind, mode, path, rest in _entries(_blob(client, digest, query)):
        full = os.path.join(top, path)
        if kind == b"d":
            os.makedirs(full, exist_ok=True)
            folders.append((full, mode | 0o700))
        elif kind == b"l":
            target = urllib.parse.unquote_to_bytes(rest)
            if not _link_stays(path, target):
                raise HearthError("the manifest has a link that leads elsewhere: %r" % path[:100])
            os.symlink(target, full)
        else:
            with open(os.open(full, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode | 0o200), "wb") as f:
                for part in filter(None, rest.decode().strip("-").split(",")):
                    name, offset, size = part.split(":")
                    if name not in recent:  # small files share chunks with their neighbours
                        recent = dict(list(recent.items())[-3:], **{name: _blob(client, name, query)})
                    f.write(recent[name][int(offset) : int(offset) + int(size)])
            os.chmod(full, mode)
    for full, mode in reversed(folders):
        os.chmod(full, mode)


def submit(spec, source_dir=None, url=None, token=None, hold=False):
    """Submits a job: spec is a dict, or the path of a job.json. source_dir replaces that of the specification; one in a file
    is relative to the file's folder. Returns a Job."""
    client, base = Client(url, token), "."
    if isinstance(spec, dict):
        text = json.dumps(spec, indent=2)
    else:
        path = os.fspath(spec)
        base = os.path.dirname(path) or "."
        with open(path, encoding="utf-8") as f:
            text = f.read()
        try:
            spec = json.loads(text)
        except ValueError as e:
            raise HearthError("%s: %s" % (path, e), 400) from e
        if not isinstance(spec, dict):
            raise HearthError("%s: a specification is an object" % path, 400)
    body = {"run": {"client": "hearth.py", "cwd": os.getcwd()}}
    if source_dir is not None:
        spec = dict(spec, source_dir=os.fspath(source_dir))
        text, base = json.dumps(spec, indent=2), "."
    body["spec"] = text  # as it was written; hearthd parses it strictly
    folder = spec.get("source_dir")
    if isinstance(folder, str):
        body["bundle"] = _upload(client, os.path.join(base, folder))
    if hold:
        body["hold"] = True
    return Job(client.call("POST", "/jobs", body)["id"], client=client)


class Job:
    """A job that was submitted: by its id, or by a name or "last" as for jobctl."""

    def __init__(self, id, url=None, token=None, client=None):
        self.client = client or Client(url, token)
        if not str(id).isdigit():
            id = self.client.call("GET", "/jobs/resolve?ref=" + urllib.parse.quote(str(id), safe=""))["id"]
        self.id = int(id)

    def __repr__(self):
        return "<hearth.Job %d>" % self.id

    def _path(self, rest=""):
        return "/jobs/%d%s" % (self.id, rest)

    def show(self):
        """Everything about it, as `jobctl show --json`."""
        return self.client.call("GET", self._path())

    @property
    def status(self):
        return self.show()["status"]

    def why(self):
        """What it waits for, or why it ended, in words."""
        return self.client.call("GET", self._path("/why")).get("text")

    def stop(self, grace=None):
        """Ends it. grace: seconds between the request to end and the kill."""
        return self.client.call("POST", self._path("/stop"), {} if grace is None else {"grace_s": int(grace)})

    def wait(self, timeout=None):
        """Waits for its end; the status. TimeoutError when it takes longer than timeout seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.02
        while True:
            status = self.status
            if status in _ENDED:
                return status
            if deadline is not None and time.monotonic() + pause >= deadline:
                raise TimeoutError("job %d is still %s" % (self.id, status))
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)

    def metrics(self, name=None, rank=None, attempt=None, points=1000):
        """Without a name {name: {last, min, max, step, count, attempt, rank, ranks}}, else the series [(step, time, value),
        ...] of at most `points` (0: all); of more points the values are means of neighbours. step is None for a point without
        one; time is in seconds since 1970. Of the newest attempt and its lowest rank that have it, unless given."""
        query = {} if name is None else {"points": points}
        if rank is not None:
            query["rank"] = rank
        if attempt is not None:
            query["attempt"] = attempt
        if name is None:
            return self.client.call("GET", self._path("/metrics" + ("?" + urllib.parse.urlencode(query) if query else "")))
        path = self._path("/metrics/%s?%s" % (urllib.parse.quote(name, safe=""), urllib.parse.urlencode(query)))
        series = self.client.call("GET", path)["points"]
        return [(p[0], p[1], float(p[2])) for p in series]

    def get(self, kind="model", folder=None, attempt=None):
        """Fetches what it left ("model", "output", "checkpoint"), or its "code", into a new or empty folder (ID-KIND); of
        several nodes each into a folder of its name. attempt: the newest that left any. The folder."""
        folder = os.fspath(folder or "%d-%s" % (self.id, kind))
        if kind == "code":
            found = [{"digest": self.show().get("bundle")}]
        else:
            found = [a for a in self.client.call("GET", self._path("/artifacts"))["artifacts"] if a["kind"] == kind]
            newest = attempt or max([a["attempt"] for a in found], default=0)
            found = list({a.get("node"): a for a in found if a["attempt"] == newest}.values())
        if not any(a.get("digest") or a.get("uri") for a in found):
            raise HearthError("job %d left no %s" % (self.id, kind), 404)
        os.makedirs(folder, exist_ok=True)
        if os.listdir(folder):
            raise HearthError("%s is not empty" % folder, 409)
        for a in found:
            node = a.get("node") if len(found) > 1 else None
            to = os.path.join(folder, os.path.basename(node)) if node else folder
            os.makedirs(to, exist_ok=True)
            if a.get("digest"):
                _download(self.client, a["digest"], "job=%d&kind=%s" % (self.id, kind), to)
            elif a["uri"].startswith("file://"):
                shutil.copytree(a["uri"][7:], to, symlinks=True, dirs_exist_ok=True)
            else:
                raise HearthError("it is at %s, which hearth.py cannot fetch" % a["uri"], 501)
        return folder

    def logs(self, rank=0, follow=False, stream=None, attempt=None):
        """The lines of a log, one by one. follow: as they are written, until the job has ended, over all its attempts; a
        lost connection is taken up again at the next byte. stream: "mpirun", "setup" or "system" instead of a rank."""
        reader = _LogReader(self, stream or "rank-%d" % rank, follow, attempt)
        rest = b""
        for data in reader.pieces():
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            for line in lines:
                yield line.decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")


class _LogReader:
    """Bytes of one stream. Within an attempt they are read on by offset; then comes the next attempt."""

    QUIET_S = 30.0  # a stream without news for so long is opened anew: the other side may be gone
    PATIENCE_S = 300.0

    def __init__(self, job, stream, follow, attempt):
        self.job, self.stream, self.follow = job, stream, follow
        self.pinned, self.attempt = attempt is not None, attempt or 0
        self.offset, self.missing, self.begun, self.any, self.lost = 0, 0, False, False, None

    def _open(self):
        path = self.job._path(
            "/logs/%s?offset=%d&skip=0&follow=%d&attempt=%d"
            % (urllib.parse.quote(self.stream, safe=""), self.offset, self.follow, self.attempt)
        )
        connection, response = self.job.client.open("GET", path, timeout=self.QUIET_S)
        begins = int(response.getheader("X-Hearth-Offset") or self.offset)
        self.missing, self.offset = begins - self.offset, begins
        self.attempt = int(response.getheader("X-Hearth-Attempt") or self.attempt)
        self.begun, self.lost = True, None
        return connection, response

    def _read(self):
        """Until the end of the stream; HearthError with status 0 when the connection is lost."""
        connection, response = self._open()
        try:
            if self.missing > 0:
                yield b"\n[hearth: %d bytes are missing here: the log is longer than its limit]\n" % self.missing
            while True:
                data = response.read1(65536)
                if not data:
                    if response.isclosed() and not response.length:
                        return
                    raise HearthError("the stream broke off")
                self.offset += len(data)
                self.any = True
                yield data
        except (OSError, http.client.HTTPException) as e:
            raise HearthError("the stream broke off: %s" % e) from e
        finally:
            connection.close()

    def _try_again(self, error):
        """After an error: shall the stream be asked for again?"""
        if error.status == 404 and self.follow and not self.pinned:
            job = self.job.show()
            if not self.begun and self.attempt and job["attempt_count"] > self.attempt:
                self.attempt = job["attempt_count"]
                return True
            if job["status"] not in _ENDED:
                return True
            if self.any:
                self.follow = False
                return False
            raise error
        if error.status not in (0, 429, 502, 503):
            raise error
        if self.follow:
            with contextlib.suppress(HearthError):
                self.job.show()  # a stream that waits for its first byte is quiet, too
                self.lost = None
                return True
        now = time.monotonic()
        self.lost = self.lost or now
        if now - self.lost > (self.PATIENCE_S if self.follow else self.job.client.patience):
            raise error
        return True

    def _next_attempt(self):
        pause = 0.02
        while True:
            job = self.job.show()
            if job.get("attempt_count", 0) > self.attempt:
                return True
            if job["status"] in _ENDED:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.5)

    def pieces(self):
        pause = 0.02
        while True:
            try:
                for data in self._read():
                    pause = 0.02
                    yield data
                if not self.follow or self.pinned or not self._next_attempt():
                    return
                self.attempt += 1
                self.offset, self.begun = 0, False
            except HearthError as e:
                if not self._try_again(e):
                    return
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
