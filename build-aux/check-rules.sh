#!/bin/sh
# Compares the rules of the scheduler's pages (docs/spec/05*.md) with the code and tests that cite them.
#
# A rule begins a line with its number: **S-101**. Fails when a number is given twice, when code, a test or
# a page cites a rule that does not exist, or when neither code nor a test cites a rule.
# Usage: check-rules.sh              1 when something is wrong
#        check-rules.sh --list S-101    print the places that cite the rule
set -eu

cd "$(dirname "$0")/.."
number='S-[0-9][0-9][0-9]'

# Code and tests, not what a build leaves behind.
list_code() {
	find common shim scheduler store agent controller jobctl tests -type f \
		\( -name '*.c' -o -name '*.h' -o -name '*.py' -o -name '*.t' -o -name '*.sh' \)
}

if [ "${1-}" = --list ]; then
	list_code | sort | xargs grep -nwF -e "${2:?which rule}"
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat docs/spec/05*.md | sed -n "s/^\*\*\($number\)\*\* .*/\1/p" | sort >"$work/all"
sort -u "$work/all" >"$work/rules"
list_code | xargs grep -how -e "$number" | sort -u >"$work/code"
cat docs/*.md docs/spec/*.md | grep -ow -e "$number" | sort -u >"$work/pages"

{
	uniq -d "$work/all" | sed 's|^|docs/spec: two rules have the number |'
	comm -13 "$work/rules" "$work/code" | sed 's|.*|code or tests cite &, which docs/spec/05*.md does not have|'
	comm -13 "$work/rules" "$work/pages" | sed 's|.*|a page names &, which docs/spec/05*.md does not have|'
	comm -23 "$work/rules" "$work/code" | sed 's|.*|docs/spec: neither code nor a test cites &|'
} >"$work/wrong"
[ -s "$work/rules" ] || echo "docs/spec/05*.md: no rules found" >>"$work/wrong"
cat "$work/wrong"
[ ! -s "$work/wrong" ]
