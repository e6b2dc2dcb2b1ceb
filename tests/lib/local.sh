# shellcheck shell=bash
# local.sh: jobctl as a user runs it, with a home of its own and a local cluster there. Sourced after tap.sh.
jobctl=${HEARTH_TOP_BUILDDIR:?}/jobctl/jobctl

# local_home: $home is new, empty, HOME and the current folder; nothing of the caller's settings is left. At the end `at_end`, if the test
# has such a function, then the cluster there is ended and the folder removed.
local_home() {
	home=$(mktemp -d /tmp/h1XXXXXX) || bail "no temporary folder"
	unset HEARTH_URL HEARTH_TOKEN HEARTH_CA HEARTH_PATIENCE XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME NO_COLOR TMPDIR
	export HOME=$home
	trap local_end EXIT
	cd "$home" || bail "no home"
}
local_end() {
	trap - EXIT
	! declare -F at_end >/dev/null || at_end
	"$jobctl" local down >/dev/null 2>&1
	rm -rf "$home"
}
# local_up OPTIONS...: a cluster at $port, which is chosen by chance, and again where another program has it. Its output is in OUT.
local_up() {
	local try
	for try in 1 2 3 4 5; do
		port=$((10000 + (RANDOM * 3 + $$) % 20000))
		run local up --port $port "$@"
		[ "$RC" -ne 0 ] || return 0
		diag "try $try: $ERR"
		"$jobctl" local down >/dev/null 2>&1
	done
	return 1
}
# run ARGS...: OUT, ERR and RC of jobctl
run() {
	"$jobctl" "$@" >"$home/.out" 2>"$home/.err" </dev/null
	RC=$?
	OUT=$(cat "$home/.out") ERR=$(cat "$home/.err")
}
# rc WANT REGEX DESCRIPTION ARGS...: one result: jobctl's exit status, and what it says
rc() {
	local want=$1 regex=$2 text=$3
	shift 3
	run "$@"
	if [ "$RC" -eq "$want" ] && grep -Eq -- "$regex" <<<"$OUT$ERR"; then tap_result 0 "$text"; else
		tap_result 1 "$text"
		diag "jobctl $*: $RC, wanted $want and /$regex/" "$OUT" "$ERR"
	fi
}
