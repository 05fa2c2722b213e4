/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a value: readers stay within them; msgpack-c also reads every value that the check accepts; its
 * canonical form is accepted, and is its own canonical form. */
#include <msgpack/unpack.h>

#include "tests/fuzz/must.h"
#include "turnphase/value.h"

enum { WALK_DEPTH_MAX = 40 };

static size_t walk_all(tp_text value, size_t depth) {
  size_t seen = 1 + tp_value_text(value).size;
  seen += tp_value_bool(value, false) + (tp_value_int(value, 0) != 0) + (tp_value_double(value, 0) > 0);
  seen += tp_value_get(value, "key").size + tp_value_at(value, 1).size + tp_value_key_at(value, 1).size;
  for (tp_value_walk walk = {0}; depth < WALK_DEPTH_MAX && tp_value_next(value, &walk);) {
    MUST(walk.value.data > value.data && walk.value.data + walk.value.size <= value.data + value.size);
    MUST(walk.key.size == 0 || (walk.key.data > value.data && walk.key.data + walk.key.size < walk.value.data + 1));
    seen += walk_all(walk.value, depth + 1);
  }
  return seen;
}

static void must_be_object(tp_text value, const msgpack_object *object);

static void must_be_bytes(tp_text ours, const char *data, size_t size) {
  MUST(ours.size == size && (size == 0 || memcmp(ours.data, data, size) == 0));
}

static void must_be_members(tp_text value, const msgpack_object *object) {
  bool is_map = object->type == MSGPACK_OBJECT_MAP;
  uint32_t at = 0, count = is_map ? object->via.map.size : object->via.array.size;
  MUST(tp_value_count(value) == count);
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); at++) {
    if (is_map)
      must_be_bytes(walk.key, object->via.map.ptr[at].key.via.str.ptr, object->via.map.ptr[at].key.via.str.size);
    must_be_object(walk.value, is_map ? &object->via.map.ptr[at].val : &object->via.array.ptr[at]);
  }
  MUST(at == count);
}

/* An integer above INT64_MAX and an extension do not exist in turnphase; other kinds are compared. */
static void must_be_object(tp_text value, const msgpack_object *object) {
  switch (object->type) {
    case MSGPACK_OBJECT_NIL:
      MUST(tp_value_kind_of(value) == TP_VALUE_NULL);
      break;
    case MSGPACK_OBJECT_BOOLEAN:
      MUST(tp_value_kind_of(value) == TP_VALUE_BOOL &&
           tp_value_bool(value, !object->via.boolean) == object->via.boolean);
      break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
      if (object->via.u64 > INT64_MAX) break;
      MUST(tp_value_kind_of(value) == TP_VALUE_INT && tp_value_int(value, -1) == (int64_t)object->via.u64);
      break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
      MUST(tp_value_kind_of(value) == TP_VALUE_INT && tp_value_int(value, 1) == object->via.i64);
      break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64: {
      double ours = tp_value_double(value, -1), theirs = object->via.f64;
      MUST(tp_value_kind_of(value) == TP_VALUE_DOUBLE && (memcmp(&ours, &theirs, sizeof ours) == 0 || ours != ours));
      break;
    }
    case MSGPACK_OBJECT_STR:
      MUST(tp_value_kind_of(value) == TP_VALUE_TEXT);
      must_be_bytes(tp_value_text(value), object->via.str.ptr, object->via.str.size);
      break;
    case MSGPACK_OBJECT_ARRAY:
      MUST(tp_value_kind_of(value) == TP_VALUE_ARRAY);
      must_be_members(value, object);
      break;
    case MSGPACK_OBJECT_MAP:
      MUST(tp_value_kind_of(value) == TP_VALUE_MAP);
      must_be_members(value, object);
      break;
    default:
      break;
  }
}

/* Both readers read the same, member by member. */
static void must_agree_with_msgpack_c(tp_text value) {
  msgpack_unpacked unpacked;
  size_t offset = 0;
  msgpack_unpacked_init(&unpacked);
  MUST(msgpack_unpack_next(&unpacked, value.data, value.size, &offset) == MSGPACK_UNPACK_SUCCESS);
  MUST(offset == value.size);
  must_be_object(value, &unpacked.data);
  msgpack_unpacked_destroy(&unpacked);
}

static tp_text canonical_of(tp_text value, tp_writer *writer) {
  tp_text canonical;
  MUST(tp_value_write_canonical(value, writer, NULL) == TP_OK);
  MUST(tp_writer_finish(writer, &canonical) == TP_OK);
  return canonical;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tp_text value = {(const char *)data, size};
  tp_fault fault = {.code = TP_OK};
  walk_all(value, 0);
  tp_status status = tp_value_check(value, &fault);
  MUST(fault.code == status && (status == TP_OK) == (fault.message[0] == '\0'));
  if (status != TP_OK) return 0;
  must_agree_with_msgpack_c(value);
  tp_writer *first, *second;
  MUST(tp_writer_new(NULL, &first) == TP_OK && tp_writer_new(NULL, &second) == TP_OK);
  tp_text canonical = canonical_of(value, first), again = canonical_of(canonical, second);
  MUST(tp_value_check(canonical, NULL) == TP_OK);
  MUST(same_bytes(canonical, again));
  MUST(tp_value_kind_of(canonical) == tp_value_kind_of(value));
  MUST(tp_value_count(canonical) == tp_value_count(value));
  tp_writer_free(first);
  tp_writer_free(second);
  return 0;
}
