/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/field.h"

#include <string.h>

#include "runtime/base/check.h"

static const struct {
  const char *words, *option;
  bool is_remedy;
} rows[] = {
#define FIELD(words, option) {words, option, false},
#define REMEDY(words, option) {words, option, true},
#include "cli/common/field.def"
#undef FIELD
#undef REMEDY
};

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool begins(tp_text text, size_t at, const char *words) {
  size_t size = strlen(words);
  bool fits = text.size - at >= size && memcmp(text.data + at, words, size) == 0;
  return fits && (text.size == at + size || !is_letter(text.data[at + size]));
}

/* Whether "tp_x_options." is at this place. @return its bytes; 0: it is not. */
static size_t struct_at(tp_text text, size_t at) {
  static const char end[] = "_options.";
  size_t size = 0;
  if (text.size - at < 3 || memcmp(text.data + at, "tp_", 3) != 0) return 0;
  while (at + size < text.size && is_letter(text.data[at + size])) size++;
  bool has_field = at + size + 1 < text.size && text.data[at + size] == '.' && is_letter(text.data[at + size + 1]);
  size_t length = sizeof end - 2; /* without its point */
  return has_field && size > length && memcmp(text.data + at + size - length, end, length) == 0 ? size + 1 : 0;
}

void cli_field_words(tp_text text, bool of_model, tp__bytes *to) {
  assert(to);
  for (size_t at = 0; at < text.size;) {
    size_t taken = 0;
    bool is_begin = at == 0 || !is_letter(text.data[at - 1]);
    for (size_t i = 0; is_begin && !taken && i < sizeof rows / sizeof *rows; i++) {
      if ((rows[i].is_remedy && !of_model) || !begins(text, at, rows[i].words)) continue;
      tp__bytes_put_string(to, rows[i].option);
      taken = strlen(rows[i].words);
    }
    if (is_begin && !taken) taken = struct_at(text, at);
    if (!taken) tp__bytes_put(to, text.data + at, taken = 1);
    at += taken;
  }
}
