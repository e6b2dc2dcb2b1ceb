#!/bin/bash
# Every verb of jobctl against a real cluster on this machine, as the user who runs the test, with a home of its own.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home

field() { "$jobctl" show "$1" --json | jq -r "$2"; }
state_is() { [ "$(field "$1" .status)" = "$2" ]; }
spec() { # FILE JQ-PROGRAM: a small job, changed
	jq -n '{name: "t", command: ["true"], launcher: "direct", retry: {max_attempts: 0}} | '"${2:-.}" >"$1"
}

# --- nobody there ---------------------------------------------------------------------------------------------
HEARTH_PATIENCE=0 rc 5 "no controller at http://127.0.0.1:1 .*jobctl local up" "ls without a controller: exit code 5" --url http://127.0.0.1:1 ls
rc 1 "no local cluster runs; .*jobctl local up" "local status without a cluster: exit code 1" local status
rc 0 "no local cluster was up" "local down without a cluster" local down

# --- local up -------------------------------------------------------------------------------------------------
local_up --fake-gpus 2 || bail "no local cluster: $ERR"
like "$OUT" "^up: hearthd on http://127.0.0.1:$port and 2 agents" "local up says where"
rc 0 "^already up" "local up again changes nothing" local up --fake-gpus 2
rc 4 "--port 7: .*port $port" "local up with another port: exit code 4" local up --port 7
is "$("$jobctl" local up --fake-gpus 2 --json | jq -c '[.port, .nodes, .started]')" "[$port,2,0]" "local up --json has port, nodes and started"
is "$("$jobctl" local status --json | jq -c .)" '{"hearthd":true,"node-1":true,"node-2":true}' "local status"
is "$(stat -c %a "$home/.config/hearth/config")" 600 "local up makes a private configuration file"
like "$("$jobctl" nodes)" "node-2 +up +127.0.0.1 .* 0/2" "nodes"
is "$("$jobctl" nodes --json | jq '[.nodes[] | select(.state == "up")] | length')" 2 "nodes --json: two nodes are up"

# --- a job from submit to get ---------------------------------------------------------------------------------
mkdir -p src/sub
cp "$HEARTH_TOP_SRCDIR/examples/hearth.py" src/
cat >src/train.py <<'PY'
import os, sys, time
import hearth
rank = int(os.environ["RANK"])
for step in range(1, 41):
    hearth.log(step=step, loss=1 / step)
    print("rank %d step=%d seen=%g" % (rank, step, 2 / step), flush=True)
    if step == 20 and len(sys.argv) > 1 and sys.argv[-1] == "True":
        time.sleep(3600)
if rank == 0:
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w") as f:
        f.write("weights\n")
    hearth.commit_checkpoint(lambda d: open(os.path.join(d, "w"), "w").write("1"), 40, loss=0.025)
PY
echo secret >src/sub/secret.log
echo '*.log' >src/.hearthignore
spec job.json '.name = "train" | .command = ["/usr/bin/env", "python3", "train.py"] | .source_dir = "src" | .resources.instances = 2
	| .tags.team = "vision" | .hyperparameters.lr = 0.1 | .metrics = [{name: "seen", regex: "seen=([0-9.e-]+)"}]'
