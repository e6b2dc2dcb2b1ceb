#!/bin/bash
# Every verb of jobctl against a real cluster on this machine, as the user who runs the test, with a home of its own.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home

field() { "$jobctl" show "$1" --json | jq -r "$2"; }
state_is() { [ "$(field "$1" .status)" = "$2" ]; }
spec() { # FILE JQ-PROGRAM: a small job, changed
	jq -n '{name: "t", command: ["true"], launcher: "direct"} | '"${2:-.}" >"$1"
}

# --- nobody there ---------------------------------------------------------------------------------------------
HEARTH_PATIENCE=0 rc 5 "no controller at http://127.0.0.1:1 .*jobctl local up" "no controller: 5" --url http://127.0.0.1:1 ls
rc 1 "no local cluster runs; .*jobctl local up" "local status before" local status
rc 0 "no local cluster was up" "local down before" local down

# --- local up -------------------------------------------------------------------------------------------------
local_up --fake-gpus 2 || bail "no local cluster: $ERR"
like "$OUT" "^up: hearthd on http://127.0.0.1:$port and 2 agents" "local up says where"
rc 0 "^already up" "a second time changes nothing" local up --fake-gpus 2
rc 4 "--port 7: .*port $port" "another port is refused" local up --port 7
is "$("$jobctl" local up --fake-gpus 2 --json | jq -c '[.port, .nodes, .started]')" "[$port,2,0]" "as JSON"
is "$("$jobctl" local status --json | jq -c .)" '{"hearthd":true,"node-1":true,"node-2":true}' "local status"
is "$(stat -c %a "$home/.config/hearth/config")" 600 "the user's file is private"
like "$("$jobctl" nodes)" "node-2 +up +127.0.0.1 .* 0/2" "nodes"
is "$("$jobctl" nodes --json | jq '[.nodes[] | select(.state == "up")] | length')" 2 "two are up"

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
is "$ERR" "" "and nothing else: nobody gave a time limit"
like "$("$jobctl" show "$job")" "time limit +1d \\(the cluster.s default\\)" "which show has"
rc 0 "^$job completed$" "wait" wait "$job" --timeout 60
[ "$RC" -eq 0 ] || diag "$("$jobctl" show "$job")" "$("$jobctl" logs "$job" 2>&1 | tail -20)" "$("$jobctl" logs "$job" --stream setup 2>&1 | tail)"
rc 0 "Job $job .*train.*completed" "show" show last
like "$OUT" "Attempt 1.*succeeded" "with its attempt"
like "$OUT" "jobctl get $job model" "and what it left"
like "$OUT" "^command      /usr/bin/env python3 train.py$" "its command"
like "$OUT" "^launcher     direct$" "its launcher"
like "$OUT" "^resources    2 nodes, each with 1 rank" "its resources, defaults too"
like "$OUT" "^hyperparams  lr=0.1$" "its hyperparameters"
like "$OUT" "^source       src: jobctl get $job code$" "its source, and how to get it"
like "$OUT" "^output       stored by hearthd$" "where its output goes"
like "$OUT" "^loss +0.025 +0.025 +1 +40 +40 +rank 0 of 2$" "its metrics, and of what"
unlike "$OUT" "$(printf '\033')" "no colour in a file"
is "$(field "$job" '[.spec.command[2], .spec.launcher, .spec.resources.instances, .hyperparameters.lr, .spec.source_dir] | @csv')" '"train.py","direct",2,0.1,"src"' "as JSON, too"
is "$(field "$job" '[.id, .name, .status, .exit_code, (.attempts | length), .metrics.loss.last, .tags.team] | @csv')" \
	"$job,\"train\",\"completed\",0,1,0.025,\"vision\"" "show --json"
