/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes: growing bytes, and the memory that they and the modules outside the core use. An object belongs to one thread
 * at a time; there is no lock. */
#ifndef TP__SUPPORT_BYTES_H
#define TP__SUPPORT_BYTES_H

#include "runtime/base/printf.h"
#include "turnphase/base.h"

/** malloc and free, for functions that get no allocator. */
extern const tp_allocator tp__malloc_allocator;
/** The source of this library's memory: &tp__malloc_allocator; in tests, an allocator that refuses. */
extern const tp_allocator *tp__heap;

/** Zeroed memory; NULL when there is none. */
void *tp__heap_alloc(size_t size);
/** @param memory  may be NULL. @param size  with which it was allocated. */
void tp__heap_free(void *memory, size_t size);
/** A copy with a NUL at the end, which text.size does not count; NULL without memory. Freed with size + 1, or by
 *  tp__heap_string_free() when the text has no NUL. */
char *tp__heap_copy(tp_text text);
/** @param string  may be NULL. */
void tp__heap_string_free(char *string);
/** Copies of `count` strings, followed by a NULL. @return NULL without memory for all of them. Freed by
 *  tp__heap_strings_free(). */
char **tp__heap_copy_strings(const char *const *strings, size_t count);
/** @param strings  ended by NULL, or NULL. */
void tp__heap_strings_free(char **strings);
/** The number of strings before the NULL. @param strings  may be NULL: 0. */
size_t tp__string_count(const char *const *strings);

/** Grows an array to at least `need` items. Existing items are kept, new ones are not zeroed. @return false when there
 *  is no memory, or the size would overflow. */
bool tp__grow(const tp_allocator *allocator, void **array, size_t *capacity, size_t need, size_t item_size);

/** Growing bytes. Zero-filled is empty. When memory is missing once, `failed` stays set and later bytes are ignored, so
 *  it suffices to check failed at the end. There is always space for a NUL after the bytes, which tp__bytes_string()
 *  writes. size < capacity, or both are 0 and data is NULL. */
typedef struct tp__bytes {
  char *data; /* memory of tp__heap */
  size_t size, capacity;
  bool failed;
} tp__bytes;

/** Makes space for `size` more bytes. @return false without memory; failed is set. */
bool tp__bytes_reserve(tp__bytes *bytes, size_t size);
void tp__bytes_put(tp__bytes *bytes, const char *data, size_t size);
void tp__bytes_put_text(tp__bytes *bytes, tp_text text);
void tp__bytes_put_string(tp__bytes *bytes, const char *string);
void tp__bytes_printf(tp__bytes *bytes, const char *format, ...) TP__PRINTF(2, 3);
/** A tp_print_fn; ctx is the bytes. */
void tp__bytes_print(void *ctx, const char *data, size_t size);
/** Borrowed until the next change. */
tp_text tp__bytes_text(const tp__bytes *bytes);
/** The bytes with a NUL at the end; "" when there is no memory. Borrowed until the next change. */
const char *tp__bytes_string(tp__bytes *bytes);
/** The first clears the bytes and keeps the memory; the second frees the memory. */
void tp__bytes_clear(tp__bytes *bytes);
void tp__bytes_fini(tp__bytes *bytes);

#endif
