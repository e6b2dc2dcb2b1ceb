#!/bin/bash
# Checkpoints that nodes register while a job runs: jobctl checkpoints, pins, get --step, and what a requeue begins with.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 4 || bail "no cluster"
mkdir -p "$CLUSTER/src"
cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/src/"
printf '{"name": "train", "command": ["/usr/bin/python3", "train.py", "100000", "10", "0.1"], "source_dir": "%s", "launcher": "direct", "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "loss", "regex": "loss=([0-9.]+)"}]}\n' \
	"$CLUSTER/src" >"$CLUSTER/job.json"
job=$(hearth submit "$CLUSTER/job.json")
listed() { hearth checkpoints "$job" --json | jq -r "$1"; }
newest() { listed '[.checkpoints[] | select(.complete and ([.places[].uri] | any)) | .step] | max // 0'; }
saved() { [ "$(newest)" -ge "$1" ]; }
runs() { hearth show "$job" --json | jq -e --argjson n "$1" '.attempt_count == $n and .status == "running"' >/dev/null; }
began() { hearth logs "$job" --attempt "$1" 2>/dev/null | sed -n 's/^.*resumed from step //p' | head -n 1; }

ok "a checkpoint has a copy outside of its node" wait_until 120 saved 10
# At once: the fourth one after it removes it.
is "$(hearth checkpoints "$job" --pin 10)" "$job: the checkpoint of step 10 is pinned" "a pin"
is "$(listed '.checkpoints[] | select(.step == 10) | .pinned')" true "is in the list"
is "$(listed '.checkpoints[0] | keys_unsorted | join(" ")')" "step at attempt save_s loss size_bytes digest shards places complete pinned set_aside step_by" "the members of an entry"
is "$(listed '.checkpoints[0] | [.step, .attempt, .complete, .set_aside] | map(tostring) | join(" ")')" "10 1 true false" "the first entry"
is "$(listed '[.checkpoints[] | select(.step != 10) | .pinned] | any')" false "no other one is pinned"
ok "it has the last loss up to its step" test "$(listed '.checkpoints[0].loss | type')" = number
like "$(hearth checkpoints "$job")" "STEP.*COMPLETE.*ATTEMPT.*LOSS.*STATE" "the list for people"
nok "a step that it does not have cannot be pinned" hearth checkpoints "$job" --pin 11
ok "newer checkpoints come" wait_until 120 saved 60
is "$(listed '.checkpoints[] | select(.step == 10) | .places[0].state')" verified "the pinned one stays"
is "$(listed '.checkpoints[] | select(.step == 20) | .places[0].state')" gone "one that is not needed is gone"
ok "get fetches a step" hearth get "$job" checkpoint --step 10 "$CLUSTER/got"
is "$(cut -d' ' -f1 "$CLUSTER/got/step-10/state")" 10 "which is that step"
nok "a step that is gone is not fetched" hearth get "$job" checkpoint --step 20 "$CLUSTER/none"

hearth requeue "$job" >/dev/null
ok "the second attempt runs" wait_until 60 runs 2
from=$(hearth show "$job" --json | jq -r '.attempts[1].resumed_from_step')
ok "it goes on from the newest checkpoint ($from)" test "${from:-0}" -ge 60
ok "its program finds that step" wait_until 30 eval '[ "$(began 2)" = "'"$from"'" ]'
hearth requeue "$job" --from 10 >/dev/null
ok "the third attempt runs" wait_until 60 runs 3
ok "it goes on from the pinned checkpoint" wait_until 30 eval '[ "$(began 3)" = 10 ]'
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
is "$(listed '.checkpoints[] | select(.step == 10 and .attempt == 1) | .pinned')" true "the list is the same then"
ok "new checkpoints follow" wait_until 120 eval '[ "$(listed "[.checkpoints[] | select(.attempt == 3 and .complete)] | length")" -gt 0 ]'
hearth stop "$job" >/dev/null
ok "the job stops" wait_until 60 eval '[ "$(hearth show "$job" --json | jq -r .status)" = stopped ]'
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
cluster_clean
done_testing
