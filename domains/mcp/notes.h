/* SPDX-License-Identifier: Apache-2.0
 *
 * notes: lines about a server that wait for the turn that shows them, the oldest first. The session's lock guards
 * them. */
#ifndef TP__MCP_NOTES_H
#define TP__MCP_NOTES_H

#include "runtime/base/printf.h"
#include "support/bytes.h"

struct tp__mcp_session;

enum { TP__MCP_NOTES_MAX = 32 };
/** Lines for diagnostics. Zero-filled: no lines. */
typedef struct tp__mcp_notes {
  tp__bytes lines;   /* each with its line feed */
  uint32_t count;    /* the number of these lines; at most TP__MCP_NOTES_MAX */
  uint32_t left_out; /* how many further lines were dropped */
} tp__mcp_notes;

/** Takes the next line of notes.   @param left  the lines that follow, moved on.   @return false: there is none. */
bool tp__mcp_next_line(tp_text *left, tp_text *ret_line);
/** Keeps a line for the diagnostics of the next turn. */
void tp__mcp_session_note_locked(struct tp__mcp_session *session, const char *format, ...) TP__PRINTF(2, 3);
/** Takes the session's lines. The caller frees them, or returns them. */
void tp__mcp_session_notes_take(struct tp__mcp_session *session, tp__mcp_notes *ret_notes);
/** Returns lines that no turn has shown: the next turn gets them, before newer lines.   @param notes  taken. */
void tp__mcp_session_notes_return(struct tp__mcp_session *session, tp__mcp_notes *notes);

#endif
