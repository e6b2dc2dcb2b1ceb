#!/bin/bash
# A node that was removed: what is left of its launches goes, and the same folder joins again with a new token, and with nothing else.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=30s --set beat=250ms)
cluster_up 2 && cluster_hearth || bail "no cluster"

show() { hearth show "$1" --json | jq -r "$2"; }
state() { hearth nodes --json | jq -r --arg n "$1" '.nodes[] | select(.name == $n) | .state'; }
connected() { hearth nodes --json | jq -e --arg n "$1" --argjson c "$2" '.nodes[] | select(.name == $n and .connected == $c)' >/dev/null; }
agent() { # HOST ARGS...: as cluster_agent, but the test says which token
	cluster_spawn "$1" "agent-$1" "$AGENT" --controller https://10.77.0.200:7070 --data "$CLUSTER/$1/data" --name "$1" \
		--address "10.77.0.${1#host}" --interface eth0 --allow-root "${@:2}"
}
ranks_on() { cluster_in "$1" pgrep -cf 'sleep 6789' || :; }

printf '{"name": "long", "command": ["sleep", "6789"], "launcher": "direct", "resources": {"instances": 2}, "retry": {"capacity": 0}, "limits": {"grace_s": 1}}\n' >"$CLUSTER/long.json"
id=$(hearth submit "$CLUSTER/long.json")
wait_until 60 eval "[ \"\$(show $id .status)\" = running ]"
wait_until 30 eval '[ "$(ranks_on host2)" = 1 ]'
is "$(ranks_on host2)" 1 "a rank runs on host2"

# --- its agent dies, the node is removed, its ranks are still there --------------------------------------------------------
cluster_signal agent-host2 KILL
wait_until 30 connected host2 false
hearth node rm --yes host2 >/dev/null
is "$(state host2)" "" "the node is removed"
retired() { [ "$(cluster_in host1 bash -c 'cat /run/hearth/*/retired' | grep -Ec "^[0-9a-f]{32}$")" = "$1" ]; }
ok "the other agent hears that its certificate is void" wait_until 20 retired 1
is "$(ranks_on host2)" 1 "its rank runs on, out of sight"
before=$(sha256sum <"$CLUSTER/host2/data/agent.pem")

# --- started as it was ------------------------------------------------------------------------------------------------------
agent host2
wait_until 60 cluster_gone agent-host2
tap_result $? "the agent that is told of it ends" || :
like "$(cat "$CLUSTER/agent-host2.log")" "this node was removed from its cluster" "and says why"
wait_until 30 cluster_is_clean host2
is "$(cluster_left host2)" "" "nothing is left of the launch: no process, no folder, no mount"
like "$(cluster_in host2 timeout 30 "$AGENT" --controller https://10.77.0.200:7070 --data "$CLUSTER/host2/data" 2>&1)" "has not joined a cluster yet" "without a token it is no node any more"

# --- and with a new token ---------------------------------------------------------------------------------------------------
HEARTH_JOIN_TOKEN=$(hearth token create --join) agent host2
wait_until 60 cluster_node_up host2
is "$(state host2)" up "with a new token the same folder joins again"
[ "$(sha256sum <"$CLUSTER/host2/data/agent.pem")" != "$before" ]
tap_result $? "with a new certificate" || :
hearth stop "$id" >/dev/null
hearth wait "$id" --timeout 60 >/dev/null
printf '{"name": "two", "command": ["/bin/sh", "-c", "echo rank $RANK"], "launcher": "direct", "resources": {"instances": 2}}\n' >"$CLUSTER/two.json"
id=$(hearth submit "$CLUSTER/two.json")
hearth wait "$id" --timeout 60 >/dev/null
is "$(show "$id" .status)" completed "a job runs on both nodes"

# --- removed while it is away, and started with a new token at once ------------------------------------------------------------
printf '{"name": "one", "command": ["sleep", "6789"], "launcher": "direct", "resources": {"instances": 2}, "retry": {"capacity": 0}, "limits": {"grace_s": 1}}\n' >"$CLUSTER/one.json"
id=$(hearth submit "$CLUSTER/one.json")
wait_until 60 eval '[ "$(ranks_on host2)" = 1 ]'
cluster_signal agent-host2 KILL
wait_until 30 connected host2 false
hearth node rm --yes host2 >/dev/null
hearth token create --join | (umask 077; cat >"$CLUSTER/host2/join")
agent host2 --join-file "$CLUSTER/host2/join"
wait_until 60 cluster_node_up host2
is "$(state host2)" up "removed, and started with a new token: it is back"
is "$(ranks_on host2)" 0 "without the rank that it had"
id=$(hearth submit "$CLUSTER/two.json")
hearth wait "$id" --timeout 60 >/dev/null
is "$(show "$id" .status)" completed "and with work"
cluster_clean "at the end"
cluster_down
done_testing
