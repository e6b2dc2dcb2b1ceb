#!/bin/bash
# The verifier of the chaos tests can fail: it gets a history that is in order, and then one doctored copy for each of its rules.
exec /usr/bin/python3 "${HEARTH_TOP_SRCDIR:?}/tests/unit/tools/chaos_verify_tests.py" "$HEARTH_TOP_SRCDIR/tests/chaos/verify.py"
