#!/bin/sh
# hearth.py by its own tests (hearth_py_tests.py), with the interpreter that jobs would use.
if ! command -v python3 >/dev/null; then
	echo "1..0 # SKIP python3 is missing"
	exit 0
fi
PYTHONDONTWRITEBYTECODE=1 exec python3 -W error "$HEARTH_TOP_SRCDIR/tests/unit/examples/hearth_py_tests.py"
