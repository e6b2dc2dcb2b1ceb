#!/bin/bash
# Malformed HTTP at a real hearthd, over TCP and over its socket.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
dir=$(mktemp -d) || bail "no folder"
data=$dir/d
pid=

cleanup() {
	[ -z "$pid" ] || { kill -9 "$pid" && wait "$pid"; } 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT
"${HEARTH_TOP_BUILDDIR:?}/controller/hearthd" --data "$data" --listen 127.0.0.1:0 >"$dir/log" 2>&1 &
pid=$!
answers() { curl -sf --max-time 5 --unix-socket "$data/hearthd.sock" http://h/api/v1/nodes; }
wait_until 20 answers || bail "hearthd does not start: $(tail -n 5 "$dir/log")"
port=$(sed -n 's/.*port=\([0-9]*\).*/\1/p' "$dir/log" | head -n 1)
[ -n "$port" ] || bail "no port in: $(head -n 5 "$dir/log")"
"${PYTHON:-python3}" "$HEARTH_TOP_SRCDIR/tests/programs/bad_http.py" "$port" "$pid" "$data/hearthd.sock"
