/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases register themselves before main() (test.h); here they are put in order, chosen and run: the cases of a file are
 * one group of cmocka's. */
#include "tests/support/test.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static test_case *cases;
static test_fixture *fixtures;
static size_t case_count;

void test_add_case(test_case *one) {
  one->next = cases;
  cases = one;
  case_count++;
}

void test_add_fixture(test_fixture *one) {
  one->next = fixtures;
  fixtures = one;
}

static int by_file_and_line(const void *a, const void *b) {
  const test_case *first = *(test_case *const *)a, *second = *(test_case *const *)b;
  int order = strcmp(first->file, second->file);
  return order ? order : (first->line > second->line) - (first->line < second->line);
}

/* The cases in order; the caller frees. NULL ends them. */
static test_case **sorted_cases(void) {
  test_case **sorted = calloc(case_count + 1, sizeof *sorted);
  size_t count = 0;
  for (test_case *one = cases; sorted && one; one = one->next) sorted[count++] = one;
  if (sorted) qsort(sorted, count, sizeof *sorted, by_file_and_line);
  return sorted;
}

/* "session" of ".../unit/session_test.c". The next call overwrites it. */
static const char *stem_of(const char *file) {
  static char stem[128];
  const char *base = strrchr(file, '/');
  snprintf(stem, sizeof stem, "%s", base ? base + 1 : file);
  char *end = strstr(stem, "_test.c");
  if (end) *end = '\0';
  return stem;
}

static const test_fixture *fixture_of(const char *file, bool is_for_all) {
  for (const test_fixture *one = fixtures; one; one = one->next)
    if (one->is_for_all == is_for_all && strcmp(one->file, file) == 0) return one;
  return NULL;
}

static bool is_chosen(const test_case *one, int count, char **arguments) {
  for (int i = 1; i < count; i++)
    if (strcmp(arguments[i], stem_of(one->file)) == 0 || fnmatch(arguments[i], one->name, 0) == 0) return true;
  return count <= 1;
}

void leave_out_test(const char *name) {
  for (test_case **at = &cases; *at; at = &(*at)->next) {
    if (strcmp((*at)->name, name) != 0) continue;
    *at = (*at)->next;
    case_count--;
    return;
  }
  fprintf(stderr, "no case is called %s\n", name);
  abort();
}

/* Runs the cases of one file, each once for each variant. @return how many failed */
static int run_file(test_case **chosen, size_t count, const test_variant *variants, size_t variant_count) {
  const test_fixture *each = fixture_of(chosen[0]->file, false), *all = fixture_of(chosen[0]->file, true);
  struct CMUnitTest *tests = calloc(count * variant_count, sizeof *tests);
  char(*names)[160] = calloc(count * variant_count, sizeof *names);
  if (!tests || !names) abort();
  for (size_t i = 0; i < count * variant_count; i++) {
    const test_case *one = chosen[i % count];
    const test_variant *variant = &variants[i / count];
    snprintf(names[i], sizeof names[i], "%s%s%s", variant->name, *variant->name ? ": " : "", one->name);
    tests[i] = (struct CMUnitTest){.name = names[i],
                                   .test_func = one->function,
                                   .setup_func = one->has_own_fixture ? one->set_up
                                                 : each               ? each->set_up
                                                                      : NULL,
                                   .teardown_func = one->has_own_fixture ? one->tear_down
                                                    : each               ? each->tear_down
                                                                         : NULL,
                                   .initial_state = variant->state};
  }
  int failed = _cmocka_run_group_tests(stem_of(chosen[0]->file), tests, count * variant_count, all ? all->set_up : NULL,
                                       all ? all->tear_down : NULL);
  free(tests);
  free(names);
  return failed;
}

int test_main_for_each(int count, char **arguments, const test_variant *variants, size_t variant_count) {
  bool is_list = count == 2 && strcmp(arguments[1], "--list") == 0;
  test_case **sorted = sorted_cases();
  if (!sorted) abort();
  size_t chosen = 0;
  for (size_t i = 0; sorted[i]; i++)
    if (is_list || is_chosen(sorted[i], count, arguments)) sorted[chosen++] = sorted[i];
  int failed = 0;
  for (size_t begin = 0, end; begin < chosen; begin = end) {
    for (end = begin; end < chosen && strcmp(sorted[end]->file, sorted[begin]->file) == 0; end++)
      for (size_t v = 0; is_list && v < variant_count; v++)
        printf("%s: %s%s%s\n", stem_of(sorted[end]->file), variants[v].name, *variants[v].name ? ": " : "",
               sorted[end]->name);
    if (!is_list) failed += run_file(&sorted[begin], end - begin, variants, variant_count);
  }
  free(sorted);
  if (chosen == 0) fprintf(stderr, "%s has no such case (--list prints them)\n", arguments[0]);
  return chosen == 0 || failed ? 1 : 0;
}

int test_main(int count, char **arguments) {
  return test_main_for_each(count, arguments, &(test_variant){.name = ""}, 1);
}
