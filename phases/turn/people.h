/* SPDX-License-Identifier: Apache-2.0
 *
 * people: questions about tool calls. A question is an attempt of its own class: its token is claimed once, by an
 * answer from any thread, by its limit, or by a cancel. While a turn has an open question, its deadline moves, because
 * the time of waiting for people does not count as time of the turn. Owns no list and has no lock. Only the owner may
 * call the functions, except tp_question_answer(). */
#ifndef TP__PEOPLE_H
#define TP__PEOPLE_H

#include "phases/turn/turn.h"

typedef struct tp__question tp__question;

/** The subject of a question. The call and the texts must stay until the question has settled. */
typedef struct tp__question_spec {
  uint32_t phase;           /* whose subscription asks */
  const char *subscription; /* lives as long as the runtime */
  tp_text reason;
  const tp_tool_call *call;
} tp__question_spec;

/** How a question ended. The texts belong to the question, which is freed afterwards. */
typedef struct tp__question_end {
  bool allowed;
  bool cancelled; /* there was no decision, because the turn was cancelled */
  tp_text why;    /* not allowed: a sentence */
  tp_text reason; /* the person's own; may be empty */
  tp_text person; /* may be empty */
  tp_text edited; /* if allowed: the arguments that replace the shown ones; empty: the shown ones stay */
} tp__question_end;

/** On the owner, once. */
typedef void (*tp__question_settled_fn)(void *ctx, const tp__question_end *end);

/** Refuses ask_ctx without ask, and permission_ctx without permission, because it would never be used.
 *  @param options  the name of the struct that has these fields, for the fault. */
tp_status tp__people_check(const char *options, tp_question_fn ask, const void *ask_ctx, tp_permission_fn permission,
                           const void *permission_ctx, tp_fault *fault);
/** Whether people can be asked: the turn's channel is its session's, else its runtime's. The same holds for the
 *  permission callback. */
bool tp__people_may_be_asked(const tp_turn *turn);
bool tp__people_permit(const tp_turn *turn);
/** Calls the permission callback, which must exist. @return NONE for a number that is no permission. */
tp_permission tp__people_permission(const tp_turn *turn, const tp_tool_call *call, const tp_tool *tool);
/** Puts a question through the channel, which must exist. settled is called later, never before this returns.
 *  @return TP_OK; TP_ERR_NO_MEMORY, TP_ERR_FULL (too many open tokens): settled is not called. */
tp_status tp__question_put(tp_turn *turn, const tp__question_spec *spec, tp__question_settled_fn settled, void *ctx,
                           tp__question **ret_question);
/** Settles the question as cancelled before this returns, unless an answer is on its way. */
void tp__question_cancel(tp__question *question);

#endif
