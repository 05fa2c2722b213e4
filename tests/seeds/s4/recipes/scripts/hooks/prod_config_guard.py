#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An AI does not edit the configuration of prod; a person at the command line may."""
import json
import sys

context = json.load(sys.stdin)
signals = []
if "prod" in context.get("args_summary", "") and context["caller"]["source"] == "ai_session":
    signals.append({
        "source_event": "PreAbilityCall",
        "hook_id": "prod_config_guard",
        "kind": "ability_guard",
        "code": "ABILITY_DENIED",
        "severity": "error",
        "payload": {
            "ability_id": context["ability_id"],
            "reason": "Editing prod config files is not allowed from ai_session.",
            "require_human": True,
        },
    })
print(json.dumps({"hook_signals": signals}))
