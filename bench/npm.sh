#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a peer of bench/npm for a moment, or bench/whole beside all of them: npm.sh PACKAGES SCRIPT | PROGRAM. Exit: 0
# when each form of each peer has its line or its figures, as one JSON object a line; 77 when the packages are not
# there. Nothing is fetched here: ./dev bench whole does that.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)/npm
packages=$1 what=$2

skip() {
  echo "skipped: $*"
  exit 77
}

command -v node >/dev/null || skip "no node here (./dev setup --bindings)"
[ -f "$packages/fetched" ] || skip "the packages of bench/npm are not there (./dev bench whole fetches them)"
cmp -s "$folder/package-lock.json" "$packages/fetched" || skip "the packages are of other versions (./dev bench whole)"

case $what in
  *.js) script=$folder/$what ;;
  *)
    export BENCH_NPM_SCRIPTS="$folder" BENCH_NPM_PACKAGES="$packages"
    "$what" --quick --json | python3 -c '
import json, re, sys
lines = [json.loads(line) for line in sys.stdin]
medians = {line["what"]: line["value"] for line in lines if line.get("what", "").endswith(": median")}
for peer in ("@openai/agents", "@langchain/langgraph"):
    for form in ("no hooks", "1 hook", "7 hooks", "7 hooks, history in memory"):
        found = [what for what in medians if re.fullmatch("%s [0-9.]+, %s: median" % (peer, form), what)]
        assert len(found) == 1 and medians[found[0]] > 0, (peer, form, sorted(medians))
'
    exit ;;
esac

node "$script" "$packages" --quick | python3 -c '
import json, sys
lines = [json.loads(line) for line in sys.stdin]
assert len(lines) == 4, lines
for line in lines:
    assert line["row"] == "whole" and line["peer"] and line["version"] and line["form"], line
    assert 0 < line["least"] <= line["p25"] <= line["median"] <= line["p99"], line
    assert line["turns"] > 1 and line["cpu"] > 0, line
    assert abs(line["turns_per_second_of_cpu"] * line["cpu"] - 1e6) < 1, line
'
# It must refuse a form that is not there, and a folder that is not named.
if node "$script" "$packages" --serve 'no such form' --quick </dev/null 2>/dev/null || node "$script" 2>/dev/null; then
  echo "$script accepts what it cannot do"
  exit 1
fi
