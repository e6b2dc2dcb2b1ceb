#!/bin/bash
# Logs over a whole cluster: followers see lines while the job runs, complete and in order, from any offset; all is readable when job and node are gone.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
command -v curl >/dev/null || skip_all "curl is missing"
cluster_up 2 && cluster_hearth --slots 4 || bail "no cluster"
mkdir "$CLUSTER/src" "$CLUSTER/side" "$CLUSTER/f" && cp "$HEARTH_TOP_SRCDIR/tests/programs/chatter.py" "$CLUSTER/src/"
cat >"$CLUSTER/job.json" <<J
{"name": "chatter", "command": ["/usr/bin/python3", "chatter.py"], "source_dir": "src", "launcher": "mpirun",
 "resources": {"instances": 2, "ranks_per_instance": 2}, "metrics": [{"name": "loss", "regex": "rank 0 .*loss=([0-9.]+)"}],
 "inputs": {"side": {"uri": "file://$CLUSTER/side", "mode": "link"}}}
J
seen=$CLUSTER/f
log() { # STREAM?QUERY ARGS-OF-CURL...
	curl -sSN --max-time 90 --unix-socket "$CLUSTER/head/data/hearthd.sock" "${@:2}" "http://h/api/v1/jobs/$id/logs/$1"
}
sse_text() { sed -n 's/^data: //p' "$1" | jq -rj 'select(.text) | .text'; }
sse_ids() { sed -n 's/^id: *//p' "$1"; }
expect() { # RANK: what that rank prints on standard output
	/usr/bin/python3 -c 'import sys
for i in range(1, 301): print("rank %s line %d loss=%.4f \u00e4\u2713" % (sys.argv[1], i, 1 / i))
print("rank %s end" % sys.argv[1])' "$1"
}

id=$(hearth submit "$CLUSTER/job.json")
# Before there is any line, or even a stream:
pids=
for r in 0 1 2 3; do
	log "rank-$r?follow=1" >"$seen/raw$r" & pids="$pids $!"
	log "rank-$r?follow=1" -H 'Accept: text/event-stream' >"$seen/sse$r" & pids="$pids $!"
done
hearth logs "$id" -f --rank 3 >"$seen/jobctl3" 2>"$seen/jobctl3.err" & pids="$pids $!"
hearth logs "$id" -f --node 2 >"$seen/node2" 2>/dev/null & pids="$pids $!"
curl -sN --max-time 60 --unix-socket "$CLUSTER/head/data/hearthd.sock" "http://h/api/v1/stream?job=$id&after=0" >"$seen/events" &
events=$!

# The job goes on only when every follower has seen line 100: so they see it live.
saw() { grep -q "rank $2 line 100 " "$seen/$1"; }
for r in 0 1 2 3; do
	ok "the raw follower of rank $r sees line 100 while the rank waits" wait_until 40 saw "raw$r" "$r"
	ok "the one of events, too" wait_until 30 saw "sse$r" "$r"
done
ok "so does jobctl logs -f by rank" wait_until 30 saw jobctl3 3
ok "and by node" wait_until 30 saw node2 2
is "$(hearth show "$id" --json | jq -r .status)" running "the job is running"
# What can never be there is not waited for.
for other in "--node nosuch" "--node 3" "--rank 4"; do
	# shellcheck disable=SC2086 # an option and its value
	(hearth logs "$id" -f $other >"$seen/never" 2>&1; echo "rc $?" >>"$seen/never") &
	ok "logs -f $other is refused while the job runs" wait_until 30 grep -qs "^rc 3" "$seen/never"
	rm -f "$seen/never"
