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
	like "$(cat up.out)" "^up: .* 1 agent" "and up"
	unlike "$(pid_of "$name")" "^$pid\$" "as another process"
	is "$(node_state node-1)" up "the node is up"
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
rc 0 "^already up: .* and 1 agent; " "what it has already may be asked for" local up --nodes 1 --port "$port"
rc 4 "^jobctl: --fake-gpus 2: the agents run without fake GPUs\. .*jobctl local down.*, then jobctl local up" "fake GPUs for agents that run: refused" \
	local up --fake-gpus 2
rc 4 "^jobctl: --no-namespaces: the agents run with namespaces" "no namespaces any more: refused" local up --no-namespaces
rc 4 "^jobctl: --port 7: .*port $port" "another port: refused" local up --port 7
cpus() { awk '/^Cpus_allowed_list/ {print $2}' "/proc/$(pid_of "$1")/status"; }
rc 0 "^up: .* and 2 agents; started: (node-1, )?node-2; " "one more node: started" local up --nodes 2
if [ "$(nproc)" -gt 1 ]; then
	unlike "$(cpus node-1)" "^$(cpus node-2)\$" "the older one, which has no jobs, has its share of the CPUs now"
fi
rc 4 "^jobctl: --nodes 1: .*node-2" "fewer nodes: refused" local up --nodes 1
rc 0 "^already up: .* and 2 agents; " "how many there are is remembered" local up
rc 2 "expected a whole number from 1 to 16" "too many nodes" local up --nodes 17
rc 3 "gpus.json.: expected a number of GPUs or a readable file" "fake GPUs of a file that is not there" local up --fake-gpus gpus.json
"$jobctl" node drain node-1 --reason test >/dev/null
rc 0 "^already up: .* and 2 agents; " "a drained node is there" local up
"$jobctl" node drain node-2 >/dev/null
echo '{"command": ["echo", "at last"], "launcher": "direct"}' >late.json
"$jobctl" submit late.json -f >late.out 2>late.err &
late=$!
ok "submit -f of a job that waits: standard error says why" wait_until 60 grep -Eq \
	'^\[hearth: job [0-9]+: queued: .*; no jobs now on node-1 \(drained: test\), node-2 \(drained\)' late.err
"$jobctl" logs last -f >late2.out 2>late2.err &
late2=$!
ok "logs -f, too" wait_until 60 grep -q '^\[hearth: job [0-9]*: queued: ' late2.err
"$jobctl" node resume node-1 node-2 >/dev/null
wait "$late"
is "$? $(sed 1d late.out)" "0 at last" "then it runs, and standard output has nothing but its number and its log"
wait "$late2"
is "$? $(cat late2.out)" "0 at last" "here the log alone"
is "$(grep -c ': queued: ' late.err)" 1 "the same reason is told once"
kill -KILL "$(pid_of hearthd)"
rc 4 "--port 7: .*agents.* port $port" "another port for hearthd alone: refused, as its agents would not find it" local up --port 7
rc 0 "^up: hearthd on http://127.0.0.1:$port and 2 agents; started: hearthd; " "on its own it is started" local up

# --- and what was chosen stays from `up` to `down` --------------------------------------------------------------------
rc 0 "^down" "local down" local down
echo '[{"model": "H100", "memory": "80GiB"}, {"model": "H100", "memory": "80GiB"}, {"model": "H100", "memory": "80GiB"}]' >gpus.json
rc 0 "^up: .* and 1 agent with the fake GPUs of $home/gpus.json, without namespaces; " "other options after it; a file from here" \
	local up --nodes 1 --fake-gpus gpus.json --no-namespaces
is "$("$jobctl" nodes --json | jq -c '.nodes[] | select(.name == "node-1") | .gpus')" 3 "the node has them"
mkdir elsewhere
for name in node-1 hearthd; do
	kill -KILL "$(pid_of $name)"
	cd elsewhere || bail
	rc 0 "^up: hearthd on http://127.0.0.1:$port and 1 agent with the fake GPUs of $home/gpus.json, without namespaces; started: $name; " \
		"$name was killed: the new one gets what was chosen" local up
	cd .. || bail
