#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Takes white space from the ends of the lines of a file that was written, and says so.
read -r call
file=$(printf '%s' "$call" | sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p')
case $file in
  *.txt) ;;
  *) exit 0 ;;
esac
if grep -q '[[:space:]]$' "$file"; then
  sed -i 's/[[:space:]]*$//' "$file"
  printf '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "%s was formatted"}}\n' \
    "$(basename "$file")"
fi
