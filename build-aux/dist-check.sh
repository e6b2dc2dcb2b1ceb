#!/bin/bash
# Makes the release archive in a build folder, unpacks it elsewhere, builds, installs below a DESTDIR and runs the tests there.
#   dist-check.sh BUILD-FOLDER WORK-FOLDER
set -eu
build=$1 work=$2
rm -rf "$work"
mkdir -p "$work/destdir"
make -s -C "$build" dist
archive=$(ls "$build"/hearth-*.tar.xz)
tar -xJf "$archive" -C "$work"
cd "$work"/hearth-*/
mkdir build && cd build
../configure --quiet --prefix=/usr --sysconfdir=/etc --enable-faults
make -s -j"$(nproc)"
make -s install DESTDIR="$work/destdir"
for program in bin/jobctl sbin/hearthd sbin/hearth-agent libexec/hearth/hearth-shim libexec/hearth/hearth-rank libexec/hearth/hearth-rsh; do
	[ -x "$work/destdir/usr/$program" ] || { echo "not installed: $program" >&2; exit 1; }
done
"$work/destdir/usr/bin/jobctl" --version
"$work/destdir/usr/sbin/hearthd" --version
make -k -j"$(($(nproc) * 2))" check
