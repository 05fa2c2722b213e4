/* SPDX-License-Identifier: Apache-2.0
 *
 * prompt_answer: the object in the answer of a model that was asked whether the agent may go on. No state. */
#ifndef TP__DECLARED_PROMPT_ANSWER_H
#define TP__DECLARED_PROMPT_ANSWER_H

#include "turnphase/declared.h"
#include "turnphase/value.h"

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

#endif
