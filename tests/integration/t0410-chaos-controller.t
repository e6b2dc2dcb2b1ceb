#!/bin/bash
# hearthd is killed at instants by chance while jobs are submitted, launched, run and end; with an agent; it is away for a minute, and stopped for
# longer than a lease: no acknowledged job is lost, nothing runs twice, every end is right. CHAOS_SEED gives the instants.
. "${HEARTH_TOP_SRCDIR:?}/tests/chaos/chaos.sh"
why=$(chaos_can)
[ -z "$why" ] || skip_all "$why"
chaos_up 4 || bail "no cluster"
RANDOM=${CHAOS_SEED:-$$}
diag "seed ${CHAOS_SEED:-$$}"

crowd() { # NAME: short jobs of each kind, in the background, one after the other
	local kind
	{
		for kind in 1 2 3; do
			chaos_submit "$1-direct-$kind" direct $((kind % 2 + 1)) $((kind * 20)) 20 $((kind % 2 * 7))
			chaos_submit "$1-mpirun-$kind" mpirun 2 $((kind * 15)) 20
		done
	} >/dev/null &
	CHAOS_BACKGROUND=$!
}
crowd_done() {
	wait "$CHAOS_BACKGROUND" || :
	CHAOS_BACKGROUND=''
}
random_instants() { # FAULT: three times, at any moment of a crowd's life
	local n
	for n in 1 2 3; do
		crowd "$1-$round-$n"
		chaos_pause "$((RANDOM % 3)).$((RANDOM % 100))"
		chaos_look
		# shellcheck disable=SC2086 # FAULT and its argument
		chaos_inject $1 ${2:-} || return
		chaos_pause "0.$((RANDOM % 100))"
		# shellcheck disable=SC2086
		chaos_heal $1 ${2:-} || return
		crowd_done
	done
}
away() { # SECONDS: jobs go on and end without a controller; new ones are refused
	local short long out id
	short=$(chaos_submit "away-short-$round" mpirun 2 -r 1 200 20 5)
	long=$(chaos_submit "away-long-$round" direct 2 $((($1 + 10) * 10)) 100)
	wait_until 60 chaos_step "$short" 1 1 3 && wait_until 60 chaos_step "$long" 1 1 3
	chaos_look
	does "hearthd is killed" chaos_inject kill-hearthd
	out=$(chaos_hearth submit "$CLUSTER/away-short-$round.json" 2>&1)
	is $? 5 "a new job is refused: no controller"
	like "$out" "controller|connect" "and the message says so"
	# That rank alone: mpirun ends the others as soon as one has failed.
	ok "a job comes to its end without it" wait_until 30 grep -q '^end' "$HIST/side/$short.1.1"
	wait_until $(($1 + 60)) chaos_step "$long" 1 1 $(($1 * 10))
	does "after $1 s it is back" chaos_heal kill-hearthd
	ok "the job that went on ends" chaos_wait "$long" 90
	ok "the one that had ended is settled" chaos_wait "$short" 30
	is "$(chaos_show "$short" '.status + " " + (.exit_code | tostring)')" "failed 5" "with its exit code"
	is "$(chaos_show "$long" '.status + " " + (.attempts | length | tostring)')" "completed 1" "and that in its first attempt"
	id=$(chaos_submit "away-next-$round" direct 4 3 20)
	ok "the next job is fine" chaos_wait "$id" 60
}
stopped() { # as long as a lease and its margin, and more: nobody is lost because of that
	local id
	id=$(chaos_submit "stopped-$round" mpirun 4 250 100)
	wait_until 60 chaos_step "$id" 1 3 3
	chaos_look
	does "hearthd is stopped" chaos_inject stop-hearthd
	wait_until 60 chaos_step "$id" 1 3 180
	does "and goes on" chaos_heal stop-hearthd
	ok "the job that ran meanwhile ends" chaos_wait "$id" 60
	is "$(chaos_show "$id" '.status + " " + (.attempts | length | tostring)')" "completed 1" "well, in its first attempt"
}

rounds=${HEARTH_SOAK:+20}
for round in $(seq "${CHAOS_ROUNDS:-${rounds:-1}}"); do
	does "hearthd is killed at any moment" random_instants kill-hearthd
	does "hearthd and an agent are killed at any moment" random_instants kill-both host2
	away "${CHAOS_AWAY:-60}"
	stopped
	verdict=$(chaos_finish 180)
	is $? 0 "the verifier finds nothing (round $round)"
	diag "$verdict"
done
chaos_down
done_testing
