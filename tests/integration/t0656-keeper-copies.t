#!/bin/bash
# Copies of checkpoints out of the node: a full place for copies, files that the program removes during a slow copy, an agent and a hearthd that are
# killed meanwhile. Training goes on, what is registered is whole, and the same node uses what it holds.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
cluster_up 1 && cluster_hearth --slots 20 --checkpoint-rate 2MiB || bail "no cluster"
src=$CLUSTER/src saver=$HEARTH_TOP_SRCDIR/tests/programs/saver.py
mkdir -p "$src" "$CLUSTER/copies" && cp "$saver" "$src"
cluster_in host1 mkdir "$CLUSTER/full" && cluster_in host1 mount -t tmpfs -o size=100k tmpfs "$CLUSTER/full"
: >"$CLUSTER/file"
submit() { # NAME URI ARGUMENTS: a job of the saver; its id
	printf '{"name": "%s", "launcher": "direct", "command": ["/bin/sh", "-c", "exec python3 saver.py %s"], "source_dir": "%s", "checkpoint": {"uri": "file://%s"}, "limits": {"grace_s": 1}, "metrics": [{"name": "step", "regex": "step=([0-9]+)"}]}\n' \
		"$1" "$3" "$src" "$2" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
show() { hearth show "$1" --json | jq -r "$2"; }
warned() { hearth events "$1" --json | jq -r '.. | objects | select(.type? == "warning") | .data.text' | grep -q "$2"; }
newest() { hearth checkpoints "$1" --json | jq "[.checkpoints[] | select(.complete and all(.places[]; .state == \"$2\")) | .step] | max // 0"; }
has() { [ "$(newest "$1" "$2")" -ge "$3" ]; }
goes_on() { hearth logs "$1" --attempt 2 2>/dev/null | grep -q '^step='; }
first_step() { hearth logs "$1" --attempt 2 2>/dev/null | sed -n 's/^step=//p' | head -n 1; }
kill_rank() { kill -KILL "$(cluster_pids host1 | while read -r pid; do grep -qz "^HEARTH_JOB=$1$\|^HEARTH_JOB_ID=$1$" "/proc/$pid/environ" 2>/dev/null && grep -qz saver.py "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"; done | tail -n 1)"; }

slow=$(submit slow "$CLUSTER/copies" 'big --steps 100 --every 8 --pause 0.4')
full=$(submit full "$CLUSTER/full" 'named --steps 100 --every 4 --pause 0.4')
missing=$(submit missing "$CLUSTER/file/below" 'named --steps 100 --every 4 --pause 0.4')

# --- no room for copies -------------------------------------------------------------------------------------------------------
ok "full: a checkpoint is held" wait_until 40 has "$full" copying 4
ok "full: an event says why it has no copy" wait_until 40 warned "$full" "no copy outside of this node.*No space left"
ok "missing: an event, too" wait_until 40 warned "$missing" "no copy outside of this node"
is "$(show "$full" .status) $(show "$missing" .status)" "running running" "both go on"
for job in "$full" "$missing"; do
	kill_rank "$job"
	wait_until 40 goes_on "$job"
	step=$(show "$job" '.attempts[1].resumed_from_step // 0')
	ok "its rank is killed: the same node begins with what it holds (step $step)" test "$step" -ge 4
	is "$(first_step "$job")" $((step + 1)) "the next step follows"
	hearth stop "$job" >/dev/null
done
is "$(cluster_in host1 find "$CLUSTER/full" -type f | wc -l)" 0 "nothing of a copy is left in the full place"

# --- a slow copy, whose source the program removes -----------------------------------------------------------------------------
parts() { find "$CLUSTER/copies" -name '.*.part' -type d; }
bytes() { find "$CLUSTER/copies" -path '*.part/*' -type f -printf '%s\n' | sort -n | tail -n 1; }
some() { [ "$(bytes)" -gt 0 ] 2>/dev/null; }
ok "slow: a copy is under way" wait_until 40 some
kill -KILL "$(cat "$CLUSTER/agent-host1.pid")"
ok "the agent is killed meanwhile" wait_until 10 cluster_gone agent-host1
ok "what it copied is there" some
left=$CLUSTER/host1/data/held/$slow.1/files/77 # as a hold that was under way leaves it
cluster_in host1 sh -c "mkdir '$left' && echo part >'$left/ckpt'" || diag "no folder $left"
kill -KILL "$(cat "$CLUSTER/hearthd.pid")"
ok "and hearthd" wait_until 10 cluster_gone hearthd
cluster_agent host1 --slots 20 --checkpoint-rate 8MiB
ok "the next agent starts" test -s "$CLUSTER/agent-host1.pid"
whole() { find "$CLUSTER/copies" -name '*.manifest' ! -name '.*' | grep -q .; }
ok "a copy is complete while hearthd is down" wait_until 40 whole
cluster_hearthd
ok "hearthd hears of it" wait_until 40 has "$slow" verified 8
ok "what the killed agent was holding is removed" cluster_in host1 test ! -e "$left"
step=$(newest "$slow" verified)
bad=
while read -r copy; do
	found=$("$saver" --check "${copy%.manifest}") || bad+="$found; "
	[ "${found##* }" = "$(sed -n 's/^step //p' "$copy")" ] || bad+="$copy: $found"
done < <(find "$CLUSTER/copies" -name '*.manifest' ! -name '.*')
is "$bad" "" "each copy with a manifest is whole, and of its step"
is "$(show "$slow" .status)" running "training goes on"
ok "the program has removed what was copied" eval '! cluster_in host1 find "$CLUSTER/host1/data/jobs/$slow.1/ml/checkpoints" -name "*_$step.pt" | grep -q .'
kill_rank "$slow"
ok "the next attempt begins with a checkpoint" wait_until 40 goes_on "$slow"
ok "of that step, or a later one" test "$(show "$slow" '.attempts[1].resumed_from_step // 0')" -ge "$step"
hearth stop "$slow" >/dev/null
ok "the job stops" wait_until 40 eval '[ "$(show "$slow" .status)" = stopped ]'
ok "no part of a copy is left" wait_until 20 eval '[ -z "$(parts)" ]'
done_testing
