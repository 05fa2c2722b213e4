/* SPDX-License-Identifier: Apache-2.0
 *
 * settle: how a node ends: its row in the record, what that means for the entry, what becomes ready. All of it is the
 * owner's. */
#ifndef TP__SETTLE_H
#define TP__SETTLE_H

#include "runtime/exec/entry.h"

/** The node's run, made when it has none. */
tp__run *tp__run_make(tp__entry *entry, uint32_t index);
/** By when the node must have answered, retries included. */
int64_t tp__entry_node_deadline(const tp__entry *entry, uint32_t index, const tp__run *run);
/** Sets what will come of the entry; workers that help with it stop. */
void tp__entry_set_state(tp__entry *entry, tp__entry_state state);
/** The node has ended: its row, what that means for the entry, what becomes ready. The entry must be advanced. */
void tp__entry_settle(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason);
/** The same by what it answered, unless it will be tried again; the row has its times. */
void tp__entry_take_answer(tp__entry *entry, uint32_t index, const tp__answer *answer, const tp__output *output);
/** The pause before another attempt is over. @return whether there was one. */
bool tp__run_drop_retry(tp__run *run);

/** The node's answer is in. output: what it emitted. Settles, retries or fails; then goes on. */
void tp__entry_answered(tp__entry *entry, uint32_t index, const tp__answer *answer, const tp__output *output,
                        int64_t ended_ns);
/** The node ended without an answer. */
void tp__entry_missed(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason, int64_t ended_ns);

#endif
