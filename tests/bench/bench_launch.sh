#!/bin/bash
# Cold launch on 1, 2, 4 hosts (network namespaces) beside mpirun over sshd, plain and with Hearth's own settings, in the same run: bench_launch.sh [RUNS]. Needs root, mpicc, sshd.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
. "$HEARTH_TOP_SRCDIR/tests/bench/sshd.sh"
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
cluster_up 4 && cluster_hearth || exit 1
# Not below /tmp or /var/tmp: jobs have their own.
programs=$(mktemp -d /srv/hbXXXXXX)
trap 'cluster_down; rm -rf "$programs"' EXIT
mpicc -O2 -o "$programs/ring" "$HEARTH_TOP_SRCDIR/tests/programs/ring.c" || exit 1

sshd_up || exit 1
printf '{"bench": "machine", "cpus": %d, "kernel": "%s", "model": "%s", "mpi": "%s"}\n' "$(nproc)" "$(uname -r)" \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(mpirun --version | head -n 1)"
BENCH_HEAD=$(jq -cn '$ARGS.positional' --args -- nsenter -t "$(cat "$CLUSTER/head/pid1")" -n -u -m -p -i --) \
BENCH_FIRST=$(jq -cn '$ARGS.positional' --args -- nsenter -t "$(cat "$CLUSTER/host1/pid1")" -n -u -m -p -i --) \
BENCH_SSH_AGENT="ssh $SSHD_ARGS" \
BENCH_SSH_MCA=$(jq -cn '$ARGS.positional' --args -- --mca plm_rsh_agent "ssh $SSHD_ARGS" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0) \
	python3 "$HEARTH_TOP_SRCDIR/tests/bench/bench_launch.py" "$CLUSTER/head/data/hearthd.sock" "${1:-20}" "$programs/ring"
