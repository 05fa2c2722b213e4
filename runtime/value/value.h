/* SPDX-License-Identifier: Apache-2.0
 *
 * value: msgpack values behind turnphase/value.h. One function, tp__head_read(), knows the format and decides what is
 * within the bytes; everything else walks from head to head. Reading allocates nothing and never recurses over bytes
 * that were not checked. Writing goes through msgpack-c's packer. JSON is read straight into a writer, and written from
 * the bytes of a value. The module owns nothing but writers, and no lock. */
#ifndef TP__VALUE_H
#define TP__VALUE_H

#include "runtime/base/base.h"
#include "turnphase/value.h"

enum {
  TP__VALUE_DEPTH_MAX = 32,      /* containers inside each other */
  TP__VALUE_BYTES_MAX = 64 << 20 /* so an offset fits in 32 bits */
};

/* ---- heads ---- */

/** What is wrong with the head of a value. */
typedef enum tp__head_flaw {
  TP__HEAD_OK = 0,
  TP__HEAD_CUT,       /* the bytes end within the value, or it declares more than is left of them */
  TP__HEAD_EXTENSION, /* an extension type */
  TP__HEAD_RESERVED,  /* 0xc1, which no value begins with */
  TP__HEAD_RANGE      /* an unsigned integer above INT64_MAX */
} tp__head_flaw;

/** The first bytes of a value, decoded. */
typedef struct tp__head {
  tp_value_kind kind;
  size_t size;     /* of the head itself; a number or bool is all head */
  size_t content;  /* bytes of text or bytes after it */
  size_t children; /* values after it: elements, or keys and values */
  int64_t integer; /* int, or bool as 0 and 1 */
  double real;
} tp__head;

/** tp__head_read() of the bytes 0xc0 to 0xdf. left is how many bytes follow the first one. */
tp__head_flaw tp__head_read_long(const unsigned char *at, size_t left, tp__head *ret_head);

/** Decodes the head at offset. When it succeeds, size and content lie within the bytes and each child has at least one
 *  byte left, whatever the head declares: memory and loops may be sized from it. When it fails, *ret_head is untouched.
 *  Inline for the heads of one byte, which most are: each reader needs but a part of what is decoded. */
static inline tp__head_flaw tp__head_read(tp_text bytes, size_t offset, tp__head *ret_head) {
  if (offset >= bytes.size) return TP__HEAD_CUT;
  const unsigned char *at = (const unsigned char *)bytes.data + offset;
  size_t left = bytes.size - offset - 1;
  unsigned char first = at[0];
  if (first >= 0xc0 && first <= 0xdf) return tp__head_read_long(at, left, ret_head);
  tp__head head = {.kind = TP_VALUE_INT, .size = 1};
  if (first >= 0xe0) {
    head.integer = first - 0x100;
  } else if (first <= 0x7f) {
    head.integer = first;
  } else if (first >= 0xa0) {
    head.kind = TP_VALUE_TEXT;
    head.content = first & 0x1f;
  } else if (first >= 0x90) {
    head.kind = TP_VALUE_ARRAY;
    head.children = first & 0x0f;
  } else {
    head.kind = TP_VALUE_MAP;
    head.children = 2 * (first & 0x0f);
  }
  if (head.content + head.children > left) return TP__HEAD_CUT;
  *ret_head = head;
  return TP__HEAD_OK;
}

/** The size of the value at offset with all that is in it, found without recursion; 0 when it is broken. */
size_t tp__value_size(tp_text bytes, size_t offset);

/** The value of a hexadecimal digit; -1: it is none. */
int tp__hex_digit(char digit);

/* ---- checking ---- */

/** tp_value_check() with the memory for the keys of large maps taken from allocator. */
tp_status tp__value_check(tp_text value, const tp_allocator *allocator, tp_fault *fault);

/* ---- keys of maps that are being looked at ---- */

/** A stack of offsets of keys: the ones of an inner map lie above those of the outer. Do not move it: it may point into
 *  itself. Four bytes a key, and none allocated for the first few. */
typedef struct tp__keys {
  const tp_allocator *allocator;
  tp_text bytes; /* what the offsets point into: checked keys */
  uint32_t *offsets;
  size_t count, capacity;
  uint32_t first[64];
} tp__keys;

/** Below, at or above 0: bytewise, the shorter first when one begins the other. */
int tp__key_compare(tp_text left, tp_text right);
void tp__keys_init(tp__keys *keys, tp_text bytes, const tp_allocator *allocator);
void tp__keys_fini(tp__keys *keys);
tp_status tp__keys_push(tp__keys *keys, size_t offset);
/** Whether each key above index from is greater than the one before it, bytewise, as in canonical maps: they are
 *  sorted, and none is repeated. */
bool tp__keys_ascend(const tp__keys *keys, size_t from);
/** Sorts the keys above index from bytewise, in place: n log n at worst. */
void tp__keys_sort(tp__keys *keys, size_t from);
/** After tp__keys_sort(): true when two are equal, with the offset of the later one. */
bool tp__keys_repeated(const tp__keys *keys, size_t from, size_t *ret_offset);

/* ---- writers ---- */

enum { TP__WRITER_BYTES_FIRST = 256 };

/** Do not move it: it may point into itself. Nothing is allocated for a short value. */
struct tp_writer {
  tp_allocator allocator;
  char *bytes;
  size_t size, capacity;
  size_t missing;   /* values that must still come before there is exactly one; 1 at the start */
  tp_status status; /* the first error; nothing is written after it */
  char *json;       /* text of the last tp_json_encode(); NULL: none */
  size_t json_capacity;
  char first[TP__WRITER_BYTES_FIRST];
};

/** Of a writer in the caller's own memory; tp_writer_new() for one on the heap. allocator is copied. */
void tp__value_writer_init(tp_writer *writer, const tp_allocator *allocator);
/** Frees what the value needed beyond the writer. */
void tp__value_writer_fini(tp_writer *writer);
/** The first error stays and nothing is written after it. TP_OK: none so far. */
void tp__writer_stick(tp_writer *writer, tp_status status);
tp_status tp__writer_status(const tp_writer *writer);
/** The allocator that it was made with; lives as long as the writer. */
const tp_allocator *tp__writer_allocator(const tp_writer *writer);
/** Begins a text of the size, whose bytes the caller writes. NULL when the writer has failed. */
char *tp__writer_text(tp_writer *writer, size_t size);
/** Takes back what was written since the writer, which has not failed, had this size and as many missing values. */
void tp__writer_return(tp_writer *writer, size_t size, size_t missing);

/* ---- JSON ---- */

/** Where JSON goes: put gets each piece, which is never empty. */
typedef struct tp__json_out {
  void (*put)(void *ctx, const char *text, size_t size);
  void *ctx;
  bool without_tags; /* `<`, `>` and `&` become escapes, too: no content can form a tag */
  size_t text_bytes; /* of a longer text the head and the tail are left, with an ellipsis between them; 0: all of it */
} tp__json_out;

/** A text as a JSON string: controls (C0, U+007F to U+009F), the line ends of Unicode, U+FEFF, U+FFFE and U+FFFF become
 *  escapes, so that the string is one line for every reader, harmless on a terminal, and a double-quoted scalar of
 *  YAML. */
void tp__json_put_string(const tp__json_out *out, tp_text text);
/** As tp_json_encode(), of a value that need not be checked: what is broken becomes null. */
void tp__json_put_value(const tp__json_out *out, tp_text value);

#endif
