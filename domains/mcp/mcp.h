/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp: what other files of the library may ask about the tools that mcp.c contributes. */
#ifndef TP__MCP_MCP_H
#define TP__MCP_MCP_H

#include "turnphase/tool.h"

/** The outputSchema of a tool of an MCP server: a value, a map whose type is object; empty when the tool has none, or
 *  belongs to no MCP server. Borrowed as long as the tool is. Threads: any. */
tp_text tp__mcp_tool_output_schema(const tp_tool *tool);

#endif
