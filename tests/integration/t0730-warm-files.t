#!/bin/bash
# A large source comes to a job without a copy of its bytes: the job sees files of its own over the node's cached tree. It may change all of them;
# neither the cache nor the next job sees that. Only what is new in an edited source is fetched and written.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_RUN_AS=daemon
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set warm_parked=no) # folders of launches have the names of jobs
cluster_up 1 && cluster_hearth --slots 2 --min-uid 1 || bail "no cluster"
src=$CLUSTER/src data=$CLUSTER/host1/data
mkdir -m 0755 "$src" "$src/sub"
for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/urandom >"$src/part$i"; done
echo original >"$src/sub/small"
cat >"$src/lay.py" <<'END'
import mmap, os, stat, sys
print("owner", all(os.stat(os.path.join(d, f)).st_uid == os.getuid() for d, _, fs in os.walk(".") for f in fs), os.stat(".").st_uid == os.getuid())
open("part1", "ab").write(b"more")
os.truncate("part2", 10)
os.unlink("part3")
os.rename("part4", "sub/moved")
os.chmod("part5", 0o600)
with open("part6", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    m[0:6] = b"HEARTH"
    m.flush()
try:
    os.link("part7", "/opt/ml/model/part7")
    open("/opt/ml/model/part7", "r+b").write(b"HEARTH")
except OSError as e:
    print("link", e.errno)
os.link("part7", "again")
open("again", "r+b").write(b"HEARTH")
os.utime("part8", (1, 1))
os.rename("sub", "other")
open("other/small", "w").write("changed")
open("new", "w").write("new")
print("laid")
END
cat >"$src/look.py" <<'END'
import hashlib, os
for d, _, fs in sorted(os.walk(".")):
    for f in sorted(fs):
        p = os.path.join(d, f); s = os.lstat(p)
        print(p, oct(s.st_mode & 0o777), s.st_size, s.st_mtime > 1000, hashlib.sha256(open(p, "rb").read()).hexdigest()[:16])
END
job() { # NAME PROGRAM [MEMBERS]
	jq -n --arg n "$1" --arg s "$src" --arg p "$2" --argjson more "${3:-{\}}" '{name: $n, command: ["/usr/bin/python3", $p], source_dir: $s, launcher: "direct", retry: {max_attempts: 0}, warm_pool: {keep_alive_s: 600}} + $more' >"$CLUSTER/$1.json"
	id=$(hearth submit "$CLUSTER/$1.json" 2>>"$CLUSTER/said")
	hearth wait "$id" --timeout 60 >/dev/null
	hearth logs "$id" || hearth show "$id" >&2
}
tree() { cluster_in host1 find "$data/cache/trees" -path '*/tree/*' -type f -printf '%p %m %s %T@\n' | sort; }
job first look.py >"$CLUSTER/clean"
like "$(tail -1 "$CLUSTER/clean")" 'sub/small 0o644 9 True' "a job reads all files"
before=$(tree; cluster_in host1 find "$data/cache/trees" -path '*/tree/*' -type f -exec sha256sum {} +)
said=$(job traps lay.py)
like "$said" 'owner True True' "the job's account owns all files"
like "$said" laid "and may change each"
is "$(tree; cluster_in host1 find "$data/cache/trees" -path '*/tree/*' -type f -exec sha256sum {} +)" "$before" "nothing of that reached the cache"
is "$(job second look.py)" "$(cat "$CLUSTER/clean")" "the next job has the files as they were"

# --- no copy ----------------------------------------------------------------------------------------------------
id=$(jq -n --arg s "$src" '{name: "hold", command: ["/bin/sh", "-c", "echo mine >part1; echo up; exec sleep 100"], source_dir: $s, launcher: "direct", warm_pool: {keep_alive_s: 600}}' >"$CLUSTER/hold.json"; hearth submit "$CLUSTER/hold.json" 2>/dev/null)
wait_until 20 eval 'hearth logs "$id" | grep -q up'
reflink=$(cluster_in host1 sh -c "cd '$data' && echo x >from && cp --reflink=always from to 2>/dev/null && echo yes; rm -f from to")
if [ -n "$reflink" ]; then
	skip "a running job has no copy of its source" "the file system has reflinks"
else
	used=$(cluster_in host1 du -s "$data/jobs/$id.1" | cut -f1)
	ok "a running job has no copy of its source ($used KiB)" test "$used" -lt 2000
fi
cluster_signal agent-host1 KILL
wait_until 20 cluster_gone agent-host1
cluster_agent host1 --slots 2 --min-uid 1
wait_until 30 cluster_node_up host1
is "$(hearth show "$id" --json | jq -r .status)" running "the job goes on when the agent is killed"
hearth stop "$id" >/dev/null 2>&1
hearth wait "$id" --timeout 60 >/dev/null

# --- one file changed -------------------------------------------------------------------------------------------
echo 'print("edited")' >>"$src/look.py"
like "$(job edited look.py)" edited "an edited source runs"
shared=$(cluster_in host1 find "$data/cache/trees" -name part3 -printf '%i\n' | sort -u | wc -l)
is "$shared" 1 "files that did not change are in the cache once"
rm "$src/part2"
chmod 700 "$src/part3"
echo 'print("again")' >>"$src/look.py"
said=$(job again look.py)
unlike "$said" 'part2' "a removed file is gone"
like "$said" 'part3 0o700' "a changed mode arrives"
like "$said" again "with the edit"
is "$(grep -c 'part[145678]' <<<"$said")" "$(grep -cxFf <(grep 'part[145678]' "$CLUSTER/clean") <<<"$said")" "the other files are as they were"
done_testing
