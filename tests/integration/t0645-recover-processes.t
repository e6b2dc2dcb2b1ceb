#!/bin/bash
# A process of a job dies: a rank, mpirun's daemon, a rank that the kernel of a node kills because memory is short. The job goes on from its newest
# checkpoint and completes with the loss of an undisturbed run.
# shellcheck disable=SC2034 # recover.sh uses the variables
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/recover.sh"
why=$(recover_can)
[ -z "$why" ] || skip_all "$why"

fault_rank() { chaos_inject kill-part rank "$1" 1; }
recover_cause_rank='rank 1 .*SIGKILL.*; goes on from step [0-9]+ of attempt 1 in place$'

recover_job_orted() { job=(mpirun '' '' ''); }
fault_orted() { chaos_inject kill-part orted "$1"; }
recover_cause_orted='(mpirun|orted).*; goes on from step [0-9]+ of attempt 1 (elsewhere|wherever nodes are free)$'

# The limit is above the job's own group, as that of a machine is: the job itself has none.
memory_file() { # HOST: of the group above its launches
	ls "/sys/fs/cgroup/memory/hearth/$1-$(cluster_digest "$1")/memory.limit_in_bytes" "/sys/fs/cgroup/hearth/$1-$(cluster_digest "$1")/memory.max" 2>/dev/null
}
fault_memory() { # the group goes with its last launch
	local file used
	recover_victim memory 1 || return
	file=$(memory_file "$VICTIM")
	used=$(cat "${file/limit_in_bytes/usage_in_bytes}" 2>/dev/null || cat "${file%max}current")
	echo $((used + 33554432)) >"$file"
}
recover_job_memory() { job=(direct '' ', "TRAIN_GROW": "4"' ''); }
recover_cause_memory='rank 1 .*out of memory.* no limit of its own .*; goes on from step [0-9]+ of attempt 1 elsewhere$'

# Rank 0 leaves half of a checkpoint under its final name.
recover_job_torn() { job=(direct '' ', "TRAIN_TEAR": "30"' ''); }
fault_torn() { recover_until 30 eval '[ "$(recover_show '"$1"' .attempt_count)" = 2 ]'; }
recover_cause_torn='rank 0 .*SIGKILL.*; goes on from step 20 of attempt 1 in place$'

recover_up 10 || bail "no cluster"
recover_rounds "rank orted memory torn"
recover_finish
chaos_down
done_testing
