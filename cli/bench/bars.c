/* SPDX-License-Identifier: Apache-2.0
 *
 * bars.c: a row is a fraction of a power of two, so it consists of whole buckets of the histogram, and no bucket must
 * be divided by guess. */
#include "cli/bench/bars.h"

#include "cli/common/quantity.h"

enum { BODY_ROWS_MAX = 16, ROWS_MAX = 128, BAR_COLUMNS = 50, EIGHTHS = 8, INDENT = 4, DURATION_WIDTH = 8 };

typedef struct row {
  int64_t from, to;
  uint64_t count;
} row;

/* The row of a value, when each power of two is divided into parts. */
static row bar_row_of(int64_t value, int64_t parts) {
  int64_t octave = 1;
  while (octave <= value / 2) octave *= 2;
  int64_t size = octave > parts ? octave / parts : 1;
  if (value == 0) return (row){.from = 0, .to = 1};
  int64_t from = value - (value - octave) % size;
  return (row){.from = from, .to = from > INT64_MAX - size ? INT64_MAX : from + size};
}

static void fill_rows(const cli_histogram *histogram, row *rows, size_t count) {
  size_t at = 0;
  for (cli_bucket bucket = {0}; cli_histogram_next(histogram, &bucket);) {
    while (at + 1 < count && rows[at].to <= bucket.from) at++;
    rows[at].count += bucket.count;
  }
}

/* Rows without values are printed, too, so that a gap looks like one. */
static size_t make_rows(const cli_histogram *histogram, int64_t body_end, int64_t parts, row rows[ROWS_MAX]) {
  size_t count = 0;
  for (int64_t at = histogram->least; at <= histogram->greatest && count < ROWS_MAX; at = rows[count++].to) {
    rows[count] = bar_row_of(at, at <= body_end ? parts : 1);
    if (count > 0) rows[count].from = at; /* the first row of the tail begins where the body ends */
  }
  fill_rows(histogram, rows, count);
  return count;
}

/* If most rows are empty, the clock is coarser than the rows. */
static bool is_too_fine(const row *rows, size_t count, int64_t body_end) {
  size_t body = 0, filled = 0;
  for (; body < count && rows[body].from <= body_end; body++) filled += rows[body].count > 0;
  return body > BODY_ROWS_MAX || 2 * filled < body;
}

/* Chooses into how many parts a power of two is divided, so that the body has few rows, and most of them are not
 * empty. */
static size_t choose_rows(const cli_histogram *histogram, row rows[ROWS_MAX]) {
  int64_t body_end = cli_histogram_at(histogram, 990);
  for (int64_t parts = CLI_HISTOGRAM_SLOTS;; parts /= 2) {
    size_t count = make_rows(histogram, body_end, parts, rows);
    if (parts == 1 || !is_too_fine(rows, count, body_end)) return count;
  }
}

static uint64_t most_of(const row *rows, size_t count) {
  uint64_t most = 0;
  for (size_t i = 0; i < count; i++)
    if (rows[i].count > most) most = rows[i].count;
  return most;
}

/* What is there at all is seen. */
static void print_bar(cli_output *output, uint64_t count, uint64_t most) {
  static const char *const blocks[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  uint64_t eighths = (uint64_t)((double)count / (double)most * BAR_COLUMNS * EIGHTHS);
  if (eighths == 0 && count > 0) eighths = 1;
  cli_paint_on(output, CLI_NOTE);
  for (uint64_t i = 0; i < eighths / EIGHTHS; i++) cli_print_string(output, "█");
  cli_print_string(output, blocks[eighths % EIGHTHS]);
  cli_paint_off(output);
}

void cli_bars_print(cli_output *output, const cli_histogram *histogram) {
  row rows[ROWS_MAX];
  if (histogram->count == 0) return;
  size_t count = choose_rows(histogram, rows);
  uint64_t most = most_of(rows, count);
  for (size_t i = 0; i < count; i++) {
    const row *r = &rows[i];
    cli_printf(output, "%*s", INDENT, "");
    cli_cell_right(output, cli_duration((double)r->from).text, DURATION_WIDTH);
    if (r->count > 0) {
      cli_print_string(output, "  ");
      print_bar(output, r->count, most);
      cli_printf(output, " %s", cli_count(r->count).text);
    }
    cli_print_string(output, "\n");
  }
}
