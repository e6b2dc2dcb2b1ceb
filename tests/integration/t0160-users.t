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

# jobctl on host2 with what `login` wrote below HOME
at_home() { cluster_in host2 env -u XDG_CONFIG_HOME -u HEARTH_URL -u HEARTH_TOKEN -u HEARTH_CA HOME="$CLUSTER/$1" "$JOBCTL" "${@:2}"; }

second_user() {
	local token out id rc
	token=$(hearth token create --user ada --note laptop)
	like "$token" '^hearth_u_[0-9a-f]{40}_[0-9a-f]{32}_[0-9a-f]{8}$' "an administrator makes a token for ada"
	mkdir -p "$CLUSTER/ada"
	out=$(at_home ada login https://10.77.0.200:7070 <<<"$token" 2>&1)
	is "$?" 0 "ada logs in from another machine with the token only"
	like "$out" "as ada" "jobctl says who she is"
	is "$(stat -c %a "$CLUSTER/ada/.config/hearth/config" "$CLUSTER/ada/.config/hearth/ca.pem" | sort -u)" 600 "the files are hers alone"
	id=$(at_home ada submit "$(job ada /usr/bin/id -u)")
	ok "her job completes" at_home ada wait "$id" --timeout 60 --exit-code
	is "$(at_home ada logs "$id")" "$(id -u nobody)" "it runs as the account of run_as"
	is "$(at_home ada show "$id" --json | jq -r '.owner + " " + .account')" "ada nobody" "and is hers"
	out=$(at_home ada token ls --json)
	is "$(jq -r '.tokens[] | .kind + " " + .user + " " + .scope + " " + .note + " " + .used_from' <<<"$out")" "user ada user laptop 10.77.0.2" \
		"she sees her token, and from where it was used"
	out=$(at_home ada token create --join 2>&1)
	is "$?" 4 "she makes no token for a node"
	out=$(at_home ada token create --user bob 2>&1)
	like "$out" "only an administrator makes tokens for other users" "nor for another user"
	token=$(at_home ada token create --scope read --expires 1h)
	mkdir -p "$CLUSTER/reader"
	printf '%s\n' "$token" >"$CLUSTER/reader/token"
	ok "she makes one that only reads" at_home reader login https://10.77.0.200:7070 --token-file "$CLUSTER/reader/token"
	ok "which lists jobs" at_home reader ls --all
	out=$(at_home reader submit "$(job reader /bin/true)" 2>&1)
	is "$?" 4 "and submits none"
	like "$out" "may only read" "as the refusal says"
	id=$(hearth token ls --json | jq -r '.tokens[] | select(.note == "laptop") | .id')
	ok "an administrator removes ada's first token" hearth token rm "$id"
	out=$(at_home ada ls 2>&1)
	is "$?" 4 "it is void at once"
	out=$(at_home reader ls 2>&1)
	is "$?" 4 "and so is the one made with it"
}

# Whoever has a token may open the dashboard with it. The session ends with the token.
session_of_token() {
	local token id link key code api=https://10.77.0.200:7070 jar="$CLUSTER/jar"
	local curl=(cluster_in host2 curl -s --cacert "$CLUSTER/head/data/ca.pem")
	token=$(hearth token create --user ada --note dash)
	id=$(hearth token ls --json | jq -r '.tokens[] | select(.note == "dash") | .id')
	link=$("${curl[@]}" -X POST -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{}' "$api/api/v1/login-links" | jq -r .path)
	key=$("${curl[@]}" -c "$jar" -o /dev/null -w '%{redirect_url}' "$api$link")
	key=${key#*session=}
	code=$("${curl[@]}" -b "$jar" -H "X-Hearth-Key: $key" -o /dev/null -w '%{http_code}' "$api/api/v1/jobs")
	is "$code" 200 "a token's login link opens a session"
	link=$("${curl[@]}" -X POST -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d '{}' "$api/api/v1/login-links" | jq -r .path)
	ok "an administrator removes that token" hearth token rm "$id"
	code=$("${curl[@]}" -b "$jar" -H "X-Hearth-Key: $key" -o /dev/null -w '%{http_code}' "$api/api/v1/jobs")
	is "$code" 401 "the session ends with its token"
}

# Another cluster, or an impostor, at the address: the token must not reach it.
wrong_controller() {
	local token out
	token=$(hearth token create --user ada)
	mkdir -p "$CLUSTER/wrong"
	out=$(at_home wrong login https://10.77.0.200:7070 <<<"${token/_[0-9a-f]*_/_$(printf '%040d' 1)_}" 2>&1)
	is "$?" 2 "a mistyped token is found before anything is sent"
	cluster_in host1 openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=evil -days 1 -keyout "$CLUSTER/evil.key" -out "$CLUSTER/evil.pem" 2>/dev/null
	cluster_spawn host1 evil "$(command -v openssl)" s_server -accept 10.77.0.1:7443 -key "$CLUSTER/evil.key" -cert "$CLUSTER/evil.pem" -www
	wait_until 10 cluster_in host2 bash -c ': </dev/tcp/10.77.0.1/7443'
	out=$(at_home wrong login https://10.77.0.1:7443 <<<"$token" 2>&1)
	is "$?" 4 "a controller with another authority is refused"
	like "$out" "another fingerprint. The token was not sent" "and gets no token"
	nok "nothing of it is in what the impostor received" grep -q "${token:9:40}" "$CLUSTER/evil.log"
	[ ! -e "$CLUSTER/wrong/.config/hearth/config" ]
	is "$?" 0 "no configuration is written"
	cluster_signal evil KILL
	out=$(at_home wrong login http://10.77.0.200:7070 <<<"$token" 2>&1)
	like "$out" "expected https" "a token never goes out in the clear"
}

# Requests of a browser on host2: BROWSER CURL-ARGS...
web() { cluster_in host2 curl -s --cacert "$CLUSTER/head/data/ca.pem" -o /dev/null -w '%{http_code}' "$@"; }

sessions() {
	local url=https://10.77.0.200:7070 link key cookie
	link=$(hearth --url unix://"$CLUSTER/head/data/hearthd.sock" dash --json 2>/dev/null | jq -r .path)
	[ -n "$link" ] && [ "$link" != null ] || link=$(cluster_in head curl -s --unix-socket "$CLUSTER/head/data/hearthd.sock" -X POST -H 'Content-Type: application/json' -d '{}' http://h/api/v1/login-links | jq -r .path)
	cluster_in host2 curl -s --cacert "$CLUSTER/head/data/ca.pem" -D "$CLUSTER/head.txt" -o /dev/null "$url$link"
	cookie=$(sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\);.*/\1/p' "$CLUSTER/head.txt" | tr -d '\r')
	key=$(sed -n 's/^[Ll]ocation: .*#session=\([0-9a-f]*\).*/\1/p' "$CLUSTER/head.txt" | tr -d '\r')
	is "$(web -H "Cookie: $cookie" $url/api/v1/jobs)" 401 "a session's cookie alone opens nothing"
	is "$(web -H "Cookie: $cookie" -H "X-Hearth-Key: $key" $url/api/v1/jobs)" 200 "with its key it does"
	cluster_signal hearthd KILL
	wait_until 20 cluster_gone hearthd
	cluster_hearthd || bail "hearthd did not come back"
	is "$(web -H "Cookie: $cookie" -H "X-Hearth-Key: $key" $url/api/v1/jobs)" 200 "the session survives hearthd"
	is "$(hearth token ls --json | jq '[.tokens[] | select(.kind == "session")] | length')" 1 "and is listed"
	ok "it can be ended" hearth token rm "$(hearth token ls --json | jq -r '.tokens[] | select(.kind == "session") | .id')"
	is "$(web -H "Cookie: $cookie" -H "X-Hearth-Key: $key" $url/api/v1/jobs)" 401 "then it opens nothing"
	ok "events and rows of tokens agree" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
}

start_rules
CLUSTER_RUN_AS=nobody
cluster_hearth || bail "the cluster did not come up"
uid_over_tcp
second_user
session_of_token
wrong_controller
sessions
refused_root
cluster_clean
done_testing
