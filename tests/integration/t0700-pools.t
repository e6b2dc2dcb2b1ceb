#!/bin/bash
# Warm pools on real processes: a job leaves one, a second job of its owner takes it and gives it back, hearthd is killed at each step, another owner
# never has it, and it ends in time.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms --set warm_parked=no)
cluster_up 2 && cluster_hearth --slots 2 --fake-gpus 1 --min-uid 1 || bail "no cluster"

spec() { # NAME SHELL-COMMAND KEEP-S
	jq -n --arg n "$1" --arg c "$2" --argjson k "$3" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", resources: {gpus_per_instance: 1, ranks_per_instance: 1}, retry: {max_attempts: 0}, warm_pool: {keep_alive_s: $k}}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
}
submit() { cluster_as daemon submit "$CLUSTER/$1.json" 2>>"$CLUSTER/said"; }
show() { hearth show "$1" --json | jq -r "$2"; }
api() { cluster_in head curl -s --unix-socket "$CLUSTER/head/data/hearthd.sock" "${@:2}" "http://h/api/v1$1"; }
pool() { api "/pools?state=all" | jq -r "[.pools[] | select(.id == $1)][0] | $2"; } # ID FILTER
pool_is() { [ "$(pool "$1" .state)" = "$2" ]; }
newest() { api "/pools?state=all" | jq -r '[.pools[].id] | max'; }
kill_hearthd() {
	cluster_signal hearthd KILL
	wait_until 30 cluster_gone hearthd
	cluster_hearthd
	for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
}

spec first 'exit 0' 120
spec second 'exit 0' 4
spec long 'sleep 300' 120
is "$(api /pools | jq -c .)" '{"pools":[],"total":0}' "no pool is there"
one=$(submit first)
hearth wait "$one" --timeout 60 >/dev/null
id=$(newest)
is "$(pool "$id" .state)" available "a job with a keep-alive time leaves a pool"
is "$(pool "$id" .made_by)" "$one" "the pool names the job"
is "$(pool "$id" '.nodes[0].node')" "$(show "$one" '.attempts[0].nodes[0]')" "and its node"
like "$(pool "$id" .expires_at)" '^20..-' "and says when it ends"
kill_hearthd
is "$(pool "$id" .state)" available "hearthd was killed: the pool is there"

two=$(submit long)
is "$(show "$two" '.attempts[0].pool.id')" "$id" "the next job of the owner takes the pool"
is "$(show "$two" '.attempts[0].pool.level')" environment "at level environment"
is "$(pool "$id" .used_by)" "$two" "the pool is in use"
kill_hearthd
is "$(pool "$id" .used_by)" "$two" "hearthd was killed: the pool is in use"
hearth submit "$CLUSTER/second.json" >"$CLUSTER/other" 2>/dev/null
other=$(cat "$CLUSTER/other")
hearth wait "$other" --timeout 60 >/dev/null
is "$(show "$other" '.attempts[0].pool')" null "a job of another owner runs on the other node, without a pool"
hearth stop "$two" --grace 1 >/dev/null
hearth wait "$two" --timeout 60 >/dev/null
is "$(pool "$id" .state)" available "a user stops the job: it gives the pool back under its number"

three=$(submit second)
is "$(show "$three" '.attempts[0].pool.id')" "$id" "a third job takes it"
hearth wait "$three" --timeout 60 >/dev/null
sleep_until=$(pool "$id" '.expires_at | sub("\\.[0-9]+"; "") | fromdate')
wait_until 20 pool_is "$id" terminated
now=$(date +%s)
ok "it ends within a second of its time" test $((now - sleep_until)) -le 2
is "$(pool "$id" .cause)" expired "because it expired"
like "$(hearth nodes)" "host1 +idle|host1 +up" "its node is free"

four=$(submit first)
hearth wait "$four" --timeout 60 >/dev/null
id=$(newest)
is "$(api "/pools/$id" -X DELETE | jq -r .cause)" dropped "an administrator drops a pool"
data=$CLUSTER/head/data
cluster_signal hearthd TERM
wait_until 30 cluster_gone hearthd
ok "events and rows of pools agree" cluster_in head "$HEARTHD" --data "$data" --verify
done_testing
