"""The part of a shim that a waiting interpreter (hearth-park) meets: a socket, a frame, an answer."""
import os
import socket
import struct
import subprocess


def frame(argv, env, cwd):
    """The frame of SHIM_START, as agent/stubs/park.py describes it."""
    def words(texts):
        texts = [os.fsencode(text) for text in texts]
        return struct.pack(">I", len(texts)) + b"".join(struct.pack(">I", len(text)) + text for text in texts)

    rest = words(argv) + words("%s=%s" % pair for pair in env.items()) + words([cwd])
    return struct.pack(">I", len(rest)) + rest


class Parked:
    """An interpreter that waits. said: its first line; process: its Popen."""

    def __init__(self, park, python, modules=(), options=(), env=None, cwd="/", **popen):
        ours, theirs = socket.socketpair()
        ours.settimeout(60)
        env = dict(os.environ if env is None else env, HEARTH_PARK_FD=str(theirs.fileno()))
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        self.process = subprocess.Popen([python, *options, park, *modules], env=env, cwd=cwd,
                                        pass_fds=[theirs.fileno()], **popen)
        theirs.close()
        self.link = ours
        self.said = self.line()

    def line(self):
        data = b""
        while not data.endswith(b"\n"):
            part = self.link.recv(1)
            if not part:
                break
            data += part
        return data

    def go(self, argv, env=None, cwd=None):
        """Sends the frame; returns "g", or the line that begins with "c" or "bad"."""
        if self.said != b"ready\n":
            return self.said
        data = frame(argv, os.environ if env is None else env, os.getcwd() if cwd is None else cwd)
        self.link.sendall(data)
        answer = self.link.recv(1)
        if answer not in (b"g", b""):
            answer += self.line()
        return answer

    def end(self, data=None, timeout=60):
        """Waits for its end; returns its exit status, stdout and stderr."""
        out, err = self.process.communicate(data, timeout)
        self.link.close()
        return self.process.returncode, out, err

    def drop(self):
        self.process.kill()
        self.end()
