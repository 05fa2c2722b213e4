/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: views of text, UTF-8, ids. */
#include "runtime/base/base.h"

tp_text tp_text_of(const char *string) { return (tp_text){string, string ? strlen(string) : 0}; }

tp_text tp__text_put(char **at, tp_text text) {
  tp_text copy = {*at, text.size};
  if (text.size > 0) memcpy(*at, text.data, text.size);
  *at += text.size;
  return copy;
}

bool tp_text_equal(tp_text a, tp_text b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool tp_text_is(tp_text text, const char *string) { return tp_text_equal(text, tp_text_of(string)); }

size_t tp__utf8_cut(tp_text text, size_t max) {
  if (text.size <= max) return text.size;
  size_t cut = max;
  for (int back = 0; back < 3 && cut > 0 && ((unsigned char)text.data[cut] & 0xC0) == 0x80; back++) cut--;
  /* Four continuation bytes in a row are not UTF-8. Then there is no whole code point to keep, and only the limit
   * counts. */
  return ((unsigned char)text.data[cut] & 0xC0) == 0x80 ? max : cut;
}

static bool is_graphic(char byte) { return byte > 0x20 && byte < 0x7f; }

size_t tp__utf8_cut_word(tp_text text, size_t max) {
  size_t cut = tp__utf8_cut(text, max);
  TP__ASSERT(cut <= max && cut <= text.size);
  if (cut == text.size || !is_graphic(text.data[cut])) return cut;
  while (cut > 0 && is_graphic(text.data[cut - 1])) cut--;
  return cut;
}

/* Reads one code point; 0 bytes when it is not well-formed: cut off, overlong, a surrogate, or above U+10FFFF. */
static size_t utf8_read(const unsigned char *bytes, uint32_t *ret_point) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (bytes[0] < 0x80) {
    *ret_point = bytes[0];
    return 1;
  }
  size_t size = bytes[0] >= 0xF0 ? 4 : bytes[0] >= 0xE0 ? 3 : 2;
  if (bytes[0] < 0xC2 || bytes[0] > 0xF4) return 0;
  uint32_t point = bytes[0] & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; i++) {
    if ((bytes[i] & 0xC0) != 0x80) return 0; /* the final NUL too */
    point = point << 6 | (bytes[i] & 0x3Fu);
  }
  if (point < least[size] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return 0;
  *ret_point = point;
  return size;
}

/* White space and control characters as Unicode defines them. An id must not look like two words, or like nothing. */
static bool is_space_or_control(uint32_t point) {
  return point <= 0x20 || (point >= 0x7F && point <= 0xA0) || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool tp__id_valid(const char *id) {
  size_t size = id ? strnlen(id, TP_ID_BYTES_MAX + 1) : 0;
  if (size == 0 || size > TP_ID_BYTES_MAX) return false;
  const unsigned char *bytes = (const unsigned char *)id;
  for (size_t at = 0; at < size;) {
    uint32_t point;
    size_t step = utf8_read(bytes + at, &point);
    if (step == 0 || is_space_or_control(point)) return false;
    at += step;
  }
  return true;
}
