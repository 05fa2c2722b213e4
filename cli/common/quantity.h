/* SPDX-License-Identifier: Apache-2.0
 *
 * quantity: numbers for people: durations with three significant digits, counts with commas, and cells of a table. */
#ifndef CLI_QUANTITY_H
#define CLI_QUANTITY_H

#include "cli/common/output.h"

enum { CLI_QUANTITY_SIZE = 32 };

/** A text by value, for use in an expression: cli_duration(ns).text. */
typedef struct cli_quantity {
  char text[CLI_QUANTITY_SIZE];
} cli_quantity;

/** "812 ns", "1.23 µs", "45.6 ms", "789 s". */
cli_quantity cli_duration(double ns);
/** "1,000". */
cli_quantity cli_count(uint64_t count);
/** The width of a text on a terminal, in columns, as cli_visible_line() writes it. */
size_t cli_columns(tp_text text);
/** Prints text at the right, or the left, of a cell. A text that is wider than the cell is printed whole. */
void cli_cell_right(cli_output *output, const char *text, size_t width);
void cli_cell_left(cli_output *output, const char *text, size_t width);

#endif
