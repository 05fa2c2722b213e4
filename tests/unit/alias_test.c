/* SPDX-License-Identifier: Apache-2.0
 *
 * Aliases whose hooks must show nothing to the model: their contributions for the model are dropped with a diagnostic,
 * and the rest of the answer stays. */
#include "tests/support/test.h"
#include "tests/support/host.h"

static tp_answer emit_two(void *ctx, tp_call *call) {
  tp_status audit = tp_call_emit_audit(call, "kept", "this stays", NULL);
  tp_status status = ctx ? tp_call_emit_reminder(call, "remember", NULL)
                         : tp_call_emit_signal(call, "ability_guard", "ALLOWED", TP_SEVERITY_INFO, "y", NULL);
  if (audit != TP_OK || status != TP_OK) return tp_call_fail(call, 1, "an emit was refused");
  return TP_ANSWER_DONE;
}

TEST(reminders_and_signals_through_infra_aliases_are_dropped_and_the_rest_stays) {
  static const struct {
    const char *alias;
    uint32_t phase;
    bool reminder;
  } cases[] = {{"PostAbilityCall", TP_PHASE_TOOL_POST, true},
               {"PostAbilityCall", TP_PHASE_TOOL_POST, false},
               {"SessionStop", TP_PHASE_SESSION_END, true},
               {"SessionStop", TP_PHASE_SESSION_END, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tp_runtime *runtime = open_runtime(NULL);
    hook h = {.id = "h", .phase = cases[i].phase, .run = emit_two, .ctx = cases[i].reminder ? &h : NULL};
    tp_edit *edit;
    tp_handler handler = {.struct_size = sizeof handler,
                          .id = "h",
                          .run = emit_two,
                          .ctx = cases[i].reminder ? &h : NULL,
                          .phases = &h.phase,
                          .phase_count = 1,
                          .capabilities = TP_CAPABILITY_EMIT_AUDIT,
                          .placement = TP_PLACEMENT_INLINE};
    tp_subscription sub = {.struct_size = sizeof sub, .id = "h", .handler = "h", .phase_name = cases[i].alias};
    assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL), TP_OK);
    assert_int_equal(tp_edit_add_handler(edit, &handler, NULL), TP_OK);
    assert_int_equal(tp_edit_add_subscription(edit, &sub, NULL), TP_OK);
    assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result result = run_phase(turn, cases[i].phase, NULL);
    assert_int_equal(tp_phase_result_run(&result, 0)->state, TP_STATE_SUCCEEDED);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_AUDIT), 1);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_REMINDER), 0);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_SIGNAL), 0);
    assert_int_equal(tp_merged_count(result.merged, TP_CONTRIBUTION_DIAGNOSTIC), 1);
    tp_text key = tp_merged_get(result.merged, TP_CONTRIBUTION_DIAGNOSTIC, 0)->contribution->key;
    assert_int_equal(key.size, strlen("merge.alias"));
    assert_memory_equal(key.data, "merge.alias", key.size);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}
