#!/bin/bash
# What jobctl says when there is nothing to show, when a word is wrong, and what to do next: every command on an empty cluster, then on waiting, held, running, ended jobs.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/local.sh"
hearthd=${HEARTH_TOP_BUILDDIR:?}/controller/hearthd
command -v jq >/dev/null || skip_all "jq is missing"

local_home
pid=
at_end() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null
}

# says WANT REGEX ARGS...: exit status, and a line that matches
says() {
	local want=$1 regex=$2 said code
	shift 2
	said=$(timeout 60 "$jobctl" "$@" 2>&1 </dev/null)
	code=$?
	if [ "$code" -eq "$want" ] && grep -Eq -- "$regex" <<<"$said"; then tap_result 0 "jobctl $*"; else
		tap_result 1 "jobctl $*"
		diag "$code, wanted $want and /$regex/:" "$said"
	fi
}
spec() { # FILE JQ-PROGRAM: a small job, changed
	jq -n '{name: "t", command: ["true"], launcher: "direct"} | '"${2:-.}" >"$1"
}

# --- a controller alone: no nodes, no jobs ----------------------------------------------------------------------
"$hearthd" --data "$home/d" --listen 127.0.0.1:0 >"$home/hearthd.log" 2>&1 &
pid=$!
export HEARTH_URL=unix://$home/d/hearthd.sock
wait_until 60 "$jobctl" nodes || bail "hearthd does not answer: $(cat "$home/hearthd.log")"
says 0 "^No job of yours yet\. To submit one: jobctl submit job\.json\. .*: jobctl ls --all$" ls
says 0 "^No job yet\. .*: jobctl submit" ls --all
says 0 "^No job of yours matches status:failed x\. .*: jobctl ls --all$" ls status:failed x
says 0 "^No job matches tag\.a=b\.$" ls --all tag.a=b
says 0 "^No job matches owner:nobody\.$" ls owner:nobody
says 0 "^No job of yours is older than 5\.$" ls --before 5
says 0 "^No node has joined\. .*: jobctl local up\. .*: jobctl token create" nodes
says 0 "^No node has joined\. .*: jobctl nodes$" top --once
says 0 "^No quota is set" quota ls
says 3 "there is no job of yours yet" show last
for q in lab lab/day lab/@ada lab/day/@ada; do says 0 "^$q: weight" queue set $q; done
says 0 "^lab/day/@ada: .*quota of 2 GPUs" quota set lab/day/@ada gpus=2
says 0 "^lab/day/@ada no longer has a quota$" quota rm lab/day/@ada
says 0 "^lab/@ada is removed$" queue rm lab/@ada
says 3 "there is nothing set for \"lab/@nobody\"" queue rm lab/@nobody
says 4 "queue lab/day is below lab; remove it first" queue rm lab
says 2 "queue '\.\.'" queue rm lab/../x
says 0 "^lab/day is removed$" queue rm lab/day
says 0 "^lab is removed$" queue rm lab
for verb in show why logs events metrics wait stop hold release requeue pin unpin rm clone; do says 3 "^jobctl: there is no job 7$" "$verb" 7; done
says 3 ": jobctl ls; .*: jobctl ls --all$" show 7
says 3 "there is no job named nobody" why nobody
says 2 "^jobctl: show: .*'1-3'" show 1-3
says 2 "^jobctl: show: got 2 jobs, expected one JOB$" show 1 2
says 0 "^  queue set " queue --help
says 0 "^  local down " help local
says 3 "there is no job 7" get 7 model
says 3 "there is no job 7" tag 7 a=b
says 3 "there is no job 7" note 7 text
says 3 "there is no job 7" set 7 priority=1
says 3 "there is no job 7" diff 7 8
is "$("$jobctl" stop 9,7,8 2>&1 | xargs -d'\n')" "jobctl: there is no job 9 jobctl: there is no job 7 jobctl: there is no job 8" "stop names each unknown job, in the given order"
is "$("$jobctl" stop 7-93,5 2>&1 | xargs -d'\n')" "jobctl: 87 of the jobs 7-93 do not exist jobctl: there is no job 5" "stop counts the unknown jobs of a range"
says 3 "there is no node \"x\"; jobctl nodes lists them" node drain x
spec job.json '.hyperparameters.lr = 1'
id=$("$jobctl" submit job.json 2>/dev/null)
says 0 "^Job $id is queued: no node has joined yet" why "$id"
says 3 "^jobctl: job $id has no log yet: it is queued; why: jobctl why $id$" logs "$id"
kill -TERM "$pid"
wait "$pid"
pid=
unset HEARTH_URL

