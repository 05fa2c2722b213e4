/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/quantity.h"

#include <math.h>
#include <stdio.h>

#include "cli/common/visible.h"
#include "runtime/base/check.h"

cli_quantity cli_duration(double ns) {
  assert(!isnan(ns));
  static const struct {
    double size_ns;
    const char *name;
  } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
  cli_quantity quantity;
  size_t unit = 0;
  /* A number that three digits would round up to 1,000 is written in the next unit. */
  while (unit < 3 && ns < 0.9995 * units[unit].size_ns) unit++;
  double value = ns / units[unit].size_ns;
  int places = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  if (unit == 3 && ns == (double)(int64_t)ns) places = 0; /* a whole nanosecond has no more to say */
  snprintf(quantity.text, sizeof quantity.text, "%.*f %s", places, value, units[unit].name);
  return quantity;
}

cli_quantity cli_count(uint64_t count) {
  cli_quantity quantity;
  char digits[24];
  size_t size = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), at = 0;
  for (size_t i = 0; i < size; i++) {
    if (i > 0 && (size - i) % 3 == 0) quantity.text[at++] = ',';
    quantity.text[at++] = digits[i];
  }
  quantity.text[at] = '\0';
  return quantity;
}

size_t cli_columns(tp_text text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size;) {
    uint32_t code;
    cli_visibility visibility;
    char number[CLI_ESCAPE_SIZE];
    at += cli_visible_step((tp_text){text.data + at, text.size - at}, &code, &visibility);
    width += visibility == CLI_VISIBLE  ? cli_visible_columns(code)
             : visibility == CLI_HIDDEN ? cli_visible_escape(code, number)
                                        : 1;
  }
  return width;
}

static void pad(cli_output *output, const char *text, size_t width) {
  size_t used = cli_columns(tp_text_of(text));
  cli_printf(output, "%*s", (int)(used < width ? width - used : 0), "");
}

void cli_cell_right(cli_output *output, const char *text, size_t width) {
  pad(output, text, width);
  cli_print_string(output, text);
}

void cli_cell_left(cli_output *output, const char *text, size_t width) {
  cli_print_string(output, text);
  pad(output, text, width);
}
