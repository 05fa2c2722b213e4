/* SPDX-License-Identifier: Apache-2.0
 *
 * result: turns the result of tools/call into the answer of a tool. No state. */
#ifndef TP__MCP_RESULT_H
#define TP__MCP_RESULT_H

#include "domains/mcp/message.h"
#include "turnphase/tool.h"

/** Completes a run: the texts of content are joined by line ends; structuredContent is the value; images, audio,
 *  embedded resources and links to resources are parts; isError is the error of a tool. Content of another form is
 *  named in the text.   @param result  value: a map. */
void tp__mcp_result_complete(tp_token token, tp_text result);

#endif
