#!/bin/bash
# build-aux/check-paths.sh finds paths in pages that match no file, in a tree of its own.
. "${HEARTH_TOP_SRCDIR:?}/tests/lib/tap.sh"
dir=$(mktemp -d) || bail "no folder"
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/build-aux" "$dir/agent/logs" "$dir/docs/spec"
cp "$HEARTH_TOP_SRCDIR/build-aux/check-paths.sh" "$dir/build-aux/" || bail "check-paths.sh is missing"
check=$dir/build-aux/check-paths.sh
touch "$dir/agent/logs/tailer.c"

printf 'See `agent/logs/tailer.c`, agent/logs/*.c and (agent/logs/tailer.c).\n' >"$dir/docs/a.md"
printf 'The way: DATA/agent/none.c, agent/none, sub-agent/none.c, http://x/agent/none.c\n' >"$dir/docs/spec/b.md"
is "$("$check"; echo $?)" 0 "paths that exist, asterisks, and words that are not paths of sources pass"
printf 'One\nSee `agent/tailer.c`. Also agent/logs/t*.h.\n' >"$dir/docs/spec/b.md"
is "$("$check"; echo $?)" "docs/spec/b.md:2: there is no file agent/tailer.c
docs/spec/b.md:2: there is no file agent/logs/t*.h
1" "a moved file and a pattern that matches nothing are named with page and line"
is "$("$check" docs/a.md; echo $?)" 0 "only the pages that are given are read"
done_testing
