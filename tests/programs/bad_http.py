#!/usr/bin/python3
"""Malformed HTTP at a real hearthd: bad_http.py PORT PID. Prints TAP. Each case is answered with its status and the
connection is closed; none of them does anything; good requests are answered all the while."""
import json
import os
import socket
import sys
import time

port, pid = int(sys.argv[1]), int(sys.argv[2])
count = failed = 0

HOST = b"Host: localhost\r\n"
JOB = b'{"spec": {"name": "n", "command": ["/bin/true"]}}'
POST = b"POST /api/v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"


def test_name():
    """The outermost function that runs, with a colon; empty outside of functions."""
    frame, name = sys._getframe(2), ""
    while frame and frame.f_code.co_name != "<module>":
        frame, name = frame.f_back, frame.f_code.co_name + ": "
    return name


def ok(good, what):
    global count, failed
    count += 1
    failed += not good
    what = "".join(c if " " <= c <= "~" and c != "#" else "." for c in what)
    print("%s %d - %s" % ("ok" if good else "not ok", count, test_name() + what), flush=True)


def dial():
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def hear(s, seconds=20.0):
    """What comes until the other side closes: (bytes, closed)."""
    data, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        s.settimeout(max(0.01, end - time.monotonic()))
        try:
            piece = s.recv(65536)
        except socket.timeout:
            break
        except ConnectionResetError:
            return data, True
        if not piece:
            return data, True
        data += piece
    return data, False


def send(s, data):
    """All of it, or as much as is taken before the other side closes."""
    s.settimeout(20)
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def status(answer):
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() else 0


# What one mistake of a client may cost. AddressSanitizer keeps what was freed for a while.
MUCH_KIB = 400000 if os.environ.get("HEARTH_SANITIZED") else 60000


def rss_kib():
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def headers(n):
    return b"".join(b"X-%d: y\r\n" % i for i in range(n))


