#!/bin/bash
# bench_submit against a hearthd of its own with an empty store: bench_submit.sh [SECONDS [CONNECTIONS...]].
# bench_submit.sh --tls ...: each series also over TLS with a user's token, on this machine's first address.
: "${HEARTH_TOP_BUILDDIR:=$(cd "$(dirname "$0")/../.." && pwd)/build}"
listen=127.0.0.1
[ "${1:-}" != --tls ] || { tls=1 && shift && listen=$(hostname -I | cut -d' ' -f1); }
[ -n "$listen" ] || { echo "this machine has no address but loopback" >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/hbsXXXXXX") || exit 1
"$HEARTH_TOP_BUILDDIR/controller/hearthd" --data "$dir/d" --listen "$listen:0" --set run_as=nobody >"$dir/log" 2>&1 &
pid=$!
trap 'kill -KILL $pid; wait $pid 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 1000); do
	[ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket "$dir/d/hearthd.sock" http://h/healthz)" = 200 ] && break
	kill -0 $pid 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
done
if [ -n "${tls:-}" ]; then
	port=$(sed -n 's/.*event=listening .*port=\([0-9]*\).*/\1/p' "$dir/log")
	token=$(curl -s --unix-socket "$dir/d/hearthd.sock" -H 'Content-Type: application/json' -d '{"kind": "user", "user": "bench"}' http://h/api/v1/tokens | jq -r .token)
	set -- --tls "$listen" "$port" "$token" "$@"
fi
"$HEARTH_TOP_BUILDDIR/tests/bench/bench_submit" "$dir/d/hearthd.sock" "$@"
