#!/bin/sh
# Writes files as C: embed.sh FOLDER FILE... > out. Each becomes a row {"FILE", bytes, length} of the table embedded_files.
set -e
dir=$1
shift
echo "/* Made by web/embed.sh. */"
n=0
for f in "$@"; do
	echo "static const unsigned char file_${n}[] = {"
	od -An -v -tx1 "$dir/$f" | sed -e 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
	echo "0};"
	n=$((n + 1))
done
echo "static const struct embedded { const char *path; const unsigned char *data; unsigned long size; } embedded_files[] = {"
n=0
for f in "$@"; do
	echo "	{\"$f\", file_$n, sizeof(file_$n) - 1},"
	n=$((n + 1))
done
echo "};"
