/* SPDX-License-Identifier: Apache-2.0
 *
 * notes: lines about a server that wait for the turn that shows them. */

#include "domains/mcp/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/session.h"

static void put_note(tp__mcp_notes *notes, tp_text line) {
  if (notes->count == TP__MCP_NOTES_MAX || !tp__bytes_reserve(&notes->lines, line.size + 1)) {
    notes->left_out++;
    notes->lines.failed = false;
    return;
  }
  tp__bytes_put_text(&notes->lines, line);
  tp__bytes_put_string(&notes->lines, "\n");
  notes->count++;
}

bool tp__mcp_next_line(tp_text *left, tp_text *ret_line) {
  const char *end = left->size > 0 ? memchr(left->data, '\n', left->size) : NULL;
  if (!end) return false;
  *ret_line = (tp_text){left->data, (size_t)(end - left->data)};
  *left = (tp_text){end + 1, left->size - ret_line->size - 1};
  return true;
}

void tp__mcp_session_note_locked(tp__mcp_session *s, const char *format, ...) {
  char line[512];
  va_list args;
  TP__LOCKED(&s->lock);
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  tp__make_printable(line);
  put_note(&s->notes, tp_text_of(line));
}

void tp__mcp_session_notes_take(tp__mcp_session *s, tp__mcp_notes *ret_notes) {
  tp__lock_acquire(&s->lock);
  *ret_notes = s->notes;
  s->notes = (tp__mcp_notes){0};
  tp__lock_release(&s->lock);
}

void tp__mcp_session_notes_return(tp__mcp_session *s, tp__mcp_notes *notes) {
  tp__lock_acquire(&s->lock);
  tp__mcp_notes newer = s->notes;
  s->notes = *notes;
  tp_text left = tp__bytes_text(&newer.lines), line;
  while (tp__mcp_next_line(&left, &line)) put_note(&s->notes, line);
  s->notes.left_out += newer.left_out;
  tp__lock_release(&s->lock);
  tp__bytes_fini(&newer.lines);
  *notes = (tp__mcp_notes){0};
}
