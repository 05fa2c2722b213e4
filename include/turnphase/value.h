/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h: structured data. A value is one msgpack value, held as its bytes in a tp_text; a value inside a value is a
 * slice of the same bytes, so reading allocates nothing. Readers accept any bytes and never read past them: what is
 * not there or not of the asked kind reads as TP_VALUE_NONE, empty or 0. Check bytes from outside once with
 * tp_value_check(), or make a value from JSON with tp_json_decode(). Limits: 32 containers inside each other, 64 MiB.
 * Source of the format: the msgpack specification; extension types are refused, and so are unsigned integers above
 * INT64_MAX, which an int64_t cannot hold.
 * Threads: any; a writer is used by one thread at a time. */
#ifndef TURNPHASE_VALUE_H
#define TURNPHASE_VALUE_H

#include "turnphase/base.h"

TP_BEGIN_DECLS

/** What a value is. */
typedef enum tp_value_kind {
  TP_VALUE_NONE = 0, /* no value, or broken bytes */
  TP_VALUE_NULL = 1,
  TP_VALUE_BOOL = 2,
  TP_VALUE_INT = 3,
  TP_VALUE_DOUBLE = 4,
  TP_VALUE_TEXT = 5,
  TP_VALUE_BYTES = 6,
  TP_VALUE_ARRAY = 7,
  TP_VALUE_MAP = 8,
  TP_VALUE_FORCE_32 = 0x7fffffff
} tp_value_kind;

/** Accepts exactly one value with nothing after it: every declared size is within the bytes, depth at most 32, text is
 *  UTF-8, map keys are text and unique, no extension types, no integer above INT64_MAX.
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE with the byte offset in the message;
 *          TP_ERR_NO_MEMORY.
 *  Time is linear in the size, but for maps (n log n). Memory is constant until maps inside each other have more than
 *  64 keys; then four bytes a key are allocated by malloc, and freed. No allocation is sized by a declared length.
 *  Threads: any. */
TP_API tp_status tp_value_check(tp_text value, tp_fault *fault) TP_MUST_USE;

/** Returns the kind of a value. It reads only the first bytes, so it costs the same for every value. Threads: any. */
TP_API tp_value_kind tp_value_kind_of(tp_text value);
/** The number of elements (array) or pairs (map), else 0. Threads: any. */
TP_API size_t tp_value_count(tp_text value);
/** tp_value_at() gives the element at index of an array, or the value of pair index of a map; tp_value_key_at() the
 *  content of the key of pair index of a map. Both walk from the beginning: use tp_value_next() to see all elements.
 *  Threads: any. */
TP_API tp_text tp_value_at(tp_text value, size_t index);
TP_API tp_text tp_value_key_at(tp_text value, size_t index);
/** The value under a key of a map; an empty text when there is none. Threads: any. */
TP_API tp_text tp_value_get(tp_text value, const char *key);
/** The content, or empty / fallback when the value is of another kind. tp_value_text() reads text and bytes;
 *  tp_value_double() reads an int, too. Threads: any. */
TP_API tp_text tp_value_text(tp_text value);
TP_API int64_t tp_value_int(tp_text value, int64_t fallback);
TP_API double tp_value_double(tp_text value, double fallback);
TP_API bool tp_value_bool(tp_text value, bool fallback);

/** Reads the value under a key of a map, when it is of the asked kind: for arguments and other data from outside. An
 *  int is also a double. A null counts as a missing key. The result is untouched on failure.
 *  @param fault  names the key and the kind that it has: "city must be text, not a map".
 *  @return TP_OK; TP_ERR_NOT_FOUND when the map has no such key, or is no map; TP_ERR_MALFORMED for another kind.
 *  Threads: any. */
