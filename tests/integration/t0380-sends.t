#!/bin/bash
# The n-th message that cannot be sent, of hearthd and the agents; the n-th transaction for which the store has no room: the job
# runs all the same, once, and ends as it should. A few n in ./check; with HEARTH_SOAK=1
# each up to 60.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/local.sh"
HEARTH_FAULTS=none=1 "$HEARTH_TOP_BUILDDIR/controller/hearthd" --show-config 2>&1 | grep -q 'unknown failpoint' || skip_all "built without --enable-faults"
numbers="2 7 15" more="2 6"
[ "${HEARTH_SOAK:-0}" = 1 ] && numbers=$(seq 1 60) more=$(seq 1 20)

local_home
cat >job.json <<'JSON'
{"name": "sends", "command": ["/bin/sh", "-c", "echo rank $RANK ran"], "resources": {"instances": 2}, "launcher": "direct"}
JSON

one() { # FAULTS: a cluster that has them, a job, its end
	local try ran
	rm -rf "$home/.local"
	for try in 1 2 3 4 5; do
		HEARTH_FAULTS=$1 timeout 60 "$jobctl" local up --nodes 2 --port $((10000 + (RANDOM * 3 + $$) % 20000)) >out 2>err && break
		"$jobctl" local down >/dev/null 2>&1
		[ "$try" = 5 ] && { cat err; return 1; }
	done
	# A submit that is refused (the store has no room) is the client's to repeat.
	"$jobctl" submit job.json >out 2>&1 && timeout 90 "$jobctl" wait last >>out 2>&1
	try=$?
	ran=$("$jobctl" logs last --rank 0 2>&1; "$jobctl" logs last --rank 1 2>&1)
	"$jobctl" local down >/dev/null 2>&1
	[ "$try" = 0 ] && [ "$ran" = $'rank 0 ran\nrank 1 ran' ] && return 0
	cat out
	echo "ended with $try, ranks that ran: $ran"
	return 1
}

for n in $numbers; do
	ok "message $n is not sent" one "wire.send=$n"
done
for n in $more; do
	ok "messages $n to $((n + 4)) of agents are not sent" one "agent.send=${n}x5"
	ok "no room in the store for transactions $n to $((n + 2))" one "controller.commit=${n}x3"
done
done_testing
