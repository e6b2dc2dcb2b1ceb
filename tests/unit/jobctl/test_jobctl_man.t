#!/bin/bash
# jobctl.1 says all that jobctl can do, and nothing else; the page has no mistakes.
. "$HEARTH_TOP_SRCDIR/tests/lib/tap.sh"
jobctl=$HEARTH_TOP_BUILDDIR/jobctl/jobctl
page=$HEARTH_TOP_SRCDIR/docs/man/jobctl.1

# Verbs: the help's lines have two blanks, then one or two lower-case words before the place holders.
verbs=$("$jobctl" --help | sed '1,2d; /^$/,$d' | sed -n 's/^  \([a-z]\{1,\}\( [a-z]\{1,\}\)\{0,1\}\) .*/\1/p' | while read -r verb rest; do
	# the second word is part of the verb only where jobctl knows both together
	if [ -n "$rest" ] && "$jobctl" "$verb" "${rest%% *}" --help 2>/dev/null | grep -q "^usage: jobctl $verb ${rest%% *}\b"; then
		echo "$verb ${rest%% *}"
	else
		echo "$verb"
	fi
done)
[ -n "$verbs" ] || bail "no verbs in the help"

# The part of the page that is about one verb.
section() { awk -v verb="$1" '
	/^\.It Ic / { name = $3; if ($4 ~ /^[a-z]+$/) name = name " " $4; on = (name == verb || $3 == verb && verb !~ / /) }
	/^\.S[hs] / { on = 0 }
	on' "$page"; }

while read -r verb; do
	text=$(section "$verb")
	if [ -z "$text" ]; then
		tap_result 1 "$verb is in the page"
		continue
	fi
	tap_result 0 "$verb is in the page"
	missing=
	# shellcheck disable=SC2086 # a verb may be two words
	for option in $("$jobctl" $verb --help | sed -n 's/^  .. *--\([a-z-]*\).*/\1/p'); do
		case $option in json | url) continue ;; esac
		grep -Eq -- "Fl (. , )?-$option\b" <<<"$text" || missing="$missing --$option"
	done
	is "$missing" "" "with all its options"
done <<<"$verbs"

# And nothing else.
while read -r name; do
	grep -qx -- "$name" <<<"$verbs" || grep -qx -- "${name%% *}" <<<"$verbs"
	tap_result $? "jobctl knows $name"
done < <(sed -n 's/^\.It Ic \([a-z]*\( [a-z]\{1,\}\)\{0,1\}\)\( .*\)\{0,1\}$/\1/p' "$page")

for code in 0 1 2 3 4 5 124 130 141; do
	ok "exit status $code" grep -qx -- ".It $code" "$page"
done
if command -v mandoc >/dev/null; then
	is "$(mandoc -Tlint -W warning "$page")" "" "mandoc has nothing to say"
else
	skip "mandoc has nothing to say" "mandoc is missing"
fi
done_testing
