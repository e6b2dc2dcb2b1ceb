#!/bin/bash
# Instance types and what jobs cost, on real processes.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 || bail "no cluster"
cluster_hearthd || bail "no hearthd"
cluster_agent host1 --slots 4 --fake-gpus 4 --instance-type ml.p4d.24xlarge || bail "no agent"
cluster_agent host2 --slots 4 --fake-gpus 4 --instance-type cabin --price 3.6 || bail "no agent"
for host in $CLUSTER_HOSTS; do wait_until 30 cluster_node_up "$host" || bail "$host is not up"; done

submit() { # NAME SHELL-COMMAND MEMBERS [OPTIONS...]
	jq -n --arg n "$1" --arg c "$2" --argjson m "{$3}" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", retry: {max_attempts: 0}} + $m' >"$CLUSTER/$1.json"
	hearth submit "${@:4}" "$CLUSTER/$1.json" 2>"$CLUSTER/said"
}
show() { hearth show "$1" --json | jq -r "$2"; }
status_is() { [ "$(show "$1" .status)" = "$2" ]; }
price() { hearth nodes --json | jq --arg n "$1" '.nodes[] | select(.name == $n) | .price_per_hour'; }
typed() { echo '"resources": {"instance_type": '"$1"', "gpus_per_instance": '"${2:-1}"', "ranks_per_instance": 1}'; }
reborn() { # hearthd is killed and starts again
	cluster_signal hearthd KILL
	wait_until 30 cluster_gone hearthd
	cluster_hearthd
	for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
}

# --- instance types ---------------------------------------------------------------------------------------------
like "$(hearth instances 2>/dev/null | tr '\n' ' ')" "cabin +1 .*p4d.24xlarge +1 +8 +A100 +40GB" "instances lists the types of the nodes"
like "$(hearth instances 2>&1)" "more types are known: jobctl instances --all" "and says that there are more"
is "$(hearth instances ml.g5.12xlarge --json | jq -c '[.name, .family, .size, .gpus, .gpu_model, .nvlink, .price_per_hour]')" '["g5.12xlarge","g5","12xlarge",4,"A10G",false,null]' "one type"
nok "a type that there is not" hearth instances ml.g5.13xlarge
like "$(hearth instances ml.g5.13xlarge 2>&1)" 'did you mean "g5.1' "with the nearest"
is "$(price host1)" 0 "no price is shipped"
ok "a price is set" hearth instances set ml.p4d.24xlarge price_per_hour=7.2
is "$(price host1)" 7.2 "a node without one takes its type's"
is "$(price host2)" 3.6 "one that has one keeps it"
nok "a fact that there is not is refused" hearth instances set cabin gpuz=4
like "$(hearth instances set cabin gpuz=4 2>&1)" '"gpus"' "with the nearest"
nok "an unknown type is refused at submit" submit wrong "exit 0" "$(typed '"ml.p4d.24xlrge"')"
like "$(cat "$CLUSTER/said")" 'did you mean "p4d.24xlarge"' "with the nearest"
nok "one that no node is of, too" submit none "exit 0" "$(typed '["ml.p5.48xlarge"]')"
like "$(cat "$CLUSTER/said")" "types of this cluster: .*cabin" "with those that there are"
a=$(submit a "sleep 600" "$(typed '["ml.p4d.24xlarge", "cabin"]' 4)")
wait_until 60 status_is "$a" running
b=$(submit b "sleep 600" "$(typed '["ml.p4d.24xlarge", "cabin"]' 3)")
wait_until 60 status_is "$b" running
is "$(show "$a" '.attempts[0].nodes[0]') $(show "$b" '.attempts[0].nodes[0]')" "host1 host2" "the list is tried in order"
c=$(submit c "exit 0" "$(typed '"ml.p4d.24xlarge"')")
like "$(hearth why "$c")" "host1: 0 of 4 GPUs free" "a job of one type waits for it"
ok "own machines stand in" hearth instances set cabin as=ml.p4d.24xlarge
ok "and the waiting job runs there at once" hearth wait "$c" --timeout 60
is "$(show "$c" '.attempts[0].nodes[0]')" host2 "on that node"
reborn
is "$(hearth instances --json | jq -c '[.instances[] | select(.set) | [.name, .price_per_hour, .as]]')" '[["cabin",null,["ml.p4d.24xlarge"]],["p4d.24xlarge",7.2,[]]]' "hearthd was killed: what was set is there"
is "$(price host1)" 7.2 "and counts"
ok "it is taken back" hearth instances rm cabin
nok "and cannot be used any more" submit late "exit 0" "$(typed '"ml.p5.48xlarge"')"
g=$(submit g "exit 0" "$(typed '"cabin"' 3)")
is "$(hearth why "$g" --json | jq -c '[.change.key, .change.value]')" '["resources.gpus_per_instance",1]' "why names the cheapest change"
like "$(hearth why "$g")" "it would fit now with resources.gpus_per_instance=1" "in words, too"
like "$(submit dry "exit 0" "$(typed '"cabin"' 2)" --dry-run)" "it would fit now with resources.gpus_per_instance=1" "and so does a dry run"
nok "more than a node has is refused" submit much "exit 0" "$(typed '"any"' 6)"
like "$(cat "$CLUSTER/said")" "it would be possible with resources.gpus_per_instance=4" "with what would be possible"
like "$(COLUMNS=80 hearth ls | grep "^ *$g ")" "needs 3 GPUs" "ls says in a few words why a job waits"
like "$(hearth show "$g")" "reason +.*needs 3 GPUs" "and so does show"
is "$(hearth show 4711 --json 2>&1 >/dev/null | jq -c '[.error.code, .error.exit_code]')" '["not found",3]' "errors under --json are JSON"
is "$(hearth --json shwo 4711 2>&1 >/dev/null | jq -r .error.exit_code) $(hearth show --jsn --json 2>&1 >/dev/null | jq -r .error.exit_code)" "2 2" "of words that are wrong, too"
is "$(submit quick "exit 3" "" --wait --json | jq -s -c '[length, (.[0].id | type), .[1].status, .[1].exit_code]')" '[2,"number","failed",3]' "submit --wait --json prints the end, too"
hearth stop "$g" >/dev/null
hearth stop "$a" "$b" --grace 1 >/dev/null
hearth wait "$a" "$b" --timeout 60 >/dev/null

