#!/bin/bash
# A job lays traps for the next ones on its node: files in each place that Hearth gives it, shared memory, queues, a port, a daemon that hides, a
# umask, its token. The next job of its warm pool and one of another account find none; the first gets the pool's cache folder, the other does not.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
command -v ipcmk >/dev/null || skip_all "ipcmk is missing"
cluster_up 1 && cluster_hearth --slots 4 --min-uid 1 || bail "no cluster"
mkdir -m 0755 "$CLUSTER/src"
cat >"$CLUSTER/src/lay.py" <<'END'
import ctypes, os, socket, subprocess, sys, time
os.umask(0)
# All that its account may write to, however it came about.
found = subprocess.run(["find", "/", "-maxdepth", "5", "(", "-path", "/proc", "-o", "-path", "/sys", ")", "-prune", "-o", "-type", "d", "-writable", "-print"],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split("\n")
for place in ["/tmp", "/var/tmp", "/dev/shm", os.environ["TMPDIR"], "/opt/ml", os.environ["HEARTH_WARM_CACHE"]] + [p for p in found if p]:
    for folder, _, _ in list(os.walk(place)):
        try:
            open(folder + "/hearth-trap", "w").write(os.environ["HEARTH_TOKEN"])
        except OSError:
            pass
subprocess.run(["ipcmk", "-M", "4096", "-S", "1", "-Q"], check=True, stdout=subprocess.DEVNULL)
librt = ctypes.CDLL("librt.so.1", use_errno=True)
if librt.mq_open(b"/hearth-trap", os.O_CREAT | os.O_RDWR, 0o666, None) < 0:
    sys.exit("mq_open: %d" % ctypes.get_errno())
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:  # without the mark, and without a name that tells of it
        os.execve("/usr/bin/python3", ["hearth-trap-daemon", "-c", """
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 45711)); s.listen(); time.sleep(600)"""], {})
    os._exit(0)
for _ in range(200):
    try:
        socket.create_connection(("127.0.0.1", 45711), 1).close()
        break
    except OSError:
        time.sleep(0.05)
else:
    sys.exit("the daemon does not listen")
print("laid")
END
cat >"$CLUSTER/src/look.py" <<'END'
import ctypes, os, socket, subprocess, sys
cache = os.environ["HEARTH_WARM_CACHE"]
traps = subprocess.run(["find", "/", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", cache, ")", "-prune", "-o", "-name", "hearth-trap", "-print"],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()
for path in traps:
    if os.path.realpath(os.path.dirname(path)) != os.path.realpath(cache):
        print("TRAP file", path)
for place in ("/tmp", "/var/tmp", "/dev/shm", os.environ["TMPDIR"], "/opt/ml"):
    for folder, _, files in os.walk(place):
        if "hearth-trap" in files and os.path.realpath(folder) != os.path.realpath(cache):
            print("TRAP file", folder)
for kind in ("-m", "-s", "-q"):
    rows = [l for l in subprocess.run(["ipcs", kind], stdout=subprocess.PIPE, text=True).stdout.splitlines() if l.startswith("0x")]
    for row in rows:
        print("TRAP ipc", row)
if ctypes.CDLL("librt.so.1", use_errno=True).mq_open(b"/hearth-trap", os.O_RDWR) >= 0:
    print("TRAP queue")
try:
    socket.create_connection(("127.0.0.1", 45711), 1).close()
    print("TRAP port")
except OSError:
    pass
if subprocess.run(["pgrep", "-f", "hearth-trap-daemon"], stdout=subprocess.DEVNULL).returncode == 0:
    print("TRAP daemon")
mask = os.umask(0)
if mask != 0o022:
    print("TRAP umask %o" % mask)
if len(sys.argv) > 1:  # the cache folder of the pool, and this job is not to have it
    try:
        os.stat(os.path.dirname(sys.argv[1]))  # it may walk to it, so what follows tells something
        print("TRAP pool", os.listdir(sys.argv[1]))
    except PermissionError as e:
        print("denied" if e.filename == sys.argv[1] else e)
    except FileNotFoundError:
        print("no pool")
    try:
        print("TRAP pool", open(sys.argv[1] + "/hearth-trap").read())
    except OSError:
        pass
if os.path.exists(cache + "/hearth-trap"):
    print("TRAP token" if open(cache + "/hearth-trap").read() == os.environ["HEARTH_TOKEN"] else "cached")
print("looked")
END
submit() { # ACCOUNT NAME PROGRAM KEEP-ALIVE [WORD]
	printf '{"name": "%s", "launcher": "direct", "command": ["python3", "%s"%s], "source_dir": "%s", "limits": {"grace_s": 1}, "retry": {"max_attempts": 0}, "warm_pool": {"keep_alive_s": %s}}\n' \
		"$2" "$3" "${5:+, \"$5\"}" "$CLUSTER/src" "$4" >"$CLUSTER/$2.json"
	chmod 644 "$CLUSTER/$2.json"
	cluster_as "$1" submit "$CLUSTER/$2.json"
}
ended() { hearth show "$1" --json | jq -e '.status == "failed" or .status == "completed" or .status == "stopped"' >/dev/null; }
has_folder() { [ -n "$(ls "$CLUSTER/host1/data/pools" 2>/dev/null)" ]; }
has_none() { ! has_folder; }

lay=$(submit daemon lay lay.py 600)
ok "the job with the traps ends" wait_until 30 ended "$lay"
is "$(hearth logs "$lay" | grep -v '^$')" laid "all traps were laid"
ok "its pool is on the node" wait_until 10 has_folder
cache=$(echo "$CLUSTER"/host1/data/pools/*/cache)
ok "its cache folder has the trap" test -f "$cache/hearth-trap"
other=$(submit nobody other look.py 0 "$cache")
ok "a job of another account ends while the pool lives" wait_until 30 ended "$other"
is "$(hearth logs "$other" | grep -v '^$')" "denied
looked" "it finds nothing at all, and the pool's folder is closed to it"
ok "the pool is still there" test -f "$cache/hearth-trap"
same=$(submit daemon same look.py 0)
ok "the next job of its account ends" wait_until 30 ended "$same"
is "$(hearth logs "$same" | grep -v '^$')" "cached
looked" "it finds the cache folder, and no trap"
ok "the folder goes with the pool" wait_until 20 has_none
cluster_clean "after the traps"
done_testing
