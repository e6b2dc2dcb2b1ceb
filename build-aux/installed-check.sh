#!/bin/bash
# Runs a two-node mpirun job from an installed tree, wherever it lies: installed-check.sh DESTDIR/PREFIX. Home and cluster are its own.
set -eu
prefix=$1
for program in bin/jobctl sbin/hearthd sbin/hearth-agent libexec/hearth/hearth-shim libexec/hearth/hearth-rank libexec/hearth/hearth-rsh libexec/hearth/hearth-hold libexec/hearth/hearth-files libexec/hearth/hearth-park; do
	[ -x "$prefix/$program" ] || { echo "not installed: $program" >&2; exit 1; }
done
for page in man1/jobctl.1 man1/hearth-ckpt.1 man5/hearth.conf.5 man8/hearthd.8 man8/hearth-agent.8 man8/hearth-shim.8; do
	[ -s "$prefix/share/man/$page" ] || { echo "not installed: $page" >&2; exit 1; }
done
for unit in hearthd hearth-agent; do
	file=$prefix/lib/systemd/system/$unit.service
	grep -q "^ExecStart=/.*/$unit --data" "$file" && ! grep -q '@[a-z]*@' "$file" || { echo "no unit, or one with paths open: $file" >&2; exit 1; }
done
"$prefix/bin/jobctl" --version
"$prefix/sbin/hearthd" --version
home=$(mktemp -d /tmp/hiXXXXXX)
jobctl() { env -i PATH=/usr/bin:/bin HOME="$home" "$prefix/bin/jobctl" "$@"; }
trap 'jobctl local down >/dev/null 2>&1; rm -rf "$home"' EXIT
if command -v systemd-analyze >/dev/null; then # it wants to see the programs, which are below a DESTDIR here
	for unit in hearthd hearth-agent; do
		sed "s|^ExecStart=/[^ ]*/$unit|ExecStart=$prefix/sbin/$unit|; /^Documentation/d" "$prefix/lib/systemd/system/$unit.service" >"$home/$unit.service"
		said=$(systemd-analyze verify "$home/$unit.service" 2>&1 | grep "$unit") || continue
		echo "$said" >&2
		exit 1
	done
fi
cd "$home"
for _ in 1 2 3 4 5; do jobctl local up --port $((20000 + RANDOM % 10000)) && break; done
cat >job.json <<'J'
{"name": "installed", "command": ["/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE"], "launcher": "mpirun", "resources": {"instances": 2}}
J
id=$(jobctl submit job.json)
jobctl wait "$id" --timeout 120 || { jobctl show "$id"; jobctl logs "$id" --stream mpirun; exit 1; }
for r in 0 1; do [ "$(jobctl logs "$id" --rank $r)" = "rank $r of 2" ] || { echo "rank $r printed something else" >&2; exit 1; }; done
read -r _ pid _ <"$home/.local/share/hearth/local/run/hearthd"
[ "$(readlink -f "/proc/$pid/exe")" = "$(readlink -f "$prefix/sbin/hearthd")" ] || { echo "hearthd is not the installed one" >&2; exit 1; }
echo "a job of two nodes ran from $prefix"
