/* SPDX-License-Identifier: Apache-2.0
 *
 * Many deferred calls at once with real threads: other threads complete them in any order and look at tokens that are
 * not theirs, and a thread cancels the turn. Every call has one result: the one that the completing thread was told. */
#include <sched.h>

#include "tests/support/test.h"
#include "tests/support/model.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, CALLS = 500, STRANGERS = 3, LONG = 300 };

static unsigned rounds(void) {
  const char *text = getenv("TURNPHASE_ROUNDS");
  return 40 * (text && atoi(text) > 0 ? (unsigned)atoi(text) : 1);
}

typedef struct fixture {
  _Atomic uint64_t tokens[CALLS]; /* 0: not there yet */
  _Atomic uint32_t taken;         /* by strangers: each takes every third from its own place on */
  _Atomic bool stop;
  _Atomic uint32_t in_time, stale, other;
  tp_turn *turn;
  uint32_t cancel_at; /* calls begun; CALLS + 1: never */
} fixture;

static fixture c;
static char long_text[LONG + 1];

static tp_answer join(void *ctx, tp_tool_run *run) {
  (void)ctx;
  tp_token token;
  tp_answer outcome = tp_tool_defer(run, NULL, &token);
  tp_text id = tp_tool_run_call_id(run); /* "call-17" */
  int index = atoi(id.data + 5);
  c.tokens[index] = token.bits;
  if ((uint32_t)index == c.cancel_at) tp_turn_cancel(c.turn);
  return outcome;
}

static const tp_tool tool = {
    .struct_size = sizeof(tp_tool), .name = "t", .run = join, .placement = TP_PLACEMENT_INLINE};
static const tp_tool *const tools[] = {&tool};
static const tp_contribution bundle = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                       .key = TEXT("b"),
                                       .tools = tools,
                                       .tool_count = 1};
static act contributes_tools = {.emits = &bundle, .emit_count = 1};

/* Every fourth answer is too long for the attempt's own memory, and every fourth is empty. */
static tp_text answer_of_call(int index) {
  static const size_t sizes[] = {0, 4, 40, LONG};
  return (tp_text){long_text, sizes[index % 4]};
}

static void *be_strange(void *arg) {
  uint32_t place = c.taken++;
  (void)arg;
  for (int i = (int)place; i < CALLS; i += STRANGERS) {
    uint64_t bits;
    bool over; /* asked before the token, which may come between */
    while (over = c.stop, !(bits = c.tokens[i]) && !over) sched_yield();
    if (!bits) continue; /* it never began */
    tp_token token = {bits}, another = {c.tokens[(i * 7 + 3) % CALLS]};
    /* No model's: refused by name while it is open. */
    tp_status status = tp_model_delta(another, tp_text_of("not a model's"), NULL);
    if (status != TP_ERR_USAGE && status != TP_ERR_STALE) c.other++;
    status = tp_tool_complete(token, false, answer_of_call(i), NULL);
    if (status == TP_OK) c.in_time++;
    else if (status == TP_ERR_STALE) c.stale++;
    else c.other++;
    if (tp_tool_complete(token, true, tp_text_of("again"), NULL) != TP_ERR_STALE) c.other++;
  }
  return NULL;
}

TEST(every_call_of_many_at_once_has_one_result) {
  static tp_tool_call calls[CALLS];
  static tp_tool_result results[CALLS];
  memset(long_text, 'x', LONG);
  for (int i = 0; i < CALLS; i++) calls[i] = (tp_tool_call){.name = TEXT("t"), .arguments = no_arguments};
  tp_runtime *runtime = open_runtime(NULL);
  add_hooks(runtime, &(hook){.id = "tools", .phase = TOOLS, .ctx = &contributes_tools}, 1);
  for (unsigned round = 0; round < rounds(); round++) {
    memset(&c, 0, sizeof c);
    c.turn = begin_bare(runtime, 0);
    c.cancel_at = round % 4 ? CALLS + 1 : round * 37 % CALLS;
    run_phase(c.turn, TOOLS, NULL);
    pthread_t threads[STRANGERS];
    for (int i = 0; i < STRANGERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, be_strange, NULL), 0);
    assert_int_equal(tools_run(c.turn, calls, CALLS, results, NULL), TP_OK);
    c.stop = true;
    for (int i = 0; i < STRANGERS; i++) pthread_join(threads[i], NULL);
    uint32_t ok = 0, begun = 0;
    for (int i = 0; i < CALLS; i++) {
      begun += c.tokens[i] != 0;
      ok += results[i].kind == TP_TOOL_OK;
      if (results[i].kind != TP_TOOL_OK) assert_int_equal(results[i].kind, TP_TOOL_CANCELLED);
      else assert_int_equal(results[i].text.size, answer_of_call(i).size);
      if (results[i].kind == TP_TOOL_OK && i % 4)
        assert_memory_equal(results[i].text.data, long_text, results[i].text.size);
    }
    assert_int_equal(c.other, 0);
    assert_int_equal(c.in_time, ok);
    assert_int_equal(c.in_time + c.stale, begun);
    if (c.cancel_at > CALLS) assert_int_equal(ok, CALLS);
    tp_turn_end(c.turn);
  }
  close_runtime(runtime);
}
