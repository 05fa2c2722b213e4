/* SPDX-License-Identifier: Apache-2.0
 *
 * glob.c: matches without backtracking. It keeps all positions of the pattern that the text read so far can have led
 * to, one bit each, so nothing is tried twice. */
#include "runtime/base/glob.h"

#include <string.h>

enum { WORDS = (TP_PATTERN_BYTES_MAX + 64) / 64 };

struct glob {
  tp_text pattern;
  uint64_t at[WORDS]; /* after so many bytes of the pattern */
};

static bool is_stars(tp_text pattern, size_t at) {
  return at + 1 < pattern.size && pattern.data[at] == '*' && pattern.data[at + 1] == '*';
}

/* True when "a double star and a slash" is at the beginning of a part of the path. */
static bool is_folders(tp_text pattern, size_t at) {
  return is_stars(pattern, at) && at + 2 < pattern.size && pattern.data[at + 2] == '/' &&
         (at == 0 || pattern.data[at - 1] == '/');
}

static void set_place(struct glob *glob, size_t at) { glob->at[at / 64] |= UINT64_C(1) << (at % 64); }

/* What needs no character is passed at once. */
static void reach(struct glob *glob, size_t at) {
  if (glob->at[at / 64] >> (at % 64) & 1) return;
  set_place(glob, at);
  if (at == glob->pattern.size || glob->pattern.data[at] != '*') return;
  if (is_folders(glob->pattern, at)) reach(glob, at + 3);
  else reach(glob, at + (is_stars(glob->pattern, at) ? 2 : 1));
}

static void step_one(struct glob *next, size_t at, char byte) {
  tp_text pattern = next->pattern;
  char wanted = pattern.data[at];
  if (is_folders(pattern, at)) {
    set_place(next, at); /* stays in this place, without the places that reach() would add: the folder has not ended */
    if (byte == '/') reach(next, at + 3);
  } else if (is_stars(pattern, at)) {
    reach(next, at);
  } else if (wanted == '*') {
    if (byte != '/') reach(next, at);
  } else if (wanted == byte || (wanted == '?' && byte != '/')) {
    reach(next, at + 1);
  }
}

/* @return false when no position is left. */
static bool take_byte(struct glob *now, char byte) {
  struct glob next = {.pattern = now->pattern};
  uint64_t any = 0;
  for (size_t word = 0; word <= now->pattern.size / 64; word++) {
    for (uint64_t left = now->at[word]; left; left &= left - 1) {
      size_t at = word * 64 + (size_t)__builtin_ctzll(left);
      if (at < now->pattern.size) step_one(&next, at, byte);
    }
  }
  for (size_t word = 0; word < WORDS; word++) any |= next.at[word];
  *now = next;
  return any != 0;
}

bool tp__glob_matches(tp_text pattern, tp_text text) {
  size_t literal = 0; /* what every text that fits begins with */
  if (pattern.size > TP_PATTERN_BYTES_MAX) return false;
  while (literal < pattern.size && pattern.data[literal] != '*' && pattern.data[literal] != '?') literal++;
  if (text.size < literal || (literal > 0 && memcmp(pattern.data, text.data, literal) != 0)) return false;
  if (literal == pattern.size) return text.size == literal;
  struct glob now = {.pattern = pattern};
  reach(&now, literal);
  for (size_t i = literal; i < text.size; i++)
    if (!take_byte(&now, text.data[i])) return false;
  return now.at[pattern.size / 64] >> (pattern.size % 64) & 1;
}