done
is "$("$jobctl" nodes --json | jq -c '.nodes[] | select(.name == "node-1") | .gpus')" 3 "the GPUs are there again"
like "$(tr '\0' ' ' <"/proc/$(pid_of node-1)/cmdline")" "--fake-gpus $home/gpus.json --no-namespaces" "as arguments of the new agent"
is "$("$jobctl" local up --fake-gpus gpus.json --no-namespaces --json | jq -c '[.port, .nodes, .fake_gpus, .namespaces, .started]')" \
	"[$port,1,\"$home/gpus.json\",false,0]" "as JSON, and asked for again"
rc 4 "^jobctl: --fake-gpus 1: the agents run with the fake GPUs of $home/gpus.json" "others: refused" local up --fake-gpus 1

# --- down with jobs: it says which, and asks a person ---------------------------------------------------------------------
echo '{"name": "stays", "command": ["sleep", "3600"], "launcher": "direct"}' >job.json
job=$("$jobctl" submit job.json)
"$jobctl" wait "$job" --for running --timeout 60 >/dev/null
held=$("$jobctl" submit job.json --name later --hold)
if command -v script >/dev/null; then
	out=$(echo n | script -qec "'$jobctl' local down" /dev/null)
	like "$out" "Stop 2 jobs \(($job stays running, $held later held|$held later held, $job stays running)\)\?" "a person is asked"
	like "$out" "nothing was ended" "and may say no"
	is "$("$jobctl" show "$job" --json | jq -r .status)" running "then nothing happens"
	rc 0 "^down" "--yes: nobody is asked" local down --yes
else
	skip "local down asks" "script is missing"
	rc 0 "^down" "local down" local down
fi
like "$ERR" "^stopping 2 jobs \(.*$job stays running.*\)" "it says what it stops"
rc 0 "^up: .* and 2 agents; " "after it the defaults hold again" local up
is "$("$jobctl" show "$job" --json | jq -r .status) $("$jobctl" show "$held" --json | jq -r .status)" "stopped stopped" "both were stopped"
rc 0 "^down" "without jobs it just ends" local down
unlike "$ERR" "stopping" "and stops nothing"
rc 0 "no local cluster was up" "down again" local down
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
	rc 0 "^up: .* and 2 agents; " "two nodes" local up
	orphan $launcher
	waits=$("$jobctl" submit job.json --name waits --hold)
	kill -KILL "$(pid_of hearthd)"
	[ $launcher = direct ] || kill -KILL "$(pid_of node-2)"
	rc 0 "^down: hearthd did not run; ended node-1(, node-2)?; ended [0-9]+ process(es)? of job $orphan \(orphan\) on node-1, [0-9]+ process(es)? of job $orphan \(orphan\) on node-2; its data is" \
		"hearthd is dead: down says what it ends" local down
	like "$ERR" "hearthd did not run; .*.jobctl local up. stops all jobs" "and what comes later"
	ok "no process of the job, and no shim, is left" none_left
	rc 0 "^no local cluster was up" "down again" local down
	rc 0 "stopping 2 jobs \(.*\(.jobctl local down. could not reach hearthd\)" "up: hearthd is told" local up
	run wait "$orphan" "$waits" --timeout 60
	is "$OUT" "$orphan stopped
$waits stopped" "both jobs are stopped, none starts again"
	rc 0 "^down; its data is" "down in order" local down
	unlike "$ERR" "." "without a word"
done

# --- hearthd and all agents are dead, a person is asked; down is cut short before it has ended all -----------------
rc 0 "^up: .* and 2 agents; " "two nodes again" local up
orphan direct
waits=$("$jobctl" submit job.json --name waits --hold)
for name in hearthd node-1 node-2; do
	kill -KILL "$(pid_of $name)"
done
if command -v script >/dev/null; then
	out=$(echo n | script -qec "'$jobctl' local down" /dev/null)
	like "$out" "hearthd does not run\. .* node-1, node-2\?" "a person is asked, though no agent runs"
	like "$out" "nothing was ended" "and may say no"
	ok "then nothing happens" both_run
	nok "and nothing is to be stopped later" [ -e "$local_dir/stop_jobs" ]
else
	skip "local down asks" "script is missing"
