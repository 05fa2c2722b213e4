#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# guide.sh PROGRAM GUIDE: the program prints what the guide shows, which is its one block of the kind `text`.
set -eu
expected=$(awk '/^```$/ { inside = 0 } inside { print } /^```text$/ { inside = 1 }' "$2")
status=0
said=$(timeout 60 "$1" 2>&1) || status=$?
[ -n "$expected" ] && [ $status -eq 0 ] && [ "$said" = "$expected" ] && exit 0
printf 'exit code %d, and other lines than %s shows:\n%s\n' $status "$2" "$said"
exit 1
