#!/bin/bash
# What jobctl and hearthd say to each other and to people where a word is odd, on a local cluster: members of sweeps by name and in
# specifications, clones that only ask, notes about metrics that nothing reads, logs as JSON, what is gone.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --fake-gpus 2 || bail "no local cluster: $ERR"

spec() { # FILE JQ-PROGRAM: a small job, changed
	jq -n '{name: "t", command: ["true"], launcher: "direct", retry: {max_attempts: 0}} | '"${2:-.}" >"$1"
}

# --- a sweep whose metric nobody reads --------------------------------------------------------------------------
spec grid.json '.name = "grid" | .command = ["sh", "-c", "echo $SM_HP_X >$SM_MODEL_DIR/x; echo step=1 los=$SM_HP_X; echo step=2 los=$SM_HP_X"]
	| .sweep.x = {from: 1, to: 3} | .search = {metric: "loss", halving: {min_step: 50}}
	| .metrics = [{name: "los", regex: "los=([0-9.]+)"}, {name: "step", regex: "step=([0-9]+)"}]'
rc 0 'Note: search.metric: no pattern under "metrics" is called "loss" \(did you mean "los"\?\)' "a dry run says that the metric is read by nothing" submit grid.json --dry-run
is "$("$jobctl" submit grid.json --dry-run --json | jq '.warnings | length')" 1 "dry run with --json: the warnings are a list"
rc 0 'Note: search.metric' "submit warns about a metric that no pattern reads" submit grid.json
grid=$OUT
grid=${grid%%[!0-9]*}
is "$("$jobctl" submit grid.json --set search.metric=los --json 2>/dev/null | jq '.warnings')" null "submit with a metric that is read: no warning"
rc 0 "^$grid completed" "the sweep completes" wait "$grid" --timeout 60

# --- the example of halving -------------------------------------------------------------------------------------
rc 0 "" "the example of halving runs" submit "$HEARTH_TOP_SRCDIR/examples/halving/job.json" --wait
unlike "$ERR" "Note:" "the example of halving submits without warnings"
is "$("$jobctl" show halving --json | jq '.members | .count, .completed + .stopped' | paste -sd,)" 9,9 "halving: all nine members have completed or were stopped"
ok "halving: some members were stopped early" eval '[ "$("$jobctl" ls array:"$("$jobctl" show halving --json | jq .id)" --json | jq "[.jobs[] | select(.halved)] | length")" -ge 1 ]'
best_ran() { [ "$("$jobctl" show halving --members 0 --json | jq -r '.members[0] | "\(.status) \(.metric.step >= 89)"')" = "completed true" ]; }
ok "halving: the best member completed" wait_until 60 best_ran # points travel on a connection of their own

# --- nodes of this machine and what they cost --------------------------------------------------------------------
like "$("$jobctl" nodes)" "node-1 +up +127.0.0.1 +local " "local nodes have the instance type local"
rc 0 "^Nothing was spent: .* instances set TYPE price_per_hour=N" "cost without a price: nothing was spent" cost
rc 0 "^name +local" "instances set gives the type local a price" instances set local price_per_hour=36
spec paid.json '.command = ["sleep", "3"] | .resources.gpus_per_instance = 2 | .resources.ranks_per_instance = 1'
rc 0 "" "a job with two GPUs completes" submit paid.json --wait
rc 0 "^total .0\.0[1-9]" "cost with a price: the job has a cost" cost
rc 0 "local" "instances rm removes the price" instances rm local

# --- its members by name, and in specifications ------------------------------------------------------------------
rc 0 "^$((grid + 2)) completed|^$grid.1 completed" "wait: NAME~1.1 names a member of a sweep" wait "grid~1.1" --timeout 60
is "$("$jobctl" show "$grid.1" --json | jq -r .ref)" "$("$jobctl" show "grid~1.1" --json | jq -r .ref)" "NAME~1.1 and ID.1 are the same member"
rc 3 "job [0-9]+ has 3 members" "show of a member beyond the last: exit code 3" show grid.7
rc 3 "no job named nothing.3" "show of a member of an unknown name: exit code 3" show nothing.3
spec dotted.json '.name = "grid.2"'
rc 0 "" "a job may have the name grid.2" submit dotted.json --wait
is "$("$jobctl" show grid.2 --json | jq -r .name)" grid.2 "the own name of a job goes before a member"
spec next.json '.after = ["afterok:'"$grid"'.1"] | .inputs.base.uri = "job:'"$grid"'.2/model" | .command = ["sh", "-c", "cat $SM_CHANNEL_BASE/x"]'
rc 0 "" "a job may wait for a member and use its model" submit next.json --wait
is "$("$jobctl" logs last)" 3 "the job has read the member's model"
spec far.json '.after = ["'"$grid"'.9"]'
rc 3 "after\[0\]: job $grid has 3 members" "after with an unknown member: exit code 3" submit far.json
spec far.json '.resume_from = "job:'"$grid"'.9"'
rc 3 "resume_from: job $grid has 3 members" "resume_from with an unknown member: exit code 3" submit far.json

