#!/bin/bash
# The life of warm pools: costs over a restart of hearthd and after the end, limits of a queue, why they ended.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --nodes 2 --fake-gpus 2 || bail "no local cluster: $ERR"

pool() { "${jobctl:?}" pool show "$1" --json | jq -r "$2"; }
pid_of() { cut -d" " -f2 "$HOME/.local/share/hearth/local/run/$1"; }
prints() { [ "$("${@:2}" 2>/dev/null)" = "$1" ]; }
left_by() { "$jobctl" show "$1" --json | jq -r .warm_pool.pool; }

cat >job.json <<'JSON'
{"name": "one", "command": ["true"], "launcher": "direct", "retry": {"max_attempts": 0},
 "resources": {"gpus_per_instance": 1, "ranks_per_instance": 1}, "warm_pool": {"keep_alive_s": 600}}
JSON

# --- costs ------------------------------------------------------------------------------------------------------
"$jobctl" submit job.json --wait 2>/dev/null >&2
first=$(left_by last)
ok "a job left a pool" wait_until 20 prints available pool "$first" .state
is "$(pool "$first" .idle_usd)" null "a pool on nodes without a price has no costs"
"$jobctl" instances set local price_per_hour=3600 >/dev/null
costs() { [ "$(pool "$first" '.idle_usd > 0')" = true ]; }
ok "a price that is set while a pool waits counts" wait_until 20 costs
before=$(pool "$first" .idle_usd)
"$jobctl" submit job.json --name two --wait 2>/dev/null >&2
ok "the next job gives the pool back" wait_until 20 prints available pool "$first" .state
is "$(jq -n "$(pool "$first" .idle_usd) >= $before")" true "its job keeps the costs of a pool"
is "$(pool two .id)" "$first" "pool show finds the pool by the name of its last job"
rc 3 "unknown pool" "and no longer by that of the first one" pool show one
rc 0 '^total \$[0-9.]+: \$[0-9.]+ of jobs and \$[0-9.]+ of idle warm pools$' "cost adds up jobs and idle pools" cost
rc 2 "^jobctl: --for 100h: expected 1 to 21600 seconds" "keep names --for and the bound" pool keep two --for 100h
"$jobctl" pool keep two --for 1 >/dev/null
rc 0 "keep-alive +until .* \\(kept by [^)]+\\)" "pool show says who set the time" pool show two
ok "the pool expires" wait_until 20 prints expired pool "$first" .cause
is "$(pool "$first" ".idle_usd >= $before")" true "an expired pool has its costs"
amount=$(pool "$first" .idle_usd)
rc 0 "pool $first ended after [^:]+: no job of its owner came within 1s" "show of the job says why its pool ended" show last
rc 0 "pool_taken" "events of the first job have what another job took" events one
like "$OUT" "pool_made" "and the pool that it left"
rc 0 "pool_ended" "events of the last job have the end" events last

# --- a pool in use ----------------------------------------------------------------------------------------------
"$jobctl" submit job.json --wait 2>/dev/null >&2
third=$(left_by last)
ok "a third pool" wait_until 20 prints available pool "$third" .state
jq '.command = ["sleep", "60"]' job.json >long.json
long=$("$jobctl" submit long.json)
status() { "$jobctl" show "$1" --json | jq -r .status; }
ok "a job uses it" wait_until 20 prints in_use pool "$third" .state
ok "and runs: a job that is stopped before leaves none" wait_until 20 prints running status "$long"
rc 4 "in use by job $long.*jobctl wait $long; jobctl pool drop $third" "drop of a pool in use is refused, with the next step" pool drop "$third"
"$jobctl" stop "$long" >/dev/null
ok "the job gives it back" wait_until 20 prints available pool "$third" .state

# --- limits of a queue ------------------------------------------------------------------------------------------
rc 0 "at most 1 idle warm nodes" "quota set warm_nodes" quota set default warm_nodes=1
rc 0 "default .* 1/1\$" "quota ls has the limit and what is idle" quota ls
jq '.resources.gpus_per_instance = 2 | .name = "wide"' job.json >wide.json
"$jobctl" pool drop "$third" >/dev/null
a=$("$jobctl" submit wide.json) b=$("$jobctl" submit wide.json)
"$jobctl" wait "$a" "$b" >/dev/null 2>&1
limited() { [ "$("$jobctl" pool ls --state terminated --json | jq -r '.pools | map(.cause) | index("limit") != null')" = true ]; }
ok "the second of two pools ends the older one" wait_until 20 limited
is "$("$jobctl" pool ls --json | jq '.pools | length')" 1 "one is left"
rc 0 "queue default keeps at most 1 idle node warm" "pool ls --all says why" pool ls --all

# --- hearthd again ----------------------------------------------------------------------------------------------
kill -KILL "$(pid_of hearthd)"
"$jobctl" local up >/dev/null 2>&1
is "$(pool "$first" .idle_usd)" "$amount" "hearthd restart: an ended pool has its costs"
is "$("$jobctl" queue ls --json | jq '.queues[] | select(.name == "default") | .quota_warm_nodes')" 1 "and the queue its limit"
done_testing