# name, bytes, status
CASES = [
    ("Content-Length twice, the same", POST + b"Content-Length: %d\r\n" % len(JOB) * 2 + b"\r\n" + JOB, 400),
    ("Content-Length twice, another", POST + b"Content-Length: 5\r\nContent-Length: %d\r\n\r\n" % len(JOB) + JOB, 400),
    ("Content-Length as a list", POST + b"Content-Length: 5, 5\r\n\r\nhello", 400),
    ("Content-Length +5", POST + b"Content-Length: +5\r\n\r\nhello", 400),
    ("Content-Length -1", POST + b"Content-Length: -1\r\n\r\n", 400),
    ("Content-Length 0x5", POST + b"Content-Length: 0x5\r\n\r\nhello", 400),
    ("Content-Length empty", POST + b"Content-Length:\r\n\r\n", 400),
    ("Content-Length of 30 digits", POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 413),
    ("Content-Length of 20,000 digits", POST + b"Content-Length: " + b"9" * 20000 + b"\r\n\r\n", 400),
    ("bare LF in the request line", b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400),
    ("bare LF in a header", b"GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
    ("bare LF at the end", b"GET / HTTP/1.1\r\n" + HOST + b"\n", 400),
    ("bare CR in a header", b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400),
    ("Transfer-Encoding and Content-Length", POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("Transfer-Encoding twice", POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("Transfer-Encoding gzip, chunked", POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("Transfer-Encoding identity", POST + b"Transfer-Encoding: identity\r\n\r\n", 501),
    ("Transfer-Encoding behind a tab", POST + b"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", 400),
    ("blank before the colon", POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ("Transfer-Encoding in HTTP/1.0", b"POST /api/v1/jobs HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("a folded header", b"GET / HTTP/1.1\r\nX: a\r\n b\r\n" + HOST + b"\r\n", 400),
    ("a folded first header", b"GET / HTTP/1.1\r\n X: a\r\n" + HOST + b"\r\n", 400),
    ("NUL in a value", b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", 400),
    ("NUL in a name", b"GET / HTTP/1.1\r\n" + HOST + b"X\0: a\r\n\r\n", 400),
    ("NUL in the target", b"GET /a\0b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a header without a name", b"GET / HTTP/1.1\r\n" + HOST + b": x\r\n\r\n", 400),
    ("a header without a colon", b"GET / HTTP/1.1\r\n" + HOST + b"nothing\r\n\r\n", 400),
    ("an absolute URI", b"GET http://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("an absolute URI elsewhere", b"GET https://example.net/api/v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a target without a slash", b"GET api/v1/jobs HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("OPTIONS *", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("Host twice", b"GET / HTTP/1.1\r\n" + HOST * 2 + b"\r\n", 400),
    ("a target of 20 KB", b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("a header of 70,000 bytes", b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 70000 + b"\r\n\r\n", 431),
    ("a header name of 70,000 bytes", b"GET / HTTP/1.1\r\n" + HOST + b"X" * 70000 + b": y\r\n\r\n", 431),
    ("10,000 headers", b"GET / HTTP/1.1\r\n" + HOST + headers(10000) + b"\r\n", 431),
    ("a body of 9 MB announced", POST + b"Content-Length: 9000000\r\n\r\n", 413),
    ("a body of 9 MB in chunks", POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b"x" * 0x100000 + b"\r\n") * 9, 413),
    ("a chunk of 2^64", POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 413),
    ("a chunk of -1", POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    ("a chunk without a size", POST + b"Transfer-Encoding: chunked\r\n\r\n\r\n", 400),
    ("a chunk extension", POST + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk longer than its size", POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n", 400),
    ("a trailer", POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", 400),
    ("GET with a body", b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 400),
    ("HEAD with a body", b"HEAD / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", 400),
    ("an unknown method", b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    ("CONNECT", b"CONNECT localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    ("TRACE", b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    ("PROPFIND", b"PROPFIND / HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    ("a method in small letters", b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("HTTP/0.9", b"GET /\r\n", 400),
    ("HTTP/2.0", b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    ("HTTP/1.10", b"GET / HTTP/1.10\r\n" + HOST + b"\r\n", 505),
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 501),
    ("a TLS hello on the plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)), 400),
    ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n", 400),
    ("Expect of something else", POST + b"Expect: a-pony\r\nContent-Length: 5\r\n\r\nhello", 417),
    ("a good job, then nonsense, in one piece", POST + b"Content-Length: %d\r\n\r\n" % len(JOB) + JOB + b"\x00\x01\x02 junk\r\n\r\n", 400),
    ("an empty line first", b"\r\nGET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
]


def good(what):
    s = dial()
    send(s, b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    answer, closed = hear(s)
    ok(status(answer) == 200 and closed, "%s: /healthz answers" % what)
    s.close()


def jobs():
    """How many jobs there are, asked over the socket of the owner."""
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[3])
    send(s, b"GET /api/v1/jobs HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    answer, _ = hear(s)
    body = answer.split(b"\r\n\r\n", 1)[1]
    if b"chunked" in answer.split(b"\r\n\r\n", 1)[0]:
        body = b"".join(body.split(b"\r\n")[1::2])
    return len(json.loads(body)["jobs"])


def unix_answer(data):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[3])
    send(s, data)
    return hear(s)


def table():
    for name, data, want in CASES:
        for kind in "tcp", "unix":
            if kind == "tcp":
                s = dial()
                send(s, data)
                answer, closed = hear(s)
                s.close()
            else:
                answer, closed = unix_answer(data)
            # A large request may be cut off while it is still being sent: then the answer may be lost with it.
            lost = len(data) > 65536 and not answer
            ok(closed and (lost or (status(answer) == want and b"application/problem+json" in answer)),
               "%s (%s): %d and closed, got %.60r" % (name, kind, want, answer))


def in_pieces():
    """Byte by byte the verdict is the same."""
    lost = n = 0
    for name, data, want in CASES:
        if len(data) > 400:
            continue
        s = dial()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            try:
                s.send(data[i:i + 1])
            except (BrokenPipeError, ConnectionResetError):
                break
        answer, closed = hear(s)
        s.close()
        n += 1
        # Refused at the first byte that cannot stand; what was sent behind it may reset the connection.
        lost += not answer
        allowed = [want]
        if name.startswith("a good job"):
            allowed.append(401)  # a stranger's, answered before the rest came
        ok(closed and (not answer or status(answer) in allowed), "%s, byte by byte: %d, got %.40r" % (name, want, answer))
    ok(lost < n / 3, "%d of %d answers were lost in a reset" % (lost, n))


def slow():
    """Headers and bodies that never end, from many at once: cut off within their time, others served meanwhile."""
    before = rss_kib()
    lame = []
    for i in range(60):
        s = dial()
        if i % 3 == 0:
            send(s, b"GET / HTTP/1.1\r\n")
        elif i % 3 == 1:
            send(s, b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 60000)
        else:
            send(s, b"G")
        lame.append(s)
    good("60 slow clients")
    # One byte every half second: the time counts from the first byte, not from the last.
    end, closed = time.monotonic() + 25, 0
    pending = list(lame)
    while pending and time.monotonic() < end:
        for s in list(pending):
            try:
                s.send(b"x")
            except OSError:
                pending.remove(s)
                closed += 1
                continue
            s.settimeout(0.001)
            try:
                if not s.recv(65536):
                    raise OSError
            except socket.timeout:
                pass
            except OSError:
                pending.remove(s)
                closed += 1
        time.sleep(0.5 if pending else 0)
    ok(not pending, "%d of 60 that drip a byte at a time are cut off" % closed)
    grown = rss_kib() - before
    ok(grown < MUCH_KIB, "they cost %d KiB" % grown)


def pipeline():
    s = dial()
    send(s, (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") * 20)
    answer, _ = hear(s, 3)
    ok(answer.count(b"HTTP/1.1 200") == 20, "20 requests in one piece: 20 answers")
    send(s, b"PATCH /api/v1/jobs/1 HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n{}")
    answer, _ = hear(s, 3)
    ok(status(answer) in (401, 403, 404), "PATCH is known: %.30r" % answer)
    s.close()
    before = rss_kib()
    s = dial()
    s.settimeout(5)
    sent = 0
    try:
        while sent < 50000000:
            sent += s.send((b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") * 1000)
    except OSError:
        pass
    ok(rss_kib() - before < MUCH_KIB, "a pipeline whose answers nobody reads: %d bytes taken, %d KiB more" % (sent, rss_kib() - before))
    s.close()


good("before")
table()
in_pieces()
good("after the table")
pipeline()
slow()
good("in the end")
ok(jobs() == 0, "none of it made a job")
print("1..%d" % count)
sys.exit(failed != 0)
