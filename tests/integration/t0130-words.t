#!/bin/bash
# What jobctl and hearthd say to each other and to people where a word is odd, on a local cluster: members of sweeps by name and in
# specifications, clones that only ask, notes about metrics that nothing reads, logs as JSON, what is gone.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --fake-gpus 2 || bail "no local cluster: $ERR"

spec() { # FILE JQ-PROGRAM: a small job, changed
	jq -n '{name: "t", command: ["true"], launcher: "direct"} | '"${2:-.}" >"$1"
}

# --- a sweep whose metric nobody reads --------------------------------------------------------------------------
spec grid.json '.name = "grid" | .command = ["sh", "-c", "echo $SM_HP_X >$SM_MODEL_DIR/x; echo step=1 los=$SM_HP_X; echo step=2 los=$SM_HP_X"]
	| .sweep.x = {from: 1, to: 3} | .search = {metric: "loss", halving: {min_step: 50}}
	| .metrics = [{name: "los", regex: "los=([0-9.]+)"}, {name: "step", regex: "step=([0-9]+)"}]'
rc 0 'Note: search.metric: no pattern under "metrics" is called "loss" \(did you mean "los"\?\)' "a dry run says that the metric is read by nothing" submit grid.json --dry-run
is "$("$jobctl" submit grid.json --dry-run --json | jq '.warnings | length')" 1 "as JSON, too"
rc 0 'Note: search.metric' "and so does a submit" submit grid.json
grid=$OUT
grid=${grid%%[!0-9]*}
is "$("$jobctl" submit grid.json --set search.metric=los --json 2>/dev/null | jq '.warnings')" null "one that is read is not spoken of"
rc 0 "^$grid completed" "it runs" wait "$grid" --timeout 60

# --- the example of halving -------------------------------------------------------------------------------------
rc 0 "" "the example of halving runs" submit "$HEARTH_TOP_SRCDIR/examples/halving/job.json" --wait
unlike "$ERR" "Note:" "and says nothing about its metrics"
is "$("$jobctl" show halving --json | jq '.members | .count, .completed + .stopped' | paste -sd,)" 9,9 "all nine have completed or were stopped"
ok "some of them early" eval '[ "$("$jobctl" ls array:"$("$jobctl" show halving --json | jq .id)" --json | jq "[.jobs[] | select(.halved)] | length")" -ge 1 ]'
best_ran() { [ "$("$jobctl" show halving --members 0 --json | jq -r '.members[0] | "\(.status) \(.metric.step >= 89)"')" = "completed true" ]; }
ok "the best one ran to its end" wait_until 60 best_ran # points travel on a connection of their own

# --- nodes of this machine and what they cost --------------------------------------------------------------------
like "$("$jobctl" nodes)" "node-1 +up +127.0.0.1 +local " "local nodes are of a type"
rc 0 "^Nothing was spent: .* instances set TYPE price_per_hour=N" "which costs nothing" cost
rc 0 "^name +local" "until a price is set" instances set local price_per_hour=36
spec paid.json '.command = ["sleep", "3"] | .resources.gpus_per_instance = 2 | .resources.ranks_per_instance = 1'
rc 0 "" "a job" submit paid.json --wait
rc 0 "^total .0\.0[1-9]" "costs something" cost
rc 0 "local" "the price is taken back" instances rm local

# --- its members by name, and in specifications ------------------------------------------------------------------
rc 0 "^$((grid + 2)) completed|^$grid.1 completed" "a member by the name of the whole" wait "grid~1.1" --timeout 60
is "$("$jobctl" show "$grid.1" --json | jq -r .ref)" "$("$jobctl" show "grid~1.1" --json | jq -r .ref)" "is the one of its number"
rc 3 "job [0-9]+ has 3 members" "one that there is not: 3" show grid.7
rc 3 "no job named nothing.3" "nor one of what is called otherwise" show nothing.3
spec dotted.json '.name = "grid.2"'
rc 0 "" "a job whose own name ends so" submit dotted.json --wait
is "$("$jobctl" show grid.2 --json | jq -r .name)" grid.2 "is meant by that name"
spec next.json '.after = ["afterok:'"$grid"'.1"] | .inputs.base.uri = "job:'"$grid"'.2/model" | .command = ["sh", "-c", "cat $SM_CHANNEL_BASE/x"]'
rc 0 "" "a job that waits for a member, and takes what it left" submit next.json --wait
is "$("$jobctl" logs last)" 3 "has it"
spec far.json '.after = ["'"$grid"'.9"]'
rc 3 "after\[0\]: job $grid has 3 members" "a member that there is not is refused" submit far.json
spec far.json '.resume_from = "job:'"$grid"'.9"'
rc 3 "resume_from: job $grid has 3 members" "as a checkpoint, too" submit far.json

