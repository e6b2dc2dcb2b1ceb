#!/bin/bash
# Lines of tests to lines of code, for the parts that hold the most: each should have at least 0.9.
#
#   build-aux/ratio.sh          one line a part; exit 1 when one has less
#
# Blank lines and lines of comments only are not counted. Tests of a part are those that are about it alone, with what they share; what
# tests it from the outside (the random world, integration, chaos) comes on top and is not counted.
set -u
cd "$(dirname "$0")/.." || exit 1

lines() { # FILE...
	sed -e '/^[[:space:]]*$/d' -e '/^[[:space:]]*\/\*.*\*\/[[:space:]]*$/d' -e '/^[[:space:]]*\/\*/,/\*\//d' "$@" | wc -l
}

rc=0
part() { # NAME "CODE..." "TESTS..."
	local code tests
	# shellcheck disable=SC2086
	code=$(lines $2) tests=$(lines $3)
	awk -v n="$1" -v c="$code" -v t="$tests" 'BEGIN {printf "%-8s %6d lines of code %6d of tests  %.2f\n", n, c, t, t / c; exit t < 0.9 * c}' || rc=1
}

part store "store/*.c store/*.h store/*/*.c store/*/*.h" \
	"tests/unit/store/test_store*.c tests/unit/store/*/test_store*.c tests/unit/store/base/test_walvfs.c tests/unit/store/base/test_codec.c tests/unit/store/storekit.* tests/unit/store/write/powerkit.* tests/lib/liedisk.* tests/lib/faultvfs.* tests/lib/powerrun.*"
part events "controller/record/event.? controller/record/rec.? controller/record/states.? controller/record/replay*.?" \
	"tests/unit/controller/record/test_event.c tests/unit/controller/record/test_replay.c tests/unit/controller/record/test_core_events.c tests/unit/controller/run/test_core_life.c tests/unit/controller/run/test_core_ends.c tests/unit/controller/state/test_core_store.c"
part wire "common/net/wire*.? common/base/buf.? common/net/peer*.?" \
	"tests/unit/common/net/test_wire.c tests/unit/common/base/test_buf.c tests/unit/common/net/test_peer*.c tests/unit/common/net/peer_ends.* tests/fuzz/fuzz_wire.c"
part shim "shim/*.c shim/*.h" "tests/unit/shim/test_shim*.c tests/unit/shim/shim_victim.c tests/lib/shimlab.* tests/fuzz/fuzz_state.c"
exit $rc
