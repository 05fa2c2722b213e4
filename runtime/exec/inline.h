/* SPDX-License-Identifier: Apache-2.0
 *
 * inline: the loop of plans whose nodes are all inline. Owner only. */
#ifndef TP__INLINE_H
#define TP__INLINE_H

#include "runtime/exec/entry.h"

/** Begins an entry and calls its nodes here and now, where that is all there is to do. The turn has no listener.
 *  @return NULL, and nothing was done: a node is not on the fast path, or there are parallel ones; the turn was
 *          cancelled; there is no memory. Else the entry. Where it has ended, no answer was exceptional, and on_end is
 *          not called; else set on_end and ctx, then tp__entry_go(). */
tp__entry *tp__entry_run_inline(tp__turn *turn, const tp__plan *plan, const tp_field *fields, uint32_t field_count);
/** Sets up the call of an inline node. */
void tp__inline_call_set(tp__entry *entry, tp_call *call, tp__arena *arena, uint32_t index);

#endif
