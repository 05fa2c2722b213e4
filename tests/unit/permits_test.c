/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/test.h"
#include "runtime/sched/permits.h"

TEST(as_many_functions_run_as_there_are_permits) {
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

TEST(function_that_wants_its_permit_back_comes_before_new_ones) {
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

TEST(abandoned_functions_hold_their_permits_until_they_return) {
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
