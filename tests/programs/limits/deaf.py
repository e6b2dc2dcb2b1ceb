"""Ignores every polite signal, and leaves children that do: one in a session of its own, one whose parent has died."""
import os
import signal
import time

for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(s, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        os.execv("/bin/sleep", ["sleep", "500"])  # without any mark in its environment
    os._exit(0)
if os.fork() == 0:
    time.sleep(500)
print("ready", flush=True)
time.sleep(500)
