/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp: the MCP servers of the command line as tools, and the command's messages about them. */
#ifndef CLI_MCP_MCP_H
#define CLI_MCP_MCP_H

#include "cli/common/options.h"
#include "cli/run/ask.h"

/** Adds the servers of --mcp and --mcp-config.
 *  @param person  answers the servers' questions; NULL: no person does.
 *  @return CLI_OK, or an exit status after a message about the error. */
int cli_mcp_add(tp_runtime *runtime, const cli_arguments *arguments, cli_ask *person);
/** The action serve: offers tools to clients that speak MCP. */
int cli_mcp_serve(const cli_arguments *arguments, cli_output *output);
/** Prints diagnostics about the servers that come up in turns on standard error, if nothing else shows diagnostics. */
void cli_mcp_listen(tp_runtime *runtime, const cli_arguments *arguments);

#endif
