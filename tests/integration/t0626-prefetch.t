#!/bin/bash
# A spare has the source tree and the inputs of a running job before a host of the job dies, and the newest checkpoint before the lease of that host
# is over: the next attempt fetches nothing.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 3 && cluster_hearth --slots 2 --fake-gpus 1 || bail "no cluster"
mkdir -p "$CLUSTER/src"
cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/src/"
head -c 20000000 /dev/urandom >"$CLUSTER/src/weights"
show() { hearth show "$1" --json | jq -r "$2"; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
saved() { [ "$(hearth checkpoints "$1" --json | jq '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified")) | .step] | max // 0')" -ge "$2" ]; }
fetched() { grep -c "event=prefetched job=$1 .*code=0 " "$CLUSTER/agent-host3.log"; } # JOB: orders of the spare that were carried out
has_fetched() { [ "$(fetched "$1")" -ge "$2" ]; }
said() { hearth logs "$1" --stream "setup-algo-$3" --attempt "$2" 2>/dev/null | grep -o '[^ ]* of source tree, inputs and checkpoint came from hearthd' | cut -d' ' -f1; } # JOB ATTEMPT NODE-OF-JOB

ok "a node is a spare" hearth node spare host3
printf '{"name": "maker", "command": ["/bin/sh", "-c", "head -c 9000000 /dev/urandom >$SM_MODEL_DIR/rows"], "launcher": "direct"}\n' >"$CLUSTER/maker.json"
maker=$(hearth submit "$CLUSTER/maker.json")
ok "a job has left a model" hearth wait "$maker" --timeout 60
jq -n --arg src "$CLUSTER/src" --arg in "job:$maker/model" '{name: "lost", command: ["/usr/bin/python3", "train.py", "30", "20", "0.5"], source_dir: $src, environment: {TRAIN_LATER: "0.05"}, launcher: "direct", inputs: {rows: {uri: $in}}, resources: {instances: 2, gpus_per_instance: 1}, metrics: [{name: "step", regex: "step=([0-9]+)"}, {name: "loss", regex: "loss=([0-9.]+)"}]}' >"$CLUSTER/lost.json"
job=$(hearth submit "$CLUSTER/lost.json")
ok "the spare has the source tree and the input of the running job" wait_until 60 has_fetched "$job" 1
like "$(said "$job" 1 1)" "MiB" "the first attempt fetched them, too"
bytes=$(sed -n "s/^.*event=prefetched job=$job .*trees=2 bytes=\([0-9]*\) .*$/\1/p" "$CLUSTER/agent-host3.log" | head -n 1)
ok "it fetched all of them (${bytes:-none} bytes)" test "${bytes:-0}" -ge 29000000
ok "a checkpoint has a verified copy" wait_until 60 saved "$job" 20
victim=$(show "$job" '.attempts[0].nodes[1]')
before=$(fetched "$job")
cluster_power_off "$victim"
ok "the spare gets another order before the lease of $victim is over" wait_until 20 has_fetched "$job" $((before + 1))
like "$(show "$job" '.attempt_count')" "^1$" "when the job is not restarted yet"
ok "the job ends" wait_until 120 ended "$job"
is "$(show "$job" '"\(.status) \(.attempt_count)"')" "completed 2" "it has completed in two attempts"
like "$(show "$job" '.attempts[1].nodes | join(" ")')" host3 "the second on the spare"
place=$(show "$job" '.attempts[1].nodes | index("host3") + 1')
is "$(said "$job" 2 "$place")" "nothing" "whose staging fetched nothing"
cluster_clean "after a host has died"
done_testing
