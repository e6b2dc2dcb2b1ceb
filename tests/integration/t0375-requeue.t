#!/bin/bash
# What a requeue begins with, through the real programs: the checkpoints that were left, the start, a step of any attempt; what show, get, resume_from and wait say then.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 4 || bail "no cluster"
src=$CLUSTER/src
mkdir -p "$src"
# Says where it begins, by the step that is named, else by the newest in the folder; writes a checkpoint for each step that its
# attempt is to make, and waits for its end.
cat >"$src/train.sh" <<'P'
if [ -z "$HEARTH_RESUME_FROM" ]; then
	began=nothing
elif [ -n "$HEARTH_RESUME_STEP" ]; then
	began="step $HEARTH_RESUME_STEP: $(cat "$HEARTH_RESUME_FROM/w")"
else
	began="the folder: $(cat "$HEARTH_RESUME_FROM/step-$(ls "$HEARTH_RESUME_FROM" | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)/w")"
fi
echo "attempt $HEARTH_ATTEMPT from $began; has $(ls "$HEARTH_CHECKPOINT_DIR" | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | xargs)"
case $HEARTH_ATTEMPT in 1) steps="3 6 9" ;; 2) steps=12 ;; 3) steps=3 ;; 5) steps=4 ;; *) steps= ;; esac
for s in $steps; do
	mkdir -p "$HEARTH_CHECKPOINT_DIR/.new"
	echo "step $s of attempt $HEARTH_ATTEMPT" >"$HEARTH_CHECKPOINT_DIR/.new/w"
	rm -rf "$HEARTH_CHECKPOINT_DIR/step-$s"
	mv "$HEARTH_CHECKPOINT_DIR/.new" "$HEARTH_CHECKPOINT_DIR/step-$s"
	echo "step=$s"
