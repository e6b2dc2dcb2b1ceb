#!/bin/bash
# Arrays and sweeps on real processes: members with their values, at most so many at once, the table of them, and what is done to
# the whole, over a death of hearthd.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearth --slots 4 || bail "no cluster"

submit() { # NAME SHELL-COMMAND MEMBERS [OPTIONS...]
	jq -n --arg n "$1" --arg c "$2" --argjson m "{$3}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", retry: {max_attempts: 0}} + $m' >"$CLUSTER/$1.json"
	hearth submit "${@:4}" "$CLUSTER/$1.json" 2>"$CLUSTER/said"
}
show() { hearth show "$1" --json | jq -r "$2"; }
status_is() { [ "$(show "$1" .status)" = "$2" ]; }
count_is() { [ "$(show "$1" ".members.$2")" = "$3" ]; } # ARRAY COUNT N
reborn() {                                              # hearthd is killed and starts again
	cluster_signal hearthd KILL
	wait_until 30 cluster_gone hearthd
	cluster_hearthd
	for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
}

# --- a grid -----------------------------------------------------------------------------------------------------
loss='"metrics": [{"name": "loss", "regex": "loss=([0-9.]+)"}, {"name": "step", "regex": "step=([0-9]+)"}]'
axes='"sweep": {"x": [5, 2, 7], "y": {"from": 1, "to": 2}}, "search": {"metric": "loss"}'
says='echo "step=1 loss=$SM_HP_X.$SM_HP_Y"; echo "index $HEARTH_ARRAY_INDEX of $HEARTH_ARRAY_COUNT in $HEARTH_ARRAY_JOB: $*"'
like "$(submit dry "$says" "$axes, $loss" --dry-run)" "6 members, each with 1 instance, 1 rank; the first: it would start now" "a dry run says how many members there would be"
grid=$(submit grid "$says" "$axes, $loss")
like "$(cat "$CLUSTER/said")" "6 members: $grid.0 to $grid.5; .*: jobctl show $grid" "submit says how many there are"
ok "the whole can be waited for" hearth wait "$grid" --timeout 120
is "$(show "$grid" '.members | [.count, .completed, .waiting, .running] | join(" ")')" "6 6 0 0" "all members have completed"
like "$(hearth logs "$grid.3")" "index 3 of 6 in $grid: --x 2 --y 2|index 3 of 6 in $grid" "a member knows its number and has its values"
is "$(show "$grid.3" '.hyperparameters | "\(.x) \(.y)"')" "2 2" "which stand in its record"
is "$(show "$grid.3" .ref)" "$grid.3" "it is shown as it is called"
# Points travel on a connection of their own.
best_is() { [ "$(hearth show "$1" --members 0 --json | jq -r '.members[0] | "\(.ref) \(.metric.best)"')" = "$2" ]; }
ok "the best one stands first" wait_until 60 best_is "$grid" "$grid.2 2.1"
like "$(hearth show "$grid")" "6 members: 6 completed" "show counts them"
like "$(hearth show "$grid")" "$grid\.2 +completed +2 +1 +2\.1" "and has a line for each"
like "$(hearth metrics "$grid")" "$grid\.5 +completed +7 +2 +7\.2" "so has metrics"
like "$(hearth ls)" "$grid +grid .* 6 members: 6 completed" "ls has one line for all of them"
is "$(hearth ls --json | jq '[.jobs[] | select(.name == "grid")] | length')" 1 "one only"
is "$(hearth ls "array:$grid" --json | jq -c '[.jobs[].ref]')" "[\"$grid.5\",\"$grid.4\",\"$grid.3\",\"$grid.2\",\"$grid.1\",\"$grid.0\"]" "and the members when they are asked for"
is "$(hearth ls --members --json | jq '[.jobs[] | select(.name == "grid")] | length')" 7 "or all of it"
is "$(show grid .id)" "$grid" "the name is that of the whole"
is "$(cluster_in head curl -s --unix-socket "$CLUSTER/head/data/hearthd.sock" "http://localhost/api/v1/jobs/$grid.4" | jq -c '[.ref, .array, .members]')" "[\"$grid.4\",{\"job\":$grid,\"index\":4},null]" "in an address, too"
nok "a member that there is not" hearth show "$grid.6"
like "$(hearth show "$grid.6" 2>&1)" "job $grid has 6 members: $grid.0 to $grid.5" "says which there are"
like "$(hearth logs "$grid" 2>&1)" ": jobctl logs $grid.0" "the whole has no log"
ok "a sweep that is to be followed is waited for" hearth submit --follow "$CLUSTER/grid.json"
again=$(hearth clone "$grid.4" 2>/dev/null)
ok "a member can be cloned" hearth wait "$again" --timeout 60
like "$(hearth logs "$again")" "index 4 of 6 in $grid" "and is the same again"

