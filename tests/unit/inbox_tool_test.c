/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools with an inbox: the host takes their calls and answers them itself, on the thread that submitted the calls. */
#include <poll.h>

#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, CALLS_MAX = 40 };

#define assert_kind(result, want) assert_string_equal(tp_tool_result_name((result).kind), tp_tool_result_name(want))

/* ---- a host whose tools have no functions ---- */

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_turn *turn;
  tp_tool tool;
  const tp_tool *list[1];
  tp_contribution bundle;
  act contributes;
  tp_tool_call calls[CALLS_MAX];
  tp_tool_result results[CALLS_MAX];
  latch ended;
} host;

static tp_status add_bringer(host *h) {
  h->list[0] = &h->tool;
  h->bundle = (tp_contribution){.struct_size = sizeof h->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = h->list,
                                .tool_count = 1};
  h->contributes = (act){.emits = &h->bundle, .emit_count = 1};
  tp_fault fault;
  return hooks_add(h->runtime, &(hook){.id = "tools", .phase = TOOLS, .ctx = &h->contributes}, 1, &fault);
}

static tp_turn *begin_with_tools(host *h, uint32_t limit_ms) {
  tp_turn *turn = begin_bare(h->runtime, limit_ms);
  tp_phase_result contributed = run_phase(turn, TOOLS, NULL);
  assert_int_equal(contributed.outcome, TP_OK);
  tp_phase_result_release(turn, &contributed);
  return turn;
}

static void open_host(host *h, uint32_t capacity, tp_tool tool, const tp_runtime_options *options) {
  *h = (host){.runtime = open_runtime(options), .ended = LATCH, .tool = tool};
  h->inbox = open_inbox(h->runtime, capacity);
  h->tool.struct_size = sizeof h->tool;
  h->tool.name = "t";
  h->tool.inbox = h->inbox;
  h->tool.ctx = h;
  if (!h->tool.limit_ms) h->tool.limit_ms = LONG_MS;
  assert_int_equal(add_bringer(h), TP_OK);
  h->turn = begin_with_tools(h, LONG_MS);
}

static void close_host(host *h) {
  tp_turn_end(h->turn);
  tp_inbox_free(h->inbox);
  expect_no_tokens(h->runtime);
  close_runtime(h->runtime);
}

static void calls_ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  host *h = ctx;
  for (size_t i = 0; i < count; i++) h->results[i] = *results[i];
  latch_hit(&h->ended);
}

static void submit_calls(host *h, size_t count) {
  for (size_t i = 0; i < count; i++)
    h->calls[i] = (tp_tool_call){.name = TEXT("t"), .arguments = no_arguments, .id = TEXT("the id")};
  assert_int_equal(tools_submit(h->turn, h->calls, count, calls_ended, h, NULL), TP_OK);
}

/* ---- a call that a host answers itself ---- */

TEST(call_is_read_and_answered_by_the_thread_that_takes_it) {
  host h;
  open_host(&h, 0, (tp_tool){.description = "d"}, NULL);
  submit_calls(&h, 1);
  const tp_work *work = take_next(h.inbox);
  assert_int_equal(work->struct_size, sizeof *work);
  assert_int_equal(work->kind, TP_WORK_TOOL);
  assert_ptr_equal(work->ctx, &h);
  assert_null(work->call);
  assert_text(tp_tool_run_call_id(work->run), "the id");
  assert_int_equal(tp_tool_run_arguments(work->run).size, 1);
  assert_true(tp_tool_run_id(work->run, TP_ID_TURN).size > 0);
  assert_in_range(tp_tool_run_time_left_ms(work->run), 1, LONG_MS);
  assert_false(tp_tool_run_cancelled(work->run));
  tp_token again = {1};
  assert_int_equal(tp_tool_defer(work->run, NULL, &again), TP_ANSWER_FAILED);
  assert_int_equal(again.bits, 0);
  (void)tp_tool_error(work->run, tp_text_of("answers nothing here"));
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_ERR_USAGE);
  tp_token token = work->token;
  assert_int_equal(tp_tool_complete(token, false, tp_text_of("by the host"), NULL), TP_OK);
  assert_int_equal(tp_tool_complete(token, false, tp_text_of("twice"), NULL), TP_ERR_STALE);
  latch_wait(&h.ended, 1);
  assert_kind(h.results[0], TP_TOOL_OK);
  assert_true(h.results[0].started);
  assert_text(h.results[0].text, "by the host");
  assert_int_equal(handler_threads(h.runtime), 0);
  close_host(&h);
}

TEST(error_of_the_host_is_a_handler_error) {
  host h;
  open_host(&h, 0, (tp_tool){0}, NULL);
  submit_calls(&h, 2);
  assert_int_equal(tp_tool_complete(take_next(h.inbox)->token, true, tp_text_of("no luck"), NULL), TP_OK);
  assert_int_equal(tp_token_abandon(take_next(h.inbox)->token, NULL), TP_OK);
  latch_wait(&h.ended, 1);
  assert_kind(h.results[0], TP_TOOL_HANDLER_ERROR);
  assert_text(h.results[0].text, "no luck");
  assert_kind(h.results[1], TP_TOOL_HANDLER_ERROR);
  close_host(&h);
}

