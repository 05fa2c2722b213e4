/* SPDX-License-Identifier: Apache-2.0 */
#include "support/base64.h"

#include <assert.h>
#include <string.h>

size_t tp__base64_size_max(size_t encoded_size) { return encoded_size / 4 * 3 + encoded_size % 4 * 3 / 4; }

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* -1: no digit. */
static int base64_digit(char c) {
  if (c == '-') return 62;
  if (c == '_') return 63;
  const char *found = c ? strchr(digits, c) : NULL;
  return found ? (int)(found - digits) : -1;
}

static bool is_base64_space(char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; }

bool tp__base64_decode(tp_text text, char *bytes, size_t *ret_size) {
  uint32_t bits = 0;
  size_t count = 0, padding = 0, size = 0;
  for (size_t at = 0; at < text.size; at++) {
    char c = text.data[at];
    if (is_base64_space(c)) continue;
    if (c == '=') {
      padding++;
      continue;
    }
    int digit = base64_digit(c);
    if (digit < 0 || padding > 0) return false;
    bits = bits << 6 | (uint32_t)digit;
    if (++count % 4 != 1) bytes[size++] = (char)(bits >> (6 - 2 * ((count - 1) % 4)) & 0xff);
  }
  assert(size <= tp__base64_size_max(text.size));
  if (count % 4 == 1 || (padding > 0 && (count + padding) % 4 != 0) || padding > 2) return false;
  *ret_size = size;
  return true;
}

void tp__bytes_put_base64(tp__bytes *bytes, tp_text data) {
  for (size_t at = 0; at < data.size; at += 3) {
    size_t left = data.size - at;
    const unsigned char *three = (const unsigned char *)data.data + at;
    uint32_t bits = (uint32_t)three[0] << 16 | (left > 1 ? (uint32_t)three[1] << 8 : 0) | (left > 2 ? three[2] : 0);
    char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                    left > 2 ? digits[bits & 63] : '='};
    tp__bytes_put(bytes, four, sizeof four);
  }
}
