/* SPDX-License-Identifier: Apache-2.0
 *
 * submission: what the submitter of a turn or a task holds: it can wait for it, cancel it, and read a turn's result. It
 * outlives the turn, which it refers to only until that has ended. Lock: `submission`. References: the submitter's, and
 * the turn's until its end was reported. */
#ifndef TP__SUBMISSION_H
#define TP__SUBMISSION_H

#include "phases/turn/result.h"
#include "runtime/exec/entry.h"

struct tp_submission {
  /* written by the owner of the turn before `ended`, read after it */
  tp__result result;
  /* never change */
  tp_allocator allocator;
  tp_runtime *runtime; /* which it may outlive: followed only while the turn has not ended */
  uint32_t process_generation;
  bool has_result; /* false: it is of a task, whose result its on_end gets */
  /* atomic */
  tp__a32 refs;
  /* under mutex */
  tp__mutex mutex;
  tp__cond changed;
  tp__turn *turn; /* referenced; NULL when it has ended */
  bool ended;
};

/** @return NULL without memory. */
tp_submission *tp__submission_new(const tp_allocator *allocator, tp__turn *turn);
/** Takes back a submission whose turn was refused. */
void tp__submission_abort(tp_submission *submission);
/** The owner of the turn: the end was reported, and the turn is about to go. Gives the turn's reference back. */
void tp__submission_ended(tp_submission *submission);
/** Any thread. @return the turn, referenced for the caller; NULL when it has ended. */
tp__turn *tp__submission_turn(tp_submission *submission);

#endif
