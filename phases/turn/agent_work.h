/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_work: the phases of an agent, each in a small turn of its own on the calling thread: what a change of several
 * agents is made of (agent_change.c). Threads: any that may wait. No lock. */
#ifndef TP__AGENT_WORK_H
#define TP__AGENT_WORK_H

#include "phases/turn/agent.h"

/** Reads and checks a config of the host. @return as tp_agent_add(). */
tp_status tp__agent_config_read(const tp_runtime *runtime, const tp_agent_config *theirs, tp_agent_config *ret_config,
                                tp_fault *fault);
/** Runs agent.build for an agent that nobody finds. Its models are taken. The caller may block.
 *  @param reserves   its id is listed, as of an agent that takes no other one's place.
 *  @param ret_agent  ended by tp__agent_unbuild(), or the host's. */
tp_status tp__agent_build(tp_runtime *runtime, const tp_agent_config *config, bool reserves, tp_agent **ret_agent,
                          tp_fault *fault);
/** Its models are the host's again. */
void tp__agent_unbuild(tp_agent *agent);
/** Runs agent.register; where it is refused, agent.unregister for those that had registered it. */
tp_status tp__agent_register(tp_agent *agent, tp_fault *fault);
/** Runs agent.unregister, unless that was done. What fails is logged. */
void tp__agent_unregister(tp_agent *agent);

#endif
