/* SPDX-License-Identifier: Apache-2.0
 *
 * inline: the fast loop for plans whose nodes are all inline. Owner only. */
#ifndef TP__INLINE_H
#define TP__INLINE_H

#include "runtime/exec/entry.h"

/** Sets up the call of an inline node. */
void tp__inline_call_set(tp__entry *entry, tp_call *call, tp__arena *arena, uint32_t index);

#endif
