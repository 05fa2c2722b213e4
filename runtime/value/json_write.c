/* SPDX-License-Identifier: Apache-2.0
 *
 * json_write.c: writes a value as JSON. Only this file writes JSON strings. A character that a terminal, YAML or a
 * line-wise reader treats as special is always escaped; a character that could form a tag is escaped on request. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/value/value.h"

static void put_bytes(const tp__json_out *out, const char *text, size_t size) {
  if (size > 0) out->put(out->ctx, text, size);
}

static void put_literal(const tp__json_out *out, const char *string) { put_bytes(out, string, strlen(string)); }

/* ---- strings ---- */

enum { PLAIN = 0, ALWAYS, OF_TAGS, LEAD };

/* The class of a byte from 0x20 on. A lead byte begins characters of which some are escaped. */
static int class_of(unsigned char byte) {
  if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) return ALWAYS;
  if (byte == '<' || byte == '>' || byte == '&') return OF_TAGS;
  return byte == 0xc2 || byte == 0xe2 || byte == 0xef ? LEAD : PLAIN;
}

/* The size of the character at offset when it is U+0080 to U+009F, U+2028, U+2029, U+FEFF, U+FFFE or U+FFFF; else 0. */
static size_t wide_escape(tp_text text, size_t at, uint32_t *ret_point) {
  const unsigned char *bytes = (const unsigned char *)text.data + at;
  size_t left = text.size - at;
  if (left >= 2 && bytes[0] == 0xc2 && bytes[1] >= 0x80 && bytes[1] < 0xa0) {
    *ret_point = bytes[1];
    return 2;
  }
  if (left < 3) return 0;
  uint32_t point = (bytes[0] & 0x0fu) << 12 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu);
  *ret_point = point;
  return point == 0x2028 || point == 0x2029 || point == 0xfeff || point >= 0xfffe ? 3 : 0;
}

/* The size of the character at the offset when it is written as an escape; 0 when it is written as it is. */
static size_t escaped_size(const tp__json_out *out, tp_text text, size_t at, uint32_t *ret_point) {
  int class = class_of((unsigned char)text.data[at]);
  *ret_point = (unsigned char)text.data[at];
  if (class == LEAD) return wide_escape(text, at, ret_point);
  return class == ALWAYS || (class == OF_TAGS && out->without_tags);
}

