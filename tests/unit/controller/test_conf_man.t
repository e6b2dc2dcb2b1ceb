#!/bin/sh
# Every setting stands in hearth.conf.5, and nothing else does.
echo 1..1
src=$HEARTH_TOP_SRCDIR/controller/settings.c man=$HEARTH_TOP_SRCDIR/docs/man/hearth.conf.5
a=$(sed -n 's/^[[:space:]]*{"\([a-z_]*\)", CONF_.*/\1/p' "$src" | sort)
b=$(sed -n 's/^\.It Cm \([a-z_]*\)$/\1/p' "$man" | sort)
if [ -n "$a" ] && [ "$a" = "$b" ]; then
	echo "ok 1 - hearth.conf.5 names every setting"
else
	echo "not ok 1 - hearth.conf.5 names every setting"
fi
