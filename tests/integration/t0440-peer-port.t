#!/bin/bash
# Strangers fill the peer port of each node while hearthd is down: from another machine, and from the nodes themselves, as a user's program
# could. All jobs go on: the agents hear each other all the same.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
PORT=7199
cluster_up 2 && cluster_hearth --peer-port $PORT --slots 4 || bail "no cluster"

show() { hearth show "$1" --json | jq -r "$2"; }
ranks_on() { cluster_in "$1" pgrep -cf "^sleep 98765$2" || :; }
knows_other() { [ "$(cluster_in "$1" bash -c 'cat /run/hearth/*/peers' | wc -l)" = 1 ]; }
passed() { [ $((SECONDS - start)) -ge "$1" ]; }
crowd() { # HOST TO N: holds N connections that say nothing; each that is closed is made again
	cluster_spawn "$1" "crowd-$1-$2" /usr/bin/python3 -c '
import select, socket, sys
to, n = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
poll = select.epoll()
held = {}
def add():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(to)
    held[s.fileno()] = s
    poll.register(s.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
for i in range(n):
    add()
while True:
    for fd, _ in poll.poll():
        poll.unregister(fd)
        held.pop(fd).close()
        add()
' "10.77.0.${2#host}" $PORT "$3"
}

printf '{"name": "gang", "command": ["sleep", "987651"], "launcher": "direct", "resources": {"instances": 2}, "limits": {"grace_s": 1}}\n' >"$CLUSTER/gang.json"
printf '{"name": "one", "command": ["sleep", "987652"], "launcher": "direct", "limits": {"grace_s": 1}}\n' >"$CLUSTER/one.json"
gang=$(hearth submit "$CLUSTER/gang.json")
one=$(hearth submit "$CLUSTER/one.json")
ok "a gang of two nodes runs, and another job" wait_until 60 eval "[ \"\$(show $gang .status)\$(show $one .status)\" = runningrunning ]"

for host in host1 host2; do ok "$host knows its neighbour" wait_until 30 knows_other $host; done

for host in host1 host2; do
	ok "300 silent connections from another machine to $host" crowd head $host 300
	ok "and 300 from its neighbour" crowd "$([ $host = host1 ] && echo host2 || echo host1)" "$host" 300
done
cluster_signal hearthd KILL
wait_until 10 cluster_gone hearthd
start=$SECONDS
ok "hearthd is away for 15 s" wait_until 40 passed 15
for host in host1 host2; do
	is "$(ranks_on $host 1)" 1 "the gang's rank on $host runs"
	like "$(cat "$CLUSTER/agent-$host.log")" "event=lease_out.*reached=1.*hearing=0" "the agent of $host heard its neighbour"
done
is "$(($(ranks_on host1 2) + $(ranks_on host2 2)))" 1 "the other job runs"
ok "hearthd is back" cluster_hearthd
for host in host1 host2; do ok "$host is up" wait_until 30 cluster_node_up $host; done
is "$(show "$gang" '.status + " " + (.attempts | length | tostring)')" "running 1" "the gang runs in its first attempt"
is "$(show "$one" '.status + " " + (.attempts | length | tostring)')" "running 1" "and so does the other job"
hearth stop "$gang" "$one" >/dev/null
hearth wait "$gang" "$one" --timeout 60 >/dev/null
cluster_down
done_testing
