/* SPDX-License-Identifier: Apache-2.0
 *
 * utf8.c: whether a text is UTF-8, and if not, which bytes are wrong. */
#include "runtime/value/value.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)

static uint64_t load_word(const unsigned char *bytes, size_t size) {
  uint64_t word = 0;
  memcpy(&word, bytes, size);
  return word;
}

/* Whether all bytes are ASCII, as in most texts. Reads words of eight bytes; the last word may overlap the one before.
 * @param ret_before  when the result is false: at least this many bytes at the start are ASCII. */
static bool is_ascii(const unsigned char *bytes, size_t size, size_t *ret_before) {
  size_t at = 0;
  *ret_before = 0;
  if (size < 4) {
    while (at < size && bytes[at] < 0x80) at++;
    return at == size;
  }
  if (size < 8) return !((load_word(bytes, 4) | load_word(bytes + size - 4, 4)) & HIGH_BITS);
  for (; at + 32 <= size; *ret_before = at += 32) {
    uint64_t bits = load_word(bytes + at, 8) | load_word(bytes + at + 8, 8) | load_word(bytes + at + 16, 8) |
                    load_word(bytes + at + 24, 8);
    if (bits & HIGH_BITS) return false;
  }
  for (; at + 8 <= size; at += 8)
    if (load_word(bytes + at, 8) & HIGH_BITS) return false;
  return !(load_word(bytes + size - 8, 8) & HIGH_BITS);
}

/* How many bytes at the start are ASCII, eight at a time. */
static size_t ascii_prefix(const unsigned char *bytes, size_t size) {
  size_t at = 0;
  while (at + 8 <= size && !(load_word(bytes + at, 8) & HIGH_BITS)) at += 8;
  while (at < size && bytes[at] < 0x80) at++;
  return at;
}

/* The size of the code point that begins here (not ASCII); 0 when it is not well-formed. Follows table 3-7 of the
 * Unicode standard: the second byte shows overlong forms, surrogates and code points above U+10FFFF. */
static size_t code_point(const unsigned char *bytes, size_t left) {
  unsigned char first = bytes[0], low = 0x80, high = 0xbf;
  if (first < 0xc2 || first > 0xf4) return 0;
  size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (left < size) return 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (bytes[1] < low || bytes[1] > high) return 0;
  for (size_t i = 2; i < size; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
  }
  return size;
}

bool tp_utf8_valid(tp_text text, size_t *ret_offset) {
  const unsigned char *bytes = (const unsigned char *)text.data;
  size_t at;
  if (is_ascii(bytes, text.size, &at)) return true;
  at += ascii_prefix(bytes + at, text.size - at);
  while (at < text.size) {
    size_t size = code_point(bytes + at, text.size - at);
    if (size == 0) {
      if (ret_offset) *ret_offset = at;
      return false;
    }
    at += size;
    at += ascii_prefix(bytes + at, text.size - at);
  }
  return true;
}

/* Copies the piece when it fits as a whole. @return false when it does not fit: then the caller must copy no later
 * piece. */
static bool copy_whole(tp_text piece, char *buffer, size_t buffer_size, size_t *used) {
  if (piece.size > buffer_size - *used) return false;
  memcpy(buffer + *used, piece.data, piece.size);
  *used += piece.size;
  return true;
}

size_t tp_utf8_replace(tp_text text, char *buffer, size_t buffer_size) {
  static const tp_text replacement = {"\xEF\xBF\xBD", 3};
  size_t size = 0, used = 0;
  bool fits = buffer != NULL;
  while (text.size > 0) {
    size_t bad = text.size;
    bool is_valid = tp_utf8_valid(text, &bad);
    tp_text good = {text.data, bad};
    if (fits && bad > 0) {
      size_t whole = tp__utf8_cut(good, buffer_size - used);
      fits = copy_whole((tp_text){good.data, whole}, buffer, buffer_size, &used) && whole == bad;
    }
    size += bad;
    if (is_valid) break;
    if (fits) fits = copy_whole(replacement, buffer, buffer_size, &used);
    size += replacement.size;
    text.data += bad + 1;
    text.size -= bad + 1;
  }
  return size;
}
