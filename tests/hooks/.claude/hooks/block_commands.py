#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Denies shell commands that match one of a few patterns."""
import json
import re
import sys

PATTERNS = [
    (r"\brm\s+-[a-z]*r[a-z]*f|\brm\s+-[a-z]*f[a-z]*r", "rm -rf is not allowed"),
    (r"\bgit\s+push\b.*--force\b", "force pushes are not allowed"),
    (r">\s*/dev/sd[a-z]", "writing to a disk is not allowed"),
]


def main():
    call = json.loads(sys.stdin.readline())
    if call.get("tool_name") != "Bash":
        return 0
    command = call.get("tool_input", {}).get("command", "")
    for pattern, reason in PATTERNS:
        if re.search(pattern, command):
            print(reason, file=sys.stderr)
            return 2
    if re.search(r"\bsudo\b", command):
        print(json.dumps({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "ask",
            "permissionDecisionReason": "sudo needs a person",
        }}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
