#!/bin/bash
# Rules of a job: a metric above its limit rolls back, a line in the log restarts, a line that does not come stops; each has its event and its
# budget. A pattern that never ends is switched off and disturbs no other job.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 1 && cluster_hearth --slots 8 --fake-gpus 4 || bail "no cluster"
mkdir -p "$CLUSTER/src"
cp "$HEARTH_TOP_SRCDIR/tests/programs/loss.py" "$CLUSTER/src/"
submit() { # NAME COMMAND RULES
	printf '{"name": "%s", "command": %s, "source_dir": "%s", "launcher": "direct", "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "norm", "regex": "loss=([0-9.]+)"}], "watch": {"slow_share": 100, "margin_steps": 10}, "rules": [%s]}\n' \
		"$1" "$2" "$CLUSTER/src" "$3" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
alerts() { hearth events "$1" --json | jq -r '[.events[] | select(.type == "alert") | .data] | '"$2"; }

metric=$(submit metric '["/usr/bin/python3", "loss.py", "250", "0.02", "high", "150", "0"]' '{"name": "norm_high", "metric": "norm", "above": 3.2, "for_steps": 10, "action": "rollback"}')
line=$(submit line '["/bin/sh", "-c", "echo begin; sleep 1; echo NCCL WARN lost; exec sleep 4"]' '{"name": "nccl", "pattern": "NCCL WARN", "action": "restart", "budget": 1}')
quiet=$(submit quiet '["/bin/sh", "-c", "echo tick; exec sleep 60"]' '{"name": "silence", "pattern": "tick", "absent_s": 3, "action": "stop"}')
cruel=$(submit cruel '["/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab; i=$((i+1)); done; sleep 4"]' '{"name": "slowly", "pattern": "^(a+)+$"}')
for job in "$metric" "$line" "$quiet" "$cruel"; do ok "job $job ends" wait_until 60 ended "$job"; done

is "$(show "$metric" '[.status, .attempt_count] | join(" ")')" "completed 2" "a metric above its limit rolls back"
is "$(alerts "$metric" '[.[] | select(.kind == "rule") | [.rule, .action, .onset] | join(" ")] | .[0]')" "norm_high rollback 150" "the event names rule, action and onset"
ok "to a checkpoint before it" test "$(show "$metric" '.attempts[1].resumed_from_step // 999')" -le 140
like "$(show "$metric" '.attempts[0].reason')" "rule norm_high: norm is above 3.2 since step 150" "one sentence explains it"

is "$(show "$line" '[.status, .attempt_count] | join(" ")')" "completed 2" "a line in the log restarts, as often as its budget says"
is "$(alerts "$line" '[.[].rule] | join(" ")')" "nccl nccl" "each line has its event"
like "$(alerts "$line" '.[1].text')" "its budget \(1\) is used up" "which says that the budget is used up"

is "$(show "$quiet" .status)" failed "a line that does not come stops the job"
like "$(show "$quiet" .reason)" "rule silence: no line matches 'tick' for 3 s" "and says why"

is "$(show "$cruel" '[.status, .attempt_count] | join(" ")')" "completed 1" "a pattern without an end harms nobody"
like "$(hearth events "$cruel" --json | jq -r '[.events[] | select(.type == "warning") | .data.text] | join(" ")')" "rule.*slowly.*no longer" "an event says that it is off"
nok "a wrong rule is refused" hearth submit --dry-run "$CLUSTER/line.json" --set 'rules=[{"name": "x"}]'
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
cluster_clean
done_testing
