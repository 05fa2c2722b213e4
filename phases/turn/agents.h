/* SPDX-License-Identifier: Apache-2.0
 *
 * agents: the agents of a runtime, in the order in which they were made. An agent is in the list from before its first
 * phase until its removal. A search finds it only while it is visible. Lock: `agents`, for the list and for the
 * visibility of its agents; nothing is called under it. The list has no references of its own. At the end of the
 * runtime, the agents left in it still have the references of the host's handles, which the runtime then drops. */
#ifndef TP__AGENTS_H
#define TP__AGENTS_H

#include "runtime/os/os.h"
#include "turnphase/turn.h"

typedef struct tp__agents {
  /* under mutex */
  tp__mutex mutex;
  tp__link list;
  uint64_t numbers;
} tp__agents;

tp_status tp__agents_init(tp__agents *agents);
/** The list is empty. */
void tp__agents_fini(tp__agents *agents);
/** Those of a runtime (agent_layer.c). */
tp__agents *tp__layer_agents(const tp_runtime *runtime);

/** Lists an agent, not yet visible. @return false: the id is listed already. */
bool tp__agents_reserve(tp__agents *agents, tp_agent *agent);
/** Makes the agent visible; lists it again if it was delisted. */
void tp__agents_show(tp__agents *agents, tp_agent *agent);
void tp__agents_delist(tp__agents *agents, tp_agent *agent);
/** The replacement of one agent by another. One of the two may be NULL: then an agent is only added or only removed. */
typedef struct tp__agent_swap {
  tp_agent *before, *after;
} tp__agent_swap;
/** Does all replacements at once. A new agent that replaces none must be listed already. */
void tp__agents_swap(tp__agents *agents, const tp__agent_swap *swaps, size_t count);
/** The newest agent whose agent.unregister has not been run. @return referenced; NULL: there is none. */
tp_agent *tp__agents_newest_registered(tp__agents *agents);
/** At the end of the runtime: delists the agents that the host did not remove, and drops the references of their
 *  handles. */
void tp__agents_free_all(tp__agents *agents);

#endif