# --- clones that only ask, and that wait --------------------------------------------------------------------------
before=$("$jobctl" ls --json | jq '.jobs | length')
rc 0 "would accept" "clone --dry-run" clone "$grid" --dry-run
is "$("$jobctl" ls --json | jq '.jobs | length')" "$before" "clone --dry-run makes no job"
spec slow.json '.command = ["sleep", "600"] | .name = "slow"'
slow=$("$jobctl" submit slow.json 2>/dev/null)
rc 0 "it would wait for job $slow to end$" "clone --dry-run --after reports the wait" clone last~1 --dry-run --after "afterany:$slow"
clone=$("$jobctl" clone "$(("$slow" - 1))" --after "afterany:slow" 2>/dev/null)
is "$("$jobctl" show "$clone" --json | jq -c .spec.after)" "[\"afterok:$grid.1\",\"afterany:$slow\"]" "clone --after adds to the jobs that the copy waits for"
rc 2 "expected JOB or afterok:JOB" "clone --after with an unknown kind: exit code 2" clone last --after "what:$slow"
rc 2 "expected JOB or afterok:JOB" "submit --after with an unknown kind: exit code 2" submit slow.json --after "what:$slow"
"$jobctl" stop "$slow" "$clone" --grace 1 >/dev/null

# --- waiting for some that are not there --------------------------------------------------------------------------
rc 3 "no job named nobody" "wait reports an unknown name, waits for the others and exits with 3" wait "$grid,nobody,$slow,99999"
is "$(sort <<<"$OUT" | paste -sd, -)" "$grid completed,$slow stopped" "wait prints the end of each known job"
like "$ERR" "no job 99999" "wait reports an unknown id"

# --- a log as JSON -----------------------------------------------------------------------------------------------
is "$("$jobctl" logs "$grid.1" --json --tail 1 | jq -c '[.attempt, .stream, .text]')" '[1,"rank-0","step=2 los=2"]' "logs --json prints attempt, stream and text"
is "$("$jobctl" logs "$grid.1" -f --json --grep step=2 2>/dev/null | jq -r .text)" "step=2 los=2" "logs -f --json --grep prints the matching line"
is "$("$jobctl" logs "$grid.1" --json --stream setup -N 1 2>/dev/null | jq -rs 'map(.stream) | unique | join(" ")')" "$("$jobctl" logs "$grid.1" --stream setup -N 1 2>/dev/null | grep -q . && echo setup-algo-1)" "logs --stream setup -N 1 names the stream setup-algo-1"
is "$("$jobctl" logs "$grid.1" --list --json | jq -r '[.streams[].stream] | index("rank-0") != null')" true "logs --list --json lists rank-0"
rc 2 "--tail is only for the lines" "logs --list with --tail: exit code 2" logs "$grid.1" --list --tail 3

# --- what was spent by nobody -------------------------------------------------------------------------------------
"$jobctl" queue set research >/dev/null
rc 0 "^Nothing was spent" "cost of a queue without jobs: nothing was spent" cost --queue research
rc 3 'there is no queue "reserch"; did you mean "research"' "cost of an unknown queue: exit code 3, and the nearest name" cost --queue reserch
rc 3 'no job belongs to "nobody-at-all"' "cost of a user without jobs: exit code 3" cost --owner nobody-at-all
rc 0 "^Nothing was spent" "cost of a free job: nothing was spent" cost "$grid"
rc 3 "no job 9999" "cost of an unknown job: exit code 3" cost 9999
rc 2 "from: expected a time in the past" "cost from a future time: exit code 2" cost --from 2999-01-01
rc 2 "from: expected a time before to" "cost with --from after --to: exit code 2" cost --from 1d --to 2d

# --- the nearest words ---------------------------------------------------------------------------------------------
rc 2 'unknown state "foo"; expected held, queued, .* failed, stopped' "ls with an unknown state lists the states" ls status:foo
rc 2 'unknown key "price".*known keys: .*price_per_hour' "instances set with an unknown key lists the keys" instances set local price=3
rc 2 'did you mean "resources.gpus_per_instance"' "submit --set with a key of resources suggests the full path" submit slow.json --set gpus_per_instance=1
rc 2 'resources.gpus: unknown key; did you mean "gpus_per_instance"' "submit --set with resources.gpus suggests the key" submit slow.json --set resources.gpus=1
rc 0 "quota of 1 GPU$" "quota set with one GPU uses the singular" quota set research gpus=1
rc 4 "the quota of research is 1 GPU: it could never start" "a refusal by a quota of one GPU uses the singular" submit slow.json --set queue=research --set resources.gpus_per_instance=2 --set resources.ranks_per_instance=1 --dry-run
for n in nan inf -inf 1e400 0x10 " 3" "" 3x; do rc 2 "weight '$n': expected a number" "a weight of '$n'" queue set research "weight=$n"; done
for n in nan 1e3 2.5 -1 ""; do rc 2 "gpus '$n': expected a whole number" "a quota of '$n'" quota set research "gpus=$n"; done
for n in nan inf 1e999; do rc 2 "usd '$n': expected a number" "a budget of '$n'" budget set research "usd=$n"; done
rc 0 "weight 0\\.25" "queue set accepts a weight in exponent form" queue set research weight=2.5e-1
rc 0 "node-1 .* 0/2 +2x " "nodes shows the model of GPUs" nodes