rc 0 "would accept" "submit --dry-run" submit job.json --dry-run
run submit job.json
job=$OUT
like "$job" '^[1-9][0-9]*$' "submit prints the id alone"
is "$ERR" "" "submit prints no note about the usual time limit"
like "$("$jobctl" show "$job")" "time limit +1d \\(the cluster.s default\\)" "show has the default time limit"
rc 0 "^$job completed$" "wait" wait "$job" --timeout 60
[ "$RC" -eq 0 ] || diag "$("$jobctl" show "$job")" "$("$jobctl" logs "$job" 2>&1 | tail -20)" "$("$jobctl" logs "$job" --stream setup 2>&1 | tail)"
rc 0 "Job $job .*train.*completed" "show" show last
like "$OUT" "Attempt 1.*succeeded" "show has the attempt"
like "$OUT" "jobctl get $job model" "show offers the model"
like "$OUT" "^command      /usr/bin/env python3 train.py$" "show has the command"
like "$OUT" "^launcher     direct$" "show has the launcher"
like "$OUT" "^resources    2 nodes, each with 1 rank" "show has the resources, with defaults"
like "$OUT" "^hyperparams  lr=0.1$" "show has the hyperparameters"
like "$OUT" "^source       src: jobctl get $job code$" "show has the source and the command to fetch it"
like "$OUT" "^output       stored by hearthd$" "show has the place of the output"
like "$OUT" "^loss +0.025 +0.025 +1 +40 +40 +rank 0 of 2$" "show has the metrics and their ranks"
unlike "$OUT" "$(printf '\033')" "show uses no colour in a file"
is "$(field "$job" '[.spec.command[2], .spec.launcher, .spec.resources.instances, .hyperparameters.lr, .spec.source_dir] | @csv')" '"train.py","direct",2,0.1,"src"' "show --json has the specification"
is "$(field "$job" '[.id, .name, .status, .exit_code, (.attempts | length), .metrics.loss.last, .tags.team] | @csv')" \
	"$job,\"train\",\"completed\",0,1,0.025,\"vision\"" "show --json"
is "$(field "$job" '[has("owner", "created_at", "started_at", "ended_at", "reason", "spec", "attempts", "metrics", "artifacts")] | all')" true "show --json has all promised keys"
rc 0 "exited +0" "show --ranks" show "$job" --ranks
is "$("$jobctl" logs "$job" --rank 1 | grep -c '^rank 1 step=')" 40 "logs of a rank"
is "$("$jobctl" logs "$job" --node 2)" "$("$jobctl" logs "$job" --rank 1)" "logs --node shows the rank of that node"
is "$("$jobctl" logs "$job" --grep 'step=4\d')" "rank 0 step=40 seen=0.05" "logs --grep"
is "$("$jobctl" logs "$job" --offset -10)" "$("$jobctl" logs "$job" | tail -c 10)" "logs from near the end"
is "$("$jobctl" logs "$job" -f | wc -l)" 40 "logs -f of an ended job ends"
rc 0 "system-algo-2" "logs --list" logs "$job" --list
like "$("$jobctl" logs "$job" --stream system --node 2)" "RANK=1" "logs --stream system --node 2"
rc 3 "^The streams are: .*rank-0" "logs of a missing rank: exit code 3, and the streams" logs "$job" --rank 9
rc 0 "submitted" "events" events "$job"
is "$("$jobctl" events "$job" -f --json | tail -1 | jq -r .type)" ended "events -f ends with the job"
rc 0 "^loss .* 0.025 .* rank 0 of 2, attempt 1" "metrics" metrics "$job"
is "$("$jobctl" metrics "$job" --rank 1 --json | jq -c '[.loss.rank, .loss.ranks, .loss.count]')" '[1,2,40]' "metrics --rank shows another rank"
run metrics "$job" seen
like "$OUT" "^rank 0 of 2, attempt 1: 40 points, last 0.05, min 0.05, max 2" "metrics of a series has its summary"
like "$OUT" "^Each line has .* 2 points; .*--points 0" "metrics of a series says that points are condensed"
is "$(grep -c '^ *[0-9]* ' <<<"$OUT")" 20 "metrics of a series has 20 lines"
like "$OUT" "^ +1 +1.5 +1 +2\$" "metrics of a series: each line has mean, min and max"
like "$("$jobctl" metrics "$job" loss)" "40 points, last 0.025 at step 40, " "metrics of a series has the program's steps"
is "$("$jobctl" metrics "$job" seen --points 0 | grep -c '^ *[0-9]* ')" 40 "metrics --points 0 has one line per point"
like "$("$jobctl" metrics "$job" loss --csv | tail -1)" '^40,[0-9.]+,0.025' "metrics --csv"
is "$("$jobctl" metrics "$job" seen --json | jq '.points | length')" 40 "metrics of a pattern has all points"
is "$("$jobctl" get "$job" model out)" out "get prints the folder"
is "$(cat out/model.txt)" weights "get fetches the model"
rc 4 "not empty" "get into a folder that is not empty" get "$job" model out
rc 0 "^out$" "get --force accepts a folder that is not empty" get "$job" model out --force
"$jobctl" get "$job" code code >/dev/null
is "$(cd code && find . -type f | sort | xargs)" "./.hearthignore ./hearth.py ./train.py" "get code: ignored files were not sent"
"$jobctl" get "$job" checkpoint ckpt >/dev/null
is "$(jq -r .step ckpt/step-40/hearth.json)" 40 "get checkpoint has its manifest"
rc 3 "left no output" "get of an output that the job did not leave: exit code 3" get "$job" output nothing

