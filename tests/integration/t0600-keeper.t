#!/bin/bash
# Checkpoints of each framework, by a program that is killed at a random instant: what the node holds is whole, and its step is right.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 40 || bail "no cluster"
# --- hearth-ckpt --------------------------------------------------------------------------------------------------------------
ckpt=$TOP_BUILD/agent/hearth-ckpt made=$CLUSTER/made
mkdir -p "$made/step-7/part" && printf 12345 >"$made/step-7/part/a.bin" && : >"$made/step-7/b"
ok "hearth-ckpt commit" "$ckpt" commit "$made/step-7/" --step 7 --shards 2
is "$(jq -cS . "$made/step-7/hearth.json")" '{"files":{"b":{"size":0},"part/a.bin":{"size":5}},"shards":2,"step":7}' "hearth-ckpt writes step, shards and sizes"
"$ckpt" commit "$made/step-7" --step -1 2>/dev/null
is "$?" 2 "hearth-ckpt refuses an invalid step"
mkdir "$made/empty"
like "$("$ckpt" commit "$made/empty" --step 1 2>&1)" "write the checkpoint first" "hearth-ckpt refuses an empty folder"
src=$CLUSTER/src saver=$HEARTH_TOP_SRCDIR/tests/programs/saver.py held=$CLUSTER/host1/data/held seed=${HEARTH_SEED:-$RANDOM}
mkdir -p "$src" && cp "$saver" "$src"
echo "# HEARTH_SEED=$seed"
submit() { # NAME ARGUMENTS: a job of the saver; its id
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "exec python3 saver.py %s"], "source_dir": "%s", "retry": {"max_attempts": 0}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]%s}\n' \
		"$1" "$2" "$src" "${3:-}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
ended() { hearth show "$1" --json | jq -e '.status == "failed" or .status == "succeeded" or .status == "stopped"' >/dev/null; }
entries() { jq -r '.held[] | [.seq, .name, .step, .state, .format, .step_by, .uri] | @tsv' "$held/$1.1/index" 2>/dev/null; }

# --- each convention, killed at a random instant ------------------------------------------------------------------------
declare -A jobs
for kind in overwrite named hf_trainer lightning deepspeed; do # these count when they are quiet
	jobs[$kind]=$(submit "$kind" "$kind --steps 100 --every 8 --pause 0.4 --seed $((seed++)) --kill-after 3.4")
done
for kind in rename hearth megatron dcp; do
	jobs[$kind]=$(submit "$kind" "$kind --steps 100 --every 2 --pause 0.4 --seed $((seed++)) --kill-after 2.2")
done
for kind in "${!jobs[@]}"; do
	job=${jobs[$kind]}
	wait_until 60 ended "$job" || diag "job $job has not ended: $(hearth show "$job")"
	n=0 bad=
	while IFS=$'\t' read -r step by; do
		n=$((n + 1)) got=$CLUSTER/got/$job-$step
		mkdir -p "$got"
		hearth get "$job" checkpoint --step "$step" "$got" >/dev/null || bad+="step $step cannot be fetched; "
		found=$("$saver" --check "$got") || bad+="step $step: $found; "
		[ "${found##* }" = "$step" ] || bad+="it is of step ${found##* }, reported as $step by $by; "
	done < <(hearth checkpoints "$job" --json | jq -r '[.checkpoints[] | select(.complete)] | unique_by(.step)[] | [.step, .step_by] | @tsv')
	[ "$n" -gt 0 ] || bad="no checkpoint is listed: $(hearth logs "$job" | tail -n 3)"
	is "$bad" "" "$kind: $n of a killed program, whole in hearthd's store, with the right steps"
done

# --- the next attempt begins with the newest one, from what the node holds ----------------------------------------------------
first_line() { hearth logs "$1" --attempt 2 2>/dev/null | grep -m 1 '^begins'; }
copied() { entries "$1" | awk -F'\t' '$4 == 2' | grep -q .; }
for kind in overwrite deepspeed megatron hearth; do
	jobs[$kind]=$(submit "again-$kind" "$kind --steps 100 --every 8 --pause 0.4")
done
jobs[deeper]=$(submit again-deeper "megatron --below exp/one --steps 100 --every 8 --pause 0.4")
for kind in overwrite deepspeed megatron deeper hearth; do
	job=${jobs[$kind]}
	wait_until 40 copied "$job" || diag "$kind: nothing is copied: $(entries "$job")"
	# One byte of the held copy changes: its digest shows it, and the copy in the store serves.
	# By another file in its place: a held copy may be a link to the program's own.
	[ "$kind" != hearth ] || for file in "$held/$job.1"/files/*/at-*/model.pt; do
		cp -p "$file" "$file.new" && printf X | dd of="$file.new" bs=1 seek=500 conv=notrunc status=none && mv "$file.new" "$file"
	done
	hearth requeue "$job" >/dev/null
	wait_until 40 eval '[ -n "$(first_line '"$job"')" ]'
	step=$(hearth show "$job" --json | jq -r '.attempts[1].resumed_from_step')
	case $kind in
	overwrite) want="['ckpt.pt']" ;;
	deepspeed) want="['global_step$step', 'latest']" ;;
	megatron | deeper) want="['$(printf iter_%07d "$step")', 'latest_checkpointed_iteration.txt']" ;;
	hearth) want="['at-$step']" ;;
	esac
	is "$(first_line "$job")" "begins with $want at $((step + 1))" "$kind: the next attempt begins with the newest checkpoint alone, under its own name"
	wait_until 20 eval 'hearth logs '"$job"' --attempt 2 | grep -q "^step='"$((step + 2))"'"'
	ok "$kind: what was restored is whole" grep -q "^step=$((step + 2))" <(hearth logs "$job" --attempt 2)
	hearth stop "$job" >/dev/null
done
done_testing
