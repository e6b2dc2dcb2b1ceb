#!/bin/bash
# How long a printed line takes to its followers, rank and hearthd on different hosts: bench_follow.sh [LINES] [EVERY-MS]. Needs root.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
cluster_up 1 && cluster_hearth || exit 1
printf '{"bench": "machine", "cpus": %d, "kernel": "%s", "model": "%s", "load1": %s}\n' "$(nproc)" "$(uname -r)" \
	"$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(cut -d' ' -f1 /proc/loadavg)"
/usr/bin/python3 "$HEARTH_TOP_SRCDIR/tests/bench/bench_follow.py" "$CLUSTER/head/data/hearthd.sock" \
	"$(jq -cn '$ARGS.positional' --args -- env HOME="$CLUSTER/home" "$JOBCTL")" "${1:-1000}" "${2:-20}"
