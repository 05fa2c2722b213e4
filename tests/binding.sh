#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# binding.sh LANGUAGE LIBRARY SANITIZER: runs examples/bindings/LANGUAGE with the library, or says why it cannot be run
# here (exit 77). SANITIZER is meson's b_sanitize. Folders of its own are made in the working directory.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
language=$1 library=$2 sanitizer=$3
folder=$root/examples/bindings/$language
layout=$root/tests/headers/layout.txt
export TURNPHASE_LIBRARY="$library" TURNPHASE_INCLUDE="$root/include" PYTHONDONTWRITEBYTECODE=1

skip() {
  echo "skipped: $*"
  exit 77
}

installed() { # PROGRAM…
  for program; do
    command -v "$program" >/dev/null || skip "no $program here (./dev setup --bindings)"
  done
}

# A sanitizer's run-time library must be loaded before all else, so by the program.
[ "$sanitizer" = none ] || skip "a library with a sanitizer ($sanitizer) does not load into a program without"

case $language in
  ctypes)
    installed python3
    exec python3 "$folder/guard.py" "$layout" ;;
  cffi)
    installed python3 cc
    for python in python3 /usr/bin/python3; do # Debian's module is for Debian's Python
      ! "$python" -c 'import cffi' 2>/dev/null || exec "$python" "$folder/guard.py"
    done
    skip "no cffi for Python here (./dev setup --bindings)" ;;
  *)
    echo "binding.sh: there is no '$language'" >&2
    exit 2 ;;
esac
