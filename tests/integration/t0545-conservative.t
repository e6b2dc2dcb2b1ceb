#!/bin/bash
# A controller that decides by conservative backfill: a place is kept for each that waits, not for the first alone. What starts, in which order and where, is what the library of
# jobctl simulate starts when it is told the same; under easy it would not be.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set backfill=conservative)
cluster_up 2 && cluster_hearth --slots 4 --fake-gpus 4 || bail "no cluster"
db=$CLUSTER/head/data/hearth.db

sql() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute(sys.argv[2]): print(*row)' "$db" "$1"; }
submit() { # NAME INSTANCES GPUS LIMIT-S COMMAND: its number
	jq -n --arg n "$1" --argjson i "$2" --argjson g "$3" --argjson l "$4" --arg c "$5" \
		'{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", limits: {max_runtime_s: $l, grace_s: 1}, resources: {instances: $i, gpus_per_instance: $g, ranks_per_instance: 1}}' >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
status() { hearth show "$1" --json | jq -r .status; }
is_now() { [ "$(status "$1")" = "$2" ]; }
all_over() { [ "$(sql "SELECT count(*) FROM job WHERE status NOT IN ('completed', 'failed', 'stopped')")" = 0 ]; }
simulate() { hearth simulate "$CLUSTER/trace" "$@" 2>&1; } # what it prints

long=$(submit long 2 3 3600 "sleep 600")
ok "one holds most of both nodes" wait_until 60 is_now "$long" running
first=$(submit first 2 2 600 "sleep 0.3")
second=$(submit second 2 4 600 "sleep 0.3")
# Beside the first when the long one has ended there is room for it; in the place of the second there is not.
beside=$(submit beside 1 1 7200 "sleep 0.3")
short=$(submit short 1 1 60 "sleep 0.3")
ok "who is in nobody's way passes them" wait_until 60 is_now "$short" completed
is "$(status "$first") $(status "$second") $(status "$beside")" "queued queued queued" "who would be in the way of the second waits, though not in that of the first"
said=$(hearth why "$second" --json)
ok "why knows the place that is kept for the second" jq -e '.expected_whole and (.expected_start | sub("\\.[0-9]+"; "") | fromdateiso8601) > now + 3600' <<<"$said"
n=5
for i in 1 2 3 4 5 6; do
	submit "small$i" 1 $((1 + i % 2)) $((60 + i * 20)) "sleep 0.3" >/dev/null || bail "a submit"
	submit "wide$i" 2 $((1 + i % 3)) $((300 + i * 20)) "sleep 0.3" >/dev/null || bail "a submit"
	n=$((n + 2))
done
hearth stop "$long" --grace 1 >/dev/null
ok "when the long one is stopped all start and end" wait_until 240 all_over
is "$(sql "SELECT status, count(*) FROM job WHERE id <> $long GROUP BY status")" "completed $((n - 1))" "and all of them well"
is "$(sql "SELECT count(*) FROM event WHERE type = 'placed'")" "$n" "each was started once"

ok "what the scheduler was told is written to a file" hearth trace -o "$CLUSTER/trace"
is "$(jq -c .compare <<<"$(simulate --compare --json)")" "{\"equal\":true,\"starts\":$n}" "order and nodes of all starts are those of the library on the same input"
said=$(simulate --compare --backfill easy)
is "$?" 1 "under easy the starts would not be the same"
like "$(tr '\n' ' ' <<<"$said")" "here: job $beside" "it would have started the one that was in the way"
ok "and the simulation under conservative runs them all" jq -e ".jobs == $n and .unfinished == 0" <<<"$(simulate --policy conservative --json)"

cluster_clean
cluster_down
done_testing
