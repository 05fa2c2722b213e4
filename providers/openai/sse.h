/* SPDX-License-Identifier: Apache-2.0
 *
 * sse: server-sent events from bytes in whatever pieces they come (WHATWG HTML, section 9.2.6): lines end with LF, CR
 * or CR LF; the data lines of an event are joined by LF; an event that no blank line ends is none. Of the fields data
 * alone is read: the forms name the kind of an event in its data, too. */
#ifndef TP__OPENAI_SSE_H
#define TP__OPENAI_SSE_H

#include "support/bytes.h"
#include "support/text.h"

/** Gets the data of each event. @return false to stop. */
typedef bool (*tp__openai_event_fn)(void *ctx, tp_text data);

/** Zero-filled but for the first three fields. */
typedef struct tp__openai_sse {
  tp__openai_event_fn on_event;
  void *ctx;
  size_t event_bytes_max; /* of one event; above it feeding stops with too_large */
  tp__bytes line;         /* the part of a line that has come */
  tp__bytes data;
  bool has_data, past_first_line, after_cr, too_large;
} tp__openai_sse;

/** @return false when on_event returned false, an event was too large, or there was no memory (line or data failed). */
bool tp__openai_sse_feed(tp__openai_sse *sse, const char *bytes, size_t size);
void tp__openai_sse_fini(tp__openai_sse *sse);

#endif
