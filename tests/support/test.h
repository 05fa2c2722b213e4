/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of every file of tests: cmocka, with the headers that it needs before it, and cases that register
 * themselves. A file of tests is a list of cases:
 *
 *     TEST(what_holds_is_a_sentence) {
 *       assert_int_equal(1 + 1, 2);
 *     }
 *
 * Files are linked together into few programs (tests/meson.build), and each file runs in a process of its own, so a
 * file cannot affect another one through its process. The cases of a file run in the order of their lines.
 *
 *     PROGRAM                   every file, one after the other
 *     PROGRAM session           the cases of session_test.c
 *     PROGRAM session 'queue*'  those of its cases that match, as in the shell
 *     PROGRAM queue_has_a_bound the cases of that name in any file
 *     PROGRAM --list            the names of all cases */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A case. */
#define TEST(name) TEST_CASE(name, false, NULL, NULL)

/* A case with its own set-up and tear-down, instead of those of FOR_EACH_TEST. Each may be NULL. */
#define TEST_WITH(name, set_up, tear_down) TEST_CASE(name, true, set_up, tear_down)

/* Once in a file: runs before and after each TEST of the file. Each may be NULL. */
#define FOR_EACH_TEST(set_up, tear_down) TEST_FIXTURE(each, set_up, tear_down)

/* Once in a file: runs before the first case of the file and after its last. Each may be NULL. */
#define FOR_ALL_TESTS(set_up, tear_down) TEST_FIXTURE(all, set_up, tear_down)

/* Once in a file: the main() of its process, for actions before its cases run. The first argument is the name of the
 * file. It ends with `return test_main(count, arguments);`. To skip the file because the machine lacks something, it
 * prints "1..0 # SKIP why" and returns 0. */
#define TEST_MAIN(count, arguments)                                                                     \
  static int test_file_main(int count, char **arguments);                                               \
  static test_file_with_main test_this_file = {.file = __FILE__, .run = test_file_main};                \
  __attribute__((constructor)) static void test_add_this_file(void) { test_add_main(&test_this_file); } \
  static int test_file_main(__attribute__((unused)) int count, __attribute__((unused)) char **arguments)

/* Runs the cases of the file that the arguments choose. @return the exit status: 0 all passed. */
int test_main(int count, char **arguments);

/* A variant in which the cases of a file run: its name precedes theirs, and its state is their initial state. */
typedef struct test_variant {
  const char *name;
  void *state;
} test_variant;

/* Runs each case once for each variant. */
int test_main_for_each(int count, char **arguments, const test_variant *variants, size_t variant_count);

/* In TEST_MAIN, before test_main: leaves out the case with this name, because the machine lacks something that it
 * needs. */
void test_leave_out(const char *name);

/* For a loop that repeats a play and refuses its first allocation, then its second, and so on: the step between two
 * refused allocations. It is 1 with TURNPHASE_ROUNDS set, as in ./dev test --long; 3 without a sanitizer; larger with
 * one, and very large when ThreadSanitizer would check a single thread. Many of the refused allocations are SQLite's
 * own. */
long test_refusal_step(void);

/* How often a loop with one thread plays, when it plays `rounds` times without a sanitizer: a quarter of that with one,
 * an eighth when ThreadSanitizer would check a single thread. All rounds with TURNPHASE_ROUNDS set. */
int test_rounds(int rounds);

/* "session" of ".../unit/session_test.c". The next call overwrites it. */
const char *test_file_name(const char *file);

/* ThreadSanitizer starts no threads in the child of a process with several threads; cases that fork ask for this. */
#if defined(__has_feature)
#define HAS_THREAD_SANITIZER __has_feature(thread_sanitizer)
#define HAS_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define HAS_THREAD_SANITIZER 1
#else
#define HAS_THREAD_SANITIZER 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ADDRESS_SANITIZER 1
#else
#define HAS_ADDRESS_SANITIZER 0
#endif
#endif

/* ---- what the macros are made of ---- */

typedef struct test_case {
  const char *file;
  int line;
  const char *name;
  CMUnitTestFunction function;
  bool has_own_fixture;
  CMFixtureFunction set_up, tear_down;
  struct test_case *next;
} test_case;

typedef struct test_fixture {
  const char *file, *kind; /* "each" or "all" */
  CMFixtureFunction set_up, tear_down;
  struct test_fixture *next;
} test_fixture;

typedef struct test_file_with_main {
  const char *file;
  int (*run)(int count, char **arguments);
  struct test_file_with_main *next;
} test_file_with_main;

void test_add_case(test_case *one);
void test_add_fixture(test_fixture *one);
void test_add_main(test_file_with_main *one);

#define TEST_CASE(case_name, is_own, set_up_, tear_down_)                                                           \
  static void case_name(void **state);                                                                              \
  static test_case test_case_of_##case_name = {.file = __FILE__,                                                    \
                                               .line = __LINE__,                                                    \
                                               .name = #case_name,                                                  \
                                               .function = case_name,                                               \
                                               .has_own_fixture = is_own,                                           \
                                               .set_up = set_up_,                                                   \
                                               .tear_down = tear_down_};                                            \
  __attribute__((constructor)) static void test_add_##case_name(void) { test_add_case(&test_case_of_##case_name); } \
  static void case_name(__attribute__((unused)) void **state)

#define TEST_FIXTURE(which, set_up_, tear_down_)                                     \
  static test_fixture test_fixture_for_##which = {                                   \
      .file = __FILE__, .kind = #which, .set_up = set_up_, .tear_down = tear_down_}; \
  __attribute__((constructor)) static void test_add_fixture_for_##which(void) {      \
    test_add_fixture(&test_fixture_for_##which);                                     \
  }                                                                                  \
  struct test_fixture

#endif