static void put_escaped(const tp__json_out *out, tp_text text) {
  size_t from = 0;
  for (size_t at = 0; at < text.size;) {
    uint32_t point;
    size_t size = escaped_size(out, text, at, &point);
    if (size > 0) {
      put_bytes(out, text.data + from, at - from);
      static const char points[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
      static const char hex[] = "0123456789abcdef";
      const char *found = point > 0 && point < 0x80 ? strchr(points, (int)point) : NULL;
      char escape[6] = {'\\', 'u', hex[point >> 12 & 15], hex[point >> 8 & 15], hex[point >> 4 & 15], hex[point & 15]};
      if (found) escape[1] = letters[found - points];
      put_bytes(out, escape, found ? 2 : sizeof escape);
      from = at + size;
    }
    at += size > 0 ? size : 1;
  }
  if (from < text.size) put_bytes(out, text.data + from, text.size - from);
}

static bool is_utf8_tail(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

void tp__json_put_string(const tp__json_out *out, tp_text text) {
  put_bytes(out, "\"", 1);
  if (out->text_bytes > 0 && text.size > out->text_bytes) {
    size_t tail = text.size - out->text_bytes / 4;
    while (tail < text.size && is_utf8_tail(text.data[tail])) tail++;
    put_escaped(out, (tp_text){text.data, tp__utf8_cut(text, out->text_bytes - out->text_bytes / 4)});
    put_literal(out, "\xE2\x80\xA6");
    put_escaped(out, (tp_text){text.data + tail, text.size - tail});
  } else {
    put_escaped(out, text);
  }
  put_bytes(out, "\"", 1);
}

static void put_base64(const tp__json_out *out, tp_text bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char text[256];
  size_t size = 0;
  put_bytes(out, "\"", 1);
  for (size_t at = 0; at < bytes.size; at += 3) {
    size_t left = bytes.size - at;
    uint32_t group = 0;
    for (size_t i = 0; i < 3; i++) group = group << 8 | (i < left ? (unsigned char)bytes.data[at + i] : 0u);
    for (size_t i = 0; i < 4; i++) text[size++] = i <= left ? digits[group >> (18 - 6 * i) & 63] : '=';
    if (size < sizeof text) continue;
    put_bytes(out, text, size);
    size = 0;
  }
  put_bytes(out, text, size);
  put_bytes(out, "\"", 1);
}

/* ---- numbers ---- */

static void put_int(const tp__json_out *out, int64_t number) {
  char digits[24];
  put_bytes(out, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
}

/* Replaces the locale's decimal point, which may have several bytes, by a point, and adds ".0" to a whole number, so
 * that it stays a float. */
static size_t in_c_locale(const char *printed, char *ret_text) {
  size_t size = 0;
  bool is_float = false;
  for (const char *at = printed; *at; at++) {
    if (strchr("0123456789+-", *at)) {
      ret_text[size++] = *at;
    } else if (*at == 'e') {
      is_float = true;
      ret_text[size++] = 'e';
    } else if (!is_float) {
      is_float = true;
      ret_text[size++] = '.';
    }
  }
  assert(size > 0);
  if (is_float) return size;
  memcpy(ret_text + size, ".0", 2);
  return size + 2;
}

/* Writes the shortest of 15 to 17 digits that reads back as the same number. Whole numbers need no search. */
static void put_double(const tp__json_out *out, double real) {
  char printed[40], text[44];
  if (!isfinite(real)) {
    put_bytes(out, "null", 4);
  } else if (real != 0 && fabs(real) < 1e15 && real == (double)(int64_t)real) {
    put_bytes(out, text, (size_t)snprintf(text, sizeof text, "%lld.0", (long long)real));
  } else {
    for (int digits = 15; digits <= 17; digits++) {
      snprintf(printed, sizeof printed, "%.*g", digits, real);
      if (strtod(printed, NULL) == real) break;
    }
    put_bytes(out, text, in_c_locale(printed, text));
  }
}

/* ---- values ---- */

static void put_container(const tp__json_out *out, tp_text value, bool is_map) {
  const char *comma = "";
  put_bytes(out, is_map ? "{" : "[", 1);
  for (tp_value_walk walk = {0}; tp_value_next(value, &walk); comma = ",") {
    put_literal(out, comma);
    if (is_map) {
      tp__json_put_string(out, walk.key);
      put_bytes(out, ":", 1);
    }
    tp__json_put_value(out, walk.value);
  }
  put_bytes(out, is_map ? "}" : "]", 1);
}

void tp__json_put_value(const tp__json_out *out, tp_text value) {
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_NONE:
    case TP_VALUE_FORCE_32:
    case TP_VALUE_NULL:
      put_literal(out, "null");
      break;
    case TP_VALUE_BOOL:
      put_literal(out, tp_value_bool(value, false) ? "true" : "false");
      break;
    case TP_VALUE_INT:
      put_int(out, tp_value_int(value, 0));
      break;
    case TP_VALUE_DOUBLE:
      put_double(out, tp_value_double(value, 0));
      break;
    case TP_VALUE_TEXT:
      tp__json_put_string(out, tp_value_text(value));
      break;
    case TP_VALUE_BYTES:
      put_base64(out, tp_value_text(value));
      break;
    case TP_VALUE_ARRAY:
      put_container(out, value, false);
      break;
    case TP_VALUE_MAP:
      put_container(out, value, true);
      break;
  }
}

/* The text of a writer while it grows. There is always space for a NUL at the end. */
struct growing {
  tp_writer *writer;
  size_t size;
  bool failed;
};

static void append_json(void *ctx, const char *text, size_t size) {
  struct growing *growing = ctx;
  tp_writer *writer = growing->writer;
  assert(size > 0 && (growing->size < writer->json_capacity || growing->size == 0));
  size_t need = growing->size + size + 1;
  void *array = writer->json;
  if (growing->failed) return;
  if (need > writer->json_capacity) {
    growing->failed = tp__array_grow(&writer->allocator, &array, &writer->json_capacity, need, 1) != TP_OK;
    if (growing->failed) return;
    writer->json = array;
  }
  memcpy(writer->json + growing->size, text, size);
  growing->size += size;
}

tp_status tp_json_encode(tp_text value, tp_writer *writer, tp_text *ret_json, tp_fault *fault) {
  TP__TRY(tp__value_check(value, &writer->allocator, fault));
  struct growing growing = {.writer = writer};
  const tp__json_out out = {.put = append_json, .ctx = &growing};
  tp__json_put_value(&out, value);
  assert(growing.failed || growing.size < writer->json_capacity);
  if (growing.failed) return tp__fail(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the JSON of a value");
  writer->json[growing.size] = '\0';
  *ret_json = (tp_text){writer->json, growing.size};
  return TP_OK;
}
