/* SPDX-License-Identifier: Apache-2.0
 *
 * handshake: how a session that starts becomes ready: server/discover, or initialize, then the pages of tools/list,
 * which are read again when the server notifies a change. Only a session in state STARTING has a deadline of its start,
 * or an open server/discover (the probe). The functions are called with the session's lock held. */
#ifndef TP__MCP_HANDSHAKE_H
#define TP__MCP_HANDSHAKE_H

#include "domains/mcp/session.h"

/** From IDLE or PAUSED to STARTING; to PAUSED when the transport cannot begin. The session must not be connected
 *  before. */
void tp__mcp_session_start_locked(tp__mcp_session *session, tp__mcp_after *after);
/** Sends initialize; after that an answer to the probe does not count. */
void tp__mcp_session_initialize_locked(tp__mcp_session *session, tp__mcp_after *after);
/** Requests the server's own messages, in versions without a handshake. */
void tp__mcp_session_subscribe_locked(tp__mcp_session *session);
/** Reads the list again. When a list is being read, it is read again after that. */
void tp__mcp_session_list_changed_locked(tp__mcp_session *session, tp__mcp_after *after);

#endif