is "$(field "$job" '[has("owner", "created_at", "started_at", "ended_at", "reason", "spec", "attempts", "metrics", "artifacts")] | all')" true "with all that is promised"
rc 0 "exited +0" "show --ranks" show "$job" --ranks
is "$("$jobctl" logs "$job" --rank 1 | grep -c '^rank 1 step=')" 40 "logs of a rank"
is "$("$jobctl" logs "$job" --node 2)" "$("$jobctl" logs "$job" --rank 1)" "the same by node"
is "$("$jobctl" logs "$job" --grep 'step=4\d')" "rank 0 step=40 seen=0.05" "logs --grep"
is "$("$jobctl" logs "$job" --offset -10)" "$("$jobctl" logs "$job" | tail -c 10)" "logs from near the end"
is "$("$jobctl" logs "$job" -f | wc -l)" 40 "following what has ended ends"
rc 0 "system-algo-2" "logs --list" logs "$job" --list
like "$("$jobctl" logs "$job" --stream system --node 2)" "RANK=1" "a stream of a node"
rc 3 "^The streams are: .*rank-0" "a stream that is not there: 3, and which there are" logs "$job" --rank 9
rc 0 "submitted" "events" events "$job"
is "$("$jobctl" events "$job" -f --json | tail -1 | jq -r .type)" ended "events to the end"
rc 0 "^loss .* 0.025 .* rank 0 of 2, attempt 1" "metrics" metrics "$job"
is "$("$jobctl" metrics "$job" --rank 1 --json | jq -c '[.loss.rank, .loss.ranks, .loss.count]')" '[1,2,40]' "of another rank"
run metrics "$job" seen
like "$OUT" "^rank 0 of 2, attempt 1: 40 points, last 0.05, min 0.05, max 2" "a series: what it came to"
like "$OUT" "^Each line has .* 2 points; .*--points 0" "that points are drawn together is said"
is "$(grep -c '^ *[0-9]* ' <<<"$OUT")" 20 "in 20 lines"
like "$OUT" "^ +1 +1.5 +1 +2\$" "each with its mean and extremes"
like "$("$jobctl" metrics "$job" loss)" "40 points, last 0.025 at step 40, " "with steps where the program gave them"
is "$("$jobctl" metrics "$job" seen --points 0 | grep -c '^ *[0-9]* ')" 40 "or each point a line"
like "$("$jobctl" metrics "$job" loss --csv | tail -1)" '^40,[0-9.]+,0.025' "a series as CSV"
is "$("$jobctl" metrics "$job" seen --json | jq '.points | length')" 40 "what was read from the log"
is "$("$jobctl" get "$job" model out)" out "get says where"
is "$(cat out/model.txt)" weights "the model is there"
rc 4 "not empty" "get into a folder that is not empty" get "$job" model out
rc 0 "^out$" "unless told so" get "$job" model out --force
"$jobctl" get "$job" code code >/dev/null
is "$(cd code && find . -type f | sort | xargs)" "./.hearthignore ./hearth.py ./train.py" "the code without what .hearthignore names"
"$jobctl" get "$job" checkpoint ckpt >/dev/null
is "$(jq -r .step ckpt/step-40/hearth.json)" 40 "the checkpoint with its manifest"
rc 3 "left no output" "what there is not: 3" get "$job" output nothing

# --- looking and finding --------------------------------------------------------------------------------------
rc 0 "completed" "why of what has ended" why train
rc 0 "^ID|^ *$job" "ls" ls
is "$("$jobctl" ls status:completed tag.team=vision --json | jq '.jobs[0].id')" "$job" "ls by state and tag"
is "$("$jobctl" ls tag.team=audio --json | jq '.jobs | length')" 0 "none of another tag"
rc 2 "did you mean" "a state that is none" ls status:complete
rc 0 "Nodes" "top" top --once

# --- changing -------------------------------------------------------------------------------------------------
clone=$("$jobctl" clone "$job" --set hyperparameters.lr=0.2 --name again --hold)
ok "clone --hold" state_is "$clone" held
rc 0 "spec.hyperparameters.lr +0.1 +0.2" "diff names what differs" diff "$job" "$clone"
rc 0 "spec.hyperparameters.lr +0.1 +0.2" "the last two by their places" diff last~1 last
rc 0 "is changed" "set" set "$clone" priority=5 time=1h
is "$(field "$clone" .priority)" 5 "it is changed"
rc 0 "is tagged" "tag" tag "$clone" team- kind=x
is "$(field "$clone" '.tags | tojson')" '{"kind":"x"}' "one removed, one set"
rc 0 "job $clone has a new note" "note" note "$clone" try a larger rate
is "$(field "$clone" .notes)" "try a larger rate" "it is there"
rc 0 "job $clone is pinned" "pin" pin "$clone"
is "$(field "$clone" .pinned)" true "pinned"
rc 0 "no longer" "unpin" unpin "$clone"
rc 0 "is released" "release" release "$clone"
rc 0 "^$clone completed" "it runs" wait "$clone" --timeout 60
rc 4 "has ended" "what has ended cannot be held: 4" hold "$clone"
rc 0 "has ended \(completed\)" "stop of what has ended says so" stop "$clone"
rc 0 "is removed" "rm" rm "$clone"
rc 3 "" "its log is gone" logs "$clone"
is "$("$jobctl" ls --json | jq "[.jobs[].id] | index($clone)")" null "it is no longer listed"
is "$("$jobctl" ls --removed --json | jq "[.jobs[].id] | index($clone) != null")" true "unless asked for"
is "$(field "$clone" .status)" completed "its record stays"

