/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp: the servers of the command line as tools, and what the command says of them. */
#ifndef CLI_MCP_MCP_H
#define CLI_MCP_MCP_H

#include "cli/common/options.h"
#include "cli/run/ask.h"

/** Adds the servers of --mcp and --mcp-config.
 *  @param person  who answers what they ask; NULL: no person.
 *  @return CLI_OK, or an exit status after saying what is wrong. */
int cli_mcp_add(tp_runtime *runtime, const cli_arguments *arguments, cli_ask *person);
/** The action serve: offers tools to clients that speak MCP. */
int cli_mcp_serve(const cli_arguments *arguments, cli_output *output);
/** Says on standard error what turns find out about the servers, where nothing else shows diagnostics. */
void cli_mcp_listen(tp_runtime *runtime, const cli_arguments *arguments);

#endif
