#!/bin/bash
# The loss watch on live jobs: NaN and a spike that does not heal return to a checkpoint before them and leave out the bad steps; a spike that
# heals has its alarm and restarts nothing; a job that always fails stops and says why; hearthd may die between the alarm and the action.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 1 && cluster_hearth --slots 8 --fake-gpus 4 || bail "no cluster"
mkdir -p "$CLUSTER/src"
cp "$HEARTH_TOP_SRCDIR/tests/programs/loss.py" "$CLUSTER/src/"
# Steps of a busy machine may be slow: the jobs have no alarm of that kind.
submit() { # NAME KEYS STEPS STEP_SECONDS FAULT FROM TO
	printf '{"name": "%s", "command": ["/usr/bin/python3", "loss.py", "%s", "%s", "%s", "%s", "%s"], "source_dir": "%s", "launcher": "direct", "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "loss", "regex": "loss=(nan|[0-9.]+)"}]%s}\n' \
		"$1" "$3" "$4" "$5" "$6" "$7" "$CLUSTER/src" ", \"watch\": {\"slow_share\": 100$2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
final() { hearth logs "$1" 2>/dev/null | sed -n 's/^.*\(final loss=.*\)$/\1/p' | tail -n 1; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
alerts() { hearth events "$1" --json | jq -r '[.events[] | select(.type == "alert" and .data.usual_s == null)] | '"$2"; }
has_alert() { [ "$(alerts "$1" length)" -gt 0 ]; }

calm=$(submit calm "" 400 0.005 none 0 0)
nan=$(submit nan ', "on_nan": "rollback", "margin_steps": 30' 400 0.02 nan 200 0)
heals=$(submit heals ', "on_spike": "rollback", "margin_steps": 30' 400 0.02 spike 200 230)
sustained=$(submit sustained ', "on_spike": "rollback", "margin_steps": 30, "rising_steps": 100, "patience_steps": 150' 500 0.02 high 200 0)

# --- hearthd dies between the alarm and the action ---------------------------------------------------------------------------
ok "a spike has an alarm" wait_until 60 has_alert "$sustained"
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
for job in "$calm" "$nan" "$heals" "$sustained"; do ok "job $job ends" wait_until 90 ended "$job"; done
always=$(submit always ', "on_nan": "rollback", "margin_steps": 10, "max_rollbacks": 2' 2000 0.01 always 0 0)
want=$(final "$calm")
like "$want" "^final loss=" "an undisturbed job prints its last loss ($want)"
is "$(alerts "$calm" length)" 0 "and has no alarm"

# --- NaN -----------------------------------------------------------------------------------------------------------------
is "$(show "$nan" .status) $(final "$nan")" "completed $want" "NaN: the job completes with that loss"
is "$(alerts "$nan" '[.[].data | [.kind, .onset, .action] | join(" ")] | join(",")')" "nan 200 rollback" "one alarm names kind, onset and action"
from=$(show "$nan" '.attempts[1].resumed_from_step')
ok "the second attempt begins 30 steps before the onset ($from)" test "${from:-999}" -le 170
skip=$(show "$nan" '.attempts[1].skip_steps')
ok "and leaves out the bad step ($skip)" test "${skip#*-}" -ge 200
is "${skip%-*}" "$((from + 1))" "from the one after its checkpoint"
like "$(show "$nan" '.attempts[0].reason')" "the loss is not finite since step 200" "one sentence explains it"
is "$(show "$nan" '.alert.kind')" nan "show has the alarm"
like "$(hearth show "$nan")" "alert .*the loss is not finite since step 200" "also for people"

# --- spikes --------------------------------------------------------------------------------------------------------------
is "$(show "$heals" '[.status, .attempt_count] | join(" ")')" "completed 1" "a spike that heals restarts nothing"
is "$(alerts "$heals" '[.[].data | [.kind, .onset] | join(" ")] | join(",")')" "spike 200" "it has its alarm"
pin=$(alerts "$heals" '.[0].data.pinned_step')
ok "and pins a checkpoint 30 steps before it ($pin)" test "${pin:-999}" -le 170
is "$(hearth checkpoints "$heals" --json | jq --argjson s "${pin:-0}" '.checkpoints[] | select(.step == $s) | .pinned')" true "which is in the list"
is "$(show "$sustained" '[.status, .attempt_count] | join(" ")')" "completed 2" "a spike that does not heal is rolled back, although hearthd had died"
is "$(final "$sustained")" "$want" "with the loss of the undisturbed run"
is "$(alerts "$sustained" '[.[].data | [.kind, .onset] | join(" ")] | join(",")')" "spike 200" "and it has one alarm"
like "$(show "$sustained" '.attempts[0].reason')" "has not healed since step 200" "the reason says why"

# --- too many rollbacks ---------------------------------------------------------------------------------------------------
ok "a job whose loss always fails ends" wait_until 60 ended "$always"
is "$(show "$always" '[.status, .attempt_count] | join(" ")')" "failed 3" "after its rollbacks"
like "$(show "$always" .reason)" "not finite.*rollbacks" "and explains it"
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
cluster_clean
done_testing
