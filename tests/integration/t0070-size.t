#!/bin/bash
# Input of size: a specification of 100 MB, 10,000 hyperparameters, nesting without end; a log line of 50 MB, a flood of output, a
# large file in the source. Each is done, or refused with a message that says what and where, in bounded memory.
# HEARTH_SOAK=1: a flood of 1 GB instead of 60 MB, a file of 10 GB instead of 300 MB.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
command -v jq >/dev/null || skip_all "jq is missing"
flood=60000000 file=300M
[ "${HEARTH_SOAK:-0}" = 1 ] && flood=1000000000 file=10G

local_home
local_up --nodes 1 || bail "no local cluster: $ERR"

# measured COMMAND...: its output into out, its status into rc, its greatest memory in KiB into kib
measured() {
	python3 - "$@" >out 2>&1 <<'PY'
import resource, subprocess, sys
rc = subprocess.call(sys.argv[1:])
print("memory", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(rc)
PY
	rc=$?
	kib=$(sed -n 's/^memory //p' out)
}
peak() { # PATTERN: the greatest memory of this cluster's process of that name, KiB
	local p
	for p in /proc/[0-9]*; do
		tr '\0' ' ' 2>/dev/null <"$p/cmdline" | grep -q "$1.*$home" && awk '/^VmHWM/ {print $2}' "$p/status"
	done | sort -n | tail -n 1
}

{
	printf '{"name": "big", "command": ["/bin/true"], "notes": "'
	head -c 100000000 /dev/zero | tr '\0' x
	printf '"}'
} >big.json
measured "$jobctl" submit big.json
nok "a specification of 100 MB is refused" [ "$rc" = 0 ]
like "$(cat out)" 'big.json.*(larger|more|bytes|limit)' "with its name and the limit"
ok "in little memory ($kib KiB)" [ "${kib:-999999}" -lt 60000 ]
jq -n '{name: "hp", command: ["/bin/true"], hyperparameters: ([range(10000)] | map({key: "hp\(.)", value: .}) | from_entries)}' >hp.json
measured "$jobctl" submit hp.json
nok "10,000 hyperparameters are refused" [ "$rc" = 0 ]
like "$(cat out)" 'hyperparameters.*10000.*1000' "with their number and the limit"
jq '.hyperparameters |= (to_entries | .[:1000] | from_entries)' hp.json >hp1000.json
ok "1,000 are taken" "$jobctl" submit hp1000.json
ok "and run" timeout 100 "$jobctl" wait last
python3 -c 'print("{\"name\":\"n\",\"command\":[\"/bin/true\"],\"hyperparameters\":{\"a\":" + "[" * 100000 + "]" * 100000 + "}}")' >deep.json
measured "$jobctl" submit deep.json
nok "100,000 brackets are refused" [ "$rc" = 0 ]
like "$(cat out)" 'deep' "with a reason: $(head -c 100 out)"

jq -n '{name: "line", command: ["/usr/bin/python3", "-c",
	"import sys; sys.stdout.write(\"x\" * 50000000); print(); print(\"after\")"], launcher: "direct"}' >line.json
ok "a job that prints a line of 50 MB" "$jobctl" submit line.json
ok "ends well" timeout 200 "$jobctl" wait last
is "$("$jobctl" logs last 2>/dev/null | wc -c)" 50000007 "all of the line was kept"
is "$("$jobctl" logs last 2>/dev/null | tail -n 1)" after "and what came behind it"

# 100 bytes a line; the program says how long it was held up.
jq -n --arg n "$flood" '{name: "flood", command: ["/usr/bin/python3", "-c",
	"import sys, time\nn = int(sys.argv[1]) // 100\nstart = time.monotonic()\nblock = 1000\nfor i in range(0, n, block):\n sys.stdout.write(\"\".join(\"%098d!\\n\" % k for k in range(i, i + block)))\nsys.stdout.flush()\nprint(\"took %.1f s\" % (time.monotonic() - start), file=sys.stderr)",
	$n], launcher: "direct"}' >flood.json
ok "a job that prints $flood bytes" "$jobctl" submit flood.json
ok "ends well" timeout 500 "$jobctl" wait last
"$jobctl" logs last >flood.log 2>/dev/null
lost=$(sed -n 's/^\[hearth: \([0-9]*\) bytes are missing here\]$/\1/p' flood.log | awk '{n += $1} END {print n + 0}')
kept=$(grep -cE '^[0-9]{98}!$' flood.log)
diag "$(grep took flood.log); $kept whole lines kept, $lost bytes counted as lost"
# Cuts are at line ends, so nothing is missing that was not counted.
ok "every line is there or counted as lost" [ $((kept * 100 + lost)) -ge "$flood" ]
like "$(grep -E '^[0-9]{98}!$' flood.log | tail -n 1)" "^0*$((flood / 100 - 1))!" "the last line is there"
rm -f flood.log
# AddressSanitizer keeps 256 MiB of freed memory back, to find who uses it again: 320,908 KiB of hearthd were 51,360 with a quarantine of 1 MiB.
most=300000
case ${HEARTH_SANITIZED:-} in *address*) most=$((most + 256 * 1024)) ;; esac
for daemon in hearthd hearth-agent; do
	ok "$daemon needed at most $(peak "$daemon") KiB (of $most)" [ "$(peak "$daemon")" -lt $most ]
done

mkdir src
truncate -s "$file" src/large
echo 'stat -c %s large' >src/run.sh
jq -n '{name: "large", command: ["/bin/sh", "run.sh"], source_dir: "src", launcher: "direct"}' >large.json
measured timeout 900 "$jobctl" submit large.json
is "$rc" 0 "a file of $file in the source (no blocks on disk, zeros to read)"
ok "in little memory ($kib KiB)" [ "${kib:-999999}" -lt 100000 ]
ok "the job ends well" timeout 900 "$jobctl" wait last
is "$("$jobctl" logs last 2>/dev/null | tail -n 1)" "$(stat -c %s src/large)" "and sees it whole"
done_testing
