#!/bin/bash
# Blobs for nodes, through the real programs: hearthd is killed while an agent fetches a job's source; the agent may read the rest as soon as hearthd is back.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 4 || bail "no cluster"
src=$CLUSTER/src
mkdir -p "$src"
for i in $(seq 400); do head -c 300000 /dev/urandom >"$src/part-$i"; done
printf '{"name": "large", "launcher": "direct", "command": ["/bin/sh", "-c", "ls | wc -l"], "source_dir": "%s"}\n' "$src" >"$CLUSTER/large.json"
blobs=$CLUSTER/host1/data/cache/blobs

fetched() { find "$blobs" -type f 2>/dev/null | wc -l; }
some_fetched() { # without a process of its own: the agent is fast
	local all=("$blobs"/*/*)
	[ "${#all[@]}" -ge 5 ]
}
is_done() { hearth show "$1" --json | jq -e '.status == "completed" or .status == "failed"' >/dev/null; }

job=$(hearth submit "$CLUSTER/large.json")
for _ in $(seq 6000); do
	some_fetched && break
	read -rt 0.005 <> <(:) || :
done
cluster_signal hearthd KILL
wait_until 10 cluster_gone hearthd
n=$(fetched)
ok "hearthd is killed while the agent fetches the source" test "$n" -lt 401
diag "$n of 401 blobs were fetched"
ok "hearthd starts again" cluster_hearthd
ok "the job ends" wait_until 90 is_done "$job"
is "$(hearth show "$job" --json | jq -r '.status + " " + (.attempts | length | tostring)')" "completed 1" "hearthd restart: the job completes in its first attempt"
is "$(hearth logs "$job" | tr -d ' ')" 400 "the job has its whole source"
unlike "$(cat "$CLUSTER/hearthd.log")" "event=blob_refused" "hearthd refuses no blob to the node"
cluster_down
done_testing
