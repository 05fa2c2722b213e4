/* SPDX-License-Identifier: Apache-2.0
 *
 * line: how a memory is shown, to a model or a person. Pure functions. */
#ifndef TP__MEMORY_LINE_H
#define TP__MEMORY_LINE_H

#include <sqlite3.h>

#include "domains/memory/store.h"

enum { TP__MEMORY_LINE_DATES_MAX = 8 }; /* words of time of a line that get their date */

/** Appends "[2023-05-08, session s1] text", or "[2023-05-08, session s1, noted] text" for what a tool remembered,
 *  "[2023-05-08, session s1, assistant] text" for what the assistant said, "[2023-05-08, session s1, fact] text" for a
 *  fact, with ", replaced 2024-01-02" after it when it does not hold any more.
 *  After words of time stands what they mean, reckoned from the day of saying: "last Friday (2023-05-05)".
 *  @param text_max  bytes of the text at most, cut at a code point with an ellipsis after it. */
void tp__memory_line_write(sqlite3_str *into, const tp__memory *memory, size_t text_max);

/** Who said it: the name before "Name: text", else "user" or "assistant". Borrowed from the memory or static. */
tp_text tp__memory_speaker(const tp__memory *memory);

/** "memory:12" and back: 0 for what is no such id. The number alone is taken, too. */
enum { TP__MEMORY_ID_SIZE = 32 };
void tp__memory_id_write(int64_t id, char into[TP__MEMORY_ID_SIZE]);
int64_t tp__memory_id_read(tp_text text);

enum { TP__MEMORY_PART_SIZE = 32 };
/** What names a text within its turn: made of the text, not of a call's id, which models use again. So one text is kept
 *  once a turn however often it is said, and no text displaces another.
 *  @param kind  "note-" or "fact-". */
void tp__memory_part_write(const char *kind, tp_text text, char into[TP__MEMORY_PART_SIZE]);

#endif
