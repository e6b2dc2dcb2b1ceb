#!/bin/bash
# The folder for copies of checkpoints is full, the newest copy is damaged or cut short: each job completes with the loss of
# an undisturbed run, from the newest checkpoint that is whole.
# shellcheck disable=SC2034 # recover.sh uses the variables
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/recover.sh"
why=$(recover_can)
[ -z "$why" ] || skip_all "$why"
CHAOS_DISKS="share=1m copies=16m"

newest_copy() { # JOB: a file of the newest copy in the folder
	hearth checkpoints "$1" --json | jq -r '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified"))] | max_by(.step) | "\(.step) \(.places[0].uri)"'
}
events() { hearth events "$1" --json | jq -r ".events[] | $2"; }
uri() { job=(direct "\"checkpoint\": {\"uri\": \"file://$CLUSTER/$1/data/kept\"}," "${2:-}" ''); }

# Training goes on without copies; the job begins again in place, from what each of its nodes holds.
recover_job_full() { uri share ', "TRAIN_EACH": "1"'; }
fault_full() {
	local known
	dd if=/dev/zero of="$CLUSTER/share/data/.fill" bs=4k 2>/dev/null
	known=$(recover_newest "$1")
	recover_until 20 eval '[ "$(hearth checkpoints '"$1"' --json | jq "[.checkpoints[] | select(.complete) | .step] | max")" -gt '"$known"' ]' &&
		recover_until 20 eval 'events '"$1"' .data.text | grep -q "has no copy outside of this node"' &&
		chaos_inject kill-part rank "$1" 1 && known_full=$known
}
recover_cause_full='rank 1 .*SIGKILL.*; goes on from step [0-9]+ of attempt 1 in place$'
recover_before_heal_full() {
	ok "full: it begins with a newer checkpoint than the folder has" test "$(recover_show "${RECOVER_JOB[full]}" '.attempts[1].resumed_from_step')" -gt "$known_full"
}
recover_heal_full() { rm -f "$CLUSTER/share/data/.fill"; }

damage() { # FAULT COMMAND...: the node of rank 0 dies, then COMMAND FILE damages the newest copy
	local name=$1 step uri
	shift
	recover_victim "$name" 0 && chaos_inject power-off "$VICTIM" || return
	read -r step uri < <(newest_copy "${RECOVER_JOB[$name]}")
	damaged[$name]=$step
	"$@" "$(find "${uri#file://}" -name state | head -n 1)"
}
declare -A damaged
passed() { # FAULT
	local id=${RECOVER_JOB[$1]}
	ok "$1: it begins before the damaged step ${damaged[$1]}" test "$(recover_show "$id" '.attempts[-1].resumed_from_step')" -lt "${damaged[$1]}"
	like "$(events "$id" 'select(.type == "checkpoint_passed") | .data | tostring')" "${damaged[$1]}" "$1: an event says so"
}
change_byte() { printf X | dd of="$1" conv=notrunc bs=1 seek=0 2>/dev/null; }
cut_short() { truncate -s 3 "$1"; }
recover_job_byte() { uri copies; }
fault_byte() { damage byte change_byte; }
recover_before_heal_byte() { passed byte; }
recover_heal_byte() { chaos_heal power-off "${RECOVER_VICTIM[byte]}"; }
recover_job_short() { uri copies; }
fault_short() { damage short cut_short; }
recover_before_heal_short() { passed short; }
recover_heal_short() { chaos_heal power-off "${RECOVER_VICTIM[short]}"; }
recover_attempts_byte=3 recover_attempts_short=3 # the second one finds it damaged
recover_cause=' node host[0-9]+ was lost: .*; goes on from step [0-9]+ of attempt 1 elsewhere$'

recover_up 8 || bail "no cluster"
RECOVER_SAVED=20 # an older one is there as well
recover_rounds "full byte short"
recover_finish
chaos_down
done_testing
