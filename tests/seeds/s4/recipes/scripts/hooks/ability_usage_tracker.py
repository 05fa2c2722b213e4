#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the calls of each ability in .system/cache/ability_usage.json, by reading and writing the whole file."""
import json
import os
import sys

SLOW_MS = 1000

context = json.load(sys.stdin)
path = ".system/cache/ability_usage.json"
os.makedirs(os.path.dirname(path), exist_ok=True)
usage = {}
if os.path.exists(path):
    with open(path) as file:
        usage = json.load(file)
row = usage.setdefault(context["ability_id"], {"calls": 0, "failures": 0})
row["calls"] += 1
row["failures"] += context["status"] == "failure"
with open(path, "w") as file:
    json.dump(usage, file)
if context.get("duration_ms", 0) >= SLOW_MS:
    os.makedirs(".system/logs", exist_ok=True)
    with open(".system/logs/slow_abilities.log", "a") as file:
        file.write(f"{context['ability_id']} {context['duration_ms']}\n")
print(json.dumps({"usage_recorded": True, "logs": [f"{context['ability_id']}: {row['calls']} calls"]}))
