/* SPDX-License-Identifier: Apache-2.0
 *
 * settle: how a node ends: its row in the record, the effect on the entry, and the nodes that become ready. Owner
 * only. */
#ifndef TP__SETTLE_H
#define TP__SETTLE_H

#include "runtime/exec/entry.h"

/** Writes the row of a node on the fast path. @return false, and nothing was done: the node was not in time. */
static inline bool tp__entry_put_row(tp__entry *e, const tp__inline_node *node, uint32_t index, int64_t started_ns,
                                     int64_t ended_ns) {
  int64_t duration_ns = ended_ns - started_ns;
  TP__ASSERT(duration_ns >= 0 && started_ns >= e->begin_ns && index < e->plan->node_count);
  if (ended_ns >= e->fast_path_until_ns || duration_ns > e->plan->timeout_ns_min) return false;
  tp__row_put(&e->rows[index], node->run_name, (uint32_t)(started_ns - e->begin_ns), (uint32_t)duration_ns,
              node->flags);
  return true;
}
/** The node's run, made when it has none. */
tp__run *tp__run_make(tp__entry *entry, uint32_t index);
/** The time by which the node must have answered, retries included. */
int64_t tp__entry_node_deadline(const tp__entry *entry, uint32_t index, const tp__run *run);
/** Sets the state in which the entry will end. Workers that help with the entry stop. */
void tp__entry_set_state(tp__entry *entry, tp__entry_state state);
/** Ends a node: writes its row, applies the effect on the entry, and makes its successors ready. The entry must be
 *  advanced afterwards. */
void tp__entry_settle(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason);
/** As tp__entry_settle(), by the node's answer, unless the node will be tried again. The row has its times. */
void tp__entry_take_answer(tp__entry *entry, uint32_t index, const tp__answer *answer, const tp__output *output);
/** A node on the fast path was called once and returned DONE without a contribution: writes its row, and counts down
 *  the counters of its successors.
 *  @return false, and nothing was done: the node was not in time, or a listener is called for each run. */
bool tp__entry_settle_silent(tp__entry *entry, uint32_t index, int64_t started_ns, int64_t ended_ns);
/** Called when the pause before another attempt is over. @return whether there was such a pause. */
bool tp__run_drop_retry(tp__run *run);

/** Handles the answer of a node: settles it, tries it again, or fails it. Then the entry goes on. output: the node's
 *  contributions. */
void tp__entry_answered(tp__entry *entry, uint32_t index, const tp__answer *answer, const tp__output *output,
                        int64_t ended_ns);
/** The node ended without an answer. */
void tp__entry_missed(tp__entry *entry, uint32_t index, tp_state state, tp_reason reason, int64_t ended_ns);

#endif
