/* SPDX-License-Identifier: Apache-2.0
 *
 * result: what a turn came to, in memory of its own that outlives the turn and the runtime. It is made before the turn
 * begins, so that a turn that ended is reported even without memory for its texts. */
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
/** @return NULL without memory. Freed by tp_turn_result_free() of what it shows. */
tp__result *tp__result_new(const tp_allocator *allocator);
/** Copies the end of a turn. Without memory for the texts they are lost, not the rest. */
void tp__result_fill(tp__result *result, const tp_turn_result *ended);

#endif
