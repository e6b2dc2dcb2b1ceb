#!/bin/bash
# An agent that dies and does not come back: its ranks end by themselves before their node is declared lost, so that nothing runs twice. One that is
# back within the lease finds them alive. While hearthd is down, agents say so, and ranks go on.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
CLUSTER_HEARTHD_ARGS=(--set lease=4s --set beat=250ms)
cluster_up 2 && cluster_hearth || bail "no cluster"
mkdir -p "$CLUSTER/src"
cat >"$CLUSTER/src/tick.sh" <<'S'
#!/bin/bash
# Writes the boot clock again and again; so does a daemon that it leaves.
trap '' TERM HUP
tick() { while :; do read -r up _ </proc/uptime; echo "$up" >>"$HEARTH_OUTPUT_DIR/$1"; read -rt 0.05 <> <(:); done; }
export -f tick
setsid bash -c 'tick daemon' &
tick rank
S
chmod +x "$CLUSTER/src/tick.sh"

submit() { # NAME MEMBERS...
	printf '{"name": "%s", "source_dir": "%s/src", "command": ["./tick.sh"], "launcher": "direct", "limits": {"grace_s": 1}, "retry": {"capacity": 0}, %s}\n' "$1" "$CLUSTER" "${*:2}" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
state() { hearth nodes --json | jq -r --arg n "$1" '.nodes[] | select(.name == $n) | .state'; }
uptime_now() { local up _; read -r up _ </proc/uptime; echo "$up"; }
ticks() { cat "$CLUSTER/$1/data/jobs/$2.$3/ml/output/data/"{rank,daemon} 2>/dev/null; } # HOST JOB ATTEMPT
last_tick() { ticks "$@" | sort -n | tail -n 1; }
first_tick() { ticks "$@" | sort -n | head -n 1; }
ticking() { [ "$(ticks "$@" | wc -l)" -gt 20 ] && [ -s "$CLUSTER/$1/data/jobs/$2.$3/ml/output/data/daemon" ]; }
before() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a < b) }'; } # A B: numbers
host_of() { show "$1" '.attempts[-1].nodes[0] // ""'; }
is_lost() { [ "$(state "$1")" = lost ]; }

# --- within the lease -------------------------------------------------------------------------------------------------
id=$(submit stays '"resources": {"instances": 1}')
wait_until 30 eval "[ -n \"\$(host_of $id)\" ]"
here=$(host_of "$id")
there=host$((3 - ${here#host}))
wait_until 30 ticking "$here" "$id" 1 || bail "job $id does not tick on $here: $(hearth show "$id")"
cluster_signal agent-$here KILL
wait_until 5 cluster_gone agent-$here
cluster_agent "$here"
wait_until 20 cluster_node_up "$here"
now=$(uptime_now)
ok "an agent that is back within the lease: the ranks run on" wait_until 20 eval "before $now \"\$(last_tick $here $id 1)\""
is "$(show "$id" '.status')" running "and the job runs"

# --- hearthd is down for longer than the lease ----------------------------------------------------------------------------
cluster_signal hearthd KILL
wait_until 5 cluster_gone hearthd
carries_on() { cluster_in "$here" sh -c 'grep -q carry-on /run/hearth/*/lease'; }
ok "without hearthd the agent records that ranks carry on" wait_until 30 carries_on
later=$(awk -v a="$(uptime_now)" 'BEGIN { print a + 9 }')
ok "two leases later they still run" wait_until 30 eval "before $later \"\$(last_tick $here $id 1)\""
cluster_hearthd
wait_until 20 cluster_node_up "$here"
is "$(show "$id" '.status')" running "and the job goes on when hearthd is back"

# --- for good --------------------------------------------------------------------------------------------------------------
cluster_signal agent-$here KILL
ok "an agent that does not come back: its node is lost" wait_until 30 is_lost "$here"
lost=$(uptime_now)
last=$(last_tick "$here" "$id" 1)
ok "its ranks had ended before that" before "$last" "$(awk -v a="$lost" 'BEGIN { print a - 0.5 }')"
is "$(cluster_in "$here" pgrep -cf tick)" 0 "no process of them is left"
hearth wait "$id" --timeout 30 >/dev/null
is "$(show "$id" '.attempts[-1].class')" node_lost "the job failed because of the node"
next=$(submit elsewhere '"resources": {"instances": 1}')
wait_until 30 ticking "$there" "$next" 1
ok "what runs elsewhere began after the last sign of the ranks" before "$last" "$(first_tick "$there" "$next" 1)"
ok "they have written nothing since" [ "$(last_tick "$here" "$id" 1)" = "$last" ]
like "$(cluster_in "$here" sh -c "cat /run/hearth/*/$id.1/rank-0/log")" "event=lease_over" "their shim says why"

# --- both agents die: hearthd holds the nodes, and the ranks end all the same ---------------------------------------------------
cluster_agent "$here"
wait_until 30 cluster_node_up "$here"
cluster_signal agent-$here KILL
cluster_signal agent-$there KILL
still() { local a; a=$(last_tick "$there" "$next" 1); wait_until 1 false; [ "$a" = "$(last_tick "$there" "$next" 1)" ]; }
ok "the ranks of a held node end, too" wait_until 30 still
cluster_agent "$there"
cluster_agent "$here"
hearth wait "$next" --timeout 60 >/dev/null
is "$(show "$next" '.attempts[-1].class')" node_lost "an agent that is back reports them as lost with the node"
like "$(show "$next" '.reason')" "the lease of this node was over and no agent ran" "and says why"
cluster_clean
cluster_down
done_testing