done
mkdir -p "$HEARTH_CHECKPOINT_DIR/step-99.tmp"
echo made
exec sleep 600
P
submit() { # NAME MEMBERS...
	printf '{"name": "%s", "launcher": "direct", "limits": {"grace_s": 1}, %s}\n' "$1" "${*:2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
made() { # JOB ATTEMPT: it has written all that it writes
	wait_until 60 eval 'hearth logs '"$1"' --attempt '"$2"' 2>/dev/null | grep -q "^made"'
}
began() { hearth logs "$1" --attempt "$2" 2>/dev/null | sed -n 1p; }
job=$(submit train '"command": ["/bin/sh", "train.sh"], "source_dir": "'"$src"'", "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]')

# --- the checkpoints that were left --------------------------------------------------------------------------------------
ok "the first attempt runs" made "$job" 1
is "$(began "$job" 1 | xargs)" "attempt 1 from nothing; has" "with nothing to resume from"
ok "it passes a step" hearth wait "$job" --for 'step>8' --timeout 60
is "$(hearth requeue "$job")" "job $job goes back to the queue" "requeue"
is "$(hearth wait "$job" --for 'step>8' --timeout 60) $(show "$job" .attempt_count)" "$job running 2" "who waits for a step after a requeue waits for the attempt that follows"
ok "the second runs" made "$job" 2
is "$(began "$job" 2)" "attempt 2 from the folder: step 9 of attempt 1; has 3 6 9" "with the folder, and no step is named"
is "$(show "$job" '.attempts[1] | .resumed_from + " " + (.resumed_from_step | tostring)')" "attempt:1 null" "its record says so"
like "$(show "$job" '.attempts[1].cause')" "^requeued by .*; goes on with the checkpoints of attempt 1$" "and its cause"
like "$(hearth show "$job")" "continued from the checkpoints of attempt 1" "show says it in words"

# --- from the start, and from a step ------------------------------------------------------------------------------------
is "$(hearth requeue "$job" --from-start)" "job $job goes back to the queue and will begin from the start" "requeue --from-start"
ok "the third runs" made "$job" 3
is "$(began "$job" 3 | xargs)" "attempt 3 from nothing; has" "from nothing"
is "$(hearth requeue "$job" --from 6 --json | jq -r '.text')" "its processes are ended, then it waits again and goes on from that step" "requeue --from 6"
ok "the fourth runs" made "$job" 4
is "$(began "$job" 4)" "attempt 4 from step 6: step 6 of attempt 1; has 3 6" "from the newest attempt that left that step: the second, which had it from the first; what came after it is left behind"
is "$(show "$job" '.attempts[3].resumed_from')" "attempt:2" "whose number is on record"
nok "both at once are refused" hearth requeue "$job" --from 6 --from-start
out=$(hearth requeue "$job" --from 7 2>&1)
is "$? $out" "3 jobctl: job $job: it holds no step 7; there are 3, 6, 9, 12" "a step that no attempt left is refused, and names the steps of all attempts, in their order"
is "$(show "$job" '.status + " " + (.attempt_count | tostring)')" "running 4" "before anything of it ends"
ok "its node is drained" hearth node drain host1
hearth requeue "$job" >/dev/null
ok "it waits" wait_until 60 eval '[ "$(show "$job" .status)" = queued ]'
ok "and is held" hearth hold "$job"
# What it ran is what its attempts ran, from each first rank's start until its end was settled; what it waits now is not in it.
phases='def us: if . == null then 0 else (.[0:19] + "Z" | fromdate) * 1000 + (.[20:23] | tonumber) end;
	[.attempts[] | (.phases | map({key: .name, value: .}) | from_entries) | select(.running) | (.uploading.started_at | us) - (.running.started_at | us)] | add'
ran=$(hearth ls --json --all name:train | jq '.jobs[0].ran_s')
ok "RAN is the sum of its attempts' running times ($ran s), in a list, too" jq -e -n --argjson a "$(show "$job" "$phases")" --argjson b "$ran" '$a > 0 and $a - $b * 1000 < 8 and $b * 1000 - $a < 8'
is "$(show "$job" .ran_s)" "$ran" "and does not grow while it waits"
like "$(hearth show "$job")" "ran +[0-9.ms]+, in 4 attempts" "show says of how many"
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "hearthd is killed" wait_until 30 cluster_gone hearthd
ok "and starts again" cluster_hearthd
is "$(show "$job" .ran_s)" "$ran" "it is the same then"
out=$(hearth requeue "$job" 2>&1)
is "$? $out" "4 jobctl: job $job is held: jobctl release $job lets it start" "a requeue of a held job is refused, and says what to do"
is "$(hearth requeue "$job" --from 3)" "job $job is already waiting; it goes on from step 3 of attempt 4 when it is released" "but it can be told where to begin"
ok "its node is open again" hearth node resume host1
ok "it is released" hearth release "$job"
ok "the fifth runs" made "$job" 5
ok "it grows while it runs" wait_until 60 eval 'hearth ls --json --all name:train | jq -e --argjson r "$ran" ".jobs[0].ran_s > \$r + 0.01" && hearth top --json | jq -e --argjson r "$ran" ".running[0].ran_s > \$r + 0.01"'
is "$(began "$job" 5)" "attempt 5 from step 3: step 3 of attempt 1; has 3" "from there"
hearth requeue "$job" >/dev/null
ok "the sixth runs" made "$job" 6
# It begins with the newest listed checkpoint, else with the whole folder.
like "$(began "$job" 6)" "^attempt 6 from (step 4|the folder): step 4 of attempt 5; has (3 )?4$" "a plain requeue after it finds nothing of what was left behind"

# --- a requeue, then a stop -----------------------------------------------------------------------------------------------
hearth requeue "$job" >/dev/null && hearth stop "$job" >/dev/null
hearth wait "$job" --timeout 60 >/dev/null
like "$(show "$job" '.status + " " + .reason')" "^stopped stopped by " "a stop after a requeue gives the reason of the stop"

# --- what other jobs and get see ------------------------------------------------------------------------------------------
next=$(submit next '"command": ["/bin/sh", "-c", "cat $HEARTH_RESUME_FROM/w"], "resume_from": "job:'"$job"'@12"')
hearth wait "$next" --timeout 60 >/dev/null
is "$(hearth logs "$next")" "step 12 of attempt 2" "resume_from finds a step of an attempt before the newest"
out=$(submit none '"command": ["/bin/true"], "resume_from": "job:'"$job"'@7"' 2>&1)
like "$out" "job:$job: it holds no step 7; there are 3, 4, 6, 9, 12" "a refusal names the steps of all attempts, in their order"
hints=$(hearth show "$job" | grep '^checkpoint')
like "$hints" "jobctl get $job checkpoint -a 1" "show says how to get an older attempt's"
is "$(grep -c "jobctl get $job checkpoint\$" <<<"$hints")" 1 "and the newest without a number"
like "$(hearth get "$job" checkpoint "$CLUSTER/got" 2>&1)" "Note: .*attempt 6; attempt 5 .*: jobctl get $job checkpoint -a 5" "get without a number says that there is another"
ok "get of an older attempt" hearth get "$job" checkpoint "$CLUSTER/got1" -a 1
is "$(cat "$CLUSTER/got1/step-9/w")" "step 9 of attempt 1" "has its steps"

# --- at an output_uri: each attempt replaces what the one before left -----------------------------------------------------------
there=$(submit there '"command": ["/bin/sh", "train.sh"], "source_dir": "'"$src"'", "output_uri": "file://'"$CLUSTER"'/results/"')
ok "its first attempt runs" made "$there" 1
hearth requeue "$there" >/dev/null
ok "its second runs" made "$there" 2
is "$(began "$there" 2)" "attempt 2 from the folder: step 9 of attempt 1; has 3 6 9" "a requeue goes on with what lies there"
hearth requeue "$there" --from 6 >/dev/null
ok "its third runs" made "$there" 3
is "$(began "$there" 3)" "attempt 3 from step 6: step 6 of attempt 1; has 3 6" "from a step there, without those after it"
like "$(show "$there" '.attempts[2].cause')" "goes on from step 6, if it is in file://.*/$there/checkpoint: hearthd does not look there$" "which no attempt is named for"
hearth requeue "$there" --from 7 >/dev/null
hearth wait "$there" --timeout 60 >/dev/null
like "$(show "$there" '.status + " " + .attempts[-1].class + " " + .reason')" "^failed user_error .*holds no step 7; there are 3, 6" "a step that is not there ends the job"
hints=$(hearth show "$there" | grep '^checkpoint')
is "$(grep -c ', at file://' <<<"$hints") $(grep -c 'replaced by a newer attempt' <<<"$hints")" "1 2" "show names the place for the newest attempt's only"

# --- on record ---------------------------------------------------------------------------------------------------------------
mkdir "$CLUSTER/copy"
ok "a copy of the store" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --backup "$CLUSTER/copy/hearth.db"
ok "in which events and rows agree" cluster_in head "$HEARTHD" --data "$CLUSTER/copy" --verify
cluster_clean "at the end"
cluster_down
done_testing
