#!/bin/sh
# jobctl simulate against a second, slow simulator (sim_reference.py), to the last digit.
if ! command -v python3 >/dev/null; then
	echo "1..0 # SKIP python3 is missing"
	exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 -W error "$HEARTH_TOP_SRCDIR/tests/unit/scheduler/sim/simulate_tests.py"
