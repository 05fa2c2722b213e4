/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/table.h"

#include <string.h>

#include "cli/common/fold.h"
#include "cli/common/quantity.h"
#include "cli/common/visible.h"
#include "runtime/base/check.h"

enum { GAP = 2, TEXT_LEAST = 20, BELOW_INDENT = 4 };

typedef cli_table table;

/* ---- the layout ---- */

static bool is_text(const table *t, size_t c) { return t->columns[c].kind == CLI_COLUMN_TEXT; }

static size_t text_least(const table *t, size_t c) { return t->columns[c].least ? t->columns[c].least : TEXT_LEAST; }

static size_t width_at_least(const table *t, size_t c) {
  size_t least = is_text(t, c) ? text_least(t, c) : t->columns[c].least;
  return least && least < t->widths[c] ? least : t->widths[c];
}

/* The width of the columns that are in a row. @param least  at their least widths. */
static size_t width_of_row(const table *t, const size_t *widths, bool least) {
  size_t sum = t->indent, gap = 0;
  for (size_t c = 0; c < t->count; c++) {
    if (t->has_left[c]) continue;
    sum += gap + (least ? width_at_least(t, c) : widths[c]);
    gap = GAP;
  }
  return sum;
}

/* The column that leaves the row next; count: none does. */
static size_t next_to_leave(const table *t) {
  size_t next = t->count;
  for (size_t c = 0; c < t->count; c++) {
    bool may = t->columns[c].rank > 0 && !t->has_left[c];
    if (may && (next == t->count || t->columns[c].rank > t->columns[next].rank)) next = c;
  }
  return next;
}

/* Shrinks the widest of the columns that may shrink, one column of the terminal at a time. */
static void shrink(const table *t, size_t *widths, size_t width) {
  while (width_of_row(t, widths, false) > width) {
    size_t widest = t->count;
    for (size_t c = 0; c < t->count; c++) {
      bool may = !t->has_left[c] && widths[c] > width_at_least(t, c);
      if (may && (widest == t->count || widths[c] > widths[widest])) widest = c;
    }
    if (widest == t->count) return;
    widths[widest]--;
  }
}

static void lay_out(table *t) {
  size_t width = t->output->width, at = t->indent;
  if (t->is_laid_out) return;
  t->is_laid_out = true;
  if (width > 0) {
    for (size_t c = 0; c < t->count && !t->is_measured; c++)
      if (is_text(t, c) && t->widths[c] < text_least(t, c)) t->widths[c] = text_least(t, c);
    for (size_t c; width_of_row(t, t->widths, true) > width && (c = next_to_leave(t)) < t->count;)
      t->has_left[c] = true;
    size_t widths[CLI_TABLE_COLUMNS_MAX];
    memcpy(widths, t->widths, sizeof widths);
    shrink(t, widths, width);
    memcpy(t->widths, widths, sizeof widths);
  }
  for (size_t c = 0; c < t->count; c++) {
    t->starts[c] = at;
    if (t->has_left[c]) continue;
    at += t->widths[c] + GAP;
    t->last = c;
  }
}

void cli_table_begin(table *t, cli_output *output, const cli_column *columns, size_t count, size_t indent) {
  assert(count > 0 && count <= CLI_TABLE_COLUMNS_MAX);
  *t = (table){
      .output = output, .columns = columns, .count = count, .indent = indent, .below_indent = indent + BELOW_INDENT};
  for (size_t c = 0; c < count; c++) {
    size_t head = cli_columns(tp_text_of(columns[c].head));
    t->widths[c] = columns[c].width > head ? columns[c].width : head;
  }
}

void cli_table_measure(table *t, const cli_cell *cells) {
  assert(!t->is_laid_out);
  t->is_measured = true;
  for (size_t c = 0; c < t->count; c++) {
    size_t width = cli_columns(cells[c].text);
    if (width > t->widths[c]) t->widths[c] = width;
  }
}

/* ---- a row ---- */

static void put_blanks(table *t, size_t count) {
  while (count-- > 0) cli_print(t->output, " ", 1);
}

static void put_painted(table *t, tp_text text, cli_paint paint) {
  if (paint != CLI_NORMAL) cli_paint_on(t->output, paint);
  cli_print(t->output, text.data, text.size);
  if (paint != CLI_NORMAL) cli_paint_off(t->output);
}

/* Prints a text over as many lines as it needs, all beginning at one column. */
static void put_folded(table *t, tp_text line, size_t from, cli_paint paint) {
  size_t width = t->output->width > from ? t->output->width - from : 1;
  for (bool first = true; line.size > 0; first = false) {
    size_t size = t->output->width ? cli_fold_at(line.data, line.size, width) : line.size;
    if (!first) {
      cli_print(t->output, "\n", 1);
      put_blanks(t, from);
    }
    put_painted(t, (tp_text){line.data, size}, paint);
    line.data += size;
    line.size -= size;
    while (line.size > 0 && line.data[0] == ' ') line.data++, line.size--;
  }
}

