/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/visible.h"

#include <stdio.h>

#include "runtime/base/check.h"

static uint32_t decode(const unsigned char *bytes, size_t size) {
  if (size == 1) return bytes[0];
  uint32_t code = bytes[0] & (0x7Fu >> size);
  for (size_t i = 1; i < size; i++) code = code << 6 | (bytes[i] & 0x3F);
  return code;
}

/* Directional marks, embeddings, overrides and isolates; zero widths, joiners and invisible operators; separators of
 * lines and paragraphs; variation selectors and tags; the byte-order mark. Joiners between letters and the selectors of
 * emoji (U+200C, U+200D, U+FE0F) are part of visible text. */
static bool is_hidden(uint32_t code) {
  static const struct {
    uint32_t first, last;
  } hidden[] = {{0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x061C, 0x061C},  {0x115F, 0x1160}, {0x17B4, 0x17B5},
                {0x180B, 0x180F},   {0x200B, 0x200B},   {0x200E, 0x200F},  {0x2028, 0x202E}, {0x2060, 0x206F},
                {0x3164, 0x3164},   {0xFE00, 0xFE0E},   {0xFEFF, 0xFEFF},  {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB},
                {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};
  if (code < hidden[0].first) return false; /* most of what is printed */
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
    if (code >= hidden[i].first && code <= hidden[i].last) return true;
  return false;
}

size_t cli_visible_step(tp_text text, uint32_t *ret_code, cli_visibility *ret_visibility) {
  assert(text.size > 0);
  const unsigned char *bytes = (const unsigned char *)text.data;
  size_t size = bytes[0] < 0x80 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
  if (size > text.size) size = text.size;
  uint32_t code = decode(bytes, size);
  bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  *ret_visibility = control ? CLI_CONTROL : is_hidden(code) ? CLI_HIDDEN : CLI_VISIBLE;
  if (ret_code) *ret_code = code;
  return size;
}

size_t cli_visible_escape(uint32_t code, char ret_text[CLI_ESCAPE_SIZE]) {
  int size = snprintf(ret_text, CLI_ESCAPE_SIZE, "<U+%04X>", code);
  return size > 0 ? (size_t)size : 0;
}
