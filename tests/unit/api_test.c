/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the public API that are refused, or harmless. */
#include "tests/support/test.h"
#include "tests/support/host.h"

static tp_answer count_call(void *ctx, tp_tool_run *run) {
  ++*(int *)ctx;
  return tp_tool_ok(run, tp_text_of("done"));
}

typedef struct one_tool {
  bool is_inline;
  int calls;
} one_tool;

static tp_answer contribute_tool(void *ctx, tp_call *call) {
  one_tool *t = ctx;
  tp_tool tool = {.struct_size = sizeof tool,
                  .name = "t",
                  .run = count_call,
                  .ctx = &t->calls,
                  .placement = t->is_inline ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  const tp_tool *tools[] = {&tool};
  (void)tp_call_emit_tool_bundle(call, "b", tools, 1, NULL);
  return TP_ANSWER_DONE;
}

TEST(tool_of_a_cancelled_turn_never_runs) {
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    tp_runtime *runtime = open_runtime(NULL);
    one_tool tool = {.is_inline = is_inline};
    assert_int_equal(tp_hook_add(runtime, HOOK("turn.pre_tool_materialization", contribute_tool, &tool), NULL), TP_OK);
    tp_turn *turn = begin_bare(runtime, 0);
    tp_phase_result contributed = run_phase(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL);
    assert_int_equal(contributed.outcome, TP_OK);
    tp_turn_cancel(turn);
    tp_tool_call call = {.name = tp_text_of("t"), .arguments = {"\x80", 1}};
    tp_tool_result result;
    assert_int_equal(tools_run(turn, &call, 1, &result, NULL), TP_OK);
    assert_int_equal(result.kind, TP_TOOL_CANCELLED);
    assert_false(result.started);
    assert_int_equal(tool.calls, 0);
    tp_turn_end(turn);
    close_runtime(runtime);
  }
}

TEST(phase_of_a_cancelled_turn_ends_as_cancelled) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = TP_PHASE_TURN_INTAKE, .ctx = &a}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_turn_cancel(turn);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
  assert_int_equal(result.outcome, TP_ERR_CANCELLED);
  assert_int_equal(a.calls, 0);
  tp_turn_end(turn);
  tp_turn_cancel(NULL);
  close_runtime(runtime);
}

static void count_end(void *ctx) { ++*(int *)ctx; }

TEST(report_without_a_size_is_refused_and_nothing_is_done) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_drain_report drained = {.struct_size = 0};
  tp_commit_report committed = {.struct_size = 0};
  tp_fault fault;
  tp_edit *edit;
  assert_int_equal(tp_runtime_drain(runtime, 0, &drained, &fault), TP_ERR_VERSION);
  assert_non_null(strstr(fault.message, "tp_drain_report: struct_size is 0"));
  assert_int_equal(tp_edit_begin(runtime, NULL, &edit, NULL),
                   TP_OK); /* it was not drained, and the edit is still open */
  assert_int_equal(tp_edit_commit(edit, &committed, &fault), TP_ERR_VERSION);
  assert_non_null(strstr(fault.message, "tp_commit_report: struct_size is 0"));
  committed.struct_size = offsetof(tp_commit_report, handlers);
  assert_int_equal(tp_edit_commit(edit, &committed, &fault), TP_OK);
  assert_int_equal(committed.struct_size, offsetof(tp_commit_report, handlers));
  assert_int_equal(committed.snapshot_version, 1);
  assert_int_equal(committed.handlers, 0);
  close_runtime(runtime);
}

TEST(session_that_a_drain_ended_is_closed_by_its_host) {
  tp_runtime *runtime = open_runtime(NULL);
  act ends = {0};
  add_hooks(runtime, &(hook){.id = "e", .phase = TP_PHASE_SESSION_END, .ctx = &ends}, 1);
  tp_session_options options = {.struct_size = sizeof options, .id = "s"};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_runtime_drain(runtime, 1000, NULL, NULL), TP_OK);
  assert_int_equal(ends.calls, 1);
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("late")};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_ERR_SHUTDOWN);
  int ended = 0;
  tp_session_close(session, count_end, &ended);
  assert_int_equal(ended, 1);
  assert_int_equal(ends.calls, 1);
  close_runtime(runtime);
}

TEST(what_is_not_utf8_or_too_long_is_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {0};
  add_hooks(runtime, &(hook){.id = "a", .phase = TP_PHASE_TURN_INTAKE, .ctx = &a}, 1);
  char longer[200];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  tp_turn_request requests[] = {{.struct_size = sizeof *requests, .mode = "\xff"},
                                {.struct_size = sizeof *requests, .task = "\xff"},
                                {.struct_size = sizeof *requests, .run = longer}};
  tp_turn *turn = NULL;
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
    assert_int_equal(tp_turn_begin_bare(runtime, &requests[i], &turn, NULL), TP_ERR_BAD_ID);
  turn = begin_bare(runtime, 0);
  tp_field field = {.id = TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of("caf\xe9")};
  tp_phase_input input = {.struct_size = sizeof input, .fields = &field, .field_count = 1};
  tp_phase_result result = {.struct_size = sizeof result};
  assert_int_equal(tp_phase_run(turn, TP_PHASE_TURN_INTAKE, &input, &result, NULL), TP_ERR_UTF8);
  assert_int_equal(a.calls, 0);
  tp_turn_end(turn);
  close_runtime(runtime);
}

static tp_status no_record(void *ctx, const tp_entry_record *record) {
  (void)ctx;
  (void)record;
  return TP_OK;
}

TEST(store_of_another_size_or_without_its_functions_is_refused) {
  unsigned char longer[sizeof(tp_store) + 8];
  tp_store store = {.record = no_record};
  tp_runtime_options options = {.struct_size = sizeof options, .store = &store};
  tp_runtime *runtime = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_VERSION); /* no struct_size */
  assert_non_null(strstr(fault.message, "tp_store"));
  memset(longer, 0xee, sizeof longer);
  memcpy(longer, &store, sizeof store);
  memcpy(longer, &(size_t){sizeof longer}, sizeof(size_t));
  options.store = (const tp_store *)(const void *)longer;
  assert_int_equal(tp_runtime_new(&options, &runtime, NULL), TP_ERR_VERSION); /* a newer one that asks for more */
  options.store = &store;
  store.struct_size = sizeof store;
  assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE); /* it lacks functions */
  assert_non_null(strstr(fault.message, "job_insert"));
  assert_null(runtime);
}

TEST(reason_that_is_not_utf8_is_not_shown) {
  tp_runtime *runtime = open_runtime(NULL);
  act a = {.kind = TP_ANSWER_DENY, .reason = "caf\xe9"};
  add_hooks(runtime, &(hook){.id = "a", .phase = TP_PHASE_TURN_INTAKE, .ctx = &a}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_INTAKE, NULL);
  assert_int_equal(result.outcome, TP_ERR_DENIED);
  assert_true(tp_utf8_valid(result.reason, NULL));
  tp_turn_end(turn);
  close_runtime(runtime);
}