# --- running, waiting, stopping ---------------------------------------------------------------------------------
long=$("$jobctl" submit job.json --set 'command=["/usr/bin/env","python3","train.py","--stay","True"]' --set hyperparameters={} --name long)
rc 0 "^$long running" "wait --for running" wait "$long" --for running --timeout 30
rc 0 "^$long running" "wait for a step" wait "$long" --for 'step>19' --timeout 30
rc 0 "job $long is not held: it is running" "release of a running one says what it is" release "$long"
rc 124 "still running" "wait --timeout: 124" wait "$long" --timeout 0
"$jobctl" logs "$long" -f >follow.out 2>follow.err &
follower=$!
wait_until 20 grep -q step=20 follow.out
kill -INT "$follower"
wait "$follower"
is "$?" 130 "Ctrl-C ends following: 130"
ok "and leaves the job running" state_is long running
spec wait.json '.name = "waits" | .resources.instances = 2 | .resources.exclusive = true'
waits=$("$jobctl" submit wait.json)
ok "another one has to wait" state_is "$waits" queued
rc 0 "is queued: " "why says for what" why "$waits"
like "$("$jobctl" top --once)" "waits" "top shows it"
rc 0 "is held" "hold" hold "$waits"
rc 0 "is held: " "why of a held one" why "$waits"
rc 0 "is released" "and release" release "$waits"

# --- a controller that dies: what waits goes on -----------------------------------------------------------------
"$jobctl" wait "$long" >wait.out 2>&1 &
waiter=$!
read -r _ pid _ <"$home/.local/share/hearth/local/run/hearthd"
kill -KILL "$pid"
run local up --fake-gpus 2
is "$RC" 0 "hearthd was killed and is up again"
like "$OUT" "127.0.0.1:$port " "on its port"
ok "the job runs on" state_is "$long" running
run hold "$waits" # the place of $long is kept for it: it would go first
rc 0 "goes back to the queue" "requeue" requeue "$long"
ok "another attempt" wait_until 30 eval '[ "$(field '"$long"' .attempt_count)" = 2 ]'
rc 0 "is being stopped" "stop" stop long waits --grace 1
wait "$waiter"
is "$?" 1 "who waited all the time learns the end: 1"
is "$(cat wait.out)" "$long stopped" "and which it is"
rc 1 "^$waits stopped" "a job that was stopped: 1" wait "$waits" --timeout 30
is "$("$jobctl" logs "$long" --attempt 1 | tail -1)" "rank 0 step=20 seen=0.1" "the first attempt's log is still there"

