/* SPDX-License-Identifier: Apache-2.0
 *
 * prompt_answer: finds the object in the answer of a model that was asked whether the agent may go on. No state. */
#ifndef TP__DECLARED_PROMPT_ANSWER_H
#define TP__DECLARED_PROMPT_ANSWER_H

#include "turnphase/declared.h"
#include "turnphase/value.h"

/** The answer of a model. Its texts are in the writer's memory. */
typedef struct tp__prompt_answer {
  tp_text object;
  bool ok;
  tp_text reason; /* empty: none */
} tp__prompt_answer;

/** Finds the object that answers: the only one in the text with the member ok. Other objects count as prose. An object
 *  that cannot be decoded and contains the name ok makes the answer unclear, because it may say the opposite.
 *  @param ret_writer  holds the object; to be freed by tp_writer_free(), even when there is no object.
 *  @return NULL; else the reason why there is no clear answer. */
const char *tp__prompt_find(tp_text text, tp_writer **ret_writer, tp__prompt_answer *ret_answer);

#endif
