#!/bin/bash
# A folder of checkpoints with more entries than the agent lists, which changes all the time: the agent spends little of a CPU on it, an event says that
# it may miss some, and the checkpoints of a neighbour are found and copied meanwhile.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 20 || bail "no cluster"
mkdir -p "$CLUSTER/src" && cp "$HEARTH_TOP_SRCDIR/tests/programs/saver.py" "$CLUSTER/src"
cat >"$CLUSTER/src/crowd.py" <<'END'
import os
import time

top = os.environ["HEARTH_CHECKPOINT_DIR"]
with open(top + "/.one", "w") as f:
    f.write("x")
os.mkdir(top + "/a-1")
for i in range(9900):
    os.link(top + "/.one", top + "/a-1/__%d_0.distcp" % i)
    os.link(top + "/.one", top + "/a-1/__%d.metadata" % i)
for i in range(300):
    os.link(top + "/.one", top + "/other-%d.log" % i)
print("made", flush=True)
while True:
    with open(top + "/latest", "w") as f:
        f.write("a-1")
    time.sleep(0.05)
END
submit() { # NAME COMMAND
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "%s"], "source_dir": "%s", "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]}\n' "$1" "$2" "$CLUSTER/src" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
warned() { hearth events "$1" --json | jq -r '.. | objects | select(.type? == "warning") | .data.text' | grep -q -- "$2"; }
copied() { [ "$(hearth checkpoints "$1" --json | jq '[.checkpoints[] | select(.complete and ([.places[].uri] | any))] | length')" -ge "$2" ]; }
agent_ms() { cluster_in host1 sh -c 'cat /proc/$(pgrep -of hearth-agent)/stat' | sed 's/.*) //' | awk -v hz="$(getconf CLK_TCK)" '{ print int(($12 + $13) * 1000 / hz) }'; }

crowd=$(submit crowd "exec python3 crowd.py")
ok "a job has a crowd of checkpoints" wait_until 90 eval 'hearth logs "$crowd" | grep -q made'
ok "an event says that the agent may miss some" wait_until 60 warned "$crowd" "more than 20000 entries"
good=$(submit good "exec python3 saver.py hearth --steps 200 --every 2 --pause 0.4")
from=$(agent_ms)
ok "a neighbour's checkpoints have copies" wait_until 20 copied "$good" 2
sleep 8
used=$(($(agent_ms) - from))
ok "the agent used $used ms of CPU meanwhile, at most a quarter of it" test "$used" -lt 2500
hearth stop "$crowd" >/dev/null
hearth stop "$good" >/dev/null
ended() { hearth show "$1" --json | jq -e '.status == "stopped"' >/dev/null; }
ok "both stop" wait_until 60 eval 'ended "$crowd" && ended "$good"'
done_testing