# --- looking and finding --------------------------------------------------------------------------------------
rc 0 "completed" "why of an ended job" why train
rc 0 "^ID|^ *$job" "ls" ls
is "$("$jobctl" ls status:completed tag.team=vision --json | jq '.jobs[0].id')" "$job" "ls by state and tag"
is "$("$jobctl" ls tag.team=audio --json | jq '.jobs | length')" 0 "ls with another tag lists no job"
rc 2 "did you mean" "ls with an unknown state suggests one" ls status:complete
rc 0 "Nodes" "top" top --once

# --- changing -------------------------------------------------------------------------------------------------
clone=$("$jobctl" clone "$job" --set hyperparameters.lr=0.2 --name again --hold)
ok "clone --hold" state_is "$clone" held
rc 0 "spec.hyperparameters.lr +0.1 +0.2" "diff shows the changed hyperparameter" diff "$job" "$clone"
rc 0 "spec.hyperparameters.lr +0.1 +0.2" "diff of last~1 and last" diff last~1 last
rc 0 "is changed" "set" set "$clone" priority=5 time=1h
is "$(field "$clone" .priority)" 5 "set changes the priority"
rc 0 "is tagged" "tag" tag "$clone" team- kind=x
is "$(field "$clone" '.tags | tojson')" '{"kind":"x"}' "tag removes one tag and sets one"
rc 0 "job $clone has a new note" "note" note "$clone" try a larger rate
is "$(field "$clone" .notes)" "try a larger rate" "note stores its text"
rc 0 "job $clone is pinned" "pin" pin "$clone"
is "$(field "$clone" .pinned)" true "pin marks the job"
rc 0 "no longer" "unpin" unpin "$clone"
rc 0 "is released" "release" release "$clone"
rc 0 "^$clone completed" "a released job completes" wait "$clone" --timeout 60
rc 4 "has ended" "hold of an ended job: exit code 4" hold "$clone"
rc 0 "has ended \(completed\)" "stop of an ended job" stop "$clone"
rc 0 "is removed" "rm" rm "$clone"
rc 3 "" "rm removes the log" logs "$clone"
is "$("$jobctl" ls --json | jq "[.jobs[].id] | index($clone)")" null "ls does not list a removed job"
is "$("$jobctl" ls --removed --json | jq "[.jobs[].id] | index($clone) != null")" true "ls --removed lists a removed job"
is "$(field "$clone" .status)" completed "rm keeps the record"

# --- running, waiting, stopping ---------------------------------------------------------------------------------
long=$("$jobctl" submit job.json --set 'command=["/usr/bin/env","python3","train.py","--stay","True"]' --set hyperparameters={} --name long)
rc 0 "^$long running" "wait --for running" wait "$long" --for running --timeout 30
rc 0 "^$long running" "wait for a step" wait "$long" --for 'step>19' --timeout 30
rc 0 "job $long is not held: it is running" "release of a running job reports its state" release "$long"
rc 124 "still running" "wait --timeout: exit code 124" wait "$long" --timeout 0
"$jobctl" logs "$long" -f >follow.out 2>follow.err &
follower=$!
wait_until 20 grep -q step=20 follow.out
kill -INT "$follower"
wait "$follower"
is "$?" 130 "logs -f: Ctrl-C gives exit code 130"
ok "logs -f: Ctrl-C leaves the job running" state_is long running
spec wait.json '.name = "waits" | .resources.instances = 2 | .resources.exclusive = true'
waits=$("$jobctl" submit wait.json)
ok "an exclusive job has to wait" state_is "$waits" queued
rc 0 "is queued: " "why of a waiting job" why "$waits"
like "$("$jobctl" top --once)" "waits" "top shows a waiting job"
rc 0 "is held" "hold" hold "$waits"
rc 0 "is held: " "why of a held job" why "$waits"
rc 0 "is released" "release of a held job" release "$waits"

