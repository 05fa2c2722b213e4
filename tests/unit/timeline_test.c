/* SPDX-License-Identifier: Apache-2.0
 *
 * How texts are printed for people: characters that a terminal would obey or hide, and texts in several pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "cli/run/timeline.h"

/* Standard output, unbuffered: each write of the command is one here. */
static struct {
  char *text;
  size_t size, writes;
} printed;

static ssize_t keep(void *ctx, const char *bytes, size_t size) {
  (void)ctx;
  char *grown = realloc(printed.text, printed.size + size + 1);
  if (!grown) return -1;
  memcpy(grown + printed.size, bytes, size);
  printed.text = grown;
  printed.text[printed.size += size] = '\0';
  printed.writes++;
  return (ssize_t)size;
}

static void print(cli_output *output, tp_text text, size_t width) {
  FILE *real = stdout;
  FILE *counted = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep});
  assert_non_null(counted);
  setvbuf(counted, NULL, _IONBF, 0);
  free(printed.text);
  memset(&printed, 0, sizeof printed);
  stdout = counted;
  cli_print_cut(output, text, width);
  cli_output_stream(output, true); /* what is gathered is written */
  stdout = real;
  fclose(counted);
}

TEST(what_a_terminal_would_obey_or_hide_is_not_printed) {
  static const struct {
    const char *text, *shown;
    size_t width;
  } rows[] = {
      {"", NULL, 9},
      {"plain", "plain", 9},
      {"plain", "pla…", 3},
      {"plain", "…", 0},
      {"a\nb\tc\x7f"
       "d",
       "a b c d", 9},
      {"\n", " ", 9},
      {"\033[31mred", " [31mred", 20},
      {"a\xe2\x80\x8b"
       "b",
       "a<U+200B>b", 10},
      {"a\xe2\x80\x8b"
       "b",
       "a<U+200B>…", 9},
      {"\xe2\x80\xae\xe2\x80\xae", "<U+202E><U+202E>", 16},
      {"w\xc3\xb6rld", "w\xc3\xb6rld", 9},
      {"w\xc3\xb6rld", "w\xc3\xb6…", 2},
      {"\xc2\x85x", " x", 9},
      {"\xc2\xadx", "<U+00AD>x", 9},
      {"\xf0\x9f\x90\x88", "\xf0\x9f\x90\x88", 9},
      {"a\r", "a ", 9},
      {"\ra", " a", 9},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cli_output output = {0};
    print(&output, tp_text_of(rows[i].text), rows[i].width);
    assert_int_equal(printed.text != NULL, rows[i].shown != NULL);
    if (rows[i].shown) assert_string_equal(printed.text, rows[i].shown);
  }
}

/* A message of some megabytes took seconds, a write for each character. */
TEST(a_long_text_is_printed_in_few_pieces) {
  enum { SIZE = 1 << 20, LINE = 128 };
  char *text = malloc(SIZE);
  assert_non_null(text);
  memset(text, 'x', SIZE);
  cli_output output = {0};
  print(&output, (tp_text){text, SIZE}, SIZE_MAX);
  assert_int_equal(printed.size, SIZE);
  assert_in_range(printed.writes, 1, 2);
  for (size_t i = LINE; i < SIZE; i += LINE) text[i] = '\n';
  print(&output, (tp_text){text, SIZE}, SIZE_MAX);
  assert_int_equal(printed.size, SIZE);
  assert_in_range(printed.writes, 1, 2 * SIZE / LINE);
  output.width = 80; /* lines are gathered */
  memset(text, ' ', SIZE);
  for (size_t i = 0; i < SIZE; i += 2) text[i] = 'x';
  print(&output, (tp_text){text, SIZE}, SIZE_MAX);
  assert_in_range(printed.writes, 1, 3 * SIZE / 60);
  tp__bytes_fini(&output.line);
  free(printed.text);
  free(text);
}
