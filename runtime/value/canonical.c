/* SPDX-License-Identifier: Apache-2.0
 *
 * canonical.c: writes a value in its one canonical spelling, for hashing and comparing. The value is checked first, so
 * the rest of the code may recurse (at most 32 deep) and trusts every head. For each map, the code skips over the
 * values to find the keys, so the time is linear in the size times the depth. */
#include <math.h>

#include "runtime/value/value.h"

struct canonical {
  tp_text value;
  tp__keys keys;
  tp_writer *writer; /* keeps the first error; after it nothing more is written */
};

static size_t write_at(struct canonical *canonical, size_t at);

/* Collects the keys of `count` pairs. @return the offset after them. */
static size_t collect_keys(struct canonical *canonical, size_t at, size_t count) {
  for (size_t i = 0; i < count; i++) {
    tp_status status = tp__keys_push(&canonical->keys, at);
    if (status != TP_OK) tp__writer_stick(canonical->writer, status);
    at += tp__value_size(canonical->value, at);
    at += tp__value_size(canonical->value, at);
  }
  return at;
}

static size_t write_map(struct canonical *canonical, size_t at, size_t count) {
  size_t from = canonical->keys.count;
  size_t end = collect_keys(canonical, at, count);
  if (tp__writer_status(canonical->writer) != TP_OK) return end;
  if (!tp__keys_ascend(&canonical->keys, from)) tp__keys_sort(&canonical->keys, from);
  tp_write_map(canonical->writer, count);
  for (size_t i = 0; i < count; i++) {
    size_t behind_key = write_at(canonical, canonical->keys.offsets[from + i]);
    write_at(canonical, behind_key);
  }
  canonical->keys.count = from;
  return end;
}

/* NaN has many bit patterns and one meaning. */
static double one_nan(double real) { return isnan(real) ? (double)NAN : real; }

/* Writes the value at the offset and returns the offset after it. */
static size_t write_at(struct canonical *canonical, size_t at) {
  tp_writer *writer = canonical->writer;
  tp__head head = {0};
  tp__head_flaw flaw = tp__head_read(canonical->value, at, &head);
  assert(flaw == TP__HEAD_OK);
  (void)flaw;
  at += head.size;
  tp_text content = {canonical->value.data + at, head.content};
  switch (head.kind) {
    case TP_VALUE_NULL:
      tp_write_null(writer);
      break;
    case TP_VALUE_BOOL:
      tp_write_bool(writer, head.integer != 0);
      break;
    case TP_VALUE_INT:
      tp_write_int(writer, head.integer);
      break;
    case TP_VALUE_DOUBLE:
      tp_write_double(writer, one_nan(head.real));
      break;
    case TP_VALUE_TEXT:
      tp_write_text(writer, content);
      break;
    case TP_VALUE_BYTES:
      tp_write_bytes(writer, content);
      break;
    case TP_VALUE_ARRAY:
      tp_write_array(writer, head.children);
      for (size_t i = 0; i < head.children; i++) at = write_at(canonical, at);
      return at;
    case TP_VALUE_MAP:
      return write_map(canonical, at, head.children / 2);
    case TP_VALUE_NONE:
    case TP_VALUE_FORCE_32:
      assert(!"a checked value");
      break;
  }
  return at + head.content;
}

tp_status tp_value_write_canonical(tp_text value, tp_writer *writer, tp_fault *fault) {
  const tp_allocator *allocator = tp__writer_allocator(writer);
  TP__TRY(tp__value_check(value, allocator, fault));
  struct canonical canonical = {.value = value, .writer = writer};
  tp__keys_init(&canonical.keys, value, allocator);
  write_at(&canonical, 0);
  tp__keys_fini(&canonical.keys);
  tp_status status = tp__writer_status(writer);
  if (status == TP_OK) return TP_OK;
  return tp__fail(fault, status, NULL, "the canonical form could not be written: %s", tp_status_text(status));
}
