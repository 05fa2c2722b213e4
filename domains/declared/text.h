/* SPDX-License-Identifier: Apache-2.0
 *
 * text: places in a text, refusals that name them, growing arrays. The module knows the core by its public headers
 * only. It has no lock and no state. */
#ifndef TP__DECLARED_TEXT_H
#define TP__DECLARED_TEXT_H

#include "runtime/base/printf.h"
#include "turnphase/declared.h"

/** Where something stands in a text, from 1; a column is a code point. 0, 0: nowhere. */
typedef struct tp__place {
  uint32_t line, column;
} tp__place;

/** The place of the character that the byte at offset belongs to; offset may be text.size. Linear in offset. */
tp__place tp__place_of(tp_text text, size_t offset);

bool tp__is_word(tp_text text, const char *word);
/** Whether it is one of the words, between which stand blanks, or commas and blanks. */
bool tp__is_one_of(tp_text text, const char *words);

/** The size of the longest prefix of at most max bytes that does not cut a code point; an int, as "%.*s" takes it. */
int tp__cut(tp_text text, int max);

/** Fills fault (may be NULL) and returns code. name is the fault's subject and may be NULL. */
tp_status tp__refuse(tp_fault *fault, tp_status code, const char *name, tp__place place, const char *format, ...)
    TP__PRINTF(5, 6);

/** malloc and free, for the public functions, which are given no allocator. */
extern const tp_allocator tp__malloc_allocator;
/** Grows an array to at least need items; existing items are kept. False when there is no memory. */
bool tp__grow(const tp_allocator *allocator, void **array, size_t *capacity, size_t need, size_t item_size);

#endif
