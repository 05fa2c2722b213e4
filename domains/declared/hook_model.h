/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_model: a request to a model and its answer as hooks of Gemini CLI have them (llm_request, llm_response,
 * toolConfig), which is texts only: what programs get of them, and what becomes of what they put in their place. Calls,
 * results and parts of messages, which these hooks do not see, stay with the message that they stand with. No state. */
#ifndef TP__DECLARED_HOOK_MODEL_H
#define TP__DECLARED_HOOK_MODEL_H

#include "domains/declared/hook_input.h"
#include "domains/declared/hook_judge.h"
#include "domains/declared/hook_protocol.h"

/** Whether the event is one of a request to a model, or of its answer. */
static inline bool tp__hook_model_is_event(tp__protocol_event_id id) {
  return id == TP__EVENT_BEFORE_MODEL || id == TP__EVENT_TOOL_SELECTION || id == TP__EVENT_AFTER_MODEL;
}

/** Whether a program is shown a message of a request: it has a text, and is not of a tool. */
bool tp__hook_model_shows(tp_text message);
/** The role of a message there. */
const char *tp__hook_model_role(tp_text message);
/** The name there of a tool of a request, which is a map, or its name. */
tp_text tp__hook_model_tool(const tp__hook *hook, tp_text tool);
/** What we call a parameter of theirs; NULL: it has no place.   @param request  the parameters of the request. */
const char *tp__hook_model_parameter(tp_text theirs, tp_text request);

/** Adds llm_request, and llm_response after an answer. */
void tp__hook_model_add_input(tp__input *in);

/** What the answer of an attempt is read with, when the call is gone: the request, or the text of the answer. */
void tp__hook_model_ask(const tp__hook *hook, const tp_call *call, tp__asked *asked);

/** What a result puts in their place. Empty: it is not there. */
typedef struct tp__hook_model_said {
  tp_text request, response, tools; /* llm_request, llm_response, toolConfig: maps */
} tp__hook_model_said;

/** Reads them from hookSpecificOutput.
 *  @return false for one of another shape than that of the host; ret_wrong names it. */
bool tp__hook_model_read(const tp__hook *hook, tp_text specific, tp__hook_model_said *ret_said, const char **ret_wrong);
/** Puts what differs from what was asked into the answer.
 *  @return NULL; what a hook without rewrite: true wants to change: it must not go on as it was. Static text. */
const char *tp__hook_model_apply(tp__judge *judge, const tp__hook_model_said *said);

#endif
