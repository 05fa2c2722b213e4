/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress reports of a tool's run: by its token, from the thread that runs it, from an inbox; refusals, reports that
 * come too late, and the events of a listener. */
#include <math.h>

#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, REPORTS_MAX = 64 };

typedef struct host {
  tp_runtime *runtime;
  tp_session *session;
  tp_turn *turn;
  tp_inbox *inbox;
  act contributes;
  tp_tool_call call;
  tp_tool_result result;
  tp_token token;
  tp_status status; /* of a report of the tool itself */
  latch deferred, leaves, ended, heard_one;
  char heard[8192];
} host;

static void hear(void *ctx, const tp_event *event) {
  host *h = ctx;
  size_t used = strlen(h->heard);
  if (event->kind == TP_EVENT_TOOL_BEGIN) snprintf(h->heard + used, sizeof h->heard - used, "begin ");
  if (event->kind == TP_EVENT_TOOL_END) snprintf(h->heard + used, sizeof h->heard - used, "end");
  if (event->kind != TP_EVENT_TOOL_PROGRESS) return;
  assert_true(tp_text_is(event->tool_call->id, "the id") && event->call_index == 0);
  assert_true(event->ids[TP_ID_SESSION].size > 0 && event->sequence > 0 && !event->tool_result);
  snprintf(h->heard + used, sizeof h->heard - used, "%g/%g:%.*s ", event->done, event->total, (int)event->text.size,
           event->text.size ? event->text.data : "");
  latch_hit(&h->heard_one);
}

static tp_tool_progress progress(double done, double total, const char *message) {
  return (tp_tool_progress){
      .struct_size = sizeof(tp_tool_progress), .done = done, .total = total, .message = tp_text_of(message)};
}

static tp_status report(const host *h, double done, double total, const char *message) {
  const tp_tool_progress p = progress(done, total, message);
  return tp_tool_report(h->token, &p, NULL);
}

static tp_answer defer_it(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  const tp_tool_progress p = progress(1, 0, "too early");
  h->status = tp_tool_run_progress(run, &p, NULL);
  tp_answer answer = tp_tool_defer(run, NULL, &h->token);
  latch_hit(&h->deferred);
  return answer;
}

static tp_answer report_and_answer(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  tp_tool_progress p = progress(1, 2, "half");
  h->status = tp_tool_run_progress(run, &p, NULL);
  p = progress(2, 2, "");
  if (h->status == TP_OK) h->status = tp_tool_run_progress(run, &p, NULL);
  return tp_tool_ok(run, tp_text_of("done"));
}

/* Reports when its call has long been given up. */
static tp_answer outlive(void *ctx, tp_tool_run *run) {
  host *h = ctx;
  const tp_tool_progress p = progress(1, 1, "too late");
  latch_wait(&h->leaves, 1);
  h->status = tp_tool_run_progress(run, &p, NULL);
  latch_hit(&h->deferred);
  return tp_tool_ok(run, (tp_text){NULL, 0});
}

static void ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  host *h = ctx;
  assert_int_equal(count, 1);
  h->result = *results[0];
  latch_hit(&h->ended);
}

static void open_host(host *h, tp_tool_fn run, tp_placement placement, uint32_t limit_ms) {
  static const tp_tool *list[1];
  static tp_tool tool;
  static tp_contribution bundle;
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .on_event = hear, .event_ctx = h};
  *h = (host){.runtime = open_runtime(NULL),
              .deferred = LATCH,
              .leaves = LATCH,
              .ended = LATCH,
              .heard_one = LATCH,
              .status = TP_ERR_STORE,
              .call = {.id = TEXT("the id"), .name = TEXT("t"), .arguments = no_arguments}};
  if (!run) h->inbox = open_inbox(h->runtime, 0);
  tool = (tp_tool){.struct_size = sizeof tool,
                   .name = "t",
                   .run = run,
                   .inbox = h->inbox,
                   .ctx = h,
                   .placement = placement,
                   .limit_ms = limit_ms};
  list[0] = &tool;
  bundle = (tp_contribution){.struct_size = sizeof bundle,
                             .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                             .key = TEXT("b"),
                             .tools = list,
                             .tool_count = 1};
  h->contributes = (act){.emits = &bundle, .emit_count = 1};
  add_hooks(h->runtime, &(hook){.id = "tools", .phase = TOOLS, .ctx = &h->contributes}, 1);
  assert_int_equal(tp_session_open(h->runtime, &options, &h->session, NULL), TP_OK);
  assert_int_equal(tp_turn_begin(h->session, NULL, &h->turn, NULL), TP_OK);
  run_phase(h->turn, TOOLS, NULL);
  assert_int_equal(tools_submit(h->turn, &h->call, 1, ended, h, NULL), TP_OK);
}

