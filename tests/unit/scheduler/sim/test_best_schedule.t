#!/bin/bash
# tests/bench/best_schedule.py: its exhaustive search against trying every schedule of tiny traces.
exec env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -W error "${HEARTH_TOP_SRCDIR:?}/tests/unit/scheduler/sim/best_schedule_tests.py"
