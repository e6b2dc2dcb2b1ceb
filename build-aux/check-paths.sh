#!/bin/sh
# Checks that every source file that a page names exists. A page that names a file which has moved leads its
# reader nowhere. A path begins with a top folder and ends with a suffix of sources; it may have asterisks.
# Usage: check-paths.sh [PAGE...]   (default: docs/*.md and docs/spec/*.md)
# Prints one page:line: message for each path that matches no file; ends with 1 when there was any.
set -eu

cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- docs/*.md docs/spec/*.md

list=$(mktemp)
trap 'rm -f "$list"' EXIT
awk '
BEGIN {
	part = "[A-Za-z0-9_.*-]+"
	path = "^(common|scheduler|store|shim|agent|controller|jobctl|web|tests|build-aux|docs|examples|systemd)/(" \
	       part "/)*" part "\\.(c|h|am|t|sh|py|js|md|csv|sql)$"
}
{
	n = split($0, words, /[^A-Za-z0-9_.\/*-]+/)
	for (i = 1; i <= n; i++) {
		sub(/\.+$/, "", words[i])
		if (words[i] ~ path)
			print FILENAME ":" FNR, words[i]
	}
}' "$@" >"$list"
failed=0
while read -r where path; do
	# shellcheck disable=SC2086 # asterisks in a path stand for names
	ls -d $path >/dev/null 2>&1 && continue
	echo "$where: there is no file $path"
	failed=1
done <"$list"
exit $failed
