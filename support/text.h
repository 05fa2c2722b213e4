/* SPDX-License-Identifier: Apache-2.0
 *
 * text: comparing texts, and showing them to people. No state. */
#ifndef TP__SUPPORT_TEXT_H
#define TP__SUPPORT_TEXT_H

#include "support/bytes.h"

bool tp__same(tp_text a, tp_text b);
bool tp__is_word(tp_text text, const char *word);
/** Whether text is one of the words, which are separated by blanks, or commas and blanks. */
bool tp__is_one_of(tp_text text, const char *words);
bool tp__begins(tp_text text, const char *prefix);
bool tp__ends(tp_text text, const char *suffix);
/** Whether text contains string; ASCII letters of either case are alike. */
bool tp__contains(tp_text text, const char *string);

/** The size of the longest prefix of at most max bytes that does not cut a code point; an int, as "%.*s" takes it. */
int tp__cut(tp_text text, int max);
/** The same, and it does not cut a word (printable ASCII characters between others): a part of a secret at the end of a
 *  text is what no redaction recognizes. */
int tp__cut_word(tp_text text, int max);
/** Copies text to a buffer with a NUL, cut between code points.   @param size  of the buffer; > 0.
 *  @return how many bytes were copied. */
size_t tp__copy_cut(char *buffer, size_t size, tp_text text);
/** Makes a string fit for a message: control characters and bytes that are not UTF-8 become '?', a newline a blank. */
void tp__make_printable(char *string);
/** Adds a text with U+FFFD in place of each byte that is not UTF-8. @return the number of these bytes. */
size_t tp__bytes_put_utf8(tp__bytes *bytes, tp_text text);
/** tp__copy_cut(), then tp__make_printable(). */
void tp__show(char *buffer, size_t size, tp_text text);

/** The place of a byte in a text: line and column from 1; a column is a code point. 0, 0: nowhere. */
typedef struct tp__place {
  uint32_t line, column;
} tp__place;
/** The place of the character that the byte at offset belongs to; offset may be text.size. Linear in offset. */
tp__place tp__place_of(tp_text text, size_t offset);

#endif
