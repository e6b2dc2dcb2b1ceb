#!/bin/bash
# What a machine does to its daemons: a full disk under the controller (and one that is nearly full) and under a log, a torn state file, a clock that jumps, a store that was
# put back from a backup.
. "${HEARTH_TOP_SRCDIR:?}/tests/chaos/chaos.sh"
why=$(chaos_can)
[ -z "$why" ] || skip_all "$why"
export CHAOS_DISKS="head=40m host2=24m"
# The disk shall be really full: no mark below which new work is refused before.
NO_MARK=(--set min_free_mb=0) CLUSTER_HEARTHD_ARGS=(--set min_free_mb=0)
chaos_up 4 || bail "no cluster"

running() { # JOB ATTEMPT RANKS...
	local job=$1 attempt=$2 rank
	shift 2
	for rank; do wait_until 60 chaos_step "$job" "$attempt" "$rank" 5 || { diag "job $job rank $rank did not come to step 5"; return 1; }; done
}
verdict_of() { chaos_show "$1" '.status + " " + .attempts[-1].outcome + " " + (.exit_code | tostring) + " " + (.attempts | length | tostring)'; }
submit_works() { chaos_submit "$1" direct 1 3 20; }
on_host() { # HOST NAME STEPS-ARGUMENTS...: on that host
	local host=$1 name=$2 other
	shift 2
	for other in $CLUSTER_HOSTS; do [ "$other" = "$host" ] || hearth node drain "$other" --reason test >/dev/null; done
	chaos_submit "$name-$round" direct 1 "$@"
	for other in $CLUSTER_HOSTS; do [ "$other" = "$host" ] || hearth node resume "$other" >/dev/null; done
}

# A job whose record takes 60 KB.
submit_large() { # NAME
	chaos_submit_json "$1" "\"command\": [\"./steps\", \"$CHAOS_SIDE\", \"3\", \"20\"], \"launcher\": \"direct\", \"environment\": {\"PAD\": \"$pad\"}"
}
pad=$(head -c 60000 /dev/zero | tr '\0' x)
full_store() {
	local id other rc=0
	id=$(chaos_submit "store-full-$round" mpirun 2 200 20)
	running "$id" 1 0 1
	chaos_look
	does "the controller's disk is full" chaos_inject fill head
	# What is preallocated still takes some: the log of the store keeps the size that it has grown to.
	for other in $(seq 200); do
		submit_large "refused-$other-$round" >/dev/null 2>&1
		rc=$?
		[ $rc -eq 0 ] || break
	done
	isnt_zero $rc "new work is refused"
	like "$(tail -n 3 "$HIST/client.err")" "[Ff]ull|space" "with that reason"
	ok "what is on record can be read" chaos_show "$id" .status
	wait_until 30 grep -q '^end' "$HIST/side/$id.1.1"
	ok "the running job comes to its end" grep -q '^end' "$HIST/side/$id.1.1"
	does "there is room again" chaos_heal fill head
	ok "new work is accepted again" wait_until 30 submit_works "again-$round"
	ok "the job that ran meanwhile is settled" chaos_wait "$id" 60
	is "$(verdict_of "$id")" "completed succeeded 0 1" "with its end"
}
isnt_zero() { nok "$2" test "$1" -eq 0; }

# With a mark, as hearthd has it by default, new work is refused while there is still room for the records of the work that is there: nothing
# fails, no agent reports anew, and what runs ends as ever.
nearly_full() {
	local id again failed
	CLUSTER_HEARTHD_ARGS=()
	chaos_look
	chaos_inject kill-hearthd && chaos_heal kill-hearthd
	id=$(chaos_submit "low-$round" mpirun 2 400 20)
	running "$id" 1 0 1
	again=$(found_again) failed=$(grep -c event=store_failed "$CLUSTER/hearthd.log")
	does "the controller's disk is nearly full" chaos_inject fill-nearly head
	ok "hearthd says so" wait_until 30 low_told
	diag "$(hearth top --once 2>&1 | grep -i problem)" "$(curl_at /healthz)"
	for _ in 1 2 3; do nok "a large job is refused" submit_large "low-large-$round"; done
	nok "and a small one" submit_works "low-small-$round"
	like "$(tail -n 3 "$HIST/client.err")" "no new work is accepted: the disk of hearthd has .* left of .*min_free_mb" "with figures"
	like "$(curl_at /healthz)" '"problem":"no new work is accepted' "so does its health"
	ok "the running job ends meanwhile" chaos_wait "$id" 90
	is "$(verdict_of "$id")" "completed succeeded 0 1" "and is on record as it ended"
	is "$(found_again) $(grep -c event=store_failed "$CLUSTER/hearthd.log")" "$again $failed" "no write failed, and no agent had to report anew"
	does "there is room again" chaos_heal fill-nearly head
	ok "new work is accepted again" wait_until 30 submit_works "low-again-$round"
	CLUSTER_HEARTHD_ARGS=("${NO_MARK[@]}")
	chaos_inject kill-hearthd && chaos_heal kill-hearthd
}
found_again() { cat "$CLUSTER"/agent-*.log | grep -c event=controller_found; }
low_told() { hearth top --json | jq -e '.problem | strings | startswith("no new work is accepted")' >/dev/null; }
curl_at() { cluster_in head curl -s --unix-socket "$CLUSTER/head/data/hearthd.sock" "http://localhost$1"; }

