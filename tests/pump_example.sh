#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pump_example.sh PROGRAM: the example host pumps a runtime without threads: a guard, a tool that its loop answers, a
# cancelled turn, and the drain, after which the process has the one thread that it had.
set -eu
said=$(timeout 60 "$1")
expected='cheat: denied: turn.intake: hook rules: no cheating
drained: nothing is left running, 1 thread
roll again: cancelled: the turn was cancelled before it began
roll: completed: You win.
the dice roll'
[ "$(printf '%s\n' "$said" | LC_ALL=C sort)" = "$expected" ] &&
  [ "$(printf '%s\n' "$said" | tail -n 1)" = 'drained: nothing is left running, 1 thread' ] && exit 0
printf 'other lines than expected; it said:\n%s\n' "$said"
exit 1
