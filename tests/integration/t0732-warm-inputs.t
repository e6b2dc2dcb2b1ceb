#!/bin/bash
# Downloads and archives with a checksum stay on the node, archives unpacked: the next job has them without a copy, and as they were.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_RUN_AS=daemon
# shellcheck disable=SC2034 # read by cluster.sh
CLUSTER_HEARTHD_ARGS=(--set warm_parked=no) # folders of launches have the names of jobs
cluster_up 1 && cluster_hearth --slots 2 --min-uid 1 || bail "no cluster"
www=$CLUSTER/www data=$CLUSTER/host1/data
mkdir -m 0755 "$www" "$www/files" "$www/files/sub"
for i in 1 2 3 4 5 6; do head -c 1000000 /dev/urandom >"$www/files/part$i"; done
echo original >"$www/files/sub/small"
ln -s part1 "$www/files/link"
tar -C "$www/files" -czf "$www/pack.tar.gz" .
cat "$www"/files/part* >"$www/big"
cluster_spawn head web /usr/bin/python3 -m http.server 8099 --bind 10.77.0.200 --directory "$www"
wait_until 20 cluster_in head curl -sfo /dev/null http://10.77.0.200:8099/files/sub/small
sum() { sha256sum "$1" | cut -d' ' -f1; }
job() { # NAME SHELL-COMMAND
	jq -n --arg n "$1" --arg c "$2" --arg p "$(sum "$www/pack.tar.gz")" --arg b "$(sum "$www/big")" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", retry: {max_attempts: 0}, warm_pool: {keep_alive_s: 600},
		inputs: {pack: {uri: "http://10.77.0.200:8099/pack.tar.gz", sha256: $p, unpack: true}, big: {uri: "http://10.77.0.200:8099/big", sha256: $b}}}' >"$CLUSTER/$1.json"
	id=$(hearth submit "$CLUSTER/$1.json" 2>>"$CLUSTER/said")
	hearth wait "$id" --timeout 60 >/dev/null
	hearth logs "$id"
}
# shellcheck disable=SC2016 # the job's shell expands it
look='cd $SM_CHANNEL_PACK && find . -type f | sort | xargs sha256sum && readlink link && stat -c "%n %U %a" part1 . && cd $SM_CHANNEL_BIG && sha256sum big && stat -c "%n %U %a" big .'
job first "$look" >"$CLUSTER/clean"
is "$(grep -o '^[0-9a-f]*  big' "$CLUSTER/clean")" "$(sum "$www/big")  big" "a job reads its download"
is "$(grep -c '  ./part[1-6]$' "$CLUSTER/clean")" 6 "and the files of its archive"
like "$(cat "$CLUSTER/clean")" 'part1 daemon 644' "as their owner"
# shellcheck disable=SC2016
said=$(job traps 'cd $SM_CHANNEL_PACK && echo more >>part1 && rm part2 && mv sub other && chmod 600 part3 && ln part4 again && : >again && echo x >new && cd $SM_CHANNEL_BIG && : >big && echo x >new && echo laid')
is "$said" laid "a job changes all of it"
job second "$look" >"$CLUSTER/second"
is "$(cat "$CLUSTER/second")" "$(cat "$CLUSTER/clean")" "the next job has everything as it was"
said=$(hearth logs "$id" --stream setup --node 1)
unlike "$said" ': unpacking|bytes' "nothing is downloaded or unpacked again"
is "$(cluster_in host1 find "$data/cache/inputs" -newer "$CLUSTER/traps.json" -name 'part*' | wc -l)" 0 "nothing in the cache is newer"
cluster_clean "after the jobs"
done_testing
