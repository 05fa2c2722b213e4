/* SPDX-License-Identifier: Apache-2.0
 *
 * people.h: for hosts that ask people: a channel for questions, their answers, and a callback that decides which tool
 * calls need a question. Both are set in the options of a runtime or of a session; those of the session are used first.
 *
 * At most one question is asked about a call: when none of its gates has denied it, and a policy `tool` has the value
 * ask, or a handler of tool.create, tool.rewrite or tool.pre asks (the first of these is shown), or the permission
 * callback does. Handlers of tool.ask run first: their verdict answers the question.
 * The question has a limit of its own (tp_runtime_options.ask_limit_ms); the time that a turn waits for answers is not
 * counted in the turn's limit. The call is denied when there is no channel, when the channel abandons the token
 * (tp_token_abandon()), when the question expires, when the answer names other arguments, or when the person
 * denies it; a turn that is cancelled meanwhile ends the call as cancelled. The audit has a row for each question
 * (`ask`) and each end (`answer`).
 * Threads: any. */
#ifndef TURNPHASE_PEOPLE_H
#define TURNPHASE_PEOPLE_H

#include "turnphase/tool.h"

TP_BEGIN_DECLS

/** The question to a person whether a tool call may run. Made by the library; borrowed till the callback returns. */
typedef struct tp_question {
  size_t struct_size;
  /** For tp_question_answer(). */
  tp_token token;
  /** By TP_ID_*. */
  const tp_text *ids;
  size_t id_count;
  /** The phase of the subscription that asked. */
  tp_phase_id phase;
  /** Zero. */
  uint32_t reserved_;
  /** The subscription that asked, and its reason. "policy" and "permission" stand here for askers that are no
   *  subscriptions. */
  tp_text subscription, reason;
  /** The call as it will run. */
  const tp_tool_call *call;
  /** The hash of its arguments as they are shown: an answer about other arguments does not count. */
  tp_text arguments_hash;
  /** When the question expires: then the call is denied. */
  int64_t expires_unix_ms;
  /** 32 hexadecimal digits, made of the tenant, session, turn id, call id, tool and arguments. So the key is the same
   *  when the same call is asked about again, also by another process. It names the question where its token means
   *  nothing: on another machine, or for a client that asks again. */
  tp_text key;
} tp_question;

/** Passes a question to a person, and must return at once. One tp_question_answer() follows, from any thread, also
 *  before this returns; a channel that fails calls tp_token_abandon() instead. A question that has ended by its limit
 *  or by a cancel needs no answer.
 *  Threads: the one that owns the turn; it must not block. */
typedef void (*tp_question_fn)(void *ctx, const tp_question *question);

/** What a person decided. Filled by the host. */
typedef struct tp_decision {
  size_t struct_size;
  tp_verdict verdict;     /* TP_VERDICT_ALLOW or TP_VERDICT_DENY */
  uint32_t reserved_;     /* must be zero */
  tp_text arguments_hash; /* that of the question; with another hash the call is denied */
  tp_text reason;         /* for the model and the audit; at most 4,096 bytes of UTF-8; may be empty */
  tp_text person;         /* the person who decided: for both; at most 128 bytes of UTF-8; may be empty */
  /** With ALLOW: a value, a map of at most 1 MiB, with which the call runs instead of the arguments that were shown; a
   *  call without arguments is the empty map. Empty: as they were shown. The schema, tool.pre and the permission
   *  callback check the call again: a denial counts, and a new question is answered by this decision. The audit has a
   *  row `edit` for the arguments before the change, and one for those after it. The model reads that they were
   *  changed, and how. While a task is created its arguments cannot be changed: then such a decision denies. */
  tp_text arguments;
} tp_decision;

/** Answers a question, once.
 *  @param decision  borrowed till return.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_TOO_LARGE, TP_ERR_UTF8, TP_ERR_MALFORMED and what
 *          tp_value_check() returns for a wrong decision; TP_ERR_USAGE for a token of something else: then the question
 *          stays open. TP_ERR_STALE when the question was answered before, has ended, or was never put to the channel.
 *  Threads: any, at any time.   Blocks: no. */
TP_API tp_status tp_question_answer(tp_token token, const tp_decision *decision, tp_fault *fault) TP_MUST_USE;

/** The host's decision on a tool call. Handlers may restrict it further, never extend it. */
typedef enum tp_permission {
  TP_PERMISSION_NONE = 0,  /* no answer: denied, as with any number that is not listed here */
  TP_PERMISSION_AUTO = 1,  /* it may run */
  TP_PERMISSION_ASK = 2,   /* a person is asked */
  TP_PERMISSION_NEVER = 3, /* denied */
  TP_PERMISSION_FORCE_32 = 0x7fffffff
} tp_permission;

/** The call that needs a permission. Made by the library; borrowed till the callback returns. */
typedef struct tp_permission_request {
  size_t struct_size;
  const tp_text *ids; /* by TP_ID_* */
  size_t id_count;
  const tp_tool_call *call;
  const tp_tool *tool;
} tp_permission_request;

/** Decides whether a call may run, for each call that no gate has denied: the request names the tool and, among the
 *  ids, the agent. AUTO does not overrule a handler that asked. @return tp_permission.
 *  Threads: the one that owns the turn; it must not block. */
typedef int32_t (*tp_permission_fn)(void *ctx, const tp_permission_request *request);

TP_END_DECLS
#endif
