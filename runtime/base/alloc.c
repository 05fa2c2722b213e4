/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc.c: passes every allocation of the library to the host's allocator. */
#include <stdlib.h>

#include "runtime/base/base.h"

enum { ARRAY_ITEMS_MIN = 8 };

static void *libc_alloc(void *ctx, size_t size) {
  (void)ctx;
  return malloc(size);
}

static void libc_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
}

tp_allocator tp__allocator_of(const tp_allocator *theirs) {
  if (theirs && theirs->alloc && theirs->release) return *theirs;
  return (tp_allocator){.alloc = libc_alloc, .release = libc_release};
}

/* The contract of the allocator has no size 0. So a size of 0 becomes 1, when memory is allocated and when it is
 * freed. */
static size_t at_least_one(size_t size) { return size ? size : 1; }

void *tp__alloc(const tp_allocator *allocator, size_t size) {
  return allocator->alloc(allocator->ctx, at_least_one(size));
}

void *tp__alloc_zero(const tp_allocator *allocator, size_t size) {
  void *memory = tp__alloc(allocator, size);
  if (memory) memset(memory, 0, at_least_one(size));
  return memory;
}

void tp__release(const tp_allocator *allocator, void *memory, size_t size) {
  if (memory) allocator->release(allocator->ctx, memory, at_least_one(size));
}

tp_status tp__string_copy(const tp_allocator *allocator, const char *string, char **ret_copy) {
  char *copy = NULL;
  if (string) {
    size_t size = strlen(string) + 1;
    copy = tp__alloc(allocator, size);
    if (!copy) return TP_ERR_NO_MEMORY;
    memcpy(copy, string, size);
  }
  *ret_copy = copy;
  return TP_OK;
}

void tp__string_free(const tp_allocator *allocator, char *string) {
  if (string) tp__release(allocator, string, strlen(string) + 1);
}

tp_status tp__array_grow(const tp_allocator *allocator, void **array, size_t *capacity, size_t need, size_t item_size) {
  assert(item_size > 0);
  if (need <= *capacity) return TP_OK;
  size_t items_max = SIZE_MAX / 2 / item_size;
  if (need > items_max) return TP_ERR_NO_MEMORY;
  size_t items = *capacity > 0 ? *capacity : ARRAY_ITEMS_MIN;
  while (items < need) items *= 2; /* ends: need is at most half of SIZE_MAX */
  if (items > items_max) items = need;
  void *grown = tp__alloc(allocator, items * item_size);
  if (!grown) return TP_ERR_NO_MEMORY;
  if (*array) memcpy(grown, *array, *capacity * item_size);
  tp__release(allocator, *array, *capacity * item_size);
  *array = grown;
  *capacity = items;
  return TP_OK;
}
