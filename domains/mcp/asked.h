/* SPDX-License-Identifier: Apache-2.0
 *
 * asked: a server of MCP wants to know something from a person (elicitation/create) in the middle of a call. If the
 * call came from a client of a gateway that can show forms, this client is asked. Otherwise the host's function
 * (tp_mcp_options.ask) is asked. If there is neither, or both fail, the question is declined. */
#ifndef TP__MCP_ASKED_H
#define TP__MCP_ASKED_H

#include "domains/mcp/session.h"

/** Receives the result of elicitation/create as a map value; empty: there was no memory for it. Called once, on any
 *  thread, with no lock held. */
typedef void (*tp__mcp_asked_fn)(void *ctx, tp_text result);

/** Asks, and passes the answer to on_answer, also before the function returns. The caller holds no lock.
 *  @param params    the params of elicitation/create; borrowed until return, as is everything that origin points to.
 *  @param origin    the call that the question is about; NULL: not known. */
void tp__mcp_asked_begin(tp__mcp_session *session, tp_text params, const tp__mcp_origin *origin,
                         tp__mcp_asked_fn on_answer, void *ctx);

#endif
