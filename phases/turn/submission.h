/* SPDX-License-Identifier: Apache-2.0
 *
 * submission: the handle of the submitter of a turn or a task. With it the submitter can wait, cancel, and read a
 * turn's result. It outlives the turn, to which it refers only until the turn has ended. Lock: `submission`.
 * References: the submitter's, and the turn's until its end was reported. */
#ifndef TP__SUBMISSION_H
#define TP__SUBMISSION_H

#include "phases/turn/result.h"
#include "runtime/exec/entry.h"

struct tp_submission {
  /* Written by the owner of the turn before `ended`, read after it */
  tp__result result;
  /* never change */
  tp_allocator allocator;
  tp_runtime *runtime; /* the submission may outlive it, so it is used only while the turn has not ended */
  uint32_t process_generation;
  bool has_result; /* false: the submission is of a task, whose on_end gets the result */
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
/** Undoes a submission whose turn was refused. */
void tp__submission_abort(tp_submission *submission);
/** Called by the owner of the turn when the end was reported and the turn is about to be freed. Drops the turn's
 *  reference. */
void tp__submission_ended(tp_submission *submission);
/** Any thread. @return the turn, referenced for the caller; NULL when it has ended. */
tp__turn *tp__submission_turn(tp_submission *submission);

#endif
