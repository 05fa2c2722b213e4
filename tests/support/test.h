/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file of tests begins with: cmocka with the headers that it wants before it, and cases that register
 * themselves. A file of tests is a list of cases, and main() comes from tests/support/main.c:
 *
 *     TEST(what_holds_is_a_sentence) {
 *       assert_int_equal(1 + 1, 2);
 *     }
 *
 * The cases of a file run in the order of their lines; those of a program in the order of its files, by name. */
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

/* A case with a set-up and a tear-down of its own, instead of those of FOR_EACH_TEST. Each may be NULL. */
#define TEST_WITH(name, set_up, tear_down) TEST_CASE(name, true, set_up, tear_down)

/* Once in a file: runs before and after each TEST of the file. Each may be NULL. */
#define FOR_EACH_TEST(set_up, tear_down) TEST_FIXTURE(each, false, set_up, tear_down)

/* Once in a file: runs before the first case of the file and after its last. Each may be NULL. */
#define FOR_ALL_TESTS(set_up, tear_down) TEST_FIXTURE(all, true, set_up, tear_down)

/* One way to run the cases: with its name before theirs, and its state as their initial state. */
typedef struct test_variant {
  const char *name;
  void *state;
} test_variant;

/* For a file that has a main() of its own. Runs the cases that the arguments name, as `session`, the name of their file
 * without _test.c, or as a case, with `*` and `?` as in the shell; without arguments all. `--list` prints them.
 * @return the exit status: 0 all passed. */
int test_main(int count, char **arguments);

/* Runs each case once for each variant. */
int test_main_for_each(int count, char **arguments, const test_variant *variants, size_t variant_count);

/* Before test_main: leaves out the case of this name, since the machine lacks what it needs. */
void leave_out_test(const char *name);

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
  const char *file;
  bool is_for_all;
  CMFixtureFunction set_up, tear_down;
  struct test_fixture *next;
} test_fixture;

void test_add_case(test_case *one);
void test_add_fixture(test_fixture *one);

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

#define TEST_FIXTURE(which, is_all, set_up_, tear_down_)                                   \
  static test_fixture test_fixture_for_##which = {                                         \
      .file = __FILE__, .is_for_all = is_all, .set_up = set_up_, .tear_down = tear_down_}; \
  __attribute__((constructor)) static void test_add_fixture_for_##which(void) {            \
    test_add_fixture(&test_fixture_for_##which);                                           \
  }                                                                                        \
  struct test_fixture

#endif
