#!/bin/bash
# Tiny jobs from submit to end on 4 hosts, with 0 and with STORED jobs in the store, beside Slurm on the same hosts in the same run:
# bench_tiny.sh [JOBS [STORED [SLURM-JOBS]]]. Needs root; Slurm where it is installed.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
. "$HEARTH_TOP_SRCDIR/tests/bench/slurm.sh"
jobs=${1:-300} stored=${2:-100000} slurm_jobs=${3:-100}
bench=$HEARTH_TOP_BUILDDIR/tests/bench
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }

for n in 0 $stored; do
	cluster_up 4 || exit 1
	# The agents' folders are in memory: a job makes and removes some thirty files and folders on its node, which costs most file systems
	# little and ext4 without a journal, as virtual machines have it, several milliseconds each. So is slurmd's spool (slurm.sh). The store is
	# on the disk, and so is slurmctld's state. BENCH_AGENTS_ON_DISK=1 puts both peers' folders on the disk.
	for host in $CLUSTER_HOSTS; do
		[ -n "${BENCH_AGENTS_ON_DISK:-}" ] || cluster_in "$host" mount -t tmpfs -o mode=755 tmpfs "$CLUSTER/$host/data" || exit 1
	done
	if [ "$n" -gt 0 ]; then "$bench/bench_fill" "$CLUSTER/head/data" "$n" >&2 || exit 1; fi
	cluster_hearth || exit 1
	"$bench/bench_tiny" "$CLUSTER/head/data/hearthd.sock" 50 "$n" 1 >/dev/null || exit 1 # warm
	"$bench/bench_tiny" "$CLUSTER/head/data/hearthd.sock" "$jobs" "$n" 3 || exit 1
	cluster_down
done

why=$(slurm_can)
if [ -n "$why" ] || [ "$slurm_jobs" -eq 0 ]; then
	printf '{"bench": "tiny", "system": "slurm", "skipped": "%s"}\n' "${why:-not asked for}"
	exit 0
fi
cluster_up 4 && slurm_up "$(nproc)" || { tail -5 "$CLUSTER"/slurm/*.log >&2; exit 1; }
printf '#!/bin/sh\nexec /bin/true\n' >"$CLUSTER/true.sh"
slurm_none() { [ -z "$(slurm squeue -h -o %i)" ]; }
now_ms() { date +%s%3N; }
slurm_round() { # NAME COMMAND...
	local name=$1 start submitted
	shift
	start=$(now_ms)
	slurm "$@" >/dev/null || exit 1
	submitted=$(now_ms)
	wait_until 300 slurm_none || { echo "Slurm's jobs are left after 300 s" >&2; exit 1; }
	awk -v n="$slurm_jobs" -v name="$name" -v a="$start" -v b="$submitted" -v c="$(now_ms)" 'BEGIN {
		printf "{\"bench\": \"tiny\", \"system\": \"slurm\", \"submitted\": \"%s\", \"jobs\": %d, \"submit_s\": %.2f, \"all_s\": %.2f, \"per_s\": %.1f}\n",
			name, n, (b - a) / 1000, (c - a) / 1000, n * 1000 / (c - a) }'
}
slurm_round "sbatch, 4 at once" sh -c "seq $slurm_jobs | xargs -P4 -I@ sbatch -n1 -o /dev/null $CLUSTER/true.sh"
slurm_round "one array" sbatch -n1 "--array=1-$slurm_jobs" -o /dev/null "$CLUSTER/true.sh"
