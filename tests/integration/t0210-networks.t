#!/bin/bash
# Nodes whose networks differ, as racks have them: each node of an mpirun job uses its own, and no other interface.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
[ -x "$HEARTH_TOP_BUILDDIR/tests/programs/ring" ] || skip_all "mpicc was not there at build time"

cluster_up 2 && cluster_hearthd || bail "no cluster"
for i in 1 2; do
	# Racks: a network each, and what leads to the others. The second interface leads nowhere, and has the same address on every host.
	cluster_in "host$i" ip addr flush dev eth0
	cluster_in "host$i" ip addr add "10.77.$i.1/24" dev eth0
	cluster_in "host$i" ip route add 10.77.0.0/16 dev eth0
	cluster_in "host$i" ip link add stray0 type veth peer name stray1
	cluster_in "host$i" ip addr add 192.168.99.1/24 dev stray0
	cluster_in "host$i" ip link set stray0 up
	cluster_in "host$i" ip link set stray1 up
	cluster_agent "host$i" --slots 4 --address "10.77.$i.1" || bail "no agent"
done
wait_until 30 cluster_node_up host1 && wait_until 30 cluster_node_up host2 || bail "the nodes did not come up"
mkdir -p "$CLUSTER/src" && cp "$HEARTH_TOP_BUILDDIR/tests/programs/ring" "$CLUSTER/src/"

run() { # NAME MEMBERS...: to its end; id
	printf '{"name": "%s", "source_dir": "%s/src", "launcher": "mpirun", "resources": {"instances": 2, "ranks_per_instance": 2}, %s}\n' "$1" "$CLUSTER" "${*:2}" >"$CLUSTER/$1.json"
	id=$(hearth submit "$CLUSTER/$1.json" 2>/dev/null)
	hearth wait "$id" --timeout 120 >/dev/null
	rc=$?
	[ "$rc" -eq 0 ] || diag "job $1 ended with $rc" "$(hearth show "$id")" "$(hearth logs "$id" 2>&1)" "$(hearth logs "$id" --stream mpirun 2>&1 | tail -5)"
}
all_logs() { # JOB: what ranks and launchers wrote
	for r in 0 1 2 3; do hearth logs "$1" --rank "$r" 2>/dev/null; done
	hearth logs "$1" --stream mpirun 2>/dev/null
}
show_net='"command": ["/bin/sh", "-c", "echo net=$OMPI_MCA_btl_tcp_if_include oob=$OMPI_MCA_oob_tcp_if_include; exec ./ring"]'
run nets "$show_net"
is "$rc" 0 "ranks in two networks talk"
like "$(hearth logs "$id")" "sum=6" "the reduction is right"
like "$(hearth logs "$id" --rank 0)" "net=10\.77\.1\.0/24 oob=10\.77\.1\.0/24" "a rank on the first node uses the first network"
like "$(hearth logs "$id" --rank 2)" "net=10\.77\.2\.0/24 oob=10\.77\.2\.0/24" "a rank on the second node its own"
unlike "$(all_logs "$id")" "Did not find|invalid value|WARNING" "Open MPI finds nothing to complain of"
# Somebody who knows better is not corrected.
run own "$show_net," '"mpi_options": ["--mca", "btl_tcp_if_include", "eth0"]'
is "$rc" 0 "an interface that the job names itself"
like "$(hearth logs "$id" --rank 0)" "net=eth0" "is used on the first node"
like "$(hearth logs "$id" --rank 2)" "net=eth0" "and on the second"
cluster_clean "at the end"
cluster_down
done_testing
