/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows for people at every width of a terminal. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "cli/common/quantity.h"
#include "cli/common/table.h"
#include "cli/common/visible.h"

static int prepare(void **state) {
  (void)state;
  unsetenv("LC_ALL");
  unsetenv("LC_CTYPE");
  unsetenv("LANG");
  cli_locale_start();
  return 0;
}

static int nothing(void **state) {
  (void)state;
  return 0;
}

FOR_ALL_TESTS(prepare, nothing);

enum { ID, TOOK, NOTE, COUNT };
static const cli_column below[COUNT] = {
    [ID] = {.head = "id", .width = 12, .least = 6},
    [TOOK] = {.head = "took", .width = 8, .kind = CLI_COLUMN_RIGHT},
    [NOTE] = {.head = "note", .width = 20, .rank = 1, .kind = CLI_COLUMN_TEXT},
};
static const cli_column left_out[COUNT] = {
    [ID] = {.head = "id", .width = 12, .least = 6},
    [TOOK] = {.head = "took", .width = 8, .rank = 1, .kind = CLI_COLUMN_RIGHT, .exit = CLI_COLUMN_LEFT_OUT},
    [NOTE] = {.head = "note", .width = 20, .kind = CLI_COLUMN_TEXT},
};

static bool keeps_columns; /* of the tables of a test, which sets it back */

/* What is printed, which the caller frees. */
static char *table_of(const cli_column *columns, size_t width, bool measures, const char *const *cells, size_t rows) {
  cli_output output = {.width = width};
  cli_table table;
  FILE *real = stdout;
  char *text = NULL;
  size_t size;
  assert_non_null(stdout = open_memstream(&text, &size));
  cli_table_begin(&table, &output, columns, COUNT, 2);
  table.keeps_columns = keeps_columns;
  for (int prints = !measures; prints < 2; prints++) {
    if (prints) cli_table_head(&table);
    for (size_t i = 0; i < rows; i++) {
      cli_cell row[COUNT] = {{.paint = CLI_NORMAL}};
      for (size_t c = 0; c < COUNT; c++) row[c].text = tp_text_of(cells[COUNT * i + c]);
      if (prints) cli_table_row(&table, row);
      else cli_table_measure(&table, row);
    }
  }
  cli_table_end(&table);
  tp__bytes_fini(&output.line);
  fclose(stdout);
  stdout = real;
  return text;
}

static void expect(const cli_column *columns, size_t width, const char *const *cells, size_t rows, const char *wanted) {
  char *text = table_of(columns, width, false, cells, rows);
  assert_string_equal(text, wanted);
  free(text);
}

static const char *const usual[] = {"a.first", "1.00 s", "it went well enough", "second", "12 ms", "-"};

TEST(without_a_width_every_column_stands) {
  expect(below, 0, usual, 2,
         "  id                took  note\n"
         "  a.first         1.00 s  it went well enough\n"
         "  second           12 ms  -\n");
}

TEST(columns_shrink_to_their_least_widths_first) {
  expect(below, 42, usual, 1,
         "  id            took  note\n"
         "  a.first     1.00 s  it went well enough\n");
}

TEST(the_column_with_the_highest_rank_goes_below_its_row) {
  expect(below, 30, usual, 2,
         "  id                took\n"
         "  a.first         1.00 s\n"
         "      note it went well enough\n"
         "  second           12 ms\n");
}

TEST(what_stands_below_is_broken_at_blanks) {
  expect(below, 24, usual, 1,
         "  id                took\n"
         "  a.first         1.00 s\n"
         "      note it went well\n"
         "      enough\n");
}

TEST(what_is_left_out_is_named_at_the_end) {
  expect(left_out, 36, usual, 1,
         "  id            note\n"
         "  a.first       it went well enough\n"
         "without took: there are 36 columns;\n"
         "    COLUMNS=200 or --json shows all\n");
  const char *const empty[] = {"a", "-", "b"};
  expect(left_out, 36, empty, 1, "  id            note\n  a             b\n"); /* it would say nothing */
}

TEST(a_wide_cell_moves_what_follows_and_touches_nothing) {
  const char *const cells[] = {
      "an.id.that.is.long", "1.00 s", "a note", "an.id.of.thirty.letters.and.more", "1.00 s", "b"};
  expect(below, 0, cells, 2,
         "  id                took  note\n"
         "  an.id.that.is.long  1.00 s  a note\n"
         "  an.id.of.thirty.letters.and.more  1.00 s  b\n");
  expect(below, 46, cells, 2,
         "  id                took  note\n"
         "  an.id.that.is.long  1.00 s  a note\n"
         "  an.id.of.thirty.letters.and.more  1.00 s  b\n");
  expect(below, 38, cells + COUNT, 1,
         "  id                took\n"
         "  an.id.of.thirty.letters.and.more\n"
         "                  1.00 s\n"
         "      note b\n");
}

