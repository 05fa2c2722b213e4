#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD-DIRECTORY SOURCE LIBRARIES COMPILER…: what is installed is enough: a host in SOURCE compiles and runs
# with nothing but the installed tree and what pkg-config says, and every one of LIBRARIES (names, separated by spaces)
# links.
set -eu
build=$1 source=$2 libraries=$3
shift 3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

DESTDIR=$place meson install -C "$build" --no-rebuild >"$place/install.log" || { cat "$place/install.log"; exit 1; }
found=$(find "$place" -name turnphase.pc)
if [ -z "$found" ]; then
  echo "turnphase.pc was not installed"
  exit 1
fi
PKG_CONFIG_PATH=$(dirname "$found")
PKG_CONFIG_SYSROOT_DIR=$place
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export LD_LIBRARY_PATH

for library in $libraries; do
  flags=$(pkg-config --cflags --libs "$library")
  echo "$library: $flags"
  case $flags in
    *-D*) echo "$library: a host is given definitions that it did not ask for"; exit 1 ;;
  esac
  # shellcheck disable=SC2086 # the flags are to be split
  "$@" -std=c11 -Wall -Wextra -Werror "$source" -o "$place/host" -Wl,--no-as-needed $flags
  (cd "$place" && ./host >"$place/host.log") || { cat "$place/host.log"; exit 1; }
done
echo "$(wc -l <"$place/host.log") lines from the host"
