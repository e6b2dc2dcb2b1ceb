#!/bin/bash
# A rolling upgrade with gangs running under each launcher: hearthd first, then the agents one by one, to a build whose protocol has a raised version
# (a failpoint raises it). No rank ends, exit codes are exact, a gang starts across both versions. Then hearthd is two versions ahead of its agents:
# they keep their ranks without orders until they are upgraded.
#
# HEARTH_OLD_BUILD: a build folder of an older commit. Then the cluster begins with its programs and is upgraded to this build first.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can)
[ -z "$why" ] || skip_all "$why"
"$HEARTHD" --version >/dev/null || bail "no hearthd"
CLUSTER_HEARTHD_ARGS=(--set lease=6s --set beat=250ms)
ALWAYS=1x1000000000

faults() { # what the next daemons have
	HEARTH_FAULTS=$1
	if [ -n "$1" ]; then export HEARTH_FAULTS; else unset HEARTH_FAULTS; fi
}
install_build() { # BUILD: at one path on all hosts, as a package does it; what runs is restarted later
	local name
	for name in controller/hearthd agent/hearth-agent agent/hearth-hold agent/hearth-rsh agent/hearth-rank agent/hearth-files shim/hearth-shim jobctl/jobctl; do
		[ -e "$1/$name" ] || continue # older builds have no hearth-files
		mkdir -p "$CLUSTER/programs/${name%/*}"
		cp --remove-destination "$1/$name" "$CLUSTER/programs/$name" || return 1
	done
}
old_build() {
	HEARTHD=$CLUSTER/programs/controller/hearthd AGENT=$CLUSTER/programs/agent/hearth-agent JOBCTL=$CLUSTER/programs/jobctl/jobctl
	CLUSTER_RUN_AS='' # it has no such setting
	install_build "$HEARTH_OLD_BUILD"
}
node() { hearth nodes --json | jq -r --arg n "$1" ".nodes[] | select(.name == \$n) | $2"; }
is_state() { [ "$(node "$1" .state)" = "$2" ]; }
show() { hearth show "$1" --json | jq -r "$2"; }
started() { # pid and start time of every rank of the gangs, on all hosts
	local host pid
	for host in $CLUSTER_HOSTS; do
		for pid in $(cluster_in "$host" pgrep -f '^/bin/sh -c .*gang-'); do
			echo "$host $pid $(cluster_in "$host" cut -d' ' -f22 "/proc/$pid/stat")"
		done
	done
}
still() { is "$(started)" "$ranks" "$1: the same ranks run"; }
submit() { # NAME LAUNCHER INSTANCES SCRIPT
	printf '{"name": "%s", "command": ["/bin/sh", "-c", "%s"], "launcher": "%s", "resources": {"instances": %s}, "limits": {"grace_s": 1}, "retry": {"max_attempts": 0, "capacity": 0}}\n' "$1" "$4" "$2" "$3" >"$CLUSTER/$1.json"
	hearth submit "$CLUSTER/$1.json"
}
upgrade_hearthd() {
	cluster_signal hearthd TERM
	wait_until 30 cluster_gone hearthd
	cluster_hearthd >/dev/null
}
upgrade_agent() { # HOST
	cluster_signal "agent-$1" TERM
	wait_until 30 cluster_gone "agent-$1"
	cluster_agent "$1" --slots 8
	wait_until 30 is_state "$1" up
}
versions() { hearth nodes --json | jq -r '[.nodes[].protocol | tostring] | join(" ")'; }
across() { # WHEN LAUNCHER: a gang of all nodes gets a source tree and an input, starts and ends now
	local id
	printf '{"name": "across-%s", "command": ["/bin/sh", "-c", "test -s part && test -s \\"$SM_CHANNEL_DATA/rows\\""], "launcher": "%s", "source_dir": "%s", "inputs": {"data": {"uri": "file://%s"}}, "resources": {"instances": 3}, "limits": {"grace_s": 1}}\n' \
		"$1" "$2" "$tree" "$tree/data" >"$CLUSTER/across.json"
	id=$(hearth submit "$CLUSTER/across.json")
	hearth wait "$id" --timeout 60 >/dev/null || diag "$(hearth show "$id" | head -12)" "$(hearth logs "$id" --stream mpirun 2>&1 | tail -12)"
	is "$(show "$id" .status)" completed "$1: a gang of all nodes under $2 completes"
}
patience() { sleep 9 & wait $!; } # a lease and its margin, and one second: what is lost by then is lost

[ -z "${HEARTH_OLD_BUILD:-}" ] || CLUSTER_FOLDERS_HOOK=old_build
cluster_up 3 && cluster_hearth --slots 8 || bail "no cluster"
tree=$(mktemp -d /srv/hvXXXXXX) # not below /tmp or /var/tmp: jobs have their own
trap 'cluster_down; rm -rf "$tree"' EXIT
mkdir "$tree/data"
echo rows >"$tree/data/rows"
echo part >"$tree/part"
chmod -R a+rX "$tree"

