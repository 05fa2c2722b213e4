/* SPDX-License-Identifier: Apache-2.0
 *
 * http: a server that has a URL: streamable HTTP. Each message is a POST of its own, whose answer is one JSON text or a
 * stream of events. In protocol versions with a session each request carries the session's id, and a GET stream brings
 * the server's own messages. The thread of io.c carries out the transfers: at each step it begins new ones and ends
 * cancelled ones. */
#ifndef TP__MCP_HTTP_H
#define TP__MCP_HTTP_H

#include <curl/curl.h>

#include "domains/mcp/session.h"

extern const tp__mcp_transport tp__mcp_http;

/** One step of the I/O thread: begins what is new, ends what was cancelled or has ended.
 *  @return when the next one must follow. Threads: io's. */
int64_t tp__mcp_http_step(CURLM *multi, int64_t now_ns);
/** Ends all transfers, before the thread does. Threads: io's. */
void tp__mcp_http_end(CURLM *multi);

#endif
