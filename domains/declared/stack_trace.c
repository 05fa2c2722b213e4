/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/declared/stack_trace.h"

#include <stdbool.h>
#include <string.h>

#include "support/text.h"

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next line, without its white space. @return false: there is none. */
static bool next_line(tp_text *left, tp_text *line) {
  if (left->size == 0) return false;
  const char *end = memchr(left->data, '\n', left->size);
  size_t size = end ? (size_t)(end - left->data) : left->size, step = end ? size + 1 : size;
  *line = (tp_text){left->data, size};
  *left = (tp_text){left->data + step, left->size - step};
  while (line->size > 0 && is_blank(line->data[0])) *line = (tp_text){line->data + 1, line->size - 1};
  while (line->size > 0 && is_blank(line->data[line->size - 1])) line->size--;
  return true;
}

static tp_text last_line(tp_text text) {
  tp_text line, last = {NULL, 0};
  while (next_line(&text, &line))
    if (line.size > 0) last = line;
  return last;
}

/* A syntax error has only the place. */
static bool is_of_python(tp_text text) {
  for (tp_text line; next_line(&text, &line);) {
    if (tp__begins(line, "Traceback (most recent call last):")) return true;
    if (tp__begins(line, "File \"") && memmem(line.data, line.size, "\", line ", 8)) return true;
  }
  return false;
}

static bool is_mark(tp_text line) {
  size_t count = 0;
  while (count < line.size && line.data[count] == '^') count++;
  return line.size > 0 && count == line.size;
}

/* Node.js prints the line of the program, then a mark below it, and then the error. */
static tp_text error_of_node(tp_text text) {
  bool is_below = false;
  for (tp_text line; next_line(&text, &line);) {
    if (is_below && line.size > 0) return line;
    is_below = is_below || is_mark(line);
  }
  return (tp_text){NULL, 0};
}

tp_text tp__stack_trace_error(tp_text errors) {
  tp_text last = last_line(errors);
  if (is_of_python(errors)) return last;
  return tp__begins(last, "Node.js v") ? error_of_node(errors) : (tp_text){NULL, 0};
}