# --- clones that only ask, and that wait --------------------------------------------------------------------------
before=$("$jobctl" ls --json | jq '.jobs | length')
rc 0 "would accept" "clone --dry-run" clone "$grid" --dry-run
is "$("$jobctl" ls --json | jq '.jobs | length')" "$before" "makes no job"
spec slow.json '.command = ["sleep", "600"] | .name = "slow"'
slow=$("$jobctl" submit slow.json 2>/dev/null)
rc 0 "it would wait for job $slow to end$" "clone --after, asked only" clone last~1 --dry-run --after "afterany:$slow"
clone=$("$jobctl" clone "$(("$slow" - 1))" --after "afterany:slow" 2>/dev/null)
is "$("$jobctl" show "$clone" --json | jq -c .spec.after)" "[\"afterok:$grid.1\",\"afterany:$slow\"]" "a clone waits for that job, too"
rc 2 "expected JOB or afterok:JOB" "a kind that is none" clone last --after "what:$slow"
rc 2 "expected JOB or afterok:JOB" "of submit, too" submit slow.json --after "what:$slow"
"$jobctl" stop "$slow" "$clone" --grace 1 >/dev/null

# --- waiting for some that are not there --------------------------------------------------------------------------
rc 3 "no job named nobody" "wait: a name that is none is said, the others are waited for" wait "$grid,nobody,$slow,99999"
is "$(sort <<<"$OUT" | paste -sd, -)" "$grid completed,$slow stopped" "each of them"
like "$ERR" "no job 99999" "a number, too"

# --- a log as JSON -----------------------------------------------------------------------------------------------
is "$("$jobctl" logs "$grid.1" --json --tail 1 | jq -c '[.attempt, .stream, .text]')" '[1,"rank-0","step=2 los=2"]' "lines of a log as JSON"
is "$("$jobctl" logs "$grid.1" -f --json --grep step=2 2>/dev/null | jq -r .text)" "step=2 los=2" "followed and searched"
is "$("$jobctl" logs "$grid.1" --json --stream setup -N 1 2>/dev/null | jq -rs 'map(.stream) | unique | join(" ")')" "$("$jobctl" logs "$grid.1" --stream setup -N 1 2>/dev/null | grep -q . && echo setup-algo-1)" "a stream by its own name"
is "$("$jobctl" logs "$grid.1" --list --json | jq -r '[.streams[].stream] | index("rank-0") != null')" true "the streams where they are asked for"
rc 2 "--tail is only for the lines" "not both" logs "$grid.1" --list --tail 3

# --- what was spent by nobody -------------------------------------------------------------------------------------
"$jobctl" queue set research >/dev/null
rc 0 "^Nothing was spent" "cost of a queue that spent nothing" cost --queue research
rc 3 'there is no queue "reserch"; did you mean "research"' "of one that there is not: 3, with the nearest" cost --queue reserch
rc 3 'no job belongs to "nobody-at-all"' "of somebody without jobs" cost --owner nobody-at-all
rc 0 "^Nothing was spent" "of a job" cost "$grid"
rc 3 "no job 9999" "of a job that there is not" cost 9999
rc 2 "from: expected a time in the past" "of a time to come" cost --from 2999-01-01
rc 2 "from: expected a time before to" "backwards" cost --from 1d --to 2d

# --- the nearest words ---------------------------------------------------------------------------------------------
rc 2 'unknown state "foo"; expected held, queued, .* failed, stopped' "a state that is none: which there are" ls status:foo
rc 2 'unknown key "price".*there are .*price_per_hour' "a fact of a type that is none: which there are" instances set local price=3
rc 2 'did you mean "resources.gpus_per_instance"' "a key of resources" submit slow.json --set gpus_per_instance=1
rc 2 'resources.gpus: unknown key; did you mean "gpus_per_instance"' "another word for it" submit slow.json --set resources.gpus=1
rc 0 "quota of 1 GPU$" "one GPU" quota set research gpus=1
rc 4 "the quota of research is 1 GPU: it could never start" "in a refusal, too" submit slow.json --set queue=research --set resources.gpus_per_instance=2 --set resources.ranks_per_instance=1 --dry-run
for n in nan inf -inf 1e400 0x10 " 3" "" 3x; do rc 2 "weight '$n': expected a number" "a weight of '$n'" queue set research "weight=$n"; done
for n in nan 1e3 2.5 -1 ""; do rc 2 "gpus '$n': expected a whole number" "a quota of '$n'" quota set research "gpus=$n"; done
for n in nan inf 1e999; do rc 2 "usd '$n': expected a number" "a budget of '$n'" budget set research "usd=$n"; done
rc 0 "weight 0\\.25" "a weight that is one" queue set research weight=2.5e-1
rc 0 "node-1 .* 0/2 +2x " "nodes shows the model of GPUs" nodes

