/* SPDX-License-Identifier: Apache-2.0
 *
 * sets: a turn's merged policies and prompt contexts, as handlers read them. A version never changes. To move to the
 * next version, the turn sets core.sets to it. */
#ifndef TP__SETS_H
#define TP__SETS_H

#include "phases/merge/merge.h"
#include "runtime/exec/entry.h"

/** Owner: makes the next version from the sets that the entry merged, in the turn's arena. */
tp_status tp__sets_advance(tp__turn *turn, const tp_merged *merged);
/** tp__layer_ops: writes a version as one value; the second function reads it back. */
void tp__sets_write(const void *sets, tp_writer *writer);
bool tp__sets_read(tp__arena *arena, tp_text value, const void **ret_sets);

#endif
