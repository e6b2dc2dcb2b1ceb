#!/bin/bash
# The local cluster: `local up` whatever runs already, also what is about to die; options that it remembers or refuses.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_dir=$home/.local/share/hearth/local
at_end() {
	for f in "$local_dir"/run/*; do
		[ -e "$f" ] && kill -CONT "$(cut -d' ' -f2 "$f")" 2>/dev/null
	done
}

pid_of() { cut -d' ' -f2 "$local_dir/run/$1"; }
node_state() { "$jobctl" nodes --json | jq -r ".nodes[] | select(.name == \"$1\") | .state"; }
not_up() { [ "$("$jobctl" nodes --json | jq -r ".nodes[] | select(.name == \"$1\") | .state == \"up\" and .connected and .beat_age_ms < 5000")" != true ]; }

local_up --nodes 1 || bail "no local cluster: $ERR"

# --- what was found running ends while `local up` waits for it -----------------------------------------------
# wait_and_kill NAME: stands still, so that `local up` finds it running and waits; then it is killed
wait_and_kill() {
	local name=$1 pid waiter
	pid=$(pid_of "$name")
	kill -STOP "$pid"
	[ "$name" = hearthd ] || wait_until 60 not_up "$name" || diag "$name is still up"
	"$jobctl" local up >up.out 2>up.err &
	waiter=$!
	wait_until 60 grep -q "waiting for $name" up.err
	tap_result $? "local up says that it waits for $name"
	kill -KILL "$pid"
	wait "$waiter"
	is "$?" 0 "$name ended while it was waited for: it is started"
	[ -s up.out ] || diag "$(cat up.err)"
	like "$(cat up.out)" "^up: .* 1 agent" "local up reports one agent after $name ended"
	unlike "$(pid_of "$name")" "^$pid\$" "$name has another process after it ended"
	is "$(node_state node-1)" up "node-1 is up after $name ended"
}
wait_and_kill node-1
wait_and_kill hearthd

# --- killed a moment ago: never taken for running -------------------------------------------------------------
for name in node-1 hearthd node-1 hearthd node-1; do
	pid=$(pid_of "$name")
	kill -KILL "$pid"
	run local up
	[ "$RC" -eq 0 ] && [ "$(pid_of "$name")" != "$pid" ] && kill -0 "$(pid_of "$name")"
	tap_result $? "local up right after the kill of $name"
	[ "$RC" -eq 0 ] || diag "$ERR"
done
# --- options while it runs: applied, or refused with what it runs with --------------------------------------------
rc 0 "^already up: .* and 1 agent; " "local up accepts the present options" local up --nodes 1 --port "$port"
rc 4 "^jobctl: --fake-gpus 2: the agents run without fake GPUs\. .*jobctl local down.*, then jobctl local up" "local up refuses fake GPUs while agents run" \
	local up --fake-gpus 2
rc 4 "^jobctl: --no-namespaces: the agents run with namespaces" "local up refuses --no-namespaces while agents run" local up --no-namespaces
rc 4 "^jobctl: --port 7: .*port $port" "local up refuses another port while hearthd runs" local up --port 7
cpus() { awk '/^Cpus_allowed_list/ {print $2}' "/proc/$(pid_of "$1")/status"; }
rc 0 "^up: .* and 2 agents; started: (node-1, )?node-2; " "local up starts one more node" local up --nodes 2
if [ "$(nproc)" -gt 1 ]; then
	unlike "$(cpus node-1)" "^$(cpus node-2)\$" "local up with more nodes: an older agent without jobs gets its share of the CPUs"
fi
rc 4 "^jobctl: --nodes 1: .*node-2" "local up refuses fewer nodes" local up --nodes 1
rc 0 "^already up: .* and 2 agents; " "local up remembers the number of nodes" local up
rc 2 "expected a whole number from 1 to 16" "local up refuses 17 nodes" local up --nodes 17
rc 3 "gpus.json.: expected a number of GPUs or a readable file" "local up refuses a missing file of GPUs" local up --fake-gpus gpus.json
"$jobctl" node drain node-1 --reason test >/dev/null
rc 0 "^already up: .* and 2 agents; " "local up counts a drained node as up" local up
"$jobctl" node drain node-2 >/dev/null
echo '{"command": ["echo", "at last"], "launcher": "direct"}' >late.json
"$jobctl" submit late.json -f >late.out 2>late.err &
late=$!
ok "submit -f of a waiting job: standard error has the reason" wait_until 60 grep -Eq \
	'^\[hearth: job [0-9]+: queued: .*; closed nodes: node-1 \(drained: test\), node-2 \(drained\)' late.err
"$jobctl" logs last -f >late2.out 2>late2.err &
late2=$!
ok "logs -f of a waiting job: standard error has the reason" wait_until 60 grep -q '^\[hearth: job [0-9]*: queued: ' late2.err
"$jobctl" node resume node-1 node-2 >/dev/null
wait "$late"
is "$? $(sed 1d late.out)" "0 at last" "submit -f: standard output has only the id and the log"
wait "$late2"
is "$? $(cat late2.out)" "0 at last" "logs -f: standard output has only the log"
is "$(grep -c ': queued: ' late.err)" 1 "submit -f reports the same reason once"
kill -KILL "$(pid_of hearthd)"
rc 4 "--port 7: .*agents.* port $port" "local up refuses another port for hearthd while agents run" local up --port 7
rc 0 "^up: hearthd on http://127.0.0.1:$port and 2 agents; started: hearthd; " "local up starts a killed hearthd" local up

# --- and what was chosen stays from `up` to `down` --------------------------------------------------------------------
rc 0 "^down" "local down" local down
echo '[{"model": "H100", "memory": "80GiB"}, {"model": "H100", "memory": "80GiB"}, {"model": "H100", "memory": "80GiB"}]' >gpus.json
rc 0 "^up: .* and 1 agent with the fake GPUs of $home/gpus.json, without namespaces; " "local up after local down accepts other options, and a file of GPUs" \
	local up --nodes 1 --fake-gpus gpus.json --no-namespaces
is "$("$jobctl" nodes --json | jq -c '.nodes[] | select(.name == "node-1") | .gpus')" 3 "the node has the GPUs of the file"
mkdir elsewhere
for name in node-1 hearthd; do
	kill -KILL "$(pid_of $name)"
	cd elsewhere || bail
	rc 0 "^up: hearthd on http://127.0.0.1:$port and 1 agent with the fake GPUs of $home/gpus.json, without namespaces; started: $name; " \
		"local up starts a killed $name with the chosen options" local up
	cd .. || bail
done
is "$("$jobctl" nodes --json | jq -c '.nodes[] | select(.name == "node-1") | .gpus')" 3 "a new agent has the GPUs of the file"
like "$(tr '\0' ' ' <"/proc/$(pid_of node-1)/cmdline")" "--fake-gpus $home/gpus.json --no-namespaces" "a new agent has the chosen options as arguments"
is "$("$jobctl" local up --fake-gpus gpus.json --no-namespaces --json | jq -c '[.port, .nodes, .fake_gpus, .namespaces, .started]')" \
	"[$port,1,\"$home/gpus.json\",false,0]" "local up --json with the chosen options starts nothing"
rc 4 "^jobctl: --fake-gpus 1: the agents run with the fake GPUs of $home/gpus.json" "local up refuses other GPUs while agents run" local up --fake-gpus 1

# --- down with jobs: it says which, and asks a person ---------------------------------------------------------------------
echo '{"name": "stays", "command": ["sleep", "3600"], "launcher": "direct"}' >job.json
job=$("$jobctl" submit job.json)
"$jobctl" wait "$job" --for running --timeout 60 >/dev/null
held=$("$jobctl" submit job.json --name later --hold)
if command -v script >/dev/null; then
	out=$(echo n | script -qec "'$jobctl' local down" /dev/null)
	like "$out" "Stop 2 jobs \(($job stays running, $held later held|$held later held, $job stays running)\)\?" "local down asks a person"
	like "$out" "nothing was ended" "local down ends nothing without a yes"
	is "$("$jobctl" show "$job" --json | jq -r .status)" running "local down without a yes: the job still runs"
	rc 0 "^down" "local down --yes does not ask" local down --yes
else
	skip "local down asks" "script is missing"
	rc 0 "^down" "local down" local down
fi
like "$ERR" "^stopping 2 jobs \(.*$job stays running.*\)" "local down names the jobs that it stops"
rc 0 "^up: .* and 2 agents; " "local up after local down has the defaults" local up
is "$("$jobctl" show "$job" --json | jq -r .status) $("$jobctl" show "$held" --json | jq -r .status)" "stopped stopped" "local down stopped a running and a held job"
rc 0 "^down" "local down without jobs" local down
unlike "$ERR" "stopping" "local down without jobs reports no stop"
rc 0 "no local cluster was up" "a second local down finds no cluster" local down
# --- hearthd is dead, an agent too: down ends what their folders record, and says what ------------------------------
# Processes are told from those of others by their environment.
of_job() { grep -lzsx "ORPHAN=$home" /proc/[0-9]*/environ | wc -l; }
of_node() { grep -lzsF -f "$local_dir/$1/run_dir" /proc/[0-9]*/cmdline | wc -l; } # a file: grep's own line must not match
none_left() { [ "$(of_job) $(of_node node-1) $(of_node node-2)" = "0 0 0" ]; }
orphan() { # LAUNCHER: a job on both nodes, whose ranks have children
	cat >orphan.json <<-END
		{"name": "orphan", "command": ["sh", "-c", "sleep 3600 & wait"], "launcher": "$1", "environment": {"ORPHAN": "$home"}, "resources": {"instances": 2}}
	END
	orphan=$("$jobctl" submit orphan.json)
	"$jobctl" wait "$orphan" --for running --timeout 60 >/dev/null
	ok "$1: ranks and children run on both nodes" wait_until 60 both_run
}
both_run() { [ "$(of_job)" -ge 4 ] && [ "$(of_node node-1)" -ge 1 ] && [ "$(of_node node-2)" -ge 1 ]; }
for launcher in direct mpirun; do
	if [ $launcher = mpirun ] && ! command -v mpirun >/dev/null; then
		skip "local down without hearthd ends mpirun" "mpirun is missing"
		continue
	fi
	rc 0 "^up: .* and 2 agents; " "local up starts two nodes" local up
	orphan $launcher
	waits=$("$jobctl" submit job.json --name waits --hold)
	kill -KILL "$(pid_of hearthd)"
	[ $launcher = direct ] || kill -KILL "$(pid_of node-2)"
	rc 0 "^down: hearthd did not run; ended node-1(, node-2)?; ended [0-9]+ process(es)? of job $orphan \(orphan\) on node-1, [0-9]+ process(es)? of job $orphan \(orphan\) on node-2; its data is" \
		"local down with a dead hearthd names what it ends" local down
	like "$ERR" "hearthd did not run; .*.jobctl local up. stops all jobs" "local down with a dead hearthd names what the next local up does"
	ok "local down with a dead hearthd leaves no process and no shim" none_left
	rc 0 "^no local cluster was up" "a second local down finds no cluster" local down
	rc 0 "stopping 2 jobs \(.*\(.jobctl local down. could not reach hearthd\)" "local up stops the jobs that local down ended" local up
	run wait "$orphan" "$waits" --timeout 60
	is "$OUT" "$orphan stopped
