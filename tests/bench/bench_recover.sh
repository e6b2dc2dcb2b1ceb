#!/bin/bash
# Recovery by fault, phase by phase, on hosts in network namespaces, beside mpirun alone in the same run: bench_recover.sh [RUNS [LEASE-SECONDS [WHAT]]].
# WHAT: only faults with this word in their names.
# Needs root, python3, jq; mpirun for the peer.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
runs=${1:-3} lease=${2:-3}
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_HEARTHD_ARGS=(--set "lease=${lease}s" --set beat=250ms)
cluster_up 4 || exit 1
mkdir -p "$CLUSTER/side" "$CLUSTER/src"
cp "$HEARTH_TOP_SRCDIR/tests/bench/recover_rank.py" "$CLUSTER/src/rank.py"

# What the measuring program asks for: a line each, answered by "ok" or a sentence.
bench_host_on() { # HOST
	rm -f "$CLUSTER/$1/up"
	cluster_host_start "$1" && cluster_in "$1" mount --bind "$CLUSTER/side" /mnt
}
bench_do() { # VERB HOST
	case $1 in
	agent) cluster_agent "$2" --slots 2 --fake-gpus 1 ;;
	host) bench_host_on "$2" && cluster_agent "$2" --slots 2 --fake-gpus 1 ;;
	cut) cluster_cut "$2" ;;
	heal) cluster_heal "$2" ;;
	*) return 1 ;;
	esac
}
for host in $CLUSTER_HOSTS; do cluster_in "$host" mount --bind "$CLUSTER/side" /mnt || exit 1; done
cluster_hearth --slots 2 --fake-gpus 1 && hearth node spare host4 >/dev/null || exit 1
hosts=$(jq -cn '$ARGS.named' --arg head "$(cat "$CLUSTER/head/pid1")")
cat >"$CLUSTER/rsh" <<S
#!/bin/sh
h=\$1; shift
exec nsenter -t "\$(cat "$CLUSTER/\$h/pid1")" -n -u -m -p -i sh -c "\$*"
S
chmod 755 "$CLUSTER/rsh"
coproc MEASURE { python3 "$HEARTH_TOP_SRCDIR/tests/bench/bench_recover.py" "$CLUSTER" "$runs" "$lease" "$hosts" "${3:-}"; }
pid=$MEASURE_PID
while read -r verb host <&"${MEASURE[0]}"; do
	case $verb in
	'{'*) echo "$verb${host:+ $host}" ;;
	end) break ;;
	*) if bench_do "$verb" "$host" >"$CLUSTER/do.log" 2>&1; then echo ok; else tail -n 1 "$CLUSTER/do.log"; fi >&"${MEASURE[1]}" ;;
	esac
done
wait "$pid"
