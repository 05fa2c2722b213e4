/* SPDX-License-Identifier: Apache-2.0
 *
 * sse: server-sent events (WHATWG HTML, section 9.2.6) as the answers of MCP use them, with the ids and the retry time
 * by which a stream is resumed. It is strict: everything that is not an event is ignored. (The reader of the providers
 * also accepts malformed streams of model servers, and drops ids.) */
#ifndef TP__MCP_SSE_H
#define TP__MCP_SSE_H

#include "support/bytes.h"

/** Zero-filled but for the first three members. */
typedef struct tp__mcp_sse {
  void (*on_event)(void *ctx, tp_text data);
  void *ctx;
  size_t bytes_max; /* the most bytes of one event */
  tp__bytes line, data, id;
  int64_t retry_ms; /* the retry time that the stream gave; 0: none */
  bool after_cr, has_data, is_broken;
} tp__mcp_sse;

/** @return false: an event is too large, or there is no memory. */
bool tp__mcp_sse_feed(tp__mcp_sse *sse, const char *bytes, size_t size);
void tp__mcp_sse_fini(tp__mcp_sse *sse);

#endif