# --- a controller that dies: what waits goes on -----------------------------------------------------------------
"$jobctl" wait "$long" >wait.out 2>&1 &
waiter=$!
read -r _ pid _ <"$home/.local/share/hearth/local/run/hearthd"
kill -KILL "$pid"
run local up --fake-gpus 2
is "$RC" 0 "hearthd was killed and is up again"
like "$OUT" "127.0.0.1:$port " "a restarted hearthd has its old port"
ok "a job outlives its hearthd" state_is "$long" running
run hold "$waits" # the place of $long is kept for it: it would go first
rc 0 "goes back to the queue" "requeue" requeue "$long"
ok "requeue starts another attempt" wait_until 30 eval '[ "$(field '"$long"' .attempt_count)" = 2 ]'
rc 0 "is being stopped" "stop" stop long waits --grace 1
wait "$waiter"
is "$?" 1 "wait over a restart of hearthd: exit code 1 for a stopped job"
is "$(cat wait.out)" "$long stopped" "wait over a restart of hearthd prints the end"
rc 1 "^$waits stopped" "wait for a stopped job: exit code 1" wait "$waits" --timeout 30
is "$("$jobctl" logs "$long" --attempt 1 | tail -1)" "rank 0 step=20 seen=0.1" "logs --attempt 1 after a requeue"

# --- failures ---------------------------------------------------------------------------------------------------
spec fail.json '.command = ["sh", "-c", "echo before; exit 7"]'
rc 1 "exited with code 7: before" "submit --wait of a failing job: exit code 1, and the reason" submit fail.json --wait
is "$(field last .exit_code)" 7 "show --json has the exit code of a rank"
rc 1 "exited with code 7: before" "logs -f of a failed job: exit code 1, and the reason" logs last -f
is "$OUT" "before" "logs -f of a failed job prints its log"
rc 0 "" "logs of a failed job: exit code 0" logs last
spec none.json '.command = ["/no/such/program"]'
rc 1 "command not found: /no/such/program" "submit --follow of a missing command" submit none.json --follow
rc 0 "rank 0 wrote nothing; .*failed: .*command not found" "logs of a missing command: the reason" logs last
rc 0 "jobctl logs [0-9]+ -s (setup|system)-algo-1; jobctl why" "logs of a missing command: the stream with more" logs last
spec many.json '.command = ["sh", "-c", "seq 40000; printf end"]'
rc 0 "" "a log of many lines" submit many.json --wait
is "$("$jobctl" logs last --tail 3 | paste -sd,)" "39999,40000,end" "logs --tail 3 with a last line without newline"
is "$("$jobctl" logs last -n 30000 | head -n 1)" 10002 "logs -n with more lines than one read"
is "$("$jobctl" logs last -n 99999 -f 2>/dev/null | wc -l)" 40000 "logs -n with more lines than exist"
is "$("$jobctl" logs last -n 0)" "" "logs -n 0 prints nothing"
rc 2 "--tail or --offset" "logs -n with --offset: exit code 2" logs last -n 3 --offset 4
spec echo.json '.command = ["sh", "-c", "echo one; echo two"]'
rc 0 "one" "submit --follow" submit echo.json --follow
is "$(sed 1d <<<"$OUT")" "one
two" "submit --follow shows the log behind the id"
like "$ERR" "^job [0-9]+ completed in [0-9.]+s$" "submit --follow reports the end"
rc 0 "job [0-9]+ completed in [0-9.]+s$" "logs -f reports the end" logs last -f
like "$("$jobctl" submit - --wait <echo.json)" '^[0-9]+$' "a specification from standard input"

