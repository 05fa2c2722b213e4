#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh INCLUDE-DIRECTORY LANGUAGE STANDARD "HEADER…" COMPILER…: each public header compiles alone, twice in one
# unit, without a warning and without any define of ours, and leaves a macro X of the host alone; with -fshort-enums,
# too.
set -eu
include=$1 language=$2 standard=$3 headers=$4
shift 4
for header in $headers; do
  for enums in -fno-short-enums -fshort-enums; do
    printf '#define X unit_of_its_own\n#include "turnphase/%s"\n#include "turnphase/%s"\nint X;\n' "$header" "$header" |
      "$@" -x "$language" "-std=$standard" "$enums" -Wall -Wextra -Wpedantic -Wundef -Werror -I "$include" \
        -fsyntax-only - || { echo "$header is not $standard"; exit 1; }
  done
done
