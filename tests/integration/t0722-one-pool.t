#!/bin/bash
# A job that names a warm pool waits for it over a kill of hearthd, and uses it; a short job does not end a pool; a dry run names the node that the
# job gets.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set lease=3s --set beat=250ms)
cluster_up 2 && cluster_hearth --slots 2 --fake-gpus 2 --min-uid 1 || bail "no cluster"

spec() { # NAME SHELL-COMMAND GPUS WARM_POOL
	jq -n --arg n "$1" --arg c "$2" --argjson g "$3" --argjson w "$4" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", resources: {gpus_per_instance: $g, ranks_per_instance: 1}, retry: {max_attempts: 0}, warm_pool: $w}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
}
submit() { cluster_as daemon submit "$CLUSTER/$1.json" "${@:2}" 2>>"$CLUSTER/said"; }
show() { hearth show "$1" --json | jq -r "$2"; }
api() { cluster_in head curl -s --unix-socket "$CLUSTER/head/data/hearthd.sock" "${@:2}" "http://h/api/v1$1"; }
node_of() { show "$1" '.attempts[0].nodes[0]'; }

spec train 'exit 0' 2 '{"keep_alive_s": 300}'
spec long 'sleep 300' 2 '{"keep_alive_s": 300}'
spec next 'exit 0' 2 '{"keep_alive_s": 300, "pool": "long"}'
spec short 'exit 0' 0 '{}'
jq '.inputs = {d: {uri: "file:///etc/hostname"}}' "$CLUSTER/short.json" >"$CLUSTER/n.json" && cat "$CLUSTER/n.json" >"$CLUSTER/short.json" # another environment
spec wide 'exit 0' 1 '{"pool": "nobody"}'

one=$(submit train)
hearth wait "$one" --timeout 60 >/dev/null
id=$(api /pools | jq -r '.pools[0].id')
tiny=$(submit short)
hearth wait "$tiny" --timeout 60 >/dev/null
is "$(show "$tiny" '.attempts[0].pool')" null "a short job without a keep-alive time uses no pool"
is "$(api "/pools/$id" | jq -r .state)" available "and ends none"
said=$(submit train --dry-run --json)
two=$(submit long)
is "$(node_of "$two")" "$(jq -r '.expected_nodes[0]' <<<"$said")" "a job gets the node that a dry run named"
is "$(show "$two" '.attempts[0].pool.id')" "$id" "in the pool"
name=$(api "/pools/$id" | jq -r .name)
jq --arg p "$name" '.warm_pool.pool = $p' "$CLUSTER/next.json" >"$CLUSTER/n.json" && cat "$CLUSTER/n.json" >"$CLUSTER/next.json"
three=$(submit next)
like "$(hearth why "$three")" "waits for warm pool $id: .*job $two uses it" "a job that names the pool waits, though a node is free"
cluster_signal hearthd KILL
wait_until 30 cluster_gone hearthd
cluster_hearthd
for host in $CLUSTER_HOSTS; do wait_until 60 cluster_node_up "$host"; done
is "$(show "$three" .status)" queued "hearthd was killed: it waits"
like "$(hearth why "$three")" "waits for warm pool $id" "for the same pool"
hearth stop "$two" --grace 1 >/dev/null
hearth wait "$three" --timeout 60 >/dev/null
is "$(show "$three" '.attempts[0].pool.id')" "$id" "it uses the pool as soon as that is given back"
like "$(submit wide; tail -n 3 "$CLUSTER/said")" 'you have no warm pool "nobody"' "an unknown pool is refused"
data=$CLUSTER/head/data
cluster_signal hearthd TERM
wait_until 30 cluster_gone hearthd
ok "events and rows agree" cluster_in head "$HEARTHD" --data "$data" --verify
done_testing