# --- words ----------------------------------------------------------------------------------------------------------
says 2 "unknown verb 'shwo' \(did you mean 'show'\?\)" shwo 1
for pair in kill:stop cancel:stop status:show info:show ps:ls list:ls run:submit delete:rm log:logs; do
	says 2 "unknown verb '${pair%:*}' \(did you mean '${pair#*:}'\?\)" "${pair%:*}"
done
says 2 "did you mean 'node drain'\?" node drian x
says 2 "did you mean 'local up'\?" local upp
says 2 "'node' needs a second word" node
says 2 "unknown option --strem \(did you mean --stream\?\)" logs 1 --strem x
says 2 "'stauts:failed'; did you mean status:failed\?" ls stauts:failed
says 2 "'status=failed'; did you mean status:failed\?" ls status=failed
says 2 "'tagteam=x'; did you mean tag\.team=x\?" ls tagteam=x
says 4 "'loss<2': this search term is not built yet; expected status:X" ls 'loss<2'
says 2 "--csv needs the name of a metric: jobctl metrics 1 NAME" metrics 1 --csv

# --- a cluster with jobs in every state ----------------------------------------------------------------------------
for try in 1 2 3 4 5; do
	port=$((10000 + (RANDOM * 3 + $$) % 20000))
	out=$("$jobctl" local up --port $port --fake-gpus 2 2>&1) && break
	diag "try $try: $out"
done
says 0 "^No job runs or waits\. .*: jobctl submit job\.json$" top --once
says 2 "did you mean \"?running" ls status:runing
says 2 "name: \"last\" means one.s newest job" submit job.json --name last
says 2 "\"17\" would be read as the number of a job; put a letter in front: \"job-17\"" submit job.json --name 17
says 2 "sweep: it names no hyperparameter; it needs at least one with its values" submit job.json --set 'sweep={}'
spec hold.json '.name = "holds" | .command = ["sleep", "3600"] | .resources = {instances: 2, gpus_per_instance: 2, ranks_per_instance: 1}'
first=$("$jobctl" submit hold.json 2>/dev/null)
"$jobctl" wait "$first" --for running --timeout 60 >/dev/null
second=$("$jobctl" submit hold.json --name waits 2>/dev/null)
held=$("$jobctl" submit job.json --hold 2>/dev/null)
says 0 "^Job $second is queued: needs 2 instances, each with 2 GPUs .* 0 free now" why "$second"
says 0 "^Job $held is held: held at submit; jobctl release $held lets it go$" why "$held"
says 3 "^jobctl: job $held has no log yet: it is held; why: jobctl why $held$" logs "$held"
says 3 "^jobctl: rank 0 of job $first has written nothing yet; .*: jobctl logs $first -f$" logs "$first"
says 3 "^jobctl: job $first has only 1 attempt; attempt 4 " logs "$first" -a 4
says 0 "^No log streams yet\.$" logs "$second" -l
says 0 "^No metrics yet\. They come from patterns" metrics "$second"
says 3 "^job $held is held$" hold "$held,nobody"
says 3 "^jobctl: there is no job named nobody$" hold "$held,nobody"
says 3 "^job $held is held$" hold nobody "$held"
is "$("$jobctl" hold "$held-$((held + 1))" 2>&1 >/dev/null)" "jobctl: there is no job $((held + 1))" "hold names the one unknown job of a range"
says 3 "has no metric \"loss\" here; jobctl metrics $first lists them" metrics "$first" loss
says 0 "^No ranks: " show "$second" --ranks
says 3 "^jobctl: job $second left no model; it is queued$" get "$second" model
says 4 "only a waiting job can be held" hold "$first"
"$jobctl" note "$held" here is my note >/dev/null
says 0 "^ *$held " ls my note
says 0 "^No job of yours matches my other note\." ls my other note
says 0 "is not held: it is running" release "$first"
says 0 " submitted " events "$second"
"$jobctl" node drain node-1 --reason "new disk" >/dev/null
says 0 "only 1 usable node is there; closed nodes: node-1 \(drained: new disk\).*; it would be possible after jobctl node resume node-1" why "$second"
says 0 " waits .*waits for nodes; 1 node drained" ls waits
says 0 "it would be possible after jobctl node resume node-1" submit hold.json --dry-run
says 0 "node-1 .*drain(ing|ed) .*new disk" nodes
"$jobctl" node resume node-1 >/dev/null
"$jobctl" stop "$first" "$second" >/dev/null
says 1 "^$first stopped$" wait "$first" --timeout 60
says 0 "^Job $first was stopped: stopped by " why "$first"
says 3 "^jobctl: job $second has no log: it was stopped before it started$" logs "$second"
says 3 "^jobctl: job $first left no model$" get "$first" model

