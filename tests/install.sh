#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD-DIRECTORY VERSION SOURCE COMPILER…: a staged installation (DESTDIR) of a build directory passes
# installed.sh. The loader gets the folder of the libraries: the prefix is that of the build directory, /usr/local.
set -eu
build=$1
shift
here=$(dirname "$0")
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
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
turnphase_DIR=$LD_LIBRARY_PATH/cmake/turnphase
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH turnphase_DIR
sh "$here/installed.sh" "$(find "$place" -path '*/bin/turnphase')" "$@"
