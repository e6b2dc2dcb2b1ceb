#!/bin/bash
# What orders jobs and keeps them waiting, on real processes: jobs that wait for other jobs, queues, shares and quotas.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearth --slots 4 --fake-gpus 4 || bail "no cluster"

submit() { # NAME SHELL-COMMAND MEMBERS [OPTIONS...]
	jq -n --arg n "$1" --arg c "$2" --argjson m "{$3}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", retry: {max_attempts: 0}} + $m' >"$CLUSTER/$1.json"
	hearth submit "${@:4}" "$CLUSTER/$1.json" 2>"$CLUSTER/said"
}
show() { hearth show "$1" --json | jq -r "$2"; }
status_is() { [ "$(show "$1" .status)" = "$2" ]; }
reborn() { # hearthd is killed and starts again
	cluster_signal hearthd KILL
	wait_until 30 cluster_gone hearthd
	cluster_hearthd
	for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
}

# --- jobs that wait for jobs ----------------------------------------------------------------------------------
first=$(submit first "exit 0" "" --hold)
bad=$(submit bad "exit 3" "" --hold)
after_first=$(submit after-first "exit 0" '"after": ['"$first"', "afterany:'"$bad"'"]')
after_bad=$(submit after-bad "exit 0" "" --after "$bad")
chained=$(submit chained "exit 0" "" --after afterok:after-bad)
any=$(submit any "exit 0" "" --after "afterany:$after_bad" --after after:first)
nok "a job that is not there is refused" submit lonely "exit 0" "" --after 4711
like "$(cat "$CLUSTER/said")" "there is no job 4711" "and named"
like "$(hearth why "$after_first")" "waits for job $first to end well, job $bad to end" "why says for which jobs it waits"
like "$(submit dry "exit 0" "" --after "$first" --dry-run)" "it would wait for job $first to end well" "a dry run, too"
reborn
like "$(hearth why "$after_first")" "waits for job $first to end well, job $bad to end" "hearthd was killed: it waits for the same"
hearth release "$first" >/dev/null
ok "the first completes" hearth wait "$first" --timeout 60
is "$(show "$after_first" '.status + ": " + .reason')" "queued: waits for job $bad to end" "one of two has come to pass"
like "$(hearth events "$after_first")" "awaited" "which is an event"
hearth release "$bad" >/dev/null
hearth wait "$bad" --timeout 60 >/dev/null
ok "any end lets the other go" hearth wait "$after_first" --timeout 60
hearth wait "$chained" --timeout 60 >/dev/null
is "$(show "$after_bad" '.status + ": " + .reason')" "stopped: waited for job $bad to end well, but it failed" "a wait that can never end ends the job, with the reason"
is "$(show "$chained" '.status + ": " + .reason')" "stopped: waited for job $after_bad to end well, but it was stopped" "and what waits for that job"
ok "who waits for any end of it runs" hearth wait "$any" --timeout 60
is "$(show "$any" '.attempts | length')" 1 "once"
nok "what could never start is refused" submit late "exit 0" "" --after "$bad"
like "$(cat "$CLUSTER/said")" "could never start: it waited for job $bad to end well, but it failed" "with the reason"

# --- queues, shares, quotas ---------------------------------------------------------------------------------------
gpu='"resources": {"gpus_per_instance": 1}'
nok "a job for a queue that is not there is refused" submit moon "exit 0" '"queue": "moon"'
like "$(cat "$CLUSTER/said")" 'there is no queue "moon"' "and named"
ok "a queue of weight 1" hearth queue set slow
ok "one of weight 3" hearth queue set fast weight=3
ok "a quota of four GPUs for all of it" hearth quota set slow gpus=4 borrow=yes
ok "another queue, with a quota" hearth queue set tight
ok "of two GPUs" hearth quota set tight gpus=2
reborn
is "$(hearth queue ls --json | jq -c '[.queues[] | select(.queue) | [.name, .weight, .quota_gpus, .borrow]]')" '[["default",1,null,false],["fast",3,null,false],["slow",1,4,true],["tight",1,2,false]]' "hearthd was killed: all is there"
like "$(hearth quota ls)" "tight +1 +2" "quota ls"
t1=$(submit t1 "sleep 300" '"queue": "tight", "resources": {"gpus_per_instance": 2}')
wait_until 60 status_is "$t1" running
t2=$(submit t2 "exit 0" '"queue": "tight", '"$gpu")
like "$(hearth why "$t2")" "tight holds 2 of the 2 GPUs of its quota; this job wants 1" "why names the quota that a job waits for"
nok "a job that its quota could never allow is refused" submit t3 "exit 0" '"queue": "tight", "resources": {"gpus_per_instance": 3}'
nok "a queue with jobs is not removed" hearth queue rm tight
ok "the quota is taken off" hearth quota rm tight
ok "and the job goes at once" hearth wait "$t2" --timeout 60
hearth stop "$t1" --grace 1 >/dev/null
hearth wait "$t1" --timeout 60 >/dev/null
ok "an empty queue is removed" hearth queue rm tight

