#!/bin/bash
# tests/bench/compare.py sees a measurement that became worse among any others, for each kind of line that the benchmarks print.
exec /usr/bin/python3 "${HEARTH_TOP_SRCDIR:?}/tests/unit/tools/bench_compare_tests.py" "$HEARTH_TOP_SRCDIR/tests/bench/compare.py"
