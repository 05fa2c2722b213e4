#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# inbox_example.sh PROGRAM: the example host with one thread and one descriptor is its agent's guard, tools and model,
# sees its events, and takes the ends of turns, task, sessions and drain, and the cancel of a request.
set -eu
said=$(timeout 60 "$1")
expected='cancel: the request to the model
end: a session
end: a session
end: the agent: TP_OK
end: the drain: nothing is left running
end: the endless turn: cancelled
end: the first turn: completed
end: the queued turn: completed
end: the task: ok
event: delete_file has ended: denied
event: read_file has ended: ok
event: send_mail has ended: ok
event: the model says: I have read it, and it is still there.
event: the model says: Not at all.
guard: delete_file
guard: read_file
guard: send_mail
model: thinks, until it is cancelled
question: send_mail: mail leaves the house
tool: read_file
tool: send_mail'
fail() {
  printf '%s; it said:\n%s\n' "$1" "$said"
  exit 1
}
# in_order LINE...: each stands after the one before it.
in_order() {
  before=0
  for line; do
    at=$(printf '%s\n' "$said" | grep -nxF "$line" | head -n 1 | cut -d : -f 1)
    [ "$at" -gt "$before" ] || fail "'$line' comes too early"
    before=$at
  done
}
# The two calls are gated at once, and the two sessions run at once: either may come first.
[ "$(printf '%s\n' "$said" | LC_ALL=C sort)" = "$expected" ] || fail 'other lines than expected'
in_order 'end: the agent: TP_OK' 'guard: read_file' 'tool: read_file' 'event: read_file has ended: ok' \
  'event: the model says: I have read it, and it is still there.' 'end: the first turn: completed' 'guard: send_mail'
in_order 'guard: delete_file' 'event: delete_file has ended: denied' \
  'event: the model says: I have read it, and it is still there.' 'event: the model says: Not at all.' \
  'end: the queued turn: completed' 'guard: send_mail'
in_order 'end: the agent: TP_OK' 'model: thinks, until it is cancelled' 'cancel: the request to the model' \
  'guard: send_mail'
in_order 'end: the endless turn: cancelled' 'guard: send_mail' 'question: send_mail: mail leaves the house' \
  'tool: send_mail' 'end: the task: ok' 'end: a session' 'end: the drain: nothing is left running'
[ "$(printf '%s\n' "$said" | tail -n 1)" = 'end: the drain: nothing is left running' ] ||
  fail 'the end of the drain does not come last'