# --- what jobs cost ---------------------------------------------------------------------------------------------
# host1 costs $7.20 an hour, so a GPU of it 0.05 cents a second; a limit of one cent is some seconds of four GPUs.
four='"instance_type": "ml.p4d.24xlarge", "gpus_per_instance": 4, "ranks_per_instance": 1'
like "$(submit dry "exit 0" '"limits": {"max_runtime_s": 3600}, "resources": {'"$four"'}' --dry-run)" 'it would start now on host1; \$7.20 an hour, at most \$7.20' "a dry run says the price"
is "$(submit dry "exit 0" '"limits": {"max_runtime_s": 3600, "max_cost_usd": 2}, "resources": {'"$four"'}' --dry-run --json | jq -c '[.price_per_hour_usd, .max_price_usd]')" '[7.2,2]' "the limit of the cost bounds it"
many='"array": 12, "limits": {"max_runtime_s": 1800}, "resources": {"instance_type": "ml.p4d.24xlarge", "gpus_per_instance": 4, "ranks_per_instance": 1}'
out=$(submit dry "exit 0" "$many" --dry-run)
like "$out" '\$7.20 an hour each, at most \$3.60; all 12: at most \$43.20' "a dry run of an array says the price of a member and of all"
is "$(grep -c '7\.20' <<<"$out")" 1 "once"
is "$(submit dry "exit 0" "$many" --dry-run --json | jq -c '[.members, .max_price_usd, .members_max_price_usd]')" '[12,3.6,43.2]' "in JSON, too"
pair=$(submit pair "exit 0" '"array": 2, "resources": {"instance_type": "ml.p4d.24xlarge", "gpus_per_instance": 1, "ranks_per_instance": 1}')
hearth wait "$pair" --timeout 60 >/dev/null
is "$(hearth cost "$pair" --json | jq -c '[.rows[] | [.name, .job]] | sort')" "[[\"$pair.0\",$((pair + 1))],[\"$pair.1\",$((pair + 2))]]" "what members cost is told by their names"
is "$(hearth cost "$pair" | awk '$1 ~ /^[0-9]+\.[0-9]+$/ && $2 > 0' | wc -l)" 2 "and however little it was, it is no 0.00"
d=$(submit dear "trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.1; done" '"limits": {"max_cost_usd": 0.01}, "resources": {'"$four"'}')
hearth wait "$d" --timeout 120 >/dev/null
is "$(show "$d" '[.status, .attempts[0].class, .reason] | join("; ")')" "failed; cost; cost limit of \$0.01 reached (limits.max_cost_usd)" "a job that has cost all that it may ends, with that reason"
like "$(hearth logs "$d")" told "by the usual stop, with grace"
ok "it cost about that" jq -en --argjson c "$(show "$d" .cost_usd)" '$c >= 0.01 and $c < 0.2'
like "$(hearth show "$d")" 'cost +\$0\.[0-9]+; at most \$0.01' "show says what it cost"
is "$(hearth cost "$d" --json | jq -c '[.by, (.rows | length), .rows[0].name, .rows[0].attempts]')" '["job",1,"'"$d"'",1]' "cost of one job"
like "$(hearth cost --by user --from 1d | tr '\n' ' ')" 'USER +USD.*total \$' "by user, of a day"
hearth queue set moon >/dev/null
like "$(hearth cost --queue moon)" "Nothing was spent" "of a queue that spent nothing"
nok "a time that is none" hearth cost --from yesterday

