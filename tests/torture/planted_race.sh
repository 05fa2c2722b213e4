#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# planted_race.sh PROGRAM: passes when ThreadSanitizer reports the race that PROGRAM has on purpose, in its own lines.
output=$("$1" 2>&1)
if echo "$output" | grep -q 'WARNING: ThreadSanitizer: data race' && echo "$output" | grep -q planted_race.c; then
  echo "reported, as it must be"
  exit 0
fi
echo "ThreadSanitizer did not see the planted race:"
echo "$output"
exit 1
