#!/bin/bash
# What a start costs with a large source and a large input: bench_warm_files.sh [SOURCE_MB [INPUT_MB [ROUNDS]]]. A line of JSON for each start: cold, warm
# (nothing changed), line (one line of the source changed). prepare_s is from the order to the node until its ranks are ready, total_s from the submit to the
# first line (with the client's reading of the source). Needs root.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
source_mb=${1:-512} input_mb=${2:-512} rounds=${3:-3}
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
cluster_up 1 && cluster_hearth --slots "$(nproc)" || exit 1
mkdir -p "$CLUSTER/src" "$CLUSTER/web"
for ((i = 0; i < source_mb; i++)); do head -c 1048576 /dev/urandom >"$CLUSTER/src/part$i"; done
head -c $((input_mb * 1048576)) /dev/urandom >"$CLUSTER/web/input"
sum=$(sha256sum "$CLUSTER/web/input" | cut -d' ' -f1)
cluster_spawn head web /usr/bin/python3 -m http.server 8099 --bind 10.77.0.200 --directory "$CLUSTER/web"
# shellcheck disable=SC2016 # the job's shell expands it
jq -n --arg s "$CLUSTER/src" --arg h "$sum" '{name: "files", command: ["/bin/sh", "-c", "date +%s.%N; cat line; cmp -n 100 $SM_CHANNEL_D/input $SM_CHANNEL_D/input"], source_dir: $s, launcher: "direct",
	inputs: {d: {uri: "http://10.77.0.200:8099/input", sha256: $h}}, warm_pool: {keep_alive_s: 600}, retry: {max_attempts: 0}}' >"$CLUSTER/job.json"
start() { # MODE ROUND
	local job from first
	from=$(date +%s.%N)
	job=$(hearth submit "$CLUSTER/job.json" 2>/dev/null)
	hearth wait "$job" --timeout 300 >/dev/null
	first=$(hearth logs "$job" | head -1)
	hearth show "$job" --json | jq -c --arg mode "$1" --argjson round "$2" --argjson from "$from" --argjson first "${first:-0}" --argjson smb "$source_mb" --argjson imb "$input_mb" --arg fs "$(stat -f -c %T "$CLUSTER")" '
		def us: (.[0:19] + "Z" | fromdate) + (.[20:26] | tonumber / 1000000);
		(.attempts[-1].phases | map({key: .name, value: (.started_at | us)}) | from_entries) as $p
		| {bench: "warm_files", mode: $mode, round: $round, fs: $fs, source_mb: $smb, input_mb: $imb, status, prepare_s: (($p.running - $p.provisioning) * 1000 | round / 1000), total_s: (($first - $from) * 1000 | round / 1000)}'
}
echo first >"$CLUSTER/src/line"
start cold 1
for ((round = 1; round <= rounds; round++)); do
	start warm "$round"
	echo "line $round" >>"$CLUSTER/src/line"
	start line "$round"
done
