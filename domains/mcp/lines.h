/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: what a pipe gives in pieces, as the lines of MCP's stdio: one message each, without the line feed. */
#ifndef TP__MCP_LINES_H
#define TP__MCP_LINES_H

#include "support/bytes.h"

/** Zero-filled but for the first four members. The functions get a line, or are told that one is lost: the rest of it
 *  is not looked at. */
typedef struct tp__mcp_lines {
  void (*on_line)(void *ctx, tp_text line);
  void (*on_lost)(void *ctx, bool is_too_long); /* else there is no memory for it */
  void *ctx;
  size_t bytes_max; /* of a line */
  tp__bytes line;   /* what came of it; never more than bytes_max */
  bool skips;       /* the rest of a line that is lost */
} tp__mcp_lines;

void tp__mcp_lines_feed(tp__mcp_lines *lines, tp_text piece);
void tp__mcp_lines_fini(tp__mcp_lines *lines);

#endif