$waits stopped" "local up: jobs that local down ended do not start again"
	rc 0 "^down; its data is" "local down with a live hearthd" local down
	unlike "$ERR" "." "local down with a live hearthd prints nothing on standard error"
done

# --- hearthd and all agents are dead, a person is asked; down is cut short before it has ended all -----------------
rc 0 "^up: .* and 2 agents; " "local up starts two nodes again" local up
orphan direct
waits=$("$jobctl" submit job.json --name waits --hold)
for name in hearthd node-1 node-2; do
	kill -KILL "$(pid_of $name)"
done
if command -v script >/dev/null; then
	out=$(echo n | script -qec "'$jobctl' local down" /dev/null)
	like "$out" "hearthd does not run\. .* node-1, node-2\?" "local down asks a person although no agent runs"
	like "$out" "nothing was ended" "local down ends nothing without a yes"
	ok "local down without a yes: the job still runs" both_run
	nok "local down without a yes leaves no mark" [ -e "$local_dir/stop_jobs" ]
else
	skip "local down asks" "script is missing"
fi
exec 8>"$local_dir/node-1/lock"
ok "the test holds the lock of node-1" flock -w 60 8
"$jobctl" local down >cut.out 2>cut.err 8>&- &
cut=$!
ok "local down makes the mark for the next local up" wait_until 60 [ -e "$local_dir/stop_jobs" ]
ok "local down makes the mark before the job on node-1 ends" [ "$(of_node node-1)" -ge 1 ]
ended_there() { [ "$(of_node node-2)" -eq 0 ]; }
ok "local down: node-2 does not wait for node-1" wait_until 25 ended_there
ok "the job on node-1 outlives the end of node-2" [ "$(of_node node-1)" -ge 1 ]
kill -TERM $cut
wait $cut
is "$?" 143 "SIGTERM interrupts local down"
exec 8>&-
rc 0 "stopping 2 jobs \(.*\(.jobctl local down. could not reach hearthd\)" "local up after an interrupted local down stops the jobs" local up
run wait "$orphan" "$waits" --timeout 60
is "$OUT" "$orphan stopped
$waits stopped" "jobs are stopped after an interrupted local down"
ok "no process of the job is left after an interrupted local down" wait_until 60 none_left
rc 0 "^down; its data is" "local down with a live hearthd" local down

