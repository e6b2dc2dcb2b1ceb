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
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel 2>/dev/null) || top=
cd "$work"/hearth-*/
# A file that no list names is found here, before a compiler elsewhere misses it.
missing=
for f in $([ -z "$top" ] || git -C "$top" ls-files | grep -vE '^(\.ci/|\.gitignore|build-aux/m4/\.gitkeep)'); do
	[ -e "$f" ] || missing="$missing $f"
done
[ -z "$missing" ] || { echo "not in the archive:$missing" >&2; exit 1; }
mkdir build && cd build
../configure --quiet --prefix=/usr --sysconfdir=/etc --enable-faults
make -s -j"$(nproc)"
make -s install DESTDIR="$work/destdir"
../build-aux/installed-check.sh "$work/destdir/usr"
make -k -j"$(($(nproc) * 2))" check
