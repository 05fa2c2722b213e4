/* SPDX-License-Identifier: Apache-2.0
 *
 * agents: the agents of a runtime, in the order of their births. An agent is in the list from before its first phase
 * until its removal; who looks for it finds it only while it is visible. Lock: `agents`, for the list and for who is
 * visible in it; nothing is called under it. The list has no reference of its own: what is left in it at the end is
 * the host's handle, which the runtime then gives up. */
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

/** Lists an agent, not yet visible. @return false: there is one of its id. */
bool tp__agents_reserve(tp__agents *agents, tp_agent *agent);
/** It can be found from here on; listed again where it was delisted. */
void tp__agents_show(tp__agents *agents, tp_agent *agent);
void tp__agents_delist(tp__agents *agents, tp_agent *agent);
/** A replacement of one agent by another; one of them may be NULL: nothing comes or nothing goes. */
typedef struct tp__agent_swap {
  tp_agent *before, *after;
} tp__agent_swap;
/** All of them at once. Who is new is listed already where nothing goes for it. */
void tp__agents_swap(tp__agents *agents, const tp__agent_swap *swaps, size_t count);
/** The newest one whose agent.unregister has not been run. @return referenced; NULL: there is none. */
tp_agent *tp__agents_newest_registered(tp__agents *agents);
/** At the end of the runtime: delists what the host did not remove, and gives up its handles. */
void tp__agents_free_all(tp__agents *agents);

#endif
