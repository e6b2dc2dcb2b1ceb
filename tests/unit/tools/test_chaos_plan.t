#!/bin/bash
# The seed of chaos.sh random gives its jobs and faults: the same list twice, whatever runs beside, and another list for another seed. (That what is
# done is that list: integration/t0450-chaos-random.t.)
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
chaos=$HEARTH_TOP_SRCDIR/tests/chaos/chaos.sh
plan() { "$chaos" plan --seed "$1" --steps 200; }
one=$(plan 7)
is "$(wc -l <<<"$one")" 200 "a plan has its steps"
is "$(plan 7)" "$one" "the same seed gives the same jobs and faults"
is "$("$chaos" plan --seed 7 --steps 20)" "$(head -n 20 <<<"$one")" "a shorter run begins as a longer one"
nok "another seed gives others" test "$(plan 8)" = "$one"
is "$(sed 's/^# step [0-9]*: //' <<<"$one" | sort -u | wc -l | awk '{print ($1 > 150)}')" 1 "steps differ"
for what in part stop requeue nothing $("$chaos" list | grep -vE 'fill|power-off|part'); do
	ok "plans have: $what" grep -q "; ${what}[ 0-9]" <<<"$one"
done
nok "a wrong option is refused" "$chaos" plan --sed 7
done_testing
