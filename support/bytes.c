/* SPDX-License-Identifier: Apache-2.0 */
#include "support/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/check.h"

enum { FIRST_ITEMS = 64, FIRST_BYTES = 512, FIRST_ITEMS_MIN = 4 };

static void *malloc_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static void malloc_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

const tp_allocator tp__malloc_allocator = {.alloc = malloc_alloc, .release = malloc_release};
const tp_allocator *tp__heap = &tp__malloc_allocator;

void *tp__heap_alloc(size_t size) {
  assert(size > 0);
  void *memory = tp__heap->alloc(tp__heap->ctx, size);
  if (memory) memset(memory, 0, size);
  return memory;
}

void tp__heap_free(void *memory, size_t size) {
  if (memory) tp__heap->release(tp__heap->ctx, memory, size);
}

char *tp__heap_copy(tp_text text) {
  char *copy = tp__heap_alloc(text.size + 1);
  if (copy && text.size > 0) memcpy(copy, text.data, text.size);
  return copy;
}

void tp__heap_string_free(char *string) {
  if (string) tp__heap_free(string, strlen(string) + 1);
}

size_t tp__string_count(const char *const *strings) {
  size_t count = 0;
  while (strings && strings[count]) count++;
  return count;
}

char **tp__heap_copy_strings(const char *const *strings, size_t count) {
  char **copies = tp__heap_alloc((count + 1) * sizeof *copies);
  size_t copied = 0;
  for (; copies && copied < count; copied++) {
    copies[copied] = tp__heap_copy((tp_text){strings[copied], strlen(strings[copied])});
    if (!copies[copied]) break;
  }
  if (!copies || copied == count) return copies;
  for (size_t i = 0; i < copied; i++) tp__heap_string_free(copies[i]);
  tp__heap_free(copies, (count + 1) * sizeof *copies);
  return NULL;
}

void tp__heap_strings_free(char **strings) {
  if (!strings) return;
  size_t count = tp__string_count((const char *const *)strings);
  for (size_t i = 0; i < count; i++) tp__heap_string_free(strings[i]);
  tp__heap_free(strings, (count + 1) * sizeof *strings);
}

bool tp__grow(const tp_allocator *allocator, void **array, size_t *capacity, size_t need, size_t item_size) {
  assert(item_size > 0 && (*array || *capacity == 0));
  if (need <= *capacity) return true;
  if (need > SIZE_MAX / 2 / item_size) return false; /* so that doubling ends */
  size_t items = *capacity > 0 ? *capacity : FIRST_ITEMS;
  /* An array of large items begins small, because many such arrays never have a second item. */
  while (*capacity == 0 && items > FIRST_ITEMS_MIN && items * item_size > FIRST_BYTES) items /= 2;
  while (items < need) items *= 2;
  void *grown = allocator->alloc(allocator->ctx, items * item_size);
  if (!grown) return false;
  if (*array) {
    memcpy(grown, *array, *capacity * item_size);
    allocator->release(allocator->ctx, *array, *capacity * item_size);
  }
  *array = grown;
  *capacity = items;
  return true;
}

/* ---- bytes ---- */

__attribute__((unused)) static void check_bytes(const tp__bytes *bytes) {
  /* There is space for a NUL. */
  assert(bytes->size < bytes->capacity || bytes->capacity == 0);
  /* Nothing is counted that is not there. */
  assert(bytes->data ? bytes->capacity > 0 : bytes->capacity == 0 && bytes->size == 0);
}

bool tp__bytes_reserve(tp__bytes *bytes, size_t size) {
  TP__CHECK(check_bytes(bytes));
  void *data = bytes->data;
  if (bytes->failed) return false;
  if (size > SIZE_MAX / 2 - bytes->size || !tp__grow(tp__heap, &data, &bytes->capacity, bytes->size + size + 1, 1)) {
    bytes->failed = true;
    return false;
  }
  bytes->data = data;
  assert(bytes->size + size < bytes->capacity); /* and a NUL */
  TP__CHECK(check_bytes(bytes));
  return true;
}

void tp__bytes_put(tp__bytes *bytes, const char *data, size_t size) {
  assert(data || size == 0);
  if (!tp__bytes_reserve(bytes, size)) return;
  if (size > 0) memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
}

void tp__bytes_put_text(tp__bytes *bytes, tp_text text) { tp__bytes_put(bytes, text.data, text.size); }
void tp__bytes_put_string(tp__bytes *bytes, const char *string) { tp__bytes_put(bytes, string, strlen(string)); }
void tp__bytes_print(void *ctx, const char *data, size_t size) { tp__bytes_put(ctx, data, size); }

void tp__bytes_printf(tp__bytes *bytes, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  assert(size >= 0);
  if (!tp__bytes_reserve(bytes, (size_t)size)) return;
  va_start(args, format);
  vsnprintf(bytes->data + bytes->size, (size_t)size + 1, format, args);
  va_end(args);
  bytes->size += (size_t)size;
}

tp_text tp__bytes_text(const tp__bytes *bytes) {
  TP__CHECK(check_bytes(bytes));
  return (tp_text){bytes->data, bytes->size};
}

const char *tp__bytes_string(tp__bytes *bytes) {
  if (!tp__bytes_reserve(bytes, 0)) return "";
  bytes->data[bytes->size] = '\0';
  return bytes->data;
}

void tp__bytes_clear(tp__bytes *bytes) {
  bytes->size = 0;
  bytes->failed = false;
}

void tp__bytes_fini(tp__bytes *bytes) {
  TP__CHECK(check_bytes(bytes));
  tp__heap_free(bytes->data, bytes->capacity);
  *bytes = (tp__bytes){0};
}
