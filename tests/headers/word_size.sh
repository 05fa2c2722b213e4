#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# word_size.sh INCLUDE-DIRECTORY COMPILER…: a 32-bit compiler is refused by one sentence.
set -eu
include=$1
shift
kinds='-m32 -mx32'
tried=0
for kind in $kinds; do
  echo 'int x;' | "$@" "$kind" -x c -fsyntax-only - 2>/dev/null || continue
  tried=$((tried + 1))
  if said=$(echo '#include "turnphase/base.h"' |
    "$@" "$kind" -ffreestanding -x c -I "$include" -fsyntax-only - 2>&1); then
    echo "$kind: base.h compiles"
    exit 1
  fi
  sentences=$(printf '%s\n' "$said" | grep -c 'error:') || true
  if [ "$sentences" -ne 1 ] || ! printf '%s\n' "$said" | grep -q '64-bit machines only'; then
    printf '%s: not by one sentence:\n%s\n' "$kind" "$said"
    exit 1
  fi
done
[ "$tried" -gt 0 ] || { echo "skipped: this compiler has neither of $kinds"; exit 77; }
