#!/bin/bash
# A gang of four hosts runs real programs under each launcher; two jobs never share a GPU or a CPU slot; a third waits and says for what.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
programs=$HEARTH_TOP_SRCDIR/tests/programs
cluster_up 4 || bail "no hosts"
# The login shell of the account is sh, as useradd makes it: mpirun words its remote commands by it. Elsewhere it is bash.
sed 's,^\(root:.*\):[^:]*$,\1:/bin/sh,' /etc/passwd >"$CLUSTER/passwd"
for host in $CLUSTER_HOSTS; do cluster_in "$host" mount --bind "$CLUSTER/passwd" /etc/passwd || bail "no passwd of its own"; done
cluster_hearth --fake-gpus 2 --slots 4 || bail "no cluster"
mkdir -p "$CLUSTER/src" && cp "$programs"/*.py "$CLUSTER/src/"

job() { # NAME JSON-MEMBERS...: a specification on standard output
	local name=$1
	shift
	printf '{"name": "%s", "source_dir": "%s/src", %s}\n' "$name" "$CLUSTER" "$*"
}
submit() { job "$@" >"$CLUSTER/$1.json" && hearth submit "$CLUSTER/$1.json"; }
run() { # NAME MEMBERS...: runs to its end; the log of rank 0 is in $log
	id=$(submit "$@") || { log=; return 1; }
	hearth wait "$id" --timeout 90 >/dev/null
	rc=$?
	log=$(hearth logs "$id" 2>&1)
	[ "$rc" -eq 0 ] || { diag "job $1 ended with $rc" "$(hearth show "$id")" "$log" "$(hearth logs "$id" --stream mpirun 2>&1 | tail -5)"; return 1; }
}
four='"resources": {"instances": 4, "ranks_per_instance": 1}'

if [ -x "$HEARTH_TOP_BUILDDIR/tests/programs/ring" ]; then
	cp "$HEARTH_TOP_BUILDDIR/tests/programs/ring" "$CLUSTER/src/"
	run ring '"command": ["./ring"], "launcher": "mpirun", "resources": {"instances": 4, "ranks_per_instance": 2}'
	tap_result $? "a C program with MPI on 4 hosts x 2 ranks"
	like "$log" "rank 0 of 8 on host" "rank 0 sees 8 ranks"
	like "$log" "sum=28" "the reduction is right"
	like "$(hearth logs "$id" --rank 7)" "rank 7 of 8 on host4" "rank 7 is on the fourth node"
else
	skip "a C program with MPI" "mpicc was not there at build time"
fi
run py '"command": ["/usr/bin/python3", "mpi4py_sum.py"], "launcher": "mpirun",' "$four"
tap_result $? "mpi4py on 4 hosts"
like "$log" "sum=6" "its reduction is right"
for launcher in mpirun direct torchrun; do
	run "ddp-$launcher" '"command": ["/usr/bin/python3", "ddp.py"], "launcher": "'$launcher'", "metrics": [{"name": "loss", "regex": "rank=0 .*loss=([0-9.]+)"}],' "$four"
	tap_result $? "PyTorch DDP on 4 hosts under $launcher"
	like "$log" "rank 0 of 4 on host1 same=True" "all ranks have the same weights"
	is "$(hearth metrics "$id" --json | jq -r '.metrics.loss.count // .loss.count')" 10 "the loss that it printed is kept"
done
run ps '"command": ["/usr/bin/python3", "parameter_server.py"], "launcher": "direct", "groups": [{"name": "chief", "instances": 1}, {"name": "ps", "instances": 1}, {"name": "worker", "instances": 2}]'
tap_result $? "a parameter-server job of unequal groups"
like "$log" 'chief:0 of \{"chief": 1, "ps": 1, "worker": 2\}' "TF_CONFIG has the groups"
like "$log" "sum=3" "workers, server and chief talked"

# Two jobs at once, each half of every node's GPUs and slots; a third has to wait.
half='"command": ["/bin/sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES cpus=$(taskset -pc $$ | sed s/.*:.//); exec sleep 60"], "launcher": "direct", "resources": {"instances": 4, "gpus_per_instance": 1, "cpus_per_rank": 2}'
a=$(submit half-a "$half") b=$(submit half-b "$half") c=$(submit half-c "$half")
ok "two jobs run at once" hearth wait "$a" "$b" --for running --timeout 30
for r in 0 1 2 3; do
	wait_until 10 eval "la=\$(hearth logs $a --rank $r | head -1); lb=\$(hearth logs $b --rank $r | head -1); [ -n \"\$la\" ] && [ -n \"\$lb\" ]"
	la=$(hearth logs "$a" --rank $r | head -1) lb=$(hearth logs "$b" --rank $r | head -1)
	[ -n "$la" ] && [ -n "$lb" ] && [ "${la%% *}" != "${lb%% *}" ]
	tap_result $? "rank $r: different GPUs ($la; $lb)"
done
is "$(hearth show "$c" --json | jq -r .status)" queued "the third waits"
like "$(hearth why "$c")" "GPU" "why says for what"
ok "one is stopped" hearth stop "$a" --grace 2
ok "then the third runs" hearth wait "$c" --for running --timeout 30
ok "stop the others" hearth stop "$b" "$c" --grace 2
ok "they end" wait_until 30 eval '[ -z "$(hearth ls status:active --json | jq -r ".jobs[].id")" ]'
for host in $CLUSTER_HOSTS; do cluster_in "$host" umount /etc/passwd; done
cluster_clean
cluster_down
done_testing
