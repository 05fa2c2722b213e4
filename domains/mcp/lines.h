/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: splits the pieces that a pipe gives into the lines of MCP's stdio: one message each, without the line feed. */
#ifndef TP__MCP_LINES_H
#define TP__MCP_LINES_H

#include "support/bytes.h"

/** Zero-filled but for the first four members. on_line receives a line; on_lost is called for a line that is lost,
 *  whose rest is skipped. */
typedef struct tp__mcp_lines {
  void (*on_line)(void *ctx, tp_text line);
  void (*on_lost)(void *ctx, bool is_too_long); /* is_too_long false: there was no memory for the line */
  void *ctx;
  size_t bytes_max; /* the most bytes of a line */
  tp__bytes line;   /* the part of the line that has come; never more than bytes_max */
  bool skips;       /* set while the rest of a lost line is skipped */
} tp__mcp_lines;

void tp__mcp_lines_feed(tp__mcp_lines *lines, tp_text piece);
void tp__mcp_lines_fini(tp__mcp_lines *lines);

#endif
