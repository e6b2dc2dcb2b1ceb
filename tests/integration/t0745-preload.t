#!/bin/bash
# A job runs in interpreters that imported torch before it existed: the edited program, its own logs, metrics,
# hyperparameters and exit status.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"
command -v mpirun >/dev/null || skip_all "mpirun is missing"
/usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || skip_all "torch is missing"
local_home
local_up --nodes 2 || bail "no local cluster: $ERR"

mkdir code
cat >code/helper.py <<'PY'
word = "one"
PY
cat >code/train.py <<'PY'
import sys
ahead = "torch" in sys.modules
import argparse, os, torch, torch.distributed as dist, torch.nn as nn
import helper
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float)
p.add_argument("--fail", type=int, default=0)
a = p.parse_args()
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
m = nn.parallel.DistributedDataParallel(nn.Linear(4, 1, bias=False))
o = torch.optim.SGD(m.parameters(), a.lr)
m(torch.full((1, 4), float(rank + 1))).sum().backward()
o.step()
print("ahead=%s word=%s lr=%s rank=%d of %d job=%s grad=%s loss=%s" % (
    ahead, helper.word, a.lr, rank, dist.get_world_size(), os.environ["HEARTH_JOB"], m.module.weight.grad[0][0].item(), a.lr * 10), flush=True)
if a.fail and rank == 0:
    raise SystemExit(a.fail)
PY
jq -n '{name: "train", command: ["/usr/bin/python3", "train.py"], source_dir: "code", resources: {instances: 2}, retry: {max_attempts: 0}, limits: {grace_s: 1},
	hyperparameters: {lr: 0.5}, metrics: [{name: "loss", regex: "loss=([0-9.]+)"}],
	warm_pool: {keep_alive_s: 600, preload: ["torch", "torch.distributed"]}}' >job.json

show() { "$jobctl" show "$1" --json | jq -r "$2"; }
lines() { "$jobctl" logs "$1" --rank all 2>/dev/null | grep -o 'ahead=.*grad=[0-9.]*' | sort; }
waits() { [ "$("$jobctl" submit job.json --dry-run --json 2>/dev/null | jq -r .pool.level)" = interpreter ]; }
wanted() { # AHEAD WORD LR JOB
	printf 'ahead=%s word=%s lr=%s rank=%d of 2 job=%s grad=1.5\n' "$1" "$2" "$3" 0 "$4" "$1" "$2" "$3" 1 "$4"
}

one=$("$jobctl" submit job.json)
rc 0 "" "the first job completes" wait "$one" --timeout 60
is "$(lines "$one")" "$(wanted False one 0.5 "$one")" "it starts its own interpreters"
ok "interpreters wait for the next job" wait_until 30 waits
rc 0 "the next job of this kind starts at level interpreter$" "pool show says so" pool show train
like "$OUT" "^preload +torch, torch.distributed$" "and what they imported"

echo 'word = "two"' >code/helper.py
jq '.hyperparameters = {lr: 0.25, fail: 3}' job.json >next.json
two=$("$jobctl" submit next.json)
run wait "$two" --timeout 60
is "$(show "$two" '[.attempts[0].pool.level, .status, .exit_code, .metrics.loss.last] | @csv')" '"interpreter","failed",3,2.5' \
	"the second job has level interpreter, its own exit status and metrics"
is "$(lines "$two")" "$(wanted True two 0.25 "$two")" "torch was imported ahead; program, arguments and environment are its own"

ok "interpreters wait again" wait_until 30 waits
echo 'word = "three"' >code/helper.py
jq '.environment = {MKL_X: "1"}' job.json >other.json
three=$("$jobctl" submit other.json)
rc 0 "" "a job with a variable that imports may read completes" wait "$three" --timeout 60
is "$(show "$three" '.attempts[0].pool | [.level, .missed.level, .missed.field] | @csv')" '"launch","interpreter","environment.MKL_X"' "its level names the variable"
is "$(lines "$three")" "$(wanted False three 0.5 "$three")" "it starts its own interpreters"

# --- a module that cannot be imported ----------------------------------------------------------------------------
jq '.warm_pool.preload = ["helper"] | .name = "own"' job.json >own.json
"$jobctl" submit own.json --wait >/dev/null 2>&1
parked() { [ "$("$jobctl" pool show own --json | jq -r .parked.state)" = parked ]; }
ok "the pool is parked without interpreters" wait_until 30 parked
rc 0 "level launch; preload failed: no module named helper \(modules of the source" "pool show says why" pool show own
run submit --again own.json
like "$ERR" "\(level launch: preload failed: no module named helper" "again does, too"
run wait "$OUT" --timeout 60
done_testing
