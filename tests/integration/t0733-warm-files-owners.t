#!/bin/bash
# A large source that two accounts use: each has files of its own, and finds nothing of the other's. An agent that can mount no layers copies them.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set warm_parked=no) # folders of launches have the names of jobs
cluster_up 1 && cluster_hearth --slots 2 --min-uid 1 || bail "no cluster"
src=$CLUSTER/src
mkdir -m 0755 "$src"
for i in 1 2 3 4 5 6; do head -c 1000000 /dev/urandom >"$src/part$i"; done
sums=$(cd "$src" && sha256sum part*)
job() { # ACCOUNT NAME SHELL-COMMAND: its log
	jq -n --arg n "$2" --arg c "$3" --arg s "$src" '{name: $n, command: ["/bin/sh", "-c", $c], source_dir: $s, launcher: "direct", retry: {max_attempts: 0}, warm_pool: {keep_alive_s: 600}}' >"$CLUSTER/$2.json"
	chmod 644 "$CLUSTER/$2.json"
	id=$(cluster_as "$1" submit "$CLUSTER/$2.json" 2>>"$CLUSTER/said")
	hearth wait "$id" --timeout 60 >/dev/null
	hearth logs "$id"
}
# shellcheck disable=SC2016 # the job's shell expands it
look='sha256sum part*; stat -c "%U %a" part1 .; for i in 1 2 3 4 5 6; do echo changed >part$i; done; echo x >new; echo "$(grep -c "ml.code overlay\|ml/code.* overlay" /proc/self/mountinfo) layers"'
want() { printf '%s\n%s 644\n%s 755\n%s layers' "$sums" "$1" "$1" "$2"; } # ACCOUNT LAYERS
layered() { [ "$(tail -1 <<<"$1")" != "0 layers" ] && echo yes || echo no; }
reflink=$(cluster_in host1 sh -c "cd '$CLUSTER/host1/data' && echo x >from && cp --reflink=always from to 2>/dev/null && echo yes; rm -f from to")
one=$(job daemon one "$look")
is "$(sed '$d' <<<"$one")" "$(want daemon 0 | sed '$d')" "the first account has its files"
[ -n "$reflink" ] || is "$(layered "$one")" yes "by a layer"
two=$(job nobody two "$look")
is "$two" "$(want nobody 0)" "the second account has copies that are its own"
is "$(job daemon three "$look")" "$one" "the first one has them as they were"
is "$(job nobody four "$look")" "$two" "and so has the second"
is "$(cluster_in host1 sh -c "find '$CLUSTER/host1/data/cache/trees' -name part1 -printf '%u\n'" | sort -u)" "$([ -n "$reflink" ] && echo root || echo daemon)" "the cached files belong to the account with the layer"

cluster_signal agent-host1 TERM
wait_until 20 cluster_gone agent-host1
cluster_agent host1 --slots 2 --min-uid 1 --no-namespaces
wait_until 30 cluster_node_up host1
is "$(job daemon five "$look")" "$(want daemon 0)" "an agent without namespaces copies them"
is "$(job nobody six "$look")" "$two" "for both"
cluster_clean "after the jobs"
done_testing
