/* SPDX-License-Identifier: Apache-2.0
 *
 * Declared hooks in the graph of their phase: order by priority and edges, hooks that run at once, and their limits. */
#include "tests/support/test.h"
#include "tests/support/hook_files.h"

FOR_EACH_TEST(make_directory, remove_directory);

static const struct {
  const char *phase_name;
  tp_phase_id phase;
} chain = {"tool.pre", TP_PHASE_TOOL_PRE}, gather = {"session.start", TP_PHASE_SESSION_START},
  observe = {"tool.post", TP_PHASE_TOOL_POST};

static void run_in_turn(tp_runtime *runtime, tp_phase_id phase) {
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, phase, NULL, &result, NULL), TP_OK);
  assert_int_equal(result.outcome, TP_OK);
  tp_turn_end(turn);
}

/* A hook that appends its id to the file `order`. */
static void write_member(const char *id, const char *event, const char *more) {
  char text[600], name[40];
  snprintf(name, sizeof name, "%s.yaml", id);
  snprintf(text, sizeof text, "id: %s\nevent: %s\nhandler: {command: [sh, -c, 'echo %s >> order']}\n%s", id, event, id,
           more);
  write_named(name, text);
}

static void assert_order(const char *expected) {
  char order[200];
  read_back("order", order, sizeof order);
  for (char *c = order; *c; c++)
    if (*c == '\n') *c = ' ';
  assert_string_equal(order, expected);
}

/* ---- order ---- */

TEST(priority_and_edges_order_hooks_and_file_names_break_ties) {
  static const struct {
    const char *a, *b, *c;
    const char *order;
  } rows[] = {
      {"", "", "", "a b c "},
      {"", "", "priority: -1\n", "c a b "},
      {"priority: 5\n", "priority: 5\n", "", "c a b "},
      {"priority: 3\n", "priority: 2\n", "priority: 1\n", "c b a "},
      {"", "", "before: a\n", "b c a "},
      {"", "", "before: [a, b]\n", "c a b "},
      {"after: c\n", "", "", "b c a "},
      {"after: [b, c]\n", "", "", "b c a "},
      {"after: c\n", "after: a\n", "", "c a b "},
      {"requires: b\n", "", "", "b a c "},
      {"requires: b\n", "requires: c\n", "", "c b a "},
      {"priority: -9\nafter: c\n", "", "priority: 9\n", "b c a "},
      {"sequential: true\n", "sequential: true\n", "sequential: true\n", "a b c "},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    write_named("order", "");
    write_member("a", chain.phase_name, rows[i].a);
    write_member("b", chain.phase_name, rows[i].b);
    write_member("c", chain.phase_name, rows[i].c);
    tp_runtime *runtime = open_with_hooks(NULL);
    run_in_turn(runtime, chain.phase);
    assert_order(rows[i].order);
    close_runtime(runtime);
  }
}

TEST(sequential_hooks_of_a_phase_that_gathers_run_in_the_order_of_their_files) {
  write_named("order", "");
  for (char id[] = "a"; id[0] <= 'e'; id[0]++) write_member(id, gather.phase_name, "sequential: true\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  run_in_turn(runtime, gather.phase);
  assert_order("a b c d e ");
  close_runtime(runtime);
}

TEST(edge_to_a_hook_that_is_disabled_names_that) {
  static const char *const words[] = {"after", "before", "requires"};
  for (size_t i = 0; i < COUNT(words); i++) {
    char more[40];
    snprintf(more, sizeof more, "%s: b\n", words[i]);
    write_member("a", chain.phase_name, more);
    write_member("b", chain.phase_name, "enabled: false\n");
    tp_runtime *runtime = open_runtime(NULL);
    tp_hooks *hooks;
    tp_fault fault = {0};
    assert_int_equal(read_hooks(runtime, NULL, &hooks, &fault), TP_OK);
    assert_int_equal(tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault), TP_ERR_DISABLED_DEPENDENCY);
    assert_non_null(strstr(fault.message, "`b`: that one is disabled"));
    assert_non_null(strstr(fault.subject, "a.yaml"));
    tp_hooks_free(hooks);
    close_runtime(runtime);
  }
}

