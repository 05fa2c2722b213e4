/* SPDX-License-Identifier: Apache-2.0
 *
 * asked: a server of MCP wants to know something from a person (elicitation/create) in the middle of a call. The client
 * of a gateway is asked where the call is one of its calls and it can show forms; else the host's function
 * (tp_mcp_options.ask); without either, or where both fail, it is declined. */
#ifndef TP__MCP_ASKED_H
#define TP__MCP_ASKED_H

#include "domains/mcp/session.h"

/** Receives the result of elicitation/create as a map value; empty: there was no memory for it. Called once, on any
 *  thread, with no lock held. */
typedef void (*tp__mcp_asked_fn)(void *ctx, tp_text result);

/** Asks, and passes the answer to on_answer, also before it returns. No lock is held.
 *  @param params    of elicitation/create. Borrowed until return, as what origin points to.
 *  @param origin    the call that it is about; NULL: none is known. */
void tp__mcp_asked_begin(tp__mcp_session *session, tp_text params, const tp__mcp_origin *origin,
                         tp__mcp_asked_fn on_answer, void *ctx);

#endif
