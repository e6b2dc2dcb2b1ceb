# shellcheck shell=bash
# slurm: Slurm on the hosts of a cluster (tests/lib/cluster.sh), as a peer. Sourced after cluster_up.
#
#   slurm_can               nothing, or why not (Debian: slurmctld slurmd slurm-client munge)
#   slurm_up SLOTS          munged and slurmctld on head, a slurmd a host with that many CPUs; waits until all are idle
#   slurm COMMAND...        a client on head
#
# Set up for speed: slurmd's spool in memory (BENCH_AGENTS_ON_DISK=1: on disk, as then Hearth's), no accounting, no task plugin, no cgroups, batch jobs scheduled at once. The network of one machine and
# no file system between: a real cluster would be slower. cluster_down ends all of it.
slurm_can() {
	local p
	for p in slurmctld slurmd munged sbatch; do
		PATH=$PATH:/usr/sbin command -v $p >/dev/null || { echo "$p is not installed"; return; }
	done
}
slurm() { cluster_in head env SLURM_CONF="$CLUSTER/slurm/slurm.conf" "$@"; }
slurm_idle() { [ "$(slurm sinfo -h -o %D -t idle 2>/dev/null)" = "$(wc -w <<<"$CLUSTER_HOSTS")" ]; }
slurm_up() {
	local dir=$CLUSTER/slurm host n
	n=$(wc -w <<<"$CLUSTER_HOSTS")
	mkdir -p "$dir/state" && chmod 755 "$dir" || return 1
	head -c 1024 /dev/urandom >"$dir/munge.key" && chmod 400 "$dir/munge.key" || return 1
	cat >"$dir/slurm.conf" <<S
ClusterName=bench
SlurmctldHost=head
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge.sock
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
MaxJobCount=20000
MaxArraySize=5001
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1,sched_interval=1
NodeName=host[1-$n] CPUs=$1 RealMemory=1000 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
S
	printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$dir/cgroup.conf"
	cluster_in head munged --force --key-file="$dir/munge.key" --socket="$dir/munge.sock" --pid-file="$dir/munged.pid" \
		--log-file="$dir/munged.log" --seed-file="$dir/munge.seed" || return 1
	slurm /usr/sbin/slurmctld -c || return 1
	for host in $CLUSTER_HOSTS; do
		mkdir -p "$dir/spool.$host"
		# In memory, as the agents' folders are (bench_tiny.sh).
		[ -n "${BENCH_AGENTS_ON_DISK:-}" ] || cluster_in "$host" mount -t tmpfs -o mode=755 tmpfs "$dir/spool.$host" || return 1
		cluster_in "$host" env SLURM_CONF="$dir/slurm.conf" /usr/sbin/slurmd -N "$host" || return 1
	done
	wait_until 30 slurm_idle
}
