/* SPDX-License-Identifier: Apache-2.0
 *
 * handshake: how a session that starts becomes ready: server/discover, or initialize, then the pages of tools/list,
 * which are read again when the server says that they have changed. Only a session that is STARTING has a deadline of
 * its start, or a probe. The functions are called with the session's lock held. */
#ifndef TP__MCP_HANDSHAKE_H
#define TP__MCP_HANDSHAKE_H

#include "domains/mcp/session.h"

/** IDLE or PAUSED to STARTING; to PAUSED where the transport cannot begin. It is not connected before. */
void tp__mcp_session_start_locked(tp__mcp_session *session, tp__mcp_after *after);
/** Sends initialize; a probe is over. */
void tp__mcp_session_initialize_locked(tp__mcp_session *session, tp__mcp_after *after);
/** Asks for the server's own messages, in versions without a handshake. */
void tp__mcp_session_subscribe_locked(tp__mcp_session *session);
/** Reads the list again; one that is being read, after that. */
void tp__mcp_session_list_changed_locked(tp__mcp_session *session, tp__mcp_after *after);

#endif
