/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine workers that find little to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/exec/runtime.h"
#include "tests/support/host.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, PHASES = 300 };

static tp_answer answer(void *self, tp_call *call) {
  (void)self;
  (void)call;
  return TP_ANSWER_DONE;
}

static void phase_ended(void *ctx, const tp_phase_result *result) {
  (void)result;
  latch_hit(ctx);
}

/* Work of some microseconds comes about once a millisecond. Before, a worker looked for 30 us after each. */
static void looking_for_work_takes_less_time_than_the_work_that_is_found(void **state) {
  (void)state;
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options)});
  add_hooks(runtime, &(hook){.id = "h", .phase = GATHER, .run = answer}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  latch ended = LATCH;
  for (int i = 0; i < PHASES; i++) {
    assert_int_equal(tp_phase_submit(turn, GATHER, NULL, phase_ended, &ended, NULL), TP_OK);
    latch_wait(&ended, i + 1);
    sleep_ms(1);
  }
  tp_turn_end(turn);
  assert_int_equal(tp_runtime_drain(runtime, 0, NULL, NULL), TP_OK); /* the threads have ended */
  uint64_t worked_ns = tp__a64_load_acquire(&tp__runtime_sched(runtime)->workers.worked_ns);
  uint64_t searched_ns = tp__a64_load_acquire(&tp__runtime_sched(runtime)->workers.searched_ns);
  assert_true(worked_ns > 0);
  assert_true(searched_ns < worked_ns); /* a tenth, but for a search that the system interrupts */
  close_runtime(runtime);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(looking_for_work_takes_less_time_than_the_work_that_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