static size_t widest_word(tp_text line) {
  size_t widest = 0;
  while (line.size > 0) {
    const char *blank = memchr(line.data, ' ', line.size);
    size_t size = blank ? (size_t)(blank - line.data) : line.size, columns = cli_columns((tp_text){line.data, size});
    if (columns > widest) widest = columns;
    line.data += size + (blank != NULL);
    line.size -= size + (blank != NULL);
  }
  return widest;
}

/* How many columns a text needs to begin on a line. */
static size_t text_needs(const table *t, size_t c, tp_text line, size_t columns) {
  size_t least = text_least(t, c) > TEXT_LEAST ? text_least(t, c) : TEXT_LEAST, word = widest_word(line);
  if (word > least) least = word;
  return columns < least ? columns : least;
}

/* Whether a cell that was moved by the cell before it still ends within its own column. */
static bool stays_in_column(const table *t, size_t c, size_t end) {
  return !t->keeps_columns || !t->output->width || c == t->last || end <= t->starts[c] + t->widths[c];
}

/* @param at  the column where the line ends; 0: it is empty. @return where it ends after the cell. */
static size_t put_cell(table *t, size_t c, tp_text line, cli_paint paint, size_t at) {
  size_t limit = t->output->width ? t->output->width : SIZE_MAX, columns = cli_columns(line), start = t->starts[c];
  bool folds = c == t->last && is_text(t, c);
  if (t->columns[c].kind == CLI_COLUMN_RIGHT && t->widths[c] > columns) start += t->widths[c] - columns;
  size_t from = at > 0 && start < at + GAP ? at + GAP : start;
  size_t needs = folds ? text_needs(t, c, line, columns) : columns;
  if (needs > limit || from > limit - needs || (from > start && !stays_in_column(t, c, from + columns))) {
    if (at > 0) cli_print(t->output, "\n", 1);
    at = 0;
    from = start;
    if (needs > limit || from > limit - needs) from = c > 0 ? t->below_indent : t->indent;
  }
  put_blanks(t, from - at);
  if (folds || columns > limit - from) put_folded(t, line, from, paint);
  else put_painted(t, line, paint);
  return from + columns;
}

static bool says_something(tp_text text) { return text.size > 0 && !(text.size == 1 && text.data[0] == '-'); }

/* "limit 1.00 s, ran after a": a piece is not broken if it fits on a line. */
static void put_below(table *t, const cli_cell *cells) {
  size_t indent = t->below_indent, at = 0, width = t->output->width;
  for (size_t c = 0; c < t->count; c++) {
    if (!t->has_left[c] || t->columns[c].exit != CLI_COLUMN_BELOW || !says_something(cells[c].text)) continue;
    tp__bytes_clear(&t->line);
    tp__bytes_printf(&t->line, "%s%s", t->columns[c].head, t->columns[c].head[0] ? " " : "");
    cli_visible_line(cells[c].text, true, &t->line);
    size_t columns = cli_columns(tp__bytes_text(&t->line));
    bool fits = at > 0 && at + GAP + columns + 1 < width;
    if (at > 0) cli_print_string(t->output, fits ? ", " : "\n");
    if (!fits) put_blanks(t, indent);
    at = (fits ? at + GAP : indent) + columns;
    put_folded(t, tp__bytes_text(&t->line), at - columns, CLI_NORMAL);
  }
  if (at > 0) cli_print(t->output, "\n", 1);
}

static void put_row(table *t, const cli_cell *cells) {
  size_t at = 0;
  cli_output_stream(t->output, true);
  for (size_t c = 0; c < t->count; c++) {
    if (t->has_left[c] || cells[c].text.size == 0) continue;
    tp__bytes_clear(&t->line);
    cli_visible_line(cells[c].text, true, &t->line);
    at = put_cell(t, c, tp__bytes_text(&t->line), cells[c].paint, at);
  }
  cli_print(t->output, "\n", 1);
}

void cli_table_head(table *t) {
  cli_cell heads[CLI_TABLE_COLUMNS_MAX];
  lay_out(t);
  for (size_t c = 0; c < t->count; c++) heads[c] = (cli_cell){.text = tp_text_of(t->columns[c].head)};
  put_row(t, heads);
  cli_output_stream(t->output, false);
}

void cli_table_row(table *t, const cli_cell *cells) {
  lay_out(t);
  for (size_t c = 0; c < t->count; c++) t->is_used[c] |= says_something(cells[c].text);
  put_row(t, cells);
  put_below(t, cells);
  cli_output_stream(t->output, false);
}

void cli_table_end(table *t) {
  const char *before = "without ";
  cli_paint_on(t->output, CLI_FAINT);
  for (size_t c = 0; c < t->count; c++) {
    if (!t->has_left[c] || t->columns[c].exit != CLI_COLUMN_LEFT_OUT || !t->is_used[c]) continue;
    cli_printf(t->output, "%s%s", before, t->columns[c].head);
    before = ", ";
  }
  if (before[0] == ',')
    cli_printf(t->output, ": there are %zu columns; COLUMNS=200 or --json shows all\n", t->output->width);
  cli_paint_off(t->output);
  tp__bytes_fini(&t->line);
}