# --- values ------------------------------------------------------------------------------------------------------------
says 2 "'lr' cannot be set; expected priority, time or queue\. .* jobctl clone JOB --set hyperparameters\.lr=0\.1$" set "$held" lr=0.1
says 2 "'prio' cannot be set; did you mean 'priority'\?" set "$held" prio=3
says 2 "--set lr=3: unknown key \"lr\"; .*: --set hyperparameters\.lr=3$" submit job.json --set lr=3
says 2 "--set priorty=2: unknown key \"priorty\"; did you mean \"priority\"\?" clone "$held" --set priorty=2
says 0 "would accept" submit job.json --dry-run --set hyperparameters.lr=3 --set 'command=["a.b"]'
says 0 "Note: the command begins with torchrun, .* \"launcher\": \"torchrun\"$" submit job.json --dry-run --set 'command=["/usr/bin/torchrun","x.py"]' --set launcher=mpirun
spec many.json '.resources.ranks_per_instance = 1024'
says 4 "needs 1 instance with 1024 CPU slots; no known node with 1024 CPU slots \(the most is [0-9]+, on node-[12]\); CPU slots: node-[12] [0-9]+, node-[12] [0-9]+\. A rank takes 1: ranks_per_instance can be [0-9]+ at most; more instances give as many ranks$" \
	submit many.json
spec many.json '.resources.cpus_per_rank = 1024'
says 4 "\. cpus_per_rank can be [0-9]+ at most; it would be possible with resources.cpus_per_rank=[0-9]+$" submit many.json --dry-run

# --- many at once ------------------------------------------------------------------------------------------------
example=$(sed -n 's/^\.Dl \$ \(jobctl ls status:active .*\)/\1/p' "$HEARTH_TOP_SRCDIR/docs/man/jobctl.1")
like "$example" "xargs" "the manual has an example that ends all jobs"
spec waits.json '.resources = {instances: 2, gpus_per_instance: 2, ranks_per_instance: 1}'
for ((i = 0; i < 52; i++)); do "$jobctl" submit waits.json --hold >/dev/null 2>&1 || break; done
is "$("$jobctl" ls status:held -n 1000 --json | jq '.jobs | length')" 53 "more jobs wait than one page shows"
PATH=${jobctl%/*}:$PATH bash -c "$example" >/dev/null 2>&1
is "$("$jobctl" ls status:active --json | jq '.jobs | length')" 0 "the manual's example ends all jobs"
is "$(PATH=${jobctl%/*}:$PATH bash -c "$example" 2>&1)" "" "the manual's example prints nothing without jobs"

# --- completion ----------------------------------------------------------------------------------------------------------
spec prints.json '.command = ["sh", "-c", "echo loss=1"] | .metrics = [{name: "loss", regex: "loss=([0-9]+)"}]'
job=$("$jobctl" submit prints.json --wait 2>/dev/null)
words() { "$jobctl" completion words "$@" 2>&1 | xargs; }
streams=$("$jobctl" logs "$job" --list --json | jq -r '.streams[].stream')
like "$streams" "^rank-0$" "the job has streams"
is "$(words 4 -- jobctl logs "$job" -s '')" "$(xargs <<<"$streams")" "logs JOB -s: the streams of the job"
is "$(words 4 -- jobctl logs "$job" --stream s)" "$(grep ^s <<<"$streams" | xargs)" "logs JOB --stream s: the streams that begin with s"
is "$(words 3 -- jobctl metrics "$job" '')" loss "metrics JOB: its metrics"
is "$(words 4 -- jobctl logs "$job" --node node-)" "node-1 node-2" "logs --node: the nodes"
is "$(words 3 -- jobctl logs -s '')" "" "logs -s without a job offers no streams"
done_testing
