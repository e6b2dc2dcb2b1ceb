#!/bin/sh
# The scheduler library is pure: it uses nothing of the world. Its undefined symbols are compared with a list.
lib=$HEARTH_TOP_BUILDDIR/scheduler/.libs/libhsched.a
[ -f "$lib" ] || lib=$HEARTH_TOP_BUILDDIR/scheduler/libhsched.a
echo 1..1
if ! command -v nm >/dev/null; then
	echo "ok 1 # SKIP nm is missing (package binutils): what the scheduler library uses was not looked at"
	exit 0
fi
# A library that is not there uses nothing: that must not look like a pure one.
if [ -z "$(nm --defined-only "$lib" 2>/dev/null | grep -w sched_step)" ]; then
	echo "not ok 1 - there is no scheduler library in $HEARTH_TOP_BUILDDIR/scheduler"
	exit 0
fi
# Memory, string, mathematics, sorting, each by name (strtok and strerror keep state, strftime and strcoll look at the locale); what the compiler itself adds for hardening and assertions, for position independence, and in builds with sanitizers or
# counters. Sentences are made by common/base/text.c, which is pure as well.
allowed='malloc calloc realloc free qsort bsearch
	(memchr|memcmp|memcpy|memmove|memset|bcmp|strchr|strcmp|strcpy|strcspn|strlen|strncmp|strncpy|strnlen|strpbrk|strrchr|strspn|strstr)
	(log|log2|log10|log1p|exp|exp2|expm1|pow|sqrt|cbrt|floor|ceil|round|trunc|fabs|fmod|fmin|fmax|l?lround|ldexp|frexp)f?
	text_(on|clear|add|join|is_empty|is_cut) __(memcpy|memmove|memset|strcpy|strncpy)_chk __stack_chk_fail __assert_fail _GLOBAL_OFFSET_TABLE_ __(asan|ubsan|tsan|gcov|llvm|sanitizer)_.*'
defined=$(nm --defined-only "$lib" | awk 'NF == 3 { print $3 }' | sort -u)
set -f # the list has patterns, not file names
foreign=$(nm -u "$lib" | awk '$1 == "U" { print $2 }' | sort -u | while read -r s; do
	echo "$defined" | grep -qx -- "$s" && continue
	for a in $allowed; do
		echo "$s" | grep -Eqx -- "$a" && continue 2
	done
	echo "$s"
done)
if [ -z "$foreign" ]; then
	echo "ok 1 - libhsched uses nothing but memory, strings, mathematics and sorting"
else
	echo "not ok 1 - libhsched uses nothing but memory, strings, mathematics and sorting"
	echo "$foreign" | sed 's/^/# /'
fi
