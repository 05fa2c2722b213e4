/* SPDX-License-Identifier: Apache-2.0
 *
 * lenient: reads JSON as servers send it: finds where a text ends, repairs violations of JSON, and joins characters
 * that were cut in two. It knows neither events nor answers. An object belongs to one thread at a time. */
#ifndef TP__OPENAI_LENIENT_H
#define TP__OPENAI_LENIENT_H

#include "support/bytes.h"
#include "support/text.h"

/** Follows the brackets of a JSON text that comes in pieces. Zero-filled is the beginning. */
typedef struct tp__openai_scan {
  uint32_t depth;
  bool begun;     /* a bracket has come */
  bool in_string; /* the text ends inside a string */
  bool escaped;   /* and after a backslash */
  bool beyond;    /* a closing bracket had no opening one, or text followed the value */
} tp__openai_scan;

void tp__openai_scan_text(tp__openai_scan *scan, tp_text piece);
/** Whether the text is one object or array, with blanks around it. */
bool tp__openai_scan_is_whole(const tp__openai_scan *scan);
/** The same for a text that is all there. */
bool tp__openai_is_whole(tp_text json);
/** Whether two JSON texts differ only in blanks outside of strings. */
bool tp__openai_same_json(tp_text a, tp_text b);
/** Whether whole begins with part. */
bool tp__openai_is_beginning(tp_text part, tp_text whole);
/** Without the blanks at both ends. */
tp_text tp__openai_trim(tp_text text);

/** Writes valid JSON for a text that is not quite JSON, for tp_json_decode():
 *    - NaN, Infinity and numbers out of range become null, 01 and .5 become 1 and 0.5;
 *    - when a key is repeated, the last member stays;
 *    - commas before a bracket that closes are left out; strings in single quotes, True, False, None and undefined are
 *      read as Python and JavaScript do;
 *    - control characters in strings, and backslashes that begin no escape, are escaped;
 *    - bytes that are not UTF-8, and halves of surrogate pairs, become U+FFFD, except in the streaming strings, where
 *      they become marks (below): the values of "content", "text", "arguments", "partial_json", "delta", "refusal",
 *      "thinking", "reasoning" and "reasoning_content".
 *  Other errors stay, and tp_json_decode() reports them. A text that is JSON keeps its meaning.
 *  @param ret_marks  whether there are marks. */
void tp__openai_repair(tp_text text, tp__bytes *ret_json, bool *ret_marks);

/** A character whose end has not come: bytes of UTF-8, or of a surrogate that was written like a character. */
typedef struct tp__openai_tail {
  unsigned char bytes[8];
  uint8_t size;
} tp__openai_tail;

/** Appends a piece of a text that streams.
 *  @param has_marks  each mark stands for a byte from 0x80 to 0xff: it is U+10FF00 plus the byte. The bytes of a
 *                    character that is divided between two pieces are joined; bytes that do not become a character
 *                    become U+FFFD. */
void tp__openai_join(tp__bytes *to, tp__openai_tail *tail, tp_text piece, bool has_marks);
/** The text is over: bytes that wait in the tail become U+FFFD. */
void tp__openai_join_end(tp__bytes *to, tp__openai_tail *tail);

#endif
