#!/bin/bash
# A gang of four on a full cluster loses a node while fifty jobs of others wait: it goes on with its other three nodes and a spare, and nobody else
# ever had one of the three. Without a spare it gives them back in time, and starts first of its priority.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 5 && cluster_hearth --slots 2 --fake-gpus 2 || bail "no cluster"
submit() { # NAME INSTANCES SHELL-COMMAND MEMBERS
	jq -n --arg n "$1" --argjson i "$2" --arg c "$3" --argjson m "{$4}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", resources: {instances: $i, gpus_per_instance: 2, ranks_per_instance: 1}} + $m' >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json" 2>>"$CLUSTER/said"
}
show() { hearth show "$1" --json | jq -r "$2"; }
status_is() { [ "$(show "$1" .status)" = "$2" ]; }
runs() { [ "$(show "$1" '"\(.status) \(.attempt_count)"')" = "running $2" ]; } # JOB ATTEMPTS
nodes() { show "$1" ".attempts[$2].nodes | join(\" \")"; }                       # JOB ATTEMPT-FROM-0
waiting() { show "$1" .members.waiting; }                                       # ARRAY
why() { hearth why "$1"; }
why_says() { why "$1" | grep -Eq "$2"; }

# --- a spare --------------------------------------------------------------------------------------------------------------
ok "a node is a spare" hearth node spare host5
gang=$(submit gang 4 'test "$HEARTH_ATTEMPT" = 1 && sleep 600; sleep 3')
ok "the gang runs" wait_until 30 runs "$gang" 1
others=$(submit others 1 'sleep 600' '"array": 50')
is "$(waiting "$others")" 50 "fifty jobs wait, because the cluster is full"
before=$(nodes "$gang" 0)
lost=$(show "$gang" '.attempts[0].nodes[1]')
cluster_power_off "$lost"
ok "the gang runs again" wait_until 40 runs "$gang" 2
is "$(nodes "$gang" 1)" "${before/$lost/host5}" "on its other three nodes, and on the spare in place of the lost one"
is "$(waiting "$others")" 50 "no other job ever had one of the three"
like "$(show "$gang" '.attempts[1].cause')" "node $lost was lost" "one sentence explains it"
ok "the gang completes" hearth wait "$gang" --timeout 60
started() { [ "$(waiting "$others")" -lt 50 ]; }
ok "then the others have the nodes" wait_until 30 started
hearth stop "$others" >/dev/null
ok "and end" wait_until 60 status_is "$others" stopped

# --- no spare -------------------------------------------------------------------------------------------------------------
hearth node spare host5 --off >/dev/null
gang=$(submit alone 4 'test "$HEARTH_ATTEMPT" = 1 && sleep 600; sleep 3' '"retry": {"wait_s": 4}')
ok "a gang has all four nodes" wait_until 60 runs "$gang" 1
others=$(submit more 1 'sleep 2' '"array": 50')
lost=$(show "$gang" '.attempts[0].nodes[1]')
cluster_cut "$lost"
ok "a gang waits for another node, and keeps three" wait_until 30 why_says "$gang" "waits for 1 node to replace $lost; keeps 3.* it gives them back and waits in the queue"
like "$(show "$gang" .reason)" "waits for 1 node to replace $lost; keeps 3; attempt 1 ended: node $lost was lost" "show says so, too"
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed meanwhile" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
is "$(waiting "$others")" 50 "no other job has one of the three"
ok "it gives them back in time" wait_until 30 status_is "$gang" queued
like "$(why "$gang")" "no node replaced $lost within 4s: the job gave back its other 3 nodes and waits first of its priority" "its reason says so"
ok "the others have them" wait_until 30 eval '[ "$(waiting "$others")" -lt 50 ]'
cluster_heal "$lost"
ok "the lost node is back, and the gang runs" wait_until 40 runs "$gang" 2
left=$(waiting "$others")
ok "before $left of the others" test "$left" -gt 0
hearth stop "$others" >/dev/null
ok "it completes" hearth wait "$gang" --timeout 60
ok "the others end" wait_until 60 status_is "$others" stopped
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
done_testing
