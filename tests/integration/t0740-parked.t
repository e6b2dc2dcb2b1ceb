#!/bin/bash
# Parked launches on real processes: a job leaves a pool, its nodes park, the next job runs in the launch that waited: right output, logs of its
# own and exit status; again and again, under direct and mpirun; and no process is left after a drop.
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

for launcher in direct mpirun; do
	spec "first-$launcher" 'echo one-$RANK' $launcher
	spec "second-$launcher" 'echo two-$RANK-$HEARTH_JOB_ID' $launcher
	spec "third-$launcher" 'echo three; exit 7' $launcher
	run "first-$launcher" >/dev/null
	id=$(pool_newest)
	pool_park "$id"
	is "$(pool "$id" '.parked.state')" parked "$launcher: the pool is parked after a job"
	two=$(run "second-$launcher")
	is "$(show "$two" '.attempts[0].pool.level')" launch "$launcher: the next job takes what is parked"
	is "$(show "$two" .status)" completed "$launcher: it completes"
	is "$(show "$two" '.attempts | length')" 1 "$launcher: in one attempt"
	{ hearth logs "$two" --rank 0; hearth logs "$two" --rank 1; } >"$CLUSTER/out" 2>&1
	like "$(cat "$CLUSTER/out")" 'two-0' "$launcher: its first rank wrote"
	like "$(cat "$CLUSTER/out")" 'two-1' "$launcher: and its second one"
	unlike "$(cat "$CLUSTER/out")" 'one-' "$launcher: its logs have nothing of the job before"
	pool_park "$id"
	three=$(run "third-$launcher")
	is "$(show "$three" '.attempts[0].pool.level')" launch "$launcher: the pool was parked again"
	is "$(show "$three" .status)" failed "$launcher: a job that fails"
	is "$(show "$three" .exit_code)" 7 "$launcher: has its own exit code"
	pool_park "$id"
	ok "$launcher: processes wait" test "$(shims)" -gt 0
	hearth pool drop "$id" >/dev/null
	wait_until 20 no_shim
	is "$(shims)" 0 "$launcher: after a drop no process is left"
done
done_testing
