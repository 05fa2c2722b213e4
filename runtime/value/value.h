/* SPDX-License-Identifier: Apache-2.0
 *
 * value: msgpack values, the implementation of turnphase/value.h. One function, tp__head_read(), knows the format and
 * decides whether a value lies within the bytes. All other code walks from head to head. Reading allocates nothing, and
 * never recurses over unchecked bytes. Writing goes through msgpack-c's packer. JSON is read directly into a writer,
 * and written from the bytes of a value. The module owns only writers, and has no lock. */
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
  TP__HEAD_CUT,       /* the bytes end within the value, or it declares more bytes than are left */
  TP__HEAD_EXTENSION, /* an extension type */
  TP__HEAD_RESERVED,  /* 0xc1, which no value begins with */
  TP__HEAD_RANGE      /* an unsigned integer above INT64_MAX */
} tp__head_flaw;

/** The first bytes of a value, decoded. */
typedef struct tp__head {
  tp_value_kind kind;
  size_t size;     /* of the head itself; a number or bool consists only of its head */
  size_t content;  /* bytes of text or bytes after it */
  size_t children; /* values that follow as its parts: elements, or keys and values */
  int64_t integer; /* int, or bool as 0 and 1 */
  double real;
} tp__head;

/** tp__head_read() for the bytes 0xc0 to 0xdf. `left` is the number of bytes that follow the first one. */
tp__head_flaw tp__head_read_long(const unsigned char *at, size_t left, tp__head *ret_head);

/** Decodes the head at the offset. When it succeeds, size and content lie within the bytes, and each child has at least
 *  one byte left, whatever the head declares. So memory and loops may be sized from it. When it fails, *ret_head is
 *  untouched. Inline for heads of one byte, which most heads are: then the compiler decodes only the parts that the
 *  caller uses. */
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

/** The size of the value at the offset with all its parts, found without recursion; 0 when it is broken. */
size_t tp__value_size(tp_text bytes, size_t offset);

/** The value of a hexadecimal digit; -1: the character is no digit. */
int tp__hex_digit(char digit);

/* ---- checking ---- */

/** tp_value_check(), with memory from the allocator for the keys of large maps. */
tp_status tp__value_check(tp_text value, const tp_allocator *allocator, tp_fault *fault);

/* ---- keys of maps that are being checked ---- */

/** A stack of offsets of keys: the keys of an inner map lie above those of the outer map. Do not move it: it may point
 *  into itself. A key takes four bytes, and the first few need no allocation. */
typedef struct tp__keys {
  const tp_allocator *allocator;
  tp_text bytes; /* what the offsets point into: checked keys */
  uint32_t *offsets;
  size_t count, capacity;
  uint32_t first[64];
} tp__keys;

/** Less than, equal to or greater than 0: bytewise; when one key begins the other, the shorter one is less. */
int tp__key_compare(tp_text left, tp_text right);
void tp__keys_init(tp__keys *keys, tp_text bytes, const tp_allocator *allocator);
void tp__keys_fini(tp__keys *keys);
tp_status tp__keys_push(tp__keys *keys, size_t offset);
/** Whether each key above the index `from` is greater than the key before it, bytewise, as in canonical maps. Then the
 *  keys are sorted, and none is repeated. */
bool tp__keys_ascend(const tp__keys *keys, size_t from);
/** Sorts the keys above the index `from` bytewise, in place, in at most n log n steps. */
void tp__keys_sort(tp__keys *keys, size_t from);
/** After tp__keys_sort(): true when two keys are equal; gives the offset of the later one. */
bool tp__keys_repeated(const tp__keys *keys, size_t from, size_t *ret_offset);

/* ---- writers ---- */

enum { TP__WRITER_BYTES_FIRST = 256 };

/** Do not move it: it may point into itself. Nothing is allocated for a short value. */
struct tp_writer {
  tp_allocator allocator;
  char *bytes;
  size_t size, capacity;
  size_t missing;   /* values that must still be written until there is exactly one; 1 at the start */
  tp_status status; /* the first error; nothing is written after it */
  char *json;       /* text of the last tp_json_encode(); NULL: none */
  size_t json_capacity;
  char first[TP__WRITER_BYTES_FIRST];
};

/** Makes a writer in the caller's own memory; tp_writer_new() makes one on the heap. allocator is copied. */
void tp__value_writer_init(tp_writer *writer, const tp_allocator *allocator);
/** Frees the memory that the value needed beyond the writer itself. */
void tp__value_writer_fini(tp_writer *writer);
/** Keeps the first error; nothing is written after it. TP_OK: there is none so far. */
void tp__writer_stick(tp_writer *writer, tp_status status);
tp_status tp__writer_status(const tp_writer *writer);
/** The allocator with which the writer was made; lives as long as the writer. */
const tp_allocator *tp__writer_allocator(const tp_writer *writer);
/** Begins a text of this size; the caller writes its bytes. NULL when the writer has failed. */
char *tp__writer_text(tp_writer *writer, size_t size);
/** Takes back everything that was written since the writer had this size and this many missing values. The writer has
 *  not failed. */
void tp__writer_return(tp_writer *writer, size_t size, size_t missing);

/* ---- JSON ---- */

/** The target of JSON: put gets each piece, which is never empty. */
typedef struct tp__json_out {
  void (*put)(void *ctx, const char *text, size_t size);
  void *ctx;
  bool without_tags; /* `<`, `>` and `&` become escapes, too: no content can form a tag */
  /* a longer text is shortened to its head and tail, with an ellipsis between them; 0: no text is shortened */
  size_t text_bytes;
} tp__json_out;

/** Writes a text as a JSON string. Control characters (C0, U+007F to U+009F), Unicode's line ends, U+FEFF, U+FFFE and
 *  U+FFFF become escapes. So the string is one line for every reader, harmless on a terminal, and a double-quoted
 *  scalar of YAML. */
void tp__json_put_string(const tp__json_out *out, tp_text text);
/** As tp_json_encode(), for a value that need not be checked: broken parts become null. */
void tp__json_put_value(const tp__json_out *out, tp_text value);

#endif