# --- what would have been ----------------------------------------------------------------------------------------
"$jobctl" trace >record
recorded() { "$jobctl" simulate record --json "$@" | jq -c '[.recorded | .nodes, .gpus, .utilization]'; }
was=$(recorded)
like "$was" '^\[2,4,0\.' "the recorded cluster"
is "$(recorded --more-nodes 3)" "$was" "stays what it was with more nodes"
is "$(recorded --without node-1)" "$was" "and with fewer"
is "$("$jobctl" simulate record --without node-1 --json | jq -c '[.nodes, .gpus]')" "[1,2]" "the simulated one has those that are left"
rc 0 "^nodes +2 +2$" "a weight of who was there" simulate record -w "default/@$(id -un)=3"
rc 2 "knows no queue or user nope" "of nobody" simulate record -w nope=3
rc 2 "No such file" "a record that is not there" simulate norecord --nodes 1 --gpus-per-node 1

local_dir=$home/.local/share/hearth/local
kill -KILL "$(cut -d' ' -f2 "$local_dir/run/hearthd")"
rc 0 "^up: .*started: hearthd" "hearthd is started again" local up
"$jobctl" node drain node-1 >/dev/null && "$jobctl" node resume node-1 >/dev/null
two_parts() { [ "$("$jobctl" trace --list --json | jq '.parts | length')" = 2 ]; }
ok "its part of the record begins" wait_until 60 two_parts
run trace
new=$OUT
like "$ERR" "^jobctl: part 2, .* has no jobs; .*: jobctl trace --part 1; .*: jobctl trace --list" \
	"a new part without jobs: the earlier ones are named"
printf '%s\n' "$new" >empty
rc 0 "there are no jobs in this trace" "its simulation says so" simulate empty
"$jobctl" trace --part 1 >again 2>err
is "$(wc -c <err) $("$jobctl" simulate again --json | jq .jobs)" "0 $("$jobctl" simulate record --json | jq .jobs)" "the earlier part has them"

# --- words -------------------------------------------------------------------------------------------------------
spec hour.json '.limits.max_runtime_s = "1h"'
rc 2 'limits.max_runtime_s: is a whole number of seconds: 3600, not "1h"' "a duration in a specification: so many seconds" submit hour.json
spec odd.json '.limits.max_runtime_s = "long"'
rc 2 'limits.max_runtime_s: expected a whole number, got a string' "what is none" submit odd.json
spec plain.json
waits=$("$jobctl" submit plain.json --hold 2>/dev/null)
rc 0 "^job $waits is stopped; it had not started" "stop of a job that waits" stop "$waits"
rc 0 "^job $waits has ended \\(stopped\\)" "and again" stop "$waits"
rc 4 "node node-1 is not lost: its agent was heard [0-9.]+ s ago\\. .*: jobctl node drain node-1" \
	"a node that is heard is not asked about" node lost node-1
rc 3 "there is no node \"node-9\" \\(did you mean node-[12]\\?\\)" "nor one that there is not" node lost node-9
rc 3 "there is no node \"node-9\" \\(did you mean node-[12]\\?\\); jobctl nodes lists them" "drain" node drain node-9
rc 3 "did you mean step\\?" "a metric" metrics "$grid.0" stpe
spec second.json '.resources.instances = 2 | .command = ["sh", "-c", "[ $RANK = 0 ] && exec sleep 3600; exit 3"] | .limits.grace_s = 1'
rc 1 "^More: .*; jobctl logs [0-9]+ --rank 1\$" "submit -f: the rank that failed, and where to read more" submit second.json -f

# --- what is gone -------------------------------------------------------------------------------------------------
rc 0 "jobctl get $grid.1 model|jobctl get $((grid + 2)) model" "what a job left is offered" show "$grid.1"
"$jobctl" rm "$grid.1" >/dev/null
rc 0 "^model +.*, removed$" "once it is removed that is said" show "$grid.1"
unlike "$OUT" "jobctl get" "and nothing offered"

done_testing
