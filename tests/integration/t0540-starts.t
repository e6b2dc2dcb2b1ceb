#!/bin/bash
# What runs is what is simulated: four hosts, sweeps of 200 small jobs of two users with weights 1 to 3, a gang of all nodes in the middle, a drain in the middle.
# Whatever the timing was: told in its order what hearthd's scheduler was told (jobctl trace), the library of jobctl simulate starts the same jobs in the same order on the same nodes.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
JOBS=200
cluster_up 4 && cluster_hearth --slots 4 --fake-gpus 4 --min-uid 1 || bail "no cluster"
db=$CLUSTER/head/data/hearth.db
spec() { # NAME INSTANCES GPUS COMMAND
	jq -n --arg n "$1" --argjson i "$2" --argjson g "$3" --arg c "$4" '{name: $n, command: ["/bin/sh", "-c", $c], launcher: "direct", limits: {max_runtime_s: 600, grace_s: 1}, resources: {instances: $i, gpus_per_instance: $g, ranks_per_instance: 1}}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
}
sql() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute(sys.argv[2]): print(*row)' "$db" "$1"; }
started() { [ "$(sql "SELECT count(*) FROM event WHERE type = 'placed'")" -ge "$1" ]; }
all_over() { [ "$(sql "SELECT count(*) FROM job WHERE status NOT IN ('completed', 'failed', 'stopped')")" = 0 ]; }
simulate() { hearth simulate "$CLUSTER/trace" "$@" 2>&1; } # what it prints

hearth queue set default/@daemon weight=3 >/dev/null
hearth queue set default/@nobody weight=1 >/dev/null
spec block 4 4 "sleep 300"
spec small 1 1 "sleep 0.3"
spec gang 4 4 "sleep 0.3"
jq --argjson n $((JOBS / 4)) '.sweep = {i: {from: 1, to: $n}}' "$CLUSTER/small.json" >"$CLUSTER/sweep.json"
chmod 644 "$CLUSTER/sweep.json"
block=$(hearth submit "$CLUSTER/block.json")
wait_until 60 started 1
sweep() { # ACCOUNT NAME: of a quarter of the jobs
	cluster_as "$1" submit --name "$2" "$CLUSTER/sweep.json" >/dev/null || bail "a submit of $1"
}
sweep daemon d1
sweep nobody n1
is "$(sql "SELECT owner, count(*) FROM job WHERE owner <> 'root' AND members = 0 GROUP BY owner ORDER BY owner" | tr '\n' ' ')" "daemon $((JOBS / 4)) nobody $((JOBS / 4)) " "jobs of two users wait behind one that holds all"
hearth stop "$block" --grace 1 >/dev/null
wait_until 120 started 21
ok "a node is drained in the middle" hearth node drain host3
wait_until 120 started 41
ok "and resumed" hearth node resume host3
gang=$(cluster_as nobody submit "$CLUSTER/gang.json")
ok "a gang of all nodes comes in the middle" test -n "$gang"
sweep daemon d2
sweep nobody n2
ok "all jobs end" wait_until 300 all_over
is "$(sql "SELECT status, count(*) FROM job WHERE name <> 'block' GROUP BY status")" "completed $((JOBS + 5))" "and all of them well, the four sweeps too"
is "$(sql "SELECT count(*) FROM event WHERE type = 'placed'")" $((JOBS + 2)) "each was started once"
left=$(sql "SELECT count(*) FROM event WHERE type = 'placed' AND id > (SELECT id FROM event WHERE type = 'placed' AND job = $gang)")
ok "the gang did not starve: $left of the jobs that came after it started after it" test "$left" -ge 20

