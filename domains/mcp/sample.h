/* SPDX-License-Identifier: Apache-2.0
 *
 * sample: a server of MCP wants an answer of a model (sampling/createMessage) in the middle of a call. The client of a
 * gateway is asked where the call is one of its calls and it offers sampling; else a turn nested in the call asks the
 * host's model (tp_mcp_sampling.model), in a session of its own with a history in memory. Its requests have what the
 * server gave, as turn.intake left it, and nothing else of the host: no context, no reminder, no tool.
 *
 * What a call's server has wanted is kept in its origin, under the session's lock. */
#ifndef TP__MCP_SAMPLE_H
#define TP__MCP_SAMPLE_H

#include "domains/mcp/session.h"

/** Gets the answer: a value, a map as the protocol has it; empty: it is refused, and words say why. Once.
 *  Threads: any. No lock is held. */
typedef void (*tp__mcp_sample_fn)(void *ctx, tp_text result, const char *words);

/** Passes the answer to on_answer, also before it returns. No lock is held.
 *  @param params  of sampling/createMessage. Borrowed until return.
 *  @param origin  the call; with a reference of its owner, which is taken. NULL: none is known, and it is refused. */
void tp__mcp_sample_begin(tp__mcp_session *session, tp_text params, tp__mcp_origin *origin, tp__mcp_sample_fn on_answer,
                          void *ctx);
/** The call is over: what its server wants of a model is cancelled, and nothing more is begun. No lock is held. */
void tp__mcp_sample_end(tp__mcp_session *session, tp__mcp_origin *origin);

/** The handler of model.request that leaves only what the server gave.   @param ctx  the session. */
tp_answer tp__mcp_sample_shape(void *ctx, tp_call *tp);

#endif
