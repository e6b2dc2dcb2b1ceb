#!/bin/bash
# jobctl replay-loss and replay-steps: the answers as JSON, and what they say about input that they cannot read.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
jobctl=$HEARTH_TOP_BUILDDIR/jobctl/jobctl
dir=$(mktemp -d) || bail "no temporary folder"
trap 'rm -rf "$dir"' EXIT

# curve FROM TO HEIGHT: a falling loss with noise; HEIGHT more between the two steps
curve() { awk -v from="$1" -v to="$2" -v height="$3" 'BEGIN { srand(7); print "step,loss"
	for (s = 1; s <= 1000; s++) printf "%d,%.4f\n", s, 3 + 5 * exp(-s / 60) + 0.1 * (rand() - rand()) + (s >= from && s <= to ? height : 0) }'; }
field() { python3 -c 'import json,sys; d=json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }

curve 600 640 1 >"$dir/heals.csv"
"$jobctl" replay-loss "$dir/heals.csv" --json >"$dir/out.json"
is "$(field "sorted(d)" <"$dir/out.json")" "['actions', 'alarms']" "the answer has alarms and actions"
is "$(field "[(a['kind'],a['onset']) for a in d['alarms']]" <"$dir/out.json")" "[('spike', 600)]" "a spike has one alarm at its onset"
is "$(field "sorted(d['alarms'][0])" <"$dir/out.json")" "['kind', 'loss', 'onset', 'reference', 'step']" "an alarm has these keys"
is "$(field "[(a['action'],a['to_step']) for a in d['actions']]" <"$dir/out.json")" "[('pin', 500)]" "by default it pins 100 steps before the onset"
is "$(field "sorted(d['actions'][0])" <"$dir/out.json")" "['action', 'reason', 'skip', 'step', 'to_step']" "an action has these keys"

curve 600 1000 1 >"$dir/stays.csv"
printf '{"watch": {"on_spike": "rollback", "on_nan": "rollback"}}' >"$dir/job.json"
printf '{"on_spike": "rollback", "margin_steps": 50}' >"$dir/watch.json"
"$jobctl" replay-loss "$dir/stays.csv" --watch "$dir/job.json" --json >"$dir/out.json"
is "$(field "[(a['step'],a['to_step'],a['skip']) for a in d['actions'] if a['action']=='rollback'][0]" <"$dir/out.json")" "(800, 500, [501, 800])" \
	"a spike that does not heal in 200 steps is rolled back, as the specification says"
"$jobctl" replay-loss "$dir/stays.csv" --watch "$dir/watch.json" --json >"$dir/out.json"
is "$(field "[a['to_step'] for a in d['actions'] if a['action']=='rollback'][0]" <"$dir/out.json")" 550 "a file with the keys of watch alone is read, too"

{ curve 0 0 0 | head -n 301; echo 301,nan; } >"$dir/nan.csv"
"$jobctl" replay-loss "$dir/nan.csv" --watch "$dir/job.json" --json >"$dir/out.json"
is "$(field "[(a['kind'],a['onset'],a['loss']) for a in d['alarms']]" <"$dir/out.json")" "[('nan', 301, None)]" "NaN is an alarm, its loss null"
is "$(field "[(a['action'],a['step'],a['to_step']) for a in d['actions']]" <"$dir/out.json")" "[('pin', 301, 201), ('rollback', 301, 201)]" "and a rollback at once"
{ curve 0 0 0 | head -n 301; for s in $(seq 301 400); do echo "$s,"; done; } >"$dir/gone.csv"
is "$("$jobctl" replay-loss "$dir/gone.csv" --json | field "[(a['kind'],a['onset']) for a in d['alarms']]")" "[('nan', 301)]" "a loss that vanishes while steps go on is one"

ok "a picture is drawn" "$jobctl" replay-loss "$dir/heals.csv" --svg "$dir/p.svg"
ok "it is SVG" python3 -c 'import sys,xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/p.svg"
like "$("$jobctl" replay-loss "$dir/heals.csv")" "spike +600" "without --json it is a table"
curve 0 0 0 >"$dir/quiet.csv"
like "$("$jobctl" replay-loss "$dir/quiet.csv")" "no alarms" "a quiet curve has none"

awk 'BEGIN { srand(3); print "step,seconds"; for (s = 1; s <= 1000; s++) printf "%d,%.4f\n", s, (1 + 0.01 * (rand() - rand())) * (s >= 700 ? 1.1 : 1) }' >"$dir/slow.csv"
is "$("$jobctl" replay-steps "$dir/slow.csv" --json | field "[(a['kind'], 700 <= a['onset'] <= 706, a['step'] <= 720) for a in d['alarms']]")" "[('slow', True, True)]" \
	"a drop of 10 % in the throughput is found within 20 steps"

awk -F, 'NR == 1 { print "time,value,step"; next } { print "2026-11-23T10:00:00Z," $2 "," $1 }' "$dir/quiet.csv" >"$dir/metrics.csv"
like "$("$jobctl" replay-loss "$dir/metrics.csv")" "no alarms" "the columns of jobctl metrics JOB loss --csv, in any order"
awk -F, 'NR == 1 { print "step,value,loss"; next } { print $1 ",9," $2 }' "$dir/quiet.csv" >"$dir/both.csv"
like "$("$jobctl" replay-loss "$dir/both.csv")" "no alarms" "a column loss counts before a column value"

refused() { # DESCRIPTION PART FILE TEXT [OPTIONS...]
	local what=$1 part=$2 file=$dir/$3 rc
	printf '%b' "$4" >"$file"
	shift 4
	"$jobctl" replay-loss "$dir/in.csv" "$@" >"$dir/out" 2>"$dir/err"
	rc=$?
	is "$rc" 2 "$what: exit status 2"
	like "$(cat "$dir/err")" "$part" "$what: it says so"
}
refused "a header without loss" "line 1: expected the columns step,loss among others, got .step,seconds." in.csv 'step,seconds\n1,2\n'
refused "a step in letters" "line 3: step: expected a whole number from 0, got 'x'" in.csv 'step,loss\n1,2\nx,3\n'
refused "a negative step" "line 2: step" in.csv 'step,loss\n-1,2\n'
refused "a loss with a comma" "line 2: loss: expected a number, nan or inf, got '2,5'|line 2: expected 2 fields, got 3" in.csv 'step,loss\n1,2,5\n'
refused "a word as loss" "line 2: loss: expected a number, nan or inf, got 'high'" in.csv 'step,loss\n1,high\n'
refused "a byte 0" "not a text file" in.csv 'step,loss\n1,2\0\n'
printf 'step,loss\n1,2\n' >"$dir/in.csv"
refused "an unknown key" "watch.on_spyke: unknown key; did you mean \"on_spike\"" w.json '{"on_spyke":"pin"}' --watch "$dir/w.json"
refused "an unknown action" "watch.on_spike: expected .*\"rollback\".*got \"back\"" w.json '{"on_spike":"back"}' --watch "$dir/w.json"
refused "a rollback on a plateau" "watch.on_plateau: expected" w.json '{"on_plateau":"rollback"}' --watch "$dir/w.json"
refused "a threshold out of bounds" "watch.max_rollbacks: expected a whole number from 0 to 100" w.json '{"max_rollbacks":101}' --watch "$dir/w.json"
done_testing
