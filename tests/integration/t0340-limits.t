#!/bin/bash
# Limits on real processes: CPU sets and threads, memory, disk, time with the administrator's default and maximum; stop against a program that ignores TERM.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set max_runtime_default=4s --set max_runtime_limit=10m)
cluster_up 2 && cluster_hearth --slots 2 || bail "no cluster"
cpus=$(nproc)

submit() { # NAME MEMBERS...
	printf '{"name": "%s", %s}\n' "$1" "${*:2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
run() { # NAME MEMBERS...: runs to its end, id in $id
	id=$(submit "$@") || return 1
	hearth wait "$id" --timeout 60 >/dev/null
}
now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }
groups() { # KIND: where limits of the kernel of that kind are, if anywhere
	cluster_in host1 grep -Eq "(^|,|[0-9]:)$1(,|:|$)|^0::" /proc/self/cgroup
}

# --- CPU -------------------------------------------------------------------------------------------------------------
run cpuset '"command": ["/bin/sh", "-c", "echo cpus=$(taskset -pc $$ | sed s/.*:.//) omp=$OMP_NUM_THREADS n=$(nproc)"], "launcher": "direct", "limits": {"max_runtime_s": 30}, "resources": {"ranks_per_instance": 2, "cpus_per_rank": 1}'
a=$(hearth logs "$id" --rank 0) b=$(hearth logs "$id" --rank 1)
like "$a" 'omp=1 ' "a rank is told how many threads are its share"
if [ "$cpus" -ge 2 ]; then
	like "$a $b" 'cpus=[0-9]+ .*cpus=[0-9]+ ' "each rank is bound to as many CPUs as it asked for"
	[ "${a%% *}" != "${b%% *}" ]
	tap_result $? "and no two to the same (${a%% *}, ${b%% *})"
else
	skip "CPU sets of two ranks" "one CPU only"
fi
# Four busy loops in one rank of one CPU: together they get what one CPU gives, and they see no other one.
run throttled '"command": ["/usr/bin/python3", "busy.py"], "source_dir": "'"$HEARTH_TOP_SRCDIR"'/tests/programs/limits", "launcher": "direct", "limits": {"max_runtime_s": 60}, "resources": {"cpus_per_rank": 1}'
like "$(hearth logs "$id")" 'used=[0-9.]+ ok' "four busy loops in a rank of one CPU use no more than one"

# --- memory ------------------------------------------------------------------------------------------------------------
hog='import os, time\nx = []\nfor i in range(300):\n    x.append(bytearray(b\"x\" * (1 << 20)))\nprint(\"held\", len(x), flush=True)'
run fits '"command": ["/usr/bin/python3", "-c", "'"$hog"'"], "launcher": "direct", "limits": {"max_runtime_s": 40}, "resources": {"memory": "600MiB"}'
is "$(show "$id" .status) $(hearth logs "$id")" "completed held 300" "300 MiB fit into 600"
for launcher in direct mpirun; do
	run "oom-$launcher" '"command": ["/usr/bin/python3", "-c", "'"$hog"'\nif os.environ[\"RANK\"] == \"0\": time.sleep(60)"], "launcher": "'$launcher'", "limits": {"grace_s": 1, "max_runtime_s": 60}, "resources": {"instances": 2, "memory": "200MiB"}'
	like "$(show "$id" .reason)" "rank [01].*out of memory" "$launcher: the rank that took too much is named"
	is "$(show "$id" '.status + " " + .attempts[0].class')" "failed oom" "$launcher: the class is exact"
	unlike "$(hearth logs "$id" --rank 0)$(hearth logs "$id" --rank 1)" "held 300" "$launcher: it never got what is over the limit"
done

# --- disk ------------------------------------------------------------------------------------------------------------------
run disk '"command": ["/bin/sh", "-c", "dd if=/dev/zero of=$SM_MODEL_DIR/big bs=1M count=200 2>/dev/null; echo wrote; exec sleep 60"], "launcher": "direct", "limits": {"grace_s": 1, "max_runtime_s": 60}, "resources": {"disk": "50MiB"}'
is "$(show "$id" '.status + " " + .attempts[0].class')" "failed disk" "more disk than asked for ends the job, with that class"
like "$(show "$id" .reason)" "node host1: .*disk|disk.*host1" "node and limit are named"
is "$(show "$id" '.attempts | length')" 1 "it is not tried again: the limit is the job's own"
mkdir -p "$CLUSTER/big" && head -c 60000000 /dev/zero >"$CLUSTER/big/zero"
run stage-disk '"command": ["/bin/true"], "launcher": "direct", "inputs": {"d": {"uri": "file://'"$CLUSTER"'/big"}}, "resources": {"disk": "20MiB"}'
like "$(show "$id" '.status + " " + .reason')" "failed .*disk" "inputs that do not fit are refused by the limit"
is "$(show "$id" '.attempts | length')" 1 "on one node, once: no other node would help"

# --- time ------------------------------------------------------------------------------------------------------------------
began=$(now_ms)
run default '"command": ["/bin/sleep", "100"], "launcher": "direct", "limits": {"grace_s": 1}'
like "$(show "$id" '.status + " " + .attempts[0].class + " " + .reason')" "failed timeout time limit of 4 ?s" "a job that asks for none has the administrator's time limit"
[ $(($(now_ms) - began)) -lt 30000 ]
tap_result $? "and ends in time"
submit_fails() { ! submit "$@" 2>"$CLUSTER/err"; }
ok "more than the administrator allows is refused" submit_fails long '"command": ["/bin/true"], "launcher": "direct", "limits": {"max_runtime_s": 601}'
like "$(cat "$CLUSTER/err")" "limits.max_runtime_s: .*more than the administrator allows \(10m" "with both in the message"
id=$(submit longer '"command": ["/bin/sleep", "100"], "launcher": "direct", "limits": {"max_runtime_s": 300, "grace_s": 1}')
hearth wait "$id" --for running --timeout 20 >/dev/null
ok "the limit of a running job may be changed" hearth set "$id" time=1s
hearth wait "$id" --timeout 20 >/dev/null
like "$(show "$id" .reason)" "time limit of 1 ?s" "the new one counts"
nok "but not beyond the maximum" hearth set "$(submit held '"command": ["/bin/true"]')" time=2h

# --- stop against programs that do not listen ----------------------------------------------------------------------------------
for launcher in mpirun direct torchrun; do
	id=$(submit "deaf-$launcher" '"command": ["/usr/bin/python3", "deaf.py"], "source_dir": "'"$HEARTH_TOP_SRCDIR"'/tests/programs/limits", "launcher": "'$launcher'", "limits": {"max_runtime_s": 100}, "resources": {"instances": 2}')
	wait_until 30 eval "hearth logs $id --rank 0 | grep -q ready && hearth logs $id --rank 1 | grep -q ready"
	began=$(now_ms)
	hearth stop "$id" --grace 2 >/dev/null
	hearth wait "$id" --timeout 30 >/dev/null
	took=$(($(now_ms) - began))
	is "$(show "$id" .status)" stopped "$launcher: stopped although it ignores TERM"
	[ "$took" -ge 1500 ] && [ "$took" -lt 12000 ]
	tap_result $? "$launcher: it had its grace time of 2 s and not much more ($took ms)"
	cluster_clean "after $launcher"
done
cluster_down
done_testing
