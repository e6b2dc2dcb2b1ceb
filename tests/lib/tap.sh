# shellcheck shell=bash
# tap: Test Anything Protocol for shell tests. Source it; call ok/is/like; end with done_testing.
TAP_N=0
TAP_FAILED=0
TAP_SKIPPED=0

# tap_func: the test function that runs, as "NAME: "; empty in checks outside of functions
tap_func() {
	local i name=
	for ((i = ${#FUNCNAME[@]} - 2; i > 1; i--)); do
		case ${FUNCNAME[i]} in
		ok | nok | is | like | unlike | skip | source | tap_result | main) ;;
		*)
			name="${FUNCNAME[i]}: "
			break
			;;
		esac
	done
	TAP_FUNC=$name
}
tap_result() { # PASS(0/1 as exit status) DESCRIPTION
	TAP_N=$((TAP_N + 1))
	tap_func
	if [ "$1" -eq 0 ]; then
		printf 'ok %d - %s%s\n' "$TAP_N" "$TAP_FUNC" "$2"
	else
		TAP_FAILED=$((TAP_FAILED + 1))
		printf 'not ok %d - %s%s\n' "$TAP_N" "$TAP_FUNC" "$2"
	fi
}
diag() { printf '%s\n' "$*" | sed 's/^/# /'; }
# ok DESCRIPTION COMMAND...: passes when the command succeeds; its output is shown when it does not.
ok() {
	local what=$1 out
	shift
	if out=$("$@" 2>&1); then tap_result 0 "$what"; else
		tap_result 1 "$what"
		diag "command: $*" "$out"
	fi
}
nok() {
	local what=$1 out
	shift
	if out=$("$@" 2>&1); then
		tap_result 1 "$what"
		diag "command should have failed: $*" "$out"
	else tap_result 0 "$what"; fi
}
is() { # GOT WANT DESCRIPTION
	if [ "$1" = "$2" ]; then tap_result 0 "$3"; else
		tap_result 1 "$3"
		diag "got:    $1" "wanted: $2"
	fi
}
like() { # GOT EXTENDED-REGEX DESCRIPTION
	if printf '%s' "$1" | grep -Eq -- "$2"; then tap_result 0 "$3"; else
		tap_result 1 "$3"
		diag "got: $1" "does not match: $2"
	fi
}
unlike() {
	if printf '%s' "$1" | grep -Eq -- "$2"; then
		tap_result 1 "$3"
		diag "got: $1" "matches: $2"
	else tap_result 0 "$3"; fi
}
skip() { # DESCRIPTION REASON: one test that cannot run here for want of a device or privilege
	TAP_N=$((TAP_N + 1))
	TAP_SKIPPED=$((TAP_SKIPPED + 1))
	tap_func
	printf 'ok %d - %s%s # SKIP %s\n' "$TAP_N" "$TAP_FUNC" "$1" "$2"
}
skip_all() { # REASON
	printf '1..0 # SKIP %s\n' "$1"
	exit 0
}
bail() {
	printf 'Bail out! %s\n' "$*"
	exit 99
}
done_testing() {
	printf '1..%d\n' "$TAP_N"
	[ "$TAP_FAILED" -eq 0 ]
}
# wait_until SECONDS COMMAND...: polls until it succeeds; fails when the deadline passes.
wait_until() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		read -rt 0.05 <> <(:) || :
	done
}
