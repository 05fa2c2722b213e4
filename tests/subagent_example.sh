#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# subagent_example.sh PROGRAM: the example host's lead gives a task to its researcher, and asks the user.
set -eu
said=$(echo yes | timeout 60 "$1")
expected='lead begins: I want a walnut tree.
researcher begins, for another turn: How tall is a walnut tree?
  delegate: Up to 30 metres.
  ? Shall I order one? yes
  ask_user: yes
It is ordered.'
[ "$said" = "$expected" ] && exit 0
printf 'other lines than expected:\n%s\n' "$said"
exit 1
