/* SPDX-License-Identifier: Apache-2.0
 *
 * sse: events from bytes in whatever pieces they come. Server-sent events (WHATWG HTML, section 9.2.6) are read as they
 * are meant: lines end with LF, CR or CR LF; the data lines of an event are joined by LF. And what servers send in
 * their place:
 *   - an event ends without a blank line where the next one begins and its data is a whole JSON text, or none;
 *   - JSON on lines of its own, with no "data:" before it, is an event: one object a line, or over several lines;
 *   - a line "error: {…}" is an event of the name "error";
 *   - the last event needs neither a blank line nor a line end.
 * Comments and the fields id and retry are left out. Other lines are kept to be quoted (stray). */
#ifndef TP__OPENAI_SSE_H
#define TP__OPENAI_SSE_H

#include "providers/openai/lenient.h"

enum { TP__OPENAI_STRAY_MAX = 1024 };

/** Gets each event: its name, or an empty text, and its data. @return false to stop. */
typedef bool (*tp__openai_event_fn)(void *ctx, tp_text name, tp_text data);

/** Zero-filled but for the first three fields. */
typedef struct tp__openai_sse {
  tp__openai_event_fn on_event;
  void *ctx;
  size_t event_bytes_max; /* of one event; above it feeding stops with too_large */
  tp__bytes line;         /* the part of a line that has come */
  tp__bytes data, name;
  tp__bytes stray; /* the first bytes of what is no event */
  tp__openai_scan scan;
  size_t scanned; /* how much of data the scan has seen */
  bool has_data, past_first_line, after_cr, too_large;
  bool is_bare; /* data has lines without "data:" */
  bool is_cut;  /* the bytes ended inside an event */
} tp__openai_sse;

/** @return false when on_event returned false, an event was too large, or there was no memory
 *          (tp__openai_sse_no_memory()). */
bool tp__openai_sse_feed(tp__openai_sse *sse, const char *bytes, size_t size);
/** No more bytes will come: the last event, if it is whole. @return as of feed. */
bool tp__openai_sse_end(tp__openai_sse *sse);
bool tp__openai_sse_no_memory(const tp__openai_sse *sse);
/** Keeps the first bytes of what was not read, a line of its own. */
void tp__openai_sse_stray(tp__openai_sse *sse, tp_text text);
void tp__openai_sse_fini(tp__openai_sse *sse);

#endif