fi
exec 8>"$local_dir/node-1/lock"
ok "somebody holds the folder of node-1" flock -w 60 8
"$jobctl" local down >cut.out 2>cut.err 8>&- &
cut=$!
ok "the mark for later is there" wait_until 60 [ -e "$local_dir/stop_jobs" ]
ok "while the job runs on node-1" [ "$(of_node node-1)" -ge 1 ]
ended_there() { [ "$(of_node node-2)" -eq 0 ]; }
ok "node-2 does not wait for node-1" wait_until 25 ended_there
ok "where the job runs still" [ "$(of_node node-1)" -ge 1 ]
kill -TERM $cut
wait $cut
is "$?" 143 "it is cut short"
exec 8>&-
rc 0 "stopping 2 jobs \(.*\(.jobctl local down. could not reach hearthd\)" "hearthd is told all the same" local up
run wait "$orphan" "$waits" --timeout 60
is "$OUT" "$orphan stopped
$waits stopped" "the jobs are stopped, none goes on"
ok "no process of the job is left" wait_until 60 none_left
rc 0 "^down; its data is" "down in order" local down

# --- the program that ends launches cannot start: what it would have ended is still on record ---------------------
run_dir=$home/$(printf '%0120d' 0)
mkdir -p "$home/lone" "$run_dir/17.1/rank-0"
echo x >"$run_dir/17.1/plan"
echo x >"$run_dir/17.1/rank-0/state"
out=$("$HEARTH_TOP_BUILDDIR/agent/hearth-agent" --end-launches --data "$home/lone" --run "$run_dir" 2>&1)
is "$?" 1 "a path that is too long for a socket"
diag "$out"
ok "RUN is as it was" [ -s "$run_dir/17.1/plan" -a -s "$run_dir/17.1/rank-0/state" ]

rc 4 "node-1 ended .*its start" "fake GPUs that no agent takes" local up --nodes 1 --fake-gpus 100000
rc 0 "^up: .* and 2 agents; " "are not remembered" local up
rc 0 "^down" "that cluster is ended" local down

# --- fewer agents than last time ------------------------------------------------------------------------------
rc 0 "and 3 agents with 2 fake GPUs each" "more agents, with GPUs" local up --nodes 3 --fake-gpus 2
echo '{"name": "left", "command": ["sleep", "3600"], "launcher": "direct", "resources": {"instances": 3}}' >left.json
left=$("$jobctl" submit left.json 2>/dev/null)
"$jobctl" wait "$left" --for running --timeout 60 >/dev/null
"$jobctl" node drain node-1 --reason fan >/dev/null
kill -KILL "$(pid_of hearthd)"
rc 0 "^down: hearthd did not run" "all of them are ended" local down
rc 0 "^up: .* and 2 agents; " "fewer, without" local up
like "$ERR" "jobctl: node-3 .* job $left\. .*: jobctl local up --nodes 3; .*: jobctl node rm node-3 --yes" \
	"a job of a node that is left out is named"
unlike "$ERR" "force=1" "in words for people"
like "$ERR" "jobctl: node-1 is drained \(fan\) .*: jobctl node resume node-1" "a drained node, too"
like "$ERR" "jobctl: node-2 had 2 fake GPUs and has none now; .* jobctl local up --fake-gpus 2" "and GPUs that are gone"
"$jobctl" node resume node-1 >/dev/null
"$jobctl" node rm node-3 --yes >/dev/null
rc 1 "^$left stopped" "given up there, it is over" wait "$left" --timeout 60
is "$("$jobctl" nodes --json | jq -r '[.nodes[].name] | sort | join(" ")')" "node-1 node-2" "the third is forgotten"
echo '{"command": ["true"], "resources": {"gpus_per_instance": 2}}' >two.json
rc 4 "no known node with 2 such GPUs" "so a job for its GPUs is refused" submit two.json
rc 0 "and 3 agents; started: .*node-3; " "asked for again, it joins again" local up --nodes 3
is "$("$jobctl" nodes --json | jq -r '[.nodes[] | select(.state == "up") | .name] | sort | join(" ")')" "node-1 node-2 node-3" "and is up"
kill -KILL "$(pid_of node-3)"
away() { [ "$("$jobctl" nodes --json | jq -r '.nodes[] | select(.name == "node-3") | .connected')" = false ]; }
ok "an agent that ends is missed" wait_until 30 away # a job that comes before would be started there
echo '{"command": ["true"], "resources": {"instances": 3}}' >three.json
three=$("$jobctl" submit three.json 2>/dev/null)
gone() { "$jobctl" why "$three" | grep -q "no jobs now on node-3 (not connected"; }
ok "an agent that ends is no longer called up" wait_until 30 gone
rc 0 "^down" "the end" local down
done_testing
