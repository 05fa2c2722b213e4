/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of lists: memory after the last element is not read. The memory of the registry is filled with values that
 * would change the result if they were read. */
#include "tests/support/test.h"
#include "runtime/plan/registry.h"
#include "tests/unit/plan_world.h"

static world *world_full_of(uint32_t word) {
  world *w = world_open();
  w->count.fill = word;
  return w;
}

/* Long enough to be in a separate allocation, and odd, so that a word is left before the next object. */
enum { PHASES_LISTED = 127 };

TEST(handler_supports_no_phase_behind_the_end_of_its_list) {
  uint32_t phases[PHASES_LISTED];
  for (size_t i = 0; i < PHASES_LISTED; i++) phases[i] = i % 2 ? OBSERVE : GATHER;
  world *w = world_full_of(STOP);
  tp_edit *edit = edit_of(w);
  tp_handler handler = handler_of("h");
  handler.phases = phases;
  handler.phase_count = PHASES_LISTED;
  assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
  add(edit, subscription_of("s", STOP));
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_UNSUPPORTED_PHASE);
  tp_edit_discard(edit);
  world_close(w);
}

static int32_t always(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_YES;
}

TEST(match_reads_no_field_behind_the_end_of_its_list) {
  static const uint32_t fields[] = {TP_FIELD_TEXT};
  world *w = world_full_of(4711); /* no field */
  tp_edit *edit = edit_with_handler(w);
  tp_subscription subscription = subscription_of("s", GATHER);
  subscription.match = &(tp_match){
      .struct_size = sizeof(tp_match), .matches = always, .description = "always", .fields = fields, .field_count = 1};
  add(edit, subscription);
  commit(w, edit);
  world_close(w);
}

TEST(phase_carries_no_field_behind_the_end_of_its_list) {
  static const uint32_t fields[] = {TP_FIELD_TEXT, TP_FIELD_TOOL, TP_FIELD_RESULT}; /* the world's rows have two */
  world *w = world_full_of(TP_FIELD_RESULT);
  tp_edit *edit = edit_with_handler(w);
  tp_subscription subscription = subscription_of("s", GATHER);
  subscription.match = &(tp_match){.struct_size = sizeof(tp_match),
                                   .matches = always,
                                   .description = "always",
                                   .fields = &fields[2],
                                   .field_count = 1};
  add(edit, subscription);
  assert_int_equal(tp_edit_commit(edit, NULL, &w->fault), TP_ERR_MATCH_KEY);
  tp_edit_discard(edit);
  world_close(w);
}

TEST(fallback_has_no_contribution_behind_the_end_of_its_list) {
  static const tp_contribution context = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                          .key = {"k", 1},
                                          .text = {"words", 5}};
  world *w = world_full_of(4711); /* no kind */
  tp_edit *edit = edit_with_handler(w);
  tp_subscription subscription = subscription_of("s", GATHER);
  subscription.failure = TP_FAILURE_FALLBACK;
  subscription.fallback = (const tp_contribution *const[]){&context};
  subscription.fallback_count = 1;
  add(edit, subscription);
  commit(w, edit);
  world_close(w);
}

TEST(policies_beyond_the_last_one_are_unknown) {
  assert_string_equal(tp_execution_name(TP_EXECUTION_BACKGROUND), "background");
  assert_string_equal(tp_failure_name(TP_FAILURE_REQUIRED), "required");
  for (int beyond = 1; beyond <= 3; beyond++) {
    assert_string_equal(tp_execution_name((tp_execution)(TP_EXECUTION_BACKGROUND + beyond)), "unknown");
    assert_string_equal(tp_failure_name((tp_failure)(TP_FAILURE_REQUIRED + beyond)), "unknown");
  }
}
