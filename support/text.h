/* SPDX-License-Identifier: Apache-2.0
 *
 * text: compares texts, and prepares them for people. No state. */
#ifndef TP__SUPPORT_TEXT_H
#define TP__SUPPORT_TEXT_H

#include "support/bytes.h"

bool tp__same(tp_text a, tp_text b);
bool tp__is_word(tp_text text, const char *word);
/** Whether text is one of the words, which are separated by blanks, or commas and blanks. */
bool tp__is_one_of(tp_text text, const char *words);
bool tp__begins(tp_text text, const char *prefix);
bool tp__ends(tp_text text, const char *suffix);
/** Whether text contains string; the case of ASCII letters does not matter. */
bool tp__contains(tp_text text, const char *string);

/** Whether text is an id: 1 to 128 bytes (TP_ID_BYTES_MAX) of UTF-8 without white space and control characters, as
 *  Unicode defines them. The core refuses all other ids. */
bool tp__is_id(tp_text text);

/** The size of the longest prefix of at most max bytes that does not cut a code point. An int, because "%.*s" takes an
 *  int. */
int tp__cut(tp_text text, int max);
/** As tp__cut(), but it does not cut a word (a run of printable ASCII characters) either: no redaction recognizes a
 *  part of a secret at the end of a text. */
int tp__cut_word(tp_text text, int max);
/** Copies text to a buffer with a NUL, cut between code points. @param size the size of the buffer; > 0.
 *  @return how many bytes were copied. */
size_t tp__copy_cut(char *buffer, size_t size, tp_text text);
/** Prepares a string for a message: control characters and bytes that are not UTF-8 become '?', a newline becomes a
 *  blank. */
void tp__make_printable(char *string);
/** Adds a text, in which U+FFFD replaces each byte that is not UTF-8. @return the number of these bytes. */
size_t tp__bytes_put_utf8(tp__bytes *bytes, tp_text text);
/** tp__copy_cut(), then tp__make_printable(). */
void tp__show(char *buffer, size_t size, tp_text text);

/** The place of a byte in a text: line and column from 1; a column is a code point. 0, 0: nowhere. */
typedef struct tp__place {
  uint32_t line, column;
} tp__place;
/** The place of the character to which the byte at offset belongs; offset may be text.size. Linear in offset. */
tp__place tp__place_of(tp_text text, size_t offset);

#endif