# --- the program that ends launches cannot start: what it would have ended is still on record ---------------------
run_dir=$home/$(printf '%0120d' 0)
mkdir -p "$home/lone" "$run_dir/17.1/rank-0"
echo x >"$run_dir/17.1/plan"
echo x >"$run_dir/17.1/rank-0/state"
out=$("$HEARTH_TOP_BUILDDIR/agent/hearth-agent" --end-launches --data "$home/lone" --run "$run_dir" 2>&1)
is "$?" 1 "hearth-agent --end-launches fails if a socket path is too long"
diag "$out"
ok "hearth-agent --end-launches that fails leaves RUN as it was" [ -s "$run_dir/17.1/plan" -a -s "$run_dir/17.1/rank-0/state" ]

rc 4 "node-1 ended .*its start" "local up with GPUs that no agent accepts: exit code 4" local up --nodes 1 --fake-gpus 100000
rc 0 "^up: .* and 2 agents; " "local up does not remember options that failed" local up
rc 0 "^down" "local down of a cluster with default options" local down

# --- fewer agents than last time ------------------------------------------------------------------------------
rc 0 "and 3 agents with 2 fake GPUs each" "local up starts three agents with GPUs" local up --nodes 3 --fake-gpus 2
echo '{"name": "left", "command": ["sleep", "3600"], "launcher": "direct", "resources": {"instances": 3}}' >left.json
left=$("$jobctl" submit left.json 2>/dev/null)
"$jobctl" wait "$left" --for running --timeout 60 >/dev/null
"$jobctl" node drain node-1 --reason fan >/dev/null
kill -KILL "$(pid_of hearthd)"
rc 0 "^down: hearthd did not run" "local down with a dead hearthd ends all agents" local down
rc 0 "^up: .* and 2 agents; " "local up with fewer agents, without GPUs" local up
like "$ERR" "jobctl: node-3 .* job $left\. .*: jobctl local up --nodes 3; .*: jobctl node rm node-3 --yes" \
	"local up names the job of a node that it does not start"
