/* SPDX-License-Identifier: Apache-2.0
 *
 * base: what every module uses: allocation, arenas, lists, faults, ids. It owns nothing, has no lock and starts
 * nothing. */
#ifndef TP__BASE_H
#define TP__BASE_H

#include <stdarg.h>
#include <string.h>

#include "runtime/base/check.h"
#include "runtime/base/printf.h"
#include "turnphase/base.h"

#define TP__CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* ---- faults ---- */

/** Fills fault (may be NULL) and returns code, so that a refusal is one line: return tp__fail(fault, …). subject may be
 *  NULL. subject and message are cut to fit, each at the end of a code point. */
tp_status tp__fail(tp_fault *fault, tp_status code, const char *subject, const char *format, ...) TP__PRINTF(4, 5);
/** Refuses a NULL that a caller passed to a public function in place of an object. The fault names the parameter.
 *  @return TP_ERR_USAGE. */
tp_status tp__fail_null(tp_fault *fault, const char *parameter);

enum { TP__STRUCT_SIZE_MAX = 4096 }; /* a larger struct_size is an uninitialised one */

/** Reads a growable struct of a caller, which may be older (shorter) or newer (longer) than the library's struct.
 *  Copies the common part, zeroes the rest, and sets struct_size to the library's size. When theirs is NULL, everything
 *  is zero.
 *  @param name  of the struct ("tp_phase"), for the fault's message.
 *  @return TP_OK; TP_ERR_VERSION with `ours` untouched, in two cases. Either struct_size is not set: it is below the
 *          size of size_t, above TP__STRUCT_SIZE_MAX, or no multiple of the size of size_t; then nothing else is read.
 *          Or a newer program sets a field that this library does not have. The fault names the case, and the byte. */
tp_status tp__options_read(void *ours, size_t our_size, const void *theirs, const char *name, tp_fault *fault);
/** The opposite of tp__options_read(): fills a caller's struct up to its struct_size, zeroes the part that this library
 *  does not know, and writes into struct_size how many bytes were filled. @return false, with nothing written, when
 *  struct_size is not set. */
bool tp__shown_fill(void *theirs, const void *ours, size_t our_size);

/** Checks that the caller has set struct_size in a struct that the library is to fill. @return TP_OK;
 *  TP_ERR_VERSION. */
tp_status tp__size_check(const void *theirs, const char *name, tp_fault *fault);

/* ---- allocation ---- */

/** A copy of the caller's allocator, or the one of the C library when it is zero-filled or NULL. */
tp_allocator tp__allocator_of(const tp_allocator *theirs);
void *tp__alloc(const tp_allocator *allocator, size_t size);
void *tp__alloc_zero(const tp_allocator *allocator, size_t size);
/** Accepts NULL. */
void tp__release(const tp_allocator *allocator, void *memory, size_t size);
/** A NUL-terminated copy, which tp__string_free() frees. For NULL, *ret_copy is NULL. */
tp_status tp__string_copy(const tp_allocator *allocator, const char *string, char **ret_copy);
void tp__string_free(const tp_allocator *allocator, char *string);
/** Grows an array to hold at least `need` items by doubling *capacity. Existing items stay; new items are not
 *  zeroed. */
tp_status tp__array_grow(const tp_allocator *allocator, void **array, size_t *capacity, size_t need, size_t item_size);

/* ---- arena: memory that is freed all at once ---- */

typedef struct tp__arena_chunk tp__arena_chunk;
typedef struct tp__arena {
  const tp_allocator *allocator; /* never changes; NULL: no chunk is ever added, only `first` is used */
  char *next, *end;              /* free part of the current chunk */
  tp__arena_chunk *chunks;       /* newest first */
  size_t bytes, bytes_max;       /* taken in chunks, and the cap (0: none) */
} tp__arena;

/** first/first_size: a buffer of the caller, which is used before any chunk is allocated; may be NULL/0. */
void tp__arena_init(tp__arena *arena, const tp_allocator *allocator, void *first, size_t first_size, size_t bytes_max);
/** Frees every chunk. The first buffer stays the caller's. */
void tp__arena_fini(tp__arena *arena);
/** Memory aligned to 8, uninitialised; NULL when refused. size 0 gives a valid pointer. */
void *tp__arena_alloc(tp__arena *arena, size_t size);
void *tp__arena_zero(tp__arena *arena, size_t size);
/** Copies the text and adds a NUL that size does not count. @return false when memory is refused. */
bool tp__arena_copy(tp__arena *arena, tp_text text, tp_text *ret_copy);
/** As tp__arena_copy(). Empty text, which is frequent, needs no memory and no call. */
static inline bool tp__arena_text(tp__arena *arena, tp_text text, tp_text *ret_copy) {
  if (text.size > 0) return tp__arena_copy(arena, text, ret_copy);
  *ret_copy = (tp_text){"", 0};
  return true;
}
/** NUL-terminated copy; NULL in gives NULL out and true. */
bool tp__arena_string(tp__arena *arena, const char *string, const char **ret_copy);
/** printf into the arena; empty text when refused. */
tp_text tp__arena_printf(tp__arena *arena, const char *format, ...) TP__PRINTF(2, 3);
tp_text tp__arena_vprintf(tp__arena *arena, const char *format, va_list arguments) TP__PRINTF(2, 0);

/* ---- intrusive doubly linked list with a head ---- */

typedef struct tp__link {
  struct tp__link *next, *prev;
} tp__link;

static inline void tp__list_init(tp__link *head) { head->next = head->prev = head; }
static inline bool tp__list_empty(const tp__link *head) { return head->next == head; }
static inline void tp__list_push(tp__link *head, tp__link *item) { /* at the end */
  TP__ASSERT(head->prev->next == head && head->prev != item);      /* it is not the last already */
  item->prev = head->prev;
  item->next = head;
  head->prev->next = item;
  head->prev = item;
}
/* harmless when the item was removed before or is linked to itself */
static inline void tp__list_remove(tp__link *item) {
  TP__ASSERT(item->prev->next == item && item->next->prev == item);
  item->prev->next = item->next;
  item->next->prev = item->prev;
  item->next = item->prev = item;
}

/* ---- ids and text ---- */

/** Whether the number is TP_OK or one of status.def. */
bool tp__status_is_known(tp_status status);
/** 1–128 bytes, UTF-8, no white space and no control bytes. */
bool tp__id_valid(const char *id);
/** Copies a text to *at, which moves after it. */
tp_text tp__text_put(char **at, tp_text text);
/** The name of a value of an enum, from a table indexed by the value; `otherwise` when the table has no name for it. */
static inline const char *tp__name_at(const char *const *names, size_t count, size_t value, const char *otherwise) {
  return value < count && names[value] ? names[value] : otherwise;
}
#define TP__NAME_AT(names, value, otherwise) \
  tp__name_at(names, sizeof(names) / sizeof *(names), (size_t)(value), otherwise)
/** The longest prefix of at most max bytes that does not cut a code point. */
size_t tp__utf8_cut(tp_text text, size_t max);
/** As tp__utf8_cut(), but it does not cut a word (a run of printable ASCII characters) either. So when a text is
 *  redacted after the cut, its end holds no part of a secret. */
size_t tp__utf8_cut_word(tp_text text, size_t max);

#endif
