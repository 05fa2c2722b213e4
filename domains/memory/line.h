/* SPDX-License-Identifier: Apache-2.0
 *
 * line: the text of a memory as a model or a person sees it. Pure functions. */
#ifndef TP__MEMORY_LINE_H
#define TP__MEMORY_LINE_H

#include <sqlite3.h>

#include "domains/memory/store.h"

enum { TP__MEMORY_LINE_DATES_MAX = 8 }; /* the most words of time in a line that get a date */

/** Appends "[2023-05-08, session s1] text", or "[2023-05-08, session s1, noted] text" for what a tool remembered,
 *  "[2023-05-08, session s1, assistant] text" for what the assistant said, "[2023-05-08, session s1, fact] text" for a
 *  fact, followed by ", replaced 2024-01-02" when it is no longer valid.
 *  Words of time are followed by their date, counted from the day of saying: "last Friday (2023-05-05)".
 *  @param text_max  the most bytes of the text, cut at a code point with an ellipsis after it. */
void tp__memory_line_write(sqlite3_str *into, const tp__memory *memory, size_t text_max);

/** The speaker of a memory: the name before "Name: text", else "user" or "assistant". Borrowed from the memory or
 *  static. */
tp_text tp__memory_speaker(const tp__memory *memory);

/** Writes "memory:12", and reads it: 0 for anything else. A number without "memory:" is accepted, too. */
enum { TP__MEMORY_ID_SIZE = 32 };
void tp__memory_id_write(int64_t id, char into[TP__MEMORY_ID_SIZE]);
int64_t tp__memory_id_read(tp_text text);

enum { TP__MEMORY_PART_SIZE = 32 };
/** Makes the name of a text within its turn, from the text and not from a call's id, since models reuse ids. So a text
 *  that is said several times in a turn is kept once, and no text replaces another.
 *  @param kind  "note-" or "fact-". */
void tp__memory_part_write(const char *kind, tp_text text, char into[TP__MEMORY_PART_SIZE]);

#endif
