/* SPDX-License-Identifier: Apache-2.0
 *
 * sse: reads events from bytes that come in pieces of any size. Server-sent events are read by their standard (WHATWG
 * HTML, section 9.2.6): lines end with LF, CR or CR LF; the data lines of an event are joined by LF. Deviations of
 * servers are accepted, too:
 *   - an event ends without a blank line when the next one begins and its data is a whole JSON text or no JSON;
 *   - JSON without "data:" before it is an event: one object on a line, or on several lines;
 *   - a line "error: {…}" is an event of the name "error";
 *   - the last event needs neither a blank line nor a line end.
 * Comments and the fields id and retry are skipped. Other lines are stored, so that an error can quote them (stray). */
#ifndef TP__OPENAI_SSE_H
#define TP__OPENAI_SSE_H

#include "providers/openai/lenient.h"

enum { TP__OPENAI_STRAY_MAX = 1024 };

/** Called for each event, with its name, or an empty text, and its data. @return false to stop. */
typedef bool (*tp__openai_event_fn)(void *ctx, tp_text name, tp_text data);

/** Zero-filled except the first three fields. */
typedef struct tp__openai_sse {
  tp__openai_event_fn on_event;
  void *ctx;
  size_t event_bytes_max; /* of one event; a longer event stops the feed with too_large */
  tp__bytes line;         /* the part of a line that has come */
  tp__bytes data, name;
  tp__bytes stray; /* the first bytes of what is no event */
  tp__openai_scan scan;
  size_t scanned; /* how much of data the scan has seen */
  bool has_data, past_first_line, after_cr, too_large;
  bool is_bare; /* data has lines without "data:" */
  bool is_cut;  /* the bytes ended inside an event */
} tp__openai_sse;

/** @return false when on_event returned false, when an event was too large, or when there was no memory
 *            (tp__openai_sse_no_memory()). */
bool tp__openai_sse_feed(tp__openai_sse *sse, const char *bytes, size_t size);
/** There are no more bytes: passes on the last event, if it is complete. @return as tp__openai_sse_feed(). */
bool tp__openai_sse_end(tp__openai_sse *sse);
bool tp__openai_sse_no_memory(const tp__openai_sse *sse);
/** Stores the first bytes of a text that was not read, as a line of its own. */
void tp__openai_sse_stray(tp__openai_sse *sse, tp_text text);
void tp__openai_sse_fini(tp__openai_sse *sse);

#endif
