#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh INCLUDE-DIRECTORY HEADER LANGUAGE STANDARD COMPILER…: a public header compiles alone, twice in one unit,
# without a warning and without any define of ours, and leaves a macro X of the host alone; with -fshort-enums, too.
set -eu
include=$1 header=$2 language=$3 standard=$4
shift 4
for enums in -fno-short-enums -fshort-enums; do
  printf '#define X unit_of_its_own\n#include "turnphase/%s"\n#include "turnphase/%s"\nint X;\n' "$header" "$header" |
    "$@" -x "$language" "-std=$standard" "$enums" -Wall -Wextra -Wpedantic -Wundef -Werror -I "$include" -fsyntax-only -
done
