/* SPDX-License-Identifier: Apache-2.0
 *
 * sample: a server of MCP wants an answer of a model (sampling/createMessage) in the middle of a call. If the call came
 * from a client of a gateway that offers sampling, this client is asked; otherwise a turn nested in the call asks the
 * host's model (tp_mcp_sampling.model), in a session of its own with a history in memory. Its requests have the
 * server's texts, as turn.intake left them, and nothing of the host: no context, no reminder, no tool.
 *
 * The number and the tokens of such requests are kept in the call's origin, under the session's lock. */
#ifndef TP__MCP_SAMPLE_H
#define TP__MCP_SAMPLE_H

#include "domains/mcp/session.h"

/** Receives the answer, once: a value, a map in the form of the protocol; empty: the request is refused, and words give
 *  the reason.
 *  Threads: any. No lock is held. */
typedef void (*tp__mcp_sample_fn)(void *ctx, tp_text result, const char *words);

/** Passes the answer to on_answer, also before it returns. No lock is held.
 *  @param params  the params of sampling/createMessage. Borrowed until return.
 *  @param origin  the call, with a reference of its owner, which is taken. NULL: no call is known, and the request is
 *          refused. */
void tp__mcp_sample_begin(tp__mcp_session *session, tp_text params, tp__mcp_origin *origin, tp__mcp_sample_fn on_answer,
                          void *ctx);
/** Ends the sampling of a call that is over: open requests are cancelled, and no further one begins. The caller holds
 *  no lock. */
void tp__mcp_sample_end(tp__mcp_session *session, tp__mcp_origin *origin);

/** The handler of model.request that leaves only the server's texts in the request.   @param ctx  the session. */
tp_answer tp__mcp_sample_shape(void *ctx, tp_call *tp);

#endif