# --- members by their names -------------------------------------------------------------------------------------
like "$(hearth get "$grid" model 2>&1)" "no member of job $grid left a model" "get of a sweep that left none"
some=$(submit some '[ "$SM_HP_X" = 2 ] || echo "$SM_HP_X" >"$SM_MODEL_DIR/w"' '"sweep": {"x": [1, 2, 3, 4]}')
is "$(hearth wait "$((some + 1))-$((some + 4))" --timeout 120 | tr '\n' ' ')" "$some.0 completed $some.1 completed $some.2 completed $some.3 completed " "a range of numbers is waited for"
is "$(hearth wait "$((some + 1))-$((some + 4))" | wc -l)" 4 "and again, when all have ended"
out=$(hearth get "$some" model 2>&1)
is "$? $out" "3 jobctl: job $some is an array or a sweep; the model is in its members $some.0, $some.2, $some.3: jobctl get $some.0 model" "get of a sweep leads to the members that have it"
is "$(cd "$CLUSTER" && hearth get "$((some + 3))" model) $(cat "$CLUSTER/$some.2-model/w")" "$some.2-model 3" "get of a member is called as it is"
like "$(hearth get "$some.1" model "$CLUSTER/none" 2>&1)" "job $some.1 left no model" "so is one that left none"
like "$(hearth hold "$some.1" 2>&1)" "job $some.1 has ended" "and a refusal"
like "$(hearth stop "$some.1" 2>&1)" "job $some.1 has ended" "or what came too late"

# --- refused ----------------------------------------------------------------------------------------------------
nok "too many members" submit many "exit 0" '"sweep": {"a": {"from": 1, "to": 300}, "b": {"from": 1, "to": 300}}'
like "$(cat "$CLUSTER/said")" "the grid has 300 x 300 = 90000 members; at most 10000 are possible" "are counted"

# --- some at once, and hearthd dies ---------------------------------------------------------------------------------
few=$(submit few "exit 0" '"array": 5, "max_parallel": 2' --hold)
is "$(show "$few" .status)" held "submitted as held"
hearth stop "$few" >/dev/null
ok "it ends" wait_until 60 status_is "$few" stopped
gate=$(mktemp -u -p /srv hearth-gate-XXXXXX) # all hosts see it
few=$(submit few "while [ ! -e $gate ]; do sleep 0.05; done" '"array": 5, "max_parallel": 2')
ok "two of five run" wait_until 60 count_is "$few" running 2
like "$(hearth why "$few.4")" "waits for its turn: of job $few at most 2 members go at once" "why says so"
reborn
is "$(show "$few" '.members | [.running, .waiting] | join(" ")')" "2 3" "hearthd was killed: two run, three wait"
like "$(hearth why "$few")" "2 of 5 members run, 3 wait, 0 have ended; at most 2 at once" "why of the whole"
hearth stop "$few.4" >/dev/null
: >"$gate"
hearth wait "$few" --timeout 120 >/dev/null
rm -f "$gate"
is "$(show "$few" '.status + ": " + .reason')" "stopped: 1 of 5 members were stopped" "the others have run"
is "$(hearth ls "array:$few" --json | jq '[.jobs[] | select(.status == "completed")] | length')" 4 "all four"

# --- successive halving ------------------------------------------------------------------------------------------
# Those that are left wait for a file between the first and the second comparison.
halving='"search": {"metric": "loss", "halving": {"eta": 2, "min_step": 2}}, "limits": {"grace_s": 1}'
race=$(submit race 'for step in 1 2 3; do echo "step=$step loss=$SM_HP_X.$step"; sleep 0.2; done; while [ ! -e '"$gate"' ]; do sleep 0.05; done; echo "step=4 loss=$SM_HP_X"; [ "$SM_HP_X" = 1 ] || sleep 3600' \
	'"sweep": {"x": {"from": 1, "to": 4}}, '"$halving, $loss")
ok "half of four are stopped" wait_until 120 count_is "$race" stopped 2
is "$(hearth ls "array:$race" --json | jq -c '[.jobs[] | select(.halved) | .ref] | sort')" "[\"$race.2\",\"$race.3\"]" "the worse ones"
like "$(show "$race.3" .reason)" "stopped early .search.halving.: at step 2 loss was 4.2, and [23] of 4 members did better" "with the reason"
like "$(hearth events "$race.3")" "rung" "what they came to is an event"
reborn
: >"$gate"
ok "being stopped early is no failure of the whole" hearth wait "$race" --timeout 120
rm -f "$gate"
is "$(show "$race" '.members | [.completed, .stopped] | join(" ")')" "1 3" "at step 4, after a restart, one of two was left"
is "$(show "$race.1" .halved)" true "the worse one"

# --- stop, fail ---------------------------------------------------------------------------------------------------
long=$(submit long "sleep 3600" '"array": 12, "limits": {"grace_s": 1}')
ok "as many run as there is room for" wait_until 60 count_is "$long" running 8
hearth stop "$long" >/dev/null
ok "all of it is stopped" wait_until 120 status_is "$long" stopped
is "$(show "$long" .members.stopped)" 12 "every member"
bad=$(submit bad 'exit $HEARTH_ARRAY_INDEX' '"array": 2')
nok "one that fails" hearth wait "$bad" --timeout 60
is "$(show "$bad" '.status + ": " + .reason')" "failed: 1 of 2 members failed: $bad.1" "is named"
ok "the data of all of them is removed" hearth rm -y "$bad"
deleted() { [ "$(show "$1" .deleted)" = true ]; }
ok "of the members" wait_until 60 deleted "$bad.1"
ok "and of the whole" wait_until 60 deleted "$bad"

ok "what happened gives what is on record" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify

cluster_clean
cluster_down
done_testing
