#!/bin/bash
# What goes into a job and what comes out of it: inputs of every kind, cut and resumed, requirements offline, outputs, records of the source, and the verbs on them;
# the store copied while jobs run.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set keep_logs=1s)
cluster_up 2 && cluster_hearth --slots 4 || bail "no cluster"
src=$CLUSTER/src data=$CLUSTER/in
mkdir -p "$src" "$data/sub" "$CLUSTER/www" "$CLUSTER/results"
echo one >"$data/a" && echo two >"$data/sub/b"
head -c 3000000 /dev/urandom >"$CLUSTER/www/big.bin"
sum=$(sha256sum <"$CLUSTER/www/big.bin" | cut -d' ' -f1)
cat >"$CLUSTER/serve.py" <<'P'
# A server that breaks off the first answer in the middle, and understands Range. Logs each request.
import http.server, os, re, socketserver, sys
body = open(os.path.join(sys.argv[1], "big.bin"), "rb").read()
state = {"first": True}
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        at = 0
        m = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        print(self.command, self.path, self.headers.get("Range", "-"), flush=True)
        if self.path != "/big.bin":
            self.send_error(404)
            return
        if m:
            at = int(m.group(1))
            self.send_response(206)
            self.send_header("Content-Range", "bytes %d-%d/%d" % (at, len(body) - 1, len(body)))
        else:
            self.send_response(200)
        self.send_header("ETag", '"v1"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body) - at))
        self.end_headers()
        if state["first"]:
            state["first"] = False
            self.wfile.write(body[at:at + 1000000])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(body[at:])
    def log_message(self, *a):
        pass
class S(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
s = S(("10.77.0.200", 8080), H)
print("up", flush=True)
s.serve_forever()
P
cluster_spawn head serve /usr/bin/python3 "$CLUSTER/serve.py" "$CLUSTER/www"
wait_until 10 grep -q up "$CLUSTER/serve.log"

submit() { # NAME MEMBERS...
	printf '{"name": "%s", "launcher": "direct", "retry": {"capacity": 1}, %s}\n' "$1" "${*:2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
run() { # NAME MEMBERS...: runs to its end; id in $id, log of rank 0 in $log
	id=$(submit "$@") || return 1
	hearth wait "$id" --timeout 60 >/dev/null
	log=$(hearth logs "$id")
}

# --- inputs ----------------------------------------------------------------------------------------------------------
run copy '"command": ["/bin/sh", "-c", "cat $SM_CHANNEL_D/a $SM_CHANNEL_D/sub/b; test -L $SM_CHANNEL_D && echo link; echo changed >$SM_CHANNEL_D/a"], "inputs": {"d": {"uri": "file://'"$data"'"}}'
is "$log" "one
two" "a folder is copied"
is "$(cat "$data/a")" one "what the job does to its copy is its own affair"
run link '"command": ["/bin/sh", "-c", "cat $SM_CHANNEL_D/a; test -L $SM_CHANNEL_D && echo link"], "inputs": {"d": {"uri": "file://'"$data"'", "mode": "link"}}'
is "$log" "one
link" "a link is used where it lies"
run http '"command": ["/bin/sh", "-c", "sha256sum <$SM_CHANNEL_D/big.bin"], "inputs": {"d": {"uri": "http://10.77.0.200:8080/big.bin", "sha256": "'"$sum"'"}}'
is "${log%% *}" "$sum" "a download that was cut off in the middle is whole"
like "$(cat "$CLUSTER/serve.log")" 'bytes=1000000-' "because it went on where it was"
like "$(hearth logs "$id" --stream setup --node 1)" 'big.bin' "the setup stream tells of it"
before=$(grep -c GET "$CLUSTER/serve.log")
run again '"command": ["/bin/sh", "-c", "sha256sum <$SM_CHANNEL_D/big.bin"], "inputs": {"d": {"uri": "http://10.77.0.200:8080/big.bin", "sha256": "'"$sum"'"}}'
is "${log%% *} $(grep -c GET "$CLUSTER/serve.log")" "$sum $before" "with a checksum the network is not asked twice"
run badsum '"command": ["/bin/true"], "inputs": {"d": {"uri": "http://10.77.0.200:8080/big.bin", "sha256": "'"$(printf '0%.0s' $(seq 64))"'"}}'
like "$(show "$id" '.status + " " + .reason')" 'failed .*(checksum|sha256|SHA-256)' "a wrong checksum ends the job, and says so"
run missing '"command": ["/bin/true"], "inputs": {"d": {"uri": "http://10.77.0.200:8080/none"}}'
like "$(show "$id" '.status + " " + .reason')" 'failed .*404' "so does a 404"

# --- outputs ---------------------------------------------------------------------------------------------------------
maker='"command": ["/bin/sh", "-c", "echo weights >$SM_MODEL_DIR/w; echo report >$SM_OUTPUT_DATA_DIR/r"]'
run kept "$maker"
kept=$id
ok "a model in hearthd's store is fetched" hearth get "$kept" model "$CLUSTER/got"
is "$(cat "$CLUSTER/got/w")" weights "as it was"
run uri "$maker"', "output_uri": "file://'"$CLUSTER"'/results/"'
is "$(cat "$CLUSTER/results/$id/model/w")" weights "output_uri: the model lies there"
stored=$id
for from in "$kept" "$stored"; do
	run "from-$from" '"command": ["/bin/sh", "-c", "cat $SM_CHANNEL_BASE/w"], "inputs": {"base": {"uri": "job:'"$from"'/model"}}'
	is "$log" weights "the model of job $from is another job's input"
done

echo x >"$CLUSTER/plain"
run nowhere '"command": ["/bin/sh", "-c", "echo ran"], "output_uri": "file://'"$CLUSTER"'/plain"'
like "$(show "$id" '.status + " " + .reason')" 'failed .*output_uri.*/plain is not a folder' "an output_uri that takes nothing ends the job, and says so"
is "$(show "$id" '.attempts | map(.class) | join(" ")') $(show "$id" '[.attempts[].phases[].name] | index("running")')" "user_error null" "by its owner's fault, before anything ran"
mkdir -m 0777 "$CLUSTER/share"
for host in host1 host2; do cluster_in "$host" mount -t tmpfs -o ro tmpfs "$CLUSTER/share"; done
run unmounted "$maker"', "output_uri": "file://'"$CLUSTER"'/share/"'
like "$(show "$id" '.status + " " + .reason')" 'failed .*output_uri.*/share/ cannot be written' "one that no node can write ends the job, too"
like "$(show "$id" '.attempts | map(.class) | unique | join(" ")') $(show "$id" '[.attempts[].nodes[]] | unique | length')" '^staging 2$' "after both nodes were tried"
cluster_in host2 umount "$CLUSTER/share"
run mounted "$maker"', "output_uri": "file://'"$CLUSTER"'/share/"'
is "$(show "$id" .status) $(cat "$CLUSTER/share/$id/model/w")" "completed weights" "one that one node can write is written there"
cluster_in host1 umount "$CLUSTER/share"
run steps '"command": ["/bin/sh", "-c", "mkdir $HEARTH_CHECKPOINT_DIR/step-100 && echo hundred >$HEARTH_CHECKPOINT_DIR/step-100/w"], "output_uri": "file://'"$CLUSTER"'/results/"'
from=$id
run resumed '"command": ["/bin/sh", "-c", "cat $HEARTH_RESUME_FROM/w"], "resume_from": "job:'"$from"'@100"'
is "$(hearth logs "$id")" hundred "a step of a checkpoint at an output_uri is resumed from"
run nostep '"command": ["/bin/sh", "-c", "echo ran"], "resume_from": "job:'"$from"'@200"'
like "$(show "$id" '.status + " " + .reason')" 'failed .*holds no step 200; there is 100' "one that is not there ends the job, with those that are"

# --- the source and its record -------------------------------------------------------------------------------------------
echo 'print("version 1")' >"$src/train.py"
git -C "$src" init -q && git -C "$src" -c user.name=t -c user.email=t@example.org add -A && git -C "$src" -c user.name=t -c user.email=t@example.org commit -qm one
echo 'print("version 2")' >"$src/train.py"
run source '"command": ["/usr/bin/python3", "train.py"], "source_dir": "'"$src"'", "hyperparameters": {"lr": 0.1}'
first=$id
is "$log" "version 2" "what lies in the folder runs"
echo 'print("version 3")' >"$src/train.py"
record=$(show "$first" '[.. | strings] | join("\n")')
like "$record" "$(git -C "$src" rev-parse HEAD)" "the commit is on record"
like "$record" '\+print\("version 2"\)' "and the uncommitted difference"
ok "get code" hearth get "$first" code "$CLUSTER/code"
is "$(cat "$CLUSTER/code/train.py")" 'print("version 2")' "is the code that ran"
clone=$(hearth clone "$first" --set hyperparameters.lr=0.2)
hearth wait "$clone" --timeout 60 >/dev/null
is "$(hearth logs "$clone")" "version 2" "a clone runs the source of the first, not what lies there now"
like "$(hearth diff "$first" "$clone")" 'hyperparameters.lr +0.1 +0.2' "diff tells what differs"
loop=$(submit loop '"command": ["/bin/sh", "-c", "echo attempt $HEARTH_ATTEMPT; exec sleep 300"], "limits": {"grace_s": 1}')
hearth wait "$loop" --for running --timeout 20 >/dev/null
ok "requeue of a running job" hearth requeue "$loop"
ok "begins a second attempt" wait_until 30 eval '[ "$(hearth logs "$loop" 2>/dev/null)" = "attempt 2" ]'
is "$(hearth logs "$loop" --attempt 1)" "attempt 1" "the first one's log stays"

# --- copies of the store while jobs run ------------------------------------------------------------------------------------
for _ in 1 2 3 4 5 6 7 8; do submit bg '"command": ["/bin/sh", "-c", "echo hello"]' >/dev/null; done
copy=$CLUSTER/copy
mkdir "$copy"
ok "an online backup while jobs run" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --backup "$copy/hearth.db"
ok "the copy verifies" cluster_in head "$HEARTHD" --data "$copy" --verify
is "$(show "$loop" .status)" running "the jobs were not disturbed"
hearth stop "$loop" >/dev/null
hearth wait "$loop" --timeout 30 >/dev/null

# --- what goes ---------------------------------------------------------------------------------------------------------------
ok "pin" hearth pin "$kept"
ok "rm" hearth rm --yes "$stored"
nok "its log is gone" hearth logs "$stored"
is "$(show "$stored" .status)" completed "its record stays"
ok "age removes logs" wait_until 90 eval '! hearth logs "$first"'
like "$(hearth logs "$first" 2>&1)" 'the logs of job [0-9]+ were removed by retention on 20[0-9-]+' "which is what one is told"
like "$(hearth logs "$stored" 2>&1)" 'the logs of job [0-9]+ were removed($|[^ ])' "of the other one that it was removed"
like "$(hearth show "$first")" 'removed +logs by retention on 20' "show says the same"
is "$(hearth get "$kept" model "$CLUSTER/got2" >/dev/null && cat "$CLUSTER/got2/w")" weights "but nothing of a pinned one"
ok "whose log is there, too" hearth logs "$kept" --stream system --node 1

# --- a job that asks hearthd -----------------------------------------------------------------------------------------------------
cat >"$src/child.py" <<'P'
import json, os, ssl, urllib.request
r = urllib.request.Request(os.environ["HEARTH_URL"] + "/api/v1/jobs", json.dumps({"spec": json.dumps({"name": "child", "command": ["/bin/echo", "born"], "launcher": "direct"})}).encode(),
                           {"Authorization": "Bearer " + os.environ["HEARTH_TOKEN"], "Content-Type": "application/json", "Idempotency-Key": "child"})
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
print(json.load(urllib.request.urlopen(r, context=context))["id"])
P
run parent '"command": ["/usr/bin/python3", "child.py"], "source_dir": "'"$src"'"'
like "$log" '^[0-9]+$' "a job submits a child with its own token"
hearth wait "$log" --timeout 30 >/dev/null
is "$(hearth logs "$log")" born "which runs"
is "$(show "$log" .owner)" "$(show "$id" .owner)" "as the same owner"
cluster_clean "at the end"
cluster_down
done_testing
