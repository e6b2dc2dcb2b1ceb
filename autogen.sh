#!/bin/sh
# Makes ./configure in a git checkout (release archives have it already).
set -e
cd "$(dirname "$0")"
exec autoreconf --install --force