# --- failures ---------------------------------------------------------------------------------------------------
spec fail.json '.command = ["sh", "-c", "echo before; exit 7"]'
rc 1 "exited with code 7: before" "submit --wait of a job that fails: 1, and why" submit fail.json --wait
is "$(field last .exit_code)" 7 "its exit code is kept"
rc 1 "exited with code 7: before" "logs -f of it, which has ended: the same" logs last -f
is "$OUT" "before" "behind what it printed"
rc 0 "" "without -f it is the log alone" logs last
spec none.json '.command = ["/no/such/program"]'
rc 1 "command not found: /no/such/program" "submit --follow of a command that is not there" submit none.json --follow
rc 0 "rank 0 wrote nothing; .*failed: .*command not found" "logs of it: why there are none" logs last
rc 0 "jobctl logs [0-9]+ -s (setup|system)-algo-1; jobctl why" "and where there is more" logs last
spec many.json '.command = ["sh", "-c", "seq 40000; printf end"]'
rc 0 "" "a log of many lines" submit many.json --wait
is "$("$jobctl" logs last --tail 3 | paste -sd,)" "39999,40000,end" "its last lines, the last without an end"
is "$("$jobctl" logs last -n 30000 | head -n 1)" 10002 "more of them than one reading has"
is "$("$jobctl" logs last -n 99999 -f 2>/dev/null | wc -l)" 40000 "more than there are"
is "$("$jobctl" logs last -n 0)" "" "none"
rc 2 "--tail or --offset" "an offset, too" logs last -n 3 --offset 4
spec echo.json '.command = ["sh", "-c", "echo one; echo two"]'
rc 0 "one" "submit --follow" submit echo.json --follow
is "$(sed 1d <<<"$OUT")" "one
two" "shows the log behind the id"
like "$ERR" "^job [0-9]+ completed in [0-9.]+s$" "and how it ended"
rc 0 "job [0-9]+ completed in [0-9.]+s$" "logs -f says so, too" logs last -f
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
	like "$OUT" "^command      sh -c 'echo \"two words\"\\\\nexit 0'$" "words as a shell takes them, on one line"
	like "$OUT" "^hyperparams  text='a b'  list=\\[1,2\\]$" "hyperparameters of all kinds"
	like "$OUT" "^output       file://$home/results/$" "the folder for its output"
	is "$(field last '.run | [.git_branch, .git_dirty] | @csv')" '"main",true' "as JSON, too"
	(cd repo && git checkout -q a.py && mkdir -p notes && echo 'out.txt' >.gitignore && git add .gitignore && git -c user.name=t -c user.email=t@t commit -qm two)
	echo 'notes/' >repo/.git/info/exclude && : >repo/out.txt && : >repo/notes/n
	rc 0 "" "a clean checkout" submit git.json --hold
	clean=$OUT
	is "$(field last '.run | [.git_dirty, .diff] | @csv')" 'false,' "is clean, whatever git ignores"
	mkdir repo/data && : >repo/data/x.bin && : >repo/drop.log && echo '*.log' >repo/.hearthignore && printf 'b = 1\n' >"repo/b $(printf '\303\244').py"
	rc 0 "" "a file that git does not know" submit git.json --hold
	is "$(field last '.run.git_dirty')" true "travels, so that the commit is not all"
	is "$(field last '.run.diff' | grep '^untracked: ' | LC_ALL=C sort | paste -sd,)" "untracked: .hearthignore,untracked: b $(printf '\303\244').py,untracked: data/x.bin" "the record names those that travel, and no other"
	echo 'data/' >>repo/.hearthignore && echo 'print(3)' >repo/a.py
	rc 0 "" "with a change beside them" submit git.json --hold
	is "$(field last '.run.diff' | sed -n '/^untracked/p; /^[+]p/p' | grep -c 'untracked\|print(3)')" 3 "both stand there"
	is "$(field last '.run.diff' | git -C repo apply -R --check - 2>&1)" "" "and git can take the changes back"
	rc 0 "stopp" "the held ones are stopped" stop "$clean-$OUT"
	if command -v script >/dev/null; then
		like "$(TERM=xterm script -qec "'$jobctl' show last" /dev/null)" "$(printf '\033')\\[" "colours on a terminal"
		unlike "$(TERM=xterm NO_COLOR=1 script -qec "'$jobctl' show last" /dev/null)" "$(printf '\033')\\[" "unless NO_COLOR says not to"
	fi
else
	skip "a job from a checkout" "git is missing"
fi

# --- mistakes, each with what and where: nothing of it reaches the queue -----------------------------------------
before=$("$jobctl" ls --all --json | jq '.jobs[0].id')
printf '{"command": ["true"],\n "name": }' >bad.json
rc 2 'bad.json: line 2 column 10' "broken JSON: line and column" submit bad.json
spec bad.json '.command = "true"'
rc 2 'bad.json: command: expected a list' "a wrong type" submit bad.json
spec bad.json '.comand = .command | del(.command)'
rc 2 'comand: unknown key; did you mean "command"' "an unknown key, with the nearest" submit bad.json
spec bad.json '.resources = {instance: 2}'
rc 2 'resources.instance: unknown key; did you mean "instances"' "inside an object, too" submit bad.json
spec bad.json '.nmae = 1 | .comand = 2 | .quue = 3'
run submit bad.json
is "$(grep -c 'unknown key' <<<"$ERR")" 3 "all mistakes at once"
spec bad.json '.retry = {max_attempts: 3}'
rc 2 'retry.max_attempts: this key is reserved .* not built yet' "a key that is not built yet" submit bad.json
spec bad.json '.source_dir = "nowhere"'
rc 2 'source_dir: ./nowhere: No such file' "a source_dir that is not there" submit bad.json
spec bad.json '.name = "../../etc"'
rc 2 "name '../../etc'" "a name with ../" submit bad.json
spec bad.json '.name = "a\u001b[31m"'
run submit bad.json
is "$RC" 2 "a name with control characters"
unlike "$ERR" "$(printf '\033')" "which do not reach the terminal"
spec bad.json '.requirements = "../req.txt"'
rc 2 'requirements' "a path that leaves the source" submit bad.json
spec bad.json '.source_dir = "src" | .requirements = "none.txt"'
rc 2 'requirements: ./src/none.txt: No such file' "requirements that are not there" submit bad.json
spec bad.json '.resources.instances = 50'
rc 4 'impossible on this cluster.*50 instances' "more nodes than there are: refused, 4" submit bad.json
rc 4 'impossible on this cluster.*50 instances' "a dry run says the same" submit bad.json --dry-run
spec bad.json '.resources.gpus_per_instance = 3'
rc 4 'impossible on this cluster.*GPU' "more GPUs than there are" submit bad.json
spec bad.json '.metrics = [{name: "x", regex: "a(b"}]'
rc 2 'metrics\[0\].regex' "a pattern that is none" submit bad.json
spec bad.json '.inputs = {train: {uri: "file:///no/such/data"}}'
rc 1 '/no/such/data' "an input that is not there fails the job, and is named" submit bad.json --wait
before=$(("$before" + 1))
rc 2 'No such file' "no file" submit nothing.json
is "$("$jobctl" ls --all --json | jq '.jobs[0].id')" "$before" "none of the others became a job"
spec bad.json '.name = "nocmd" | .launcher = "mpirun" | .command = ["no-such-program"]'
rc 1 "" "a program that is not there" submit bad.json --wait
rc 0 "command not found: no-such-program" "its log says so" logs nocmd
rc 3 "there is no job 99999" "no such job: 3" show 99999
rc 3 "named nobody" "no such name: 3" show nobody
rc 2 "did you mean 'submit'" "no such verb: 2" sumbit x
rc 2 "did you mean --follow" "no such option: 2" logs 1 --folow
rc 2 "expected JOB" "nothing named: 2" show
rc 4 "not built" "what is not built says so" ls 'loss<2'

