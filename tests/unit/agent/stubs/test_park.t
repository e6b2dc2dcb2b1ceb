#!/bin/sh
# hearth-park by its own tests (park_tests.py): a program that a waiting interpreter runs behaves as if Python had
# just been started. HEARTH_TEST_PYTHONS names more interpreters, separated by spaces.
if ! command -v python3 >/dev/null; then
	echo "1..0 # SKIP python3 is missing"
	exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 "$HEARTH_TOP_SRCDIR/tests/unit/agent/stubs/park_tests.py" "$HEARTH_TOP_SRCDIR/agent/stubs/park.py"
