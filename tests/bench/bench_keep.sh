#!/bin/bash
# What the keeper of checkpoints and the loss watch cost a training loop: bench_keep.sh [ROUNDS [SECONDS [MB [EVERY]]]]. A program computes on one
# CPU and saves MB megabytes every EVERY seconds; in turn to its folder of checkpoints, where the agent finds, holds, copies and reads back each of
# them, and to another folder of the same disk, without metrics. Needs root.
#
# A line for each run: steps, seconds in all, in steps and in saves, CPU seconds of the loop, copies. The last line compares the medians.
: "${HEARTH_TOP_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HEARTH_TOP_BUILDDIR:=$HEARTH_TOP_SRCDIR/build}"
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
rounds=${1:-5} seconds=${2:-30} mb=${3:-256} every=${4:-10}
why=$(cluster_can)
[ -z "$why" ] || { echo "$why" >&2; exit 1; }
cluster_up 1 && cluster_hearth --slots "$(nproc)" || exit 1
mkdir -p "$CLUSTER/src" "$CLUSTER/copies"
cp "$HEARTH_TOP_SRCDIR/tests/bench/bench_keep.py" "$CLUSTER/src"
run() { # with|without ROUND
	local top='' metrics='' job steps
	[ "$1" = with ] || top=', "plain"'
	[ "$1" != with ] || metrics=', "metrics": [{"name": "step", "regex": "step=([0-9]+)"}, {"name": "loss", "regex": "loss=([0-9.]+)"}]'
	printf '{"name": "keep", "launcher": "direct", "command": ["/usr/bin/python3", "bench_keep.py", "%s", "%s", "%s"%s], "source_dir": "%s", "checkpoint": {"uri": "file://%s/copies"}%s}\n' \
		"$seconds" "$mb" "$every" "$top" "$CLUSTER/src" "$CLUSTER" "$metrics" >"$CLUSTER/job.json"
	job=$(hearth submit "$CLUSTER/job.json")
	hearth wait "$job" --timeout $((seconds * 3 + 120)) >/dev/null
	steps=$(hearth logs "$job" | sed -n 's/^result //p')
	[ -n "$steps" ] || { hearth show "$job" >&2; exit 1; }
	jq -cn --arg mode "$1" --argjson round "$2" --argjson r "$steps" --argjson copies "$(hearth checkpoints "$job" --json | jq '[.checkpoints[] | select(all(.places[]; .state == "verified" or .state == "gone"))] | length')" \
		--arg load "$(cut -d' ' -f1 /proc/loadavg)" '{bench: "keep", $mode, $round, copies: $copies, load: $load} + $r'
	rm -rf "${CLUSTER:?}/copies/"*
	sync
}
for round in $(seq "$rounds"); do
	if [ $((round % 2)) = 1 ]; then order='without with'; else order='with without'; fi
	for mode in $order; do run "$mode" "$round"; done
done | tee "$CLUSTER/lines"
jq -cs --argjson mb "$mb" --argjson every "$every" '
	def median: sort | .[length / 2 | floor];
	def of($mode; f): [.[] | select(.mode == $mode) | f] | median;
	{bench: "keep", mode: "compare", mb: $mb, every_s: $every,
	 step_us_without: of("without"; .step_us), step_us_with: of("with"; .step_us),
	 cpu_us_without: of("without"; .cpu_us), cpu_us_with: of("with"; .cpu_us),
	 save_s_without: of("without"; .save_s), save_s_with: of("with"; .save_s)}
	| . + {step_percent: ((.step_us_with / .step_us_without - 1) * 10000 | round / 100), cpu_percent: ((.cpu_us_with / .cpu_us_without - 1) * 10000 | round / 100)}' "$CLUSTER/lines"
