/* SPDX-License-Identifier: Apache-2.0
 *
 * sets: a turn's merged policies and prompt contexts as handlers read them. A version never changes; the turn moves on
 * to the next by pointing core.sets elsewhere. */
#ifndef TP__SETS_H
#define TP__SETS_H

#include "phases/merge/merge.h"
#include "runtime/exec/entry.h"

/** Owner: makes the next version with what the entry merged; lives in the turn's arena. */
tp_status tp__sets_advance(tp__turn *turn, const tp_merged *merged);
/** tp__layer_ops: a version as one value, and back. */
void tp__sets_write(const void *sets, tp_writer *writer);
bool tp__sets_read(tp__arena *arena, tp_text value, const void **ret_sets);

#endif