# One job at a time on all 8 GPUs: 1 to 3. They go when all of them wait.
hearth quota rm slow >/dev/null
whole='"resources": {"instances": 2, "gpus_per_instance": 4, "ranks_per_instance": 1}'
block=$(submit block "sleep 3600" "$whole")
wait_until 60 status_is "$block" running
for i in $(seq 6); do
	submit "slow$i" "sleep 1.2" '"queue": "slow", '"$whole" >/dev/null
	submit "fast$i" "sleep 1.2" '"queue": "fast", '"$whole" >/dev/null
done
last=$(submit end "exit 0" '"priority": -5, '"$whole")
like "$(hearth why last)" "jobs? ahead" "the last one knows how many are ahead"
is "$(hearth ls --all --limit 100 --json | jq '[.jobs[] | select(.name | test("^(slow|fast)[0-9]")) | select(.status == "queued")] | length')" 12 "none of them started before the others came"
hearth stop "$block" --grace 1 >/dev/null
hearth wait "$block" --timeout 60 >/dev/null
reborn
ok "all of them run" hearth wait "$last" --timeout 300
starts=$(hearth ls --all --limit 100 --json | jq -r '[.jobs[] | select(.name | test("^(slow|fast)[0-9]"))] | sort_by(.started_at) | map(.name[0:4]) | .[0:8] | map(select(. == "fast")) | length')
ok "of the first eight starts about six are of the weight 3: $starts" test "$starts" -ge 5 -a "$starts" -le 7
changes=$(python3 -c 'import sqlite3, sys
for row in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute("SELECT type, data FROM event WHERE job = 0 AND type GLOB \"qu*_*\" ORDER BY id"): print(*row)' "$CLUSTER/head/data/hearth.db")
like "$changes" 'quota_set .*"tight".*"gpus":2' "each change is an event"
like "$changes" 'queue_removed .*"tight".*"by":' "with who made it"

# --- backfill and expected starts ---------------------------------------------------------------------------------
half='"resources": {"gpus_per_instance": 4, "ranks_per_instance": 1}'
like "$(submit now "exit 0" "$half" --dry-run)" "it would start now on host[12]" "a dry run says where it would start"
long=$(submit long "sleep 300" '"limits": {"max_runtime_s": 600}, '"$half")
wait_until 60 status_is "$long" running
gang=$(submit gang "exit 0" '"limits": {"max_runtime_s": 600}, '"$whole")
slow=$(submit slow "exit 0" '"limits": {"max_runtime_s": 36000}, '"$half")
quick=$(submit quick "exit 0" '"limits": {"max_runtime_s": 60}, '"$half")
ok "a short job passes the gang that waits for a node" hearth wait "$quick" --timeout 60
is "$(show "$slow" .status)" queued "a long one does not: the gang would wait for it"
like "$(hearth why "$gang")" "expected to start in about (10m|9m|8m)" "the gang starts when the running one has used its time"
like "$(hearth why "$slow")" "1 job ahead; (.*; )?expected to start in about (21m|20m|19m|18m)" "the long one when the gang has used its own"
is "$(hearth why "$slow" --json | jq -c .next)" "[$gang]" "and says who is before it"
like "$(submit dry "exit 0" "$whole" --dry-run)" "it would wait: .*expected to start in about .* on host1, host2" "a dry run says until when, and where then"
brief=$(submit brief "exit 0" '"limits": {"max_wait_s": 2}, '"$whole")
hearth wait "$brief" --timeout 60 >/dev/null
like "$(show "$brief" '.status + ": " + .reason')" "^failed: waited for 2s, its limit" "the longest wait ends a job with that reason"
hearth stop "$long" --grace 1 >/dev/null
ok "the gang runs" hearth wait "$gang" --timeout 60
ok "then the long one" hearth wait "$slow" --timeout 60

cluster_clean
cluster_down
done_testing
