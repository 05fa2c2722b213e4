/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases that no turn runs yet: a subscription to one is refused, unless the host runs the phase itself and says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/host.h"

static const char *const not_fired[] = {"turn.pre_compaction"};

static tp_answer deny(void *self, tp_call *call) {
  (void)self;
  return tp_call_deny(call, "never");
}

static tp_status hook_into(tp_runtime *runtime, const char *phase, tp_failure failure, tp_fault *fault) {
  tp_hook one = {.struct_size = sizeof one, .id = "guard", .phase = phase, .run = deny, .failure = failure};
  return tp_hook_add(runtime, &one, fault);
}

static void a_guard_where_nothing_is_fired_is_refused(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  for (size_t i = 0; i < COUNT(not_fired); i++) {
    tp_fault fault = {0};
    assert_int_equal(hook_into(runtime, not_fired[i], TP_FAILURE_DEFAULT, &fault), TP_ERR_PHASE_NOT_FIRED);
    assert_int_equal(fault.phase, tp_phase_find(runtime, not_fired[i]));
    assert_string_equal(fault.subject, "guard");
    assert_non_null(strstr(fault.message, "host_fires"));
    assert_true(tp_phase_get(runtime, fault.phase)->not_fired);
  }
  close_runtime(runtime);
}

static void a_disabled_one_is_refused_too(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(NULL);
  const hook hooks[] = {{.id = "guard", .phase = TP_PHASE_TURN_PRE_COMPACTION, .run = deny, .sub = {.disabled = true}}};
  tp_fault fault = {0};
  assert_int_equal(hooks_add(runtime, hooks, 1, &fault), TP_ERR_PHASE_NOT_FIRED);
  close_runtime(runtime);
}

static tp_answer count(void *self, tp_call *call) {
  (void)call;
  ++*(int *)self;
  return TP_ANSWER_DONE;
}

static void a_host_that_fires_it_itself_has_its_hook_called(void **state) {
  (void)state;
  static const uint32_t fires[] = {TP_PHASE_TURN_PRE_COMPACTION};
  tp_runtime_options options = {.struct_size = sizeof options, .host_fires = fires, .host_fires_count = COUNT(fires)};
  tp_runtime *runtime = open_runtime(&options);
  int calls = 0;
  assert_int_equal(tp_hook_add(runtime, HOOK("turn.pre_compaction", count, &calls), NULL), TP_OK);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_PRE_COMPACTION, NULL);
  assert_int_equal(result.outcome, TP_OK);
  assert_int_equal(calls, 1);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static void only_phases_that_are_not_fired_can_be_named(void **state) {
  (void)state;
  static const uint32_t fired = TP_PHASE_TOOL_PRE, unknown = 99;
  const struct {
    const uint32_t *fires;
    tp_status want;
    const char *words;
  } cases[] = {{&fired, TP_ERR_USAGE, "tool.pre, which is fired already"},
               {&unknown, TP_ERR_UNKNOWN_PHASE, "host_fires[0] is 99"},
               {NULL, TP_ERR_USAGE, "host_fires is NULL"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    tp_runtime_options options = {.struct_size = sizeof options, .host_fires = cases[i].fires, .host_fires_count = 1};
    tp_runtime *runtime;
    tp_fault fault = {0};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), cases[i].want);
    if (!strstr(fault.message, cases[i].words)) fail_msg("`%s` is not in: %s", cases[i].words, fault.message);
  }
}

typedef struct printed {
  char text[32768];
  size_t size;
} printed;

static void print_to(void *ctx, const char *text, size_t size) {
  printed *p = ctx;
  if (p->size + size >= sizeof p->text) return;
  memcpy(p->text + p->size, text, size);
  p->size += size;
}

static void the_table_of_phases_says_which_are_not_fired(void **state) {
  (void)state;
  static const uint32_t fires[] = {TP_PHASE_TURN_PRE_COMPACTION};
  for (size_t fired = 0; fired < 2; fired++) {
    static printed table, json;
    table.size = json.size = 0;
    tp_runtime_options options = {.struct_size = sizeof options, .host_fires = fires, .host_fires_count = fired};
    tp_runtime *runtime = open_runtime(&options);
    assert_int_equal(tp_phases_print(runtime, TP_PLAN_TABLE, print_to, &table), TP_OK);
    assert_int_equal(tp_phases_print(runtime, TP_PLAN_JSON, print_to, &json), TP_OK);
    table.text[table.size] = json.text[json.size] = '\0';
    assert_non_null(strstr(table.text, fired ? "fired by the host" : "not fired yet"));
    assert_non_null(strstr(json.text, "\"fired_by\":\"turns\""));
    assert_non_null(strstr(json.text, fired ? "\"fired_by\":\"host\"" : "\"fired_by\":null"));
    close_runtime(runtime);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_guard_where_nothing_is_fired_is_refused),
      cmocka_unit_test(a_disabled_one_is_refused_too),
      cmocka_unit_test(a_host_that_fires_it_itself_has_its_hook_called),
      cmocka_unit_test(only_phases_that_are_not_fired_can_be_named),
      cmocka_unit_test(the_table_of_phases_says_which_are_not_fired),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
