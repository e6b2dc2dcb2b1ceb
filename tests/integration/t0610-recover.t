#!/bin/bash
# A host dies under a job on two nodes: the job completes on another node from its newest checkpoint, with the loss of an undisturbed run. No step
# before that checkpoint is trained twice, attempts never overlap, and a damaged checkpoint is passed over.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 4 && cluster_hearth --slots 2 --fake-gpus 1 || bail "no cluster"
mkdir -p "$CLUSTER/src" "$CLUSTER/share"
cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/src/"
submit() { # NAME STEPS STEP_SECONDS MEMBERS...
	printf '{"name": "%s", "command": ["/usr/bin/python3", "train.py", "%s", "10", "%s"], "source_dir": "%s", "launcher": "direct", "resources": {"instances": 2, "gpus_per_instance": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "loss", "regex": "loss=([0-9.]+)"}]%s}\n' \
		"$1" "$2" "$3" "$CLUSTER/src" "${4:-}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
final() { hearth logs "$1" -r 0 2>/dev/null | sed -n 's/^.*\(final loss=.*\)$/\1/p' | tail -n 1; }
newest() { hearth checkpoints "$1" --json | jq '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified")) | .step] | max // 0'; }
saved() { [ "$(newest "$1")" -ge "$2" ]; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
# Prints each step that a rank trained twice although it is not after the checkpoint with which an attempt began, and attempts that overlap.
twice() { # JOB
	local from attempt rank
	from=$(show "$1" '[.attempts[1:][] | .resumed_from_step // 0] | join(" ")')
	for attempt in $(seq "$(show "$1" .attempt_count)"); do
		for rank in 0 1; do hearth logs "$1" -r "$rank" --attempt "$attempt" 2>/dev/null; done
	done | sed -n 's/^.*did \([0-9]* [0-9]* [0-9]* [0-9.]*\)$/\1/p' | awk -v from="$from" '
		BEGIN { split(from, begin, " ") }
		{ attempt = $1; rank = $2; step = $3
		  if (attempt > 1 && step <= begin[attempt - 1]) print "attempt " attempt " of rank " rank " trains step " step " again"
		  if (!(attempt SUBSEP rank in first) && attempt > 1 && step != begin[attempt - 1] + 1) print "attempt " attempt " begins at step " step
		  first[attempt, rank] = 1
		  if (!(attempt in began) || $4 < began[attempt]) began[attempt] = $4
		  if (!(attempt in over) || $4 > over[attempt]) over[attempt] = $4 }
		END { for (a in began) if ((a + 1) in began && began[a + 1] < over[a]) print "attempts " a " and " a + 1 " overlap" }'
}

calm=$(submit calm 60 0.01)
is "$(hearth wait "$calm" --timeout 120 >/dev/null; show "$calm" .status)" completed "an undisturbed job completes"
want=$(final "$calm")
like "$want" "^final loss=" "it prints its last loss ($want)"

# --- a host dies ----------------------------------------------------------------------------------------------------------
job=$(submit lost 60 0.2)
ok "a checkpoint has a verified copy" wait_until 120 saved "$job" 20
victim=$(show "$job" '.attempts[0].nodes[1]')
cluster_power_off "$victim"
ok "the job ends" wait_until 180 ended "$job"
is "$(show "$job" .status)" completed "it has completed"
is "$(final "$job")" "$want" "with the loss of the undisturbed run"
is "$(show "$job" .attempt_count)" 2 "in two attempts"
ok "the second began with a checkpoint" test "$(show "$job" '.attempts[1].resumed_from_step // 0')" -ge 20
is "$(show "$job" '.attempts[1].nodes | index("'"$victim"'")')" null "and without the dead host"
is "$(twice "$job")" "" "no step before it is trained twice, and the attempts do not overlap"
like "$(show "$job" '.attempts[1].cause')" "node $victim was lost" "one sentence explains it"

# --- a damaged checkpoint -------------------------------------------------------------------------------------------------
cluster_clean "after a host has died"
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
before=$(hearth checkpoints "$job" --json)
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
is "$(hearth checkpoints "$job" --json)" "$before" "the list of checkpoints is the same"
ok "get fetches a step of it" hearth get "$job" checkpoint --step "$(newest "$job")" "$CLUSTER/got"
is "$(cut -d' ' -f1 "$CLUSTER/got"/*/state)" "$(newest "$job")" "which is that step"

job=$(submit torn 60 0.2 ', "checkpoint": {"uri": "file://'"$CLUSTER"'/share/copies"}')
ok "two checkpoints have verified copies in a folder" wait_until 120 saved "$job" 20
step=$(newest "$job")
copy=$(hearth checkpoints "$job" --json | jq -r --argjson s "$step" '[.checkpoints[] | select(.step == $s) | .places[].uri // empty][0]')
victims=$(show "$job" '.attempts[0].nodes[]')
file=$(find "${copy#file://}" -name state | head -n 1)
ok "the newest copy is in its folder ($file)" test -s "$file"
printf X | dd of="$file" conv=notrunc bs=1 seek=0 2>/dev/null
for host in $victims; do cluster_power_off "$host"; break; done
ok "the job ends" wait_until 240 ended "$job"
is "$(show "$job" .status) $(final "$job")" "completed $want" "it completes with the same loss"
is "$(twice "$job")" "" "each attempt goes on after the checkpoint that it began with"
done_testing
