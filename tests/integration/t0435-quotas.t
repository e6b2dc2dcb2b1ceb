#!/bin/bash
# hearthd's data folder is on a small disk, and a job prints `yes` without end: other jobs run, end and are
# recorded, also those of another account. The job learns why its log has a hole.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
small_disk() { mkdir -p "$CLUSTER/head/data" && mount -t tmpfs -o mode=711,size=96m tmpfs "$CLUSTER/head/data"; }
CLUSTER_FOLDERS_HOOK=small_disk
CLUSTER_HEARTHD_ARGS=(--set lease=5s --set beat=250ms --set max_series_job=20)
cluster_up 2 || bail "no cluster"
data=$CLUSTER/head/data
at_end() {
	local mounted=$CLUSTER
	for host in host1 host2 head; do kill -KILL "$(cat "$CLUSTER/$host/pid1")" 2>/dev/null; done
	wait_until 10 umount "$mounted/head/data"
	cluster_down
}
trap at_end EXIT
cluster_hearth --slots 4 --min-uid 0 || bail "no cluster"
submit() { # NAME COMMAND: id
	printf '{"name": "%s", "launcher": "direct", "limits": {"grace_s": 1}, "retry": {"max_attempts": 0}, "command": ["/bin/sh", "-c", "%s"]%s}\n' "$1" "$2" "${3:-}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
ended() { wait_until "${2:-30}" eval "case \$(show $1 .status) in completed|failed|stopped) : ;; *) false ;; esac"; }
free_kib() { df --output=avail -k "$data" | tail -n 1; }
events() { hearth events "$1" --json; }

yes=$(submit yes 'echo first line; exec yes')
ok "a job prints without end" wait_until 60 eval '[ "$(hearth logs "$yes" --list --json | jq ".streams[] | select(.stream == \"rank-0\") | .size")" -gt 200000000 ]'
least=$(free_kib)
for n in 1 2 3 4 5 6; do
	id=$(submit "other$n" "echo this is other$n; exit $n") || id=none
	ended "$id"
	is "$(show "$id" '"\(.status) \(.exit_code)"')" "failed $n" "neighbour $n runs and ends meanwhile, and its end is on record"
	is "$(hearth logs "$id")" "this is other$n" "with its log"
	[ "$(free_kib)" -ge "$least" ] || least=$(free_kib)
done
is "$(show "$yes" .status)" running "the job still prints"
ok "the disk never came near its end (least $least KiB)" test "$least" -gt 1500
like "$(events "$yes")" '"over_quota"' "its events say that its log is not whole"
is "$(events "$yes" | grep -c '"over_quota"')" 1 "once"
like "$(events "$yes")" 'the disk of hearthd is nearly full; hearthd stores its beginning and its newest part' "and why"
printf '{"name": "daemons", "launcher": "direct", "limits": {"grace_s": 1}, "retry": {"max_attempts": 0}, "command": ["/bin/sh", "-c", "id -un; echo result >$SM_MODEL_DIR/result; exit 7"]}\n' >"$CLUSTER/daemons.json"
chmod 644 "$CLUSTER/daemons.json"
id=$(cluster_as daemon submit "$CLUSTER/daemons.json") || id=none
ended "$id"
is "$(show "$id" '"\(.owner) \(.status) \(.exit_code)"')" "daemon failed 7" "a neighbour of another account runs and ends, and its end is on record"
is "$(cluster_as daemon logs "$id")" "daemon" "with its log"
is "$(hearth get "$id" model "$CLUSTER/got" >/dev/null && cat "$CLUSTER/got/result")" result "and with its output"
hearth stop "$yes" >/dev/null
ended "$yes" 90
is "$(show "$yes" .status)" stopped "it is stopped as ever"
hearth logs "$yes" >"$CLUSTER/log" 2>/dev/null
is "$(head -n 1 "$CLUSTER/log")" "first line" "its first line is there"
is "$(grep -c '^\[hearth: [0-9]* bytes are missing here: the log is longer than its limit\]$' "$CLUSTER/log")" 1 "a line says how much is missing"
is "$(tail -n 1 "$CLUSTER/log")" y "its newest lines are there"
is "$(grep -vc '^y*$' "$CLUSTER/log")" 2 "and nothing else"
nok "the store never failed" grep -q event=store_failed "$CLUSTER/hearthd.log"

# --- series -----------------------------------------------------------------------------------------------------------
id=$(submit series 'for i in $(seq 50); do echo m$i=$i; done; sleep 2' ', "metrics": [{"name": "v", "regex": "m7=([0-9]+)"}]')
ended "$id"
is "$(show "$id" .status)" completed "a job with a metric is not touched"
like "$("$HEARTHD" --data "$data" --verify)" '^0 findings' "the records are sound"
at_end
done_testing
