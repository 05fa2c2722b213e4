/* SPDX-License-Identifier: Apache-2.0
 *
 * people: questions about tool calls. A question is an attempt of its own class: its token is claimed once, by an
 * answer from any thread, by its limit, or by a cancel. While a turn has an open question its deadline moves: the time
 * that it waits for people is not the turn's. Owns no list and has no lock. Everything is the owner's but
 * tp_question_answer(). */
#ifndef TP__PEOPLE_H
#define TP__PEOPLE_H

#include "phases/turn/turn.h"

typedef struct tp__question tp__question;

/** What a question is about. The call and the texts stay until it has settled. */
typedef struct tp__question_spec {
  uint32_t phase;           /* whose subscription asks */
  const char *subscription; /* lives as long as the runtime */
  tp_text reason;
  const tp_tool_call *call;
} tp__question_spec;

/** How a question ended; the texts are the question's, which goes away afterwards. */
typedef struct tp__question_end {
  bool allowed;
  bool cancelled; /* without a decision: the turn was cancelled */
  tp_text why;    /* not allowed: a sentence */
  tp_text reason; /* the person's own; may be empty */
  tp_text person; /* may be empty */
  tp_text edited; /* allowed: the arguments in place of those that were shown; empty: these */
} tp__question_end;

/** On the owner, once. */
typedef void (*tp__question_settled_fn)(void *ctx, const tp__question_end *end);

/** A context without its function would never be used. @param options  whose fields these are. */
tp_status tp__people_check(const char *options, tp_question_fn ask, const void *ask_ctx, tp_permission_fn permission,
                           const void *permission_ctx, tp_fault *fault);
/** The turn's channel is its session's, else its runtime's; the permission likewise. */
bool tp__people_may_be_asked(const tp_turn *turn);
bool tp__people_permit(const tp_turn *turn);
/** Asks the permission callback, which exists. @return NONE for any number that is no permission. */
tp_permission tp__people_permission(const tp_turn *turn, const tp_tool_call *call, const tp_tool *tool);
/** Puts a question through the channel, which exists. settled comes later, never before this returns.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_FULL (too many open tokens): settled does not come. */
tp_status tp__question_put(tp_turn *turn, const tp__question_spec *spec, tp__question_settled_fn settled, void *ctx,
                           tp__question **ret_question);
/** Settles it as cancelled before this returns, unless an answer is on its way. */
void tp__question_cancel(tp__question *question);

#endif
