#!/bin/bash
# What a job of an ordinary account keeps for itself, and what it cannot gain: its /tmp is closed to other accounts, a set-uid program gives it no rights, its processes
# leave no core files. Under direct, mpirun and torchrun; an agent may allow both.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
. "$HEARTH_TOP_SRCDIR/tests/lib/cluster.sh"
why=$(cluster_can_as)
[ -z "$why" ] || skip_all "$why"
cluster_up 2 && cluster_hearthd && cluster_agent host1 --labels site=strict && cluster_agent host2 --labels site=loose --allow-setuid --core-files || bail "no cluster"
wait_until 20 cluster_node_up host1 && wait_until 20 cluster_node_up host2 || bail "no nodes"
# id prints the account that a process acts as: with this copy that is root's, if rights can be gained.
# Not below /tmp or /var/tmp: jobs have their own.
programs=$(mktemp -d /srv/hcXXXXXX)
trap 'cluster_down; rm -rf "$programs"' EXIT
chmod 755 "$programs"
cp "$(command -v id)" "$programs/id"
chmod 4755 "$programs/id"
like "$(setpriv --reuid nobody --regid nogroup --clear-groups "$programs/id" -u)" '^0$' "the set-uid program gives root's rights outside of a job"

as_nobody() {
	cluster_as nobody "$@"
}
submit() { # NAME LAUNCHER SITE SCRIPT
	jq -n --arg n "$1" --arg l "$2" --arg h "$3" --arg c "$4" '{name: $n, command: ["/bin/bash", "-c", $c], launcher: $l, limits: {max_runtime_s: 60, grace_s: 1},
		resources: {instances: 1, ranks_per_instance: 1, requires: ["site=" + $h]}}' >"$CLUSTER/$1.json"
	chmod 644 "$CLUSTER/$1.json"
	as_nobody submit "$CLUSTER/$1.json"
}
other() { cluster_in host1 setpriv --reuid daemon --regid daemon --clear-groups "$@"; }

# --- /tmp --------------------------------------------------------------------------------------------------
id=$(submit private direct strict 'umask 0; echo mine >/tmp/of-the-job; ls /tmp; until [ -e /tmp/end ]; do sleep 0.1; done')
wait_until 30 eval "hearth logs $id | grep -q of-the-job"
like "$(hearth logs "$id")" "of-the-job" "a job uses its /tmp"
jobs=$CLUSTER/host1/data/jobs
file=$(find "$jobs" -name of-the-job)
like "$file" "^$jobs/$id\\.1/.*of-the-job\$" "it is a folder of the launch"
for path in "$file" "${file%/*}" "$(dirname "${file%/*}")"; do
	nok "another account cannot look into ${path#"$jobs"/"$id".1}" other ls "$path/"
done
nok "nor read a file of which it knows the name" other cat "$file"
nok "nor leave one there" other touch "${file%/*}/planted"
is "$(stat -c '%a %U' "$(dirname "${file%/*}")")" "700 root" "the folder above it is root's alone"
touch "${file%/*}/end"
hearth wait "$id" --timeout 30 >/dev/null
is "$(hearth show "$id" --json | jq -r .status)" completed "that job completes"

# --- rights and core files -----------------------------------------------------------------------------------
script="echo uid=\$($programs/id -u) \$(grep NoNewPrivs /proc/self/status | tr -d '[:space:]') core=\$(ulimit -Sc)/\$(ulimit -Hc)"
for launcher in direct mpirun torchrun; do
	id=$(submit "gain-$launcher" "$launcher" strict "$script")
	hearth wait "$id" --timeout 60 >/dev/null
	like "$(hearth logs "$id" --rank 0)" "^uid=$(id -u nobody) NoNewPrivs:1 core=0/0\$" "$launcher: a set-uid program gives no rights, and there are no core files"
done
id=$(submit allowed direct loose "$script")
hearth wait "$id" --timeout 60 >/dev/null
like "$(hearth logs "$id" --rank 0)" "^uid=0 NoNewPrivs:0 core=[^/]*/unlimited\$" "an agent with --allow-setuid and --core-files allows both"
cluster_clean
cluster_down
rm -rf "$programs"
done_testing
