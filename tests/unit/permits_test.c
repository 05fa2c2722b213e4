/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/sched/permits.h"

static void as_many_functions_run_as_there_are_permits(void **state) {
  (void)state;
  tp__permits permits;
  tp__permits_init(&permits);
  assert_null(tp__permits_first(&permits));
  assert_true(tp__permits_try(&permits, 2));
  assert_true(tp__permits_try(&permits, 2));
  assert_false(tp__permits_try(&permits, 2));
  assert_true(tp__permits_try(&permits, 3)); /* a newer plan grants one more */
  tp__permits_return(&permits, false);
  tp__permits_return(&permits, false);
  assert_true(tp__permits_try(&permits, 2));
}

static void function_that_wants_its_permit_back_comes_before_new_ones(void **state) {
  (void)state;
  tp__permits permits;
  tp__permits_init(&permits);
  assert_true(tp__permits_try(&permits, 1));
  tp__permits_return(&permits, false); /* it waits for something */
  assert_true(tp__permits_try(&permits, 1));
  tp__permits_reserve(&permits);
  assert_false(tp__permits_resume(&permits, 1));
  tp__permits_return(&permits, false);
  assert_false(tp__permits_try(&permits, 1));
  assert_true(tp__permits_resume(&permits, 1));
  assert_false(tp__permits_try(&permits, 1));
}

static void abandoned_functions_hold_their_permits_until_they_return(void **state) {
  (void)state;
  tp__permits permits;
  tp__permits_init(&permits);
  assert_true(tp__permits_try(&permits, 2) && tp__permits_try(&permits, 2));
  tp__permits_abandon(&permits);
  assert_false(tp__permits_are_lost(&permits, 2));
  tp__permits_abandon(&permits);
  assert_true(tp__permits_are_lost(&permits, 2));
  assert_false(tp__permits_try(&permits, 2));
  tp__permits_return(&permits, true);
  assert_false(tp__permits_are_lost(&permits, 2));
  assert_true(tp__permits_try(&permits, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_functions_run_as_there_are_permits),
      cmocka_unit_test(function_that_wants_its_permit_back_comes_before_new_ones),
      cmocka_unit_test(abandoned_functions_hold_their_permits_until_they_return),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
