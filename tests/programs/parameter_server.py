"""Shaped like a parameter-server job: finds its role in TF_CONFIG; workers send numbers to the one server over TCP, the chief asks for the sum."""
import json
import os
import socket
import time

config = json.loads(os.environ["TF_CONFIG"])
role, index = config["task"]["type"], config["task"]["index"]
cluster = config["cluster"]
server = cluster["ps"][0].rsplit(":", 1)
print(f"{role}:{index} of {json.dumps({k: len(v) for k, v in cluster.items()}, sort_keys=True)}", flush=True)


def say(text):
    end = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection((server[0], int(server[1])), 2) as s:
                s.sendall(text.encode() + b"\n")
                return s.makefile().readline().strip()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


if role == "ps":
    workers, total, seen = len(cluster["worker"]), 0, 0
    with socket.create_server(("", int(server[1]))) as listener:
        done = False
        while not done:
            connection, _ = listener.accept()
            with connection:
                word = connection.makefile().readline().split()
                if word[0] == "add":
                    total, seen = total + int(word[1]), seen + 1
                    connection.sendall(b"ok\n")
                else:
                    connection.sendall(f"{total if seen == workers else 'wait'}\n".encode())
                    done = seen == workers
elif role == "worker":
    say(f"add {index + 1}")
else:
    end = time.monotonic() + 60
    while (answer := say("sum?")) == "wait" and time.monotonic() < end:
        time.sleep(0.02)
    print(f"sum={answer}", flush=True)
