#!/bin/bash
# What comes from outside and is wrong: refused with HTTP status, problem+json, what and where, and jobctl's exit code; keys of idempotency across a restart.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
hearthd=${HEARTH_TOP_BUILDDIR:?}/controller/hearthd
jobctl=$HEARTH_TOP_BUILDDIR/jobctl/jobctl
command -v curl >/dev/null && command -v jq >/dev/null || skip_all "curl or jq is missing"
dir=$(mktemp -d /tmp/hrXXXXXX) || bail "no folder"
pid=
cleanup() {
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null
	rm -rf "$dir"
}
trap cleanup EXIT
sock=$dir/d/hearthd.sock
answers() { [ "$(curl -s --max-time 5 -o /dev/null -w '%{http_code}' --unix-socket "$sock" http://h/api/v1/nodes)" = 200 ]; }
start() {
	"$hearthd" --data "$dir/d" --listen 127.0.0.1:0 >>"$dir/log" 2>&1 &
	pid=$!
	wait_until 20 answers || bail "hearthd does not start: $(tail -n 3 "$dir/log")"
}
# post PATH BODY ARGS...: STATUS, TYPE and ANSWER
post() {
	STATUS=$(curl -s --max-time 10 -o "$dir/answer" -w '%{http_code} %{content_type}' --unix-socket "$sock" -H 'Content-Type: application/json' --data-binary "$2" "${@:3}" "http://h/api/v1$1")
	TYPE=${STATUS#* } STATUS=${STATUS%% *} ANSWER=$(cat "$dir/answer")
}
# refused WANT REGEX DESCRIPTION SPEC: over HTTP, as the text of a specification
refused() {
	post /jobs "$(jq -cn --arg s "$4" '{spec: $s}')"
	is "$STATUS $TYPE $(jq -r .status <<<"$ANSWER")" "$1 application/problem+json $1" "$3: $1, a problem"
	like "$(jq -r '.detail + " " + ((.errors // []) | map(if type == "object" then tostring else . end) | join("; "))' <<<"$ANSWER")" "$2" "$3: what and where"
	unlike "$ANSWER" "$(printf '[\001-\010\013-\037]')" "$3: no control character comes back"
}
ctl() { # jobctl: RC and ERR
	ERR=$(HOME=$dir HEARTH_URL=unix://$sock "$jobctl" "$@" 2>&1 </dev/null)
	RC=$?
}
start
ok='"command": ["/bin/true"]'

# --- text ----------------------------------------------------------------------------------------------------------------
refused 400 'line 2 column [0-9]+' "broken JSON" "{$ok,
 \"name\": }"
refused 400 'line 1 column 1' "nothing at all" ""
refused 400 'name.*twice|twice.*name' "a key twice" "{$ok, \"name\": \"a\", \"name\": \"b\"}"
refused 400 'object' "a list in the place of the object" "[1, 2]"
refused 400 'deep' "far too deep" "$(printf '{"hyperparameters": {"a": %s1%s}}' "$(printf '[%.0s' $(seq 200))" "$(printf ']%.0s' $(seq 200))")"
post /jobs '{"spec": '
is "$STATUS $TYPE" "400 application/problem+json" "a body that breaks off"
post /jobs "{\"spec\": {$ok}, \"hodl\": true}"
like "$STATUS $ANSWER" '400 .*hodl.*hold' "an unknown key of the request, with the nearest"
like "$(curl -s --max-time 5 -o "$dir/answer" -w '%{http_code}' --unix-socket "$sock" -H 'Content-Type: text/plain' -d "{\"spec\": {$ok}}" http://h/api/v1/jobs)" \
	'^4' "a body that is no JSON by its own word"
head -c 3000000 /dev/zero | tr '\0' ' ' >"$dir/large"
post /jobs "@$dir/large"
is "$STATUS" 413 "a specification of 3 MB"

# --- types and values ------------------------------------------------------------------------------------------------------
refused 400 'command: expected a list' "a string for a list" '{"command": "true"}'
refused 400 'command\[1\]' "a number among strings" '{"command": ["a", 1]}'
refused 400 'resources.instances: .*(integer|whole)' "a fraction for an integer" "{$ok, \"resources\": {\"instances\": 1.5}}"
refused 400 'resources.instances' "a negative number" "{$ok, \"resources\": {\"instances\": -1}}"
refused 400 'resources.memory' "a size that is none" "{$ok, \"resources\": {\"memory\": \"much\"}}"
refused 400 'priority' "a number beyond all bounds" "{$ok, \"priority\": 1e300}"
refused 400 'launcher.*mpirun' "a launcher that is none; those there are" "{$ok, \"launcher\": \"ssh\"}"
refused 400 'nmae: unknown key; did you mean "name"' "an unknown key" "{$ok, \"nmae\": \"x\"}"
refused 400 'inputs.train.ur: unknown key; did you mean "uri"' "deep inside, too" "{$ok, \"inputs\": {\"train\": {\"ur\": \"file:///x\"}}}"
refused 400 'environment.RANK' "a variable that Hearth sets" "{$ok, \"environment\": {\"RANK\": \"0\"}}"
refused 400 'mpi_options' "an option that takes the start out of Hearth's hands" "{$ok, \"mpi_options\": [\"--mca\", \"plm_rsh_agent\", \"ssh\"]}"
refused 400 'metrics\[0\].regex' "a pattern that does not compile" "{$ok, \"metrics\": [{\"name\": \"a\", \"regex\": \"(\"}]}"
refused 400 'inputs.train.uri' "a scheme that is none" "{$ok, \"inputs\": {\"train\": {\"uri\": \"gopher://x/y\"}}}"
refused 404 'there is no job 1' "a wait for a job that is not there" "{$ok, \"after\": [1]}"
refused 422 'objective' "what is reserved but not built" "{$ok, \"objective\": \"cost\"}"

# --- names and paths ---------------------------------------------------------------------------------------------------------
for name in ../../etc .. a/../b /etc/passwd; do refused 400 'name' "the name $name" "{$ok, \"name\": \"$name\"}"; done
refused 400 'name' "a name with an escape sequence" "{$ok, \"name\": \"a\\u001b[31mred\"}"
refused 400 'name' "a name with a line end" "{$ok, \"name\": \"a\\nb\"}"
refused 400 '(NUL|zero|control|u0000)' "a NUL" "{$ok, \"notes\": \"a\\u0000b\"}"
refused 400 'inputs' "a channel with ../" "{$ok, \"inputs\": {\"../x\": {\"uri\": \"file:///x\"}}}"
refused 400 'inputs.x.uri' "an input with .." "{$ok, \"inputs\": {\"x\": {\"uri\": \"file:///data/../etc\"}}}"
refused 400 'output_uri' "an output with .." "{$ok, \"output_uri\": \"file:///a/../../b\"}"
refused 400 'requirements' "requirements outside of the source" "{$ok, \"requirements\": \"../r.txt\"}"
for path in '/jobs/../../etc/passwd' '/jobs/1/logs/..%2f..%2fpasswd' '/jobs/1/artifacts/..%2f/x' '/blobs/../x' '/nodes/..%2f'; do
	like "$(curl -s --path-as-is --max-time 5 -o "$dir/answer" -w '%{http_code}' --unix-socket "$sock" "http://h/api/v1$path")" '^4' "GET $path"
done

# --- jobctl says the same, by its exit code ------------------------------------------------------------------------------------
printf '{%s, "source_dir": "none"}' "$ok" >"$dir/s.json"
ctl submit "$dir/s.json"
like "$RC $ERR" '^2 .*source_dir: .*none: No such file' "a source_dir that is not there: 2"
printf '{%s, "source_dir": "private"}' "$ok" >"$dir/s.json"
mkdir "$dir/private" && touch "$dir/private/x" && chmod 0 "$dir/private/x"
ctl submit "$dir/s.json"
if [ "$(id -u)" -eq 0 ]; then is "$RC" 0 "root may read everything"; else like "$RC $ERR" '^[24] .*private: cannot open x: Permission denied' "a source that cannot be read is named"; fi
printf '{"comand": []}' >"$dir/s.json"
ctl submit "$dir/s.json"
like "$RC $ERR" '^2 .*comand: unknown key; did you mean "command"' "an unknown key: 2"
ctl show 4711
like "$RC $ERR" '^3 .*there is no job 4711' "no such job: 3"
ctl --url "unix://$dir/nobody" ls
like "$RC" '^[45]$' "nobody there"

# --- the same request twice ------------------------------------------------------------------------------------------------------
body="{\"spec\": {$ok}}" other="{\"spec\": {$ok, \"name\": \"other\"}}"
post /jobs "$body" -H 'Idempotency-Key: twice'
first=$(jq .id <<<"$ANSWER")
is "$STATUS" 201 "a request with a key"
post /jobs "$body" -H 'Idempotency-Key: twice'
is "$STATUS $(jq .id <<<"$ANSWER")" "201 $first" "again: the same answer, no other job"
post /jobs "$other" -H 'Idempotency-Key: twice'
is "$STATUS $TYPE" "409 application/problem+json" "with another body: a conflict"
like "$ANSWER" "twice.*job $first" "which names key and job"
kill -9 "$pid"
wait "$pid" 2>/dev/null
start
post /jobs "$body" -H 'Idempotency-Key: twice'
is "$STATUS $(jq .id <<<"$ANSWER")" "201 $first" "after kill -9 of hearthd: the same answer"
post /jobs "$other" -H 'Idempotency-Key: twice'
is "$STATUS" 409 "and the same conflict"
post /jobs "$other" -H 'Idempotency-Key: another'
is "$STATUS $(jq .id <<<"$ANSWER")" "201 $((first + 1))" "the next number was not used up"
post "/jobs/$first/stop" '{}' -H 'Idempotency-Key: stop'
is "$STATUS $(post "/jobs/$first/stop" '{}' -H 'Idempotency-Key: stop'; echo "$STATUS")" "200 200" "a change twice is one change"
post /jobs "$body" -H "Idempotency-Key: $(printf 'x%.0s' $(seq 200))"
is "$STATUS" 400 "a key that is too long"
is "$(curl -s --unix-socket "$sock" http://h/api/v1/jobs | jq '[.jobs[].id] | max')" "$((first + 1))" "nothing that was refused became a job"
ok "what is kept verifies" "$hearthd" --data "$dir/d" --verify
done_testing
