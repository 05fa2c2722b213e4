/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the steps of a driven turn: properties of each row, and that each order ends. */
#include "tests/support/test.h"
#include "phases/drive/steps.h"

TEST(row_is_a_phase_or_a_function) {
  for (int i = 1; i < TP__STEPS; i++) {
    const tp__step_row *row = &tp__step_rows[i];
    assert_true((row->run != NULL) != (row->phase != 0));
    if (row->run) assert_true(!row->fill && !row->keep && !row->then && !row->on_denial && !row->always);
    if (row->always) assert_true(!row->then && !row->on_denial); /* they would never be asked */
  }
}

TEST(no_phase_has_two_rows_but_the_one_that_sees_what_is_added) {
  for (int i = 1; i < TP__STEPS; i++)
    for (int j = 1; j < i; j++)
      assert_true(!tp__step_rows[i].phase || tp__step_rows[i].phase != tp__step_rows[j].phase ||
                  (i == TP__STEP_ADDED_INTAKE && j == TP__STEP_INTAKE));
}

/* From these, all that may follow. */
static uint32_t reached_from(uint32_t steps) {
  for (uint32_t before = 0; before != steps;) {
    before = steps;
    for (uint32_t from = 1; from < TP__STEPS; from++)
      for (uint32_t to = 1; (before & 1u << from) && to < TP__STEPS; to++)
        if (tp__step_may_follow((tp__step)from, (tp__step)to)) steps |= 1u << to;
  }
  return steps;
}

TEST(turn_reaches_every_step_but_those_of_a_closing_one) {
  uint32_t closing = 1u << TP__STEP_SESSION_END | 1u << TP__STEP_CLOSED, all = (1u << TP__STEPS) - 2;
  assert_int_equal(reached_from(1u << TP__STEP_LOAD), all & ~closing);
  assert_int_equal(reached_from(1u << TP__STEP_SESSION_END), closing);
}

TEST(every_step_leads_to_an_end) {
  uint32_t ends = 1u << TP__STEP_END | 1u << TP__STEP_CLOSED;
  for (uint32_t i = 1; i < TP__STEPS; i++) assert_true(reached_from(1u << i) & ends);
  for (uint32_t i = 1; i < TP__STEPS; i++) {
    assert_false(tp__step_may_follow(TP__STEP_END, (tp__step)i));
    assert_false(tp__step_may_follow(TP__STEP_CLOSED, (tp__step)i));
  }
}

TEST(what_stops_a_turn_goes_to_the_commit_once) {
  for (uint32_t i = 1; i < TP__STEPS; i++)
    assert_int_equal(tp__step_may_follow((tp__step)i, TP__STEP_COMMIT), i < TP__STEP_COMMIT);
}

TEST(order_that_the_table_does_not_have_is_refused) {
  assert_false(tp__step_may_follow(TP__STEP_NONE, TP__STEP_MODEL));
  assert_false(tp__step_may_follow(TP__STEP_INTAKE, TP__STEP_MODEL));
  assert_false(tp__step_may_follow(TP__STEP_MODEL, TP__STEP_TOOLS)); /* never around model.response */
  assert_false(tp__step_may_follow(TP__STEP_TOOLS, TP__STEP_MODEL_PRE));
  assert_false(tp__step_may_follow(TP__STEP_TOOL_BATCH, TP__STEP_MODEL_PRE)); /* never around what was added */
  assert_false(tp__step_may_follow(TP__STEP_ADDED_INTAKE, TP__STEP_MODEL_PRE));
  assert_false(tp__step_may_follow(TP__STEP_INTAKE, TP__STEP_ADDED_INTAKE));
  assert_false(tp__step_may_follow(TP__STEP_TOOLS, TP__STEP_MODEL_REQUEST)); /* never around model.pre */
  assert_false(tp__step_may_follow(TP__STEP_COMMIT, TP__STEP_END));          /* never around turn.post_turn */
  assert_false(tp__step_may_follow(TP__STEP_MODEL, TP__STEP_MODEL));
}
