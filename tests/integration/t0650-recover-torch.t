#!/bin/bash
# The example with PyTorch DistributedDataParallel, as a user submits it: one of its two hosts dies, and it completes on another one with the loss of an
# undisturbed run.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip_all "needs PyTorch (python3-torch)"
# shellcheck disable=SC2034 # for cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 5 && cluster_hearth --slots 1 || bail "no cluster"

show() { hearth show "$1" --json | jq -r "$2"; }
final() { hearth logs "$1" -r 0 2>/dev/null | sed -n 's/^.*final loss=\(.*\)$/\1/p' | tail -n 1; }
steps() { hearth logs "$1" -r 0 --attempt "$2" 2>/dev/null | sed -n 's/^.*step=\([0-9]*\) loss=.*$/\1/p'; } # JOB ATTEMPT
saved() { hearth checkpoints "$1" --json | jq -e '[.checkpoints[] | select(.complete and all(.places[]; .state == "verified"))] | length > 0' >/dev/null; }
submit() { hearth submit "$HEARTH_TOP_SRCDIR/examples/recover/job.json" --set "hyperparameters.steps=$STEPS" --set hyperparameters.step-seconds="$1"; }
STEPS=60

job=$(submit 0.2)
calm=$(submit 0)
ok "a checkpoint has a verified copy" wait_until 120 saved "$job"
victim=$(show "$job" '.attempts[0].nodes[1]')
cluster_power_off "$victim"
hearth wait "$calm" --timeout 120 >/dev/null
is "$(show "$calm" .status)" completed "the undisturbed run completes"
like "$(final "$calm")" '^[0-9.]+$' "it has a loss"
hearth wait "$job" --timeout 120 >/dev/null
is "$(show "$job" .status)" completed "the job of the dead host completes"
is "$(final "$job")" "$(final "$calm")" "with the same loss"
is "$(show "$job" .attempt_count)" 2 "in two attempts"
from=$(show "$job" '.attempts[1].resumed_from_step')
ok "the second one begins with a checkpoint (step $from)" test "$from" -ge 10
is "$(steps "$job" 2)" "$(seq $((from + 1)) "$STEPS")" "it trains each step after it once"
like "$(show "$job" '.attempts[1].cause')" "node $victim was lost" "one sentence explains it"
cluster_clean
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
cluster_down
done_testing
