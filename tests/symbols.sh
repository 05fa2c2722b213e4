#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh HEADER-DIRECTORY NEEDED LIBRARY HEADER…: what a shared library shows is what its public headers declare,
# every exported symbol begins with tp_ and none with tp__, and it needs no library but those named (NEEDED, a regular
# expression).
set -eu
headers=$1 needed=$2 library=$3
shift 3
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
status=0

nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$temporary/exported"
if [ ! -s "$temporary/exported" ]; then
  echo "$library exports nothing"
  status=1
fi
if grep -v '^tp_[^_]' "$temporary/exported"; then
  echo "^ exported by $library without the prefix tp_, or with tp__, which is between our own files"
  status=1
fi

if nm -D --defined-only "$library" | grep ' tp_' | grep -v '@@TURNPHASE_[0-9.]*$'; then
  echo "^ exported by $library without a version node"
  status=1
fi

# A declaration may break over lines: join them, then take the name before the first parenthesis.
for header in "$@"; do grep -v '^ *#' "$headers/$header"; done | tr '\n' ' ' | grep -o 'TP_API [^;(]*(' |
  sed 's/.*[^a-z0-9_]\(tp_[a-z0-9_]*\)($/\1/' | sort -u >"$temporary/declared"
if comm -23 "$temporary/declared" "$temporary/exported" | grep .; then
  echo "^ declared in a public header, but not in $library"
  status=1
fi
if comm -13 "$temporary/declared" "$temporary/exported" | grep -v '^tp_domain_export$'; then
  echo "^ exported by $library, but declared in none of its public headers"
  status=1
fi

if readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
   grep -vE "^(lib(c|m|gcc_s|pthread)\.so|ld-linux|$needed)"; then
  echo "^ needed by $library, which may not need it"
  status=1
fi
exit $status
