#!/bin/bash
# The n-th message that cannot be sent, of hearthd and the agents; the n-th transaction for which the store has no room: the job
# runs all the same, once, and ends as it should. A fault that did not come before the job's end has tested nothing: the daemons' logs must tell of it.
# A few n in ./check; with HEARTH_SOAK=1 n = 1, 2, ... until there is no n-th.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
HEARTH_FAULTS=none=1 "$HEARTH_TOP_BUILDDIR/controller/hearthd" --show-config 2>&1 | grep -q 'unknown failpoint' || skip_all "built without --enable-faults"
most=${MOST:-600} # beats are messages, too: without an end of the job there would be no last n

local_home
cat >job.json <<'JSON'
{"name": "sends", "command": ["/bin/sh", "-c", "echo rank $RANK ran"], "resources": {"instances": 2}, "launcher": "direct"}
JSON

one() { # FAULTS: a cluster that has them, a job, its end; `fired` has the daemons that they came to until then
	local try ran
	for try in 1 2 3 4 5; do
		rm -rf "$home/.local"
		HEARTH_FAULTS=$1 timeout 60 "$jobctl" local up --nodes 2 --port $((10000 + (RANDOM * 3 + $$) % 20000)) >out 2>err && break
		"$jobctl" local down >/dev/null 2>&1
		[ "$try" = 5 ] && { cat err; return 1; }
	done
	# A submit that is refused (the store has no room) is the client's to repeat.
	"$jobctl" submit job.json >out 2>&1 && timeout 90 "$jobctl" wait last >>out 2>&1
	try=$?
	grep -l "event=fault_injected name=${1%%=*} " "$home"/.local/share/hearth/local/log/*.log >fired
	ran=$("$jobctl" logs last --rank 0 2>&1; "$jobctl" logs last --rank 1 2>&1)
	"$jobctl" local down >/dev/null 2>&1
	[ "$try" = 0 ] && [ "$ran" = $'rank 0 ran\nrank 1 ran' ] && return 0
	cat out
	echo "ended with $try, ranks that ran: $ran"
	return 1
}

# each POINT HOW-MANY DESCRIPTION N...: in ./check these n, each of which has to come
each() {
	local point=$1 many=$2 what=$3 n last=0
	shift 3
	if [ "${HEARTH_SOAK:-0}" != 1 ]; then
		for n; do
			ok "$what $n" one "$point=${n}x$many"
			ok "it came: $(sed 's|.*/||' fired | tr '\n' ' ')" test -s fired
		done
		return
	fi
	for ((n = 1; n <= most; n++)); do
		ok "$what $n" one "$point=${n}x$many"
		[ -s fired ] || break
		last=$n
	done
	ok "$point: there were $last of them, and no next one" test "$last" -gt 0 -a "$last" -lt $most
}
each wire.send 1 "not sent: message" 2 7 15
each agent.send 5 "not sent: five messages of agents from" 2 6
each controller.commit 3 "no room in the store: three transactions from" 2 6
done_testing
