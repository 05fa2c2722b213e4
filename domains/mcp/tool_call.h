/* SPDX-License-Identifier: Apache-2.0
 *
 * tool_call: a run of a tool of a server: its request, the inputs that the server wants before it answers, its
 * answer. */
#ifndef TP__MCP_TOOL_CALL_H
#define TP__MCP_TOOL_CALL_H

#include "domains/mcp/session.h"
#include "turnphase/tool.h"

/** tp_tool.run of a tool.   @param ctx  the tp__mcp_tool.   Threads: any; it does not wait. */
tp_answer tp__mcp_tool_run(void *ctx, tp_tool_run *run);

#endif
