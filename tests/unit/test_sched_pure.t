#!/bin/sh
# The scheduler library is pure: it may use memory, strings and formatting, nothing of the world. Its undefined symbols are compared with a list.
lib=$HEARTH_TOP_BUILDDIR/scheduler/.libs/libhsched.a
[ -f "$lib" ] || lib=$HEARTH_TOP_BUILDDIR/scheduler/libhsched.a
echo 1..1
if ! command -v nm >/dev/null; then
	echo "ok 1 # SKIP nm is missing"
	exit 0
fi
allowed=' abort free mem[a-z]* str[a-z]* v?snprintf qsort bsearch x(m|c|re)alloc xreallocarray xstrn?dup __(v?snprintf|mem[a-z]*|str[a-z]*)_chk __stack_chk_fail _GLOBAL_OFFSET_TABLE_ __(asan|ubsan|tsan|gcov|llvm|sanitizer)_.* '
defined=$(nm --defined-only "$lib" | awk 'NF == 3 { print $3 }' | sort -u)
foreign=$(nm -u "$lib" | awk '$1 == "U" { print $2 }' | sort -u | while read -r s; do
	echo "$defined" | grep -qx -- "$s" && continue
	for a in $allowed; do
		echo "$s" | grep -Eqx -- "$a" && continue 2
	done
	echo "$s"
done)
if [ -z "$foreign" ]; then
	echo "ok 1 - libhsched uses nothing but memory, strings and formatting"
else
	echo "not ok 1 - libhsched uses nothing but memory, strings and formatting"
	echo "$foreign" | sed 's/^/# /'
fi
