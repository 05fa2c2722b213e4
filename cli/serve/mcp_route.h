/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp_route: what serve offers to clients of MCP at /mcp: the tools of its runtime, of the kinds that --expose or
 * `mcp_expose` in the file of agents name. The main thread's. */
#ifndef CLI_MCP_ROUTE_H
#define CLI_MCP_ROUTE_H

#include "cli/common/options.h"
#include "cli/run/conversation.h"

/** Accepts NULL wherever one is taken: /mcp is not there. */
typedef struct cli_mcp_route cli_mcp_route;

/** Opens the route where something is to be offered.
 *  @param file         its mcp_expose counts together with --expose.
 *  @param has_channel  the runtime asks people (--ask data or admin).
 *  @param ret_route    NULL: nothing is offered. cli_mcp_route_close().
 *  @return CLI_OK, or an exit status after a message about the error. */
int cli_mcp_route_open(tp_runtime *runtime, const cli_arguments *arguments, const cli_conversation *file,
                       bool has_channel, cli_mcp_route **ret_route);
/** tp_server_options.mount. */
tp_mount *cli_mcp_route_mount(const cli_mcp_route *route);
/** Hooks have changed, and perhaps the tools with them: clients are notified. */
void cli_mcp_route_changed(const cli_mcp_route *route);
/** After tp_server_free(). */
void cli_mcp_route_close(cli_mcp_route *route);

#endif
