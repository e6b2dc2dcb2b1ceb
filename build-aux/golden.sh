#!/bin/bash
# Compares tests/golden/*.txt, the full sentences that programs say, with what the programs of a build say.
#
#   build-aux/golden.sh [BUILD]             prints the differences; exit 1 when there are any
#   build-aux/golden.sh --renew [BUILD]     writes the files; look at `git diff tests/golden` then
#
# BUILD is a build folder, default build-check/gcc. Runs every unit test that calls golden().
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
renew=no
if [ "${1:-}" = --renew ]; then
	renew=yes
	shift
fi
build=$(cd "${1:-$top/build-check/gcc}" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/said" "$out/log" "$out/files"

export LC_ALL=C HEARTH_TOP_SRCDIR=$top HEARTH_TOP_BUILDDIR=$build HEARTH_GOLDEN_OUT=$out/said
mapfile -t programs < <(cd "$top/tests" && grep -rlE '\bgolden\(' unit --include='test_*.c' | sed 's/\.c$//' | sort)
[ ${#programs[@]} -gt 0 ] || exit 0
make -s -C "$build/tests" "${programs[@]}" >"$out/make.log" 2>&1 || {
	tail -n 20 "$out/make.log"
	exit 1
}
for p in "${programs[@]}"; do
	(cd "$build/tests" && "./$p") >"$out/log/tap" 2>&1 || {
		grep -A3 '^not ok' "$out/log/tap" || tail -n 5 "$out/log/tap"
		echo "golden: $p fails; mend it first"
		exit 1
	}
done

rc=0
for f in "$out"/said/*.txt; do
	name=${f##*/}
	sort -u "$f" >"$out/files/$name"
	double=$(cut -f1 "$out/files/$name" | uniq -d)
	[ -z "$double" ] || {
		echo "$name: IDs with more than one sentence:" "$double"
		rc=1
	}
done
[ $rc -eq 0 ] || exit 1
if [ $renew = yes ]; then
	mkdir -p "$top/tests/golden"
	rm -f "$top"/tests/golden/*.txt
	cp "$out"/files/*.txt "$top/tests/golden/"
	wc -l "$top"/tests/golden/*.txt
else
	diff -ru "$top/tests/golden" "$out/files"
fi
