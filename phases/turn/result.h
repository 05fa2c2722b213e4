/* SPDX-License-Identifier: Apache-2.0
 *
 * result: the result of a turn, in memory of its own that outlives the turn and the runtime. It is allocated before the
 * turn begins. So the end of a turn is reported even when there is no memory for its texts. */
#ifndef TP__RESULT_H
#define TP__RESULT_H

#include "runtime/base/base.h"
#include "turnphase/turn.h"

typedef struct tp__result {
  tp_turn_result shown;
  tp_allocator allocator;
  tp__arena arena; /* the texts */
} tp__result;

void tp__result_init(tp__result *result, const tp_allocator *allocator);
void tp__result_fini(tp__result *result);
/** @return NULL without memory. tp_turn_result_free() of its public part frees it. */
tp__result *tp__result_new(const tp_allocator *allocator);
/** Copies the end of a turn. Without memory only the texts are lost. */
void tp__result_fill(tp__result *result, const tp_turn_result *ended);

#endif
