/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.c: sorts the keys of maps, to find repeated keys and to write keys in canonical order. It has its own heap sort,
 * because the C library's qsort allocates without the host's allocator, and may take quadratic time when it cannot
 * allocate. */
#include "runtime/value/value.h"

void tp__keys_init(tp__keys *keys, tp_text bytes, const tp_allocator *allocator) {
  keys->allocator = allocator;
  keys->bytes = bytes;
  keys->offsets = keys->first;
  keys->count = 0;
  keys->capacity = sizeof keys->first / sizeof keys->first[0];
}

void tp__keys_fini(tp__keys *keys) {
  if (keys->offsets != keys->first) {
    tp__release(keys->allocator, keys->offsets, keys->capacity * sizeof keys->offsets[0]);
  }
}

static tp_status grow_keys(tp__keys *keys) {
  if (keys->offsets == keys->first) {
    void *grown = NULL;
    size_t capacity = 0;
    TP__TRY(tp__array_grow(keys->allocator, &grown, &capacity, keys->count + 1, sizeof keys->offsets[0]));
    memcpy(grown, keys->first, sizeof keys->first);
    keys->offsets = grown;
    keys->capacity = capacity;
    return TP_OK;
  }
  void *array = keys->offsets;
  TP__TRY(tp__array_grow(keys->allocator, &array, &keys->capacity, keys->count + 1, sizeof keys->offsets[0]));
  keys->offsets = array;
  return TP_OK;
}

tp_status tp__keys_push(tp__keys *keys, size_t offset) {
  assert(offset < TP__VALUE_BYTES_MAX);
  if (keys->count == keys->capacity) TP__TRY(grow_keys(keys));
  keys->offsets[keys->count++] = (uint32_t)offset;
  return TP_OK;
}

int tp__key_compare(tp_text left, tp_text right) {
  int order = memcmp(left.data, right.data, left.size < right.size ? left.size : right.size);
  return order ? order : (left.size > right.size) - (left.size < right.size);
}

static int compare_keys(const tp__keys *keys, uint32_t left, uint32_t right) {
  tp__head left_head = {0}, right_head = {0};
  tp__head_flaw left_flaw = tp__head_read(keys->bytes, left, &left_head);
  tp__head_flaw right_flaw = tp__head_read(keys->bytes, right, &right_head);
  assert(left_flaw == TP__HEAD_OK && right_flaw == TP__HEAD_OK);
  (void)left_flaw, (void)right_flaw;
  const char *bytes = keys->bytes.data;
  return tp__key_compare((tp_text){bytes + left + left_head.size, left_head.content},
                         (tp_text){bytes + right + right_head.size, right_head.content});
}

bool tp__keys_ascend(const tp__keys *keys, size_t from) {
  for (size_t i = from + 1; i < keys->count; i++) {
    if (compare_keys(keys, keys->offsets[i - 1], keys->offsets[i]) >= 0) return false;
  }
  return true;
}

/* Lets the item at index sink until no child of its heap is greater. */
static void sink(const tp__keys *keys, uint32_t *heap, size_t count, size_t index) {
  uint32_t item = heap[index];
  for (size_t child; (child = 2 * index + 1) < count; index = child) {
    if (child + 1 < count && compare_keys(keys, heap[child], heap[child + 1]) < 0) child++;
    if (compare_keys(keys, item, heap[child]) >= 0) break;
    heap[index] = heap[child];
  }
  heap[index] = item;
}

void tp__keys_sort(tp__keys *keys, size_t from) {
  uint32_t *heap = keys->offsets + from;
  size_t count = keys->count - from;
  for (size_t i = count / 2; i-- > 0;) sink(keys, heap, count, i);
  for (size_t end = count; end-- > 1;) {
    uint32_t greatest = heap[0];
    heap[0] = heap[end];
    heap[end] = greatest;
    sink(keys, heap, end, 0);
  }
}

bool tp__keys_repeated(const tp__keys *keys, size_t from, size_t *ret_offset) {
  for (size_t i = from + 1; i < keys->count; i++) {
    uint32_t left = keys->offsets[i - 1], right = keys->offsets[i];
    if (compare_keys(keys, left, right) == 0) {
      *ret_offset = left > right ? left : right;
      return true;
    }
  }
  return false;
}
