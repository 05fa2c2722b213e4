/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c: values as JSON for prompts. The core has no JSON library, and reads none: this only writes. */
#include "phases/out.h"
#include "turnphase/value.h"

static void put_escape(tp__out *out, unsigned code) {
  static const char hex[] = "0123456789abcdef";
  char escape[6] = {'\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};
  tp__out_text(out, (tp_text){escape, sizeof escape});
}

/* U+2028 and U+2029 are e2 80 a8 and e2 80 a9. */
static bool is_line_end(tp_text text, size_t at) {
  return at + 2 < text.size && memcmp(text.data + at, "\xE2\x80", 2) == 0 &&
         ((unsigned char)text.data[at + 2] & 0xFE) == 0xA8;
}

static size_t put_char(tp__out *out, tp_text text, size_t at) {
  unsigned char c = (unsigned char)text.data[at];
  if (is_line_end(text, at)) {
    put_escape(out, 0x2000u | ((unsigned char)text.data[at + 2] & 0x3Fu));
    return 3;
  }
  if (c == '"' || c == '\\') {
    tp__out_char(out, '\\');
    tp__out_char(out, (char)c);
  } else if (c == '\n') {
    tp__out_string(out, "\\n");
  } else if (c == '\t') {
    tp__out_string(out, "\\t");
  } else if (c < 0x20 || c == 0x7F || c == '<' || c == '>' || c == '&') {
    put_escape(out, c);
  } else {
    tp__out_char(out, (char)c);
  }
  return 1;
}

void tp__json_string(tp__out *out, tp_text text) {
  tp__out_char(out, '"');
  for (size_t at = 0; at < text.size;) at += put_char(out, text, at);
  tp__out_char(out, '"');
}

static void put_base64(tp__out *out, tp_text bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  tp__out_char(out, '"');
  for (size_t at = 0; at < bytes.size; at += 3) {
    size_t left = bytes.size - at;
    uint32_t group = 0;
    for (size_t i = 0; i < 3; i++) group = group << 8 | (i < left ? (unsigned char)bytes.data[at + i] : 0u);
    for (size_t i = 0; i < 4; i++) tp__out_char(out, i <= left ? digits[group >> (18 - 6 * i) & 63] : '=');
  }
  tp__out_char(out, '"');
}

/* Controls are the only bytes that JSON wants escaped, besides the quote and the backslash. */
static void put_plain(tp__out *out, tp_text text) {
  for (size_t at = 0; at < text.size; at++) {
    unsigned char c = (unsigned char)text.data[at];
    if (c < 0x20 || c == '"' || c == '\\') (void)put_char(out, text, at);
    else tp__out_char(out, (char)c);
  }
}

static bool continues_character(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* text_bytes 0: for a prompt, and whole. */
static void put_string(tp__out *out, tp_text text, size_t text_bytes) {
  if (text_bytes == 0) {
    tp__json_string(out, text);
    return;
  }
  tp__out_char(out, '"');
  if (text.size > text_bytes) {
    size_t head = tp__utf8_cut(text, text_bytes - text_bytes / 4), tail = text.size - text_bytes / 4;
    while (tail < text.size && continues_character(text.data[tail])) tail++;
    put_plain(out, (tp_text){text.data, head});
    tp__out_string(out, "\xE2\x80\xA6"); /* … */
    put_plain(out, (tp_text){text.data + tail, text.size - tail});
  } else {
    put_plain(out, text);
  }
  tp__out_char(out, '"');
}

static void put_value(tp__out *out, tp_text value, size_t text_bytes);

static void put_container(tp__out *out, tp_text container, bool map, size_t text_bytes) {
  bool first = true;
  tp__out_char(out, map ? '{' : '[');
  for (tp_value_walk walk = {0}; tp_value_next(container, &walk); first = false) {
    if (!first) tp__out_char(out, ',');
    if (map) {
      put_string(out, walk.key, text_bytes);
      tp__out_char(out, ':');
    }
    put_value(out, walk.value, text_bytes);
  }
  tp__out_char(out, map ? '}' : ']');
}

void tp__json_value(tp__out *out, tp_text value) { put_value(out, value, 0); }

void tp__json_summary(tp__out *out, tp_text value, size_t text_bytes) { put_value(out, value, text_bytes); }

static void put_value(tp__out *out, tp_text value, size_t text_bytes) {
  switch (tp_value_kind_of(value)) {
    case TP_VALUE_BOOL:
      tp__out_string(out, tp_value_bool(value, false) ? "true" : "false");
      break;
    case TP_VALUE_INT:
      tp__out_int(out, tp_value_int(value, 0));
      break;
    case TP_VALUE_DOUBLE:
      tp__out_double(out, tp_value_double(value, 0));
      break;
    case TP_VALUE_TEXT:
      put_string(out, tp_value_text(value), text_bytes);
      break;
    case TP_VALUE_BYTES:
      put_base64(out, tp_value_text(value));
      break;
    case TP_VALUE_ARRAY:
      put_container(out, value, false, text_bytes);
      break;
    case TP_VALUE_MAP:
      put_container(out, value, true, text_bytes);
      break;
    case TP_VALUE_NONE:
    case TP_VALUE_FORCE_32:
    case TP_VALUE_NULL:
      tp__out_string(out, "null");
      break;
  }
}
