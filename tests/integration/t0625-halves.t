#!/bin/bash
# An attempt ends in two halves. Its rank is killed while its folder has large outputs: the next attempt runs on the same node while these are
# uploaded, also when hearthd and the agent are killed meanwhile. Nothing of the first attempt is lost, and the two never overlap.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 1 && cluster_hearth --slots 4 || bail "no cluster"
mkdir -p "$CLUSTER/src"
cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/src/"
submit() { # NAME STEPS: attempt 1 leaves an output of 96 MiB of random bytes
	# shellcheck disable=SC2016 # the job's shell expands it
	printf '{"name": "%s", "command": ["/bin/sh", "-c", "[ $HEARTH_ATTEMPT != 1 ] || head -c 96M /dev/urandom >$SM_OUTPUT_DATA_DIR/big; exec /usr/bin/python3 train.py %s 10 0.1"], "source_dir": "%s/src", "launcher": "direct", "metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "loss", "regex": "loss=([0-9.]+)"}]}\n' \
		"$1" "$2" "$CLUSTER" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
saved() { hearth checkpoints "$1" --json | jq -e '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified"))] | length > 0' >/dev/null; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
steps() { hearth logs "$1" -r 0 --attempt "$2" 2>/dev/null | sed -n "s/^.*did $2 0 \([0-9]* [0-9.]*\)$/\1/p"; } # JOB ATTEMPT: step and time, by the program's clock
first_step() { steps "$1" "$2" | head -n 1 | cut -d' ' -f2; }
began() { [ -n "$(first_step "$1" "$2")" ]; }
cleaned() { hearth events "$1" --json | jq -s '[.. | objects | select(.type? == "node_cleaned" and .attempt == '"$2"')] | length'; }
is_cleaned() { [ "$(cleaned "$1" "$2")" = 1 ]; }
# Every helper of the agent that copies files stands still: what they upload is not through.
helpers() {
	local p
	for p in $(cluster_pids host1); do
		[ "$(cat "/proc/$p/comm" 2>/dev/null)" != hearth-files ] || kill "-$1" "$p" 2>/dev/null
	done
}
rank() { # the number of the rank's process here
	local p
	for p in $(cluster_pids host1); do
		[[ $(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null) != "/usr/bin/python3 train.py "* ]] || echo "$p"
	done | head -n 1
}

job=$(submit halves 60)
ok "a checkpoint has a verified copy" wait_until 30 saved "$job"
at=$(date +%s.%N)
kill -KILL "$(rank)"
# The upload of its output stops as soon as the next attempt is placed.
until [ "$(show "$job" .attempt_count)" = 2 ] || [ "$SECONDS" -gt 60 ]; do :; done
helpers STOP
ok "the second attempt trains" wait_until 20 began "$job" 2
is "$(cleaned "$job" 1)" 0 "while the first one is still being collected"
diag "first new step $(echo "$(first_step "$job" 2) - $at" | bc) s after the kill"
is "$(hearth events "$job" --json | jq -rs '[.. | objects | select(.type? == "attempt_ended" and .attempt == 1) | .data.collects // .collects] | first')" true "its record says so"

kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 10 cluster_gone hearthd
ok "and starts again" cluster_hearthd
is "$(cleaned "$job" 1)" 0 "the first attempt is still being collected"
kill -KILL "$(cat "$CLUSTER/agent-host1.pid")"
ok "the agent is killed" wait_until 10 cluster_gone agent-host1
helpers CONT
ok "and starts again" cluster_agent host1 --slots 4
ok "the first attempt is collected" wait_until 30 is_cleaned "$job" 1
ok "the job ends" wait_until 30 ended "$job"
is "$(show "$job" '[.status, .attempt_count, .cleanup // ""] | join(" ")')" "completed 2 " "it has completed in two attempts, and nothing went wrong in the clean-up"
is "$(show "$job" '[.artifacts[] | select(.attempt == 1) | .kind] | sort | join(" ")')" "checkpoint output" "the results of the first attempt are on record"
last=$(steps "$job" 1 | tail -n 1 | cut -d' ' -f2) first=$(first_step "$job" 2)
ok "by the programs' own clocks the attempts do not overlap ($last, $first)" test "$(echo "$last < $first" | bc)" = 1
is "$(steps "$job" 2 | head -n 1 | cut -d' ' -f1)" "$(($(show "$job" '.attempts[1].resumed_from_step') + 1))" "the second begins after its checkpoint"
ok "which is not the beginning" test "$(show "$job" '.attempts[1].resumed_from_step')" -ge 10
cluster_clean "after an attempt was collected behind another"
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
done_testing
