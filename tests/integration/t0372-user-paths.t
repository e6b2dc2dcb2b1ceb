#!/bin/bash
# Paths that a job names lead only where its own account may go: no descriptor of the agent by /proc, no file of another account, be it by links. Results and checkpoints, too.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 8 --min-uid 1 || bail "no cluster"
submit() { # ACCOUNT NAME MEMBERS...
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "cat $SM_CHANNEL_X/*"], %s}\n' "$2" "${*:3}" >"$CLUSTER/$2.json"
	chmod 644 "$CLUSTER/$2.json"
	cluster_as "$1" submit "$CLUSTER/$2.json"
}
input() { printf '"inputs": {"x": {"uri": "file://%s"%s}}' "$1" "${2:-}"; }
show() { hearth show "$1" --json | jq -r "$2"; }
refused() { # JOB REASON DESCRIPTION
	hearth wait "$1" --timeout 60 >/dev/null
	like "$(show "$1" '.status + " " + .reason + " " + (.attempts | map(.class) | join(" "))')" "^failed .*$2.* user_error\$" "$3"
}

# A neighbour: its file is closed, and the agent has its folders open.
mkdir -m 0700 "$CLUSTER/theirs" && echo secret >"$CLUSTER/theirs/open" && echo secret >"$CLUSTER/closed"
chmod 644 "$CLUSTER/theirs/open" && chmod 600 "$CLUSTER/closed"
chown -R daemon "$CLUSTER/theirs" "$CLUSTER/closed"
neighbour=$(submit daemon neighbour "$(input "$CLUSTER/theirs")"', "environment": {"A": "B"}')
hearth wait "$neighbour" --timeout 60 >/dev/null
is "$(show "$neighbour" .status) $(hearth logs "$neighbour")" "completed secret" "a folder that is closed to others is its owner's input"

# --- descriptors -----------------------------------------------------------------------------------------------
ids=$(for n in $(seq 0 63); do submit nobody "fd$n" "$(input "/proc/self/fd/$n")"; done | paste -sd,)
hearth wait "$ids" --timeout 200 >/dev/null
told=$(for id in ${ids//,/ }; do show "$id" '.status + " " + .reason'; done)
is "$(grep -c '^failed .*procfs' <<<"$told")" 64 "64 descriptors: each is refused with the reason"
unlike "$told" '^completed' "none is anybody's input"
agent=$(cluster_in host1 pgrep -of hearth-agent)
refused "$(submit nobody agent "$(input "/proc/$agent/fd/5")")" procfs "a descriptor by the agent's number"
refused "$(submit nobody stdin "$(input /dev/stdin ', "mode": "link"')")" procfs "the standard input"
refused "$(submit nobody root "$(input "/proc/$agent/root$CLUSTER/theirs/open" ', "unpack": true')")" procfs "the agent's root"
refused "$(submit nobody status "$(input /proc/self/environ)")" procfs "the environment of whoever reads it"

# --- files of others ---------------------------------------------------------------------------------------------
refused "$(submit nobody closed "$(input "$CLUSTER/closed")")" "Permission denied" "a file of another account"
refused "$(submit nobody inner "$(input "$CLUSTER/theirs/open")")" "Permission denied" "a file in a folder of another account"
mkdir -m 0755 "$CLUSTER/tree" && ln -s "$CLUSTER/closed" "$CLUSTER/tree/file" && ln -s /proc/self/fd "$CLUSTER/tree/fd" && echo own >"$CLUSTER/tree/own"
ln -s /proc/self/fd/0 "$CLUSTER/way"
chown -hR nobody "$CLUSTER/tree" "$CLUSTER/way"
refused "$(submit nobody way "$(input "$CLUSTER/way")")" procfs "a link to a descriptor"
refused "$(submit nobody filelink "$(input "$CLUSTER/tree/file")")" "Permission denied" "a link to a file of another account"
id=$(submit nobody tree "$(input "$CLUSTER/tree")")
hearth wait "$id" --timeout 60 >/dev/null
like "$(hearth logs "$id")" own "a tree with such links arrives"
unlike "$(hearth logs "$id")" secret "but what they name does not"

# --- results and checkpoints ---------------------------------------------------------------------------------------
refused "$(submit nobody out '"output_uri": "file:///proc/self/cwd/tmp"')" "output_uri.*procfs" "results by way of /proc"
refused "$(submit nobody resume '"resume_from": "file:///proc/self/fd"')" "procfs" "a checkpoint, too"
# On this host alone: helpers of other tests may run beside it.
ok "no helper is left" wait_until 10 eval '! cluster_in host1 pgrep -c hearth-files >/dev/null'
cluster_clean
cluster_down
done_testing
