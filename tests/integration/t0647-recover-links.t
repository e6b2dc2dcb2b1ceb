#!/bin/bash
# A host of a job is cut off, or its packets vanish: the job completes elsewhere with the loss of an undisturbed run, and the host has ended its
# ranks by itself before that. A cut of 2 s restarts nothing.
# shellcheck disable=SC2034 # recover.sh uses the variables
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/recover.sh"
why=$(recover_can)
[ -z "$why" ] || skip_all "$why"

fault_cut() { recover_victim cut 0 && chaos_inject cut "$VICTIM" long; }
recover_heal_cut() { chaos_heal cut "${RECOVER_VICTIM[cut]}" long; }
fault_drop() { recover_victim drop 1 && chaos_inject drop "$VICTIM" long; }
recover_heal_drop() { chaos_heal drop "${RECOVER_VICTIM[drop]}" long; }
# A busy machine may need longer to heal the link than the cut may last: then nothing can be said.
fault_blink() {
	local from ms
	recover_attempts_blink=1
	recover_victim blink 1 || return
	from=${EPOCHREALTIME/./}
	cluster_cut "$VICTIM" && chaos_pause 2 && cluster_heal "$VICTIM" || return
	ms=$(((${EPOCHREALTIME/./} - from) / 1000))
	echo "$ms" >"$CLUSTER/blink_ms"
	[ "$ms" -lt 2100 ] || recover_attempts_blink=$(recover_late_blink "$1")
}
recover_late_blink() { # JOB: so many attempts as it has when it has ended
	recover_wait "$1" 50
	recover_show "$1" .attempt_count
}
recover_before_heal_blink() { diag "the link was down for $(cat "$CLUSTER/blink_ms") ms"; }
recover_attempts_blink=1
recover_cause=' node host[0-9]+ was lost: no sign of life for [0-9.]+ s; goes on from step [0-9]+ of attempt 1 elsewhere$'
fenced() { # HOST JOB: it reports the end of its part; nothing of it is left there
	is "$(chaos_procs "$1" | grep -E "^$1 [0-9]+ rank $2\.1 ")" "" "$1 has ended the ranks of job $2 itself, while it is cut off"
}
recover_before_heal_cut() { fenced "${RECOVER_VICTIM[cut]}" "${RECOVER_JOB[cut]}"; }
recover_before_heal_drop() { fenced "${RECOVER_VICTIM[drop]}" "${RECOVER_JOB[drop]}"; }

recover_up 8 || bail "no cluster"
recover_rounds "blink cut drop"
recover_finish
chaos_down
done_testing
