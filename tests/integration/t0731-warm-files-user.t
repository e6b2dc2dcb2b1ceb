#!/bin/bash
# The same as t0730 with an agent of an ordinary user: it mounts layers in its user namespaces, and removes what a job leaves in them. Where no layer
# can be mounted the job has copies.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
jobctl=${HEARTH_TOP_BUILDDIR:?}/jobctl/jobctl
as_nobody() { "$@"; }
[ "$(id -u)" -ne 0 ] || as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups -- "$@"; }
as_nobody unshare -Ur true 2>/dev/null || skip_all "an ordinary user may not make user namespaces here"
as_nobody test -x "$jobctl" || skip_all "the build folder is not readable for an ordinary user"
home=$(mktemp -d /tmp/hoXXXXXX)
[ "$(id -u)" -ne 0 ] || chown nobody "$home"
as_user() { as_nobody env -u HEARTH_URL -u HEARTH_TOKEN -u XDG_CONFIG_HOME -u XDG_DATA_HOME -u XDG_RUNTIME_DIR HOME="$home" "$@"; }
cd "$home" || bail "no home"
trap 'as_user "$jobctl" local down >/dev/null 2>&1; rm -rf "$home"' EXIT
port=$((20000 + $$ % 10000))
ok "local cluster as an ordinary user" as_user "$jobctl" local up --nodes 1 --port "$port"
mkdir src src/sub
for i in 1 2 3 4 5 6; do head -c 1000000 /dev/urandom >"src/part$i"; done
echo original >src/sub/small
cat >src/lay.sh <<'S'
echo more >>part1; : >part2; rm part3; mv part4 sub/moved; chmod 600 part5; rm -r sub; mkdir sub; echo mine >sub/small; touch -d @1 part6
awk '$5 == "/opt/ml/code" || $5 ~ /ml.code$/ { for (i = 1; i <= NF; i++) if ($i == "-") print "type", $(i + 1) }' /proc/self/mountinfo | head -1
echo laid
S
echo 'find . -type f | sort | xargs sha256sum; stat -c "%n %a %s" part*' >src/look.sh
job() { # NAME SCRIPT
	printf '{"name": "%s", "source_dir": "%s/src", "command": ["/bin/sh", "%s"], "launcher": "direct", "retry": {"max_attempts": 0}, "warm_pool": {"keep_alive_s": 600}}\n' "$1" "$home" "$2" >"$1.json"
	id=$(as_user "$jobctl" submit "$1.json" 2>/dev/null)
	as_user "$jobctl" wait "$id" --timeout 60 >/dev/null 2>&1
	as_user "$jobctl" logs "$id"
}
job first look.sh >clean
like "$(cat clean)" 'part6' "a job reads its files"
said=$(job traps lay.sh)
like "$said" laid "a job changes all of them"
reflink=$(echo x >from && cp --reflink=always from to 2>/dev/null && echo yes)
if [ -n "$reflink" ]; then skip "they are a layer" "the file system has reflinks"; else like "$said" 'type overlay' "they are a layer"; fi
is "$(job second look.sh)" "$(cat clean)" "the next job has them as they were"
left() { [ -z "$(find "$home" -path '*/layers/*' -print -quit)" ]; }
ok "nothing of the layers is left" wait_until 20 left
done_testing