# --- a checkout, odd words, terminal ---------------------------------------------------------------------------
if command -v git >/dev/null; then
	mkdir repo && echo 'print(1)' >repo/a.py
	(cd repo && git init -q -b main . && git -c user.name=t -c user.email=t@t add a.py && git -c user.name=t -c user.email=t@t commit -qm one && echo 'print(2)' >a.py)
	commit=$(git -C repo rev-parse --short=12 HEAD)
	spec git.json '.command = ["sh", "-c", "echo \"two words\"\nexit 0"] | .source_dir = "repo" | .output_uri = "file://'"$home"'/results/" | .hyperparameters = {text: "a b", list: [1, 2]}'
	rc 0 "" "a job from a checkout" submit git.json --wait
	run show last
	like "$OUT" "^source       repo, git $commit on main, with uncommitted changes: jobctl get [0-9]+ code$" "show names commit, branch and changes"
	like "$OUT" "^command      sh -c 'echo \"two words\"\\\\nexit 0'$" "show quotes the command for a shell, on one line"
	like "$OUT" "^hyperparams  text='a b'  list=\\[1,2\\]$" "hyperparameters of all kinds"
	like "$OUT" "^output       file://$home/results/$" "show has the folder of output_uri"
	is "$(field last '.run | [.git_branch, .git_dirty] | @csv')" '"main",true' "show --json has branch and state of git"
	(cd repo && git checkout -q a.py && mkdir -p notes && echo 'out.txt' >.gitignore && git add .gitignore && git -c user.name=t -c user.email=t@t commit -qm two)
	echo 'notes/' >repo/.git/info/exclude && : >repo/out.txt && : >repo/notes/n
	rc 0 "" "a clean checkout" submit git.json --hold
	clean=$OUT
	is "$(field last '.run | [.git_dirty, .diff] | @csv')" 'false,' "a checkout with ignored files is clean"
	mkdir repo/data && : >repo/data/x.bin && : >repo/drop.log && echo '*.log' >repo/.hearthignore && printf 'b = 1\n' >"repo/b $(printf '\303\244').py"
	rc 0 "" "a file that git does not know" submit git.json --hold
	is "$(field last '.run.git_dirty')" true "an untracked file makes the checkout dirty"
	is "$(field last '.run.diff' | grep '^untracked: ' | LC_ALL=C sort | paste -sd,)" "untracked: .hearthignore,untracked: b $(printf '\303\244').py,untracked: data/x.bin" "the record names exactly the untracked files that are sent"
	echo 'data/' >>repo/.hearthignore && echo 'print(3)' >repo/a.py
	rc 0 "" "a job from a checkout with a change and untracked files" submit git.json --hold
	is "$(field last '.run.diff' | sed -n '/^untracked/p; /^[+]p/p' | grep -c 'untracked\|print(3)')" 3 "the record has the change and the untracked files"
	is "$(field last '.run.diff' | git -C repo apply -R --check - 2>&1)" "" "git apply -R accepts the recorded change"
	rc 0 "stopp" "stop of a range of held jobs" stop "$clean-$OUT"
	if command -v script >/dev/null; then
		like "$(TERM=xterm script -qec "'$jobctl' show last" /dev/null)" "$(printf '\033')\\[" "colours on a terminal"
		unlike "$(TERM=xterm NO_COLOR=1 script -qec "'$jobctl' show last" /dev/null)" "$(printf '\033')\\[" "no colours with NO_COLOR"
	fi
else
	skip "a job from a checkout" "git is missing"
fi

