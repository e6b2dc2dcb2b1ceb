#!/bin/bash
# The output of several ranks together: in the order of time when it is past, as it comes when it is followed.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"

local_home
local_up --nodes 4 || bail "no local cluster: $ERR"

# --- past ------------------------------------------------------------------------------------------------------
cat >four.json <<'END'
{"name": "four", "launcher": "direct", "resources": {"instances": 4},
 "command": ["sh", "-c", "i=0; while [ $i -lt 40 ]; do echo \"line $i of $RANK\"; i=$((i + 1)); sleep 0.0$RANK; done; printf 'no newline'"]}
END
job=$("$jobctl" submit four.json 2>/dev/null)
ok "four ranks on four nodes" "$jobctl" wait "$job" --timeout 120
run logs "$job" --rank all
is "$RC $(wc -l <<<"$OUT")" "0 164" "all lines of all ranks"
is "$(grep -Evc '^\[[0-3]\] (line [0-9]+ of [0-3]|no newline)$' <<<"$OUT")" 0 "each whole, with its rank in front"
for r in 0 1 2 3; do
	is "$(sed -n "s/^\[$r\] line \([0-9]*\) of $r\$/\1/p" <<<"$OUT" | tr '\n' ' ')" "$(seq -s ' ' 0 39) " "rank $r: all of its lines, in order"
done
run logs "$job" --rank all --json
is "$(jq -s 'length' <<<"$OUT")" 164 "as JSON"
is "$(jq -s '[.[].time] | . == sort' <<<"$OUT")" true "in the order of their times"
is "$(jq -rs '[.[].stream] | unique | join(" ")' <<<"$OUT")" "rank-0 rank-1 rank-2 rank-3" "of which stream each is"
is "$(jq -rs '.[0] | "\(.attempt) \(.text)"' <<<"$OUT" | sed 's/line 0 of [0-3]/line/')" "1 line" "which attempt, and the text"
run logs "$job" -r 1-2
is "$(cut -d' ' -f1 <<<"$OUT" | sort -u | tr '\n' ' ')" "[1] [2] " "a range"
run logs "$job" --rank 0,3 --grep 'line 7 '
is "$(sort <<<"$OUT")" "[0] line 7 of 0
[3] line 7 of 3" "a list, and a pattern"
run logs "$job" --rank all --tail 2
is "$(sort <<<"$OUT" | tr '\n' ';')" "[0] line 39 of 0;[0] no newline;[1] line 39 of 1;[1] no newline;[2] line 39 of 2;[2] no newline;[3] line 39 of 3;[3] no newline;" \
	"the last two lines of each"
run logs "$job" --rank 3,7
is "$(wc -l <<<"$OUT") $ERR" "41 [hearth: rank 7 wrote nothing]" "one that there is not is named"
rc 3 "in attempt 1 of job $job" "none of them" logs "$job" --rank 8-9
rc 2 "--rank 'x': expected a number, a list \(0,2\), a range \(0-3\) or all" "no rank" logs "$job" --rank x
rc 2 "--rank '3-1': expected" "a range that runs backwards" logs "$job" --rank 3-1
rc 2 "^jobctl: --offset .* --tail" "an offset" logs "$job" --rank all --offset 5
run logs "$job" --rank all -f
is "$RC $(wc -l <<<"$OUT")" "0 164" "-f of one that has ended: the same, and how it ended"
like "$ERR" "^job $job completed" "on standard error"

# --- much of it: memory stays bounded ----------------------------------------------------------------------------
# AddressSanitizer keeps 256 MiB of freed memory back, to find who uses it again, unless it is told to keep less.
case ${HEARTH_SANITIZED:-} in *address*) export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1" ;; esac
cat >much.json <<'END'
{"name": "much", "launcher": "direct", "resources": {"instances": 2}, "command": ["sh", "-c", "yes \"$RANK abcdefghijklmnopqrstuvwxyz\" | head -n 1500000"]}
END
much=$("$jobctl" submit much.json 2>/dev/null)
ok "two ranks with 44 MB each" "$jobctl" wait "$much" --timeout 300
if command -v python3 >/dev/null; then
	python3 - "$jobctl" "$much" >size.out <<'END'
import resource, subprocess, sys
lines = subprocess.run([sys.argv[1], "logs", sys.argv[2], "--rank", "all"], stdout=subprocess.PIPE).stdout.count(b"\n")
print(lines, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 64 * 1024)
END
	is "$(cat size.out)" "3000000 True" "all lines are shown in little memory"
fi

# Very short lines, of as many ranks as there is room for: they cost no more than their bytes, either.
for each in 2 1; do
	ranks=$((each * 4))
	cat >short.json <<-END
		{"name": "short", "launcher": "direct", "resources": {"instances": 4, "ranks_per_instance": $each}, "command": ["sh", "-c", "yes '' | head -n 400000; echo end of \$RANK"]}
	END
	! short=$("$jobctl" submit short.json 2>/dev/null) || break
done
ok "$ranks ranks with 400,000 empty lines each" "$jobctl" wait "$short" --timeout 300
if command -v python3 >/dev/null; then
	python3 - "$jobctl" "$short" "$ranks" >size.out <<'END'
import resource, subprocess, sys
p = subprocess.run([sys.argv[1], "logs", sys.argv[2], "--rank", "all"], stdout=subprocess.PIPE).stdout
print(p.count(b"\n"), p.count(b" end of "), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < int(sys.argv[3]) * 8 * 1024)
END
	is "$(cat size.out)" "$((ranks * 400001)) $ranks True" "all of them in little memory"
fi

# --- followed ------------------------------------------------------------------------------------------------------
rc 3 "none of these ranks" "nothing yet" logs "$("$jobctl" submit four.json --hold 2>/dev/null)" --rank all
cat >live.json <<'END'
{"name": "live", "launcher": "direct", "resources": {"instances": 2},
 "command": ["sh", "-c", "echo begins $RANK; [ $RANK = 0 ] || printf 'half a line'; exec sleep 3600"]}
END
live=$("$jobctl" submit live.json --hold 2>/dev/null)
"$jobctl" logs "$live" --rank all -f >live.out 2>live.err &
follower=$!
ok "while it waits standard error says why" wait_until 60 grep -q "^\[hearth: job $live: held: " live.err
"$jobctl" release "$live" >/dev/null
both() { grep -qx '\[0\] begins 0' live.out && grep -qx '\[1\] begins 1' live.out; }
ok "lines of both come while they run" wait_until 60 both
is "$("$jobctl" show "$live" --json | jq -r .status)" running "it runs"
nok "a line that is not complete is not shown" grep -q half live.out
"$jobctl" stop "$live" --grace 1 >/dev/null
wait "$follower"
is "$?" 1 "stopped: that is the exit status"
is "$(sort live.out | tr '\n' ';')" "[0] begins 0;[1] begins 1;[1] half a line;" "all is there in the end"
like "$(tail -n 2 live.err)" "job $live stopped" "how it ended stands on standard error"
done_testing
