#!/bin/bash
# Nodes that are kept for a time, on real processes: reservations of a queue and maintenance windows, over a restart of hearthd.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearth --slots 4 --fake-gpus 2 || bail "no cluster"

submit() { # NAME SHELL-COMMAND MEMBERS [OPTIONS...]
	jq -n --arg n "$1" --arg c "$2" --argjson m "{$3}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", resources: {gpus_per_instance: 2, ranks_per_instance: 1}} + $m' >"$CLUSTER/$1.json"
	hearth submit "${@:4}" "$CLUSTER/$1.json" 2>"$CLUSTER/said"
}
show() { hearth show "$1" --json | jq -r "$2"; }
status_is() { [ "$(show "$1" .status)" = "$2" ]; }
where() { show "$1" '.attempts[-1].nodes[0] | if type == "object" then .node else . end'; }
state_is() { [ "$(hearth reserve ls --json | jq -r --arg n "$1" '.reservations[] | select(.name == $n).state')" = "$2" ]; }
limit() { echo '"limits": {"max_runtime_s": '"$1"', "grace_s": 1}'; }
said() { like "$(cat "$CLUSTER/said")" "$1" "$2"; }
no() { nok "refused: $1" eval "hearth ${*:2} 2>'$CLUSTER/said'"; said "$1" "and says so"; }

like "$(hearth reserve ls)" "No node is reserved\. .*: jobctl reserve add" "the list is empty and says how to begin"
hearth queue set talk >/dev/null
no "in the past" reserve add x --nodes host1 --from 2020-01-01T00:00:00Z --to +1h --queue talk
no "not after its beginning" reserve add x --nodes host1 --from +2h --to +1h --queue talk
no 'there is no node "hots1".*did you mean host1' reserve add x --nodes hots1 --for 1h --queue talk
no 'there is no queue "moon"' reserve add x --nodes host1 --for 1h --queue moon
no "invalid time 'soon': expected now" reserve add x --nodes host1 --from soon --for 1h --queue talk
no "reserve add: missing --queue QUEUE or --maintenance" reserve add x --nodes host1 --for 1h
no "there are 2 nodes" reserve add x --count 3 --for 1h --maintenance

# --- for a queue -----------------------------------------------------------------------------------------------
busy=$(submit busy "sleep 300" "$(limit 7200)")
wait_until 60 status_is "$busy" running
taken=$(where "$busy")
free=host1
[ "$taken" = host1 ] && free=host2
made=$(hearth reserve add demo --count 1 --from +1h --for 30m --queue talk --reason "for the guests")
like "$made" "demo: $free, from .*, for the jobs of queue talk" "the node that is free then is chosen and named"
no "$free is in reservation 'demo' from" reserve add fans --nodes "$free" --from +70m --for 1h --maintenance
long=$(submit long "exit 0" "$(limit 7200)")
status_is "$long" queued
tap_result $? "a job that could run into it waits, although the node is free"
like "$(hearth why "$long")" "node $free is reserved for 'demo' from .* to .* UTC" "why names node, reservation and time"
like "$(hearth show "$long")" "reserved for 'demo'" "and so does show"
like "$(hearth nodes)" "reserved for 'demo' from" "nodes shows it"
short=$(submit short "exit 0" "$(limit 600)")
ok "one that is over by then runs" hearth wait "$short" --timeout 60
mine=$(submit mine "exit 0" '"queue": "talk", '"$(limit 7200)")
ok "one of the queue runs, whatever its limit" hearth wait "$mine" --timeout 60
nok "the queue stays while a reservation is for it" hearth queue rm talk
cluster_signal hearthd KILL
wait_until 30 cluster_gone hearthd
cluster_hearthd
for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
is "$(hearth reserve ls --json | jq -c '.reservations[] | [.name, .state, .queue, .nodes, .reason]')" "[\"demo\",\"planned\",\"talk\",[\"$free\"],\"for the guests\"]" "hearthd was killed: it is there"
like "$(hearth why "$long")" "reserved for 'demo'" "and keeps its node"
like "$(hearth reserve set demo --from +5h)" "demo: $free" "it is moved"
ok "the job that it held back runs at once" hearth wait "$long" --timeout 60
like "$(hearth reserve rm demo)" "reservation demo is removed" "it is removed"

# --- maintenance ---------------------------------------------------------------------------------------------------
made=$(hearth reserve add fans --nodes "$taken" --for 1h --maintenance)
like "$made" "fans: $taken, from .*, for maintenance" "a window that begins now"
like "$made" "job $busy \(busy, .*\) keeps running there until .*" "which job may go on is said at once"
wait_until 30 state_is fans active
like "$(hearth nodes)" "$taken +maintenance" "the node is in maintenance"
status_is "$busy" running
tap_result $? "the job goes on"
hearth stop "$busy" --grace 1 >/dev/null
hearth wait "$busy" --timeout 60 >/dev/null
both=$(submit both "exit 0" '"resources": {"instances": 2, "gpus_per_instance": 2, "ranks_per_instance": 1}, '"$(limit 5)")
status_is "$both" queued
tap_result $? "no job starts there, however short"
like "$(hearth why "$both")" "node $taken is reserved for maintenance 'fans'" "why says so"
hearth reserve set fans --to +3s >/dev/null
ok "its end is changed, it ends by itself, and the job goes" hearth wait "$both" --timeout 60
ok "it is shown as ended" state_is fans ended
changes=$(python3 -c 'import sqlite3, sys
for row in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute("SELECT type, data FROM event WHERE job = 0 AND type GLOB \"reservation_*\" ORDER BY id"): print(*row)' "$CLUSTER/head/data/hearth.db")
like "$changes" 'reservation_began .*"fans".*launches of other jobs that continue there: 1' "its beginning is an event"
like "$changes" 'reservation_ended .*"fans"' "its end, too"
like "$changes" 'reservation_removed .*"demo".*"by":' "and each removal, with who did it"
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify

cluster_clean
cluster_down
done_testing
