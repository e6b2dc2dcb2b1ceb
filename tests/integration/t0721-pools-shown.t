#!/bin/bash
# Warm pools as users see them: edit and run again; pool ls, show, keep and drop; nodes, top, why, dry run.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --nodes 2 --fake-gpus 2 || bail "no local cluster: $ERR"

field() { "$jobctl" show "$1" --json | jq -r "$2"; }
pool() { "$jobctl" pool show "$1" --json | jq -r "$2"; }
# prints WANT COMMAND...: the command prints that
prints() { [ "$("${@:2}" 2>/dev/null)" = "$1" ]; }

rc 0 '^No pool is warm\. .*"keep_alive_s": 1800' "pools: an empty list says how to get one" pools
rc 0 '^No such pool' "pool ls --state terminated without any says so" pool ls --state terminated
rc 3 'unknown pool "nothing"' "pool show of an unknown pool: exit code 3" pool show nothing

mkdir src
echo 'cat word.txt' >src/main.sh
echo one >src/word.txt
cat >job.json <<'JSON'
{"name": "edit", "command": ["/bin/sh", "main.sh"], "launcher": "direct", "source_dir": "src", "retry": {"max_attempts": 0},
 "resources": {"instances": 2, "gpus_per_instance": 1, "ranks_per_instance": 1}, "warm_pool": {"keep_alive_s": 1800}}
JSON

# --- a pool is made and listed ----------------------------------------------------------------------------------
run submit job.json --wait
first=$OUT
is "$RC" 0 "the first job completed"
newest() { "$jobctl" pool ls --state all --json | jq -rc ".pools | max_by(.id) | $1"; }
ok "the job left a pool" wait_until 20 prints available newest .state
id=$(newest .id)
rc 3 "^$id is a warm pool: jobctl pool show $id\$" "events of its number says what that is" events "$id"
rc 0 "^ *$id  edit .* available +2 +2 +$first +- " "pool ls has the pool" pool ls
like "$OUT" "(29m|30m)\$" "pool ls has the time that is left"
is "$("$jobctl" pool ls --json | jq -c '.pools[0] | [.id, .state, .made_by, (.nodes | length), (.expires_at != null)]')" "[$id,\"available\",$first,2,true]" "pool ls --json"
rc 0 "^source +[0-9a-f]{64}" "pool show has the environment" pool show edit
like "$OUT" "^node-1 +available" "pool show has the nodes"
rc 0 "^warm pool +pool $id waits for the next job" "show has the pool that the job left" show "$first"
rc 0 "node-2 .*  $id [^ ]+ (29m|30m)( parked)?  " "nodes has pool, owner and time left" nodes
is "$("$jobctl" nodes --json | jq -c '[.nodes[].pools[] | [.pool, .state]]')" "[[$id,\"available\"],[$id,\"available\"]]" "nodes --json has the pools"
rc 0 "Warm 2 idle nodes, 2 GPUs in pools" "top counts idle warm nodes and GPUs" top --once
is "$("$jobctl" top --json | jq -c '.nodes | [.warm_nodes, .warm_gpus, .gpus_used]')" "[2,2,0]" "top --json; a pool uses no GPU"

# --- edit and run again -----------------------------------------------------------------------------------------
ok "the pool is parked" wait_until 20 prints parked pool "$id" .parked.state
rc 0 "^launcher +direct" "pool show has the launcher" pool show "$id"
like "$OUT" "the next job of this kind starts at level launch\$" "and at which level the next job starts"
rc 0 " launch +(29m|30m)\$" "pool ls says that it is parked" pool ls
rc 0 "node-2 .*  $id [^ ]+ (29m|30m) parked  " "nodes does" nodes
rc 0 "Warm 2 idle nodes, 2 GPUs in pools; 2 of the nodes parked" "top does" top --once
run submit --again --dry-run
like "$OUT" "it would start now on node-[12], node-[12] in warm pool $id \\(level launch\\)" "a dry run names the pool and the level"
echo two >src/word.txt
# mpirun and its daemons read this variable when they start, so what is parked does not fit.
jq '.environment.LD_LIBRARY_PATH = "/nowhere"' job.json >job2.json && mv job2.json job.json
run submit --again --dry-run
like "$OUT" "in warm pool $id \\(level node: source differs\\)" "a dry run names the first field that differs"
is "$("$jobctl" submit --again --dry-run --json | jq -c '[.pool.id, .pool.level, .pool.missed.field, .again.pool]')" "[$id,\"node\",\"source\",$id]" "a dry run --json has pool, level and what missed"
run submit --again --wait
second=$OUT
like "$ERR" "changed  word.txt" "again prints the file that changed"
like "$ERR" "Job $second uses warm pool $id \\(level node: source differs\\)" "again names the pool that the job uses"
is "$("$jobctl" logs "$second" | sort -u)" two "the second job has the edited file"
is "$(field "$second" '.attempts[0].pool | [.id, .level, .missed.field] | @csv')" "$id,\"node\",\"source\"" "show --json has pool, level and what missed"
rc 0 "warm: pool $id, level node; source differs \\(pool: [0-9a-f]{12}, job: [0-9a-f]{12}\\)" "show says what did not match" show "$second"
rc 0 "^warm pool +job $second took pool $id after " "show of the first job says who took its pool" show "$first"
ok "the job gives the pool back" wait_until 20 prints available pool "$id" .state
ok "the pool is parked again" wait_until 20 prints parked pool "$id" .parked.state
echo three >src/word.txt
run submit --again --wait
is "$(field "$OUT" '.attempts[0].pool | [.id, .level, .missed] | @csv')" "$id,\"launch\"," "another source: level launch"
is "$("$jobctl" logs "$OUT" | sort -u)" three "with the edited file"
rc 0 "^warm pool +pool $id waits" "the third job gave the pool back" show last

