#!/bin/bash
# hearthd is killed while two jobs recover, one in place and one from the death of a host: both complete with the loss of an undisturbed run.
# HEARTH_SOAK: 20 times at random instants, which CHAOS_SEED gives.
# shellcheck disable=SC2034 # recover.sh uses the variables
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/recover.sh"
why=$(recover_can)
[ -z "$why" ] || skip_all "$why"

fault_rank() { chaos_inject kill-part rank "$1" 1; }
recover_cause_rank='rank 1 .*SIGKILL.*; goes on from step [0-9]+ of attempt 1 in place$'
fault_power() { recover_victim power 1 && chaos_inject power-off "$VICTIM"; }
recover_cause_power=' node host[0-9]+ was lost: .*; goes on from step [0-9]+ of attempt 1 elsewhere$'
recover_heal_power() { chaos_heal power-off "${RECOVER_VICTIM[power]}"; }

restart() { chaos_inject kill-hearthd && chaos_heal kill-hearthd; }
shows() { recover_show "$1" "$2" | grep -qx true; } # JOB CONDITION
start_jobs() {
	local name
	for name in rank power; do recover_start $name; done
	for name in rank power; do ok "$name: a checkpoint has a verified copy" recover_saved $name; done
	for name in rank power; do does "$name: the fault" fault_$name "${RECOVER_JOB[$name]}"; done
}
end_jobs() {
	recover_assert rank
	recover_assert power
	recover_end power
}
known_instants() {
	local id
	start_jobs
	id=${RECOVER_JOB[power]}
	does "hearthd is killed at once" restart
	ok "the host is lost" recover_until 30 shows "$id" '.status != "running"'
	does "hearthd is killed when it has noticed the loss" restart
	ok "a second attempt is placed" recover_until 30 shows "$id" '.attempt_count == 2'
	does "hearthd is killed when the next attempt is prepared" restart
	end_jobs
}
random_instants() {
	local round
	RANDOM=${CHAOS_SEED:=$$}
	for round in $(seq "${CHAOS_ROUNDS:-20}"); do
		diag "round $round of seed $CHAOS_SEED"
		start_jobs
		for _ in 1 2 3; do
			chaos_pause "$((RANDOM % 3)).$((RANDOM % 90 + 10))"
			does "hearthd is killed" restart
		done
		end_jobs
		recover_settle
	done
}

recover_up 6 || bail "no cluster"
if [ -n "${HEARTH_SOAK:-}" ]; then random_instants; else known_instants; fi
recover_finish
chaos_down
done_testing
