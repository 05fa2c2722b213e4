/* SPDX-License-Identifier: Apache-2.0
 *
 * escape.c: finds what a reader could take for one of our tags. The reader is a model, so we read as generously as one
 * does: in any letter case, also by Unicode's folding; over white space anywhere; over characters that show nothing;
 * over any number of slashes. A tag that a text begins and does not end counts, too: what follows the text is ours, and
 * must not be read as its rest. */
#include "phases/escape.h"

static const char *const tags[] = {"system-reminder", "prompt-context", "context-entry", "hook-signals"};
enum { TAG_COUNT = sizeof tags / sizeof *tags };

/* One character at an offset; bytes that are no UTF-8 (results of tools may hold any) are characters of their own. */
static uint32_t char_at(tp_text text, size_t at, size_t *ret_size) {
  const unsigned char *bytes = (const unsigned char *)text.data + at;
  size_t left = text.size - at;
  size_t size = bytes[0] < 0xC2 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
  uint32_t point = size == 1 ? bytes[0] : bytes[0] & (0x7Fu >> size);
  *ret_size = size <= left ? size : 1;
  for (size_t i = 1; i < *ret_size; i++) {
    if ((bytes[i] & 0xC0) != 0x80) *ret_size = 1; /* ends the loop */
    else point = point << 6 | (bytes[i] & 0x3Fu);
  }
  return *ret_size == size ? point : bytes[0];
}

/* White space, controls, and what shows nothing: Unicode's Default_Ignorable_Code_Point. */
static bool is_blank(uint32_t point) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {
#define BLANK(first, last) {first, last},
#include "phases/blank.def"
#undef BLANK
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    if (point < ranges[i].first) return false;
    if (point <= ranges[i].last) return true;
  }
  return false;
}

/* Whatever some folding of letter case takes for a lower-case ASCII letter. */
static uint32_t fold(uint32_t point) {
  if (point >= 'A' && point <= 'Z') return point + ('a' - 'A');
  if (point == 0x17F) return 's';                   /* long s */
  if (point == 0x130 || point == 0x131) return 'i'; /* dotted capital, dotless small i */
  if (point == 0x212A) return 'k';                  /* Kelvin sign */
  return point;
}

static size_t skip_blanks(tp_text text, size_t at) {
  size_t size;
  while (at < text.size && is_blank(char_at(text, at, &size))) at += size;
  return at;
}

/* Whether the text continues with the name, or ends before it could differ. */
static bool continues(tp_text text, size_t at, const char *name) {
  for (; *name; name++) {
    size_t size;
    at = skip_blanks(text, at);
    if (at == text.size) return true;
    if (fold(char_at(text, at, &size)) != (unsigned char)*name) return false;
    at += size;
  }
  return true;
}

static bool is_tag(tp_text text, size_t open) {
  size_t at = skip_blanks(text, open + 1);
  while (at < text.size && text.data[at] == '/') at = skip_blanks(text, at + 1);
  for (size_t i = 0; i < TAG_COUNT; i++) {
    if (continues(text, at, tags[i])) return true;
  }
  return false;
}

size_t tp__escape_find(tp_text text, size_t from) {
  while (from < text.size) {
    const char *open = memchr(text.data + from, '<', text.size - from);
    if (!open) break;
    from = (size_t)(open - text.data);
    if (is_tag(text, from)) return from;
    from++;
  }
  return text.size;
}