# --- going on from a checkpoint ------------------------------------------------------------------------------------
spec resume.json ".resume_from = \"job:$job@41\""
rc 3 "resume_from: the checkpoint of job:$job: it holds no step 41; there is 40" "resume_from a step that is not there: 3, and which there are" submit resume.json
spec resume.json ".resume_from = \"job:$job@40\" | .command = [\"sh\", \"-c\", \"echo \$HEARTH_RESUME_STEP; cat \$HEARTH_RESUME_FROM/w\"]"
run submit resume.json --follow
is "$(sed 1d <<<"$OUT")" "40
1" "and one that is: its own folder"
spec resume.json ".resume_from = \"job:99999\""
rc 3 "resume_from: there is no job 99999" "no such job" submit resume.json

# --- the same submit twice ----------------------------------------------------------------------------------------
token=$(cat "$home/.local/share/hearth/local/hearthd/admin.token")
if command -v curl >/dev/null; then
	post() { curl -s -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -H "Idempotency-Key: $1" -d "$2" "http://127.0.0.1:$port/api/v1/jobs"; }
	a=$(post k1 '{"spec": {"command": ["true"], "launcher": "direct"}}' | jq .id)
	b=$(post k1 '{"spec": {"command": ["true"], "launcher": "direct"}}' | jq .id)
	is "$b" "$a" "the same key with the same request is the same job"
	is "$(post k1 '{"spec": {"command": ["false"], "launcher": "direct"}}' | jq .status)" 409 "with another one it is a conflict"
	run dash
	like "$OUT" "^http://127.0.0.1:$port/login\\?code=" "dash gives an address"
	like "$(curl -si "$OUT" | tr -d '\r')" 'Set-Cookie: hearth_session=.*HttpOnly; SameSite=Strict' "it logs a browser in"
	like "$(curl -si "$OUT" | head -1)" ' 401' "once"
else
	skip "requests by hand" "curl is missing"
fi
HEARTH_URL=http://127.0.0.1:$port HEARTH_TOKEN=$token rc 0 "^$a completed" "over TCP with the token" wait "$a" --timeout 30
HEARTH_URL=http://127.0.0.1:$port rc 4 "DATA/admin.token on the controller" "without one: 4, and where there is one" ls
HEARTH_PATIENCE=0 HEARTH_URL=https://127.0.0.1:$port HEARTH_TOKEN=$token rc 5 "http://" "https:// to a port that speaks plain HTTP" ls
HEARTH_URL=http://127.0.0.1:$port HEARTH_TOKEN=wrong rc 4 "" "with a wrong one: 4" ls

# --- nodes, tokens, shell -----------------------------------------------------------------------------------------
rc 0 "accepts no new jobs" "node drain" node drain node-1 --reason "new disk"
like "$("$jobctl" nodes)" "node-1 .*new disk" "it is shown, with the reason"
rc 0 "node-1 accepts jobs again" "node resume" node resume node-1
rc 3 "" "no such node: 3" node drain node-9
like "$("$jobctl" token create --ttl 5m)" '^hj[^ ]+$' "token create"
is "$("$jobctl" completion words 2 -- jobctl show "$job" | grep -cx "$job")" 1 "completion knows the jobs"
is "$("$jobctl" completion words 3 -- jobctl node drain node- | xargs)" "node-1 node-2" "and the nodes"
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
