#!/bin/bash
# jobctl classify: the cause in a file, in standard input and in a job's logs; rules of an administrator.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"
local_home

cat >log <<'END'
step 1 loss 2.3
[rank0]: torch.distributed.DistBackendError: NCCL error: unhandled system error
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.22 GiB
KeyError: 'x'
END
run classify log --json
is "$RC $(jq -c '[.class, .verdict, .line_number, .reason]' <<<"$OUT")" '0 ["oom","user",3,"GPU memory ran out; the program asks for too much"]' "the cause of a file, behind its symptom"
like "$(jq -r .line <<<"$OUT")" '^\[rank3\]: torch.OutOfMemoryError: .* 4.22 GiB$' "the line is whole"
is "$("$jobctl" classify - --json <log | jq .line_number)" 3 "standard input"
run classify log --each --json
is "$(jq -rs '[.[] | .verdict + " " + (.line_number | tostring)] | join(",")' <<<"$OUT")" "unknown 1,symptom 2,user 3,user 4" "--each: one object for each line, in order"
run classify log
is "$OUT" "line 3: GPU memory ran out; the program asks for too much (class oom): a restart would not help.
  [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.22 GiB" "one sentence, and the line"
printf 'nothing' >quiet
run classify quiet --json
is "$(jq -c '[.verdict, .line, .line_number]' <<<"$OUT")" '["unknown",null,null]' "a log without a known line"
printf 'a\n\nGPU is lost' >open
run classify open --json
is "$(jq .line_number <<<"$OUT")" 3 "a last line without newline counts"
rc 2 "missing/log: No such file" "a missing file" classify missing/log
rc 2 "expected FILE, - or JOB" "no operand" classify

# --- memory ----------------------------------------------------------------------------------------------------
{ head -c 300000000 /dev/zero | tr '\0' x; echo; echo "GPU is lost"; } >huge
is "$(ulimit -v 200000; "$jobctl" classify huge --json | jq -c '[.class, .line_number]')" '["gpu",2]' "a line of 300 MB needs no memory of its size"
rm huge

# --- rules of an administrator ---------------------------------------------------------------------------------
echo 'drain gpu "our monitor found a bad GPU" gpu-monitor: BAD' >rules
run classify --patterns rules
is "$OUT" "rules: 1 rules, no mistake" "--patterns alone checks the file"
echo "x gpu-monitor: BAD" >>quiet
run classify -p rules quiet --json
is "$(jq -r .reason <<<"$OUT")" "our monitor found a bad GPU" "the file's rule counts"
echo 'drain gpux "reason" text' >>rules
rc 2 "rules: line 2: unknown class 'gpux'" "a wrong line is named" classify -p rules log

# --- jobs ------------------------------------------------------------------------------------------------------
local_up --nodes 2 || bail "no local cluster: $ERR"
cat >two.json <<'END'
{"name": "two", "launcher": "direct", "resources": {"instances": 2}, "limits": {"grace_s": 5},
 "command": ["sh", "-c", "if [ $RANK = 1 ]; then echo \"KeyError: 'hidden_size'\"; exit 1; fi; trap 'echo \"ImportError: late\"; exit 1' TERM; while :; do sleep 0.1; done"]}
END
job=$("$jobctl" submit two.json 2>/dev/null)
"$jobctl" wait "$job" --timeout 60 >/dev/null 2>&1
run classify "$job" --json
is "$(jq -c '[.class, .verdict, .stream, .line]' <<<"$OUT")" "[\"user_error\",\"user\",\"rank-1\",\"KeyError: 'hidden_size'\"]" "a job: the log that ended first comes first"
run classify two
like "$OUT" "^attempt 1, rank-1, line 1: " "by name, in words"
cat >again.json <<'END'
{"name": "again", "launcher": "direct", "limits": {"grace_s": 1},
 "command": ["sh", "-c", "if [ $HEARTH_ATTEMPT = 1 ]; then echo 'NCCL WARN Call to ibv_reg_mr failed: connection reset by peer'; echo 'GPU is lost'; exit 1; fi; echo fine; exec sleep 600"]}
END
again=$("$jobctl" submit again.json 2>/dev/null)
wait_until 60 eval '"$jobctl" logs "$again" --attempt 2 2>/dev/null | grep -q fine'
run classify "$again" --json
is "$(jq -c '[.class, .attempt]' <<<"$OUT")" '["gpu",1]' "without --attempt: the newest attempt that ended badly"
run classify "$again" --attempt 2
is "$OUT" "No line of attempt 2 names a failure that the table knows." "--attempt reads the other one"
rc 3 "attempt 9 of job $again has no log; jobctl show $again" "an attempt that does not exist" classify "$again" --attempt 9
"$jobctl" stop "$again" >/dev/null
rc 3 "there is no job" "an unknown job" classify 999
# What agents found while the job ran.
lines=$("$jobctl" events "$job" --json | jq -c '.. | objects | select(.type? == "failure_line") | .data | [.rank, .class, .verdict, .line]')
like "$lines" "\[1,\"user_error\",\"user\",\"KeyError: 'hidden_size'\"\]" "an event names the line of rank 1" || diag "$("$jobctl" events "$job")"
"$jobctl" events "$job" >events.txt 2>&1
like "$(cat events.txt)" "failure_line" "people see it, too"
done_testing
