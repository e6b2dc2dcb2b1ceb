#!/bin/bash
# What follows a failure by its cause: an error of the user and a full limit of the job's own fail at once, an unknown exit code restarts in place and
# then elsewhere, restarts without a new checkpoint end, and a member of a sweep comes back without a second value at a comparison.
# shellcheck disable=SC2034 # cluster.sh uses CLUSTER_HEARTHD_ARGS
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 3 && cluster_hearth --slots 4 || bail "no cluster"
show() { hearth show "$1" --json | jq -r "$2"; }
submit() { # NAME PYTHON [MEMBERS]
	jq -n --arg n "$1" --arg c "import os, sys, time
attempt = int(os.environ['HEARTH_ATTEMPT'])
$2" --argjson m "{${3:-}}" '{name: $n, command: ["/usr/bin/python3", "-c", $c], launcher: "direct", limits: {grace_s: 1}} + $m' >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json" 2>"$CLUSTER/$1.said" || cat "$CLUSTER/$1.said" >&2
}
ends() { hearth wait "$1" --timeout 120 >/dev/null 2>&1; }

stuck=$(submit stuck '
folder = os.environ["HEARTH_CHECKPOINT_DIR"]
if attempt == 1:
    os.mkdir(folder + "/.new")
    open(folder + "/.new/state", "w").write("1")
    os.rename(folder + "/.new", folder + "/step-1")
    time.sleep(4)
sys.exit(77)' '"retry": {"max_attempts": 10}')
lost=$(submit lost 'sys.exit(77 if attempt < 3 else 0)')
missing=$(submit missing 'import no_such_module')
hungry=$(submit hungry 'x = [bytearray(1 << 20) for _ in range(2000)]' '"resources": {"memory": "100MiB"}')
sweep=$(submit sweep '
x = int(os.environ["SM_HP_X"])
for step in range(1, 10):
    print("step=%d loss=%d" % (step, x + (10 if attempt > 1 and step <= 5 else 0)), flush=True)
    if x == 1 and attempt == 1 and step == 5:
        time.sleep(2)
        os.kill(os.getpid(), 9)
    time.sleep(0.2)' '"sweep": {"x": [1, 2, 3, 4]}, "search": {"metric": "loss", "halving": {"eta": 2, "min_step": 4}},
	"metrics": [{"name": "loss", "regex": "loss=([0-9]+)"}, {"name": "step", "regex": "step=([0-9]+)"}]')

# --- at once ------------------------------------------------------------------------------------------------------------
ends "$missing"
is "$(show "$missing" '[.status, .attempt_count, .attempts[0].class] | join(" ")')" "failed 1 user_error" "an ImportError fails at once"
like "$(show "$missing" .reason)" "^rank 0 on host[1-3]: ModuleNotFoundError: No module named 'no_such_module' \([^)]*\); not retried: user error$" "with one sentence"
ends "$hungry"
is "$(show "$hungry" '[.status, .attempt_count, .attempts[0].class] | join(" ")')" "failed 1 oom" "so does a job that fills its own memory limit"
like "$(show "$hungry" .reason)" "^rank 0 .*out of memory.*; not retried: the job's own memory limit is full$" "with one sentence"

# --- an unknown exit code -----------------------------------------------------------------------------------------------
ends "$lost"
is "$(show "$lost" '[.status, .attempt_count] | join(" ")')" "completed 3" "an unknown exit code restarts, and the third attempt completes"
is "$(show "$lost" '.attempts[0].nodes == .attempts[1].nodes')" true "the first restart is in place"
is "$(show "$lost" '.attempts[1].nodes == .attempts[2].nodes')" false "the second one is elsewhere"
is "$(show "$lost" '.attempts | map(.plan.action // "none") | join(" ")')" "in_place elsewhere none" "the plans say it"

# --- a sweep ------------------------------------------------------------------------------------------------------------
ends "$sweep"
is "$(show "$sweep" '.members | .failed == 0 and .stopped >= 2')" true "a sweep whose best member was killed has no failed member"
is "$(show "$sweep.0" '[.status, .attempt_count] | join(" ")')" "completed 2" "the killed one completes in its second attempt"
is "$(hearth events "$sweep.0" --json | jq -r 'if has("events") then .events[] else . end | select(.type == "rung") | .data.step' | sort -n | tr '\n' ' ')" "4 8 " "halving counts each step once, although it was passed twice"

# --- no progress --------------------------------------------------------------------------------------------------------
ends "$stuck"
is "$(show "$stuck" '[.status, .attempt_count] | join(" ")')" "failed 4" "three restarts without a new checkpoint are the last ones"
like "$(show "$stuck" .reason)" "; not retried: 3 restarts brought no new checkpoint \(retry.no_progress\)$" "the reason says so"
is "$(show "$stuck" '[.attempts[1:][].resumed_from_step] | join(" ")')" "1 1 1" "each of them began with the checkpoint"
cluster_clean "after failures of all kinds"
done_testing
