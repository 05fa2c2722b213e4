#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# binding.sh LANGUAGE LIBRARY SANITIZER FOLDER [EXAMPLE]: runs EXAMPLE (guard) of examples/bindings/LANGUAGE with the
# library, or says why it cannot be run here (exit 77). SANITIZER is meson's b_sanitize. What is fetched or built stands
# in FOLDER/LANGUAGE.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
language=$1 library=$2 sanitizer=$3 made=$4/$1 example=${5:-guard}
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

# koffi as package-lock.json pins it, fetched from the registry of npm once for this build; without its scripts, which
# would compile it where it has no binary.
fetch_koffi() {
  mkdir -p "$made"
  exec 9>"$made/lock"
  flock 9
  if ! cmp -s "$folder/package-lock.json" "$made/fetched"; then
    cp "$folder/package.json" "$folder/package-lock.json" "$made"
    if ! npm ci --prefix "$made" --ignore-scripts --prefer-offline --no-audit --no-fund --fetch-retries 1 \
      --fetch-timeout 20000 >"$made/npm.log" 2>&1; then
      cat "$made/npm.log"
      ! grep -q EINTEGRITY "$made/npm.log" || exit 1
      skip "npm cannot fetch koffi"
    fi
    cp "$folder/package-lock.json" "$made/fetched"
  fi
  flock -u 9
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
  node)
    installed node npm
    fetch_koffi
    NODE_PATH=$made/node_modules exec node "$folder/$example.js" ;;
  rust)
    installed rustc cc python3
    mkdir -p "$made"
    build=$(mktemp -d "$made/XXXXXX")
    trap 'rm -rf "$build"' EXIT
    cp "$folder/guard.rs" "$folder/turnphase.rs" "$build"
    python3 "$folder/generate.py" "$abi" >"$build/ffi.rs"
    rustc --edition 2021 "$build/guard.rs" -o "$build/guard" -L "native=$(dirname "$library")"
    LD_LIBRARY_PATH=$(dirname "$library") "$build/guard" ;;
  *)
    echo "binding.sh: there is no '$language'" >&2
    exit 2 ;;
esac