# --- a job that runs and one that waits -------------------------------------------------------------------------
ok "the pool waits again" wait_until 20 prints available pool "$id" .state
jq '.command = ["sleep", "60"] | .name = "long"' job.json >long.json
long=$("$jobctl" submit long.json)
ok "a job runs in the pool" wait_until 20 prints in_use pool "$id" .state
run submit --again job.json --dry-run
like "$ERR" "Warm pool $id is in use by job $long, and no other one matches" "again says that the pool is in use"
rc 0 "it uses warm pool $id" "why of a running job names its pool" why "$long"
rc 0 "^warm pool +uses pool $id, and gives it back" "show of a running job" show "$long"
rc 0 " $id [^ ]+ in use  " "nodes shows that the pool is in use" nodes
rc 4 "in use by job $long" "keep of a pool in use is refused" pool keep "$id" --for 2h
"$jobctl" stop "$long" >/dev/null
ok "a stopped job gives its pool back" wait_until 20 prints available pool "$id" .state

# --- keep and drop ----------------------------------------------------------------------------------------------
rc 0 "^pool $id expires at 20" "keep" pool keep "$id" --for 1h
is "$(pool "$id" .keep_alive_s)" 3600 "keep sets the time"
rc 2 "--for 2d: expected 1 to .* warm_keep_alive_max" "keep for longer than the cluster allows is refused" pool keep "$id" --for 2d
rc 3 "nothing on node" "drop of another node is refused" pool drop "$id" node-9
rc 0 "^pool $id has 1 node left" "drop of one node" pool drop "$id" node-2
is "$("$jobctl" nodes --json | jq -c '[.nodes[] | select(.pools != []) | .name]')" '["node-1"]' "the other node stays warm"
rc 0 "^pool $id has ended" "drop" pool drop "$id"
rc 0 "^No pool is warm" "a pool that ended is not listed" pools
rc 0 "$id .* terminated .* dropped by [^ ]+\$" "pool ls --all has it, with the cause" pool ls --all
rc 4 "has ended" "a pool that ended cannot be kept" pool keep "$id" --for 1h
is "$(field last .warm_pool.status)" terminated "the last job's pool has ended"

# --- expiry -----------------------------------------------------------------------------------------------------
jq '.warm_pool.keep_alive_s = 1' job.json >short.json
short=$("$jobctl" submit short.json --wait 2>/dev/null)
ok "a pool expires" wait_until 20 prints "[$short,\"expired\"]" newest '[.made_by, .cause]'

# --- the folder that stays --------------------------------------------------------------------------------------
jq '.command = ["sh", "-c", "cat $HEARTH_WARM_CACHE/x; echo kept >> $HEARTH_WARM_CACHE/x"]
	| .name = "cache"' job.json >cache.json
"$jobctl" submit cache.json --wait 2>/dev/null >&2
ok "a job leaves a pool with a cache folder" wait_until 20 prints available newest .state
run submit --again cache.json --wait
is "$("$jobctl" logs "$OUT" 2>/dev/null | grep -c kept)" 1 "the next job finds what the first one kept"
ok "the pool waits again" wait_until 20 prints available newest .state
"$jobctl" pool drop cache >/dev/null

# --- what idle time costs ---------------------------------------------------------------------------------------
"$jobctl" instances set local price_per_hour=3600 >/dev/null
"$jobctl" submit job.json --wait 2>/dev/null
costs() { "$jobctl" cost --json | jq '.rows[0].idle_usd > 0 and .total_idle_usd == .rows[0].idle_usd'; }
ok "an idle pool on nodes with a price costs" wait_until 20 prints true costs
rc 0 "IDLE USD\$" "cost has a column of it" cost
rc 0 "^idle cost +\\$" "pool show has the cost, too" pool show edit
ok "the pool is parked" wait_until 20 prints parked pool edit .parked.state
id=$(pool edit .id)
run local down
like "$OUT$ERR" "process(es)? of warm pool $id \\(edit\\) on node-1" "local down says that it ended what the pool held ready"
done_testing
