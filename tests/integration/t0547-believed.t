#!/bin/bash
# Jobs without a time limit go by what those of their owner and name took: one whose name has a history of short runs passes a gang that waits, one without history does not; nor does one
# that was given a long limit. After a restart of hearthd, too. What was decided is what the library decides when it is told the record.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearth --slots 4 --fake-gpus 4 || bail "no cluster"

submit() { # NAME INSTANCES GPUS LIMIT-S COMMAND: its number; LIMIT-S 0: none
	jq -n --arg n "$1" --argjson i "$2" --argjson g "$3" --argjson l "$4" --arg c "$5" \
		'{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", limits: ({grace_s: 1} + if $l > 0 then {max_runtime_s: $l} else {} end),
			resources: {instances: $i, gpus_per_instance: $g, ranks_per_instance: 1}}' >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
status() { hearth show "$1" --json | jq -r .status; }
is_now() { [ "$(status "$1")" = "$2" ]; }
both_up() { cluster_node_up host1 && cluster_node_up host2; }

for _ in 1 2 3; do
	job=$(submit short 1 1 0 "sleep 0.2")
	ok "a short run of that name" wait_until 60 is_now "$job" completed
done
long=$(submit long 1 4 3600 "sleep 900")
ok "one node is taken" wait_until 60 is_now "$long" running
gang=$(submit gang 2 4 600 "true")
first=$(submit short 1 1 0 "sleep 0.2")
ok "one of the same name passes the gang that waits" wait_until 60 is_now "$first" completed
like "$(hearth events "$first" | grep placed)" "kept for job $gang" "and its event says so"
unknown=$(submit unknown 1 1 0 "sleep 0.2")
limited=$(submit short 1 1 7200 "sleep 0.2")
again=$(submit short 1 1 0 "sleep 0.2")
ok "and another one" wait_until 60 is_now "$again" completed
is "$(status "$gang") $(status "$unknown") $(status "$limited")" "queued queued queued" "one without history waits behind the gang, and one with a long limit of its own"
ok "what the scheduler was told is written to a file" hearth trace -o "$CLUSTER/trace"
ok "it has what was believed" grep -q "^job .* believed=[1-9]" "$CLUSTER/trace"
is "$(hearth simulate "$CLUSTER/trace" --compare --json | jq -c .compare.equal)" true "and the library decides the same again"

cluster_signal hearthd KILL
ok "hearthd is killed" wait_until 20 cluster_gone hearthd
ok "and is there again" cluster_hearthd
ok "so are the nodes" wait_until 60 both_up
hearth stop "$unknown" >/dev/null
after=$(submit short 1 1 0 "sleep 0.2")
ok "by what is on record a short one passes the gang" wait_until 60 is_now "$after" completed
other=$(submit other 1 1 0 "sleep 0.2")
last=$(submit short 1 1 0 "sleep 0.2")
ok "and another one" wait_until 60 is_now "$last" completed
is "$(status "$gang") $(status "$other")" "queued queued" "one without history waits"
hearth stop "$long" --grace 1 >/dev/null
ok "when the long one has gone the gang runs" wait_until 120 is_now "$gang" completed
ok "and then the others" wait_until 120 is_now "$other" completed
ok "what was told since" hearth trace -o "$CLUSTER/trace"
is "$(hearth simulate "$CLUSTER/trace" --compare --json | jq -c .compare.equal)" true "is decided the same again"

cluster_clean
cluster_down
done_testing
