/* SPDX-License-Identifier: Apache-2.0
 *
 * http: the transport to a server that has a URL (streamable HTTP). Each message is a POST of its own, whose answer is
 * one JSON text or a stream of events. In protocol versions with a session each request carries the session's id, and a
 * GET stream brings the server's own messages. The thread of io.c carries out the transfers: at each step it begins new
 * ones and ends cancelled ones. */
#ifndef TP__MCP_HTTP_H
#define TP__MCP_HTTP_H

#include <curl/curl.h>

#include "domains/mcp/session.h"

extern const tp__mcp_transport tp__mcp_http;

/** One step of the I/O thread: begins new transfers, and ends those that were cancelled or have ended.
 *  @return when the next step must follow. Threads: that of io. */
int64_t tp__mcp_http_step(CURLM *multi, int64_t now_ns);
/** Ends all transfers, before the I/O thread ends. Threads: that of io. */
void tp__mcp_http_end(CURLM *multi);

#endif
