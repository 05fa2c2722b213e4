/* SPDX-License-Identifier: Apache-2.0
 *
 * request: sends messages to a server, and keeps the requests that have no answer yet. Only a session that is STARTING
 * or READY has such requests. The functions are called with the session's lock held; answers are passed on without
 * it. */
#ifndef TP__MCP_REQUEST_H
#define TP__MCP_REQUEST_H

#include "domains/mcp/session.h"

/** A request without an answer. */
struct tp__mcp_request {
  struct tp__mcp_request *next;
  int64_t id;
  tp__mcp_asker asker;
};

/** Sends the message that is in the writer.   @param id  -1: it is no request. */
tp_status tp__mcp_session_send_locked(tp__mcp_session *session, int64_t id, const char *method, tp_fault *fault);
/** As tp__mcp_session_request(), in any state in which the session has a transport. */
tp_status tp__mcp_session_request_locked(tp__mcp_session *session, const char *method, const tp__mcp_pair *pairs,
                                         size_t count, const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault);
tp_status tp__mcp_session_notify_locked(tp__mcp_session *session, const char *method, const tp__mcp_pair *pairs,
                                        size_t count);
/** Removes a waiting request: the caller answers and frees it.   @return NULL: no request of this id waits. */
struct tp__mcp_request *tp__mcp_session_take_request_locked(tp__mcp_session *session, int64_t id);

#endif
