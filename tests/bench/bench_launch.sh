#!/bin/bash
# Cold launch on 1, 2, 4 hosts (network namespaces) beside mpirun over sshd, plain and with Hearth's own settings, in the same run: bench_launch.sh [RUNS]. Needs root, mpicc, sshd.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
cluster_up 4 && cluster_hearth || exit 1
# Not below /tmp: jobs have one of their own.
programs=$(mktemp -d /var/tmp/hbXXXXXX)
trap 'cluster_down; rm -rf "$programs"' EXIT
mpicc -O2 -o "$programs/ring" "$HEARTH_TOP_SRCDIR/tests/programs/ring.c" || exit 1

# A plain sshd on each host, for the peer: own host key, one key for all.
ssh-keygen -q -t ed25519 -N '' -f "$CLUSTER/key"
ssh-keygen -q -t ed25519 -N '' -f "$CLUSTER/hostkey"
cat >"$CLUSTER/sshd_config" <<S
HostKey $CLUSTER/hostkey
AuthorizedKeysFile $CLUSTER/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
S
for h in $CLUSTER_HOSTS; do
	cluster_in "$h" mkdir -p /run/sshd
	cluster_spawn "$h" "sshd-$h" /usr/sbin/sshd -D -e -f "$CLUSTER/sshd_config"
done
ssh_args="-i $CLUSTER/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
for h in $CLUSTER_HOSTS; do
	# shellcheck disable=SC2086
	wait_until 10 cluster_in head ssh $ssh_args "$h" true || { echo "sshd on $h does not answer" >&2; exit 1; }
done
printf '{"bench": "machine", "cpus": %d, "kernel": "%s", "model": "%s", "mpi": "%s"}\n' "$(nproc)" "$(uname -r)" \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(mpirun --version | head -n 1)"
BENCH_HEAD=$(jq -cn '$ARGS.positional' --args -- nsenter -t "$(cat "$CLUSTER/head/pid1")" -n -u -m -p -i --) \
BENCH_FIRST=$(jq -cn '$ARGS.positional' --args -- nsenter -t "$(cat "$CLUSTER/host1/pid1")" -n -u -m -p -i --) \
BENCH_SSH_AGENT="ssh $ssh_args" \
BENCH_SSH_MCA=$(jq -cn '$ARGS.positional' --args -- --mca plm_rsh_agent "ssh $ssh_args" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0) \
	python3 "$HEARTH_TOP_SRCDIR/tests/bench/bench_launch.py" "$CLUSTER/head/data/hearthd.sock" "${1:-20}" "$programs/ring"
