# shellcheck shell=bash
# sshd: a plain sshd on each host of a cluster (tests/lib/cluster.sh), for mpirun as a peer. Sourced after tap.sh and cluster.sh.
#
#   sshd_up       own host key, one key for all; waits until each answers. SSHD_ARGS are ssh's options then.
SSHD_ARGS=''
sshd_up() {
	local h
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
	SSHD_ARGS="-i $CLUSTER/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
	for h in $CLUSTER_HOSTS; do
		# shellcheck disable=SC2086
		wait_until 10 cluster_in head ssh $SSHD_ARGS "$h" true || { echo "sshd on $h does not answer" >&2; return 1; }
	done
}
