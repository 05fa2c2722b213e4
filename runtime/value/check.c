/* SPDX-License-Identifier: Apache-2.0
 *
 * check.c: checks bytes from outside in one pass. A declared size never leads to an allocation: only keys that were
 * read are remembered, four bytes each, and most maps are so small that their keys need no allocation. */
#include "runtime/value/value.h"

/* A container that is not at its end. */
struct frame {
  size_t left;      /* items that must still come; in a map, an even number means that the next item is a key */
  size_t keys_from; /* where the keys of this map begin */
  tp_text key;      /* the last one of this map */
  bool map;
  bool is_sorted; /* each key so far is greater than the key before it, so none is repeated */
};

struct check {
  tp_text value;
  size_t at;
  struct frame *top;                            /* the innermost */
  struct frame frames[1 + TP__VALUE_DEPTH_MAX]; /* the only item of the first frame is the value itself */
  tp__keys keys;
  tp_fault *fault;
};

static tp_status refuse_value(struct check *check, size_t offset, tp_status code, const char *what) {
  return tp__fail(check->fault, code, NULL, "not a valid msgpack value: %s at byte %zu of %zu", what, offset,
                  check->value.size);
}

static tp_status check_utf8(struct check *check, const tp__head *head) {
  size_t begin = check->at + head->size, bad;
  if (tp_utf8_valid((tp_text){check->value.data + begin, head->content}, &bad)) return TP_OK;
  return refuse_value(check, begin + bad, TP_ERR_UTF8, "a text is not UTF-8");
}

static tp_status check_key(struct check *check, const tp__head *head) {
  if (head->kind != TP_VALUE_TEXT)
    return refuse_value(check, check->at, TP_ERR_MALFORMED, "a key of a map is not text");
  struct frame *map = check->top;
  tp_text key = {check->value.data + check->at + head->size, head->content};
  map->is_sorted = map->is_sorted && (!map->key.data || tp__key_compare(map->key, key) < 0);
  map->key = key;
  if (tp__keys_push(&check->keys, check->at) == TP_OK) return TP_OK;
  return tp__fail(check->fault, TP_ERR_NO_MEMORY, NULL, "no memory to compare the keys of a map");
}

static tp_status open_container(struct check *check, const tp__head *head) {
  if (check->top == check->frames + TP__VALUE_DEPTH_MAX) {
    return refuse_value(check, check->at, TP_ERR_TOO_DEEP, "more than 32 containers are inside each other");
  }
  *++check->top = (struct frame){
      .left = head->children, .keys_from = check->keys.count, .map = head->kind == TP_VALUE_MAP, .is_sorted = true};
  return TP_OK;
}

static tp_status refuse_repeated(struct check *check, size_t keys_from) {
  size_t again;
  tp__keys_sort(&check->keys, keys_from);
  if (!tp__keys_repeated(&check->keys, keys_from, &again)) return TP_OK;
  return refuse_value(check, again, TP_ERR_MALFORMED, "a key of a map is repeated");
}

static tp_status check_item(struct check *check) {
  struct frame *top = check->top;
  tp__head head = {0};
  tp__head_flaw flaw = tp__head_read(check->value, check->at, &head);
  if (flaw != TP__HEAD_OK) {
    static const char *const texts[] = {
        [TP__HEAD_CUT] = "more is declared than there are bytes",
        [TP__HEAD_EXTENSION] = "extension types are not supported: one begins",
        [TP__HEAD_RESERVED] = "the byte 0xc1 begins no value: it stands",
        [TP__HEAD_RANGE] = "an integer above 9223372036854775807 is out of range: it begins",
    };
    return refuse_value(check, check->at, TP_ERR_MALFORMED, texts[flaw]);
  }
  if (top->map && top->left % 2 == 0) TP__TRY(check_key(check, &head));
  top->left--;
  if (head.kind == TP_VALUE_TEXT) TP__TRY(check_utf8(check, &head));
  if (head.kind == TP_VALUE_ARRAY || head.kind == TP_VALUE_MAP) TP__TRY(open_container(check, &head));
  check->at += head.size + head.content;
  for (; check->top->left == 0 && check->top > check->frames; check->top--) {
    size_t keys_from = check->top->keys_from;
    if (!check->top->map) continue;
    if (!check->top->is_sorted) TP__TRY(refuse_repeated(check, keys_from));
    check->keys.count = keys_from;
  }
  return TP_OK;
}

static tp_status check_all(struct check *check) {
  do {
    TP__TRY(check_item(check));
  } while (check->top->left > 0);
  if (check->at == check->value.size) return TP_OK;
  return refuse_value(check, check->at, TP_ERR_MALFORMED, "the value ends, but bytes follow");
}

tp_status tp__value_check(tp_text value, const tp_allocator *allocator, tp_fault *fault) {
  if (value.size == 0) return tp__fail(fault, TP_ERR_MALFORMED, NULL, "not a valid msgpack value: there are no bytes");
  if (value.size > TP__VALUE_BYTES_MAX) {
    return tp__fail(fault, TP_ERR_TOO_LARGE, NULL, "a value of %zu bytes is above the limit of %d", value.size,
                    TP__VALUE_BYTES_MAX);
  }
  struct check check; /* frames and keys, two kilobytes; not cleared, because they are written before they are read */
  check.value = value;
  check.at = 0;
  check.top = check.frames;
  *check.top = (struct frame){.left = 1};
  check.fault = fault;
  tp__keys_init(&check.keys, value, allocator);
  tp_status status = check_all(&check);
  tp__keys_fini(&check.keys);
  return status;
}

tp_status tp_value_check(tp_text value, tp_fault *fault) {
  tp_allocator allocator = tp__allocator_of(NULL);
  return tp__value_check(value, &allocator, fault);
}
