/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/visible.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>

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

/* Names of files may contain any bytes. A byte that begins no character counts as a character of its own, and the text
 * after it is still shown. */
static size_t size_of(const unsigned char *bytes, size_t left) {
  size_t size = bytes[0] < 0xC2 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : bytes[0] < 0xF5 ? 4 : 1;
  for (size_t i = 1; i < size; i++)
    if (i == left || (bytes[i] & 0xC0) != 0x80) return 1;
  return size;
}

size_t cli_visible_step(tp_text text, uint32_t *ret_code, cli_visibility *ret_visibility) {
  assert(text.size > 0);
  const unsigned char *bytes = (const unsigned char *)text.data;
  size_t size = size_of(bytes, text.size);
  uint32_t code = size == 1 && bytes[0] >= 0x80 ? 0xFFFD : decode(bytes, size);
  bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  *ret_visibility = control ? CLI_CONTROL : is_hidden(code) ? CLI_HIDDEN : CLI_VISIBLE;
  if (ret_code) *ret_code = code;
  return size;
}

size_t cli_visible_escape(uint32_t code, char ret_text[CLI_ESCAPE_SIZE]) {
  int size = snprintf(ret_text, CLI_ESCAPE_SIZE, "<U+%04X>", code);
  return size > 0 ? (size_t)size : 0;
}

size_t cli_visible_columns(uint32_t code) {
  int columns = code < 0x7F ? 1 : wcwidth((wchar_t)code);
  return columns < 0 ? 1 : (size_t)columns;
}

void cli_visible_line(tp_text text, bool numbers, tp__bytes *bytes) {
  size_t from = 0, at = 0;
  while (at < text.size) {
    uint32_t code;
    cli_visibility visibility;
    char number[CLI_ESCAPE_SIZE];
    size_t size = cli_visible_step((tp_text){text.data + at, text.size - at}, &code, &visibility);
    if (visibility != CLI_VISIBLE) {
      tp__bytes_put(bytes, text.data + from, at - from);
      bool is_blank = visibility == CLI_CONTROL && (!numbers || code == '\n' || code == '\t' || code == '\r');
      if (is_blank) tp__bytes_put(bytes, " ", 1);
      else tp__bytes_put(bytes, number, cli_visible_escape(code, number));
      from = at + size;
    }
    at += size;
  }
  if (from < at) tp__bytes_put(bytes, text.data + from, at - from);
}

/* ---- the locale ---- */

static bool is_ascii;

static bool names_utf8(const char *locale) { return strcasestr(locale, "UTF-8") || strcasestr(locale, "UTF8"); }

/* If a locale is not installed, its name decides. */
void cli_locale_start(void) {
  static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  const char *named = NULL;
  for (size_t i = 0; !(named && named[0]) && i < sizeof variables / sizeof *variables; i++)
    named = getenv(variables[i]);
  if (named && named[0]) {
    bool is_installed = setlocale(LC_CTYPE, "") != NULL;
    is_ascii = !names_utf8(is_installed ? nl_langinfo(CODESET) : named);
  }
  (void)setlocale(LC_CTYPE, "C.UTF-8");
}

bool cli_locale_is_ascii(void) { return is_ascii; }

char cli_locale_mark(uint32_t code) {
  static const struct {
    uint32_t first, last;
    char ascii;
  } marks[] = {{0xB5, 0xB5, 'u'},     {0xB7, 0xB7, '-'},     {0xBB, 0xBB, '>'},     {0xD7, 0xD7, 'x'},
               {0x2013, 0x2014, '-'}, {0x2022, 0x2022, '*'}, {0x2026, 0x2026, '~'}, {0x2190, 0x2190, '<'},
               {0x2192, 0x2192, '>'}, {0x2500, 0x2501, '-'}, {0x2502, 0x2503, '|'}, {0x2504, 0x257F, '+'},
               {0x2580, 0x259F, '#'}, {0x25B8, 0x25B8, '>'}, {0x2713, 0x2713, '+'}, {0x2717, 0x2717, 'x'}};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (code >= marks[i].first && code <= marks[i].last) return marks[i].ascii;
  return '\0';
}
