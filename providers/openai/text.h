/* SPDX-License-Identifier: Apache-2.0
 *
 * text: what the files of the provider share: bytes that grow, comparisons, faults. The module knows the core
 * by its public headers only. It has no lock; the objects belong to one thread at a time. */
#ifndef TP__OPENAI_TEXT_H
#define TP__OPENAI_TEXT_H

#include "runtime/base/printf.h"
#include "turnphase/value.h"

/** Where this library's memory comes from: malloc, and in tests what refuses. */
extern const tp_allocator *tp__openai_memory;
/** Zeroed memory; NULL when there is none. */
void *tp__openai_alloc(size_t size);
/** @param memory  may be NULL. */
void tp__openai_free(void *memory, size_t size);
/** A copy with a NUL behind it; NULL when there is no memory. Freed with size + 1. */
char *tp__openai_copy(tp_text text);
void tp__openai_string_free(char *string);

/** Bytes that grow. Zero-filled is empty. A lack of memory sticks: check failed once. There is always space for a NUL
 *  behind the bytes, which tp__openai_bytes_string() writes. */
typedef struct tp__openai_bytes {
  char *data;
  size_t size, capacity;
  bool failed;
} tp__openai_bytes;

void tp__openai_put(tp__openai_bytes *bytes, const char *data, size_t size);
void tp__openai_put_text(tp__openai_bytes *bytes, tp_text text);
void tp__openai_put_string(tp__openai_bytes *bytes, const char *string);
tp_text tp__openai_bytes_text(const tp__openai_bytes *bytes);
/** With a NUL; "" when there is no memory. Borrowed till the next change. */
const char *tp__openai_bytes_string(tp__openai_bytes *bytes);
/** Clears the bytes and keeps the memory; frees the memory. */
void tp__openai_bytes_clear(tp__openai_bytes *bytes);
void tp__openai_bytes_fini(tp__openai_bytes *bytes);

bool tp__openai_same(tp_text a, tp_text b);
bool tp__openai_is(tp_text text, const char *string);
bool tp__openai_begins(tp_text text, const char *prefix);
/** Finds string in text, ASCII letters of either case alike. */
bool tp__openai_has(tp_text text, const char *string);

/** Copies text to a buffer with a NUL: cut between code points, control characters and what is not UTF-8 as '?'. */
void tp__openai_show(char *buffer, size_t size, tp_text text);
/** Fills fault (may be NULL) and returns code. subject may be NULL. */
tp_status tp__openai_refuse(tp_fault *fault, tp_status code, const char *subject, const char *format, ...)
    TP__PRINTF(4, 5);

#endif
