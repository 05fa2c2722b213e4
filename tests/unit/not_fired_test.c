/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases that no turn runs yet, of which there is none: a host cannot name one of ours as its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/host.h"

static void only_phases_that_are_not_fired_can_be_named(void **state) {
  (void)state;
  static const uint32_t fired = TP_PHASE_TOOL_PRE, compaction = TP_PHASE_TURN_PRE_COMPACTION, unknown = 99;
  const struct {
    const uint32_t *fires;
    tp_status want;
    const char *words;
  } cases[] = {{&fired, TP_ERR_USAGE, "tool.pre, which is fired already"},
               {&compaction, TP_ERR_USAGE, "turn.pre_compaction, which is fired already"},
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_phases_that_are_not_fired_can_be_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
