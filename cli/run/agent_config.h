/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_config: an agent of a file as the library takes it: what the config of the agent has beside its system text and
 * its models. The runtime, its domains and turnphase-server read it, so that it changes with the agent. */
#ifndef CLI_AGENT_CONFIG_H
#define CLI_AGENT_CONFIG_H

#include "cli/run/conversation.h"

/** The map of tp_agent_config.extra.
 *  @param agent       NULL: that of the command line, which has none.
 *  @param ret_writer  gets the owner of the map; tp_writer_free().
 *  @return empty: the agent has nothing of it. */
tp_text cli_agent_config_write(const cli_agent *agent, tp_writer **ret_writer);

/** Prints a warning for each pattern of the agents' tools that fits no tool which there is now: it may be mistyped, and
 *  then it allows or denies nothing. Patterns of MCP tools are left out, since a server's tools may come later.
 *  When an agent has such patterns, the tools are listed, once (tp_runtime_tools()).
 *  @param runtime  with all its handlers. */
void cli_agents_warn(tp_runtime *runtime, const cli_agent *agents, size_t count);

#endif
