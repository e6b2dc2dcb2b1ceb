#!/bin/bash
# Two users on one node. The first one's metric pattern would search each of its lines for minutes: the second one's job is not touched by it, no node falls silent,
# and the events of the first job name the pattern.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 4 --min-uid 1 || bail "no cluster"
spec() { # NAME PROGRAM METRICS
	jq -n --arg n "$1" --arg c "$2" --argjson m "$3" '{name: $n, command: ["/usr/bin/python3", "-c", $c], launcher: "direct", limits: {max_runtime_s: 300, grace_s: 1}, metrics: $m}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }

evil='[{"name": "evil", "regex": "a{0,300}a{0,300}([bc])"}, {"name": "fine", "regex": "fine=([0-9]+)"}]'
spec evil $'import time\nend = time.time() + 12\nwhile time.time() < end:\n    print("a" * 65536, flush=True)\n    print("fine=1", flush=True)\n    time.sleep(0.02)' "$evil"
spec neighbour $'import time\nfor i in range(80):\n    print("loss=%d" % i, flush=True)\n    time.sleep(0.1)' '[{"name": "loss", "regex": "loss=([0-9]+)"}]'
evil_id=$(cluster_as daemon submit "$CLUSTER/evil.json")
hearth wait "$evil_id" --for running --timeout 20 >/dev/null
began=$SECONDS
id=$(cluster_as nobody submit "$CLUSTER/neighbour.json")
hearth wait "$id" --timeout 60 >/dev/null
took=$((SECONDS - began))
is "$(show "$id" '.status + " " + (.attempts | length | tostring)')" "completed 1" "the neighbour's job completes in one attempt"
[ "$took" -lt 30 ]
tap_result $? "and takes no longer for it ($took s for 8)"
is "$(hearth metrics "$id" --json | jq -c '.. | .loss? // empty | {count, last}' | head -1)" '{"count":80,"last":79}' "with each of its points"
like "$(hearth nodes --json | jq -r '.nodes[].state')" "^up$" "the node is up"
unlike "$(hearth events --json 2>/dev/null)" "node_silent|node_gone" "no node was silent"
hearth wait "$evil_id" --timeout 60 >/dev/null
is "$(show "$evil_id" '.status + " " + (.attempts | length | tostring)')" "completed 1" "the job with the pattern completes, too"
text=$(hearth events "$evil_id" --json | jq -r '.. | objects | select(.type? == "warning") | .data | .node + " " + .text')
is "$(grep -c . <<<"$text")" 1 "one event warns its owner" || diag "$(hearth events "$evil_id")"
like "$text" '^host1 rank 0: metric "evil" is no longer read: its pattern .a\{0,300\}a\{0,300\}\(\[bc\]\)' "and names node, rank, metric and pattern"
like "$text" 'hearth\.log\(\)' "with the next step"
like "$(hearth logs "$evil_id" --stream system --node 1)" 'metric "evil"' "the system stream has the sentence, too"
ok "the other pattern of that job goes on" eval '[ "$(hearth metrics "$evil_id" fine --json | grep -c .)" -ge 1 ]'
is "$(hearth logs "$evil_id" --rank 0 | tail -1)" "fine=1" "its log is whole"
cluster_down
done_testing