# --- budgets ----------------------------------------------------------------------------------------------------
like "$(hearth budget ls)" "No budget is set" "budget ls says how one is set"
hearth queue set lab >/dev/null
e=$(submit e "sleep 600" '"queue": "lab", "resources": {'"$four"'}')
wait_until 60 status_is "$e" running
ok "a budget is set" hearth budget set lab usd=0.01 period=day
used_up() { hearth budget ls --json | jq -e '.budgets[0].used_up' >/dev/null; }
ok "what runs uses it up" wait_until 120 used_up
f=$(submit f "exit 0" '"queue": "lab"')
like "$(hearth why "$f")" "the budget of lab is used up: .*jobctl budget set lab" "nothing more is started, and why says so"
is "$(show "$f" .status) $(show "$e" .status)" "queued running" "what runs goes on"
reborn
used_up
is "$?" 0 "hearthd was killed: it is used up"
is "$(show "$f" .status)" queued "and the job waits"
ok "it is raised" hearth budget set lab usd=100
ok "and the job goes" hearth wait "$f" --timeout 60
hearth stop "$e" --grace 1 >/dev/null
hearth wait "$e" --timeout 60 >/dev/null
ok "the budget is taken off" hearth budget rm lab
nok "once" hearth budget rm lab
like "$(hearth budget set lab usd=100 action=end)" "when it is used up, running jobs end" "a budget can end what runs"
like "$(hearth budget ls)" "lab .* end +open" "budget ls says so"
nok "or do nothing else" hearth budget set lab action=explode
h=$(submit h "trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.1; done" '"queue": "lab", "resources": {'"$four"'}')
wait_until 60 status_is "$h" running
begun() { hearth logs "$1" | grep -q begun; }
wait_until 60 begun "$h"
like "$(hearth budget set lab usd=0.01)" "no more jobs start, running jobs end" "it is lowered below what was spent"
hearth wait "$h" --timeout 60 >/dev/null
like "$(show "$h" '[.status, .attempts[0].class, .reason] | join("; ")')" "failed; cost; the budget of lab is used up: .*ends what runs" "what runs ends, with that reason"
like "$(hearth logs "$h")" told "by the usual stop, with grace"
hearth budget rm lab >/dev/null
changes=$(python3 -c 'import sqlite3, sys
for row in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute("SELECT type, data FROM event WHERE job = 0 AND type GLOB \"budget_*\" ORDER BY id"): print(*row)' "$CLUSTER/head/data/hearth.db")
is "$(cut -d' ' -f1 <<<"$changes" | tr '\n' ' ')" "budget_set budget_used_up budget_set budget_open budget_removed budget_set budget_set budget_used_up budget_removed " "each of it is an event"

cluster_clean
cluster_down
done_testing
