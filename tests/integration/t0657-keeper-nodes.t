#!/bin/bash
# Checkpoints of a job on four nodes that share no folder: saved by rank 0, by every rank, or by two of the four nodes. The job resumes on the same
# nodes, on another one after a node has died, and on fewer nodes. Each rank finds what it needs, of one step.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # of cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 5 && cluster_hearth --slots 12 || bail "no cluster"
mkdir -p "$CLUSTER/src" && cp "$HEARTH_TOP_SRCDIR/tests/programs/shards.py" "$CLUSTER/src"
submit() { # HOW INSTANCES MEMBERS...
	printf '{"name": "%s", "launcher": "direct", "command": ["/usr/bin/python3", "shards.py", "%s"], "source_dir": "%s", "resources": {"instances": %s, "ranks_per_instance": 1, "cpus_per_rank": 4}, "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]%s}\n' \
		"$1" "$1" "$CLUSTER/src" "$2" "${3:-}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
newest() { hearth checkpoints "$1" --json | jq '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified")) | .step] | max // 0'; }
saved() { [ "$(newest "$1")" -ge "$2" ]; }
finds() { for rank in $(seq 0 $(($3 - 1))); do hearth logs "$1" -r "$rank" --attempt "$2" 2>/dev/null | sed -n 's/^.*\(rank [0-9]* finds .*\)$/\1/p' | head -n 1; done; }
began() { [ "$(finds "$1" "$2" "$3" | wc -l)" = "$3" ]; }
judge() { # JOB ATTEMPT HOW NODES DESCRIPTION
	local step want
	wait_until 60 began "$1" "$2" "$4" || diag "$(hearth show "$1" | head -n 20)" "$(hearth checkpoints "$1" | tail -n 5)"
	step=$(show "$1" ".attempts[$2 - 1].resumed_from_step // 0")
	for rank in $(seq 0 $(($4 - 1))); do
		case $3 in
		main) echo "rank $rank finds step $step of writers 0" ;;
		every) if [ "$4" = 4 ]; then echo "rank $rank finds step $step of writers $rank"; else echo "rank $rank finds step $step of writers 0,1,2,3"; fi ;;
		two) echo "rank $rank finds step $step of writers 0,2" ;;
		esac
	done >"$CLUSTER/want"
	want=$(cat "$CLUSTER/want")
	is "$(finds "$1" "$2" "$4")" "$want" "$3: $5"
}

declare -A jobs
for how in main every two; do jobs[$how]=$(submit "$how" 4); done
for how in main every two; do
	ok "$how: a checkpoint is complete and copied" wait_until 60 saved "${jobs[$how]}" 5
	is "$(hearth checkpoints "${jobs[$how]}" --json | jq -r '[.checkpoints[] | select(.complete)] | last | [.places[].node // empty] | unique | length')" "$(case $how in main) echo 1 ;; every) echo 4 ;; two) echo 2 ;; esac)" "$how: it is one checkpoint, of the nodes that wrote it"
done
for how in main every two; do hearth requeue "${jobs[$how]}" >/dev/null; done
for how in main every two; do judge "${jobs[$how]}" 2 "$how" 4 "each rank finds it on the same nodes"; done

# --- a node dies ----------------------------------------------------------------------------------------------------------
for how in main every two; do
	from=$(show "${jobs[$how]}" '.attempts[1].resumed_from_step // 0')
	ok "$how: the second attempt saves, too" wait_until 60 saved "${jobs[$how]}" $((from + 5))
done
victim=$(show "${jobs[two]}" '.attempts[1].nodes[2]')
cluster_power_off "$victim"
for how in main every two; do
	show "${jobs[$how]}" '.attempts[1].nodes | join(" ")' | grep -q "$victim" || { skip "$how" "it has no rank on $victim"; continue; }
	judge "${jobs[$how]}" 3 "$how" 4 "and on another node after one has died"
	unlike "$(show "${jobs[$how]}" '.attempts[2].nodes | join(" ")')" "$victim" "$how: without the dead one"
done

# --- another number of nodes ------------------------------------------------------------------------------------------------
for how in main every two; do hearth stop "${jobs[$how]}" >/dev/null; done
for how in main every two; do
	step=$(newest "${jobs[$how]}")
	fewer=$(submit "$how" 2 ', "resume_from": "job:'"${jobs[$how]}@$step"'"')
	judge "$fewer" 1 "$how" 2 "and on two nodes, where each gets all parts"
	hearth stop "$fewer" >/dev/null
done
done_testing
