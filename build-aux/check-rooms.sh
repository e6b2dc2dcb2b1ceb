#!/bin/sh
# Checks that rooms (folders of sources) include only what build-aux/rooms.txt allows, that each folder with sources is
# in that table and holds at most 30 of them, and that no header declares more than 60 functions.
# Prints one file:line: message per finding; ends with 1 when there was any.
set -eu
cd "$(dirname "$0")/.."

list=$(mktemp)
trap 'rm -f "$list"' EXIT
if [ -d .git ] || [ -f .git ]; then
	git ls-files --cached --others --exclude-standard -- '*.c' '*.h'
else
	find . -type f -name '*.[ch]' ! -path './build*' | sed 's|^\./||'
fi | grep -E '^(common|scheduler|store|shim|agent|controller|jobctl)/' | grep -vE '_(gen|script)\.h$' | sort -u >"$list"

# shellcheck disable=SC2046 # one name a line, without blanks
exec awk -v table=build-aux/rooms.txt '
function room_of(path) {
	sub(/\/[^\/]*$/, "", path)
	return path
}
function fail(text) {
	print text
	bad = 1
}
function is_allowed(room, header,    i, n, names, target) {
	target = room_of(header)
	if (target == room)
		return 1
	n = split(uses[room], names, " ")
	for (i = 1; i <= n; i++) {
		if (names[i] == header || names[i] == target)
			return 1
		if (names[i] ~ /\/\*$/ && index(target "/", substr(names[i], 1, length(names[i]) - 1)) == 1)
			return 1
	}
	return 0
}
BEGIN {
	while ((getline line < table) > 0) {
		if (line ~ /^(#|[ \t]*$)/)
			continue
		i = index(line, ":")
		n = split(substr(line, i + 1), names, " ")
		for (k = 1; k <= n; k++)
			if (names[k] !~ /(\.h|\/\*)$/ && !(names[k] in known))
				fail(table ": " substr(line, 1, i - 1) " uses " names[k] ", which is not above it")
		uses[substr(line, 1, i - 1)] = substr(line, i + 1)
		known[substr(line, 1, i - 1)] = 1
	}
}
FNR == 1 {
	room = room_of(FILENAME)
	if (!(room in known) && !said[room]++)
		fail(FILENAME ":1: the folder " room " is not in " table)
	files[room]++
	functions = 0
}
/^#include "/ {
	split($0, part, "\"")
	if ((room in known) && part[2] ~ /\// && !is_allowed(room, part[2]))
		fail(FILENAME ":" FNR ": " room " may not include " part[2] " (" table ")")
}
FILENAME ~ /\.h$/ && /^[a-z].*[a-z0-9_]\(/ && !/^(typedef|static|struct [a-z_]* \{)/ {
	if (++functions == 61)
		fail(FILENAME ":" FNR ": more than 60 functions in one header")
}
END {
	for (r in files)
		if (files[r] > 30)
			fail(r ": " files[r] " sources in one folder, at most 30")
	exit bad
}' $(cat "$list")
