"""Tests of examples/hearth.py, as TAP. The digests are compared with those of jobctl (jobctl_tool)."""

import http.server
import json
import math
import os
import random
import shutil
import socket
import socketserver
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["HEARTH_TOP_SRCDIR"], "examples"))
import hearth  # noqa: E402

TOOL = os.path.join(os.environ["HEARTH_TOP_BUILDDIR"], "tests/unit/jobctl/jobctl_tool")


class Case(unittest.TestCase):
    """A private folder, and an environment that knows nothing of any cluster."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hearth-py-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        old = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(old)))
        for name in list(os.environ):
            if name.startswith(("HEARTH_", "XDG_", "MASTER_", "RANK")):
                del os.environ[name]
        os.environ["HOME"] = self.dir
        cwd = os.getcwd()
        self.addCleanup(os.chdir, cwd)
        os.chdir(self.dir)

    def write(self, path, data=b"x", mode=None):
        path = os.path.join(os.fsencode(self.dir), os.fsencode(path))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        if mode is not None:
            os.chmod(path, mode)
        return os.fsdecode(path)


class Metrics(Case):
    def open_file(self, flags=os.O_APPEND):
        fd = os.open(os.path.join(self.dir, "m"), os.O_WRONLY | os.O_CREAT | flags, 0o600)
        self.addCleanup(os.close, fd)
        os.environ["HEARTH_METRICS_FD"] = str(fd)
        return os.path.join(self.dir, "m")

    def test_lines(self):
        path = self.open_file()
        self.assertTrue(hearth.log(step=3, loss=0.5, acc=True))
        self.assertTrue(hearth.log(loss=float("nan"), top=float("inf")))

        class Tensor:
            def __float__(self):
                return 2.0

        self.assertTrue(hearth.log(4, loss=Tensor()))
        lines = [json.loads(line) for line in open_text(path).splitlines()]
        self.assertEqual(lines[0], {"step": 3, "loss": 0.5, "acc": 1.0})
        self.assertTrue(math.isnan(lines[1]["loss"]) and math.isinf(lines[1]["top"]) and "step" not in lines[1])
        self.assertEqual(lines[2], {"step": 4, "loss": 2.0})
        with self.assertRaises((TypeError, ValueError)):
            hearth.log(loss="much")

    def test_outside(self):
        self.assertFalse(hearth.log(step=1, loss=1))
        for value in ("", "x", "-1", "9999"):
            os.environ["HEARTH_METRICS_FD"] = value
            self.assertFalse(hearth.log(loss=1))

    def test_foreign_descriptor(self):
        path = self.open_file(flags=0)  # whatever that is, it is not the file that Hearth opened
        self.assertFalse(hearth.log(loss=1))
        self.assertEqual(open_text(path), "")

    def test_full_disk(self):
        fd = os.open("/dev/full", os.O_WRONLY | os.O_APPEND)
        self.addCleanup(os.close, fd)
        os.environ["HEARTH_METRICS_FD"] = str(fd)
        self.assertFalse(hearth.log(loss=1))


def open_text(path):
    with open(path) as f:
        return f.read()


class Checkpoints(Case):
    def setUp(self):
        super().setUp()
        self.top = os.path.join(self.dir, "ckpt")
        os.environ["HEARTH_CHECKPOINT_DIR"] = self.top

    def write_model(self, folder):
        with open(os.path.join(folder, "model.pt"), "w") as f:
            f.write("weights")

    def test_function(self):
        os.environ.update(HEARTH_JOB="17", HEARTH_ATTEMPT="2")
        path = hearth.commit_checkpoint(self.write_model, 120, loss=0.25)
        self.assertEqual(path, os.path.join(self.top, "step-120"))
        manifest = json.loads(open_text(os.path.join(path, "hearth.json")))
        self.assertEqual((manifest["step"], manifest["loss"], manifest["job"], manifest["attempt"]), (120, 0.25, 17, 2))
        self.assertEqual(manifest["files"]["model.pt"]["size"], 7)
        self.assertEqual(len(manifest["files"]["model.pt"]["sha256"]), 64)
        self.assertEqual(os.listdir(self.top), ["step-120"])

    def test_path(self):
        path = hearth.commit_checkpoint(self.write("model.bin", b"abc"), 1)
        self.assertEqual(sorted(os.listdir(path)), ["hearth.json", "model.bin"])
        self.write("out/a/b", b"1")
        path = hearth.commit_checkpoint("out", 2)
        self.assertTrue(os.path.isfile(os.path.join(path, "a/b")))
        self.assertFalse(os.path.exists("out"))
        # what was written in the right place already
        self.write("ckpt/step-3/w", b"1")
        path = hearth.commit_checkpoint(os.path.join(self.top, "step-3"), 3)
        self.assertEqual(sorted(os.listdir(path)), ["hearth.json", "w"])

    def test_again(self):
        hearth.commit_checkpoint(self.write_model, 5)
        hearth.commit_checkpoint(lambda d: self.write(os.path.join(d, "other"), b"2"), 5)
        self.assertEqual(sorted(os.listdir(os.path.join(self.top, "step-5"))), ["hearth.json", "other"])
        self.assertEqual(os.listdir(self.top), ["step-5"])

    def test_failure(self):
        def fails(folder):
            self.write_model(folder)
            raise RuntimeError("disk")

        with self.assertRaises(RuntimeError):
            hearth.commit_checkpoint(fails, 7)
        with self.assertRaises(ValueError):
            hearth.commit_checkpoint(lambda folder: None, 7)
        with self.assertRaises(OSError):
            hearth.commit_checkpoint("nothing-there", 7)
        self.assertEqual(os.listdir(self.top), [])
        self.assertIsNone(hearth.resume())

    def test_failure_gives_back(self):
        self.write("out/a", b"1")
        for source, what in (("out", "out/a"), (self.write("one.bin"), "one.bin")):
            with self.assertRaises(TypeError):
                hearth.commit_checkpoint(source, 7, bad=object())
            self.assertTrue(os.path.exists(what), "what was moved is where it was")
        self.assertEqual(os.listdir(self.top), [])

    def test_resume_outside(self):
        for step in (9, 10, 2):
            hearth.commit_checkpoint(self.write_model, step)
        os.makedirs(os.path.join(self.top, "step-99"))  # without a manifest: not complete
        os.makedirs(os.path.join(self.top, ".writing-step-100-x"))
        self.assertEqual(hearth.resume(), (os.path.join(self.top, "step-10"), 10))
        os.environ["HEARTH_JOB"] = "1"
        self.assertIsNone(hearth.resume())  # inside a job Hearth decides

    def test_resume_inside(self):
        os.environ["HEARTH_JOB"] = "1"
        for step in (9, 10):
            hearth.commit_checkpoint(self.write_model, step)
        os.environ["HEARTH_RESUME_FROM"] = self.top
        self.assertEqual(hearth.resume(), (os.path.join(self.top, "step-10"), 10))
        os.environ["HEARTH_RESUME_STEP"] = "9"
        self.assertEqual(hearth.resume(), (os.path.join(self.top, "step-9"), 9))
        os.environ["HEARTH_RESUME_FROM"] = os.path.join(self.top, "step-9")
        del os.environ["HEARTH_RESUME_STEP"]
        self.assertEqual(hearth.resume(), (os.path.join(self.top, "step-9"), 9))
        other = self.write("epoch3-iter450/model.pt")
        os.environ["HEARTH_RESUME_FROM"] = os.path.dirname(other)
        self.assertEqual(hearth.resume(), (os.path.dirname(other), 450))
        os.environ["HEARTH_RESUME_STEP"] = "7"
        self.assertEqual(hearth.resume(), (os.path.dirname(other), 7))

    def test_resume_folder(self):
        os.environ["HEARTH_JOB"] = "1"
        os.environ["HEARTH_RESUME_FROM"] = self.top
        os.makedirs(os.path.join(self.top, ".writing-step-3-x"))
        self.assertIsNone(hearth.resume())  # what was left is no checkpoint yet
        foreign = os.path.join(self.top, "zero_to_fp32.py")
        with open(foreign, "w") as f:
            f.write("x")
        self.assertEqual(hearth.resume(), (self.top, None))
        for step in (9, 10):
            hearth.commit_checkpoint(self.write_model, step)
        self.assertEqual(hearth.resume(), (os.path.join(self.top, "step-10"), 10))

    def test_folder(self):
        self.assertEqual(hearth.checkpoint_dir(), self.top)
        self.assertTrue(os.path.isdir(self.top))
        del os.environ["HEARTH_CHECKPOINT_DIR"]
        self.assertEqual(hearth.checkpoint_dir(), os.path.join(os.path.realpath(self.dir), "checkpoints"))


class Steps(Case):
    def test_skip(self):
        self.assertEqual(hearth.skip_steps(), [])
        self.assertFalse(hearth.should_skip(0))
        os.environ["HEARTH_SKIP_STEPS"] = "10-20,30-30"
        self.assertEqual(hearth.skip_steps(), [(10, 20), (30, 30)])
        self.assertEqual([s for s in range(40) if hearth.should_skip(s)], list(range(10, 21)) + [30])

    def test_master(self):
        hearth.wait_for_master(0)  # no MASTER_ADDR
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1]), RANK="1")
            with self.assertRaises(TimeoutError):
                hearth.wait_for_master(0.1)
            os.environ["RANK"] = "0"
            hearth.wait_for_master(0)
            os.environ["RANK"] = "1"
            timer = threading.Timer(0.05, s.listen)
            timer.start()
            hearth.wait_for_master(30)
            timer.join()


class Tree(Case):
    def same(self, folder="t"):
        folder = os.path.join(self.dir, folder)
        chunks = {}
        digest, manifest = hearth.scan_tree(folder, lambda d, data: chunks.setdefault(d, len(data)))
        done = subprocess.run([TOOL, "scan", folder], stdout=subprocess.PIPE, check=True)
        self.assertEqual(manifest + b"digest: " + digest.encode() + b"\n", done.stdout)
        self.assertTrue(all(n <= hearth.CHUNK_MAX for n in chunks.values()))
        named = {p.split(b":")[0].decode() for line in manifest.split(b"\n") if line[:1] == b"f" and line[-1:] != b"-" for p in line.split(b" ")[-1].split(b",")}
        self.assertEqual(named, set(chunks))
        return manifest

    def test_empty(self):
        os.mkdir("t")
        self.assertEqual(self.same(), b"hearth-tree 1\n")

    def test_sizes(self):
        r = random.Random(1)
        for size in (0, 1, 4096, 262143, 262144, 262145, 4194303, 4194304, 4194305, 9000000):
            self.write("t/f%d" % size, r.getrandbits(8 * size).to_bytes(size, "little") if size else b"")
        self.write("t/twin", b"same" * 100000)
        self.write("t/twin2", b"same" * 100000)
        self.same()

    def test_names(self):
        for name in (b"a b", b"a%b", b"a\nb", b"\x7f", b"\xff\xfe", "ä/ö".encode(), b"x-1", b"x/y", b"x.y", b"a" * 255, b"tab\t", b"-", b"d/.hidden"):
            self.write(b"t/" + name, name)
        os.mkdir("t/empty")
        self.write("t/run.sh", b"#!/bin/sh\n", 0o755)
        self.write("t/secret", b"s", 0o600)
        os.chmod("t/empty", 0o700)
        self.same()

    def test_links(self):
        self.write("t/a/b/f")
        for name, target in (
            ("ok", "a/b/f"), ("a/b/up", "../../ok"), ("a/b/far", "../../../out"), ("abs", "/etc/passwd"), ("a/zig", "b/../b/f"), ("dot", "./a"),
            ("dangling", "nothing"), ("self", "self"), ("a/b/two", "../.."), ("sp", "a b%"), ("slash", "a//b/"), ("up", ".."),
        ):
            os.symlink(target, os.path.join("t", name))
        os.mkfifo("t/fifo")
        manifest = self.same()
        self.assertNotIn(b"passwd", manifest)
        self.assertNotIn(b"fifo", manifest)

    def test_ignored(self):
        for name in (".git/config", "a.pyc", "__pycache__/x", "keep.log", "b.log", "data/x", "x/data/y", "build/x", "x/build/y", "sub/.git", "a/one.c", "a/b/two.c", "q[1].txt"):
            self.write("t/" + name)
        self.write("t/.hearthignore", b"# c\n*.log\r\n!keep.log\ndata/ \n/build\na/*.c\n\n!\n/\nq[[]1].txt\n")
        manifest = self.same()
        kept = [line.split(b" ")[-2] for line in manifest.split(b"\n") if line[:2] == b"f "]
        self.assertEqual(kept, [b".hearthignore", b"a/b/two.c", b"keep.log", b"x/build/y"])

    def test_random(self):
        for seed in range(12):
            r = random.Random(seed)
            shutil.rmtree("t", ignore_errors=True)
            os.mkdir("t")
            folders = [b"t"]
            for _ in range(r.randrange(20, 250)):
                path = r.choice(folders) + b"/" + bytes(r.choice(b"abcdef.-_ %AZ019\xc3\xa4") for _ in range(r.randrange(1, 9)))
                name = path.rsplit(b"/", 1)[1]
                if os.path.lexists(path) or name in (b".", b".."):
                    continue
                kind = r.random()
                if kind < 0.2:
                    os.mkdir(path)
                    folders.append(path)
                elif kind < 0.25:
                    os.symlink(r.choice((b"..", b"x", b"../x", b"a/../b", b"/x", b"../../..")), path)
                else:
                    with open(path, "wb") as f:
                        f.write(bytes([r.randrange(256)]) * r.choice((0, 1, 100, 5000, 70000, 262144, 300000)))
            with open("t/.hearthignore", "wb") as f:
                f.write(b"\n".join(bytes(r.choice(b"*?abc./!-") for _ in range(r.randrange(1, 5))) for _ in range(3)))
            with self.subTest(seed=seed):
                self.same()

    def test_patterns(self):
        patterns = ["*", "?", "*.pt", "a*b", "[ab]c", "[!ab]c", "[^ab]c", "[a-c]", "[]a]", "[!]a]", "[", "[a", "\\*", "\\[a]", "a\\", "a/b", "/a", "/a*", "a/*", "*/b",
                    "a/?", "a[/]b", "a/[!x]", "data/", "a/b/", "**", "a/**", "?b", "*b*", ".*", "[a\\]b]", "[[:digit:]]", "[![:alpha:]]", "[\\a-\\c]", "[c-a]", "[a-", "[\\", "é", "a?", "[.]x", "[a-]", "[-a]"]  # fmt: skip
        paths = ["a", "b", "ab", "c", "ac", "bc", "cc", "a/b", "a/b/c", "x.pt", "x/y.pt", ".x", "a/.x", "*", "[", "[a", "[a]", "]", "é", "aé", "data", "x/data", "-", "^", "\\", "a\\", "]c", "7"]
        for pattern in patterns:
            top = os.path.join(self.dir, "p")
            self.write("p/.hearthignore", pattern.encode())
            ignore = hearth._Ignore(os.fsencode(top))
            self.assertEqual(len(ignore.patterns), 4, pattern)
            ignore.patterns = ignore.patterns[3:]
            for path in paths:
                for is_dir in (0, 1):
                    want = subprocess.run([TOOL, "match", pattern, path, str(is_dir)], stdout=subprocess.PIPE, check=True).stdout.strip()
                    self.assertEqual(ignore.skips(path.encode(), bool(is_dir)), want == b"1", (pattern, path, is_dir))

    def test_errors(self):
        with self.assertRaises(OSError):
            hearth.scan_tree("nothing")
        self.write("t/.hearthignore", b"x" * 512)
        with self.assertRaises(hearth.HearthError):
            hearth.scan_tree("t")


class Server:
    """answer(method, path, headers, body) -> (status, object or bytes[, headers]); bytes are sent as a stream. ... in the list of
    pieces ends the connection there; None instead of a tuple ends it without an answer."""

    def __init__(self, answer, unix_path=None):
        self.seen = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append((self.command, self.path, dict(self.headers), body))
                got = answer(self.command, self.path, self.headers, body)
                if got is None:
                    self.close_connection = True
                    return
                self.send_response(got[0])
                for name, value in (got[2] if len(got) > 2 else {}).items():
                    self.send_header(name, value)
                if isinstance(got[1], list):
                    self.pieces(got[1])
                    return
                data = got[1] if isinstance(got[1], bytes) else b"" if got[1] is None else json.dumps(got[1]).encode()
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def pieces(self, pieces):
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in pieces:
                    if piece is ...:
                        self.wfile.flush()
                        self.close_connection = True
                        return
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, *args):
                pass

            def address_string(self):
                return "test"

        class Unix(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Unix(unix_path, Handler) if unix_path else http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "unix://" + unix_path if unix_path else "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Api(Case):
    def serve(self, answer, **kw):
        server = Server(answer, **kw)
        self.addCleanup(server.close)
        return server

    def cluster(self):
        """A controller that keeps blobs and jobs."""
        self.blobs, self.jobs = {}, []

        def answer(method, path, headers, body):
            if path == "/api/v1/blobs/missing":
                return 200, {"missing": [d for d in json.loads(body)["digests"] if d not in self.blobs]}
            if method == "PUT":
                digest, query = path[len("/api/v1/blobs/") :].split("?")
                offset = int(query.split("&")[0][7:])
                self.blobs[digest] = self.blobs.get(digest, b"")[:offset] + body
                return 201, {"complete": True}
            if method == "POST" and path == "/api/v1/jobs":
                self.jobs.append(json.loads(body))
                return 200, {"id": len(self.jobs)}
            return 404, {"detail": "nothing here"}

        return answer

    def check_submit(self, server):
        self.write("src/train.py", b"print(1)")
        self.write("src/big", os.urandom(300000))
        spec = self.write("job.json", b'{"name": "x", "command": ["true"], "source_dir": "src"}')
        job = hearth.submit(spec, url=server.url, token="t")
        self.assertEqual(job.id, 1)
        self.assertEqual(self.jobs[0]["spec"], open_text(spec))
        digest, manifest = hearth.scan_tree("src")
        self.assertEqual(self.jobs[0]["bundle"], digest)
        self.assertEqual(self.blobs[digest], manifest)
        self.assertEqual(len(self.blobs), 3)
        before = len(server.seen)
        job = hearth.submit({"command": ["true"]}, source_dir="src", url=server.url, token="t", hold=True)
        self.assertEqual([s[0] for s in server.seen[before:]], ["POST", "POST"])  # nothing is sent twice
        self.assertEqual(json.loads(self.jobs[1]["spec"])["source_dir"], "src")
        self.assertTrue(self.jobs[1]["hold"])
        self.assertTrue(all(s[2]["Authorization"] == "Bearer t" for s in server.seen))

    def test_submit(self):
        self.check_submit(self.serve(self.cluster()))

    def artifacts(self, manifest=None):
        """A controller with a tree; (Job, digest of the tree)."""
        blobs, arts = {}, []
        digest, made = hearth.scan_tree("src", lambda d, data: blobs.__setitem__(d, data))
        if manifest is not None:
            made = manifest
            digest = hearth.hashlib.sha256(made).hexdigest()
        blobs[digest] = made

        def answer(method, path, headers, body):
            path = path[len("/api/v1") :]
            if path == "/jobs/3/artifacts":
                return 200, {"artifacts": arts}
            if path == "/jobs/3":
                return 200, {"id": 3, "bundle": digest}
            name, _, query = path[len("/blobs/") :].partition("?")
            if path.startswith("/blobs/") and query.startswith("job=3&kind=") and name in blobs:
                return 200, blobs[name]
            return 404, {"detail": "nothing here"}

        self.arts, self.kept = arts, blobs
        return hearth.Job(3, url=self.serve(answer).url), digest

    def test_get(self):
        self.write("src/deep/er/a b%.txt", b"small", 0o640)
        self.write("src/empty", b"")
        self.write("src/big", os.urandom(9 << 20), 0o755)
        os.symlink("deep/er", "src/link")
        os.chmod("src/deep", 0o500)
        self.addCleanup(os.chmod, os.path.join(self.dir, "src/deep"), 0o755)
        job, digest = self.artifacts()
        with self.assertRaisesRegex(hearth.HearthError, "job 3 left no model"):
            job.get()
        self.arts += [{"kind": "model", "attempt": 1, "node": "n1", "digest": "0" * 64}, {"kind": "model", "attempt": 2, "node": "n1", "digest": "0" * 64},
                      {"kind": "model", "attempt": 2, "node": "n1", "digest": digest}, {"kind": "output", "attempt": 2, "node": "n1", "digest": digest}]  # fmt: skip
        self.assertEqual(job.get(), "3-model")
        self.assertEqual(hearth.scan_tree("3-model")[1], hearth.scan_tree("src")[1].replace(b"d 500 deep", b"d 700 deep"))
        with self.assertRaisesRegex(hearth.HearthError, "not empty"):
            job.get()
        self.assertEqual(job.get("code", "c"), "c")
        self.assertEqual(open_text("c/link/a b%.txt"), "small")
        self.arts += [{"kind": "output", "attempt": 2, "node": "n2", "digest": None, "uri": "file://" + os.path.join(self.dir, "src/deep")}]
        job.get("output", "o")
        self.assertEqual((sorted(os.listdir("o")), open_text("o/n2/er/a b%.txt")), (["n1", "n2"], "small"))

    def test_get_refused(self):
        self.write("src/a", b"x")
        for line in (b"f 644 0 ../a -", b"f 644 0 /a -", b"f 644 0 no/a -", b"d 755 .", b"l 777 x ../y", b"l 777 x /y", b"l 777 x .\nf 644 0 x/a -", b"f 644 0 %2E%2E/a -", b"x"):
            job, digest = self.artifacts(b"hearth-tree 1\n" + line + b"\n")
            self.arts.append({"kind": "model", "attempt": 1, "node": "n1", "digest": digest})
            shutil.rmtree("m", ignore_errors=True)
            with self.assertRaises(hearth.HearthError, msg=line):
                job.get("model", "m")
        job, digest = self.artifacts()
        self.arts.append({"kind": "model", "attempt": 1, "node": "n1", "digest": digest})
        self.kept[digest] += b" "
        with self.assertRaisesRegex(hearth.HearthError, "other bytes"):
            job.get("model", "n")

    def test_unix(self):
        self.check_submit(self.serve(self.cluster(), unix_path=os.path.join(self.dir, "s")))

    def test_submit_errors(self):
        server = self.serve(self.cluster())
        with self.assertRaisesRegex(hearth.HearthError, "source_dir: ./no is not a directory"):
            hearth.submit({"command": ["x"], "source_dir": "no"}, url=server.url)
        with self.assertRaisesRegex(hearth.HearthError, "job.json: Expecting"):
            hearth.submit(self.write("job.json", b"{"), url=server.url)
        with self.assertRaises(FileNotFoundError):
            hearth.submit("nothing.json", url=server.url)
        with self.assertRaisesRegex(hearth.HearthError, "expected http"):
            hearth.submit({}, url="ftp://x")

    def test_problem(self):
        server = self.serve(lambda *a: (404, {"title": "Not found", "detail": "there is no job 9", "hint": "try ls"}))
        with self.assertRaises(hearth.HearthError) as caught:
            hearth.Job(9, url=server.url).show()
        self.assertEqual(str(caught.exception), "there is no job 9\ntry ls")
        self.assertEqual(caught.exception.status, 404)
        self.assertEqual(len(server.seen), 1)

    def test_again(self):
        def answer(method, path, headers, body):
            n = len(server.seen)
            return None if n == 1 else (503, {"detail": "busy"}) if n == 2 else (200, {"id": 3})

        server = self.serve(answer)
        self.assertEqual(hearth.Client(server.url).call("POST", "/jobs", {})["id"], 3)
        keys = {s[2]["Idempotency-Key"] for s in server.seen}
        self.assertEqual((len(server.seen), len(keys)), (3, 1))

    def test_no_controller(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            client = hearth.Client("http://127.0.0.1:%d" % s.getsockname()[1], patience=0.2)
            with self.assertRaisesRegex(hearth.HearthError, "no controller at") as caught:
                client.call("GET", "/x")
            self.assertEqual(caught.exception.status, 0)

    def test_config(self):
        def found(url=None, token=None):
            return hearth._find_controller(url, token)

        self.assertEqual(found(), ("http://127.0.0.1:7070", None, None))
        self.write(".config/hearth/config", b"# c\nurl = https://a:1/\ntoken=file\nca = /x\n")
        self.assertEqual(found(), ("https://a:1/", "file", "/x"))
        self.assertEqual(found("https://a:1")[:2], ("https://a:1", "file"))
        self.assertEqual(found("https://b:1")[:2], ("https://b:1", None))
        self.assertEqual(found("https://b:1", "mine")[:2], ("https://b:1", "mine"))
        os.environ["HEARTH_URL"] = "https://c:1"
        self.assertEqual(found()[:2], ("https://c:1", None))
        os.environ["HEARTH_TOKEN"] = "env"
        self.assertEqual(found()[:2], ("https://c:1", "env"))
        self.assertEqual(found("https://b:1")[:2], ("https://b:1", None))
        del os.environ["HEARTH_URL"]
        self.assertEqual(found("https://b:1")[:2], ("https://b:1", "env"))
        os.unlink(".config/hearth/config")
        sock = self.write(".local/share/hearth/local/hearthd/hearthd.sock")
        self.assertEqual(found()[0], "unix://" + sock)

    def test_job(self):
        states = iter(["queued", "running", "running", "completed", "completed"])

        def answer(method, path, headers, body):
            if path.startswith("/api/v1/jobs/resolve"):
                return 200, {"id": 5}
            if path == "/api/v1/jobs/5":
                return 200, {"id": 5, "status": next(states, "completed"), "attempt_count": 1}
            if path == "/api/v1/jobs/5/why":
                return 200, {"text": "waits for GPUs"}
            if path == "/api/v1/jobs/5/stop":
                return 200, json.loads(body)
            if path == "/api/v1/jobs/5/metrics":
                return 200, {"loss": {"last": 1}}
            if path.startswith("/api/v1/jobs/5/metrics/loss%2Fval?"):
                return 200, {"points": [[1, 2.5, 0.5], [None, 3.5, "nan"], [3, 4.5, "inf", 1, 2]]}
            return 404, {"detail": path}

        server = self.serve(answer)
        job = hearth.Job("my job", url=server.url)
        self.assertEqual(job.id, 5)
        self.assertEqual(server.seen[0][1], "/api/v1/jobs/resolve?ref=my%20job")
        self.assertEqual(job.status, "queued")
        with self.assertRaises(TimeoutError):
            job.wait(0)
        self.assertEqual(job.wait(30), "completed")
        self.assertEqual(job.why(), "waits for GPUs")
        self.assertEqual(job.stop(grace=3), {"grace_s": 3})
        self.assertEqual(job.metrics(), {"loss": {"last": 1}})
        points = job.metrics("loss/val", rank=1, points=0)
        self.assertIn("points=0&rank=1", server.seen[-1][1])
        self.assertEqual(points[0], (1, 2.5, 0.5))
        self.assertTrue(points[1][0] is None and math.isnan(points[1][2]) and math.isinf(points[2][2]))

    def test_logs(self):
        """Two attempts; the connection breaks in the middle of a line, and once before the answer."""
        first, second = "one\ntwo ä\nthr".encode(), b"four\nfive"
        state = {"broke": 0, "attempts": 1, "asked": 0}

        def answer(method, path, headers, body):
            if path == "/api/v1/jobs/5":
                state["asked"] += 1
                if state["asked"] > 3:
                    state["attempts"] = 2
                ended = state["attempts"] == 2 and state["asked"] > 6
                return 200, {"status": "completed" if ended else "running", "attempt_count": state["attempts"]}
            query = dict(p.split("=") for p in path.split("?")[1].split("&"))
            offset, attempt = int(query["offset"]), int(query["attempt"]) or 1
            data = (first if attempt == 1 else second)[offset:]
            headers = {"X-Hearth-Offset": str(offset), "X-Hearth-Attempt": str(attempt)}
            state["broke"] += 1
            if state["broke"] == 1:
                return 404, {"detail": "not yet"}
            if state["broke"] == 2:
                return 200, [data[:9], ...], headers
            if state["broke"] == 3:
                return None
            return 200, [data] if data else [], headers

        server = self.serve(answer)
        lines = list(hearth.Job(5, url=server.url).logs(follow=True))
        self.assertEqual(lines, ["one", "two ä", "thrfour", "five"])

    def test_logs_end(self):
        def answer(method, path, headers, body):
            if path == "/api/v1/jobs/5":
                return 200, {"status": "failed", "attempt_count": 1}
            if "rank-3" in path:
                return 200, [b"a\n", b"b"], {"X-Hearth-Attempt": "1", "X-Hearth-Offset": "0"}
            return 404, {"detail": "no stream"}

        server = self.serve(answer)
        job = hearth.Job(5, url=server.url)
        self.assertEqual(list(job.logs(rank=3)), ["a", "b"])
        self.assertEqual(list(job.logs(rank=3, follow=True)), ["a", "b"])
        self.assertIn("/logs/rank-3?offset=0&skip=0&follow=1&attempt=0", server.seen[-2][1])
        for follow in (False, True):
            with self.assertRaisesRegex(hearth.HearthError, "no stream"):
                list(job.logs(stream="setup", follow=follow))


class Tap(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.bad = None

    def addError(self, test, err):
        self.bad = self._exc_info_to_string(err, test)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err:
            self.bad = "%s\n%s" % (subtest, self._exc_info_to_string(err, test))

    def stopTest(self, test):
        print("%s %d - %s" % ("not ok" if self.bad else "ok", self.testsRun, test.id().split(".", 1)[1]))
        if self.bad:
            self.failures.append(test)
            print("".join("# %s\n" % line for line in self.bad.splitlines()), end="")
        sys.stdout.flush()


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = Tap()
    suite.run(result)
    print("1..%d" % result.testsRun)
    sys.exit(1 if result.failures else 0)
