/* SPDX-License-Identifier: Apache-2.0
 *
 * sse: server-sent events (WHATWG HTML, section 9.2.6) as the answers of MCP use them, with the ids and the retry time
 * that a stream is resumed by. Strict: what is no event is left out. (The reader of the providers guesses what servers
 * of models mean by streams that are none, and drops ids.) */
#ifndef TP__MCP_SSE_H
#define TP__MCP_SSE_H

#include "support/bytes.h"

/** Zero-filled but for the first three members. */
typedef struct tp__mcp_sse {
  void (*on_event)(void *ctx, tp_text data);
  void *ctx;
  size_t bytes_max; /* of one event */
  tp__bytes line, data, id;
  int64_t retry_ms; /* as the stream said; 0: it did not */
  bool after_cr, has_data, is_broken;
} tp__mcp_sse;

/** @return false: an event is too large, or there is no memory. */
bool tp__mcp_sse_feed(tp__mcp_sse *sse, const char *bytes, size_t size);
void tp__mcp_sse_fini(tp__mcp_sse *sse);

#endif
