/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases register themselves before main() (test.h). This file sorts, selects and runs them: the cases of a file are one
 * group of cmocka, in a process of their own. */
#include "tests/support/test.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static test_case *cases;
static test_fixture *fixtures;
static test_file_with_main *mains;

void test_add_case(test_case *one) {
  one->next = cases;
  cases = one;
}

void test_add_fixture(test_fixture *one) {
  one->next = fixtures;
  fixtures = one;
}

void test_add_main(test_file_with_main *one) {
  one->next = mains;
  mains = one;
}

const char *test_file_name(const char *file) {
  static char name[128];
  const char *base = strrchr(file, '/');
  snprintf(name, sizeof name, "%s", base ? base + 1 : file);
  char *end = strstr(name, "_test.c");
  if (end) *end = '\0';
  return name;
}

void test_leave_out(const char *name) {
  for (test_case **at = &cases; *at; at = &(*at)->next) {
    if (strcmp((*at)->name, name) != 0) continue;
    *at = (*at)->next;
    return;
  }
  fprintf(stderr, "no case is called %s\n", name);
  abort();
}

static int by_file_and_line(const void *a, const void *b) {
  const test_case *first = *(test_case *const *)a, *second = *(test_case *const *)b;
  int order = strcmp(first->file, second->file);
  return order ? order : (first->line > second->line) - (first->line < second->line);
}

long test_refusal_step(void) {
  if (getenv("TURNPHASE_ROUNDS")) return 1;
  return HAS_THREAD_SANITIZER ? 41 : HAS_ADDRESS_SANITIZER ? 7 : 3;
}

int test_rounds(int rounds) {
  if (getenv("TURNPHASE_ROUNDS")) return rounds;
  return HAS_THREAD_SANITIZER ? rounds / 8 : HAS_ADDRESS_SANITIZER ? rounds / 4 : rounds;
}

/* The cases of the file with this name, or of all files when it is NULL, that match a pattern, or all without patterns;
 * in order. The caller frees the list. */
static test_case **choose(const char *file_name, int pattern_count, char **patterns, size_t *ret_count) {
  size_t count = 0;
  for (test_case *one = cases; one; one = one->next) count++;
  test_case **chosen = calloc(count + 1, sizeof *chosen);
  if (!chosen) abort();
  *ret_count = 0;
  for (test_case *one = cases; one; one = one->next) {
    bool matches = pattern_count == 0;
    if (file_name && strcmp(file_name, test_file_name(one->file)) != 0) continue;
    for (int i = 0; i < pattern_count; i++) matches = matches || fnmatch(patterns[i], one->name, 0) == 0;
    if (matches) chosen[(*ret_count)++] = one;
  }
  qsort(chosen, *ret_count, sizeof *chosen, by_file_and_line);
  return chosen;
}

/* ---- one file, in this process ---- */

static test_fixture fixture_of(const char *file, const char *kind) {
  for (const test_fixture *one = fixtures; one; one = one->next)
    if (strcmp(one->kind, kind) == 0 && strcmp(one->file, file) == 0) return *one;
  return (test_fixture){.file = file};
}

int test_main_for_each(int count, char **arguments, const test_variant *variants, size_t variant_count) {
  size_t chosen_count;
  test_case **chosen = choose(arguments[0], count - 1, arguments + 1, &chosen_count);
  size_t test_count = chosen_count * variant_count;
  struct CMUnitTest *tests = calloc(test_count + 1, sizeof *tests);
  char(*names)[160] = calloc(test_count + 1, sizeof *names);
  if (!tests || !names) abort();
  if (test_count == 0) {
    fprintf(stderr, "%s has no such case (--list prints them)\n", arguments[0]);
    exit(2);
  }
  test_fixture each = fixture_of(chosen[0]->file, "each"), all = fixture_of(chosen[0]->file, "all");
  for (size_t i = 0; i < test_count; i++) {
    const test_case *one = chosen[i % chosen_count];
    const test_variant *variant = &variants[i / chosen_count];
    snprintf(names[i], sizeof names[i], "%s%s%s", variant->name, *variant->name ? ": " : "", one->name);
    tests[i] = (struct CMUnitTest){.name = names[i],
                                   .test_func = one->function,
                                   .setup_func = one->has_own_fixture ? one->set_up : each.set_up,
                                   .teardown_func = one->has_own_fixture ? one->tear_down : each.tear_down,
                                   .initial_state = variant->state};
  }
  int failed = _cmocka_run_group_tests(arguments[0], tests, test_count, all.set_up, all.tear_down);
  free(names);
  free(tests);
  free(chosen);
  return failed ? 1 : 0;
}

int test_main(int count, char **arguments) {
  return test_main_for_each(count, arguments, &(test_variant){.name = ""}, 1);
}

static int run_file(int count, char **arguments) {
  for (const test_file_with_main *one = mains; one; one = one->next)
    if (strcmp(test_file_name(one->file), arguments[0]) == 0) return one->run(count, arguments);
  return test_main(count, arguments);
}

/* ---- several files, each in a process of its own ---- */

/* Runs this program with the name of the file and the patterns. @return whether all passed */
static bool spawn_file(const char *program, const char *file, int pattern_count, char **patterns) {
  char **arguments = calloc((size_t)pattern_count + 3, sizeof *arguments);
  if (!arguments) abort();
  arguments[0] = (char *)(uintptr_t)program;
  arguments[1] = strdup(test_file_name(file));
  for (int i = 0; i < pattern_count; i++) arguments[2 + i] = patterns[i];
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    execv("/proc/self/exe", arguments);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) fprintf(stderr, "# %s failed\n", arguments[1]);
  free(arguments[1]);
  free(arguments);
  return status == 0;
}

static bool is_file(const char *name) {
  for (const test_case *one = cases; one; one = one->next)
    if (strcmp(test_file_name(one->file), name) == 0) return true;
  for (const test_file_with_main *one = mains; one; one = one->next)
    if (strcmp(test_file_name(one->file), name) == 0) return true;
  return false;
}

int main(int count, char **arguments) {
  if (count > 1 && is_file(arguments[1])) return run_file(count - 1, arguments + 1);
  bool is_list = count == 2 && strcmp(arguments[1], "--list") == 0, passed = true;
  size_t chosen_count;
  test_case **chosen = choose(NULL, is_list ? 0 : count - 1, arguments + 1, &chosen_count);
  for (size_t i = 0; i < chosen_count; i++) {
    if (is_list) printf("%s %s\n", test_file_name(chosen[i]->file), chosen[i]->name);
    else if (i == 0 || strcmp(chosen[i - 1]->file, chosen[i]->file) != 0)
      passed = spawn_file(arguments[0], chosen[i]->file, count - 1, arguments + 1) && passed;
  }
  free(chosen);
  if (chosen_count == 0) fprintf(stderr, "%s has no such case (--list prints them)\n", arguments[0]);
  return chosen_count == 0 ? 2 : passed ? 0 : 1;
}
