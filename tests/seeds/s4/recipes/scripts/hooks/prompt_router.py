#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Suggests an ability and a document for what a user asks, and says what was understood."""
import json
import sys

context = json.load(sys.stdin)
text = context["user_raw_input"].lower()
signals = [{
    "source_event": "PromptSubmit",
    "hook_id": "prompt_router",
    "kind": "normalized_intent",
    "code": "INTENT",
    "payload": {"topic": "signup" if "signup" in text else "other", "files": context.get("current_files", [])},
}]
if "signup" in text:
    signals.append({
        "source_event": "PromptSubmit",
        "hook_id": "prompt_router",
        "kind": "routing_hint",
        "code": "ROUTE_SUGGESTION",
        "payload": {
            "suggested_abilities": [
                {"id": "signup_e2e_test", "reason": "User asked for signup regression.", "confidence": 0.91}
            ],
            "suggested_documents": [{"path": "integration/ROUTING.md", "reason": "Cross-module E2E request."}],
        },
    })
print(json.dumps({"hook_signals": signals}))
