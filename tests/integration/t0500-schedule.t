#!/bin/bash
# What orders jobs and keeps them waiting, on real processes: jobs that wait for other jobs.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearth --slots 4 --fake-gpus 4 || bail "no cluster"

submit() { # NAME SHELL-COMMAND MEMBERS [OPTIONS...]
	jq -n --arg n "$1" --arg c "$2" --argjson m "{$3}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct"} + $m' >"$CLUSTER/$1.json"
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
is "$(show "$after_bad" '.status + ": " + .reason')" "stopped: waited for job $bad to end well, and that one failed" "a wait that can never end ends the job, with the reason"
is "$(show "$chained" '.status + ": " + .reason')" "stopped: waited for job $after_bad to end well, and that one was stopped" "and what waits for that job"
ok "who waits for any end of it runs" hearth wait "$any" --timeout 60
is "$(show "$any" '.attempts | length')" 1 "once"
nok "what could never start is refused" submit late "exit 0" "" --after "$bad"
like "$(cat "$CLUSTER/said")" "could never start: it waited for job $bad to end well, and that one failed" "with the reason"

cluster_clean
cluster_down
done_testing
