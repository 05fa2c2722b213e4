/* SPDX-License-Identifier: Apache-2.0
 *
 * breaker: the breakers of subscriptions as entries use them: the operator's, and the one that opens by itself
 * (plan/circuit.h), with what is reported of it. A phase in which nothing failed for ten seconds is not looked at
 * closer: suspects_until_ns has a time for each phase, before which its nodes are asked for and counted, and none is
 * called on the fast path. Owner only, but for tp__breaker_suspects(). */
#ifndef TP__EXEC_BREAKER_H
#define TP__EXEC_BREAKER_H

#include "runtime/exec/entry.h"

/** What a runtime stores of the breakers of all its subscriptions. */
typedef struct tp__breaker_state {
  tp__a32 stopped_subscriptions;             /* those that are switched off or tripped: 0 is the common case */
  tp__a64 suspects_until_ns[TP_PHASE_LIMIT]; /* relaxed, rising: of phases in which a subscription failed */
} tp__breaker_state;

/** Whether a subscription of this phase has failed of late. Threads: any. */
static inline bool tp__breaker_suspects(const tp__breaker_state *state, uint32_t phase, int64_t now_ns) {
  return now_ns < (int64_t)tp__a64_load_relaxed(&state->suspects_until_ns[phase]);
}
/** Why the node, which has a duty, is not called: its breaker is open. A job is stored while the breaker is open that
 *  opens by itself, and waits for it; so is one stored before the operator's was opened.
 *  @return NULL: it is called, and may be the probe. */
const char *tp__breaker_refusal(const tp__entry *entry, const tp__node *node);
/** settle.c: an attempt has ended, with this reason. Counts it where the reason is the handler's. */
void tp__breaker_count(const tp__entry *entry, uint32_t index, tp_reason reason);

#endif
