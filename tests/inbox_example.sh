#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# inbox_example.sh PROGRAM: the example host with one thread is its agent's guard, tools and model, and sees its events.
set -eu
said=$(timeout 60 "$1")
expected='event: delete_file has ended: denied
event: read_file has ended: ok
event: the model says: I have read it, and it is still there.
event: the turn has ended: TP_OK
guard: delete_file is denied
guard: read_file is allowed
model: is asked with 1 messages
model: is asked with 4 messages
tool: reads the file'
fail() {
  printf '%s; it said:\n%s\n' "$1" "$said"
  exit 1
}
# The two calls are gated at once, so that either may come first.
[ "$(printf '%s\n' "$said" | LC_ALL=C sort)" = "$expected" ] || fail 'other lines than expected'
[ "$(printf '%s\n' "$said" | head -n 1)" = 'model: is asked with 1 messages' ] || fail 'the request does not come first'
[ "$(printf '%s\n' "$said" | tail -n 1)" = 'event: the turn has ended: TP_OK' ] || fail 'the end does not come last'
