/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH_MAX = 48, PREFIX_MIN = 3 };

cli_nearest cli_nearest_to(const char *word) {
  size_t length = strlen(word), errors = length <= 4 ? 1 : length <= 8 ? 2 : 3;
  return (cli_nearest){.word = word, .distance = errors + 1};
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The number of typing errors between two words: optimal string alignment, with three rows of its table. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  size_t rows[3][LENGTH_MAX + 1];
  size_t *before_last = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= b_length; j++) last[j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], before_last[j - 2] + 1);
    }
    size_t *free_row = before_last;
    before_last = last;
    last = row;
    row = free_row;
  }
  return last[b_length];
}

void cli_nearest_try(cli_nearest *nearest, const char *name) {
  size_t word_length = strlen(nearest->word), length = strlen(name);
  if (word_length == 0 || word_length > LENGTH_MAX || length > LENGTH_MAX) return;
  bool is_begin = word_length >= PREFIX_MIN && strncmp(nearest->word, name, word_length) == 0;
  size_t errors = is_begin ? 1 : distance(nearest->word, word_length, name, length);
  if (errors >= nearest->distance || errors >= word_length) return;
  nearest->distance = errors;
  nearest->name = name;
}

const char *cli_nearest_hint(const cli_nearest *nearest, const char *before, char buffer[CLI_HINT_SIZE]) {
  buffer[0] = '\0';
  if (nearest->name) snprintf(buffer, CLI_HINT_SIZE, "; did you mean '%s%s'?", before, nearest->name);
  return buffer;
}
