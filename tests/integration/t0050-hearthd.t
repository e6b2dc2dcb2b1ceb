#!/bin/bash
# hearthd alone: its folder and lock, settings, restarts by kill -9, a store that fails, verify and backup.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
hearthd=${HEARTH_TOP_BUILDDIR:?}/controller/hearthd
dir=$(mktemp -d) || bail "no folder"
data=$dir/d
pid=

cleanup() {
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT
call() { # METHOD PATH [BODY]
	curl -s --max-time 10 --unix-socket "$data/hearthd.sock" -X "$1" -H 'Content-Type: application/json' ${3:+-d "$3"} "http://h/api/v1$2"
}
status() { # METHOD PATH [BODY]: the HTTP status alone
	curl -s --max-time 10 -o /dev/null -w '%{http_code}' --unix-socket "$data/hearthd.sock" -X "$1" -H 'Content-Type: application/json' ${3:+-d "$3"} "http://h/api/v1$2"
}
metric() { curl -s --max-time 10 --unix-socket "$data/hearthd.sock" http://h/metrics | awk -v name="$1" '$1 == name {print $2}'; }
answers() { [ "$(status GET /nodes)" = 200 ]; }
start() {
	"$hearthd" --data "$data" --listen 127.0.0.1:0 >>"$dir/log" 2>&1 &
	pid=$!
	wait_until 20 answers
}
ends() { ! kill -0 "$pid" 2>/dev/null; }
spec='{"spec": {"name": "n", "command": ["/bin/true"]}}'

like "$("$hearthd" --version)" '^hearthd [0-9]' "--version"
like "$("$hearthd" --help)" 'Usage: hearthd' "--help"
"$hearthd" >/dev/null 2>&1
is $? 2 "without --data: usage"
like "$("$hearthd" --data "$data" --set lease=never 2>&1)" 'lease' "a setting that is none is named"
like "$("$hearthd" --data "$data" --config /no/such 2>&1)" '/no/such' "a configuration file that is not there, too"
like "$("$hearthd" --data "$data" --set backfill=moon 2>&1)" 'backfill: unknown value "moon"; expected none, easy or conservative' "so is a way of backfill that is none"
like "$("$hearthd" --show-config --set lease=20s)" 'lease = 20s' "--show-config"
start
tap_result $? "it starts"
is "$(stat -c %a "$data")" 700 "its folder is its owner's"
is "$(stat -c %a "$data/admin.token")" 600 "so is the token"
is "$(stat -c %a "$data/ca.key")" 600 "and the authority's key"
like "$("$hearthd" --data "$data" --listen 127.0.0.1:0 2>&1)" "in use" "a second one in the same folder is refused"
like "$(call POST /jobs "$spec")" '"id":1' "a job is taken"
like "$(call GET /jobs/1/why)" 'no node has joined yet' "and says why it waits"
like "$(metric hearth_turns_total)" '^[1-9][0-9]*$' "turns of its loop are counted"
like "$(metric hearth_turn_longest_us)" '^[1-9][0-9]*$' "the longest of the last seconds is told"
like "$(metric hearth_turns_late_total)" '^[0-9]+$' "and how many were late"
is "$(status POST /jobs '{"spec": {"command": ["/bin/true"], "nmae": "x"}}')" 400 "an unknown key is refused"

for _ in 1 2 3; do
	call POST /jobs "$spec" >/dev/null
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	start || bail "it does not start again"
done
like "$(call GET /jobs/4)" '"status":"queued"' "what was acknowledged is there after kill -9"
like "$(call POST /jobs "$spec")" '"id":5' "numbers go on"
ok "verify beside the running one finds nothing" "$hearthd" --data "$data" --verify
ok "backup beside it" "$hearthd" --data "$data" --backup "$dir/copy.db"
nok "not over a file that is there" "$hearthd" --data "$data" --backup "$dir/copy.db"
mkdir "$dir/c" && cp "$dir/copy.db" "$dir/c/hearth.db"
ok "the copy verifies" "$hearthd" --data "$dir/c" --verify
like "$(call POST /jobs/5/stop '{}')" '"status":"stopped"' "a waiting job is stopped at once"
kill -TERM "$pid"
ok "SIGTERM ends it" wait_until 20 ends
wait "$pid"
is $? 0 "in order"

# --- an end in the middle of submits -------------------------------------------------------------------------------------
# The database is held, so that one submit is with the store, and others gather behind it, when SIGTERM comes.
start || bail "it does not start again"
: >"$dir/log"
coproc HOLD { python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
db.execute("ROLLBACK")' "$data/hearth.db"; }
read -r held <&"${HOLD[0]}"
is "$held" held "the database is held"
later() { # NAME: a submit, its status goes to a file
	curl -sv --max-time 60 -o /dev/null -w '%{http_code}' --unix-socket "$data/hearthd.sock" -X POST -H 'Content-Type: application/json' -d "$spec" http://h/api/v1/jobs \
		>"$dir/$1.status" 2>"$dir/$1.trace" &
}
sent() { grep -q '^> POST' "$dir/$1.trace"; }
answered() { [ -s "$dir/$1.status" ]; }
later first
wait_until 30 sent first
for i in 1 2 3; do
	later "next$i"
	wait_until 30 sent "next$i"
done
kill -TERM "$pid"
ok "SIGTERM: what was not given to the store is answered at once" wait_until 30 answered next3
is "$(cat "$dir"/next?.status)" 503503503 "with 503"
echo go >&"${HOLD[1]}"
ok "it ends" wait_until 30 ends
wait "$pid"
is $? 0 "in order"
wait_until 30 answered first
is "$(cat "$dir/first.status")" 201 "what the store had is acknowledged"
unlike "$(cat "$dir/log")" 'store_failed|reload|store is being closed' "and nothing of it is taken for a failing store"
start || bail "it does not start again"
like "$(call GET /jobs?limit=1)" '"id":6,' "the acknowledged one is there, and no other"
kill -TERM "$pid"
wait_until 30 ends

if HEARTH_FAULTS=none=1 "$hearthd" --data "$dir/probe" --show-config 2>&1 | grep -q 'unknown failpoint'; then
	like "$(HEARTH_FAULTS=data.nfs=1x9 "$hearthd" --data "$dir/nfs" 2>&1)" 'nfs is on NFS, .*--set network_data=yes' \
		"a data folder on a network file system is refused"
	HEARTH_FAULTS='store.commit=2x6' start # search tables written behind may take some of the six
	call POST /jobs "$spec" >/dev/null
	code=$(status POST /jobs "$spec")
	like "$code" '^5' "a write that fails is not acknowledged ($code)"
	is "$(status GET /jobs/1)" 200 "questions are answered"
	again() { [ "$(status POST /jobs "$spec")" = 201 ]; }
	ok "when it works again jobs are taken" wait_until 10 again
	kill -TERM "$pid"
	wait_until 20 ends
	ok "nothing is half there" "$hearthd" --data "$data" --verify
else
	skip "a failing store" "built without failpoints"
fi
done_testing
