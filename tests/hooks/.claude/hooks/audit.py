#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Appends a line for each call to a log beside the project's files."""
import json
import os
import sys
import time

call = json.load(sys.stdin)
os.makedirs("logs", exist_ok=True)
with open("logs/audit.jsonl", "a", encoding="utf-8") as log:
    log.write(json.dumps({
        "at": time.time(),
        "session": call["session_id"],
        "tool": call["tool_name"],
        "input": call["tool_input"],
        "ok": "tool_response" in call,
        "project": os.environ["CLAUDE_PROJECT_DIR"],
    }) + "\n")
