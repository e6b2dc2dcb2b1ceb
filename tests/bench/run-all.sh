#!/bin/bash
# All benchmarks, one after the other, in at most ten minutes on a quiet machine: run-all.sh BUILD [OUTPUT [STORED-JOBS]].
# JSON lines go to OUTPUT (default: bench-DATE.jsonl here), what they mean stands in docs/benchmarks.md; compare.py compares two such
# files. Needs root, mpicc, sshd, python3, jq; Slurm where it is installed. What cannot run says so in a line with "skipped".
cd "$(dirname "$0")/../.." || exit 1
HEARTH_TOP_SRCDIR=$PWD HEARTH_TOP_BUILDDIR=$(readlink -f "${1:?usage: run-all.sh BUILD [OUTPUT [STORED-JOBS]]}")
export HEARTH_TOP_SRCDIR HEARTH_TOP_BUILDDIR
out=${2:-bench-$(date +%Y%m%d-%H%M).jsonl} stored=${3:-1000000}
bench=$HEARTH_TOP_BUILDDIR/tests/bench
dir=$(mktemp -d /var/tmp/hbaXXXXXX) || exit 1
trap 'rm -rf --one-file-system "$dir"' EXIT

make -s -C "$HEARTH_TOP_BUILDDIR/tests" bench/bench_submit bench/bench_fill bench/bench_tiny bench/bench_agents bench/bench_retain bench/bench_store bench/bench_sched bench/bench_fence programs/crowd || exit 1
run() { # NAME COMMAND...: its lines to OUTPUT, what it says else to the terminal
	local name=$1 start=$SECONDS
	shift
	echo "== $name" >&2
	if ! timeout 400 "$@" >"$dir/lines" 2>"$dir/err"; then
		tail -n 3 "$dir/err" >&2
		jq -cn --arg b "$name" --arg e "$(tail -n 1 "$dir/err")" '{bench: $b, skipped: ("failed: " + $e)}' >>"$dir/lines"
	fi
	grep '^{' "$dir/lines" | tee -a "$out"
	echo "   $((SECONDS - start)) s" >&2
}
: >"$out"
jq -cn --arg model "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" --arg cpus "$(nproc)" --arg kernel "$(uname -r)" \
	--arg memory "$(awk '/MemTotal/ {printf "%d GiB", $2 / 1048576}' /proc/meminfo)" --arg fs "$(findmnt -n -o FSTYPE -T "$dir")" \
	--arg load "$(cut -d' ' -f1 /proc/loadavg)" --arg commit "$(git rev-parse --short HEAD 2>/dev/null)" --arg at "$(date -u +%FT%TZ)" \
	'{bench: "machine", $model, $cpus, $kernel, $memory, $fs, load_at_start: $load, $commit, $at}' | tee -a "$out"

run sched "$bench/bench_sched"
run submit_empty "$HEARTH_TOP_SRCDIR/tests/bench/bench_submit.sh" 5 1 16 64
run retain "$bench/bench_retain" "$dir" 1000000
run stored env TMPDIR="$dir" python3 tests/bench/bench_stored.py "$HEARTH_TOP_BUILDDIR" "$stored" 10000 5
run agents "$bench/bench_agents" "$HEARTH_TOP_BUILDDIR/controller/hearthd" "$dir/agents" 1000 10
run fence "$bench/bench_fence"
run log python3 tests/bench/bench_log.py "$HEARTH_TOP_BUILDDIR" 512
run follow tests/bench/bench_follow.sh 1000 20
run keep tests/bench/bench_keep.sh 3 20
run launch tests/bench/bench_launch.sh 8
run park python3 tests/bench/bench_park.py 5 10
run recover tests/bench/bench_recover.sh 3
run tiny tests/bench/bench_tiny.sh 300 100000 100
echo "written: $out" >&2
