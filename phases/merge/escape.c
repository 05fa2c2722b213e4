/* SPDX-License-Identifier: Apache-2.0
 *
 * escape.c: finds text that a reader could take for one of the library's tags. The reader is a model, which reads
 * generously, so this code does, too. Only the 94 visible characters of ASCII are taken for themselves (letters in any
 * case). Blanks and controls are skipped. Every other character may be nothing (an invisible character, or a mark on
 * the character before it), or one letter that looks like an ASCII letter; at most half of a name may consist of such
 * letters. So the code does not depend on a list of known tricks. Any number of slashes is skipped. A tag that begins
 * in the text and does not end there counts, too, because the text that follows is the library's and must not be read
 * as the rest of the tag. */
#include "phases/merge/escape.h"

static const char *const tags[] = {"system-reminder", "prompt-context", "context-entry", "hook-signals"};
enum { TAG_COUNT = sizeof tags / sizeof *tags, NAME_MAX = 15 };

/* The character at an offset. Bytes that are no UTF-8 (results of tools may hold any) are characters of their own. */
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

static bool is_blank_point(uint32_t point) { return point <= ' ' || point == 0x7F; }

/* The ASCII character that a character stands for, by letter case or by Unicode's compatibility. */
static uint32_t fold(uint32_t point) {
  if (point == 0x17F) return 's';                                                     /* long s */
  if (point == 0x130 || point == 0x131) return 'i';                                   /* dotted, dotless */
  if (point == 0x212A) return 'k';                                                    /* Kelvin sign */
  if (point >= 0xFF01 && point <= 0xFF5E) point -= 0xFF01 - '!';                      /* fullwidth */
  if (point >= 0x1D400 && point <= 0x1D6A3) return 'a' + (point - 0x1D400) % 52 % 26; /* mathematical letters */
  if (point >= 'A' && point <= 'Z') return point + ('a' - 'A');
  return point;
}

enum { DEAD = UINT8_MAX };

/** The ways in which the letters of a name may have been read: indexed by the number of letters, the number of those
 *  that only look like ASCII letters; DEAD: not possible. */
typedef struct reading {
  uint8_t alike[NAME_MAX + 1];
  uint8_t size, alike_max; /* of the name */
} reading;

static void read_ours(reading *r, const char *name, uint32_t point) {
  for (size_t i = r->size; i > 0; i--) r->alike[i] = (unsigned char)name[i - 1] == point ? r->alike[i - 1] : DEAD;
  r->alike[0] = DEAD;
}

/* Nothing, or one letter. */
static void read_other(reading *r) {
  for (size_t i = r->size; i > 0; i--)
    if (r->alike[i - 1] < r->alike_max && r->alike[i - 1] + 1 < r->alike[i]) r->alike[i] = r->alike[i - 1] + 1;
}

static bool is_alive(const reading *r) {
  for (size_t i = 0; i <= r->size; i++)
    if (r->alike[i] != DEAD) return true;
  return false;
}

/* Reads the rest of a name, from the first character that is not ASCII. @param begun how many letters were read. */
static bool has_rest(tp_text text, size_t at, const char *name, size_t begun) {
  reading r = {.size = (uint8_t)strlen(name), .alike_max = (uint8_t)strlen(name) / 2};
  assert(r.size <= NAME_MAX && begun < r.size);
  memset(r.alike, DEAD, sizeof r.alike);
  r.alike[begun] = 0;
  while (at < text.size) {
    size_t size;
    uint32_t point = fold(char_at(text, at, &size));
    at += size;
    if (is_blank_point(point)) continue;
    if (point == '/' && r.alike[0] != DEAD) memset(r.alike + 1, DEAD, r.size);
    else if (point < 0x80) read_ours(&r, name, point);
    else read_other(&r);
    if (r.alike[r.size] != DEAD) return true;
    if (!is_alive(&r)) return false;
  }
  return true;
}

/* Whether the name is at this place, after any slashes, or the text ends before it could differ from the name. */
static bool has_frame_name(tp_text text, size_t at, const char *name) {
  for (size_t begun = 0; at < text.size;) {
    size_t size;
    uint32_t point = fold(char_at(text, at, &size));
    if (point >= 0x80) return has_rest(text, at, name, begun);
    at += size;
    if (is_blank_point(point) || (point == '/' && begun == 0)) continue;
    if (point != (unsigned char)name[begun]) return false;
    if (!name[++begun]) return true;
  }
  return true;
}

static bool is_tag(tp_text text, size_t open) {
  for (size_t i = 0; i < TAG_COUNT; i++)
    if (has_frame_name(text, open + 1, tags[i])) return true;
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
