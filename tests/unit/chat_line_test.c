/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of turnphase chat as a script gives them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "cli/chat/line.h"

/* Standard input is a pipe from here on. @return its other end. */
static int feed(const char *text) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  close(ends[0]);
  assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
  return ends[1];
}

static void expect(cli_line *line, const char *wanted) {
  tp_text text;
  assert_int_equal(cli_line_read(line, NULL, &text), CLI_LINE_TEXT);
  assert_int_equal(text.size, strlen(wanted));
  assert_memory_equal(text.data, wanted, text.size);
}

TEST(lines_come_one_by_one_with_either_end_and_without_the_last) {
  int end = feed("one\n\ntwo\r\nthr");
  cli_line *line = cli_line_open(false, -1);
  tp_text text;
  expect(line, "one");
  expect(line, "");
  expect(line, "two");
  assert_int_equal(write(end, "ee", 2), 2);
  close(end);
  expect(line, "three");
  assert_int_equal(cli_line_read(line, NULL, &text), CLI_LINE_END);
  assert_int_equal(cli_line_read(line, NULL, &text), CLI_LINE_END);
  assert_int_equal(text.size, 0);
  cli_line_close(line);
}

TEST(the_bell_ends_the_wait_and_keeps_what_came) {
  uint64_t one = 1;
  int bell = eventfd(0, EFD_NONBLOCK), end = feed("");
  cli_line *line = cli_line_open(false, bell);
  tp_text text;
  assert_int_equal(write(bell, &one, sizeof one), sizeof one);
  assert_int_equal(cli_line_read(line, NULL, &text), CLI_LINE_LEAVE);
  assert_int_equal(write(end, "on\n", 3), 3);
  expect(line, "on");
  close(end);
  cli_line_close(line);
  close(bell);
}
