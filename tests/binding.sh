#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# binding.sh LANGUAGE LIBRARY SANITIZER FOLDER: runs the guard of examples/bindings/LANGUAGE with the library, or says
# why it cannot be run here (exit 77). SANITIZER is meson's b_sanitize. What is built stands in FOLDER/LANGUAGE.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
language=$1 library=$2 sanitizer=$3 made=$4/$1
folder=$root/examples/bindings/$language
abi=$root/turnphase.abi.json
export TURNPHASE_LIBRARY="$library" TURNPHASE_INCLUDE="$root/include" TURNPHASE_ABI="$abi" PYTHONDONTWRITEBYTECODE=1

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
    exec python3 "$folder/guard.py" ;;
  luajit)
    installed luajit
    exec luajit "$folder/guard.lua" ;;
  rust)
    installed rustc cc python3
    mkdir -p "$made"
    build=$(mktemp -d "$made/XXXXXX")
    trap 'rm -rf "$build"' EXIT
    cp "$folder/guard.rs" "$folder/turnphase.rs" "$build"
    python3 "$folder/generate.py" "$abi" >"$build/ffi.rs"
    rustc --edition 2021 "$build/guard.rs" -o "$build/guard" -L "native=$(dirname "$library")"
    LD_LIBRARY_PATH=$(dirname "$library") "$build/guard" ;;
  go)
    installed go cc pkg-config
    mkdir -p "$made"
    build=$(mktemp -d "$made/XXXXXX")
    trap 'rm -rf "$build"' EXIT
    printf '%s\n' 'Name: turnphase' 'Description: of this build' 'Version: 0' "Cflags: -I$root/include" \
      "Libs: -L$(dirname "$library") -lturnphase" >"$build/turnphase.pc"
    PKG_CONFIG_PATH=$build GOFLAGS=-mod=mod GOTOOLCHAIN=local \
      go build -o "$build/guard" "$folder/guard.go" "$folder/turnphase.go"
    LD_LIBRARY_PATH=$(dirname "$library") "$build/guard" ;;
  *)
    echo "binding.sh: there is no '$language'" >&2
    exit 2 ;;
esac
