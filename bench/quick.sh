#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a bench program for a moment, for people and for machines: quick.sh PROGRAM. Exit: 0 when both ended well and
# each line for machines is one JSON object; the bounds are not looked at, for the times of such a run say nothing.
set -eu
program=$1
"$program" --quick >/dev/null
"$program" --quick --json | python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert lines and "machine" in lines[0], "the first line is about the machine"
assert len(lines) > 1, "no figures"
assert all("row" in line and line["kept"] in (True, False) for line in lines[1:])
'
