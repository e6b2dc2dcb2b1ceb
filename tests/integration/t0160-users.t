#!/bin/bash
# Users and the accounts that run their jobs: a cluster by the README's steps, users with tokens over TCP, root and accounts of the system refused.
# shellcheck source=tests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
getent passwd nobody >/dev/null || skip_all "no account nobody"
cluster_up 2 || bail "no cluster"

# jobctl on host2, by TCP and a token
remote() { # TOKEN ARGS...
	local token=$1
	shift
	cluster_in host2 env -u XDG_CONFIG_HOME HOME="$CLUSTER/remote" HEARTH_URL=https://10.77.0.200:7070 HEARTH_CA="$CLUSTER/head/data/ca.pem" HEARTH_TOKEN="$token" "$JOBCTL" "$@"
}
job() { # NAME COMMAND...: a specification
	local name=$1
	shift
	jq -n --arg n "$name" --arg c "$*" '{name: $n, command: ($c | split(" ")), launcher: "direct"}' >"$CLUSTER/$name.json"
	echo "$CLUSTER/$name.json"
}

start_rules() {
	local out rc
	out=$(cluster_in head timeout 20 "$HEARTHD" --data "$CLUSTER/head/data" --listen 10.77.0.200:7070 2>&1)
	rc=$?
	is "$rc" 1 "hearthd as root does not start for users of other machines without run_as"
	like "$out" "run_as=" "and names the setting"
	[ ! -e "$CLUSTER/head/data/hearth.db" ]
	is "$?" 0 "it has made no store"
}

uid_over_tcp() {
	local admin id
	admin=$(cat "$CLUSTER/head/data/admin.token")
	id=$(remote "$admin" submit "$(job tcp /usr/bin/id -u)")
	ok "a job that came over TCP completes" remote "$admin" wait "$id" --timeout 60 --exit-code
	is "$(remote "$admin" logs "$id")" "$(id -u nobody)" "its uid is that of the account, not 0"
	is "$(remote "$admin" show "$id" --json | jq -r '.owner + " " + .account')" "root nobody" "the record names owner and account"
	like "$(remote "$admin" show "$id")" "nobody" "and so does show"
	id=$(hearth submit "$(job socket /usr/bin/id -u)")
	ok "root's job over the socket completes" hearth wait "$id" --timeout 60 --exit-code
	is "$(hearth logs "$id")" "$(id -u nobody)" "it runs as the same account"
}

refused_root() {
	local id
	cluster_signal hearthd TERM
	wait_until 20 cluster_gone hearthd
	CLUSTER_RUN_AS='nobody root=root'
	cluster_hearthd || bail "hearthd did not come back"
	wait_until 20 cluster_node_up host1
	id=$(hearth submit "$(job asroot /usr/bin/id -u)")
	hearth wait "$id" --timeout 60 --exit-code
	is "$?" 1 "an agent refuses a job as root even if hearthd asks for it"
	like "$(hearth show "$id" --json | jq -r .reason)" "no jobs as root.*--allow-root" "the reason names the cure"
	is "$(hearth show "$id" --json | jq .attempt_count)" 1 "it is the user's error: no other node is tried"
	is "$(hearth nodes --json | jq '[.nodes[] | select(.doubt > 0)] | length')" 0 "and no node is blamed"
}

start_rules
CLUSTER_RUN_AS=nobody
cluster_hearth || bail "the cluster did not come up"
uid_over_tcp
refused_root
cluster_clean
done_testing