TEST(hook_that_is_disabled_runs_once_an_edit_enables_it) {
  write_named("order", "");
  write_member("a", chain.phase_name, "enabled: false\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  run_in_turn(runtime, chain.phase);
  assert_order("");
  tp_edit *edit;
  tp_owner owner = {.struct_size = sizeof owner, .name = "declared", .trust = TP_TRUST_DECLARED};
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  assert_int_equal(tp_edit_enable(edit, "a", true, NULL), TP_OK);
  assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
  run_in_turn(runtime, chain.phase);
  assert_order("a ");
  close_runtime(runtime);
}

/* ---- at once ---- */

/* Each waits until all others have begun. If they ran one after the other, they would never end. */
static void write_meeting(const char *event, int count) {
  for (int i = 0; i < count; i++) {
    char name[40], text[600];
    snprintf(name, sizeof name, "meet_%d.yaml", i);
    snprintf(text, sizeof text,
             "id: meet_%d\nevent: %s\nhandler: {timeout_ms: 20000, command: [sh, -c, 'touch here.%d; "
             "until [ $(ls | grep -c ^here) = %d ]; do sleep 0.01; done; touch met.%d']}\n",
             i, event, i, count, i);
    write_named(name, text);
  }
}

TEST(hooks_of_a_phase_that_gathers_or_observes_run_at_once) {
  const char *const events[] = {gather.phase_name, observe.phase_name};
  const tp_phase_id phases[] = {gather.phase, observe.phase};
  for (size_t i = 0; i < COUNT(events); i++) {
    char met[8];
    write_meeting(events[i], 3);
    tp_runtime *runtime = open_with_hooks(NULL);
    run_in_turn(runtime, phases[i]);
    for (int k = 0; k < 3; k++) {
      char name[16], file[200];
      snprintf(name, sizeof name, "met.%d", k);
      read_back(name, met, sizeof met);
      snprintf(file, sizeof file, "%s/%s", directory, name);
      unlink(file);
      snprintf(file, sizeof file, "%s/here.%d", directory, k);
      unlink(file);
    }
    close_runtime(runtime);
  }
}

static void add_text(void *ctx, const char *data, size_t size) {
  char *text = ctx;
  size_t used = strlen(text);
  if (used + size < 8192) snprintf(text + used, 8192 - used, "%.*s", (int)size, data);
}

static void assert_budget(tp_runtime *runtime, tp_phase_id phase, const char *expected) {
  char text[8192] = "";
  assert_int_equal(tp_plan_print(runtime, phase, TP_PLAN_JSON, add_text, text), TP_OK);
  if (!strstr(text, expected)) fail_msg("no %s in %s", expected, text);
}

/* Three hooks with limits of 60, 61 and 62 s: first all at once (62 s), then one after the other (183 s). */
TEST(phase_that_observes_has_the_time_of_its_longest_path) {
  for (int in_line = 0; in_line <= 1; in_line++) {
    for (int i = 0; i < 3; i++) {
      char name[40], text[300];
      snprintf(name, sizeof name, "check_%d.yaml", i);
      snprintf(text, sizeof text,
               "id: check_%d\nprotocol: claude-code\nevent: PostToolUse\nsequential: %s\n"
               "handler: {timeout_ms: %d, command: [sh, -c, 'exit 0']}\n",
               i, in_line ? "true" : "false", 60000 + 1000 * i);
      write_named(name, text);
    }
    tp_runtime *runtime = open_with_hooks(NULL);
    assert_budget(runtime, observe.phase, in_line ? "\"budget_ms\":183000" : "\"budget_ms\":62000");
    close_runtime(runtime);
  }
}

/* Runs of other calls come before it, each with its own limit: 64 calls have the time of 64 runs. */
TEST(phase_that_observes_has_the_time_of_a_line_before_a_permit) {
  static const struct {
    int permits;
    const char *budget;
  } rows[] = {{1, "\"budget_ms\":128000"},
              {2, "\"budget_ms\":64000"},
              {64, "\"budget_ms\":2000"},
              {1024, "\"budget_ms\":2000"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[300];
    snprintf(
        text, sizeof text,
        "id: count\nevent: tool.post\nmax_concurrent: %d\nhandler: {timeout_ms: 2000, command: [sh, -c, 'exit 0']}\n",
        rows[i].permits);
    write_named("count.yaml", text);
    tp_runtime *runtime = open_with_hooks(NULL);
    assert_budget(runtime, observe.phase, rows[i].budget);
    close_runtime(runtime);
  }
}

/* ---- permits ---- */

/* Each says when it begins and when it ends: with one permit no two overlap. */
TEST(hook_with_one_permit_runs_once_at_a_time) {
  enum { TURNS = 12 };
  write_named("log", "");
  write_named("one.yaml",
              "id: one\nevent: tool.post\nblocking: false\nmax_concurrent: 1\n"
              "handler: {timeout_ms: 60000, command: [sh, -c, 'echo begin >> log; sleep 0.01; echo end >> log']}\n");
  tp_runtime *runtime = open_with_hooks(NULL);
  for (int i = 0; i < TURNS; i++) run_in_turn(runtime, observe.phase);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, 60000, &report, NULL), TP_OK);
  assert_true(report.complete);
  char log[4096], expected[4096] = "";
  for (int i = 0; i < TURNS; i++) strcat(expected, "begin\nend\n");
  read_back("log", log, sizeof log);
  assert_string_equal(log, expected);
  tp_runtime_free(runtime);
}

TEST(keys_of_order_and_permits_are_checked) {
  static const char *const wrong[] = {"max_concurrent: 0\n",
                                      "max_concurrent: 1025\n",
                                      "max_concurrent: one\n",
                                      "sequential: 1\n",
                                      "sequential: perhaps\n",
                                      "priority: high\n",
                                      "priority: 3000000000\n",
                                      "after: {a: b}\n",
                                      "before: 7\n",
                                      "after: a\n"};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    write_member("a", gather.phase_name, wrong[i]);
    tp_runtime *runtime = open_runtime(NULL);
    tp_hooks *hooks = NULL;
    tp_fault fault = {0};
    tp_status status = read_hooks(runtime, NULL, &hooks, &fault);
    if (status == TP_OK) status = tp_hooks_commit(hooks, NULL, tp_hooks_hash(hooks), NULL, &fault);
    if (status == TP_OK) fail_msg("%s was taken", wrong[i]);
    assert_true(fault.line > 0);
    if (hooks) tp_hooks_free(hooks);
    close_runtime(runtime);
  }
}
