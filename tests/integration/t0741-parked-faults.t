#!/bin/bash
# Faults of parked launches on real processes: hearthd, an agent, mpirun, an orted and a shim are killed while a pool is parked; a job that comes
# then is never worse off than cold.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/parked.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 2 && cluster_hearth --slots 2 --fake-gpus 1 --min-uid 1 || bail "no cluster"

spec() { # NAME SHELL-COMMAND LAUNCHER
	jq -n --arg n "$1" --arg c "$2" --arg l "$3" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: $l, resources: {instances: 2, gpus_per_instance: 1, ranks_per_instance: 1}, retry: {max_attempts: 0}, warm_pool: {keep_alive_s: 300}}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
}
submit() { cluster_as daemon submit "$CLUSTER/$1.json" 2>>"$CLUSTER/said"; }
show() { hearth show "$1" --json | jq -r "$2"; }
run() { # NAME -> id
	local id
	id=$(submit "$1")
	hearth wait "$id" --timeout 60 >/dev/null
	echo "$id"
}

good() { # DESCRIPTION: a job starts now and completes
	local id
	id=$(run again)
	is "$(show "$id" .status)" completed "$1: the next job completes"
	diag "level $(show "$id" '.attempts[0].pool.level'), $(show "$id" '.attempts | length') attempt(s)"
	like "$({ hearth logs "$id" --rank 0; hearth logs "$id" --rank 1; } 2>&1 | sort | tr "\\n" " ")" "again-0.*again-1" "$1: with its output"
	pool_park "$pool"
}

spec again 'echo again-$RANK' mpirun
run again >/dev/null
pool=$(pool_newest)
pool_park "$pool"
is "$(pool "$pool" .parked.state)" parked "the pool is parked"
number=$(pool "$pool" .parked.number)
cluster_signal hearthd KILL
wait_until 30 cluster_gone hearthd
cluster_hearthd
for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
is "$(pool "$pool" '[.parked.number, .parked.state] | join(" ")')" "$number parked" "hearthd was killed: the same launch waits"
good "hearthd was killed"
for name in mpirun orted hearth-shim hearth-rank; do
	victim=$(pids_named "$name" | tail -n 1)
	[ -n "$victim" ] || diag "no $name"
	kill -KILL "$victim"
	good "$name was killed"
done
cluster_signal agent-host2 KILL
wait_until 30 cluster_gone agent-host2
cluster_agent host2 --slots 2 --fake-gpus 1 --min-uid 1
wait_until 60 cluster_node_up host2
pool_park "$pool"
good "an agent was killed"
hearth pool drop "$pool" >/dev/null
wait_until 20 no_shim
is "$(shims)" 0 "after a drop no process is left"
data=$CLUSTER/head/data
cluster_signal hearthd TERM
wait_until 30 cluster_gone hearthd
ok "events and rows of pools agree" cluster_in head "$HEARTHD" --data "$data" --verify
done_testing