unlike "$ERR" "force=1" "local up does not mention force=1"
like "$ERR" "jobctl: node-1 is drained \(fan\) .*: jobctl node resume node-1" "local up names a drained node"
like "$ERR" "jobctl: node-2 had 2 fake GPUs and has none now; .* jobctl local up --fake-gpus 2" "local up names GPUs that have gone"
"$jobctl" node resume node-1 >/dev/null
"$jobctl" node rm node-3 --yes >/dev/null
rc 1 "^$left stopped" "node rm --yes ends the job of a removed node" wait "$left" --timeout 60
is "$("$jobctl" nodes --json | jq -r '[.nodes[].name] | sort | join(" ")')" "node-1 node-2" "node rm removes the third node"
echo '{"command": ["true"], "resources": {"gpus_per_instance": 2}}' >two.json
rc 4 "no known node with 2 such GPUs" "a job for GPUs that have gone is refused" submit two.json
rc 0 "and 3 agents; started: .*node-3; " "local up lets a removed node join again" local up --nodes 3
is "$("$jobctl" nodes --json | jq -r '[.nodes[] | select(.state == "up") | .name] | sort | join(" ")')" "node-1 node-2 node-3" "a removed node that joined again is up"
kill -KILL "$(pid_of node-3)"
away() { [ "$("$jobctl" nodes --json | jq -r '.nodes[] | select(.name == "node-3") | .connected')" = false ]; }
ok "hearthd notices the end of an agent" wait_until 30 away # a job that comes before would be started there
echo '{"command": ["true"], "resources": {"instances": 3}}' >three.json
three=$("$jobctl" submit three.json 2>/dev/null)
gone() { "$jobctl" why "$three" | grep -q "closed nodes: node-3 (not connected"; }
ok "why names a node whose agent has ended" wait_until 30 gone
rc 0 "^down" "local down at the end" local down
done_testing
