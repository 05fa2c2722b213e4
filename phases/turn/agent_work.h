/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_work: the phases of an agent, each in a small turn of its own on the calling thread. agent_change.c uses them
 * to change several agents. Threads: any that may wait. No lock. */
#ifndef TP__AGENT_WORK_H
#define TP__AGENT_WORK_H

#include "phases/turn/agent.h"

/** Reads and checks a config of the host. @return as tp_agent_add(). */
tp_status tp__agent_config_read(const tp_runtime *runtime, const tp_agent_config *theirs, tp_agent_config *ret_config,
                                tp_fault *fault);
/** Runs agent.build for an agent that is not visible. Its models are taken. The caller may block.
 *  @param reserves   true: its id is listed; for an agent that replaces no other one.
 *  @param ret_agent  the caller ends it by tp__agent_unbuild(), or gives it to the host. */
tp_status tp__agent_build(tp_runtime *runtime, const tp_agent_config *config, bool reserves, tp_agent **ret_agent,
                          tp_fault *fault);
/** Its models are the host's again. */
void tp__agent_unbuild(tp_agent *agent);
/** Runs agent.register. If it is refused, runs agent.unregister for the handlers that had registered the agent. */
tp_status tp__agent_register(tp_agent *agent, tp_fault *fault);
/** Runs agent.unregister, unless that was done. Errors are logged. */
void tp__agent_unregister(tp_agent *agent);

#endif
