/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/fold.h"

#include <string.h>

#include "cli/common/visible.h"
#include "runtime/base/check.h"

/* The size in bytes of a code point, or of an escape: ESC [ … letter. */
static size_t step(const char *line, size_t size, size_t *ret_columns) {
  size_t at = 1;
  *ret_columns = 1;
  if (line[0] == '\033' && size > 1 && line[1] == '[') {
    *ret_columns = 0;
    for (at = 2; at < size && (line[at] < '@' || line[at] > '~'); at++) {}
    return at < size ? at + 1 : size;
  }
  uint32_t code;
  cli_visibility visibility;
  at = cli_visible_step((tp_text){line, size}, &code, &visibility);
  *ret_columns = visibility == CLI_VISIBLE ? cli_visible_columns(code) : 1;
  return at;
}

/* A number and its unit are one word: "1.00 s" is not broken. @param at  the offset of the blank. */
static bool is_before_unit(const char *line, size_t size, size_t at) {
  static const char *const units[] = {"s", "ms", "\xC2\xB5s", "us", "ns", "%", "bytes"};
  size_t end = at + 1;
  if (at == 0 || line[at - 1] < '0' || line[at - 1] > '9') return false;
  while (end < size && line[end] != ' ' && !strchr(",;:)\033", line[end])) end++;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strlen(units[i]) == end - at - 1 && memcmp(units[i], line + at + 1, end - at - 1) == 0) return true;
  return false;
}

size_t cli_fold_at(const char *line, size_t size, size_t width) {
  assert(line || size == 0);
  size_t column = 0, blank = 0, at = 0;
  while (at < size && line[at] == ' ') at++, column++; /* there is no break in the indentation */
  size_t begin = at;
  while (at < size) {
    size_t columns, bytes = step(line + at, size - at, &columns);
    if (column + columns > width && at > begin) return blank ? blank : at;
    /* the first of several blanks; blanks at the beginning of the line do not count */
    bool breaks = line[at] == ' ' && line[at - 1] != ' ';
    if (breaks && !is_before_unit(line, size, at)) blank = at;
    column += columns;
    at += bytes;
  }
  return size;
}

size_t cli_fold_indent(const char *line, size_t size, size_t width) {
  assert(line || size == 0);
  size_t indent = 0;
  while (indent < size && line[indent] == ' ') indent++;
  return indent + 4 < width / 2 ? indent + 4 : width / 2;
}
