#!/bin/bash
# Four nodes on two switches, as their agents' labels say: host1 and host2 on s1, host3 and host4 on s2; the first three in rack r1. Gangs go to one switch where one can take them; a hard span
# waits for that, a soft one does not; what no switch could hold is refused, and is taken when labels change.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
agent() { cluster_agent "$1" --slots 4 --fake-gpus 2 --labels "$2,me=$1"; } # HOST LABELS
if ! cluster_up 4 || ! cluster_hearthd; then bail "no cluster"; fi
for at in host1:switch=s1,rack=r1 host2:switch=s1,rack=r1 host3:switch=s2,rack=r1 host4:switch=s2; do agent "${at%%:*}" "${at#*:}" || bail "no agent"; done
for host in host1 host2 host3 host4; do wait_until 60 cluster_node_up "$host" || bail "no node $host"; done

submit() { # INSTANCES PLACEMENT REQUIRES SUBMIT-ARGS...: two GPUs each, so that an instance fills its node
	jq -n --argjson i "$1" --argjson p "$2" --argjson r "$3" '{command: ["/bin/sleep", "600"], launcher: "direct", limits: {max_runtime_s: 3600, grace_s: 1},
		resources: {instances: $i, gpus_per_instance: 2, ranks_per_instance: 1, placement: $p, requires: $r}}' >"$CLUSTER/job.json"
	shift 3
	hearth submit "$CLUSTER/job.json" "$@"
}
status() { hearth show "$1" --json | jq -r .status; }
is_now() { [ "$(status "$1")" = "$2" ]; }
# The nodes where it runs.
where() { hearth nodes --json | jq -r --argjson j "$1" '[.nodes[] | select(.jobs | index($j)) | .name] | sort | join(" ")'; }
stop() { hearth stop "$1" --grace 1 >/dev/null && wait_until 60 is_now "$1" stopped; }
hard='{"span": "switch", "hard": true}'

said=$(hearth nodes)
like "$said" "SWITCH" "nodes shows switches"
ok "and racks" jq -e '.nodes | map({(.name): [.switch, .rack]}) | add | . == {host1: ["s1", "r1"], host2: ["s1", "r1"], host3: ["s2", "r1"], host4: ["s2", null]}' <<<"$(hearth nodes --json)"

two=$(submit 2 '{}' '[]')
ok "a gang of two runs" wait_until 60 is_now "$two" running
is "$(where "$two")" "host1 host2" "on one switch"
pin=$(submit 1 '{}' '["me=host3"]')
ok "one node of the other switch is taken" wait_until 60 is_now "$pin" running
stop "$two"
pin1=$(submit 1 '{}' '["me=host1"]')
ok "and one of the first" wait_until 60 is_now "$pin1" running

soft=$(submit 2 '{"span": "switch"}' '[]')
ok "a soft span spreads" wait_until 60 is_now "$soft" running
is "$(where "$soft")" "host2 host4" "over both switches"
stop "$soft"

waits=$(submit 2 "$hard" '[]')
is "$(status "$waits")" queued "a hard span waits"
said=$(hearth why "$waits")
like "$said" "all on one switch; 1 free now on s1" "why says what for"
like "$said" "resources.placement.hard=false" "and that it would fit otherwise"
stop "$pin1"
ok "the hard one starts when a switch is free" wait_until 60 is_now "$waits" running
is "$(where "$waits")" "host1 host2" "on that"
stop "$waits"

said=$(submit 3 "$hard" '[]' 2>&1)
ok "three on a switch of two are refused" test "$?" -ne 0
like "$said" "nearest is switch s1, where 2 of 2 known nodes could take one: 2 instances at most" "with the nearest possible"
said=$(submit 4 '{"span": "rack", "hard": true}' '[]' 2>&1)
like "$said" "nearest is rack r1, where 3 of 3 known nodes" "four in one rack as well"
cluster_signal agent-host3 TERM
gone() { ! kill -0 "$(cat "$CLUSTER/agent-host3.pid")" 2>/dev/null; }
ok "the agent of host3 ends" wait_until 60 gone
ok "and comes again with another label" agent host3 switch=s1,rack=r1
on_s1() { [ "$(hearth nodes --json | jq -r '.nodes[] | select(.name == "host3" and .state == "up") | .switch')" = s1 ]; }
ok "which is shown" wait_until 60 on_s1
stop "$pin"
three=$(submit 3 "$hard" '[]')
ok "now three run on one switch" wait_until 60 is_now "$three" running
is "$(where "$three")" "host1 host2 host3" "on s1"
stop "$three"

cluster_clean
cluster_down
done_testing
