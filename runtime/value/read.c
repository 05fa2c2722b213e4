/* SPDX-License-Identifier: Apache-2.0
 *
 * read.c: gives the parts of a value, as slices of its bytes. */
#include "runtime/value/value.h"

static const tp_text nothing = {NULL, 0};

static tp_text slice(tp_text bytes, size_t offset, size_t size) { return (tp_text){bytes.data + offset, size}; }

/* The head of a value; all zero (TP_VALUE_NONE) when there is no value. */
static tp__head head_of(tp_text value) {
  tp__head head = {0};
  (void)tp__head_read(value, 0, &head); /* leaves `head` untouched when the bytes are broken */
  return head;
}

tp_value_kind tp_value_kind_of(tp_text value) { return head_of(value).kind; }

size_t tp_value_count(tp_text value) {
  tp__head head = head_of(value);
  return head.kind == TP_VALUE_MAP ? head.children / 2 : head.children;
}

tp_text tp_value_text(tp_text value) {
  tp__head head = head_of(value);
  return head.kind == TP_VALUE_TEXT || head.kind == TP_VALUE_BYTES ? slice(value, head.size, head.content) : nothing;
}

int64_t tp_value_int(tp_text value, int64_t fallback) {
  tp__head head = head_of(value);
  return head.kind == TP_VALUE_INT ? head.integer : fallback;
}

double tp_value_double(tp_text value, double fallback) {
  tp__head head = head_of(value);
  if (head.kind == TP_VALUE_INT) return (double)head.integer;
  return head.kind == TP_VALUE_DOUBLE ? head.real : fallback;
}

bool tp_value_bool(tp_text value, bool fallback) {
  tp__head head = head_of(value);
  return head.kind == TP_VALUE_BOOL ? head.integer != 0 : fallback;
}

static bool walk_end(tp_value_walk *walk) {
  walk->key = walk->value = nothing;
  walk->left = 0;
  return false;
}

bool tp_value_next(tp_text container, tp_value_walk *walk) {
  if (!walk) return false;
  tp__head head = head_of(container);
  if (!walk->started) {
    walk->started = 1;
    walk->offset = head.size;
    walk->left = tp_value_count(container);
  }
  if (walk->left == 0) return walk_end(walk);
  walk->key = nothing;
  if (head.kind == TP_VALUE_MAP) {
    size_t size = tp__value_size(container, walk->offset);
    if (size == 0) return walk_end(walk);
    walk->key = tp_value_text(slice(container, walk->offset, size));
    walk->offset += size;
  }
  size_t size = tp__value_size(container, walk->offset);
  if (size == 0) return walk_end(walk);
  walk->value = slice(container, walk->offset, size);
  walk->offset += size;
  walk->left--;
  return true;
}

/* A walk that is at the index; false when there is no such element. */
static bool walk_to(tp_text value, size_t index, tp_value_walk *ret_walk) {
  *ret_walk = (tp_value_walk){0};
  if (index >= tp_value_count(value)) return false;
  for (size_t i = 0; i <= index; i++) {
    if (!tp_value_next(value, ret_walk)) return false;
  }
  return true;
}

tp_text tp_value_at(tp_text value, size_t index) {
  tp_value_walk walk;
  return walk_to(value, index, &walk) ? walk.value : nothing;
}

tp_text tp_value_key_at(tp_text value, size_t index) {
  tp_value_walk walk;
  return walk_to(value, index, &walk) ? walk.key : nothing;
}

tp_text tp_value_get(tp_text value, const char *key) {
  if (!key || tp_value_kind_of(value) != TP_VALUE_MAP) return nothing;
  tp_value_walk walk = {0};
  while (tp_value_next(value, &walk)) {
    if (tp_text_is(walk.key, key)) return walk.value;
  }
  return nothing;
}

/* The value of the key, which must be of this kind. */
static tp_status get_of_kind(tp_text map, const char *key, tp_value_kind kind, tp_text *ret_value, tp_fault *fault) {
  static const char *const names[] = {
      [TP_VALUE_NULL] = "null",       [TP_VALUE_BOOL] = "true or false", [TP_VALUE_INT] = "an int",
      [TP_VALUE_DOUBLE] = "a number", [TP_VALUE_TEXT] = "text",          [TP_VALUE_BYTES] = "bytes",
      [TP_VALUE_ARRAY] = "a list",    [TP_VALUE_MAP] = "a map"};
  tp_text value = tp_value_get(map, key);
  tp_value_kind found = tp_value_kind_of(value);
  if (found == TP_VALUE_NONE || found == TP_VALUE_NULL)
    return tp__fail(fault, TP_ERR_NOT_FOUND, NULL, "%s is missing", key ? key : "a key");
  if (found != kind && !(kind == TP_VALUE_DOUBLE && found == TP_VALUE_INT))
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s must be %s, not %s", key, names[kind], names[found]);
  *ret_value = value;
  return TP_OK;
}

tp_status tp_value_get_text(tp_text map, const char *key, tp_text *ret_text, tp_fault *fault) {
  tp_text value;
  TP__TRY(get_of_kind(map, key, TP_VALUE_TEXT, &value, fault));
  *ret_text = tp_value_text(value);
  return TP_OK;
}

tp_status tp_value_get_int(tp_text map, const char *key, int64_t *ret_int, tp_fault *fault) {
  tp_text value;
  TP__TRY(get_of_kind(map, key, TP_VALUE_INT, &value, fault));
  *ret_int = tp_value_int(value, 0);
  return TP_OK;
}

tp_status tp_value_get_double(tp_text map, const char *key, double *ret_double, tp_fault *fault) {
  tp_text value;
  TP__TRY(get_of_kind(map, key, TP_VALUE_DOUBLE, &value, fault));
  *ret_double = tp_value_double(value, 0);
  return TP_OK;
}

tp_status tp_value_get_bool(tp_text map, const char *key, bool *ret_bool, tp_fault *fault) {
  tp_text value;
  TP__TRY(get_of_kind(map, key, TP_VALUE_BOOL, &value, fault));
  *ret_bool = tp_value_bool(value, false);
  return TP_OK;
}
