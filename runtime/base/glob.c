/* SPDX-License-Identifier: Apache-2.0
 *
 * glob.c: all positions of the pattern that the text read so far can have led to are kept at once, so nothing is ever
 * tried twice. */
#include "runtime/base/glob.h"

#include <string.h>

struct glob {
  tp_text pattern;
  bool at[TP_PATTERN_BYTES_MAX + 1]; /* behind so many bytes of the pattern */
};

static bool is_stars(tp_text pattern, size_t at) {
  return at + 1 < pattern.size && pattern.data[at] == '*' && pattern.data[at + 1] == '*';
}

/* "a double star and a slash" at the beginning of a part of the path */
static bool is_folders(tp_text pattern, size_t at) {
  return is_stars(pattern, at) && at + 2 < pattern.size && pattern.data[at + 2] == '/' &&
         (at == 0 || pattern.data[at - 1] == '/');
}

/* What needs no character is passed at once. */
static void reach(struct glob *glob, size_t at) {
  if (glob->at[at]) return;
  glob->at[at] = true;
  if (at == glob->pattern.size || glob->pattern.data[at] != '*') return;
  if (is_folders(glob->pattern, at)) {
    reach(glob, at + 3);
  } else {
    reach(glob, at + (is_stars(glob->pattern, at) ? 2 : 1));
  }
}

static void step_one(struct glob *next, size_t at, char byte) {
  tp_text pattern = next->pattern;
  char wanted = pattern.data[at];
  if (is_folders(pattern, at)) {
    next->at[at] = true; /* without what reach() would pass: the folder has not ended */
    if (byte == '/') reach(next, at + 3);
  } else if (is_stars(pattern, at)) {
    reach(next, at);
  } else if (wanted == '*') {
    if (byte != '/') reach(next, at);
  } else if (wanted == byte || (wanted == '?' && byte != '/')) {
    reach(next, at + 1);
  }
}

bool tp__glob_matches(tp_text pattern, tp_text text) {
  if (pattern.size > TP_PATTERN_BYTES_MAX) return false;
  struct glob now = {.pattern = pattern};
  reach(&now, 0);
  for (size_t i = 0; i < text.size; i++) {
    struct glob next = {.pattern = pattern};
    for (size_t at = 0; at < pattern.size; at++) {
      if (now.at[at]) step_one(&next, at, text.data[i]);
    }
    now = next;
  }
  return now.at[pattern.size];
}
