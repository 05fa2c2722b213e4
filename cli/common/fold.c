/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/fold.h"

#include "runtime/base/check.h"

/* The bytes of a code point, or of an escape: ESC [ … letter. */
static size_t step(const char *line, size_t size, size_t *ret_columns) {
  size_t at = 1;
  *ret_columns = 1;
  if (line[0] == '\033' && size > 1 && line[1] == '[') {
    *ret_columns = 0;
    for (at = 2; at < size && (line[at] < '@' || line[at] > '~'); at++) {}
    return at < size ? at + 1 : size;
  }
  while (at < size && ((unsigned char)line[at] & 0xC0) == 0x80) at++;
  return at;
}

size_t cli_fold_at(const char *line, size_t size, size_t width) {
  assert(line || size == 0);
  size_t column = 0, blank = 0, at = 0;
  while (at < size && line[at] == ' ') at++, column++; /* there is no break in the indentation */
  size_t begin = at;
  while (at < size) {
    size_t columns, bytes = step(line + at, size - at, &columns);
    if (column + columns > width && at > begin) return blank ? blank : at;
    if (line[at] == ' ' && line[at - 1] != ' ') blank = at; /* the first of several; the line begins otherwise */
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
