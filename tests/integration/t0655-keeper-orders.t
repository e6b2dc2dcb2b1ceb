#!/bin/bash
# Programs that save in the order of each framework are killed at a random instant, also while they save: hearthd restarts each from a checkpoint
# that is whole and of the step that it names, as the program itself checks. The unit test test_instants has thousands of instants.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 40 || bail "no cluster"
src=$CLUSTER/src seed=${HEARTH_SEED:-$RANDOM}
mkdir -p "$src" && cp "$HEARTH_TOP_SRCDIR/tests/programs/saver.py" "$src"
echo "# HEARTH_SEED=$seed"
# Those that count when they are quiet pause longer between two saves.
quiet='torch_save rank_files rank_overwrite hf_deepspeed hf_fsdp lightning_link lightning_folder lightning_v1 dcp_ranks two_files'
python=python3
/usr/bin/python3 -c 'import torch' 2>/dev/null && python=/usr/bin/python3 || { quiet=${quiet#* } && skip "torch.save" "needs torch for /usr/bin/python3"; }
declare -A jobs
for kind in $quiet megatron_dcp; do
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "exec %s saver.py %s --steps 100 --every 8 --pause 0.4 --seed %s --kill-after 6.5"], "source_dir": "%s", "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]}\n' \
		"$kind" "$python" "$kind" "$((seed++))" "$src" >"$CLUSTER/$kind.json"
	jobs[$kind]=$(hearth submit "$CLUSTER/$kind.json")
done
goes_on() { hearth logs "$1" --attempt 2 2>/dev/null | grep -q '^step='; }
for kind in "${!jobs[@]}"; do
	job=${jobs[$kind]}
	wait_until 60 goes_on "$job" || diag "$(hearth show "$job" | head -n 12)" "$(hearth logs "$job" --attempt 2 | tail -n 3)" "$(hearth checkpoints "$job")"
	step=$(hearth show "$job" --json | jq -r '.attempts[1].resumed_from_step // 0')
	is "$(hearth logs "$job" --attempt 2 | sed -n 's/^step=//p' | head -n 1)" $((step + 1)) "$kind: killed, it goes on after step $step"
	ok "$kind: that was not the beginning" test "$step" -gt 0
	[ "$kind" != lightning_link ] || like "$(hearth logs "$job" --attempt 2)" "last\\.ckpt" "$kind: the link last.ckpt is there again"
	[ "$kind" != rank_files ] || like "$(hearth logs "$job" --attempt 2)" "begins with .*rank0.pt.*rank1.pt" "$kind: the files of both ranks are there"
	[ "$kind" != two_files ] || like "$(hearth logs "$job" --attempt 2)" "begins with .*model_$step.pt.*optim_$step.pt" "$kind: both files of the step are there"
	hearth stop "$job" >/dev/null
done
done_testing
