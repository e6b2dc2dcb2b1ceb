#!/bin/bash
# bench_submit against a hearthd of its own with an empty store: bench_submit.sh [SECONDS [CONNECTIONS...]].
: "${HEARTH_TOP_BUILDDIR:=$(cd "$(dirname "$0")/../.." && pwd)/build}"
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/hbsXXXXXX") || exit 1
"$HEARTH_TOP_BUILDDIR/controller/hearthd" --data "$dir/d" --listen 127.0.0.1:0 >"$dir/log" 2>&1 &
pid=$!
trap 'kill -KILL $pid; wait $pid 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 1000); do
	[ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$dir/d/hearthd.sock" http://h/healthz)" = 200 ] && break
	kill -0 $pid 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
done
"$HEARTH_TOP_BUILDDIR/tests/bench/bench_submit" "$dir/d/hearthd.sock" "$@"