static void close_host(host *h, const char *heard) {
  latch_wait(&h->ended, 1);
  assert_string_equal(h->heard, heard);
  tp_turn_end(h->turn);
  tp_session_close(h->session, NULL, NULL);
  if (h->inbox) tp_inbox_free(h->inbox);
  expect_no_tokens(h->runtime);
  close_runtime(h->runtime);
}

TEST(a_run_that_has_deferred_reports_by_its_token) {
  static const tp_placement placements[] = {TP_PLACEMENT_INLINE, TP_PLACEMENT_THREAD};
  for (size_t i = 0; i < COUNT(placements); i++) {
    host h;
    open_host(&h, defer_it, placements[i], LONG_MS);
    latch_wait(&h.deferred, 1);
    assert_int_equal(report(&h, 0, 10, "begins"), TP_OK);
    assert_int_equal(report(&h, 2.5, 10, "ein Ä"), TP_OK);
    assert_int_equal(report(&h, 1, 0, ""), TP_OK); /* as the tool counts */
    assert_int_equal(tp_tool_complete(h.token, false, tp_text_of("done"), NULL), TP_OK);
    assert_int_equal(report(&h, 3, 0, "after"), TP_ERR_STALE);
    bool is_inline = placements[i] == TP_PLACEMENT_INLINE;
    assert_int_equal(h.status, is_inline ? TP_ERR_USAGE : TP_OK);
    close_host(&h, is_inline ? "begin 0/10:begins 2.5/10:ein Ä 1/0: end"
                             : "begin 1/0:too early 0/10:begins 2.5/10:ein Ä 1/0: end");
  }
}

TEST(a_function_reports_while_it_runs) {
  host h;
  open_host(&h, report_and_answer, TP_PLACEMENT_THREAD, LONG_MS);
  latch_wait(&h.ended, 1);
  assert_int_equal(h.status, TP_OK);
  assert_text(h.result.text, "done");
  close_host(&h, "begin 1/2:half 2/2: end");
}

TEST(a_run_of_an_inbox_reports_both_ways) {
  host h;
  open_host(&h, NULL, TP_PLACEMENT_DEFAULT, LONG_MS);
  const tp_work *work = take_next(h.inbox);
  const tp_tool_progress p = progress(7, 8, "by its run");
  h.token = work->token;
  assert_int_equal(tp_tool_run_progress(work->run, &p, NULL), TP_OK);
  assert_int_equal(report(&h, 8, 8, "by its token"), TP_OK);
  assert_int_equal(tp_tool_complete(h.token, true, tp_text_of("no"), NULL), TP_OK);
  close_host(&h, "begin 7/8:by its run 8/8:by its token end");
}

