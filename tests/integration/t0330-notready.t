#!/bin/bash
# A node that never gets ready is named within a bounded time and replaced by another; the job then runs, and events, show and logs tell it.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set prepare_timeout=4s --set lease=3s --set beat=250ms)
cluster_up 3 && cluster_hearth || bail "no cluster"
mkdir -p "$CLUSTER/src"
head -c 3000000 /dev/urandom >"$CLUSTER/src/big"

submit() { # NAME MEMBERS...
	printf '{"name": "%s", "command": ["/bin/sh", "-c", "echo rank $RANK"], "limits": {"grace_s": 1}, "resources": {"instances": 2}, %s}\n' "$1" "${*:2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
# replaced JOB WHAT: it ran in its second attempt, on the nodes that are left, and every view of it names host2
replaced() {
	is "$(show "$1" .status)" completed "$2: the job ends well"
	is "$(show "$1" '[.attempts[] | .nodes | join("+")] | join(" ")')" "host1+host2 host1+host3" "$2: host2 was replaced by host3"
	like "$(show "$1" '.attempts[0].reason')" "host2" "$2: show names it"
	like "$(hearth show "$1")" "host2" "$2: so does show for people"
	like "$(hearth events "$1")" "host2.*($3)" "$2: and its events, with the reason"
	is "$(hearth logs "$1" --rank 1)" "rank 1" "$2: the log is that of the second attempt"
}
# Others would be preferred to a node that gave trouble, until somebody has looked at it.
trust() { hearth node drain host2 >/dev/null && hearth node resume host2 >/dev/null; }
by() { # SECONDS JOB: the job gets another attempt within that time
	wait_until "$1" eval "[ \"\$(show $2 '.attempts | length')\" = 2 ]"
	tap_result $? "job $2 is tried elsewhere within $1 s" || :
}

# --- an agent that stands still: it took the order, or never reads it ------------------------------------------------
for launcher in direct mpirun; do
	cluster_signal agent-host2 STOP
	id=$(submit "frozen-$launcher" '"launcher": "'$launcher'"')
	by 30 "$id"
	hearth wait "$id" --timeout 40 >/dev/null
	replaced "$id" "a frozen agent ($launcher)" "no progress|no sign of life"
	cluster_signal agent-host2 CONT
	wait_until 20 cluster_node_up host2 || bail "host2 does not come back"
	trust
done

# --- staging that hangs on one node ------------------------------------------------------------------------------------
cat >"$CLUSTER/serve.py" <<'P'
# Serves a few bytes; to host2 it sends half of them and no more.
import http.server, socketserver, threading
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"01234")
        self.wfile.flush()
        if self.client_address[0] == "10.77.0.2":
            threading.Event().wait(60)
            return
        self.wfile.write(b"56789")
    do_HEAD = do_GET
    def log_message(self, *a):
        pass
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
s = S(("10.77.0.200", 8080), H)
print("up", flush=True)
s.serve_forever()
P
cluster_spawn head serve /usr/bin/python3 "$CLUSTER/serve.py"
wait_until 10 grep -q up "$CLUSTER/serve.log"
wait_until 10 cluster_node_up host2
id=$(submit hangs '"launcher": "direct", "inputs": {"data": {"uri": "http://10.77.0.200:8080/data.bin"}}')
by 12 "$id"
hearth wait "$id" --timeout 40 >/dev/null
replaced "$id" "an input that hangs" "progress|ready"
like "$(hearth nodes --json | jq -c '[.nodes[] | select(.name == "host2") | .doubt > 0, .trouble.launches]')" "true,1" "it is doubted now"
trust
is "$(hearth nodes --json | jq -c '[.nodes[] | select(.name == "host2") | .doubt, .trouble]')" "[0,null]" "until it was drained and resumed"

# --- staging that fails on one node ------------------------------------------------------------------------------------
mkdir -p "$CLUSTER/host2/data/jobs"
cluster_in host2 mount -t tmpfs -o size=1m tmpfs "$CLUSTER/host2/data/jobs"
cluster_mounts host2 >"$CLUSTER/host2/mounts"
id=$(submit full '"launcher": "mpirun", "source_dir": "'"$CLUSTER"'/src"')
by 10 "$id"
hearth wait "$id" --timeout 40 >/dev/null
replaced "$id" "a full disk" "No space|disk|space"

# --- no other node: it waits, and why says for what ------------------------------------------------------------------------
printf '{"name": "all", "command": ["/bin/true"], "launcher": "direct", "resources": {"instances": 3}, "source_dir": "%s/src"}\n' "$CLUSTER" >"$CLUSTER/all.json"
id=$(hearth submit "$CLUSTER/all.json")
wait_until 20 eval "show $id '.status' | grep -Eq 'queued|failed'"
like "$(show "$id" '.status + " " + (.reason // "")') $(hearth why "$id")" "host2" "with no node in its place the job says which node is the cause"
hearth stop "$id" >/dev/null
hearth wait "$id" --timeout 20 >/dev/null
cluster_clean "at the end"
cluster_down
done_testing