/* ---- bounds ---- */

TEST(calls_above_max_concurrent_wait_for_those_that_were_taken) {
  host h;
  open_host(&h, 0, (tp_tool){.max_concurrent = 2}, NULL);
  submit_calls(&h, 5);
  const tp_work *first = take_next(h.inbox), *second = take_next(h.inbox);
  assert_null(take(h.inbox));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tp_tool_complete(i % 2 ? second->token : first->token, false, tp_text_of("ok"), NULL), TP_OK);
    *(i % 2 ? &second : &first) = take_next(h.inbox); /* the next came with the completion */
    assert_null(take(h.inbox));
  }
  assert_int_equal(tp_tool_complete(first->token, false, tp_text_of("ok"), NULL), TP_OK);
  assert_int_equal(tp_tool_complete(second->token, false, tp_text_of("ok"), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  for (int i = 0; i < 5; i++) assert_kind(h.results[i], TP_TOOL_OK);
  close_host(&h);
}

TEST(call_that_finds_the_inbox_full_waits) {
  host h;
  open_host(&h, 1, (tp_tool){0}, NULL);
  submit_calls(&h, 3);
  while (open_tokens(h.runtime) < 3) sleep_ms(1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(tp_tool_complete(take_next(h.inbox)->token, false, tp_text_of("ok"), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  for (int i = 0; i < 3; i++) assert_kind(h.results[i], TP_TOOL_OK);
  close_host(&h);
}

/* A tool without max_concurrent uses no thread here, so all of its calls are taken at once. */
TEST(calls_through_an_inbox_have_no_limit_of_their_own) {
  host h;
  open_host(&h, 0, (tp_tool){0}, NULL);
  submit_calls(&h, CALLS_MAX);
  const tp_work *works[CALLS_MAX];
  for (int i = 0; i < CALLS_MAX; i++) works[i] = take_next(h.inbox);
  assert_false(is_readable(h.inbox));
  for (int i = 0; i < CALLS_MAX; i++)
    assert_int_equal(tp_tool_complete(works[i]->token, false, tp_text_of("ok"), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  for (int i = 0; i < CALLS_MAX; i++) assert_kind(h.results[i], TP_TOOL_OK);
  close_host(&h);
}

TEST(call_that_waited_for_others_waits_on_when_its_inbox_is_full_by_then) {
  host h;
  open_host(&h, 1, (tp_tool){.max_concurrent = 1}, NULL);
  add(h.runtime, "g", GATHER, h.inbox, (tp_subscription){.limit_ms = LONG_MS});
  submit_calls(&h, 3);
  const tp_work *first = take_next(h.inbox);
  tp_turn *other = begin_bare(h.runtime, LONG_MS);
  ran r;
  submit(other, GATHER, NULL, &r);
  wait_readable(h.inbox); /* the handler's call: now it is full */
  assert_int_equal(tp_tool_complete(first->token, false, tp_text_of("ok"), NULL), TP_OK);
  assert_int_equal(answer(take_next(h.inbox), TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  for (int i = 0; i < 2; i++)
    assert_int_equal(tp_tool_complete(take_next(h.inbox)->token, false, tp_text_of("ok"), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  for (int i = 0; i < 3; i++) assert_kind(h.results[i], TP_TOOL_OK);
  tp_turn_end(other);
  close_host(&h);
}

TEST(calls_of_a_freed_inbox_are_shed_those_that_waited_too) {
  host h;
  open_host(&h, 0, (tp_tool){.max_concurrent = 1}, NULL);
  submit_calls(&h, CALLS_MAX);
  wait_readable(h.inbox);
  tp_inbox_free(h.inbox);
  h.inbox = NULL;
  latch_wait(&h.ended, 1);
  for (int i = 0; i < CALLS_MAX; i++) {
    assert_kind(h.results[i], TP_TOOL_SHED);
    assert_text(h.results[i].text, "the host takes no calls of this tool any more");
  }
  submit_calls(&h, 1); /* the turn's tools still name it */
  latch_wait(&h.ended, 2);
  assert_kind(h.results[0], TP_TOOL_SHED);
  close_host(&h);
}

TEST(call_beyond_the_open_tokens_is_shed) {
  host h;
  open_host(&h, 0, (tp_tool){0}, &(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .deferred_max = 1});
  tp_turn *other = begin_with_tools(&h, LONG_MS);
  tp_tool_result result;
  submit_calls(&h, 1);
  wait_readable(h.inbox);
  assert_int_equal(tools_run(other, h.calls, 1, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_SHED);
  assert_int_equal(tp_tool_complete(take_next(h.inbox)->token, false, tp_text_of("ok"), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  assert_kind(h.results[0], TP_TOOL_OK);
  tp_turn_end(other);
  close_host(&h);
}

/* ---- calls that are over ---- */

TEST(limit_removes_a_call_that_was_not_taken) {
  host h;
  open_host(&h, 0, (tp_tool){.limit_ms = 5}, NULL);
  submit_calls(&h, 1);
  latch_wait(&h.ended, 1);
  assert_kind(h.results[0], TP_TOOL_TIMED_OUT);
  assert_false(h.results[0].started);
  assert_null(take(h.inbox));
  assert_int_equal(open_tokens(h.runtime), 0);
  submit_calls(&h, 1); /* its permit came back */
  latch_wait(&h.ended, 2);
  close_host(&h);
}

TEST(call_that_was_given_up_stays_readable_and_keeps_its_permit) {
  host h;
  open_host(&h, 0, (tp_tool){.limit_ms = 200, .max_concurrent = 1}, NULL);
  submit_calls(&h, 2);
  const tp_work *work = take_next(h.inbox);
  latch_wait(&h.ended, 1);
  assert_kind(h.results[0], TP_TOOL_TIMED_OUT);
  assert_true(h.results[0].started);
  assert_kind(h.results[1], TP_TOOL_SHED); /* the only permit is held by a call that was given up */
  tp_tool_result result;
  tp_turn *other = begin_with_tools(&h, LONG_MS);
  assert_int_equal(tools_run(other, h.calls, 1, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_SHED);
  assert_text(result.text,
              "as many calls of this tool as may run at once were given up, and none of them has come "
              "back");
  tp_turn_end(other);
  tp_turn_end(h.turn);
  assert_false(tp_token_open(work->token));
  assert_true(tp_tool_run_cancelled(work->run));
  assert_text(tp_tool_run_call_id(work->run), "the id");
  assert_true(tp_tool_run_id(work->run, TP_ID_TURN).size > 0);
  assert_int_equal(tp_tool_complete(work->token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
  assert_int_equal(open_tokens(h.runtime), 0);
  h.turn = begin_with_tools(&h, LONG_MS);
  submit_calls(&h, 1);
  assert_int_equal(tp_tool_complete(take_next(h.inbox)->token, false, tp_text_of("ok"), NULL), TP_OK);
  latch_wait(&h.ended, 2);
  assert_kind(h.results[0], TP_TOOL_OK);
  close_host(&h);
}

TEST(cancel_of_the_turn_takes_out_what_waits_and_what_waits_for_a_permit) {
  host h;
  open_host(&h, 0, (tp_tool){.max_concurrent = 1}, NULL);
  submit_calls(&h, 3);
  wait_readable(h.inbox);
  tp_turn_cancel(h.turn);
  latch_wait(&h.ended, 1);
  for (int i = 0; i < 3; i++) assert_kind(h.results[i], TP_TOOL_CANCELLED);
  assert_null(take(h.inbox));
  assert_int_equal(open_tokens(h.runtime), 0);
  close_host(&h);
}

TEST(runtime_may_be_freed_under_a_call_that_was_taken) {
  host h;
  open_host(&h, 0, (tp_tool){.limit_ms = 100}, NULL);
  submit_calls(&h, 1);
  tp_token token = take_next(h.inbox)->token;
  latch_wait(&h.ended, 1);
  tp_turn_end(h.turn);
  tp_runtime_free(h.runtime);
  assert_int_equal(tp_tool_complete(token, false, tp_text_of("late"), NULL), TP_ERR_STALE);
  tp_inbox_free(h.inbox);
}

/* The tool of a turn keeps its inbox, whose host may give it up at once. */
TEST(inbox_may_be_freed_before_the_turn_whose_tools_name_it) {
  host h;
  open_host(&h, 0, (tp_tool){0}, NULL);
  tp_inbox_free(h.inbox);
  h.inbox = NULL;
  tp_tool_result result;
  h.calls[0] = (tp_tool_call){.name = TEXT("t"), .arguments = no_arguments};
  assert_int_equal(tools_run(h.turn, h.calls, 1, &result, NULL), TP_OK);
  assert_kind(result, TP_TOOL_SHED);
  close_host(&h);
}

/* ---- what is refused ---- */

TEST(wrong_tools_are_refused) {
  host h;
  open_host(&h, 0, (tp_tool){0}, NULL);
  tp_runtime *other = open_runtime(NULL);
  tp_inbox *strange = open_inbox(other, 0);
  const tp_tool good = h.tool;
  const tp_tool wrong[] = {{.inbox = NULL}, {.inbox = strange}, {.inbox = h.inbox, .placement = TP_PLACEMENT_INLINE}};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    h.tool = good;
    h.tool.inbox = wrong[i].inbox;
    h.tool.placement = wrong[i].placement;
    tp_turn *turn = begin_bare(h.runtime, LONG_MS);
    tp_phase_result result = run_phase(turn, TOOLS, NULL);
    assert_run(&result, "tools", TP_STATE_FAILED, TP_REASON_MALFORMED);
    tp_turn_end(turn);
  }
  tp_inbox_free(strange);
  close_runtime(other);
  close_host(&h);
}
