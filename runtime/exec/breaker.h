/* SPDX-License-Identifier: Apache-2.0
 *
 * breaker: how entries use the breakers of subscriptions: the operator's switch, and the breaker that opens by itself
 * (plan/circuit.h), with the reports about it. A phase in which nothing failed for ten seconds does not read its
 * breakers. suspects_until_ns has a time for each phase: before that time its nodes ask their breakers and are counted,
 * and none is called on the fast path. Owner only, except tp__breaker_suspects(). */
#ifndef TP__EXEC_BREAKER_H
#define TP__EXEC_BREAKER_H

#include "runtime/exec/entry.h"

/** The state that a runtime keeps for the breakers of all its subscriptions. */
typedef struct tp__breaker_state {
  tp__a32 stopped_subscriptions;             /* subscriptions that are switched off or tripped; usually 0 */
  tp__a64 suspects_until_ns[TP_PHASE_LIMIT]; /* relaxed, rising: for phases in which a subscription failed */
} tp__breaker_state;

/** Whether a subscription of this phase has failed recently. Threads: any. */
static inline bool tp__breaker_suspects(const tp__breaker_state *state, uint32_t phase, int64_t now_ns) {
  return now_ns < (int64_t)tp__a64_load_relaxed(&state->suspects_until_ns[phase]);
}
/** Why the node, which has a duty, is not called: its breaker is open. If the open breaker is the one that opens by
 *  itself, a job is still stored, and waits until the breaker closes. A job that was stored before the operator opened
 *  the breaker waits, too.
 *  @return NULL: the node is called, and may be the probe. */
const char *tp__breaker_refusal(const tp__entry *entry, const tp__node *node);
/** settle.c: an attempt has ended, with this reason. Counts it when the handler caused the reason. */
void tp__breaker_count(const tp__entry *entry, uint32_t index, tp_reason reason);

#endif
