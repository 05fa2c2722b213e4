/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of turnphase chat as a script gives them, and the answer to a question. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/chat/ask.h"
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

static void lines_come_one_by_one_with_either_end_and_without_the_last(void **state) {
  (void)state;
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

static void the_bell_ends_the_wait_and_keeps_what_came(void **state) {
  (void)state;
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

static void everything_but_yes_denies(void **state) {
  (void)state;
  static const struct {
    const char *typed;
    tp_verdict verdict;
  } rows[] = {{"y\n", TP_VERDICT_ALLOW},   {"YES\n", TP_VERDICT_ALLOW}, {"\n", TP_VERDICT_DENY},
              {"n\n", TP_VERDICT_DENY},    {"yet\n", TP_VERDICT_DENY},  {"ye\n", TP_VERDICT_DENY},
              {" yes\n", TP_VERDICT_DENY}, {"", TP_VERDICT_DENY}};
  cli_output output = {.error = 1}; /* nothing is written, and the prompt goes nowhere */
  int shown = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
  fflush(stdout);
  assert_int_equal(dup2(nowhere, STDOUT_FILENO), STDOUT_FILENO);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    cli_screen screen = {.output = &output};
    tp_tool_call call = {.struct_size = sizeof call, .name = tp_text_of("shell")};
    tp_question question = {.struct_size = sizeof question,
                            .call = &call,
                            .subscription = tp_text_of("guard"),
                            .reason = tp_text_of("it deletes"),
                            .arguments_hash = tp_text_of("hash")};
    tp_decision decision;
    close(feed(rows[i].typed));
    cli_line *line = cli_line_open(false, -1);
    cli_ask(&screen, line, &question, &decision);
    assert_int_equal(decision.verdict, rows[i].verdict);
    assert_int_equal(decision.struct_size, sizeof decision);
    assert_memory_equal(decision.arguments_hash.data, "hash", 4);
    cli_line_close(line);
  }
  assert_int_equal(dup2(shown, STDOUT_FILENO), STDOUT_FILENO);
  close(shown);
  close(nowhere);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_come_one_by_one_with_either_end_and_without_the_last),
      cmocka_unit_test(the_bell_ends_the_wait_and_keeps_what_came),
      cmocka_unit_test(everything_but_yes_denies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