TEST(what_cannot_be_shown_is_refused) {
  host h;
  char long_message[1026];
  tp_fault fault;
  memset(long_message, 'x', sizeof long_message - 1);
  long_message[1025] = '\0';
  open_host(&h, defer_it, TP_PLACEMENT_INLINE, LONG_MS);
  latch_wait(&h.deferred, 1);
  const struct {
    tp_tool_progress progress;
    tp_status status;
    const char *words;
  } rows[] = {{progress(-1, 0, ""), TP_ERR_USAGE, "not negative"},
              {progress(0, -0.5, ""), TP_ERR_USAGE, "not negative"},
              {progress(NAN, 0, ""), TP_ERR_USAGE, "finite"},
              {progress(0, NAN, ""), TP_ERR_USAGE, "finite"},
              {progress(INFINITY, 0, ""), TP_ERR_USAGE, "finite"},
              {progress(0, INFINITY, ""), TP_ERR_USAGE, "finite"},
              {progress(0, 0, "\xFF"), TP_ERR_UTF8, "UTF-8"},
              {progress(0, 0, "\xC3"), TP_ERR_UTF8, "UTF-8"},
              {progress(0, 0, long_message), TP_ERR_TOO_LARGE, "1025 bytes: at most 1024"},
              {{.struct_size = 3}, TP_ERR_VERSION, "tp_tool_progress"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    fault = (tp_fault){0};
    assert_int_equal(tp_tool_report(h.token, &rows[i].progress, &fault), rows[i].status);
    assert_non_null(strstr(fault.message, rows[i].words));
  }
  assert_int_equal(tp_tool_report(h.token, NULL, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_tool_run_progress(NULL, &rows[0].progress, &fault), TP_ERR_USAGE);
  assert_int_equal(report(&h, 1, 1, long_message + 1), TP_OK); /* 1,024 bytes */
  assert_int_equal(tp_tool_complete(h.token, false, tp_text_of(""), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  assert_int_equal(strlen(h.heard), strlen("begin 1/1: end") + 1024);
  snprintf(h.heard + strlen("begin 1/1:"), sizeof h.heard - 16, " end");
  close_host(&h, "begin 1/1: end");
}

TEST(a_flood_is_refused_and_loses_no_report_that_was_taken) {
  host h;
  uint32_t taken = 0, refused = 0;
  open_host(&h, defer_it, TP_PLACEMENT_INLINE, LONG_MS);
  latch_wait(&h.deferred, 1);
  for (int i = 0; i < 300; i++) {
    tp_status status = report(&h, i, 0, "");
    assert_true(status == TP_OK || status == TP_ERR_FULL);
    taken += status == TP_OK;
    refused += status == TP_ERR_FULL;
  }
  assert_true(taken >= REPORTS_MAX && taken + refused == 300);
  assert_int_equal(tp_tool_complete(h.token, false, tp_text_of(""), NULL), TP_OK);
  latch_wait(&h.ended, 1);
  uint32_t heard = 0;
  for (const char *at = h.heard; (at = strchr(at, '/')); at++) heard++;
  assert_int_equal(heard, taken);
  strcpy(h.heard, "");
  close_host(&h, "");
}

TEST(reports_that_were_heard_leave_their_place) {
  host h;
  open_host(&h, defer_it, TP_PLACEMENT_INLINE, LONG_MS);
  latch_wait(&h.deferred, 1);
  for (int i = 1; i <= 2 * REPORTS_MAX; i++) {
    h.heard[0] = '\0';
    assert_int_equal(report(&h, i, 0, ""), TP_OK);
    latch_wait(&h.heard_one, i);
  }
  assert_int_equal(tp_tool_complete(h.token, false, tp_text_of(""), NULL), TP_OK);
  close_host(&h, "128/0: end");
}

TEST(a_call_that_was_given_up_has_no_progress_any_more) {
  host h;
  open_host(&h, outlive, TP_PLACEMENT_THREAD, 1);
  latch_wait(&h.ended, 1);
  assert_string_equal(tp_tool_result_name(h.result.kind), "timed_out");
  latch_hit(&h.leaves);
  latch_wait(&h.deferred, 1);
  assert_true(h.status == TP_OK || h.status == TP_ERR_STALE);
  close_host(&h, "begin end");
}

TEST(a_token_of_something_else_is_refused) {
  const tp_tool_progress p = progress(1, 1, "");
  assert_int_equal(tp_tool_report((tp_token){0}, &p, NULL), TP_ERR_STALE);
  assert_int_equal(tp_tool_report((tp_token){UINT64_MAX}, &p, NULL), TP_ERR_STALE);
  assert_string_equal(tp_event_name(TP_EVENT_TOOL_PROGRESS), "tool_progress");
}