# --- what would have been ----------------------------------------------------------------------------------------
"$jobctl" trace >record
recorded() { "$jobctl" simulate record --json "$@" | jq -c '[.recorded | .nodes, .gpus, .utilization]'; }
was=$(recorded)
like "$was" '^\[2,4,0\.' "simulate: the recorded figures of the cluster"
is "$(recorded --more-nodes 3)" "$was" "simulate --more-nodes leaves the recorded figures"
is "$(recorded --without node-1)" "$was" "simulate --without leaves the recorded figures"
is "$("$jobctl" simulate record --without node-1 --json | jq -c '[.nodes, .gpus]')" "[1,2]" "simulate --without removes the node from the simulated cluster"
rc 0 "^nodes +2 +2$" "simulate -w accepts a user of the record" simulate record -w "default/@$(id -un)=3"
rc 2 "knows no queue or user nope" "simulate -w with an unknown queue: exit code 2" simulate record -w nope=3
rc 2 "No such file" "simulate of a missing file: exit code 2" simulate norecord --nodes 1 --gpus-per-node 1

local_dir=$home/.local/share/hearth/local
kill -KILL "$(cut -d' ' -f2 "$local_dir/run/hearthd")"
rc 0 "^up: .*started: hearthd" "local up starts a killed hearthd again" local up
"$jobctl" node drain node-1 >/dev/null && "$jobctl" node resume node-1 >/dev/null
two_parts() { [ "$("$jobctl" trace --list --json | jq '.parts | length')" = 2 ]; }
ok "the record has a second part after the restart" wait_until 60 two_parts
run trace
new=$OUT
like "$ERR" "^jobctl: part 2, .* has no jobs; .*: jobctl trace --part 1; .*: jobctl trace --list" \
	"trace of a part without jobs names the part before"
printf '%s\n' "$new" >empty
rc 0 "there are no jobs in this trace" "simulate of a part without jobs says so" simulate empty
"$jobctl" trace --part 1 >again 2>err
is "$(wc -c <err) $("$jobctl" simulate again --json | jq .jobs)" "0 $("$jobctl" simulate record --json | jq .jobs)" "trace --part 1 has the jobs"

# --- words -------------------------------------------------------------------------------------------------------
spec hour.json '.limits.max_runtime_s = "1h"'
rc 2 'limits.max_runtime_s: is a whole number of seconds: 3600, not "1h"' "a duration in max_runtime_s: the error has the seconds" submit hour.json
spec odd.json '.limits.max_runtime_s = "long"'
rc 2 'limits.max_runtime_s: expected a whole number, got a string' "a text in max_runtime_s: exit code 2" submit odd.json
spec plain.json
waits=$("$jobctl" submit plain.json --hold 2>/dev/null)
rc 0 "^job $waits is stopped; it had not started" "stop of a waiting job" stop "$waits"
rc 0 "^job $waits has ended \\(stopped\\)" "stop of a job that has ended" stop "$waits"
rc 4 "node node-1 is not lost: its agent was heard [0-9.]+ s ago\\. .*: jobctl node drain node-1" \
	"node lost of a connected node: exit code 4" node lost node-1
rc 3 "there is no node \"node-9\" \\(did you mean node-[12]\\?\\)" "node lost of an unknown node: exit code 3, and the nearest name" node lost node-9
rc 3 "there is no node \"node-9\" \\(did you mean node-[12]\\?\\); jobctl nodes lists them" "node drain of an unknown node: exit code 3, and the nearest name" node drain node-9
rc 3 "did you mean step\\?" "metrics of an unknown metric suggests the nearest" metrics "$grid.0" stpe
spec second.json '.resources.instances = 2 | .command = ["sh", "-c", "[ $RANK = 0 ] && exec sleep 3600; exit 3"] | .limits.grace_s = 1'
rc 1 "^More: .*; jobctl logs [0-9]+ --rank 1\$" "submit -f names the log of the rank that failed" submit second.json -f

# --- what is gone -------------------------------------------------------------------------------------------------
rc 0 "jobctl get $grid.1 model|jobctl get $((grid + 2)) model" "show offers the model of a job" show "$grid.1"
"$jobctl" rm "$grid.1" >/dev/null
rc 0 "^model +.*, removed$" "show reports a removed model" show "$grid.1"
unlike "$OUT" "jobctl get" "show does not offer a removed model"

done_testing
