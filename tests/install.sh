#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD-DIRECTORY VERSION SOURCE COMPILER…: a staged installation (DESTDIR) of a build directory passes
# installed.sh, and is removed again by packaging/installed.py, but for what is not as it was installed. The loader gets
# the folder of the libraries: the prefix is that of the build directory, /usr/local.
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
command=$(find "$place" -path '*/bin/turnphase')
sh "$here/installed.sh" "$command" "$@"

# Twice, as who installs over an older version; the file that only that had stays in the list.
prefix=$(dirname "$(dirname "$command")")
list=$here/../packaging/installed.py
log=$build/meson-logs/install-log.txt
echo old >"$prefix/share/turnphase/of-an-older-version"
{ cat "$log"; echo "$prefix/share/turnphase/of-an-older-version"; } >"$place/log"
python3 "$list" record "$prefix" "$place/log"
python3 "$list" record "$prefix" "$log"
echo '# mine' >>"$prefix/include/turnphase/tool.h"
echo mine >"$prefix/share/turnphase/mine"
rm "$prefix/share/turnphase/turnphase.abi.json"
python3 "$list" remove "$prefix" >"$place/said"
cat "$place/said"
(cd "$prefix" && find . ! -type d | sort) >"$place/left"
printf './include/turnphase/tool.h\n./share/turnphase/mine\n' | diff - "$place/left"
grep -q '^left: .*/tool.h: it has changed since it was installed$' "$place/said"
grep -q '^left: .*/share/turnphase: it has mine$' "$place/said"
grep -q '^removed [0-9]* files; not there any more: 1$' "$place/said"
[ ! -e "$prefix/bin" ] || { echo "$prefix/bin is still there"; exit 1; }
! python3 "$list" remove "$prefix" >"$place/said" || { echo 'it was removed twice'; exit 1; }
grep -q 'has installed nothing under' "$place/said"
