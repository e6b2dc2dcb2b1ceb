#!/bin/bash
# Jobs and faults by chance for half a minute (HEARTH_SOAK: 20 seeds, a minute each), then the verifier. A seed that failed is run again by
#	tests/chaos/chaos.sh random --seed N --minutes 1
. "${HEARTH_TOP_SRCDIR:?}/tests/chaos/chaos.sh"
why=$(chaos_can)
[ -z "$why" ] || skip_all "$why"
chaos=$HEARTH_TOP_SRCDIR/tests/chaos/chaos.sh
by_hand() { # chaos.sh as a program: what is remembered from one call to the next
	ok "chaos.sh up" test -d "${CHAOS:=$("$chaos" up 2)}"
	export CHAOS
	is "$("$chaos" submit by-hand mpirun 2 100 20)" 1 "chaos.sh submit"
	is "$("$chaos" submit short direct 1 1 1)" 2 "and a short one"
	wait_until 30 grep -qs '^step 5 ' "$CHAOS/hist/side/1.1.1"
	ok "chaos.sh look" wait_until 60 looked
	ok "chaos.sh inject" "$chaos" inject kill-agent host2
	ok "chaos.sh inject a second one" "$chaos" inject cut-controller host1
	ok "chaos.sh heal-all" "$chaos" heal-all
	ok "chaos.sh finish" "$chaos" finish
	ok "chaos.sh down" "$chaos" down
	ok "nothing of that cluster is left" eval '! ip netns list | grep -q "^${CHAOS##*/}-" && ! test -e "$CHAOS"'
	unset CHAOS
}
looked() { # until the end of the short one was shown
	"$chaos" look && grep '"op":"show"' "$CHAOS/hist/client.jsonl" | grep -q completed
}
run() { # SEED SECONDS
	local verdict steps
	chaos_up 4 || bail "no cluster"
	diag "seed $1"
	does "seed $1: jobs and faults for $2 s" chaos_random "$1" "$2"
	steps=$(grep '^# step' "$CLUSTER/does.out")
	is "$steps" "$("$chaos" plan --seed "$1" --steps "$(wc -l <<<"$steps")")" "seed $1: they are those of its plan, in that order"
	diag "$(grep '^#' "$CLUSTER/does.out")"
	verdict=$(chaos_finish 120)
	is $? 0 "seed $1: the verifier finds nothing"
	diag "$verdict"
	chaos_down
}
by_hand
if [ -n "${HEARTH_SOAK:-}" ]; then
	for seed in $(seq "${CHAOS_SEED:-1}" $((${CHAOS_SEED:-1} + 19))); do run "$seed" 60; done
else
	run "${CHAOS_SEED:-1}" 30
fi
done_testing
