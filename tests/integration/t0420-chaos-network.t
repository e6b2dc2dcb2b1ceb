#!/bin/bash
# Hosts cut off from the controller alone and from all, frozen, agents stopped, a slow link; shorter than a lease and longer. A short one is
# waited out; after a long one the job ends with that reason, or runs elsewhere when its owner wants it to, and never in two places at once.
. "${HEARTH_TOP_SRCDIR:?}/tests/chaos/chaos.sh"
why=$(chaos_can)
[ -z "$why" ] || skip_all "$why"
chaos_up 4 || bail "no cluster"

running() { # JOB ATTEMPT RANKS...
	local job=$1 attempt=$2 rank
	shift 2
	for rank; do wait_until 60 chaos_step "$job" "$attempt" "$rank" 5 || { diag "job $job rank $rank did not come to step 5"; return 1; }; done
}
verdict_of() { chaos_show "$1" '.status + " " + .attempts[-1].outcome + " " + (.attempts[-1].class // "-") + " " + (.attempts | length | tostring)'; }
lost() { hearth nodes --json | jq -e --arg n "$1" '.nodes[] | select(.name == $n) | .state == "lost"'; }
exclusive() { # NAME LAUNCHER NODES STEPS MS: on hosts of its own
	chaos_submit_json "$1-$round" "\"command\": [\"./steps\", \"$CHAOS_SIDE\", \"$4\", \"$5\"], \"launcher\": \"$2\", \"limits\": {\"grace_s\": 2}," \
		"\"resources\": {\"instances\": $3, \"exclusive\": true}"
}

short_cut() { # 2 s: nobody notices
	local a b cut_a cut_b
	a=$(exclusive short-mpirun mpirun 2 300 20)
	b=$(exclusive short-direct direct 2 300 20)
	running "$a" 1 0 1 && running "$b" 1 0 1
	cut_a=$(chaos_host_of "$a" 1) cut_b=$(chaos_host_of "$b" 1)
	does "$cut_a is cut from all" chaos_inject cut "$cut_a"
	does "$cut_b is cut from the controller" chaos_inject cut-controller "$cut_b"
	chaos_pause 2 # the cut's own length
	does "healed after 2 s" chaos_heal_all
	ok "both jobs end" eval "chaos_wait $a 60 && chaos_wait $b 60"
	is "$(verdict_of "$a") / $(verdict_of "$b")" "completed succeeded - 1 / completed succeeded - 1" "as if nothing had been"
}

long_cut() { # 20 s: two of four hosts are lost
	local a b c cut_a cut_b
	a=$(exclusive long-mpirun mpirun 2 1000 30)
	b=$(exclusive long-direct direct 1 1000 30)
	c=$(exclusive long-left direct 1 1000 30)
	running "$a" 1 0 1 && running "$b" 1 0 && running "$c" 1 0
	cut_a=$(chaos_host_of "$a" 1) cut_b=$(chaos_host_of "$b" 0)
	chaos_look
	does "$cut_a is cut from all" chaos_inject cut "$cut_a" long
	does "$cut_b is cut from the controller" chaos_inject cut-controller "$cut_b" long
	does "the owner of one job wants it elsewhere" chaos_requeue "$b"
	does "another job is stopped, to make room" chaos_stop "$c"
	ok "$cut_a is lost" wait_until 40 lost "$cut_a"
	ok "$cut_b is lost" wait_until 40 lost "$cut_b"
	ok "the job on it runs elsewhere" running "$b" 2 0
	unlike "$(chaos_host_of "$b" 0)" "^($cut_a|$cut_b)\$" "on a host that is there"
	ok "the job that nobody wanted elsewhere has ended" chaos_wait "$a" 60
	is "$(verdict_of "$a")" "failed lost node_lost 1" "with the loss of its node as the reason"
	like "$(chaos_show "$a" .reason)" "$cut_a" "which is named"
	chaos_pause 5
	does "healed after 20 s" chaos_heal_all
	for host in $cut_a $cut_b; do
		ok "$host is back" wait_until 30 cluster_node_up "$host"
		left_clean "$host" "nothing is left on it" "$a.1" "$b.1"
	done
	ok "the job ends" chaos_wait "$b" 90
	is "$(verdict_of "$b")" "completed succeeded - 2" "well, in its second attempt"
	is "$(hearth events "$a" --json | jq '[.events[] | select(.type == "ended")] | length')" 1 "what the lost host reports later changes nothing"
}
chaos_clean_of() { # HOST LAUNCH...: no process of these launches is there
	local host=$1 launch
	shift
	for launch; do ! chaos_procs "$host" | awk -v l="$launch" '$4 == l {found = 1} END {exit !found}' || return 1; done
}
left_clean() { # HOST WHAT LAUNCH...: soon; else what is there, in which state, and what its agent did
	local host=$1 what=$2 rc
	shift 2
	wait_until 30 chaos_clean_of "$host" "$@"
	rc=$?
	tap_result $rc "$what"
	[ $rc -eq 0 ] || diag "$(chaos_procs "$host")" "$(chaos_procs "$host" | while read -r _ pid _; do grep -s State "/proc/$pid/status"; done)" \
		"$(tail -n 100 "$CLUSTER/agent-$host.log")"
}

frozen() { # 20 s: a whole node, and an agent alone; only beats count
	local a b host_a host_b
	a=$(exclusive frozen direct 1 1500 20)
	b=$(CHAOS_RETRY='' exclusive stopped direct 1 700 20)
	running "$a" 1 0 && running "$b" 1 0
	host_a=$(chaos_host_of "$a" 0) host_b=$(chaos_host_of "$b" 0)
	chaos_look
	does "$host_a is frozen" chaos_inject freeze "$host_a" long
	does "the agent of $host_b is stopped" chaos_inject stop-agent "$host_b" long
	ok "$host_a is lost" wait_until 40 lost "$host_a"
	ok "$host_b is lost" wait_until 40 lost "$host_b"
	ok "the jobs end" eval "chaos_wait $a 60 && chaos_wait $b 60"
	is "$(verdict_of "$a")" "failed lost node_lost 1" "the one that may not begin again as lost with its node"
	is "$(verdict_of "$b")" "completed succeeded - 2" "the other one well, on another host"
	unlike "$(chaos_host_of "$b" 0)" "^($host_a|$host_b)\$" "that is neither of them"
	does "both go on" chaos_heal_all
	for host in $host_a $host_b; do
		ok "$host is back" wait_until 30 cluster_node_up "$host"
		left_clean "$host" "what ran there is ended" "$a.1" "$b.1"
	done
}

slow() { # a narrow link is no failure
	local id
	id=$(exclusive slow mpirun 2 100 20)
	running "$id" 1 0 1
	does "a slow link" chaos_inject slow "$(chaos_host_of "$id" 1)" 512kbit
	ok "the job ends" chaos_wait "$id" 90
	is "$(verdict_of "$id")" "completed succeeded - 1" "well"
	id=$(exclusive slow-all mpirun 4 20 20)
	ok "a job that begins on a slow link ends" chaos_wait "$id" 90
	is "$(verdict_of "$id")" "completed succeeded - 1" "well, too"
	does "healed" chaos_heal_all
}

rounds=${HEARTH_SOAK:+20}
for round in $(seq "${CHAOS_ROUNDS:-${rounds:-1}}"); do
	short_cut
	long_cut
	frozen
	slow
	verdict=$(chaos_finish 120)
	is $? 0 "the verifier finds nothing (round $round)"
	diag "$verdict"
done
chaos_down
done_testing
