#!/bin/bash
# Builds the fuzz targets with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer and lets each run.
#
#   build-aux/fuzz.sh BUILD SECONDS [TARGET...]     targets: wire spec tree state http ...; default all
#   build-aux/fuzz.sh --merge BUILD [TARGET...]     makes tests/fuzz/corpus/TARGET.tar.xz from the finds of BUILD, as few as possible
#
# What is found meanwhile stays in BUILD/corpus/TARGET and is the start of the next run there; an input that breaks something
# stays in BUILD/broken and fails the run: keep it as tests/fuzz/seeds/TARGET/NAME. Exit 77 when clang has no libFuzzer here.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
merge=no
if [ "${1:-}" = --merge ]; then
	merge=yes
	shift
fi
[ $# -ge 1 ] || {
	sed -n '2,8s/^# \{0,1\}//p' "$0"
	exit 2
}
build=$1
shift
seconds=10
if [ $merge = no ]; then
	seconds=${1:-10}
	shift
fi

mkdir -p "$build/broken" || exit 1
build=$(cd "$build" && pwd)
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 1 ? 0 : 0; }' >"$build/probe.c"
if ! clang -fsanitize=fuzzer,address -o "$build/probe" "$build/probe.c" >"$build/probe.log" 2>&1; then
	echo "fuzz: clang has no libFuzzer here (package libclang-rt-14-dev)"
	exit 77
fi
(
	cd "$build" || exit 1
	if [ ! -e config.status ] || [ "$top/configure" -nt config.status ]; then
		"$top/configure" --quiet CC=clang CFLAGS="-O1 -g" --with-sanitize=fuzzer-no-link,address,undefined || exit 1
	fi
	for d in common scheduler store shim agent controller jobctl; do
		make -s -j"$(nproc)" -C $d || exit 1
	done
	make -s -j"$(nproc)" -C tests fuzz-programs
) >"$build/build.log" 2>&1 || {
	tail -n 30 "$build/build.log"
	echo "fuzz: the targets do not build (whole output: $build/build.log)"
	exit 1
}
if [ $# -eq 0 ]; then
	for p in $(make -s -C "$build/tests" print-fuzz-programs); do
		set -- "$@" "${p#fuzz/fuzz_}"
	done
fi

unpack_corpus() { # TARGET: its archive, if it has one, into BUILD/kept
	local archive=$top/tests/fuzz/corpus/$1.tar.xz
	rm -rf "$build/kept/$1"
	[ -e "$archive" ] || return 0
	mkdir -p "$build/kept/$1" && tar -xJf "$archive" -C "$build/kept/$1"
}

pack_corpus() { # TARGET FOLDER: the same files make the same archive, byte for byte
	tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 -C "$2" -cf - . | xz -9e -T1 >"$top/tests/fuzz/corpus/$1.tar.xz"
}

dirs() { # TARGET: the folders that it starts from
	local d
	unpack_corpus "$1" || exit 1
	for d in "$build/corpus/$1" "$top/tests/fuzz/seeds/$1" "$build/kept/$1"; do
		[ -d "$d" ] && printf '%s\n' "$d"
	done
}

run() { # TARGET
	local log=$build/$1.log from
	mkdir -p "$build/corpus/$1"
	mapfile -t from < <(dirs "$1")
	if ! "$build/tests/fuzz/fuzz_$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1500 -max_len=65536 -print_final_stats=1 \
		-verbosity=1 -artifact_prefix="$build/broken/$1-" "${from[@]}" >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "fuzz_$1: broken; the input is in $build/broken (whole output: $log)"
		return 1
	fi
	awk -v t="fuzz_$1" '/ cov: / {for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1)}
		/number_of_executed_units/ {n = $2} END {print t ": " n " inputs, " cov " places reached"; exit n == 0}' "$log"
}

if [ $merge = yes ]; then
	for t; do
		out=$(mktemp -d)
		mapfile -t from < <(dirs "$t")
		"$build/tests/fuzz/fuzz_$t" -merge=1 -max_len=4096 "$out" "${from[@]}" >"$build/$t-merge.log" 2>&1 || {
			tail -n 20 "$build/$t-merge.log"
			exit 1
		}
		for f in "$out"/*; do
			name=$(sha256sum "$f")
			mv "$f" "$out/${name:0:12}"
		done
		pack_corpus "$t" "$out" || exit 1
		echo "$t: $(find "$out" -type f | wc -l) inputs, $(du -sb "$out" | cut -f1) bytes, packed $(stat -c %s "$top/tests/fuzz/corpus/$t.tar.xz")"
		rm -rf "$out"
	done
	exit 0
fi

# Two at a time: each is one thread.
rc=0
while [ $# -gt 0 ]; do
	pids=
	for t in "$1" ${2:+"$2"}; do
		run "$t" &
		pids="$pids $!"
		shift
	done
	for p in $pids; do wait "$p" || rc=1; done
done
exit $rc
