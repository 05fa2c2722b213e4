#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# glibc.sh OLDEST FILE…: no library or program needs a symbol of a glibc that is newer than OLDEST (docs/abi.md).
set -eu
oldest=$1
shift
status=0 seen=0

# Prints "VERSION SYMBOL" for each symbol of glibc that the file needs and that is newer than the version given.
newer() { # FILE VERSION
  objdump -T "$1" | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\))\{0,1\} *\([^ ]*\)$/\1 \2/p' |
    awk -v limit="$2" '{ split($1, is, "."); split(limit, may, ".")
      if (is[1] > may[1] + 0 || (is[1] == may[1] + 0 && is[2] > may[2] + 0)) print }'
}

for file; do
  [ -z "$(newer "$file" 1.0)" ] || seen=$((seen + 1))
  found=$(newer "$file" "$oldest")
  [ -z "$found" ] || { printf '%s needs a glibc newer than %s:\n%s\n' "$file" "$oldest" "$found"; status=1; }
done
[ "$seen" -gt 0 ] || { echo "skipped: nothing here needs glibc"; exit 77; }
[ "$seen" -eq $# ] || { echo "$seen of $# files need glibc: is objdump's form another one?"; status=1; }
exit $status
