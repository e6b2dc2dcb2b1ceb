#!/bin/sh
# Debian packages that Hearth needs, by purpose: packages.sh build|run|test... prints those that are missing here.
# packages.sh --install PURPOSE... installs them (root or password-less sudo), else prints the one line to run and exits 3.
set -eu

build="gcc make autoconf automake libtool pkg-config libsqlite3-dev libevent-dev libssl-dev libcurl4-openssl-dev libcjson-dev
libpcre2-dev libzstd-dev libhwloc-dev libssh2-1-dev uthash-dev"
run="openmpi-bin python3 python3-torch python3-sklearn python3-venv curl ca-certificates"
test="clang clang-format shellcheck libopenmpi-dev python3-mpi4py python3-numpy python3-pip iproute2 nftables procps util-linux jq mandoc openssh-server
openssh-client git xz-utils sqlite3 libclang-rt-14-dev binutils"

install=no
if [ "${1:-}" = --install ]; then
	install=yes
	shift
fi

missing=
for purpose in "$@"; do
	case $purpose in
	build) list=$build ;;
	run) list=$run ;;
	test) list=$test ;;
	*)
		echo "packages.sh: unknown purpose '$purpose' (build, run, test)" >&2
		exit 2
		;;
	esac
	for p in $list; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || :)" = installed ] || missing="$missing $p"
	done
done
missing=${missing# }
[ -n "$missing" ] || exit 0
if [ $install = no ]; then
	echo "$missing"
	exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
	as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	as_root="sudo -n"
else
	echo "Some packages are missing. Run this once, then start again:" >&2
	echo "  sudo apt-get install --no-install-recommends $missing" >&2
	exit 3
fi
echo "Installing: $missing"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # words are meant to split
if ! { $as_root apt-get update -q && $as_root apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "Installing failed; the whole output is in $log" >&2
	exit 1
fi
rm -f "$log"
