/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/lines.h"

#include <assert.h>
#include <string.h>

static void lose(tp__mcp_lines *lines, bool is_too_long) {
  tp__bytes_fini(&lines->line);
  lines->skips = true;
  lines->on_lost(lines->ctx, is_too_long);
}

static void take_part(tp__mcp_lines *lines, tp_text part, bool is_last) {
  if (part.size > lines->bytes_max - lines->line.size) {
    lose(lines, true);
    return;
  }
  if (is_last && lines->line.size == 0) {
    lines->on_line(lines->ctx, part);
    return;
  }
  tp__bytes_put_text(&lines->line, part);
  if (lines->line.failed) lose(lines, false);
  else if (is_last) lines->on_line(lines->ctx, tp__bytes_text(&lines->line));
}

void tp__mcp_lines_feed(tp__mcp_lines *lines, tp_text piece) {
  assert(lines->on_line && lines->on_lost && lines->bytes_max > 0);
  while (piece.size > 0) {
    const char *end = memchr(piece.data, '\n', piece.size);
    size_t size = end ? (size_t)(end - piece.data) : piece.size;
    if (!lines->skips) take_part(lines, (tp_text){piece.data, size}, end != NULL);
    if (!end) return;
    tp__bytes_clear(&lines->line);
    lines->skips = false;
    piece = (tp_text){end + 1, piece.size - size - 1};
  }
}

void tp__mcp_lines_fini(tp__mcp_lines *lines) { tp__bytes_fini(&lines->line); }
