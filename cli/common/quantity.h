/* SPDX-License-Identifier: Apache-2.0
 *
 * quantity: numbers for people: durations with three digits that count, counts with commas, and cells of a table. */
#ifndef CLI_QUANTITY_H
#define CLI_QUANTITY_H

#include "cli/common/output.h"

enum { CLI_QUANTITY_SIZE = 32 };

/** Text of its own, to be used in an expression: cli_duration(ns).text. */
typedef struct cli_quantity {
  char text[CLI_QUANTITY_SIZE];
} cli_quantity;

/** "812 ns", "1.23 µs", "45.6 ms", "789 s". */
cli_quantity cli_duration(double ns);
/** "1,000". */
cli_quantity cli_count(uint64_t count);
/** How many columns of a terminal a text takes, as cli_visible_line() writes it. */
size_t cli_columns(tp_text text);
/** Prints text at the right, or the left, of a cell; what is wider than the cell is printed whole. */
void cli_cell_right(cli_output *output, const char *text, size_t width);
void cli_cell_left(cli_output *output, const char *text, size_t width);

#endif