# --- mistakes, each with what and where: nothing of it reaches the queue -----------------------------------------
before=$("$jobctl" ls --all --json | jq '.jobs[0].id')
printf '{"command": ["true"],\n "name": }' >bad.json
rc 2 'bad.json: line 2 column 10' "broken JSON: line and column" submit bad.json
spec bad.json '.command = "true"'
rc 2 'bad.json: command: expected a list' "a key of a wrong type" submit bad.json
spec bad.json '.comand = .command | del(.command)'
rc 2 'comand: unknown key; did you mean "command"' "an unknown key, with the nearest" submit bad.json
spec bad.json '.resources = {instance: 2}'
rc 2 'resources.instance: unknown key; did you mean "instances"' "an unknown key in an object, with the nearest" submit bad.json
spec bad.json '.nmae = 1 | .comand = 2 | .quue = 3'
run submit bad.json
is "$(grep -c 'unknown key' <<<"$ERR")" 3 "submit reports all mistakes together"
spec bad.json '.objective = "cost"'
rc 2 'objective: this key is reserved .* not built yet' "a key that is not built yet" submit bad.json
spec bad.json '.source_dir = "nowhere"'
rc 2 'source_dir: ./nowhere: No such file' "a missing source_dir" submit bad.json
spec bad.json '.name = "../../etc"'
rc 2 "name '../../etc'" "a name with ../" submit bad.json
spec bad.json '.name = "a\u001b[31m"'
run submit bad.json
is "$RC" 2 "a name with control characters"
unlike "$ERR" "$(printf '\033')" "control characters do not reach the terminal"
spec bad.json '.requirements = "../req.txt"'
rc 2 'requirements' "a path that leaves the source" submit bad.json
spec bad.json '.source_dir = "src" | .requirements = "none.txt"'
rc 2 'requirements: ./src/none.txt: No such file' "a missing requirements file" submit bad.json
spec bad.json '.resources.instances = 50'
rc 4 'impossible on this cluster.*50 instances' "more nodes than the cluster has: exit code 4" submit bad.json
rc 4 'impossible on this cluster.*50 instances' "a dry run with more nodes than the cluster has: exit code 4" submit bad.json --dry-run
spec bad.json '.resources.gpus_per_instance = 3'
rc 4 'impossible on this cluster.*GPU' "more GPUs than any node has: exit code 4" submit bad.json
spec bad.json '.metrics = [{name: "x", regex: "a(b"}]'
rc 2 'metrics\[0\].regex' "an invalid pattern of a metric" submit bad.json
spec bad.json '.inputs = {train: {uri: "file:///no/such/data"}}'
rc 1 '/no/such/data' "a missing input fails the job, and the reason names it" submit bad.json --wait
before=$(("$before" + 1))
rc 2 'No such file' "submit of a missing file" submit nothing.json
is "$("$jobctl" ls --all --json | jq '.jobs[0].id')" "$before" "no mistaken specification became a job"
spec bad.json '.name = "nocmd" | .launcher = "mpirun" | .command = ["no-such-program"]'
rc 1 "" "a missing program fails the job" submit bad.json --wait
rc 0 "command not found: no-such-program" "logs of a missing program" logs nocmd
rc 3 "there is no job 99999" "show of an unknown id: exit code 3" show 99999
rc 3 "named nobody" "show of an unknown name: exit code 3" show nobody
rc 2 "did you mean 'submit'" "an unknown verb: exit code 2" sumbit x
rc 2 "did you mean --follow" "an unknown option: exit code 2" logs 1 --folow
rc 2 "expected JOB" "a missing operand: exit code 2" show
rc 4 "not built" "a search term that is not built: exit code 4" ls 'loss<2'

# --- going on from a checkpoint ------------------------------------------------------------------------------------
spec resume.json ".resume_from = \"job:$job@41\""
rc 3 "resume_from: the checkpoint of job:$job: it holds no step 41; there is 40" "resume_from with a missing step: exit code 3, and the existing steps" submit resume.json
spec resume.json ".resume_from = \"job:$job@40\" | .command = [\"sh\", \"-c\", \"echo \$HEARTH_RESUME_STEP; cat \$HEARTH_RESUME_FROM/w\"]"
run submit resume.json --follow
is "$(sed 1d <<<"$OUT")" "40
1" "resume_from with an existing step: its folder"
spec resume.json ".resume_from = \"job:99999\""
rc 3 "resume_from: there is no job 99999" "resume_from with an unknown job: exit code 3" submit resume.json

# --- the same submit twice ----------------------------------------------------------------------------------------
token=$(cat "$home/.local/share/hearth/local/hearthd/admin.token")
if command -v curl >/dev/null; then
	post() { curl -s -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -H "Idempotency-Key: $1" -d "$2" "http://127.0.0.1:$port/api/v1/jobs"; }
	a=$(post k1 '{"spec": {"command": ["true"], "launcher": "direct"}}' | jq .id)
	b=$(post k1 '{"spec": {"command": ["true"], "launcher": "direct"}}' | jq .id)
	is "$b" "$a" "an idempotency key with the same request gives the same job"
	is "$(post k1 '{"spec": {"command": ["false"], "launcher": "direct"}}' | jq .status)" 409 "an idempotency key with another request is a conflict"
	run dash
	like "$OUT" "^http://127.0.0.1:$port/login\\?code=" "dash gives an address"
	like "$(curl -si "$OUT" | tr -d '\r')" 'Set-Cookie: hearth_session_[0-9]+=.*HttpOnly; SameSite=Strict' "the address of dash logs a browser in"
	like "$(curl -si "$OUT" | head -1)" ' 401' "the address of dash works once"
