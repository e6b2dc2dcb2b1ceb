#!/bin/bash
# Checkpoints by their step: requeue --from, retry --from, get --step, job:ID@STEP and the list agree before and after hearthd is killed, also with a
# damaged copy and a missing one.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 2 && cluster_hearth --slots 4 || bail "no cluster"
mkdir -p "$CLUSTER/src" "$CLUSTER/share"
cp "$HEARTH_TOP_SRCDIR/tests/programs/train.py" "$CLUSTER/src/"
spec() { # NAME MEMBERS...
	printf '{"name": "%s", "command": ["/usr/bin/python3", "train.py", "100000", "10", "0.04"], "source_dir": "%s", "launcher": "direct", "limits": {"grace_s": 1}, "checkpoint": {"keep_last": 32, "uri": "file://%s/share"}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]%s}\n' \
		"$1" "$CLUSTER/src" "$CLUSTER" "${2:-}" >"$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
list() { hearth checkpoints "$1" --json; }
whole() { list "$1" | jq -r '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified")) | .step] | max // 0'; }
saved() { [ "$(whole "$1")" -ge "$2" ]; }
runs() { show "$1" '[.attempt_count, .status] == ['"$2"', "running"]' | grep -q true; }
ended() { case $(show "$1" .status) in completed | failed | stopped) ;; *) return 1 ;; esac; }
began() { hearth logs "$1" 2>/dev/null | sed -n 's/^.*resumed from step //p' | tail -n 1; }
begins() { [ "$(began "$1")" = "$2" ]; }
copy_of() { list "$1" | jq -r --argjson s "$2" '[.checkpoints[] | select(.step == $s) | .places[].uri // empty][0]' | sed 's,^file://,,'; }
fetched() { # JOB STEP: the step that get brings
	rm -rf "$CLUSTER/got"
	hearth get "$1" checkpoint --step "$2" "$CLUSTER/got" >/dev/null && cut -d' ' -f1 "$CLUSTER"/got/*/state
}
end() {
	hearth stop "$1" >/dev/null
	wait_until 60 ended "$1"
}

spec train
job=$(hearth submit "$CLUSTER/train.json") || bail "no job"
ok "a job has checkpoints outside of its node" wait_until 120 saved "$job" 50
nok "a job that runs is not retried" hearth retry "$job"
like "$(hearth retry "$job" 2>&1)" "jobctl requeue $job" "the message has the command"
hearth requeue "$job" --from 20 >/dev/null
ok "a requeue from a step" wait_until 60 runs "$job" 2
ok "begins there" wait_until 30 begins "$job" 20
is "$(show "$job" '.attempts[1].resumed_from_step')" 20 "by the record, too"
ok "the job ends" end "$job"
newest=$(list "$job" | jq '[.checkpoints[] | select(.attempt == 2 or .step <= 20) | select(.complete and all(.places[]; .state == "verified")) | .step] | max')
before=$(list "$job") attempts=$(show "$job" '.attempts | tojson')

check() { # WHEN: the four ways to a checkpoint agree
	local id
	is "$(list "$job")" "$before" "$1: the list of checkpoints is the same"
	is "$(fetched "$job" 20)" 20 "$1: get fetches the step"
	id=$(hearth retry "$job" --from 20 2>/dev/null)
	ok "$1: a retry from the step is a new job ($id)" test "${id:-0}" -gt "$job"
	ok "$1: it begins there" wait_until 60 begins "$id" 20
	ok "$1: it ends" end "$id"
	spec other ', "resume_from": "job:'"$job"'@20"'
	id=$(hearth submit "$CLUSTER/other.json")
	ok "$1: resume_from begins there" wait_until 60 begins "$id" 20
	ok "$1: its job ends" end "$id"
	like "$(hearth retry "$job" --from 15 2>&1)" "10, 20, 30" "$1: a step that is missing: the message has those that exist"
}
check before
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
ok "the nodes are back" wait_until 30 eval "cluster_node_up host1 && cluster_node_up host2"
check after
is "$(show "$job" '.attempts | tojson')" "$attempts" "the ended job has not changed"

# --- a job without a checkpoint of its own passes on what it began with -----------------------------------------------------
spec none ', "resume_from": "job:'"$job"'@20"'
sed -i 's/"100000", "10"/"100000", "100000"/' "$CLUSTER/none.json"
none=$(hearth submit "$CLUSTER/none.json")
ok "a job that saves nothing begins with step 20" wait_until 60 begins "$none" 20
ok "it ends" end "$none"
passed=$(hearth retry "$none" 2>"$CLUSTER/err")
is "$(cat "$CLUSTER/err")" "it begins with step 20 of job $job" "its retry names the step and the job that left it"
ok "the retry begins there, too" wait_until 60 begins "$passed" 20
is "$(show "$passed" '.attempts[0] | .resumed_from + " " + (.resumed_from_step | tostring)')" "job:$job 20" "which is on record"
ok "the retry ends" end "$passed"

# --- a damaged copy of the newest one, no copy of the one before it ---------------------------------------------------------
again=$(hearth retry "$job" 2>"$CLUSTER/err")
like "$(cat "$CLUSTER/err")" "step $newest of job $job" "without a step it is the newest one that can be used"
ok "the retry begins there" wait_until 30 begins "$again" "$newest"
ok "it has checkpoints of its own" wait_until 60 saved "$again" $((newest + 40))
ok "it ends" end "$again"
last=$(whole "$again") second=$(($(whole "$again") - 10))
file=$(find "$(copy_of "$again" "$last")" -name state | head -n 1)
ok "the newest copy is in its folder ($file)" test -s "$file"
printf X | dd of="$file" conv=notrunc bs=1 seek=0 2>/dev/null
rm -rf "$(copy_of "$again" "$second")"
nok "a missing copy is not fetched" hearth get "$again" checkpoint --step "$second" "$CLUSTER/none"
hearth node drain "$(show "$again" '.attempts[0].nodes[0]')" >/dev/null # it has copies of its own
third=$(hearth retry "$again" 2>/dev/null)
ok "a retry on another node passes over both" wait_until 60 begins "$third" $((last - 20))
is "$(list "$again" | jq -r --argjson s "$last" '.checkpoints[] | select(.step == $s) | .places[0].state')" torn "the list names the damaged one"
ok "the last job ends" end "$third"
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
cluster_clean
done_testing
