#!/bin/bash
# A user edits and runs again, round after round, on two hosts with Python that imported its modules ahead: each run has the edited program, its own
# arguments, exit status and output, whatever was killed between or during the runs; and nothing is left at the end. HEARTH_SOAK: 500 rounds, or
# HEARTH_ROUNDS.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/parked.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
command -v mpirun >/dev/null || skip_all "mpirun is missing"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 2 && cluster_hearth --slots 2 --fake-gpus 1 || bail "no cluster"
rounds=${HEARTH_ROUNDS:-4} modules='["json", "decimal"]'
if [ -n "${HEARTH_SOAK:-}" ]; then
	rounds=${HEARTH_ROUNDS:-500}
	! /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || modules='["torch", "torch.distributed"]'
fi
RANDOM=${HEARTH_SEED:-1}
diag "seed ${HEARTH_SEED:-1}"

mkdir "$CLUSTER/code"
edit() { # ROUND EXIT-STATUS SECONDS: the program of that round
	printf 'word = "round-%d"\n' "$1" >"$CLUSTER/code/helper.py"
	cat >"$CLUSTER/code/train.py" <<P
import os, sys, time
import helper
rank = os.environ["RANK"]
print(f"{helper.word} rank={rank} lr={sys.argv[2]} job={os.environ['HEARTH_JOB']}", flush=True)
time.sleep($3)
sys.exit($2 if rank == "0" else 0)
P
	jq -n --argjson m "$modules" --arg dir "$CLUSTER/code" --arg lr "0.$1" '{name: "train", command: ["/usr/bin/python3", "train.py"], source_dir: $dir,
		hyperparameters: {lr: $lr}, launcher: "mpirun", resources: {instances: 2, gpus_per_instance: 1, ranks_per_instance: 1}, retry: {max_attempts: 3},
		limits: {grace_s: 1}, warm_pool: {keep_alive_s: 600, preload: $m}}' >"$CLUSTER/job.json"
}
agent_again() { # HOST
	wait_until 30 cluster_gone "agent-$1"
	cluster_agent "$1" --slots 2 --fake-gpus 1
}
hearthd_again() {
	wait_until 30 cluster_gone hearthd
	cluster_hearthd
}
kill_one() { # NAME: one of the processes of that name
	local pids
	mapfile -t pids < <(pids_named "$1")
	[ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null
}
hurt() { # WHAT
	local host=host$((RANDOM % 2 + 1))
	case $1 in
	hearthd) cluster_signal hearthd KILL && hearthd_again ;;
	agent) cluster_signal "agent-$host" KILL && agent_again "$host" ;;
	none) ;;
	*) kill_one "$1" ;;
	esac
}
nodes_up() { for host in $CLUSTER_HOSTS; do cluster_node_up "$host" || return 1; done; }
lines_of() { { hearth logs "$1" --rank 0; hearth logs "$1" --rank 1; } 2>/dev/null | grep -o 'round-.*' | sort -u | tr '\n' ' '; }

faults=(none none none none none hearthd agent mpirun orted hearth-shim hearth-rank python3)
bad=0 warm=0
for ((i = 1; i <= rounds; i++)); do
	status=$((RANDOM % 4 == 0 ? 3 : 0)) before=${faults[RANDOM % ${#faults[@]}]} during=none seconds=0
	[ $((RANDOM % 4)) -ne 0 ] || { during=${faults[RANDOM % ${#faults[@]}]} seconds=0.5; }
	# The last but one leaves a pool, which the last one finds parked.
	[ "$i" -lt $((rounds - 1)) ] || before=none during=none seconds=0
	edit "$i" $status $seconds
	hurt "$before"
	[ "$before" = none ] && [ "$during" = none ] && [ "$i" -gt 1 ] && pool_park "$(pool_newest)"
	wait_until 60 nodes_up
	id=$(hearth submit "$CLUSTER/job.json" 2>>"$CLUSTER/said")
	[ "$during" = none ] || { read -rt 0.3 <> <(:) || :; hurt "$during"; }
	hearth wait "$id" --timeout 90 >/dev/null
	got=$(hearth show "$id" --json | jq -r '[.status, (.exit_code // 0), .attempts[-1].pool.level // "cold"] | join(" ")')
	want=completed\ 0
	[ $status -eq 0 ] || want="failed 3"
	# A rank 0 that fails may end rank 1 before that has begun.
	first="round-$i rank=0 lr=0.$i job=$id " second="round-$i rank=1 lr=0.$i job=$id "
	lines=$(lines_of "$id")
	if [ "${got% *}" != "$want" ] || { [ "$lines" != "$first$second" ] && [ "$status$lines" != "3$first" ]; }; then
		bad=$((bad + 1))
		diag "round $i, job $id, $before killed before, $during during: $got, wanted $want; $lines"
	fi
	[[ $got != *interpreter ]] || warm=$((warm + 1))
done
is $bad 0 "$rounds rounds: each run is the edited program, with its own arguments, output and exit status"
diag "$warm of $rounds used interpreters that waited"
ok "some of them used interpreters that waited" test $warm -gt 0
for id in $(api "/pools" | jq -r '.pools[].id'); do hearth pool drop "$id" >/dev/null; done
wait_until 30 no_shim
cluster_clean "after all rounds"
cluster_signal hearthd TERM
wait_until 30 cluster_gone hearthd
ok "events and rows agree" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
done_testing
