/* SPDX-License-Identifier: Apache-2.0
 *
 * questions.h: a question to a person (people.h) that a channel keeps, as a file (sqlite.h) or a database (postgres.h)
 * lists it. */
#ifndef TURNPHASE_QUESTIONS_H
#define TURNPHASE_QUESTIONS_H

#include "turnphase/people.h"

TP_BEGIN_DECLS

/** The state of a question that is kept. Numbers are stored. */
typedef enum tp_question_state {
  TP_QUESTION_OPEN = 0,
  TP_QUESTION_ALLOWED = 1,
  TP_QUESTION_DENIED = 2,
  TP_QUESTION_STATE_FORCE_32 = 0x7fffffff
} tp_question_state;

/** A question that is kept. Made by the library; borrowed till the callback returns. */
typedef struct tp_kept_question {
  size_t struct_size;
  /** For tp_sqlite_question_answer() or tp_postgres_question_answer(). */
  uint64_t number;
  tp_question_state state;
  /** 1: a call waits for the answer, or its process was killed. 0: the call is over, or its process has ended. */
  uint32_t is_waited_for;
  /** When it was asked, and until when it may be answered. */
  int64_t asked_unix_ms, expires_unix_ms;
  /** 0: not answered. */
  int64_t answered_unix_ms;
  /** When a call got the answer; 0: none has. */
  int64_t used_unix_ms;
  tp_text tenant, agent, session, turn;
  tp_text tool, call_id;
  /** A value: the arguments with which the call will run; empty once a call has the answer. */
  tp_text arguments;
  tp_text arguments_hash;
  /** The subscription that asked, and its reason. */
  tp_text subscription, reason;
  /** The person who decided, and the person's reason. */
  tp_text person, answer;
  /** Value: the arguments as the person changed them; empty: unchanged, or a call has the answer. */
  tp_text edited_arguments;
} tp_kept_question;
/** Receives a question; false stops the walk. Threads: the calling one. */
typedef bool (*tp_kept_question_fn)(void *ctx, const tp_kept_question *question);

TP_END_DECLS
#endif