TP_API tp_status tp_value_get_text(tp_text map, const char *key, tp_text *ret_text, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_value_get_int(tp_text map, const char *key, int64_t *ret_int, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_value_get_double(tp_text map, const char *key, double *ret_double, tp_fault *fault) TP_MUST_USE;
TP_API tp_status tp_value_get_bool(tp_text map, const char *key, bool *ret_bool, tp_fault *fault) TP_MUST_USE;

/** Walks the elements or pairs in order. A step costs the size of the element stepped over, so a whole walk is linear.
 *  Start with a zero-filled walk. Frozen: it never grows. */
typedef struct tp_value_walk {
  tp_text key;      /* the content of the current pair's key; empty in arrays */
  tp_text value;    /* the current element: itself a value */
  size_t offset;    /* internal */
  size_t left;      /* internal */
  uint32_t started; /* internal */
  uint32_t reserved_;
  uint64_t reserved_word_;
} tp_value_walk;
TP_STATIC_ASSERT(sizeof(tp_value_walk) == 2 * sizeof(tp_text) + 2 * sizeof(size_t) + 16, "tp_value_walk is frozen");
/** Takes the next step of a walk.
 *  @return true with walk->key and walk->value set; false at the end, and where the bytes are broken.
 *  Threads: any. */
TP_API bool tp_value_next(tp_text container, tp_value_walk *walk);

/** Writes a value into memory of its own. */
typedef struct tp_writer tp_writer;
/** Makes a writer.
 *  @param allocator  NULL means malloc. Kept till tp_writer_free(); its ctx must live so long.
 *  Threads: any. */
TP_API tp_status tp_writer_new(const tp_allocator *allocator, tp_writer **ret_writer) TP_MUST_USE;
/** Frees a writer and what it has written. Accepts NULL. Threads: any. */
TP_API void tp_writer_free(tp_writer *writer);
/** Each function adds one item. After tp_write_map(w, n) write n pairs of a key (tp_write_string) and a value; after
 *  tp_write_array(w, n) write n values. The writer stores the first error (no memory, more than 64 MiB, more than one
 *  value) and ignores all further items, so one check by tp_writer_finish() is enough. Ints, lengths and counts get
 *  their shortest form. The writer does not check that text is UTF-8, that keys are text and unique, and the depth:
 *  tp_value_check() does. Threads: one at a time for each writer. */
TP_API void tp_write_null(tp_writer *writer);
TP_API void tp_write_bool(tp_writer *writer, bool value);
TP_API void tp_write_int(tp_writer *writer, int64_t value);
TP_API void tp_write_double(tp_writer *writer, double value);
TP_API void tp_write_text(tp_writer *writer, tp_text text);
TP_API void tp_write_string(tp_writer *writer, const char *string);
TP_API void tp_write_bytes(tp_writer *writer, tp_text bytes);
TP_API void tp_write_array(tp_writer *writer, size_t count);
TP_API void tp_write_map(tp_writer *writer, size_t count);
/** Copies a value unchanged. Bytes that are not exactly one value are stored as the error TP_ERR_MALFORMED.
 *  @param value  not from this writer's own memory.
 *  Threads: one at a time for each writer. */
TP_API void tp_write_value(tp_writer *writer, tp_text value);
/** Ends the value.
 *  @param ret_value  borrowed till the next write, reset or free.
 *  @return TP_OK, or the first error; TP_ERR_MALFORMED when what was written is not exactly one value.
 *  Threads: one at a time for each writer. */
TP_API tp_status tp_writer_finish(tp_writer *writer, tp_text *ret_value) TP_MUST_USE;
/** Clears the value and the error; the memory stays allocated. Threads: one at a time for each writer. */
TP_API void tp_writer_reset(tp_writer *writer);

/** Writes the canonical form of a value: map keys sorted bytewise, every int, length and count in its shortest form,
 *  every float as float 64, every NaN as the same one. Two values with the same content have the same canonical bytes.
 *  The int 1 and the float 1.0 differ, and so do 0.0 and -0.0.
 *  @param value   checked first, as by tp_value_check(); not from the writer's own memory.
 *  @param writer  gets one value. Untouched when the value is refused; it stores TP_ERR_NO_MEMORY and the error of its
 *  own limit. Threads: one at a time for each writer. */
TP_API tp_status tp_value_write_canonical(tp_text value, tp_writer *writer, tp_fault *fault) TP_MUST_USE;

/* ---- JSON ---- */

/** Decodes one JSON text (RFC 8259) into a value. Refused with line and column (in code points) of the first character
 *  that cannot be taken: bad UTF-8, a byte-order mark, escapes of lone surrogates, trailing text; and of the beginning
 *  of a repeated key and of a number out of range (integers outside int64, floats outside double). Also refused: depth
 *  over 32, more than 1,048,576 commas and opening brackets, and more than 64 MiB. Numbers without point and exponent
 *  become ints, all others floats, each the nearest double in every locale.
 *  @param writer  gets the value, keys in the order of the text; it may be the element of a container that was begun.
 *                 Untouched when the JSON is refused. It stores TP_ERR_NO_MEMORY and the error of its own limit, as
 *                 with every tp_write_… function; they are also returned.
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_UTF8, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE, TP_ERR_NO_MEMORY.
 *  Threads: one at a time for each writer. */
TP_API tp_status tp_json_decode(tp_text json, tp_writer *writer, tp_fault *fault) TP_MUST_USE;
/** Writes a value as compact JSON on one line, map order kept. Bytes become base64 text (RFC 4648); NaN and infinities
 *  become null; every other float reads back as the same float. Control characters, the line ends of Unicode, U+FEFF,
 *  U+FFFE and U+FFFF become escapes, so the text is also YAML, and harmless on a terminal.
 *  @param value     checked first, as by tp_value_check(), whose errors are returned. It may be the writer's own.
 *  @param writer    its memory holds the text; its own value is unchanged.
 *  @param ret_json  with a NUL after it, which the size does not count; borrowed until the next tp_json_encode() with
 *                   this writer or its end.
 *  Threads: one at a time for each writer. */
TP_API tp_status tp_json_encode(tp_text value, tp_writer *writer, tp_text *ret_json, tp_fault *fault) TP_MUST_USE;

/** True when the bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF).
 *  @param ret_offset  where it first is not; may be NULL.
 *  Threads: any. */
TP_API bool tp_utf8_valid(tp_text text, size_t *ret_offset);
/** Copies a text with U+FFFD in place of each byte that belongs to no well-formed code point: what a program printed
 *  stays readable, and nothing of it is lost. A NUL is a code point, and stays.
 *  @param buffer       gets as many whole code points as fit, without a NUL; may be NULL.
 *  @param buffer_size  of buffer; 0 with NULL.
 *  @return the size of the whole copy: 2 bytes more than text for each byte that was replaced.
 *  Threads: any. */
TP_API size_t tp_utf8_replace(tp_text text, char *buffer, size_t buffer_size);

TP_END_DECLS
#endif
