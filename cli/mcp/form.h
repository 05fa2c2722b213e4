/* SPDX-License-Identifier: Apache-2.0
 *
 * form: puts the forms of MCP servers to the person at the terminal: a message, then one line for each member of the
 * form. */
#ifndef CLI_MCP_FORM_H
#define CLI_MCP_FORM_H

#include "cli/run/ask.h"
#include "turnphase/mcp.h"

/** A tp_mcp_ask_fn; ctx is a cli_ask that was started. */
void cli_form_put(void *ctx, const tp_mcp_question *question);

#endif
