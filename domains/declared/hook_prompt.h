/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_prompt: hooks of kind prompt, which ask a model about an event. The model answers with one object, {"ok": true}
 * or {"ok": false, "reason": "…"}, which may stand in prose or a code fence. No phase is run for the request, so no
 * hook sees it, and no hook can ask about itself. */
#ifndef TP__DECLARED_HOOK_PROMPT_H
#define TP__DECLARED_HOOK_PROMPT_H

#include "domains/declared/hook.h"

/** What a model has answered. Its texts are the writer's. */
typedef struct tp__prompt_answer {
  tp_text object;
  bool ok;
  tp_text reason; /* empty: none */
} tp__prompt_answer;

/** Finds the object that answers: the only one in the text with the member ok. Other objects are prose. An object that
 *  cannot be decoded and names ok makes the answer unclear, since it may say the opposite.
 *  @param ret_writer  has the object; tp_writer_free(), also when there is none.
 *  @return NULL; else why there is no clear answer. */
const char *tp__prompt_find(tp_text text, tp_writer **ret_writer, tp__prompt_answer *ret_answer);

/** The handler of a hook of this kind: asks, and waits, on its own thread. */
tp_answer tp__prompt_run(const tp__hook *hook, tp_call *call);

#endif
