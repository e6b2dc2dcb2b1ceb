#!/bin/bash
# Each part of a running job is killed or stopped, over four hosts and in several jobs at a time: the outcome is right, the first to fail is
# named, the other ranks end, the job begins again where it may, the next job is fine; nothing is left, and the verifier finds every history in order.
. "${HEARTH_TOP_SRCDIR:?}/tests/chaos/chaos.sh"
why=$(chaos_can)
[ -z "$why" ] || skip_all "$why"
chaos_up 4 || bail "no cluster"

show() { chaos_show "$1" "$2"; }
running() { # JOB RANKS...: each of them has come to step 5
	local job=$1 rank
	shift
	for rank; do wait_until 60 chaos_step "$job" 1 "$rank" 5 || { diag "job $job rank $rank did not come to step 5: $(show "$job" '.status + " " + .reason')"; return 1; }; done
}
declare -A job # of a round, by name
start() { # NAME LAUNCHER NODES STEPS-ARGUMENTS...
	local name=$1
	shift
	job[$name]=$(chaos_submit "$name-$round" "$@")
}
kill_part() { # NAME KIND [RANK]: once all ranks are at work
	running "${job[$1]}" 0 1
	does "$1: the $2 ${3:+of rank $3 }is killed" chaos_inject kill-part "$2" "${job[$1]}" ${3:+"$3"}
}
ended() { # NAME STATUS REASON
	ok "$1: the job ends" chaos_wait "${job[$1]}" 90
	is "$(show "${job[$1]}" '.status + " " + .attempts[-1].outcome')" "$2" "$1: $2"
	like "$(show "${job[$1]}" '"(" + (.attempts[-1].class // "") + ") " + .reason')" "$3" "$1: the reason is named"
}

harmless() { # what a job is not harmed by: its agent killed, or stopped for a while; a rank that is stopped
	local victim
	start agent-mpirun mpirun 2 200 20
	start agent-direct direct 2 200 20 3
	start stopped mpirun 2 100 20
	running "${job[agent-mpirun]}" 0 1 && running "${job[agent-direct]}" 0 1 && running "${job[stopped]}" 0 1
	does "rank 0 is stopped" chaos_inject stop-part rank "${job[stopped]}" 0
	victim=$(chaos_host_of "${job[agent-mpirun]}" 1)
	chaos_logs "${job[agent-mpirun]}" 1 >/dev/null
	does "agent of $victim is killed" chaos_inject kill-agent "$victim"
	does "and started again" chaos_heal kill-agent "$victim"
	victim=$(chaos_host_of "${job[agent-direct]}" 0)
	does "agent of $victim is stopped" chaos_inject stop-agent "$victim"
	wait_until 20 chaos_step "${job[agent-direct]}" 1 0 150
	does "and goes on" chaos_heal stop-agent "$victim"
	wait_until 20 grep -q '^end ' "$HIST/side/${job[stopped]}.1.1"
	is "$(show "${job[stopped]}" .status)" running "the job with a stopped rank waits for it"
	does "it goes on" chaos_heal stop-part rank "${job[stopped]}" 0
	ended agent-mpirun "completed succeeded" '^\(\) $'
	ended agent-direct "failed failed" 'rank [01].*code 3'
	ended stopped "completed succeeded" '^\(\) $'
}

recovered() { # NAME OUTCOME REASON: of the first attempt; the second one came to its end
	ok "$1: the job ends" chaos_wait "${job[$1]}" 90
	is "$(show "${job[$1]}" '.status + " " + ([.attempts[].outcome] | join(" "))')" "completed $2 succeeded" "$1: it completes in its second attempt"
	like "$(show "${job[$1]}" '"(" + (.attempts[0].class // "") + ") " + .attempts[1].cause')" "$3" "$1: the reason is named"
}

launchers() { # a rank, and mpirun's own processes: each job begins again
	local part CHAOS_RETRY=''
	start rank-mpirun mpirun 3 250 20
	start rank-direct direct 3 250 20
	for part in rsh orted mpirun stub; do start "$part" mpirun 2 250 20; done
	kill_part rank-mpirun rank 1
	kill_part rank-direct rank 1
	for part in rsh orted mpirun; do kill_part "$part" "$part"; done
	kill_part stub stub 1
	recovered rank-mpirun failed '^\(signal\) attempt 1 ended: rank 1 .*SIGKILL.*; starts again in place$'
	recovered rank-direct failed '^\(signal\) attempt 1 ended: rank 1 .*SIGKILL.*; starts again in place$'
	for part in rsh orted mpirun stub; do recovered "$part" failed '^\(launch\) attempt 1 ended: .*(mpirun|orted|hearth-rsh).*; starts again'; done
}

shims() { # nobody knows how a process ended whose shim is gone
	start shim-of-mpirun mpirun 2 500 20
	start shim-direct direct 2 500 20
	start shim-orted mpirun 2 500 20
	start shim-mpirun mpirun 2 500 20
	kill_part shim-of-mpirun shim 1
	kill_part shim-direct shim 1
	kill_part shim-orted shim-orted
	kill_part shim-mpirun shim-mpirun
	ended shim-of-mpirun "failed lost" 'fate.* unknown, first rank 1'
	ended shim-direct "failed lost" 'fate.* unknown, first rank 1'
	ended shim-orted "failed failed" '^\(launch\) .*(mpirun|orted)'
	ended shim-mpirun "failed failed" '^\(launch\) .*mpirun'
}

rounds=${HEARTH_SOAK:+20}
for round in $(seq "${CHAOS_ROUNDS:-${rounds:-1}}"); do
	harmless
	launchers
	shims
	start next mpirun 4 5 20
	ended next "completed succeeded" '^\(\) $'
	verdict=$(chaos_finish)
	is $? 0 "the verifier finds nothing (round $round)"
	diag "$verdict"
done
chaos_down
done_testing
