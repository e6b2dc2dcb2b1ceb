#!/bin/bash
# A host of a job dies or freezes, or its agent does: the job completes elsewhere from its newest checkpoint, with the loss of an undisturbed run.
# shellcheck disable=SC2034 # recover.sh uses the variables
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/recover.sh"
why=$(recover_can)
[ -z "$why" ] || skip_all "$why"

fault_power() { recover_victim power 1 && chaos_inject power-off "$VICTIM"; }
recover_heal_power() { chaos_heal power-off "${RECOVER_VICTIM[power]}"; }
fault_agent() { recover_victim agent 0 && chaos_inject kill-agent "$VICTIM"; } # and nobody starts it again before the job has ended
recover_heal_agent() { chaos_heal kill-agent "${RECOVER_VICTIM[agent]}"; }
fault_stopped() { recover_victim stopped 1 && chaos_inject stop-agent "$VICTIM" long; }
recover_heal_stopped() { chaos_heal stop-agent "${RECOVER_VICTIM[stopped]}" long; }
fault_frozen() { recover_victim frozen 0 && chaos_inject freeze "$VICTIM" long; }
recover_heal_frozen() { chaos_heal freeze "${RECOVER_VICTIM[frozen]}" long; }
recover_cause=' node host[0-9]+ was lost: no sign of life for [0-9.]+ s; goes on from step [0-9]+ of attempt 1 elsewhere$'

recover_up 12 || bail "no cluster"
recover_rounds "power agent stopped frozen"
recover_finish
chaos_down
done_testing