else
	skip "requests by hand" "curl is missing"
fi
HEARTH_URL=http://127.0.0.1:$port HEARTH_TOKEN=$token rc 0 "^$a completed" "wait over TCP with a token" wait "$a" --timeout 30
HEARTH_URL=http://127.0.0.1:$port rc 4 "Ask an administrator for a token, then: jobctl login URL" "ls over TCP without a token: exit code 4, and where to find one" ls
HEARTH_PATIENCE=0 HEARTH_URL=https://127.0.0.1:$port HEARTH_TOKEN=$token rc 5 "http://" "https:// to a port that speaks plain HTTP" ls
HEARTH_URL=http://127.0.0.1:$port HEARTH_TOKEN=wrong rc 4 "" "ls over TCP with a wrong token: exit code 4" ls

# --- nodes, tokens, shell -----------------------------------------------------------------------------------------
rc 0 "accepts no new jobs" "node drain" node drain node-1 --reason "new disk"
like "$("$jobctl" nodes)" "node-1 .*new disk" "nodes shows the reason of a drain"
rc 0 "node-1 accepts jobs again" "node resume" node resume node-1
rc 3 "" "node drain of an unknown node: exit code 3" node drain node-9
like "$("$jobctl" token create --ttl 5m)" '^hj[^ ]+$' "token create"
is "$("$jobctl" completion words 2 -- jobctl show "$job" | grep -cx "$job")" 1 "completion knows the jobs"
is "$("$jobctl" completion words 3 -- jobctl node drain node- | xargs)" "node-1 node-2" "completion knows the nodes"
is "$(bash -c 'source <("$0" completion bash); COMP_WORDS=("$0" logs '"$job"' --str) COMP_CWORD=3; _jobctl; echo "${COMPREPLY[*]}"' "$jobctl" 2>/dev/null)" --stream \
	"the shell's function completes"

# --- Python ---------------------------------------------------------------------------------------------------------
if command -v python3 >/dev/null; then
	like "$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$HEARTH_TOP_SRCDIR/examples python3 - 2>&1 <<'PY'
import hearth
job = hearth.submit("job.json")
lines = list(job.logs(rank=1, follow=True))
print(len(lines), job.wait(60), job.show()["bundle"] == hearth.Job("train~1").show()["bundle"], job.metrics("loss")[-1][2])
try:
    hearth.submit({"comand": []})
except hearth.HearthError as e:
    print(e.status, e)
PY
	)" '^40 completed True 0.025
400 comand: unknown key' "hearth.py submits, follows, reads metrics; the same folder has the same digest"
else
	skip "hearth.py" "python3 is missing"
fi

# --- the end ----------------------------------------------------------------------------------------------------------
last=$("$jobctl" submit job.json --set 'command=["sleep","3600"]' --set hyperparameters={} --name last-one)
"$jobctl" wait "$last" --for running --timeout 30 >/dev/null
pids=$(cat "$home"/.local/share/hearth/local/run/* | cut -d' ' -f2)
rc 0 "^down" "local down" local down
like "$ERR" "stopping 1 job" "stops what runs"
runs() { [ -e "/proc/$1/stat" ] && ! grep -q ') Z ' "/proc/$1/stat"; } # whoever reaps orphans may be slow
for pid in $pids; do nok "process $pid is gone" runs "$pid"; done
rc 1 "not running|no local cluster runs" "local status after: 1" local status
HEARTH_PATIENCE=0 rc 5 "no controller" "no controller any more: 5" ls
run local up --fake-gpus 2
is "$RC" 0 "up again"
ok "with all that was" state_is "$last" stopped
done_testing
