/* SPDX-License-Identifier: Apache-2.0 */
#include "support/text.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "turnphase/value.h"

bool tp__same(tp_text a, tp_text b) {
  assert((a.data || a.size == 0) && (b.data || b.size == 0));
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool tp__is_word(tp_text text, const char *word) { return tp__same(text, (tp_text){word, strlen(word)}); }

bool tp__is_one_of(tp_text text, const char *words) {
  for (size_t size; *words; words += size + strspn(words + size, ", ")) {
    size = strcspn(words, ", ");
    if (tp__same(text, (tp_text){words, size})) return true;
  }
  return false;
}

bool tp__begins(tp_text text, const char *prefix) {
  size_t size = strlen(prefix);
  return text.size >= size && tp__same((tp_text){text.data, size}, (tp_text){prefix, size});
}

bool tp__ends(tp_text text, const char *suffix) {
  size_t size = strlen(suffix);
  if (size == 0) return true;
  return text.size >= size && memcmp(text.data + (text.size - size), suffix, size) == 0;
}

bool tp__contains(tp_text text, const char *string) {
  size_t size = strlen(string);
  if (size == 0) return true;
  for (size_t at = 0; at + size <= text.size; at++)
    if (strncasecmp(text.data + at, string, size) == 0) return true;
  return false;
}

/* ---- ids ---- */

/* The code point at *at, which moves after it. The text is UTF-8. */
static uint32_t next_point(const char **at) {
  const unsigned char *bytes = (const unsigned char *)*at;
  size_t size = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
  uint32_t point = size == 1 ? bytes[0] : bytes[0] & (0xffu >> (size + 1));
  for (size_t i = 1; i < size; i++) point = point << 6 | (bytes[i] & 0x3fu);
  *at += size;
  return point;
}

static bool is_space_or_control(uint32_t point) {
  return point <= 0x20 || (point >= 0x7f && point <= 0xa0) || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) ||
         point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f || point == 0x3000;
}

bool tp__is_id(tp_text text) {
  if (text.size == 0 || text.size > TP_ID_BYTES_MAX || !tp_utf8_valid(text, NULL)) return false;
  for (const char *at = text.data; at < text.data + text.size;)
    if (is_space_or_control(next_point(&at))) return false;
  return true;
}

/* ---- showing ---- */

static bool is_utf8_tail(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

int tp__cut(tp_text text, int max) {
  assert(max >= 0);
  if (text.size <= (size_t)max) return (int)text.size;
  while (max > 0 && is_utf8_tail(text.data[max])) max--;
  return max;
}

static bool is_graphic(char byte) { return byte > 0x20 && byte < 0x7f; }

int tp__cut_word(tp_text text, int max) {
  int end = tp__cut(text, max);
  if ((size_t)end == text.size || !is_graphic(text.data[end])) return end;
  while (end > 0 && is_graphic(text.data[end - 1])) end--;
  return end;
}

size_t tp__copy_cut(char *buffer, size_t size, tp_text text) {
  assert(size > 0);
  size_t end = text.size;
  if (end >= size)
    for (end = size - 1; end > 0 && is_utf8_tail(text.data[end]);) end--;
  if (end > 0) memcpy(buffer, text.data, end);
  buffer[end] = '\0';
  return end;
}

void tp__make_printable(char *string) {
  for (char *at = string; *at; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = *at == '\n' ? ' ' : '?';
  for (size_t bad; !tp_utf8_valid(tp_text_of(string), &bad);) string[bad] = '?';
}

size_t tp__bytes_put_utf8(tp__bytes *bytes, tp_text text) {
  size_t size = tp_utf8_replace(text, NULL, 0);
  if (tp__bytes_reserve(bytes, size)) bytes->size += tp_utf8_replace(text, bytes->data + bytes->size, size);
  return (size - text.size) / 2;
}

void tp__show(char *buffer, size_t size, tp_text text) {
  size_t end = tp__copy_cut(buffer, size, text);
  for (size_t i = 0; i < end; i++)
    if (buffer[i] == '\0') buffer[i] = '?';
  tp__make_printable(buffer);
}

tp__place tp__place_of(tp_text text, size_t offset) {
  assert(offset <= text.size);
  tp__place place = {1, 1};
  while (offset > 0 && offset < text.size && is_utf8_tail(text.data[offset])) offset--;
  for (size_t i = 0; i < offset; i++) {
    if (text.data[i] == '\n') {
      place.line++;
      place.column = 1;
    } else if (!is_utf8_tail(text.data[i])) {
      place.column++;
    }
  }
  return place;
}