full_log() {
	local id size lost lines
	id=$(on_host host2 log-full -b 4000 1500 5)
	running "$id" 1 0
	wait_until 30 chaos_step "$id" 1 0 100
	does "the disk of the job's node is full" chaos_inject fill host2
	wait_until 60 chaos_step "$id" 1 0 700
	does "there is room again" chaos_heal fill host2
	ok "the job ends" chaos_wait "$id" 90
	is "$(verdict_of "$id")" "completed succeeded 0 1" "well: a log is not worth a run"
	size=$(sed -n 's/.*write_max_us=//p' "$HIST/side/$id.1.0")
	ok "no line of its output held it up for a second (longest $size us)" test "$size" -lt 1000000
	wait_until 20 log_complete "$id"
	read -r size lost <<<"$(curl_api "/api/v1/jobs/$id/logs" | jq -r '.streams[] | select(.stream == "rank-0") | "\(.size) \(.lost)"')"
	lines=$(chaos_hearth logs "$id" --rank 0 | grep -c '^step')
	ok "bytes are missing: the disk was full ($lost bytes; $lines lines are there)" test "$lost" -gt 0
	# Nothing but the note in the place of what is missing comes on top.
	ok "and counted to the byte" test $((size + lost - 6000000)) -ge 0 -a $((size + lost - 6000000)) -lt 100
}
curl_api() { curl_at "$1"; }
log_complete() { curl_api "/api/v1/jobs/$1/logs" | jq -e '.streams[] | select(.stream == "rank-0") | .complete' >/dev/null; }

torn_state() {
	local id dead host state
	id=$(on_host host1 torn 1000 20 4)
	dead=$(on_host host1 torn-dead 1500 20)
	host=host1
	running "$id" 1 0 && running "$dead" 1 0
	chaos_look
	does "the agent of $host is killed" chaos_inject kill-agent "$host"
	does "one of two shims, too" chaos_inject kill-part shim "$dead" 0
	for state in $(cluster_in "$host" sh -c "echo /run/hearth/*/$id.1/rank-0/state /run/hearth/*/$dead.1/rank-0/state"); do
		# shellcheck disable=SC2016 # the inner shell expands
		ok "its state file is torn" cluster_in "$host" sh -c 'head -c 100 "$0" >"$0.torn" && cat "$0.torn" >"$0" && rm "$0.torn"' "$state"
	done
	does "the agent is started again" chaos_heal kill-agent "$host"
	ok "both jobs end" eval "chaos_wait $id 90 && chaos_wait $dead 60"
	is "$(verdict_of "$id")" "failed failed 4 1" "the shim that lives says how its rank ends"
	is "$(chaos_show "$dead" '.status + " " + .attempts[0].outcome')" "failed lost" "of the other one nobody can say: lost"
}

clocks() {
	local id a b
	a=$(chaos_submit "clock-a-$round" mpirun 2 400 20)
	b=$(chaos_submit "clock-b-$round" direct 2 300 20 9)
	running "$a" 1 0 1 && running "$b" 1 0 1
	chaos_look
	does "an agent is killed" chaos_inject kill-agent host1
	HEARTH_FAULTS=clock.forward=40,clock.suspend=1000 does "started, its clock will jump an hour and a minute be slept" chaos_heal kill-agent host1
	does "hearthd is killed" chaos_inject kill-hearthd
	HEARTH_FAULTS=clock.back=200,clock.suspend=3000 does "started, its clock will jump back, and a minute be slept" chaos_heal kill-hearthd
	id=$(chaos_submit "clock-c-$round" mpirun 4 100 20)
	ok "the jobs end" eval "chaos_wait $a 90 && chaos_wait $b 60 && chaos_wait $id 60"
	is "$(verdict_of "$a") / $(verdict_of "$b") / $(verdict_of "$id")" "completed succeeded 0 1 / failed failed 9 1 / completed succeeded 0 1" "as they should, each in its first attempt"
	for id in agent-host1 hearthd; do
		ok "the clocks of $id have jumped" wait_until 60 eval "grep -q 'fault_injected name=clock.[fb]' $CLUSTER/$id.log && grep -q 'fault_injected name=clock.suspend' $CLUSTER/$id.log"
	done
	chaos_inject kill-agent host1 && chaos_heal kill-agent host1
	chaos_inject kill-hearthd && chaos_heal kill-hearthd
}