done
# written behind the lines, by up to a second or two
loss_shown() { hearth metrics "$id" loss --json | jq -e '.points[99][2] == 0.01' >/dev/null; }
ok "and metrics show the loss that was printed so far" wait_until 30 loss_shown
# Late followers, from any place; one of them is cut off and comes again with the last id that it saw.
log "rank-0?follow=1&offset=777" >"$seen/from777" & pids="$pids $!"
log "rank-0?follow=1&offset=-20" >"$seen/last20" & pids="$pids $!"
have=$(log "rank-0" | wc -c)
curl -sN --max-time 60 --unix-socket "$CLUSTER/head/data/hearthd.sock" -H 'Accept: text/event-stream' "http://h/api/v1/jobs/$id/logs/rank-1?follow=1" >"$seen/cut1" &
cut=$!
wait_until 10 saw cut1 1
kill "$cut"
last=$(sse_ids "$seen/cut1" | tail -n 1)
log "rank-1?follow=1" -H 'Accept: text/event-stream' -H "Last-Event-ID: $last" >"$seen/cut2" & pids="$pids $!"

: >"$CLUSTER/side/go"
ok "the job completes" hearth wait "$id" --timeout 60
for p in $pids; do wait "$p" || diag "follower $p ended with $?"; done
ok "the stream of events tells the end" wait_until 10 grep -q '^event: ended' "$seen/events"
kill "$events"
for r in 0 1 2 3; do
	ok "rank $r: the follower has every line, once and in order" diff <(grep -v warning "$seen/raw$r") <(expect "$r")
	is "$(grep -c warning "$seen/raw$r")" 6 "rank $r: standard error among them"
	ok "rank $r: the same as is read afterwards" cmp "$seen/raw$r" <(log "rank-$r")
	ok "rank $r: as events, too" cmp <(sse_text "$seen/sse$r") "$seen/raw$r"
	like "$(tail -n 4 "$seen/sse$r")" "event: end" "rank $r: which say that it is complete"
done
ok "jobctl by rank printed the same" cmp "$seen/raw3" "$seen/jobctl3"
is "$(grep -c 'line' "$seen/node2")" "$(grep -c line "$seen/raw2")" "by node: that of its first rank"
ok "from offset 777" cmp "$seen/from777" <(tail -c +778 "$seen/raw0")
ok "from 20 bytes before the end, at that time" cmp "$seen/last20" <(tail -c "+$((have - 20 + 1))" "$seen/raw0")
ok "cut off and come again: nothing twice, nothing lost" cmp <(sse_text "$seen/cut1"; sse_text "$seen/cut2") "$seen/raw1"
is "$(sed -n 's/^data: //p' "$seen/sse0" | jq -r 'select(.fd == 2) | .text' | grep -c warning)" 6 "events tell standard error from output"
is "$(hearth logs "$id" --rank 2 --grep 'line 7\d ' | wc -l)" 10 "--grep"
is "$(hearth metrics "$id" loss --points 0 --json | jq -c '[.points | length, .[0][2], .[-1][2]]')" '[300,1,0.0033]' "metrics: all that was printed"
like "$(hearth metrics "$id")" "loss" "also for people"
cluster_clean "after the job"

# --- job and node are gone ---------------------------------------------------------------------------------------------
streams="rank-0 rank-1 rank-2 rank-3 mpirun setup-algo-1 setup-algo-2 system-algo-1 system-algo-2"
for s in $streams; do log "$s" >"$seen/before-$s"; done
cluster_power_off host2
gone() { ! cluster_node_up host2; }
ok "the node is gone" wait_until 40 gone
cluster_signal hearthd KILL
wait_until 5 cluster_gone hearthd
cluster_hearthd
for s in $streams; do
	[ -s "$seen/before-$s" ] || [ "$s" = mpirun ]
	tap_result $? "$s has something in it"
	ok "and is still readable, unchanged" cmp <(log "$s") "$seen/before-$s"
done
is "$(log "rank-3?follow=1" | cksum)" "$(cksum <"$seen/raw3")" "following it ends at once, complete"
like "$(hearth logs "$id" --node host2 | head -n 1)" "rank 2 line 1 " "by the name of the machine that is gone"
cluster_down
done_testing
