#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operations are not available in prod; abilities are."""
import json
import sys

context = json.load(sys.stdin)
ability = context["ability_ref"]
refused = ability["kind"] == "operation_key" and context.get("environment") == "prod"
signal = {
    "source_event": "PreAbilityCreate",
    "hook_id": "nonprod_availability_check",
    "kind": "ability_preflight",
    "code": "ABILITY_UNAVAILABLE" if refused else "ABILITY_AVAILABLE",
    "severity": "error" if refused else "info",
    "payload": {"ability_ref": ability},
}
if refused:
    signal["payload"]["reason"] = "Operation is not enabled in prod environments."
    signal["payload"]["suggestion"] = "Switch to staging/dev, or request human override."
print(json.dumps({"hook_signals": [signal]}))
