/* SPDX-License-Identifier: Apache-2.0
 *
 * out: builds a text piece by piece, in memory of a known size: a writing function runs once to count and once to
 * write. Owns nothing. It fails only without memory; any thread. */
#ifndef TP__OUT_H
#define TP__OUT_H

#include "runtime/base/base.h"

/** Zero-filled it only counts. */
typedef struct tp__out {
  char *data;
  size_t capacity; /* bytes beyond it are counted but not stored */
  size_t size;     /* of all that was put */
} tp__out;

void tp__out_text(tp__out *out, tp_text text);
void tp__out_string(tp__out *out, const char *string);
void tp__out_char(tp__out *out, char byte);
void tp__out_int(tp__out *out, int64_t number);

/** Runs `write` twice and gives its text, in the arena, with a NUL at the end.
 *  @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__out_twice(tp__arena *arena, void (*write)(tp__out *out, const void *ctx), const void *ctx,
                        tp_text *ret_text);

/** Writes a value as JSON, or a text as a JSON string, for a prompt: with tp__json_out.without_tags. */
void tp__out_json(tp__out *out, tp_text value);
void tp__out_json_string(tp__out *out, tp_text text);
/** Writes a value as JSON for programs. A text longer than text_bytes (at least 16) is shortened to its head and tail,
 *  with an ellipsis between them. */
void tp__out_json_summary(tp__out *out, tp_text value, size_t text_bytes);

#endif
