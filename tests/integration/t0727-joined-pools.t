#!/bin/bash
# A job that joins two warm pools: it finds the folder of each, gives them back as one, and says which nodes were warm.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --nodes 3 --fake-gpus 1 || bail "no local cluster: $ERR"

state() { "${jobctl:?}" pool show "$1" --json | jq -r .state; }
prints() { [ "$("${@:2}" 2>/dev/null)" = "$1" ]; }

# Each rank counts the runs in the folder of its node.
cat >job.json <<'JSON'
{"name": "one", "command": ["sh", "-c", "echo run >>$HEARTH_WARM_CACHE/runs; wc -l <$HEARTH_WARM_CACHE/runs; sleep 0.3"],
 "launcher": "direct", "retry": {"max_attempts": 0}, "resources": {"gpus_per_instance": 1, "ranks_per_instance": 1},
 "warm_pool": {"keep_alive_s": 600}}
JSON
a=$("$jobctl" submit job.json) b=$("$jobctl" submit job.json --name two)
"$jobctl" wait "$a" "$b" >/dev/null
ok "two jobs leave a pool each" wait_until 20 prints available state one
ok "on two nodes" wait_until 20 prints available state two
run submit job.json --set resources.instances=3 --dry-run
like "$OUT" "in warm pool [0-9]+ \\(level environment(: nodes differs)?\\) on node-[123], warm pool [0-9]+ on node-[123]; 1 node is cold" "a dry run names the nodes of both pools and counts the cold ones"
is "$("$jobctl" submit job.json --set resources.instances=3 --dry-run --json | jq -c '.pool | [(.nodes | length), (.others | length)]')" "[2,1]" "its JSON has all warm nodes"
run submit job.json --set resources.instances=3 --name big --wait
big=$OUT
counts() { for r in 0 1 2; do "$jobctl" logs "$1" --rank $r 2>/dev/null; done | sort | paste -sd' '; }
is "$(counts "$big")" "1 2 2" "a job on both pools finds the folder of each"
rc 0 "warm: pool [0-9]+, level environment, on node-[123]; pool [0-9]+ on node-[123]; 1 node is cold" "show says which nodes were warm" show "$big"
ok "it gives them back as one pool" wait_until 20 prints available state big
is "$("$jobctl" pool ls --json | jq -c '[.pools[] | [.name, (.nodes | length)]]')" '[["big",3]]' "no other one is left"
run submit job.json --set resources.instances=3 --name again --wait
is "$(counts "$OUT")" "2 3 3" "the next job has the folders of all three nodes"
unlike "$("$jobctl" show "$OUT")" "cold" "no node is cold then"
done_testing
