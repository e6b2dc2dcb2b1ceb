#!/bin/bash
# Which copies of checkpoints stay in a folder: the last verified ones (keep_last), pinned ones, and one that an attempt begins with; after the end of
# the job the last ones and pinned ones, and nothing else. Nothing is left on the node.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 20 || bail "no cluster"
src=$CLUSTER/src copies=$CLUSTER/copies
mkdir -p "$src" "$copies" && cp "$HEARTH_TOP_SRCDIR/tests/programs/saver.py" "$src"
# No rollback needs an older checkpoint: on a busy machine the job gets beyond the usual margin.
submit() { # NAME ARGUMENTS: a job of the saver; its id
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "exec python3 saver.py %s"], "source_dir": "%s", "checkpoint": {"uri": "file://%s", "keep_last": 2}, "watch": {"margin_steps": 100000}, "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]}\n' \
		"$1" "$2" "$src" "$copies" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
listed() { hearth checkpoints "$1" --json | jq -c "[.checkpoints[] | select(all(.places[]; .state == \"verified\")) | .step] | unique"; }
newest() { listed "$1" | jq 'max // 0'; }
saved() { [ "$(newest "$1")" -ge "$2" ]; }
kept() { find "$copies/$1/kept" -name '*.manifest' ! -name '.*' -exec sed -n 's/^step //p' {} + 2>/dev/null | sort -n | jq -cs unique; }
folders() { find "$copies/$1/kept" -mindepth 1 -maxdepth 1 ! -name '*.manifest' 2>/dev/null | wc -l; }
settled() { [ "$(kept "$1")" = "$2" ]; }
has_folders() { [ "$(folders "$1")" = "$2" ]; } # a removal takes the manifest first

done_job=$(submit whole 'rename --steps 24 --every 2 --pause 0.3')
job=$(submit long 'hearth --steps 1000 --every 4 --pause 0.3')
ok "two checkpoints are verified" wait_until 40 saved "$job" 4
pinned=$(newest "$job")
hearth checkpoints "$job" --pin "$pinned" >/dev/null
ok "newer ones come" wait_until 40 saved "$job" $((pinned + 10))
list=$(listed "$job")
is "$(jq -c '[.[0], length]' <<<"$list")" "[$pinned,3]" "the pinned one and the last two stay ($list)"
from=$(newest "$job")
hearth requeue "$job" --from "$from" >/dev/null
ok "an attempt begins with the last one" wait_until 40 eval '[ "$(show "$job" ".attempts[1].resumed_from_step")" = "$from" ]'
ok "it saves" wait_until 40 saved "$job" $((from + 10))
like "$(hearth checkpoints "$job" --json | jq -r --argjson s "$from" '.checkpoints[] | select(.step == $s and .attempt == 1) | .places[].state' | sort -u | paste -sd' ')" '^verified$' "what it began with stays while it runs" || hearth checkpoints "$job"
hearth stop "$job" >/dev/null
ok "the job stops" wait_until 40 eval '[ "$(show "$job" .status)" = stopped ]'
list=$(listed "$job")
is "$(jq -c '[.[0], length]' <<<"$list")" "[$pinned,3]" "after its end the pinned one and the last two stay ($list)"
ok "and their copies" wait_until 20 settled "$job" "$list"
ok "and no other folder" wait_until 20 has_folders "$job" 3
is "$(hearth wait "$done_job" --timeout 60 >/dev/null; show "$done_job" .status)" completed "another job completes"
list=$(listed "$done_job")
is "$(jq -c '[.[-1], length]' <<<"$list")" "[24,2]" "its last two checkpoints stay ($list)"
ok "and their copies, too" wait_until 20 settled "$done_job" "$list"
ok "and no other folder" wait_until 20 has_folders "$done_job" 2
ok "the node holds nothing of it" wait_until 20 test ! -e "$CLUSTER/host1/data/held/$done_job.1"
ok "get fetches a step of an ended job" hearth get "$done_job" checkpoint --step 24 "$CLUSTER/got"
done_testing
