/* SPDX-License-Identifier: Apache-2.0
 *
 * people.h: for hosts with people who may be asked: a channel for questions, their answers, and a callback that says
 * which tool calls need one. All of it is a place, not yet used: a handler that asks is denied, as where there is no
 * channel, and options that set one of these are refused (TP_ERR_USAGE).
 * Threads: any. */
#ifndef TURNPHASE_PEOPLE_H
#define TURNPHASE_PEOPLE_H

#include "turnphase/tool.h"

TP_BEGIN_DECLS

/** What a person is asked: whether a tool call may run. Shown by the library; borrowed till the callback returns. */
typedef struct tp_question {
  size_t struct_size;
  tp_token token;               /* for tp_question_answer() */
  const tp_text *ids;           /* by TP_ID_* */
  size_t id_count;
  tp_phase_id phase;            /* whose subscription asked */
  uint32_t reserved_;           /* zero */
  tp_text subscription, reason; /* who asked, and why: in its own words */
  const tp_tool_call *call;     /* as the person is to see it */
  tp_text arguments_hash;       /* of its arguments as they are shown: an answer to others does not count */
  int64_t expires_unix_ms;      /* then it is denied */
} tp_question;

/** Puts a question: hands it to a person and returns at once; exactly one tp_question_answer() follows, from any
 *  thread. Not yet used.
 *  Threads: the one that owns the turn. */
typedef void (*tp_question_fn)(void *ctx, const tp_question *question);

/** What a person decided. Filled by the host. */
typedef struct tp_decision {
  size_t struct_size;
  tp_verdict verdict;           /* TP_VERDICT_ALLOW or TP_VERDICT_DENY */
  uint32_t reserved_;           /* must be zero */
  tp_text arguments_hash;       /* of the question; with another the call is denied */
  tp_text reason;               /* for the model and the records; may be empty */
  tp_text person;               /* who decided: for the records; may be empty */
} tp_decision;

/** Answers a question, once.
 *  @param decision  borrowed till return.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for a wrong decision; TP_ERR_STALE when the question was answered
 *          before, has expired, or was never put: always, as long as questions are not yet used.
 *  Threads: any, at any time.   Blocks: no. */
TP_API tp_status tp_question_answer(tp_token token, const tp_decision *decision, tp_fault *fault) TP_MUST_USE;

/** What a host says of a tool call, beside what handlers say. Handlers may narrow it, never widen. */
typedef enum tp_permission {
  TP_PERMISSION_NONE = 0,       /* no answer: denied. So is any number that is not below */
  TP_PERMISSION_AUTO = 1,       /* it may run */
  TP_PERMISSION_ASK = 2,        /* a person is asked */
  TP_PERMISSION_NEVER = 3,      /* denied */
  TP_PERMISSION_FORCE_32 = 0x7fffffff
} tp_permission;

/** The call that needs a permission. Shown by the library; borrowed till the callback returns. */
typedef struct tp_permission_request {
  size_t struct_size;
  const tp_text *ids;           /* by TP_ID_* */
  size_t id_count;
  const tp_tool_call *call;
  const tp_tool *tool;
} tp_permission_request;

/** Says whether a call may run, for each call that all gates have allowed. Not yet used. @return tp_permission.
 *  Threads: the one that owns the turn; it must not block. */
typedef int32_t (*tp_permission_fn)(void *ctx, const tp_permission_request *request);

TP_END_DECLS
#endif