TEST(a_table_that_keeps_its_columns_moves_a_cell_within_its_own_or_to_the_next_line) {
  static const cli_column of_row[COUNT] = {{.head = "id", .width = 8, .least = 8},
                                           {.head = "state", .width = 9, .least = 9},
                                           {.head = "took", .width = 8, .kind = CLI_COLUMN_RIGHT}};
  const char *const cells[] = {"an.id.of.18.letter",
                               "deny",
                               "1.00 s",
                               "an.id.of.11",
                               "deny",
                               "9 s",
                               "an.id.of.11",
                               "denied",
                               "1.00 s",
                               "a",
                               "backgrounded",
                               "10.00 s",
                               "a",
                               "backgrounded",
                               "9 s",
                               "an.id.of.11",
                               "denied.",
                               "9 s"};
  keeps_columns = true;
  expect(of_row, 40, cells, 6,
         "  id        state          took\n"
         "  an.id.of.18.letter\n"
         "            deny         1.00 s\n"
         "  an.id.of.11  deny         9 s\n"
         "  an.id.of.11  denied    1.00 s\n"
         "  a         backgrounded  10.00 s\n"
         "  a         backgrounded    9 s\n"
         "  an.id.of.11\n"
         "            denied.         9 s\n");
  expect(of_row, 0, cells, 1,
         "  id        state          took\n"
         "  an.id.of.18.letter  deny  1.00 s\n");
  keeps_columns = false;
}

TEST(a_text_whose_words_do_not_fit_begins_below) {
  const char *const cells[] = {"a", "1 s", "in a.phase.with.a.name.that.is.long"};
  expect(below, 46, cells, 1,
         "  id                took  note\n"
         "  a                  1 s\n"
         "      in a.phase.with.a.name.that.is.long\n");
}

TEST(rows_that_are_known_make_their_columns_as_wide_as_they_need) {
  char *text = table_of(below, 60, true, (const char *const[]){"an.id.of.nineteen.x", "1 s", "short"}, 1);
  assert_string_equal(text,
                      "  id                       took  note\n"
                      "  an.id.of.nineteen.x       1 s  short\n");
  free(text);
}

TEST(wide_letters_and_combining_marks_are_counted_as_the_terminal_shows_them) {
  assert_int_equal(cli_columns(tp_text_of("日本語")), 6);
  assert_int_equal(cli_columns(tp_text_of("e\xcc\x81")), 1);
  const char *const cells[] = {"日本", "1 s", "e\xcc\x81nd", "ab", "1 s", "end"};
  expect(below, 0, cells, 2,
         "  id                took  note\n"
         "  日本               1 s  e\xcc\x81nd\n"
         "  ab                 1 s  end\n");
}

TEST(what_a_terminal_would_obey_is_a_number_and_a_line_end_a_blank) {
  const char *const cells[] = {"a\033[31m", "1\n2", "\xe2\x80\xae"};
  expect(below, 0, cells, 1,
         "  id                took  note\n"
         "  a<U+001B>[31m      1 2  <U+202E>\n");
}

/* ---- every width ---- */

static size_t columns_of_line(const char *line, const char *end) {
  return cli_columns((tp_text){line, (size_t)(end - line)});
}

/* Words of up to 12 letters, so that each fits at the smallest width of the test. */
static void make_cell(unsigned *seed, char *cell, size_t words_max) {
  static const char *const words[] = {"a", "of", "turn.intake", "1.00 s", "日本", "e\xcc\x81t\xc3\xa9", "12", "memory"};
  size_t count = words_max ? 1 + (size_t)rand_r(seed) % words_max : 1;
  cell[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    if (i) strcat(cell, words_max ? " " : "");
    strcat(cell, words[(size_t)rand_r(seed) % (sizeof words / sizeof *words)]);
  }
}

TEST(no_row_is_wider_than_the_terminal_and_no_word_is_broken_or_lost) {
  for (unsigned seed = 1; seed <= 400; seed++) {
    unsigned random = seed;
    char texts[4 * COUNT][128];
    const char *cells[4 * COUNT];
    for (size_t i = 0; i < 4 * COUNT; i++) {
      make_cell(&random, texts[i], i % COUNT == NOTE ? 8 : 0);
      cells[i] = texts[i];
    }
    size_t width = 22 + seed % 60;
    char *text = table_of(below, width, false, cells, 4);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
      if (columns_of_line(line, end) > width) print_message("# seed %u, width %zu:\n%s\n", seed, width, text);
      assert_true(columns_of_line(line, end) <= width);
    }
    const char *at = text;
    for (size_t i = 0; i < 4 * COUNT; i++) { /* in the order of the cells, each word whole */
      char *rest = NULL, copy[128];
      snprintf(copy, sizeof copy, "%s", texts[i]);
      for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        const char *found = strstr(at, word);
        if (!found) print_message("# seed %u, width %zu, %s:\n%s\n", seed, width, word, text);
        assert_non_null(found);
        at = found + strlen(word);
      }
    }
    free(text);
  }
}

/* ---- locales ---- */

TEST(a_locale_without_utf8_has_marks_in_ascii) {
  static const struct {
    const char *variable, *value;
    bool ascii;
  } rows[] = {{NULL, NULL, false},
              {"LC_ALL", "C", true},
              {"LC_ALL", "POSIX", true},
              {"LC_ALL", "C.UTF-8", false},
              {"LC_ALL", "", false},
              {"LANG", "de_DE.ISO-8859-1", true},
              {"LANG", "xx_XX.UTF-8", false},
              {"LANG", "xx_XX.utf8", false},
              {"LC_CTYPE", "C", true},
              {"LANG", "de_DE", true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].variable) setenv(rows[i].variable, rows[i].value, 1);
    cli_locale_start();
    assert_int_equal(cli_locale_is_ascii(), rows[i].ascii);
    if (rows[i].variable) unsetenv(rows[i].variable);
  }
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("LANG", "C", 1);
  cli_locale_start();
  assert_false(cli_locale_is_ascii());
  unsetenv("LC_ALL");
  unsetenv("LANG");
  cli_locale_start();
}
