#!/bin/bash
# A host of a job is off and on again, well before its lease is over: the attempt ends at once, and not at the end of the lease. Once its agent connects, once
# it reaches the other agents only. A cut of two seconds and an agent that is started again end nothing.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=30s --set beat=250ms)
cluster_up 4 && cluster_hearth --slots 1 || bail "no cluster"
show() { hearth show "$1" --json | jq -r "$2"; }
attempts() { [ "$(show "$1" .attempt_count)" -ge "$2" ] && [ "$(show "$1" .status)" = running ]; }
submit() { # NAME
	printf '{"name": "%s", "command": ["sleep", "600"], "launcher": "direct", "resources": {"instances": 2}, "limits": {"grace_s": 1}, "retry": {"wait_s": 1}}\n' "$1" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
suspect() { hearth nodes --json | jq -e --arg n "$1" '.nodes[] | select(.name == $n and .suspect_since)' >/dev/null; }
heard() { ! suspect "$1"; }
off_and_on() { # HOST: a real one has a new kernel, without the control groups of before
	cluster_power_off "$1"
	wait_until 5 cluster_gone "agent-$1"
	find /sys/fs/cgroup/ -depth -mindepth 1 -type d -path "*/hearth/$1-$(printf %s "$(readlink -f "$CLUSTER/$1/data")" | sha256sum | cut -c1-8)/*" -exec rmdir {} + 2>/dev/null
	rm -f "$CLUSTER/$1/up"
	cluster_host_start "$1"
}

# --- its agent connects -----------------------------------------------------------------------------------------------------
job=$(submit back)
ok "a job runs on two hosts" wait_until 20 attempts "$job" 1
host=$(show "$job" '.attempts[0].nodes[1]')
off_and_on "$host" || bail "$host does not start"
start=$SECONDS
cluster_agent "$host" --slots 1 || bail "no agent"
ok "the job goes on in another attempt at once" wait_until 12 attempts "$job" 2
ok "which was not the end of the lease ($((SECONDS - start)) s)" test $((SECONDS - start)) -lt 12
like "$(show "$job" '.attempts[0].reason')" "node $host was lost" "the reason names the host"
hearth stop "$job" >/dev/null && hearth wait "$job" --timeout 20 >/dev/null

# --- it reaches the other agents only ------------------------------------------------------------------------------------------
ok "all are well again" wait_until 20 heard "$host"
job=$(submit apart)
ok "another job runs" wait_until 20 attempts "$job" 1
host=$(show "$job" '.attempts[0].nodes[1]')
off_and_on "$host" || bail "$host does not start"
ip -n "$(cluster_ns "$host")" route add blackhole 10.77.0.200/32
start=$SECONDS
cluster_agent "$host" --slots 1 || bail "no agent"
ok "it goes on in another attempt" wait_until 20 attempts "$job" 2
ok "before the lease is over ($((SECONDS - start)) s)" test $((SECONDS - start)) -lt 20
like "$(show "$job" '.attempts[0].reason')" "node $host was lost: its agent was started again and has nothing of the launch, it said to host" "by the word of the host itself"
ok "which hearthd does not hear" suspect "$host"
ip -n "$(cluster_ns "$host")" route del blackhole 10.77.0.200/32
ok "it is heard again" wait_until 20 heard "$host"

# --- what ends nothing ---------------------------------------------------------------------------------------------------------
host=$(show "$job" '.attempts[1].nodes[1]')
cluster_cut "$host"
ok "a cut host is suspect" wait_until 5 suspect "$host"
sleep 1
cluster_heal "$host"
ok "and heard again" wait_until 10 heard "$host"
cluster_signal "agent-$host" KILL
ok "its agent is killed" wait_until 5 cluster_gone "agent-$host"
ok "the host is suspect" wait_until 5 suspect "$host"
cluster_agent "$host" --slots 1 || bail "no agent"
ok "its agent is started again" wait_until 10 heard "$host"
sleep 1
is "$(show "$job" '.attempt_count, .status' | xargs)" "2 running" "the attempt has gone on all the time"
hearth stop "$job" >/dev/null && hearth wait "$job" --timeout 20 >/dev/null
cluster_clean
ok "hearthd --verify finds nothing" cluster_in head "$HEARTHD" --data "$CLUSTER/head/data" --verify
cluster_down
done_testing
