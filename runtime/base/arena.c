/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.c: a bump allocator over chunks that are freed all at once. Each chunk is twice as big as the one before, so
 * that a big arena has few chunks and a small arena wastes little. */
#include <stdio.h>

#include "runtime/base/base.h"

enum { ALIGNMENT = 8, CHUNK_BYTES_MIN = 1024, CHUNK_BYTES_MAX = 64 * 1024 };

struct tp__arena_chunk {
  tp__arena_chunk *next;
  size_t size; /* with this header */
};

static size_t align_up(size_t size) { return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }
static size_t space_left(const tp__arena *arena) {
  TP__ASSERT(arena->next <= arena->end);
  return (size_t)(arena->end - arena->next);
}

void tp__arena_init(tp__arena *arena, const tp_allocator *allocator, void *first, size_t first_size, size_t bytes_max) {
  *arena = (tp__arena){.allocator = allocator, .bytes_max = bytes_max};
  size_t skip = align_up((uintptr_t)first) - (uintptr_t)first;
  if (!first || first_size < skip) return;
  arena->next = (char *)first + skip;
  arena->end = (char *)first + first_size;
}

void tp__arena_fini(tp__arena *arena) {
  while (arena->chunks) {
    tp__arena_chunk *chunk = arena->chunks;
    TP__ASSERT(chunk->size > sizeof *chunk && chunk->size <= arena->bytes);
    arena->chunks = chunk->next;
    tp__release(arena->allocator, chunk, chunk->size);
  }
  *arena = (tp__arena){.allocator = arena->allocator, .bytes_max = arena->bytes_max};
}

/* The size of the next chunk: as much as all earlier chunks together, within bounds, but at least `need`. 0 when the
 * cap leaves less than `need`. */
static size_t chunk_size(const tp__arena *arena, size_t need) {
  size_t size = arena->bytes < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : arena->bytes;
  if (size > CHUNK_BYTES_MAX) size = CHUNK_BYTES_MAX;
  if (size < need) size = need;
  if (arena->bytes_max == 0) return size;
  size_t left = arena->bytes_max > arena->bytes ? arena->bytes_max - arena->bytes : 0;
  if (need > left) return 0;
  return size < left ? size : left;
}

static void *alloc_in_new_chunk(tp__arena *arena, size_t size) {
  size_t bytes = arena->allocator ? chunk_size(arena, size + sizeof(tp__arena_chunk)) : 0;
  if (bytes == 0) return NULL;
  tp__arena_chunk *chunk = tp__alloc(arena->allocator, bytes);
  if (!chunk) return NULL;
  *chunk = (tp__arena_chunk){.next = arena->chunks, .size = bytes};
  arena->chunks = chunk;
  arena->bytes += bytes;
  char *memory = (char *)(chunk + 1);
  char *end = (char *)chunk + bytes;
  if ((size_t)(end - (memory + size)) > space_left(arena)) { /* else the current chunk has more left */
    arena->next = memory + size;
    arena->end = end;
  }
  return memory;
}

void *tp__arena_alloc(tp__arena *arena, size_t size) {
  if (size > SIZE_MAX / 4) return NULL;
  size = align_up(size ? size : 1);
  if (size > space_left(arena)) return alloc_in_new_chunk(arena, size);
  void *memory = arena->next;
  arena->next += size;
  return memory;
}

void *tp__arena_zero(tp__arena *arena, size_t size) {
  void *memory = tp__arena_alloc(arena, size);
  if (memory) memset(memory, 0, size);
  return memory;
}

bool tp__arena_copy(tp__arena *arena, tp_text text, tp_text *ret_copy) {
  char *copy = text.size < SIZE_MAX ? tp__arena_alloc(arena, text.size + 1) : NULL;
  if (!copy) return false;
  memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  *ret_copy = (tp_text){copy, text.size};
  return true;
}

bool tp__arena_string(tp__arena *arena, const char *string, const char **ret_copy) {
  tp_text copy = {NULL, 0};
  if (string && !tp__arena_text(arena, tp_text_of(string), &copy)) return false;
  *ret_copy = copy.data;
  return true;
}

tp_text tp__arena_vprintf(tp__arena *arena, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  char *text = length < 0 ? NULL : tp__arena_alloc(arena, (size_t)length + 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(again);
  return text ? (tp_text){text, (size_t)length} : (tp_text){NULL, 0};
}

tp_text tp__arena_printf(tp__arena *arena, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tp_text text = tp__arena_vprintf(arena, format, arguments);
  va_end(arguments);
  return text;
}