# The controller comes back with an older store than the agents have seen: what runs is of an epoch that is not on record. (After the
# verifier: that records are missing then is no finding.)
restored() {
	local id host
	id=$(chaos_submit restored direct 1 2000 20)
	running "$id" 1 0
	ok "a backup" "$HEARTHD" --data "$CLUSTER/head/data" --backup "$CLUSTER/backup.db"
	chaos_requeue "$id" >/dev/null
	running "$id" 2 0
	host=$(chaos_host_of "$id" 0)
	does "hearthd is killed" chaos_inject kill-hearthd
	rm -f "$CLUSTER/head/data/hearth.db"*
	cp "$CLUSTER/backup.db" "$CLUSTER/head/data/hearth.db"
	does "and started with the backup" chaos_heal kill-hearthd
	ok "the job on record has ended" chaos_wait "$id" 60
	is "$(verdict_of "$id")" "failed lost null 1" "as lost: what it knows of is not there"
	ok "the attempt that it does not know was ended" wait_until 30 cluster_is_clean "$host"
	nok "before its end" grep -q '^end' "$HIST/side/$id.2.0"
	id=$(chaos_submit after-restore direct 4 3 20)
	ok "the next job is fine" chaos_wait "$id" 60 || diag "$(hearth why "$id")" "$(hearth nodes)" "$(tail -n 40 "$CLUSTER/agent-host1.log")"
	is "$(verdict_of "$id")" "completed succeeded 0 1" "on all nodes"
}

# The store is put back to a time when the job was held, while a node has seen three attempts of it. The attempt that hearthd then makes has an epoch
# of the new incarnation: the node accepts it.
old_epoch() {
	local id log=$CLUSTER/agent-host1.log host attempt
	for host in $CLUSTER_HOSTS; do hearth node drain "$host" --reason test >/dev/null; done
	id=$(chaos_submit old-epoch direct 1 200 20)
	ok "a job is held" hearth hold "$id"
	ok "a backup" "$HEARTHD" --data "$CLUSTER/head/data" --backup "$CLUSTER/backup2.db"
	hearth node resume host1 >/dev/null
	ok "the job is released" hearth release "$id"
	for attempt in 1 2 3; do
		[ $attempt -eq 1 ] || chaos_requeue "$id" >/dev/null
		ok "attempt $attempt runs" running "$id" $attempt 0
	done
	does "hearthd is killed" chaos_inject kill-hearthd
	rm -f "$CLUSTER/head/data/hearth.db"*
	cp "$CLUSTER/backup2.db" "$CLUSTER/head/data/hearth.db"
	does "and started with the backup" chaos_heal kill-hearthd
	wait_until 30 cluster_node_up host1
	hearth node resume host1 >/dev/null
	ok "attempt 3, which it does not know, is ended" wait_until 60 cluster_is_clean host1
	is "$(chaos_show "$id" '.status + " " + (.attempts | length | tostring)')" "held 0" "on record the job has never run"
	hearth release "$id" >/dev/null
	ok "the job ends" chaos_wait "$id" 60
	is "$(verdict_of "$id")" "completed succeeded 0 1" "well, in the first attempt on record"
	is "$(grep -c '^start' "$HIST/side/$id.1.0")" 2 "its program began once in each time line"
	nok "no order was too old for the node" grep -q "event=old_order .*job=$id " "$log"
	for host in $CLUSTER_HOSTS; do hearth node resume "$host" >/dev/null; done
}

rounds=${HEARTH_SOAK:+20}
for round in $(seq "${CHAOS_ROUNDS:-${rounds:-1}}"); do
	# A cluster of its own each: the records of jobs stay, and after a dozen rounds the small disk would be really full of them.
	[ "$round" -eq 1 ] || { chaos_down && chaos_up 4; } || bail "no cluster for round $round"
	full_store
	nearly_full
	full_log
	torn_state
	clocks
	verdict=$(chaos_finish 120)
	is $? 0 "the verifier finds nothing (round $round)"
	diag "$verdict"
done
restored
old_epoch
chaos_down
done_testing
