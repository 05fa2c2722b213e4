/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_prompt: hooks of kind prompt, which ask a model about an event. The model answers with one object, {"ok": true}
 * or {"ok": false, "reason": "…"}, which may be inside of prose or a code fence. No phase is run for the request, so no
 * hook sees it, and no hook can ask about itself. */
#ifndef TP__DECLARED_HOOK_PROMPT_H
#define TP__DECLARED_HOOK_PROMPT_H

#include "domains/declared/hook.h"

/** The handler of a hook of this kind: asks the model, and waits on its own thread. */
tp_answer tp__prompt_run(const tp__hook *hook, tp_call *call);

#endif
