#!/bin/bash
# The first faults, on real processes over two hosts: agent killed, hearthd killed, ranks that fail in each way, stop; nothing is left behind.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearth || bail "no cluster"
mkdir -p "$CLUSTER/src"
cat >"$CLUSTER/src/count.sh" <<'S'
#!/bin/bash
# counts in its own stream; ends with the number given
for i in $(seq "$1"); do echo "line $i of rank $RANK"; read -rt 0.02 <> <(:); done
exit "$2"
S
chmod +x "$CLUSTER/src/count.sh"

submit() { # NAME MEMBERS...
	printf '{"name": "%s", "source_dir": "%s/src", "retry": {"max_attempts": 0, "capacity": 0}, %s}\n' "$1" "$CLUSTER" "${*:2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
gapless() { # JOB RANK N: the log holds the lines 1..N of that rank, once each, in order
	diff <(for i in $(seq "$3"); do echo "line $i of rank $2"; done) <(hearth logs "$1" --rank "$2" | grep '^line')
}
two='"resources": {"instances": 2, "cpus_per_rank": 1}'

# --- an agent dies in mid-run, with each launcher -------------------------------------------------
for launcher in mpirun direct; do
	id=$(submit "agent-$launcher" '"command": ["./count.sh", "200", "0"], "launcher": "'$launcher'",' "$two")
	wait_until 20 eval "hearth logs $id --rank 1 | grep -q 'line 20 '" || diag "job $id did not come to line 20"
	cluster_signal agent-host2 KILL
	wait_until 5 cluster_gone agent-host2
	cluster_agent host2
	ok "$launcher: the job ends well though its agent was killed" hearth wait "$id" --timeout 60
	is "$(show "$id" .exit_code)" 0 "$launcher: exit code exact"
	is "$(show "$id" '.attempts | length')" 1 "$launcher: in its first attempt"
	ok "$launcher: log of rank 1 without gap or doubles" gapless "$id" 1 200
	ok "$launcher: log of rank 0 too" gapless "$id" 0 200
	wait_until 20 cluster_node_up host2
done

# --- hearthd dies while jobs run -------------------------------------------------------------------
a=$(submit ctl-a '"command": ["./count.sh", "250", "0"], "launcher": "mpirun",' "$two")
b=$(submit ctl-b '"command": ["./count.sh", "100", "3"], "launcher": "direct",' "$two")
wait_until 20 eval "hearth logs $a --rank 0 | grep -q 'line 10 '"
cluster_signal hearthd KILL
wait_until 5 cluster_gone hearthd
cluster_hearthd
ok "the long job ends well though hearthd was killed" hearth wait "$a" --timeout 60
ok "its log has no gap" gapless "$a" 0 250
hearth wait "$b" --timeout 60 >/dev/null
is "$(show "$b" '.status + " " + (.exit_code | tostring)')" "failed 3" "the failing job's end is exact"
is "$(show "$b" '.attempts | length')" 1 "nothing was run twice"

# --- how ranks fail -----------------------------------------------------------------------------------
for launcher in mpirun direct; do
	id=$(submit "exit-$launcher" '"command": ["/bin/sh", "-c", "echo hello from $RANK; [ $RANK = 1 ] || exec sleep 60; echo last words >&2; exit 42"], "launcher": "'$launcher'", "limits": {"grace_s": 1},' "$two")
	hearth wait "$id" --timeout 60 >/dev/null
	is "$(show "$id" '.status + " " + (.exit_code | tostring)')" "failed 42" "$launcher: non-zero exit is reported exactly"
	like "$(show "$id" .reason)" "rank 1.*42" "$launcher: the first rank to fail is named"
	like "$(show "$id" .reason)" "last words" "$launcher: with its last lines"
	id=$(submit "signal-$launcher" '"command": ["/bin/bash", "-c", "[ $RANK = 1 ] || exec sleep 60; kill -SEGV $$"], "launcher": "'$launcher'", "limits": {"grace_s": 1},' "$two")
	hearth wait "$id" --timeout 60 >/dev/null
	like "$(show "$id" .reason)" "rank 1.*SIGSEGV" "$launcher: a signal is reported by name"
done
id=$(submit oom '"command": ["/usr/bin/python3", "-c", "import os, time\nif os.environ[\"RANK\"] == \"1\":\n    x = [bytearray(1 << 20) for _ in range(2000)]\ntime.sleep(60)"], "launcher": "direct", "limits": {"grace_s": 1}, "resources": {"instances": 2, "memory": "200MiB"}')
hearth wait "$id" --timeout 90 >/dev/null
like "$(show "$id" .reason)" "rank 1.*out of memory" "running out of memory is told as such"
is "$(show "$id" '.attempts[0].class')" "oom" "and classed so"
id=$(submit nofile '"command": ["./not-there"], "launcher": "direct",' "$two")
hearth wait "$id" --timeout 60 >/dev/null
like "$(show "$id" .reason)" "not-there" "a command that does not exist is named"

# --- stop -----------------------------------------------------------------------------------------------
id=$(submit stubborn '"command": ["/bin/bash", "-c", "trap \"\" TERM; (trap \"\" TERM; setsid sleep 300 & sleep 300) & echo ready; sleep 300; sleep 300"], "launcher": "mpirun",' "$two")
wait_until 20 eval "hearth logs $id --rank 1 | grep -q ready"
ok "stop" hearth stop "$id" --grace 1
hearth wait "$id" --timeout 30 >/dev/null
is "$(show "$id" .status)" stopped "a job that ignores TERM is stopped within the grace time"
id=$(submit polite '"command": ["/bin/bash", "-c", "trap \"echo saved; exit 0\" TERM; echo ready; while :; do read -rt 0.05 <> <(:); done"], "launcher": "direct",' "$two")
wait_until 20 eval "hearth logs $id --rank 1 | grep -q ready"
hearth stop "$id" --grace 10 >/dev/null
hearth wait "$id" --timeout 30 >/dev/null
like "$(hearth logs "$id" --rank 1)" "saved" "a job that listens to TERM has time to save"
id=$(submit limit '"command": ["sleep", "300"], "launcher": "direct", "limits": {"max_runtime_s": 2, "grace_s": 1},' "$two")
hearth wait "$id" --timeout 40 >/dev/null
like "$(show "$id" '.status + ": " + .reason')" "time limit" "the time limit ends a job with that reason"

# --- nothing is left ----------------------------------------------------------------------------------------
cluster_clean

# --- logs when job and node are gone ----------------------------------------------------------------------------
cluster_power_off host2
ok "the node is gone" wait_until 30 eval '! cluster_on host2'
is "$(cluster_left host2)" "unknown: host2 is off" "nobody says of it that nothing is left there"
ok "rank 1's log is readable though its node is gone" gapless "$a" 1 250
like "$(hearth logs "$a" --stream system --node 2)" "RANK|mpirun|environment" "so is its system stream"
cluster_down
done_testing
