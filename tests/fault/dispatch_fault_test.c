/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory is refused in the middle of a dispatch, once and from there on. Each call still has one result, and no memory
 * is left. The calls need memory in every way: for ids, names, long answers, attempts that wait, gates. */
#include "tests/support/test.h"
#include "tests/support/model.h"

enum { CALLS = 120, LONG = 5000 };

static _Thread_local long left = -1; /* granted before one is refused; below 0: all are */
static _Thread_local bool refuse_rest;
static _Atomic long blocks_open;

static void *refusing_alloc(void *ctx, size_t size) {
  (void)ctx;
  if (left == 0) {
    if (!refuse_rest) left = -1;
    return NULL;
  }
  if (left > 0) left--;
  void *memory = malloc(size);
  if (memory) blocks_open++;
  return memory;
}

static void refusing_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  blocks_open--;
  free(memory);
}

static char long_text[LONG];

static tp_answer say_much(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, (tp_text){long_text, sizeof long_text});
}

static tp_answer say_much_later(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_token token;
  tp_answer outcome = tp_tool_defer(run, NULL, &token);
  if (token.bits) (void)tp_tool_complete(token, false, (tp_text){long_text, sizeof long_text}, NULL);
  return outcome;
}

static const tp_tool much = {.struct_size = sizeof(tp_tool),
                             .name = "much",
                             .run = say_much,
                             .placement = TP_PLACEMENT_INLINE,
                             .result_bytes_max = LONG - 1};
static const tp_tool later = {
    .struct_size = sizeof(tp_tool), .name = "later", .run = say_much_later, .placement = TP_PLACEMENT_INLINE};
static const tp_tool *const tools[] = {&much, &later};
static const tp_contribution bundle = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                       .key = TEXT("b"),
                                       .tools = tools,
                                       .tool_count = COUNT(tools)};
static act contributes_tools = {.emits = &bundle, .emit_count = 1};
static act gates = {.kind = TP_ANSWER_ALLOW};

static tp_tool_call calls[CALLS];
static tp_tool_result results[CALLS];

static void assert_one_result_each(void) {
  bool seen[CALLS] = {false};
  for (int i = 0; i < CALLS; i++) {
    assert_in_range(results[i].completion_order, 0, CALLS - 1);
    assert_false(seen[results[i].completion_order]);
    seen[results[i].completion_order] = true;
    switch (results[i].kind) {
      case TP_TOOL_OK:
        assert_true(results[i].text.size >= LONG - 1);
        break;
      case TP_TOOL_HANDLER_ERROR:
      case TP_TOOL_UNKNOWN_TOOL:
      case TP_TOOL_DENIED: /* by a gate that could not run */
      case TP_TOOL_SHED:
        assert_true(results[i].text.size > 0);
        break;
      default:
        fail_msg("call %d ended as %s", i, tp_tool_result_name(results[i].kind));
    }
  }
}

/* @return false when nothing was refused. */
static bool dispatch_refusing(long n, bool rest, bool gated) {
  tp_runtime_options options = {.struct_size = sizeof options, .allocator = {refusing_alloc, refusing_release, NULL}};
  tp_runtime *runtime = open_runtime(&options);
  add_hooks(runtime, &(hook){.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes_tools},
            1);
  if (gated) add_hooks(runtime, &(hook){.id = "gate", .phase = TP_PHASE_TOOL_PRE, .ctx = &gates}, 1);
  tp_turn *turn = begin_bare(runtime, 0);
  run_phase(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL);
  left = n;
  refuse_rest = rest;
  memset(results, 0xff, sizeof results);
  tp_status status = tools_run(turn, calls, CALLS, results, NULL);
  bool refused = rest ? left == 0 : left < 0;
  left = -1;
  if (status == TP_OK) assert_one_result_each();
  else assert_int_equal(status, TP_ERR_NO_MEMORY);
  assert_int_equal(tools_run(turn, calls, CALLS, results, NULL), TP_OK); /* with memory everything works again */
  for (int i = 0; i < CALLS; i++) assert_int_equal(results[i].kind, i % 3 == 2 ? TP_TOOL_UNKNOWN_TOOL : TP_TOOL_OK);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(blocks_open, 0);
  return refused;
}

TEST(every_allocation_of_a_dispatch_is_refused) {
  static const char *const names[] = {"much", "later", "nobody"};
  memset(long_text, 'a', sizeof long_text);
  for (int i = 0; i < CALLS; i++)
    calls[i] = (tp_tool_call){
        .id = i % 2 ? tp_text_of("id") : tp_text_of(NULL), .name = tp_text_of(names[i % 3]), .arguments = no_arguments};
  for (int gated = 0; gated < 2; gated++)
    for (int rest = 0; rest < 2; rest++) {
      long n = 0;
      while (dispatch_refusing(n, rest, gated)) n++;
      assert_true(n > 5);
    }
}
