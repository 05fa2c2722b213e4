/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a model at a terminal: broken at words, with light Markdown, in pieces of any size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "cli/chat/prose.h"
#include "cli/common/quantity.h"
#include "cli/common/visible.h"

static int prepare(void **state) {
  (void)state;
  unsetenv("LC_ALL");
  unsetenv("LANG");
  cli_locale_start();
  return 0;
}

static int nothing(void **state) {
  (void)state;
  return 0;
}

FOR_ALL_TESTS(prepare, nothing);

/* What a terminal shows: "ESC [ n D ESC [ K" removes the text before the cursor, and paints are kept as they are. */
static void obey(const char *text, char *ret_shown) {
  size_t size = 0;
  for (; *text; text++) {
    char *end;
    long columns = text[0] == '\033' && text[1] == '[' ? strtol(text + 2, &end, 10) : 0;
    if (columns > 0 && *end == 'D') {
      while (columns > 0) {
        uint32_t code;
        cli_visibility visibility;
        do size--;
        while (((unsigned char)ret_shown[size] & 0xC0) == 0x80);
        (void)cli_visible_step((tp_text){ret_shown + size, 4}, &code, &visibility);
        columns -= (long)cli_visible_columns(code);
      }
      assert_int_equal(columns, 0);
      text = end + 3;
    } else {
      ret_shown[size++] = *text;
    }
    memset(ret_shown + size, 0, 5);
  }
  size = 0;
  for (const char *at = ret_shown; *at; at++) { /* blanks at the ends of lines are not seen */
    size_t blanks = strspn(at, " ");
    if (at[blanks] == '\n') at += blanks;
    ret_shown[size++] = *at;
  }
  ret_shown[size] = '\0';
}

/* @param piece  bytes at a time; 0: all. */
static void show(const char *text, size_t width, bool marks, size_t piece, char *ret_shown) {
  cli_output output = {.colour = marks};
  cli_prose prose = {.output = &output, .width = width, .marks = marks};
  FILE *real = stdout;
  char *written = NULL;
  size_t size, at = 0, all = strlen(text);
  assert_non_null(stdout = open_memstream(&written, &size));
  while (at < all) {
    size_t end = piece && at + piece < all ? at + piece : all;
    while (end < all && ((unsigned char)text[end] & 0xC0) == 0x80) end++; /* no code point is cut */
    cli_prose_put(&prose, (tp_text){text + at, end - at});
    at = end;
  }
  (void)cli_prose_end(&prose);
  fclose(stdout);
  stdout = real;
  obey(written, ret_shown);
  free(written);
}

static void expect(const char *text, size_t width, bool marks, const char *wanted) {
  for (size_t piece = 0; piece < 8; piece++) {
    char shown[4096] = "";
    show(text, width, marks, piece, shown);
    assert_string_equal(shown, wanted);
  }
}

TEST(lines_are_broken_at_words) {
  expect("one two three", 0, false, "one two three");
  expect("one two three", 9, false, "one two\nthree");
  expect("one two three", 8, false, "one two\nthree");
  expect("one  two\nthree four", 10, false, "one  two\nthree\nfour");
  expect("abcdefghijkl", 6, false, "abcde\nfghij\nkl");
  expect("a abcdefghijkl", 6, false, "a\nabcde\nfghij\nkl");
  expect("日本語日本", 6, false, "日本\n語日\n本");
  expect("a e\xcc\x81t\xc3\xa9 b", 7, false, "a e\xcc\x81t\xc3\xa9\nb");
}

#define BOLD "\033[0m\033[1m"
#define CODE "\033[0m\033[36m"
#define PLAIN "\033[0m"

TEST(marks_of_markdown_are_paints) {
  expect("a **b c** d", 40, true, "a " BOLD "b c" PLAIN " d");
  expect("use `ls -la` now", 40, true, "use " CODE "ls -la" PLAIN " now");
  expect("# Head\ntext", 40, true, BOLD "Head" PLAIN "\ntext");
  expect("- one\n* two", 40, true, "\xE2\x80\xA2 one\n\xE2\x80\xA2 two");
  expect("- one two three", 12, true, "\xE2\x80\xA2 one two\n  three");
  expect("```c\nint  a = **b;\n# x\n```\nend", 10, true, CODE "int  a = **b;\n# x\n" PLAIN "end");
}

TEST(what_is_no_mark_stays_as_it_is) {
  static const char *const texts[] = {"2 * 3 * 4", "2*3",        "a#b",    "-5",      "---", "#hash",    "a - b",
                                      "``",        "snake_case", "a ** b", "#######", "*",   "####### x"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) expect(texts[i], 40, true, texts[i]);
  expect("**a** `b` # c\n- d", 40, false, "**a** `b` # c\n- d");
}

TEST(a_mark_that_is_not_closed_ends_with_its_line) {
  expect("a **b\nc", 40, true, "a " BOLD "b" PLAIN "\nc");
  expect("a `b", 40, true, "a " CODE "b" PLAIN);
}
