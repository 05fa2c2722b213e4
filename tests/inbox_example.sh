#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# inbox_example.sh PROGRAM: the example host with one thread guards both tool calls of its turn.
set -eu
said=$(timeout 60 "$1")
expected='guard: read_file is allowed
guard: delete_file is denied
turn: completed, 2 tool calls: I have read it, and it is still there.'
# The two calls are gated at once, so that either may come first.
if [ "$(printf '%s\n' "$said" | sort)" != "$(printf '%s\n' "$expected" | sort)" ]; then
  printf 'it said:\n%s\n' "$said"
  exit 1
fi
