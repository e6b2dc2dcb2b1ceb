#!/bin/bash
# Instance types and what jobs cost, on real processes.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 || bail "no cluster"
cluster_hearthd || bail "no hearthd"
cluster_agent host1 --slots 4 --fake-gpus 4 --instance-type ml.p4d.24xlarge || bail "no agent"
cluster_agent host2 --slots 4 --fake-gpus 4 --instance-type cabin --price 3.6 || bail "no agent"
for host in $CLUSTER_HOSTS; do wait_until 30 cluster_node_up "$host" || bail "$host is not up"; done

submit() { # NAME SHELL-COMMAND MEMBERS [OPTIONS...]
	jq -n --arg n "$1" --arg c "$2" --argjson m "{$3}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct"} + $m' >"$CLUSTER/$1.json"
	hearth submit "${@:4}" "$CLUSTER/$1.json" 2>"$CLUSTER/said"
}
show() { hearth show "$1" --json | jq -r "$2"; }
status_is() { [ "$(show "$1" .status)" = "$2" ]; }
price() { hearth nodes --json | jq --arg n "$1" '.nodes[] | select(.name == $n) | .price_per_hour'; }
typed() { echo '"resources": {"instance_type": '"$1"', "gpus_per_instance": '"${2:-1}"', "ranks_per_instance": 1}'; }
reborn() { # hearthd is killed and starts again
	cluster_signal hearthd KILL
	wait_until 30 cluster_gone hearthd
	cluster_hearthd
	for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
}

# --- instance types ---------------------------------------------------------------------------------------------
like "$(hearth instances 2>&1)" "cabin +1 .*
p4d.24xlarge +1 +8 +A100 +40GB" "instances lists the types of the nodes"
like "$(hearth instances 2>&1)" "more types are known: jobctl instances --all" "and says that there are more"
is "$(hearth instances ml.g5.12xlarge --json | jq -c '[.name, .family, .size, .gpus, .gpu_model, .nvlink, .price_per_hour]')" '["g5.12xlarge","g5","12xlarge",4,"A10G",false,null]' "one type"
nok "a type that there is not" hearth instances ml.g5.13xlarge
like "$(hearth instances ml.g5.13xlarge 2>&1)" 'did you mean "g5.1' "with the nearest"
is "$(price host1)" 0 "no price is shipped"
ok "a price is set" hearth instances set ml.p4d.24xlarge price_per_hour=7.2
is "$(price host1)" 7.2 "a node without one takes its type's"
is "$(price host2)" 3.6 "one that has one keeps it"
nok "a fact that there is not is refused" hearth instances set cabin gpuz=4
like "$(hearth instances set cabin gpuz=4 2>&1)" '"gpus"' "with the nearest"
nok "an unknown type is refused at submit" submit wrong "exit 0" "$(typed '"ml.p4d.24xlrge"')"
like "$(cat "$CLUSTER/said")" 'did you mean "p4d.24xlarge"' "with the nearest"
nok "one that no node is of, too" submit none "exit 0" "$(typed '["ml.p5.48xlarge"]')"
like "$(cat "$CLUSTER/said")" "the types here are: .*cabin" "with those that there are"
a=$(submit a "sleep 600" "$(typed '["ml.p4d.24xlarge", "cabin"]' 4)")
wait_until 60 status_is "$a" running
b=$(submit b "sleep 600" "$(typed '["ml.p4d.24xlarge", "cabin"]' 3)")
wait_until 60 status_is "$b" running
is "$(show "$a" '.attempts[0].nodes[0]') $(show "$b" '.attempts[0].nodes[0]')" "host1 host2" "the list is tried in order"
c=$(submit c "exit 0" "$(typed '"ml.p4d.24xlarge"')")
like "$(hearth why "$c")" "host1: 0 of 4 GPUs free" "a job of one type waits for it"
ok "own machines stand in" hearth instances set cabin as=ml.p4d.24xlarge
ok "and the waiting job runs there at once" hearth wait "$c" --timeout 60
is "$(show "$c" '.attempts[0].nodes[0]')" host2 "on that node"
reborn
is "$(hearth instances --json | jq -c '[.instances[] | select(.set) | [.name, .price_per_hour, .as]]')" '[["cabin",null,["ml.p4d.24xlarge"]],["p4d.24xlarge",7.2,[]]]' "hearthd was killed: what was set is there"
is "$(price host1)" 7.2 "and counts"
ok "it is taken back" hearth instances rm cabin
nok "and cannot be used any more" submit late "exit 0" "$(typed '"ml.p5.48xlarge"')"
hearth stop "$a" "$b" --grace 1 >/dev/null
hearth wait "$a" "$b" --timeout 60 >/dev/null

cluster_clean
cluster_down
done_testing
