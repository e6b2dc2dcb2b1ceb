#!/bin/bash
# Many two-node jobs under mpirun on one machine, as an ordinary user: none fails. HEARTH_MANY says how many (default 25; 100 in a full check).
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
jobctl=${HEARTH_TOP_BUILDDIR:?}/jobctl/jobctl
n=${HEARTH_MANY:-25}
home=$(mktemp -d /tmp/hmXXXXXX)
as_user() { env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_RUNTIME_DIR HOME="$home" "$@"; }
if [ "$(id -u)" -eq 0 ]; then
	chown nobody "$home"
	as_user() { env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_RUNTIME_DIR HOME="$home" setpriv --reuid nobody --regid nogroup --clear-groups -- "$@"; }
	as_user test -x "$jobctl" || { rm -rf "$home"; skip_all "the build folder is not readable for an ordinary user"; }
fi
cd "$home" || bail "no home"
trap 'as_user "$jobctl" local down >/dev/null 2>&1; rm -rf "$home"' EXIT
ok "local cluster as an ordinary user" as_user "$jobctl" local up --port $((20000 + $$ % 10000))
cat >"$home/job.json" <<'J'
{"name": "tiny", "command": ["/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE"], "launcher": "mpirun", "resources": {"instances": 2}}
J
ids=
for _ in $(seq "$n"); do ids="$ids $(as_user "$jobctl" submit "$home/job.json")"; done
# shellcheck disable=SC2086 # a list
ok "$n jobs of two nodes all complete" as_user "$jobctl" wait $ids --timeout 600
bad=0
for id in $ids; do
	for r in 0 1; do
		[ "$(as_user "$jobctl" logs "$id" --rank $r)" = "rank $r of 2" ] || bad=$((bad + 1))
	done
done
is "$bad" 0 "each rank of each job printed its line"
done_testing
