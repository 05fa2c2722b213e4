/* SPDX-License-Identifier: Apache-2.0
 *
 * hook_model: a request to a model and its answer in the form of Gemini CLI's hooks (llm_request, llm_response,
 * toolConfig), which have only texts: what programs get, and the effect of their changes. These hooks do not see calls,
 * results and parts of messages; these stay with their messages. No state. */
#ifndef TP__DECLARED_HOOK_MODEL_H
#define TP__DECLARED_HOOK_MODEL_H

#include "domains/declared/hook_input.h"
#include "domains/declared/hook_judge.h"
#include "domains/declared/hook_protocol.h"

/** Whether the event is about a request to a model, or about its answer. */
static inline bool tp__hook_model_is_event(tp__protocol_event_id id) {
  return id == TP__EVENT_BEFORE_MODEL || id == TP__EVENT_TOOL_SELECTION || id == TP__EVENT_AFTER_MODEL;
}

/** Whether a program gets a message of a request: it has a text, and its role is not tool. */
bool tp__hook_model_shows(tp_text message);
/** The role of a message there. */
const char *tp__hook_model_role(tp_text message);
/** The name that a tool of a request has there. @param tool  a map, or its name. */
tp_text tp__hook_model_tool(const tp__hook *hook, tp_text tool);
/** turnphase's name of their parameter; NULL: there is none. @param request  the parameters of the request. */
const char *tp__hook_model_parameter(tp_text theirs, tp_text request);

/** Adds llm_request, and llm_response after an answer. */
void tp__hook_model_add_input(tp__input *in);

/** Stores the data that is needed to read the answer of an attempt when the call is gone: the request, or the text of
 *  the answer. */
void tp__hook_model_ask(const tp__hook *hook, const tp_call *call, tp__asked *asked);

/** The replacements in a result. Empty: the member is missing. */
typedef struct tp__hook_model_said {
  tp_text request, response, tools; /* llm_request, llm_response, toolConfig: maps */
} tp__hook_model_said;

/** Reads them from hookSpecificOutput.
 *  @return false for a member that does not have the host's form; ret_wrong names it. */
bool tp__hook_model_read(const tp__hook *hook, tp_text specific, tp__hook_model_said *ret_said, const char **ret_wrong);
/** Puts the changes of a program into the answer.
 *  @return NULL; or the thing that a hook without rewrite: true wants to change: that must not go on unchanged. Static
 *    text. */
const char *tp__hook_model_apply(tp__judge *judge, const tp__hook_model_said *said);

#endif
