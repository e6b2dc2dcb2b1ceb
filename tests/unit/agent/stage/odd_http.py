"""HTTP server for tests of downloads: prints its port, serves until its standard input ends.

/file            with ETag and ranges            /plain   without both
/cut/N           each answer ends after N bytes  /busy/N  503 for the first N requests
/redirect        to /file                        /loop    to itself
/ftp             to ftp://                       /nothing 404, /secret 403
/changing        another content and ETag after each POST to it
/nolength        without Content-Length          /slow    a byte every 50 ms
/log             what was asked so far
"""
import http.server
import hashlib
import sys
import threading
import time

DATA = bytes(range(256)) * 4096
TAG = '"' + hashlib.sha256(DATA).hexdigest()[:16] + '"'
asked, busy, version = [], {}, [1]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def part(self, data, tag, stop=None):
        start, code = 0, 200
        if self.headers.get("If-None-Match") == tag:
            return self.send(304, ETag=tag)
        if self.headers.get("Range") and self.headers.get("If-Range") in (None, tag):
            start, code = int(self.headers["Range"][6:-1]), 206
            if start >= len(data):
                return self.send(416)
        body = data[start:]
        self.send_response(code)
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(body)))
        if code == 206:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(data) - 1, len(data)))
        self.end_headers()
        self.wfile.write(body if stop is None else body[:stop])
        if stop is not None and stop < len(body):
            self.close_connection = True

    def do_POST(self):
        version[0] += 1
        self.send(200)

    def do_GET(self):
        path = self.path.split("?")[0]
        asked.append("%s %s" % (self.path, self.headers.get("Range", "-")))
        words = path.split("/")
        if path == "/file":
            self.part(DATA, TAG)
        elif path == "/plain":
            self.send(200, DATA)
        elif words[1] == "cut":
            self.part(DATA, TAG, int(words[2]))
        elif words[1] == "busy":
            busy[path] = busy.get(path, 0) + 1
            self.send(503) if busy[path] <= int(words[2]) else self.part(DATA, TAG)
        elif path == "/redirect":
            self.send(302, Location="/file")
        elif path == "/loop":
            self.send(302, Location="/loop")
        elif path == "/ftp":
            self.send(302, Location="ftp://127.0.0.1/x")
        elif path == "/secret":
            self.send(403)
        elif path == "/changing":
            self.part(b"version %d\n" % version[0], '"v%d"' % version[0])
        elif path == "/nolength":
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            self.wfile.write(DATA)
        elif path == "/slow":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            for _ in range(100000):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)
        elif path == "/log":
            self.send(200, "\n".join(asked).encode())
        elif words[-1] == "pack.tar.gz":
            self.part(open(sys.argv[1], "rb").read(), '"tar"')
        else:
            self.send(404)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
server.handle_error = lambda *args: None  # clients that hang up are part of it
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