ok "what the scheduler was told is written to a file" hearth trace -o "$CLUSTER/trace"
said=$(simulate --compare --json)
is "$(jq -c .compare <<<"$said")" "{\"equal\":true,\"starts\":$((JOBS + 2))}" "order and nodes of all starts are those of the library on the same input"
is "$(jq -c '[.policy, .nodes, .gpus, .jobs, .dropped, .unfinished]' <<<"$said")" "[\"live\",4,16,$((JOBS + 2)),0,0]" "the simulation runs the same jobs on the same nodes"
ok "takes as long as it took, give or take what starts cost" jq -e '.makespan_s < 3 * .recorded.makespan_s + 60 and .avg_jct_s > 0.3 and .recorded.avg_jct_s > 0.3' <<<"$said"
# By events, too: each job for as long as it ran, without what starts cost. Two jobs that started within 0.1 s of each other, in what was or in the simulation,
# may change places; a few more may where a start took long, as other jobs had ended meanwhile.
order() { # OPTIONS...: jobs, pairs of them in another order, jobs at another place
	simulate --schedule "$CLUSTER/plan.csv" "$@" >/dev/null
	python3 -c 'import csv, sys
rows = [(float(r["recorded_start_s"]), float(r["start_s"])) for r in csv.DictReader(open(sys.argv[1]))]
was, here = (sorted(range(len(rows)), key=lambda i: rows[i][k]) for k in (0, 1))
print(len(rows), sum(a[0] < b[0] - 0.1 and a[1] > b[1] + 0.1 for a in rows for b in rows), sum(a != b for a, b in zip(was, here)))' "$CLUSTER/plan.csv"
}
read -r jobs wrong moved <<<"$(order)"
is "$jobs" $((JOBS + 2)) "the simulation by events starts all of them"
ok "in the same order: $moved stand at another place, but only $wrong of $((jobs * (jobs - 1) / 2)) pairs are in another order by more than 0.1 s" test "$wrong" -le $((jobs * (jobs - 1) / 200))
read -r jobs other moved <<<"$(order -w default/@daemon=1 -w default/@nobody=3)"
ok "with weights of 3 to 1 it would be another order: $other pairs" test "$other" -gt $((jobs * (jobs - 1) / 20))
# The comparison can fail: with other weights the library would have chosen others.
said=$(simulate --compare -w default/@daemon=1 -w default/@nobody=3)
code=$?
is "$code" 1 "with weights of 3 to 1 the starts would not be the same"
like "$(tr '\n' ' ' <<<"$said")" "after [0-9]+ equal starts, at .*recorded: job [0-9]+ on host.*here: job" "and which is the first"
many=$(simulate --more-nodes 96 --json | jq .avg_wait_s)
ok "with 100 nodes jobs would wait less: $many s" jq -e ".recorded.avg_wait_s > $many and .avg_wait_s > $many" <<<"$(simulate --json)"

is "$(hearth trace --list --json | jq -c '.parts | map(.part)')" "[1]" "one part since hearthd began"
like "$(hearth trace --list)" "^ +1  20.*[0-9]$" "which people can read"
hearth trace | cmp -s - "$CLUSTER/trace"
is "$?" 0 "to standard output it is the same"
said=$(hearth trace --part 9 2>&1)
is "$?" 3 "another part is not there"
like "$said" 'no part "9"' "and it is said"
refused() { # WHAT-IT-SAYS OPTIONS...: of the record
	local say=$1
	shift
	said=$(simulate "$@")
	is "$?" 2 "$*: refused"
	like "$said" "$say" "with a reason"
}
refused "is for traces in CSV.*--more-nodes" --nodes 4
refused "'sjf' is not for the record of a cluster" --policy sjf
refused "did you mean easy" --backfill eazy
refused "it goes without --policy" --policy fair --backfill none
refused "expected QUEUE=N" -w default
refused "no node is called host7.*did you mean host" --without host7
for policy in fifo fifo-skip easy fair live conservative; do
	ok "and under $policy" jq -e ".jobs == $((JOBS + 2))" <<<"$(simulate --policy $policy --json)"
done

cluster_clean
cluster_down
done_testing
