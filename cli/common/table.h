/* SPDX-License-Identifier: Apache-2.0
 *
 * table: rows for people, laid out for the width of the output (cli_output: the terminal's, or COLUMNS; unlimited where
 * neither is known, as in a pipe).
 *
 * Without a width limit, every column is shown at its width. In a terminal, no row is wider than the terminal:
 *   1. columns shrink to their least widths, the widest first;
 *   2. then the column with the highest rank leaves the row. Its cells are printed below the row, each after the name
 *      of the column; or they are left out, and the end of the table names the column. The other columns shrink no more
 *      than necessary.
 * Cells are two columns apart and never touch. A cell that is wider than its column moves the following cells into
 * their blanks, or else to a line below. No id, number or word is broken, unless it is wider than the terminal. The
 * last column may be text, which is broken at blanks; if its first word does not fit, it begins below the row.
 *
 * Owns only memory that cli_table_end() frees. One thread. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/common/output.h"

enum { CLI_TABLE_COLUMNS_MAX = 16 };

typedef enum cli_column_kind {
  CLI_COLUMN_LEFT,
  CLI_COLUMN_RIGHT, /* for numbers */
  CLI_COLUMN_TEXT   /* as the last column: broken at blanks; elsewhere like a left-aligned one */
} cli_column_kind;

/** Where a column goes that has no space. */
typedef enum cli_column_exit { CLI_COLUMN_BELOW, CLI_COLUMN_LEFT_OUT } cli_column_exit;

typedef struct cli_column {
  const char *head; /* "": none; also the name of the column for cells below a row */
  size_t width;     /* if there is space; a text needs none */
  size_t least;     /* it shrinks to this width; 0: it does not shrink, but a text shrinks to 20 */
  unsigned rank;    /* 0: it never leaves; otherwise the highest rank leaves first */
  cli_column_kind kind;
  cli_column_exit exit;
} cli_column;

typedef struct cli_cell {
  /* shown as one visible line, with numbers (cli_visible_line()); "-" and empty texts get no line below the row */
  tp_text text;
  cli_paint paint;
} cli_cell;

/** The members are the table's own. */
typedef struct cli_table {
  cli_output *output;
  const cli_column *columns;
  size_t count, indent;
  size_t below_indent; /* of lines below a row: 4 more than the row; a caller may set it */
  size_t widths[CLI_TABLE_COLUMNS_MAX], starts[CLI_TABLE_COLUMNS_MAX];
  bool has_left[CLI_TABLE_COLUMNS_MAX], is_used[CLI_TABLE_COLUMNS_MAX];
  bool is_laid_out, is_measured;
  bool keeps_columns; /* a caller may set it: when there is a width, no cell is printed in another cell's column */
  size_t last;        /* the last column of a row */
  tp__bytes line;     /* on its way */
} cli_table;

/** @param columns  borrowed until the end.  @param indent  of each row. */
void cli_table_begin(cli_table *table, cli_output *output, const cli_column *columns, size_t count, size_t indent);
/** Makes columns wide enough for this row. For tables whose rows are known before the first is printed; called before
 *  the head. Without it the columns keep their widths. */
void cli_table_measure(cli_table *table, const cli_cell *cells);
/** Prints the names of the columns. */
void cli_table_head(cli_table *table);
/** Prints a row. @param cells  as many as the table has columns. */
void cli_table_row(cli_table *table, const cli_cell *cells);
/** Names the columns that were left out although they had cells with content. */
void cli_table_end(cli_table *table);

#endif