# --- gangs under each launcher -----------------------------------------------------------------------------------
declare -A gang
for launcher in direct mpirun torchrun; do
	gang[$launcher]=$(submit "gang-$launcher" "$launcher" 3 ": gang-$launcher; trap 'exit 7' USR1; trap 'exit 0' USR2; while :; do sleep 0.1; done")
done
for launcher in direct mpirun torchrun; do
	ok "a gang runs under $launcher" hearth wait "${gang[$launcher]}" --for running --timeout 60
done
wait_until 30 eval '[ "$(started | wc -l)" = 9 ]'
ranks=$(started)
is "$(wc -l <<<"$ranks")" 9 "nine ranks run"

if [ -n "${HEARTH_OLD_BUILD:-}" ]; then
	across "old-build" mpirun
	install_build "$HEARTH_TOP_BUILDDIR"
	CLUSTER_RUN_AS=root
	upgrade_hearthd
	for host in $CLUSTER_HOSTS; do wait_until 30 is_state "$host" up; done
	diag "versions of the agents: $(versions)"
	patience
	still "hearthd is upgraded from the old build"
	for launcher in direct mpirun torchrun; do across "old-agents-$launcher" "$launcher"; done
	upgrade_agent host1
	across "one-upgraded" mpirun
	across "one-upgraded-t" torchrun
	upgrade_agent host2
	upgrade_agent host3
	patience
	still "all agents are upgraded from the old build"
	across "all-upgraded" mpirun
fi
version=$(node host1 .protocol)

# --- to a raised version -----------------------------------------------------------------------------------------
faults "wire.raised=$ALWAYS"
upgrade_hearthd
for host in $CLUSTER_HOSTS; do wait_until 30 is_state "$host" up; done
is "$(versions)" "$version $version $version" "the agents are one version behind"
patience
still "hearthd has the next version"
across "next" mpirun
upgrade_agent host1
is "$(versions)" "$((version + 1)) $version $version" "one agent has the next version, too"
across "next-mixed" mpirun
across "next-mixed-t" torchrun
upgrade_agent host2
faults "" # a new agent that speaks with the next hearthd in the version before
upgrade_agent host3
is "$(versions)" "$((version + 1)) $((version + 1)) $version" "an agent of the version before comes back as such"
patience
still "agents of both versions"

# --- one that ends while hearthd is away: its exit code is exact ---------------------------------------------------
ended=${gang[direct]}
cluster_signal hearthd TERM
wait_until 30 cluster_gone hearthd
cluster_in host2 pkill -USR1 -f '^/bin/sh -c .*gang-direct'
faults "wire.raised=$ALWAYS"
cluster_hearthd >/dev/null
hearth wait "$ended" --timeout 60 >/dev/null
is "$(show "$ended" '.status + " " + (.exit_code | tostring) + " " + (.attempts | length | tostring)')" "failed 7 1" "direct: the exit code is exact, in the first attempt"
ranks=$(grep -v -F -x -f <(grep -vxF "$(started)" <<<"$ranks") <<<"$ranks")
is "$(wc -l <<<"$ranks")" 6 "the other gangs run on"

# --- hearthd is two versions ahead of an agent ---------------------------------------------------------------------
faults "wire.raised_twice=$ALWAYS"
upgrade_hearthd
wait_until 30 is_state host3 incompatible
is "$(node host3 .state)" incompatible "an agent that is two versions behind is incompatible"
is "$(node host1 .state)" up "an agent of the version before is up"
like "$(hearth nodes)" "incompatible .*upgrade this agent" "jobctl nodes says what to do"
patience
patience
still "three leases without orders"
is "$(node host3 .state)" incompatible "its lease is renewed: the node is not lost"
id=$(submit waits direct 3 'exit 0')
like "$(hearth why "$id")" "host3 \(upgrade its agent\)" "a job that waits for it says why"
like "$(cat "$CLUSTER/hearthd.log")" "event=agent_outdated node=host3" "hearthd logs it"
upgrade_agent host3
hearth wait "$id" --timeout 60 >/dev/null
is "$(show "$id" .status)" completed "after the upgrade of its agent that job runs"
still "the agent has the version of hearthd"

# --- and the ends --------------------------------------------------------------------------------------------------
cluster_in host3 pkill -USR1 -f '^/bin/sh -c .*gang-mpirun'
for host in $CLUSTER_HOSTS; do cluster_in "$host" pkill -USR2 -f '^/bin/sh -c .*gang-torchrun'; done
hearth wait "${gang[mpirun]}" "${gang[torchrun]}" --timeout 90 >/dev/null
is "$(show "${gang[mpirun]}" '.status + " " + (.exit_code | tostring) + " " + (.attempts | length | tostring)')" "failed 7 1" "mpirun: the exit code is exact, in the first attempt"
is "$(show "${gang[torchrun]}" '.status + " " + (.exit_code | tostring) + " " + (.attempts | length | tostring)')" "completed 0 1" "torchrun: completed, in the first attempt"
faults ""
cluster_clean
cluster_down
done_testing
