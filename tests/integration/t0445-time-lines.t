#!/bin/bash
# A backup is restored after more jobs: the next jobs have numbers, logs and outputs of their own, and what
# runs of the lost time line is ended. The same with a new data folder, and with a copy of the data folder.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=5s --set beat=250ms)
cluster_up 2 && cluster_hearth --slots 4 || bail "no cluster"
data=$CLUSTER/head/data
mkdir -p "$CLUSTER/src"

submit() { # NAME COMMAND: id
	printf '{"name": "%s", "launcher": "direct", "limits": {"grace_s": 1}, "command": ["/bin/sh", "-c", "%s"]}\n' "$1" "$2" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
says() { submit "$1" "echo log of $1; echo output of $1 >\$SM_MODEL_DIR/out"; }
model() { # JOB: the content of its model
	rm -rf "$CLUSTER/got" && hearth get "$1" model "$CLUSTER/got" >/dev/null && cat "$CLUSTER/got/out"
}
ended() { wait_until 60 eval "case \$(show $1 .status) in completed|failed|stopped) : ;; *) false ;; esac"; }
ranks_on() { cluster_in "$1" pgrep -cf 'sleep 6789' || :; }
down() {
	cluster_signal hearthd "${1:-KILL}"
	wait_until 20 cluster_gone hearthd
}
restore() { # FILE
	rm -f "$data/hearth.db"*
	cp "$1" "$data/hearth.db"
}
begun() { grep -c 'event=incarnation number=' "$CLUSTER/hearthd.log" || :; }

first=$(says first)
ended "$first"
printf '{"name": "held", "launcher": "direct", "command": ["/bin/sh", "-c", "echo attempt of held"]}\n' >"$CLUSTER/held.json"
held=$(hearth submit --hold "$CLUSTER/held.json")
ok "a backup" "$HEARTHD" --data "$data" --backup "$CLUSTER/backup.db"

# --- three more jobs, one that runs, and three attempts of a job that the backup has ----------------------------
lost=()
for n in 1 2 3; do
	id=$(says "lost$n")
	lost+=("$id")
	ended "$id"
	is "$(hearth logs "$id")" "log of lost$n" "job $id of the lost time line has its log"
done
runs=$(submit runs 'sleep 6789')
wait_until 60 eval '[ "$(ranks_on host1)$(ranks_on host2)" != 00 ]'
hearth release "$held" >/dev/null
ended "$held"
down KILL
restore "$CLUSTER/backup.db"
cluster_hearthd || bail "hearthd does not start with the backup"
for host in host1 host2; do wait_until 30 cluster_node_up "$host"; done

# --- after the restore -------------------------------------------------------------------------------------------
is "$(begun)" 1 "a new incarnation begins"
like "$(grep 'event=incarnation number=' "$CLUSTER/hearthd.log")" 'text="the database is a backup of 20' "and hearthd says why"
ok "the rank of a job that is not on record is ended" wait_until 30 eval '[ "$(ranks_on host1)$(ranks_on host2)" = 00 ]'
nok "its number is unknown" hearth show "$runs"
new=()
for n in 1 2 3; do
	id=$(says "new$n")
	new+=("$id")
	ended "$id"
	is "$(show "$id" .status)" completed "job $id after the restore ends well"
	is "$(hearth logs "$id")" "log of new$n" "it has its own log"
	is "$(model "$id")" "output of new$n" "and its own output"
done
ok "no number is given twice" test "${new[0]}" -gt "$runs"
is "$(model "$first")" "output of first" "what the backup knows is there"
is "$(hearth logs "$first")" "log of first" "with its log"
hearth release "$held" >/dev/null
ended "$held"
is "$(show "$held" '"\(.status) \(.attempts | length)"')" "completed 1" "nodes accept the first attempt of a job that had others"
is "$(hearth logs "$held")" "attempt of held" "and its log is its own"
ok "its epoch is of the new incarnation" test "$(show "$held" '.attempts[0].epoch')" -gt 4194304
nok "no order was too old for a node" grep -q event=old_order "$CLUSTER"/agent-host[12].log
is "$(ls "$data/lost/1/logs" 2>/dev/null | sort -n | xargs)" "$held ${lost[*]} $runs" "the lost logs are set aside"
like "$(cluster_in head curl -s --max-time 3 --unix-socket "$data/hearthd.sock" 'http://h/api/v1/stream?after=0')" '"type":"incarnation".*backup of' "an event tells of it"
like "$("$HEARTHD" --data "$data" --verify)" '^0 findings' "the records are sound"

# --- further starts ------------------------------------------------------------------------------------------------
down KILL
cluster_hearthd || bail "hearthd does not start again"
is "$(begun)" 1 "a restart begins none"
down TERM
cp "$data/hearth.db" "$CLUSTER/plain.db"
cluster_hearthd || bail "hearthd does not start again"
wait_until 30 cluster_node_up host1
id=$(says plain)
ended "$id"
down KILL
restore "$CLUSTER/plain.db"
cluster_hearthd || bail "hearthd does not start with a plain copy"
is "$(begun)" 2 "a copy by other tools is older than the high-water mark"
like "$(grep 'event=incarnation number=2' "$CLUSTER/hearthd.log")" "older than DATA/high-water" "and hearthd says so"
wait_until 30 cluster_node_up host1
next=$(says next)
ended "$next"
is "$(hearth logs "$next")" "log of next" "the next job has its own log"
ok "and a number above" test "$next" -gt "$id"

# --- the database in a new data folder, and a data folder that was copied -----------------------------------------------
alone() { # DIR NAME: the number of the next job there
	cluster_spawn head "$2" "$HEARTHD" --data "$1" --listen 127.0.0.1:0
	wait_until 20 test -S "$1/hearthd.sock"
	wait_until 20 eval "cluster_in head curl -sf --unix-socket $1/hearthd.sock http://h/api/v1/nodes >/dev/null"
	cluster_in head curl -s --unix-socket "$1/hearthd.sock" -H 'Content-Type: application/json' \
		-d '{"spec": {"name": "n", "command": ["/bin/true"]}}' http://h/api/v1/jobs | jq .id
	cluster_signal "$2" TERM
	wait_until 20 cluster_gone "$2"
}
mkdir "$CLUSTER/fresh" && cp "$CLUSTER/plain.db" "$CLUSTER/fresh/hearth.db"
ok "with no other file of DATA numbers begin far above" test "$(alone "$CLUSTER/fresh" fresh)" -gt 1000000
like "$(cat "$CLUSTER/fresh.log")" 'event=incarnation number=[0-9]+ .*DATA/incarnation is missing' "because nobody knows the last one"
down TERM
cp -a "$data" "$CLUSTER/copy"
ok "so do they in a copy of DATA" test "$(alone "$CLUSTER/copy" copy)" -gt 1000000
like "$(cat "$CLUSTER/copy.log")" 'event=incarnation .*copied from another place' "and hearthd says why"
before=$(begun)
cluster_hearthd || bail "hearthd does not start again"
is "$(begun)" "$before" "the folder itself goes on as it was"
cluster_down
done_testing
