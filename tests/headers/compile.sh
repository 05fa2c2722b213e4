#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh INCLUDE-DIRECTORY HEADER LANGUAGE STANDARD COMPILER…: a public header compiles alone, twice in one unit,
# without a warning and without any define of ours.
set -eu
include=$1 header=$2 language=$3 standard=$4
shift 4
printf '#include "turnphase/%s"\n#include "turnphase/%s"\nint unit_of_its_own;\n' "$header" "$header" |
  "$@" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Wundef -Werror -I "$include" -fsyntax-only -
