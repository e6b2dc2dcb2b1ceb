#!/bin/bash
# Starts on warm pools (environment, parked launch, parked interpreter) on 1, 2, 4 hosts (network namespaces), beside cold Hearth, mpirun over sshd and
# Slurm in the same run: bench_warm.sh [RUNS [IDLE-SECONDS]]. IDLE-SECONDS: also one run after so long a wait. Needs root, mpicc, sshd; torch and Slurm
# where they are installed. BENCH_HOSTS="2": only those.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
. "$HEARTH_TOP_SRCDIR/tests/bench/sshd.sh"
. "$HEARTH_TOP_SRCDIR/tests/bench/slurm.sh"
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
cluster_up 4 && cluster_hearth || exit 1
# Not below /tmp or /var/tmp: jobs have their own.
programs=$(mktemp -d /srv/hbXXXXXX)
trap 'cluster_down; rm -rf "$programs"' EXIT
mpicc -O2 -o "$programs/ring" "$HEARTH_TOP_SRCDIR/tests/programs/ring.c" || exit 1
cp "$HEARTH_TOP_SRCDIR/tests/bench/ddp_step.py" "$programs/" || exit 1
chmod 755 "$programs" || exit 1
sshd_up || exit 1
head=(nsenter -t "$(cat "$CLUSTER/head/pid1")" -n -u -m -p -i --)
why=$(slurm_can)
if [ -z "$why" ] && slurm_up 4; then
	BENCH_SLURM=$(jq -cn '$ARGS.positional' --args -- "${head[@]}" env SLURM_CONF="$CLUSTER/slurm/slurm.conf")
	export BENCH_SLURM
else
	printf '{"bench": "warm", "system": "slurm", "skipped": "%s"}\n' "${why:-it did not start}"
fi
printf '{"bench": "machine", "cpus": %d, "kernel": "%s", "model": "%s", "mpi": "%s"}\n' "$(nproc)" "$(uname -r)" \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(mpirun --version | head -n 1)"
BENCH_HEAD=$(jq -cn '$ARGS.positional' --args -- "${head[@]}") \
BENCH_SSH_MCA=$(jq -cn '$ARGS.positional' --args -- --mca plm_rsh_agent "ssh $SSHD_ARGS" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0) \
	python3 "$HEARTH_TOP_SRCDIR/tests/bench/bench_warm.py" "$CLUSTER/head/data/hearthd.sock" "${1:-20}" "${2:-0}" "$programs/ring" "$programs/ddp_step.py"
