#!/bin/bash
# build-aux/check-words.sh counts phrases in a tree of its own: where they are, what is allowed, and what --renew does.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
dir=$(mktemp -d) || bail "no folder"
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/build-aux" "$dir/agent/logs" "$dir/docs/man" "$dir/docs"
cp "$HEARTH_TOP_SRCDIR/build-aux/check-words.sh" "$dir/build-aux/" || bail "check-words.sh is missing"
check=$dir/build-aux/check-words.sh
table=$dir/build-aux/words-allowed.txt
new=ane'w' no='is 'no # so that this file has none of them
allow() { printf '# a comment\n' >"$table"; printf '%s\n' "$@" >>"$table"; }

printf '/* It begins %s. */\n' "$new" >"$dir/agent/logs/a.c"
printf '/*\n * It is\n * no name, but there is no job, and it is no longer here.\n */\nint begin_%s(void);\n' "$new" >"$dir/agent/b.h"
printf 'An example: "%s good". It `begins %s`.\n' "$no" "$new" >"$dir/docs/a.md"
is "$("$check" --list | sed 's/^\.\///')" "agent/b.h:3: $no
agent/logs/a.c:1: $new" "--list prints phrases of comments, also over a line break; names and quoted examples do not count"

allow "agent 2"
ok "a folder may have as many as the table allows, its sub-folders included" "$check"
allow "agent 1"
nok "a folder with more than the table allows fails" "$check"
like "$("$check")" "^agent: 2 of the phrases.* 1 allowed.*--list agent" "the message names the folder, both counts and the next command"
printf '.\\" manual\nIt begins %s.\n' "$new" >"$dir/docs/man/x.1"
allow "agent 2"
like "$("$check")" "^docs/man: 1 of" "a folder that the table lacks may have none"

allow "agent 5" "docs 3"
rm "$dir/docs/man/x.1"
"$check" --renew
is "$(cat "$table")" "# a comment
agent 2" "--renew lowers a count, drops a clean folder and leaves comments"
allow "agent 1"
"$check" --renew
is "$(tail -n 1 "$table")" "agent 1" "--renew never raises a count"
allow "<<<<<<< HEAD" "agent 4" "=======" "agent 3" ">>>>>>> other"
"$check" --renew
is "$(tail -n +2 "$table")" "agent 2" "--renew solves a conflict of git in the table"
done_testing
