/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a submitted operation, the cancel of taken work, and the destroy of objects that name an inbox: all come
 * as work of the inbox. The host here has one thread, and no callback of it is called. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

/* ---- a host whose model has no function, and that learns of turns only through its inbox ---- */

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_model model;
  tp_session *sessions[2];
} host;

static const uint64_t turn_ends = UINT64_C(1) << TP_EVENT_TURN_END;

static void open_sessions(host *h, size_t count) {
  h->model = (tp_model){.struct_size = sizeof h->model, .name = "host", .ctx = h, .inbox = h->inbox};
  for (size_t i = 0; i < count; i++) {
    tp_session_options opens = {.struct_size = sizeof opens, .id = i == 0 ? "a" : "b", .model = &h->model};
    assert_int_equal(tp_session_open(h->runtime, &opens, &h->sessions[i], NULL), TP_OK);
  }
}

static void open_host(host *h, uint32_t running_max, size_t sessions) {
  tp_runtime_options options = {.struct_size = sizeof options, .turns_running_max = running_max};
  *h = (host){.runtime = open_runtime(&options)};
  h->inbox = open_inbox(h->runtime, 0);
  open_sessions(h, sessions);
}

static tp_end *end_for(const host *h, void *ctx) {
  tp_end *end;
  assert_int_equal(tp_end_new(h->inbox, ctx, &end, NULL), TP_OK);
  return end;
}

static tp_submission *submit_to(const host *h, size_t session, const char *name, uint32_t limit_ms) {
  tp_submission *submission;
  tp_turn_request request = {
      .struct_size = sizeof request, .text = tp_text_of(name), .limit_ms = limit_ms, .data = (void *)(uintptr_t)name};
  assert_int_equal(tp_turn_submit(h->sessions[session], &request, tp_end_of_turn, end_for(h, (void *)(uintptr_t)name),
                                  &submission, NULL),
                   TP_OK);
  return submission;
}

/* The next work of this kind; all other work is released, and requests are stored in `ret_request`. */
static const tp_work *take_kind(const host *h, tp_work_kind kind, tp_token *ret_request) {
  for (;;) {
    const tp_work *work = take_any(h->inbox);
    if (work->kind == kind) return work;
    if (work->kind == TP_WORK_MODEL && ret_request) *ret_request = work->token;
    if (work->token.bits == 0 || work->kind == TP_WORK_CANCEL) assert_int_equal(tp_work_release(work), TP_OK);
  }
}

static void expect_end(const host *h, const char *name, tp_turn_outcome outcome) {
  const tp_work *work = take_kind(h, TP_WORK_END, NULL);
  assert_int_equal(work->struct_size, sizeof *work);
  assert_int_equal(work->token.bits, 0);
  assert_string_equal(work->ctx, name);
  assert_int_equal(work->end->struct_size, sizeof *work->end);
  assert_int_equal(work->end->kind, TP_END_TURN);
  assert_int_equal(work->end->turn->outcome, outcome);
  assert_true(work->end->turn->turn_id.size > 0);
  assert_int_equal(tp_work_release(work), TP_OK);
}

static void complete(tp_token token, const char *text) {
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of(text)};
  assert_int_equal(tp_model_complete(token, &response, NULL), TP_OK);
}

static void expect_settled(tp_submission *submission, tp_turn_outcome outcome) {
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(submission, 0, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, outcome);
  tp_submission_unref(submission);
}

static void close_host(host *h) {
  for (size_t i = 0; i < COUNT(h->sessions) && h->sessions[i]; i++) {
    tp_session_close(h->sessions[i], tp_end_of_session, end_for(h, &h->sessions[i]));
    const tp_work *work = take_kind(h, TP_WORK_END, NULL);
    assert_int_equal(work->end->kind, TP_END_SESSION);
    assert_ptr_equal(work->ctx, &h->sessions[i]);
    assert_int_equal(tp_work_release(work), TP_OK);
  }
  expect_no_tokens(h->runtime);
  close_runtime(h->runtime);
  assert_false(is_readable(h->inbox));
  tp_inbox_free(h->inbox);
}

/* ---- every submitted turn has its end, also one that never began ---- */

/* In each case the turn "first" runs, and "second" waits, in the queue of its session or for its admission. */
typedef enum waits_for { WAITS_IN_QUEUE, WAITS_FOR_ADMISSION } waits_for;

/* @return the request of "first", which was taken. */
static tp_token begin_both(host *h, waits_for waits, uint32_t limit_ms, tp_submission *ret_submissions[2]) {
  open_host(h, waits == WAITS_FOR_ADMISSION ? 1 : 0, 2);
  ret_submissions[0] = submit_to(h, 0, "first", LONG_MS);
  tp_token request = take_kind(h, TP_WORK_MODEL, NULL)->token;
  ret_submissions[1] = submit_to(h, waits == WAITS_FOR_ADMISSION ? 1 : 0, "second", limit_ms);
  return request;
}

static void turn_that_did_not_begin_ends(waits_for waits, bool by_limit) {
  host h;
  tp_submission *submissions[2];
  tp_token request = begin_both(&h, waits, by_limit ? 20 : LONG_MS, submissions);
  if (!by_limit) tp_submission_cancel(submissions[1]);
  expect_end(&h, "second", by_limit ? TP_TURN_TIMED_OUT : TP_TURN_CANCELLED);
  expect_settled(submissions[1], by_limit ? TP_TURN_TIMED_OUT : TP_TURN_CANCELLED);
  assert_int_equal(tp_submission_wait(submissions[0], 0, NULL, NULL), TP_ERR_TIMEOUT);
  complete(request, "done");
  expect_end(&h, "first", TP_TURN_COMPLETED);
  expect_settled(submissions[0], TP_TURN_COMPLETED);
  close_host(&h);
}

TEST(turn_that_is_cancelled_in_its_queue_has_its_end) { turn_that_did_not_begin_ends(WAITS_IN_QUEUE, false); }
TEST(turn_whose_limit_passes_in_its_queue_has_its_end) { turn_that_did_not_begin_ends(WAITS_IN_QUEUE, true); }
TEST(turn_that_is_cancelled_before_its_admission_has_its_end) {
  turn_that_did_not_begin_ends(WAITS_FOR_ADMISSION, false);
}
TEST(turn_whose_limit_passes_before_its_admission_has_its_end) {
  turn_that_did_not_begin_ends(WAITS_FOR_ADMISSION, true);
}

static const tp_event *take_turn_end(const host *h, const tp_work **ret_work) {
  *ret_work = take_kind(h, TP_WORK_EVENT, NULL);
  assert_int_equal((*ret_work)->event->kind, TP_EVENT_TURN_END);
  return (*ret_work)->event;
}

/* The event TURN_END comes for it as well, and is followed by its end. */
static void turn_that_did_not_begin_has_its_event(waits_for waits, bool of_runtime) {
  host h;
  tp_submission *submissions[2];
  open_host(&h, waits == WAITS_FOR_ADMISSION ? 1 : 0, 2);
  size_t of = waits == WAITS_FOR_ADMISSION ? 1 : 0;
  tp_listener listener = {.struct_size = sizeof listener, .inbox = h.inbox, .kinds = turn_ends};
  if (of_runtime) assert_int_equal(tp_runtime_listen(h.runtime, &listener, NULL, NULL), TP_OK);
  else assert_int_equal(tp_session_listen(h.sessions[of], &listener, NULL, NULL), TP_OK);
  submissions[0] = submit_to(&h, 0, "first", LONG_MS);
  tp_token request = take_kind(&h, TP_WORK_MODEL, NULL)->token;
  submissions[1] = submit_to(&h, of, "second", LONG_MS);
  tp_submission_cancel(submissions[1]);
  const tp_work *work;
  const tp_event *event = take_turn_end(&h, &work);
  assert_int_equal(event->status, TP_ERR_CANCELLED);
  assert_int_equal(event->started_ns, 0);
  assert_string_equal(tp_event_data(event, TP_ID_TURN), "second");
  assert_int_equal(tp_work_release(work), TP_OK);
  expect_settled(submissions[1], TP_TURN_CANCELLED);
  expect_end(&h, "second", TP_TURN_CANCELLED);
  complete(request, "done");
  expect_end(&h, "first", TP_TURN_COMPLETED);
  expect_settled(submissions[0], TP_TURN_COMPLETED);
  close_host(&h);
}

TEST(event_of_a_turn_that_left_its_queue_comes) { turn_that_did_not_begin_has_its_event(WAITS_IN_QUEUE, false); }
TEST(event_of_a_turn_that_left_its_queue_comes_to_the_runtime) {
  turn_that_did_not_begin_has_its_event(WAITS_IN_QUEUE, true);
}
TEST(event_of_a_turn_that_was_not_admitted_comes) { turn_that_did_not_begin_has_its_event(WAITS_FOR_ADMISSION, false); }
TEST(event_of_a_turn_that_was_not_admitted_comes_to_the_runtime) {
  turn_that_did_not_begin_has_its_event(WAITS_FOR_ADMISSION, true);
}

/* A drain cancels what runs and what waits, and its own end is the last. */
static void drain_ends_all(waits_for waits) {
  host h;
  tp_submission *submissions[2];
  tp_token request = begin_both(&h, waits, LONG_MS, submissions);
  assert_int_equal(tp_runtime_drain_submit(h.runtime, 0, tp_end_of_drain, end_for(&h, "drain"), NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    const tp_work *work = take_kind(&h, TP_WORK_END, NULL);
    assert_int_equal(work->end->kind, TP_END_TURN);
    assert_int_equal(work->end->turn->outcome, TP_TURN_CANCELLED);
    assert_int_equal(tp_work_release(work), TP_OK);
  }
  const tp_work *work = take_kind(&h, TP_WORK_END, NULL);
  assert_int_equal(work->end->kind, TP_END_DRAIN);
  assert_string_equal(work->ctx, "drain");
  assert_int_equal(work->end->drain->turns_cancelled, 2);
  for (int i = 0; i < 2; i++) expect_settled(submissions[i], TP_TURN_CANCELLED);
  assert_int_equal(tp_token_abandon(request, NULL), TP_OK);
  close_runtime(h.runtime);
  assert_true(work->end->drain->complete); /* a copy: also after the runtime was freed */
  assert_int_equal(tp_work_release(work), TP_OK);
  tp_inbox_free(h.inbox);
}

TEST(drain_ends_a_turn_in_its_queue) { drain_ends_all(WAITS_IN_QUEUE); }
TEST(drain_ends_a_turn_before_its_admission) { drain_ends_all(WAITS_FOR_ADMISSION); }

TEST(close_waits_for_queued_turns_and_its_id_may_be_opened_when_its_end_is_taken) {
  host h;
  tp_submission *submissions[2];
  tp_token request = begin_both(&h, WAITS_IN_QUEUE, LONG_MS, submissions);
  tp_session_close(h.sessions[0], tp_end_of_session, end_for(&h, "closed"));
  complete(request, "one");
  expect_end(&h, "first", TP_TURN_COMPLETED);
  complete(take_kind(&h, TP_WORK_MODEL, NULL)->token, "two");
  expect_end(&h, "second", TP_TURN_COMPLETED);
  const tp_work *work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "closed");
  tp_session_options again = {.struct_size = sizeof again, .id = "a", .model = &h.model};
  assert_int_equal(tp_session_open(h.runtime, &again, &h.sessions[0], NULL), TP_OK);
  assert_int_equal(tp_work_release(work), TP_OK);
  for (int i = 0; i < 2; i++) expect_settled(submissions[i], TP_TURN_COMPLETED);
  close_host(&h);
}

/* ---- no end before its submission is settled ---- */

/* A host that polls without a pause finds the result each time. */
static void result_is_there(bool by_event) {
  host h = {.runtime = open_runtime(NULL)};
  h.inbox = open_inbox(h.runtime, 0);
  static const reply hello = {.text = "hello"};
  recorder *model = recorder_new(&hello, 1);
  tp_session_options opens = {.struct_size = sizeof opens, .id = "s", .model = recorder_model(model, true)};
  assert_int_equal(tp_session_open(h.runtime, &opens, &h.sessions[0], NULL), TP_OK);
  tp_listener listener = {.struct_size = sizeof listener, .inbox = h.inbox, .kinds = turn_ends};
  if (by_event) assert_int_equal(tp_session_listen(h.sessions[0], &listener, NULL, NULL), TP_OK);
  int early = 0;
  for (int i = 0; i < 2000; i++) {
    tp_submission *submission;
    tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("hi")};
    assert_int_equal(tp_turn_submit(h.sessions[0], &request, by_event ? NULL : tp_end_of_turn,
                                    by_event ? NULL : end_for(&h, NULL), &submission, NULL),
                     TP_OK);
    const tp_work *work = NULL;
    while (!work) work = take(h.inbox);
    const tp_turn_result *result = NULL;
    if (tp_submission_wait(submission, 0, &result, NULL) != TP_OK) early++;
    else if (!by_event) assert_int_equal(result->ended_ns, work->end->turn->ended_ns);
    assert_int_equal(tp_work_release(work), TP_OK);
    tp_submission_unref(submission);
  }
  assert_int_equal(early, 0);
  close_host(&h);
  recorder_free(model);
}

TEST(result_is_there_when_the_end_is_taken) { result_is_there(false); }
TEST(result_is_there_when_the_event_of_the_end_is_taken) { result_is_there(true); }

/* A full queue has a free place when the end is taken, although the next turn may not have begun. */
TEST(queue_has_a_place_when_the_end_is_taken) {
  host h = {.runtime = open_runtime(NULL)};
  h.inbox = open_inbox(h.runtime, 0);
  static const reply hello = {.text = "hello"};
  recorder *model = recorder_new(&hello, 1);
  tp_session_options opens = {
      .struct_size = sizeof opens, .id = "s", .model = recorder_model(model, true), .turns_queued_max = 1};
  assert_int_equal(tp_session_open(h.runtime, &opens, &h.sessions[0], NULL), TP_OK);
  tp_submission_unref(submit_to(&h, 0, "turn", LONG_MS));
  for (int i = 0; i < 1000; i++) {
    tp_submission_unref(submit_to(&h, 0, "turn", LONG_MS));
    expect_end(&h, "turn", TP_TURN_COMPLETED);
  }
  expect_end(&h, "turn", TP_TURN_COMPLETED);
  close_host(&h);
  recorder_free(model);
}

/* ---- the other ends ---- */

TEST(phase_and_tools_of_a_held_turn_end_in_the_inbox) {
  host h;
  open_host(&h, 0, 0);
  tp_turn *turn = begin_bare(h.runtime, 0);
  tp_phase_input input = {.struct_size = sizeof input};
  assert_int_equal(tp_phase_submit(turn, GATHER, &input, tp_end_of_phase, end_for(&h, "phase"), NULL), TP_OK);
  const tp_work *work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "phase");
  assert_int_equal(work->end->kind, TP_END_PHASE);
  assert_int_equal(work->end->phase->outcome, TP_OK);
  const tp_tool_call call = {.struct_size = sizeof call, .id = TEXT("1"), .name = TEXT("none")};
  const tp_tool_call *calls[] = {&call, &call};
  tp_status status;
  do status = tp_tools_submit(turn, calls, 2, tp_end_of_tools, end_for(&h, "tools"), NULL);
  while (status == TP_ERR_BUSY); /* the operation ends a moment after its end is reported */
  assert_int_equal(status, TP_OK);
  assert_int_equal(tp_work_release(work), TP_OK);
  work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "tools");
  assert_int_equal(work->end->kind, TP_END_TOOLS);
  assert_int_equal(work->end->result_count, 2);
  assert_int_equal(work->end->results[1]->kind, TP_TOOL_UNKNOWN_TOOL);
  assert_int_equal(tp_work_release(work), TP_OK);
  tp_turn_end(turn);
  close_host(&h);
}

TEST(agent_and_jobs_and_logical_phase_end_in_the_inbox) {
  host h;
  open_host(&h, 0, 1);
  tp_agent_config config = {.struct_size = sizeof config, .id = "agent"};
  assert_int_equal(tp_agent_add_submit(h.runtime, &config, tp_end_of_agent, end_for(&h, "add"), NULL), TP_OK);
  const tp_work *work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "add");
  assert_int_equal(work->end->kind, TP_END_AGENT);
  assert_int_equal(work->end->agent->status, TP_OK);
  tp_agent *agent = work->end->agent->agent;
  assert_non_null(agent);
  assert_int_equal(tp_work_release(work), TP_OK);
  assert_int_equal(tp_agent_remove_submit(agent, tp_end_of_agent, end_for(&h, "remove"), NULL), TP_OK);
  work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "remove");
  assert_int_equal(tp_work_release(work), TP_OK);
  assert_int_equal(tp_jobs_wait_submit(h.runtime, NULL, LONG_MS, tp_end_of_jobs, end_for(&h, "jobs"), NULL), TP_OK);
  work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "jobs");
  assert_int_equal(work->end->kind, TP_END_JOBS);
  assert_int_equal(work->end->jobs->status, TP_OK);
  assert_int_equal(tp_work_release(work), TP_OK);
  assert_int_equal(
      tp_session_end_phase_submit(h.sessions[0], NULL, tp_end_of_session, end_for(&h, "logical phase"), NULL), TP_OK);
  work = take_kind(&h, TP_WORK_END, NULL);
  assert_string_equal(work->ctx, "logical phase");
  assert_int_equal(work->end->kind, TP_END_SESSION);
  assert_int_equal(tp_work_release(work), TP_OK);
  close_host(&h);
}

static tp_answer refuse_agent(void *ctx, tp_call *call) {
  (void)ctx;
  return tp_call_fail(call, 0, "no such agents here");
}

TEST(refused_agent_says_why_in_its_end) {
  host h;
  open_host(&h, 0, 0);
  add_hooks(
      h.runtime,
      &(hook){
          .id = "no", .phase = TP_PHASE_AGENT_REGISTER, .run = refuse_agent, .sub = {.failure = TP_FAILURE_REQUIRED}},
      1);
  tp_agent_config config = {.struct_size = sizeof config, .id = "agent"};
  assert_int_equal(tp_agent_add_submit(h.runtime, &config, tp_end_of_agent, end_for(&h, NULL), NULL), TP_OK);
  const tp_work *work = take_kind(&h, TP_WORK_END, NULL);
  assert_int_not_equal(work->end->agent->status, TP_OK);
  assert_null(work->end->agent->agent);
  assert_non_null(strstr(work->end->agent->fault->message, "no such agents here"));
  assert_int_equal(tp_work_release(work), TP_OK);
  close_host(&h);
}

TEST(end_that_was_not_submitted_is_freed_by_its_host) {
  host h;
  tp_fault fault;
  tp_end *end;
  open_host(&h, 0, 1);
  assert_int_equal(tp_end_new(NULL, NULL, &end, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.message, "tp_end_new needs an inbox and ret_end");
  assert_int_equal(tp_end_new(h.inbox, NULL, NULL, &fault), TP_ERR_USAGE);
  end = end_for(&h, NULL);
  tp_turn_request wrong = {.struct_size = sizeof wrong, .tokens_max = -1};
  assert_int_equal(tp_turn_submit(h.sessions[0], &wrong, tp_end_of_turn, end, NULL, NULL), TP_ERR_USAGE);
  tp_end_free(end);
  tp_end_free(NULL);
  close_host(&h);
}

TEST(ends_of_a_freed_inbox_are_dropped) {
  host h;
  open_host(&h, 0, 1);
  tp_submission *waits = submit_to(&h, 0, "first", LONG_MS), *later = submit_to(&h, 0, "second", LONG_MS);
  tp_submission_cancel(later);
  wait_readable(h.inbox);
  tp_inbox_free(h.inbox); /* the model's request fails, and the end of the cancelled turn is not taken */
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(waits, LONG_MS, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(tp_submission_wait(later, LONG_MS, NULL, NULL), TP_OK);
  tp_submission_unref(waits);
  tp_submission_unref(later);
  latch over = LATCH;
  tp_session_close(h.sessions[0], (void (*)(void *))latch_hit, &over);
  latch_wait(&over, 1);
  close_runtime(h.runtime);
}

/* ---- the cancel of what was taken ---- */

static void expect_cancel(const host *h, tp_token token, const void *ctx) {
  const tp_work *work = take_kind(h, TP_WORK_CANCEL, NULL);
  assert_true(work->token.bits == token.bits);
  assert_ptr_equal(work->ctx, ctx);
  assert_false(tp_token_open(token));
  assert_int_equal(tp_work_release(work), TP_OK);
}

TEST(handler_is_told_that_its_limit_has_passed) {
  host h;
  open_host(&h, 0, 0);
  add(h.runtime, "g", GATHER, h.inbox, (tp_subscription){.limit_ms = 20});
  tp_turn *turn = begin_bare(h.runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  const tp_work *work = take_kind(&h, TP_WORK_HANDLER, NULL);
  tp_token token = work->token;
  expect_cancel(&h, token, work->ctx);
  latch_wait(&r.ended, 1);
  assert_run(&r.result, "g", TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_ERR_STALE);
  tp_turn_end(turn);
  close_host(&h);
}

/* A required handler fails, and the entry does not wait for the answer of the other one. That handler is told at once,
 * and may still answer within its limit. */
TEST(handler_is_told_that_its_entry_is_decided) {
  host h;
  open_host(&h, 0, 0);
  add(h.runtime, "slow", GATHER, h.inbox, (tp_subscription){.limit_ms = LONG_MS});
  add(h.runtime, "required", GATHER, h.inbox, (tp_subscription){.limit_ms = LONG_MS, .failure = TP_FAILURE_REQUIRED});
  tp_turn *turn = begin_bare(h.runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  const tp_work *works[2], *required = NULL, *slow = NULL;
  for (int i = 0; i < 2; i++) {
    works[i] = take_kind(&h, TP_WORK_HANDLER, NULL);
    if (strcmp(tp_call_subscription(works[i]->call), "slow") == 0) slow = works[i];
    else required = works[i];
  }
  assert_int_equal(answer(required, TP_ANSWER_FAILED, "no"), TP_OK);
  const tp_work *cancel = take_kind(&h, TP_WORK_CANCEL, NULL);
  assert_true(cancel->token.bits == slow->token.bits);
  assert_true(tp_token_open(slow->token));
  assert_int_equal(tp_work_release(cancel), TP_OK);
  assert_int_equal(answer(slow, TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  tp_turn_end(turn);
  assert_null(take(h.inbox)); /* once */
  close_host(&h);
}

/* The same for one that was not yet taken: the work comes first. */
TEST(cancel_of_work_that_waits_comes_after_it) {
  host h;
  open_host(&h, 0, 0);
  add(h.runtime, "required", GATHER, h.inbox,
      (tp_subscription){.limit_ms = LONG_MS, .failure = TP_FAILURE_REQUIRED, .priority = 1});
  add(h.runtime, "slow", GATHER, h.inbox, (tp_subscription){.limit_ms = LONG_MS, .priority = 2});
  tp_turn *turn = begin_bare(h.runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  const tp_work *required = take_kind(&h, TP_WORK_HANDLER, NULL);
  assert_string_equal(tp_call_subscription(required->call), "required");
  assert_int_equal(answer(required, TP_ANSWER_FAILED, "no"), TP_OK);
  const tp_work *slow = take_kind(&h, TP_WORK_HANDLER, NULL);
  while (!tp_call_cancelled(slow->call)) sleep_ms(1); /* taken before its entry was decided, or after it */
  const tp_work *cancel = take_kind(&h, TP_WORK_CANCEL, NULL);
  assert_true(cancel->token.bits == slow->token.bits);
  assert_int_equal(tp_work_release(cancel), TP_OK);
  assert_int_equal(answer(slow, TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  tp_turn_end(turn);
  close_host(&h);
}

TEST(work_that_was_not_taken_needs_no_cancel) {
  host h;
  open_host(&h, 0, 0);
  add(h.runtime, "g", GATHER, h.inbox, (tp_subscription){.limit_ms = 20});
  tp_turn *turn = begin_bare(h.runtime, 0);
  ran r;
  submit(turn, GATHER, NULL, &r);
  latch_wait(&r.ended, 1);
  assert_false(is_readable(h.inbox));
  assert_null(take(h.inbox));
  tp_turn_end(turn);
  close_host(&h);
}

TEST(cancel_of_work_that_was_answered_is_skipped) {
  host h;
  open_host(&h, 0, 1);
  tp_submission *submission = submit_to(&h, 0, "turn", LONG_MS);
  const tp_work *work = take_kind(&h, TP_WORK_MODEL, NULL);
  tp_submission_cancel(submission);
  assert_int_equal(tp_submission_wait(submission, LONG_MS, NULL, NULL), TP_OK);
  tp_submission_unref(submission);
  assert_int_equal(tp_token_abandon(work->token, NULL), TP_OK); /* the cancel waits, and is for nothing now */
  const tp_work *next = take_any(h.inbox);
  assert_int_equal(next->kind, TP_WORK_END);
  assert_int_equal(tp_work_release(next), TP_OK);
  close_host(&h);
}

TEST(model_is_told_that_its_turn_was_cancelled) {
  host h;
  open_host(&h, 0, 1);
  tp_submission *submission = submit_to(&h, 0, "turn", LONG_MS);
  const tp_work *work = take_kind(&h, TP_WORK_MODEL, NULL);
  tp_token token = work->token;
  tp_submission_cancel(submission);
  expect_cancel(&h, token, &h);
  expect_end(&h, "turn", TP_TURN_CANCELLED);
  expect_settled(submission, TP_TURN_CANCELLED);
  assert_int_equal(tp_token_abandon(token, NULL), TP_OK);
  close_host(&h);
}

TEST(model_is_told_that_the_limit_of_its_turn_has_passed) {
  host h;
  open_host(&h, 0, 1);
  tp_submission *submission = submit_to(&h, 0, "turn", 20);
  tp_token token = take_kind(&h, TP_WORK_MODEL, NULL)->token;
  expect_cancel(&h, token, &h);
  expect_end(&h, "turn", TP_TURN_TIMED_OUT);
  expect_settled(submission, TP_TURN_TIMED_OUT);
  assert_int_equal(tp_token_abandon(token, NULL), TP_OK);
  close_host(&h);
}

/* Its work outlives the runtime, as an event's does. */
TEST(cancel_may_be_read_after_the_runtime_was_freed) {
  host h;
  open_host(&h, 0, 1);
  tp_submission *submission = submit_to(&h, 0, "turn", LONG_MS);
  tp_token token = take_kind(&h, TP_WORK_MODEL, NULL)->token;
  tp_submission_cancel(submission);
  tp_submission_unref(submission);
  const tp_work *work = take_kind(&h, TP_WORK_CANCEL, NULL);
  close_runtime(h.runtime);
  assert_true(work->token.bits == token.bits);
  assert_int_equal(tp_work_release(work), TP_OK);
  expect_end(&h, "turn", TP_TURN_CANCELLED);
  tp_inbox_free(h.inbox);
}

/* ---- the destroy of what names an inbox ---- */

static int destroyed;
static pthread_t destroyed_on;
static void destroy(void *ctx) {
  (void)ctx;
  destroyed++;
  destroyed_on = pthread_self();
}

typedef enum owner { A_HANDLER, A_HOOK, A_TOOL, A_MODEL, A_FALLBACK, A_LISTENER, A_SESSION_LISTENER, OWNERS } owner;

static void own(host *h, owner which) {
  static const tp_owner trusted = {.struct_size = sizeof trusted, .name = "test", .trust = TP_TRUST_BUILTIN};
  const uint32_t phase = GATHER;
  tp_edit *edit;
  tp_model first = {.struct_size = sizeof first, .ctx = "x", .inbox = h->inbox};
  tp_model owned = {.struct_size = sizeof owned, .ctx = "object", .inbox = h->inbox, .destroy = destroy};
  tp_listener listener = {.struct_size = sizeof listener, .ctx = "object", .inbox = h->inbox, .destroy = destroy};
  uint64_t id;
  switch (which) {
    case A_HANDLER:
      assert_int_equal(add_status(h->runtime, "owned", phase, h->inbox,
                                  (tp_handler){.ctx = "object", .destroy = destroy}, (tp_subscription){0}),
                       TP_OK);
      assert_int_equal(tp_edit_begin(h->runtime, &trusted, &edit, NULL), TP_OK);
      assert_int_equal(tp_edit_remove_subscription(edit, "owned", NULL), TP_OK);
      assert_int_equal(tp_edit_remove_handler(edit, "owned", NULL), TP_OK);
      assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
      break;
    case A_HOOK:
      assert_int_equal(tp_hook_add(h->runtime,
                                   &(tp_hook){.struct_size = sizeof(tp_hook),
                                              .phase = "turn.intake",
                                              .id = "owned",
                                              .ctx = "object",
                                              .inbox = h->inbox,
                                              .destroy = destroy},
                                   NULL),
                       TP_OK);
      assert_int_equal(tp_edit_begin(h->runtime, &trusted, &edit, NULL), TP_OK);
      assert_int_equal(tp_edit_remove_subscription(edit, "owned", NULL), TP_OK);
      assert_int_equal(tp_edit_remove_handler(edit, "owned", NULL), TP_OK);
      assert_int_equal(tp_edit_commit(edit, NULL, NULL), TP_OK);
      break;
    case A_TOOL: {
      add(h->runtime, "tools", TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, h->inbox, (tp_subscription){0});
      tp_turn *turn = begin_bare(h->runtime, 0);
      ran r;
      submit(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, &r);
      const tp_work *work = take_kind(h, TP_WORK_HANDLER, NULL);
      const tp_tool tool = {
          .struct_size = sizeof tool, .name = "t", .ctx = "object", .inbox = h->inbox, .destroy = destroy};
      assert_int_equal(tp_call_emit_tool_bundle(work->call, "b", (const tp_tool *[]){&tool}, 1, NULL), TP_OK);
      assert_int_equal(answer(work, TP_ANSWER_DONE, NULL), TP_OK);
      latch_wait(&r.ended, 1);
      tp_turn_end(turn);
      break;
    }
    case A_MODEL:
    case A_FALLBACK: {
      tp_session_options opens = {.struct_size = sizeof opens,
                                  .id = "owns",
                                  .model = which == A_MODEL ? &owned : &first,
                                  .fallbacks = (const tp_model *[]){&owned},
                                  .fallback_count = which == A_FALLBACK ? 1 : 0};
      tp_session *session;
      assert_int_equal(tp_session_open(h->runtime, &opens, &session, NULL), TP_OK);
      tp_session_close(session, NULL, NULL);
      break;
    }
    case A_LISTENER:
      assert_int_equal(tp_runtime_listen(h->runtime, &listener, &id, NULL), TP_OK);
      assert_int_equal(tp_runtime_unlisten(h->runtime, id, NULL), TP_OK);
      break;
    default:
      assert_int_equal(tp_session_listen(h->sessions[0], &listener, &id, NULL), TP_OK);
      assert_int_equal(tp_session_unlisten(h->sessions[0], id, NULL), TP_OK);
  }
}

TEST(destroy_comes_as_work_and_is_called_when_that_is_released) {
  for (int which = 0; which < OWNERS; which++) {
    host h;
    destroyed = 0;
    open_host(&h, 0, 1);
    own(&h, (owner)which);
    const tp_work *work = take_kind(&h, TP_WORK_DESTROY, NULL);
    assert_string_equal(work->ctx, "object");
    assert_int_equal(work->token.bits, 0);
    assert_int_equal(destroyed, 0);
    assert_int_equal(tp_work_release(work), TP_OK);
    assert_int_equal(destroyed, 1);
    close_host(&h);
    assert_int_equal(destroyed, 1);
  }
}

TEST(destroy_that_was_not_taken_is_called_by_the_free_of_the_inbox) {
  for (int which = 0; which < OWNERS; which++) {
    host h;
    destroyed = 0;
    open_host(&h, 0, 1);
    own(&h, (owner)which);
    close_runtime(h.runtime); /* the session is closed by its drain */
    assert_int_equal(destroyed, 0);
    tp_inbox_free(h.inbox);
    assert_int_equal(destroyed, 1);
    assert_true(pthread_equal(destroyed_on, pthread_self()));
  }
}

TEST(destroy_after_the_free_of_the_inbox_is_called_where_the_last_use_ends) {
  host h = {.runtime = open_runtime(NULL)};
  destroyed = 0;
  h.inbox = open_inbox(h.runtime, 0);
  assert_int_equal(
      add_status(h.runtime, "owned", GATHER, h.inbox, (tp_handler){.destroy = destroy}, (tp_subscription){0}), TP_OK);
  tp_inbox_free(h.inbox);
  assert_int_equal(destroyed, 0);
  close_runtime(h.runtime);
  assert_int_equal(destroyed, 1);
}

TEST(objects_that_were_refused_stay_their_hosts) {
  host h;
  destroyed = 0;
  open_host(&h, 0, 1);
  tp_hook wrong = {.struct_size = sizeof wrong, .phase = "turn.intake", .inbox = h.inbox, .destroy = destroy};
  wrong.id = "not an id!";
  assert_int_not_equal(tp_hook_add(h.runtime, &wrong, NULL), TP_OK);
  tp_model model = {.struct_size = sizeof model, .inbox = h.inbox, .destroy = destroy};
  tp_session_options twice = {.struct_size = sizeof twice, .id = "a", .model = &model};
  tp_session *session;
  assert_int_equal(tp_session_open(h.runtime, &twice, &session, NULL), TP_ERR_BUSY);
  for (int i = 0; i < 64; i++) {
    tp_listener listener = {.struct_size = sizeof listener, .inbox = h.inbox};
    assert_int_equal(tp_runtime_listen(h.runtime, &listener, NULL, NULL), TP_OK);
  }
  tp_listener listener = {.struct_size = sizeof listener, .inbox = h.inbox, .destroy = destroy};
  assert_int_equal(tp_runtime_listen(h.runtime, &listener, NULL, NULL), TP_ERR_FULL);
  assert_false(is_readable(h.inbox));
  close_host(&h);
  assert_int_equal(destroyed, 0);
}

/* ---- a host with a pool of few threads, which its guards and models need ---- */

/* A binding that waited for ends in that pool would hang when there are as many turns as threads. */
enum { POOL_TURNS = 16, POOL_MAX = 4, IN_POOL_GUARDS = 1, IN_POOL_MODELS = 2 };

typedef struct pool {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  const tp_work *works[2 * POOL_TURNS];
  size_t taken, count;
  bool is_over;
} pool;

static void answer_one(const tp_work *work) {
  static const tp_outcome allowed = {.struct_size = sizeof allowed, .kind = TP_ANSWER_ALLOW};
  static const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("ok")};
  if (work->kind == TP_WORK_HANDLER) (void)!tp_token_complete(work->token, &allowed, NULL);
  else (void)!tp_model_complete(work->token, &response, NULL);
}

static void *serve_pool(void *ctx) {
  pool *p = ctx;
  pthread_mutex_lock(&p->mutex);
  while (!p->is_over) {
    if (p->taken == p->count) {
      pthread_cond_wait(&p->changed, &p->mutex);
      continue;
    }
    const tp_work *work = p->works[p->taken++];
    pthread_mutex_unlock(&p->mutex);
    answer_one(work);
    pthread_mutex_lock(&p->mutex);
  }
  pthread_mutex_unlock(&p->mutex);
  return NULL;
}

static void give_to_pool(pool *p, const tp_work *work) {
  pthread_mutex_lock(&p->mutex);
  assert_true(p->count < sizeof p->works / sizeof *p->works);
  p->works[p->count++] = work;
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->mutex);
}

static void end_pool(pool *p, pthread_t *threads, size_t count) {
  pthread_mutex_lock(&p->mutex);
  p->is_over = true;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->mutex);
  for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

/* @return how many turns completed. */
static size_t take_ends(const host *h, pool *p, unsigned in_pool) {
  size_t completed = 0;
  for (size_t ended = 0; ended < POOL_TURNS;) {
    const tp_work *work = take_next(h->inbox);
    if (work->kind == TP_WORK_END) {
      ended++;
      completed += work->end->turn->outcome == TP_TURN_COMPLETED;
      assert_int_equal(tp_work_release(work), TP_OK);
    } else if (in_pool & (work->kind == TP_WORK_HANDLER ? IN_POOL_GUARDS : IN_POOL_MODELS)) {
      give_to_pool(p, work);
    } else {
      answer_one(work);
    }
  }
  return completed;
}

static void many_turns_complete(size_t thread_count, unsigned in_pool) {
  host h = {.runtime = open_runtime(NULL)};
  tp_session *sessions[POOL_TURNS];
  pthread_t threads[POOL_MAX];
  pool p = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  h.inbox = open_inbox(h.runtime, 0);
  h.model = (tp_model){.struct_size = sizeof h.model, .name = "host", .inbox = h.inbox};
  add(h.runtime, "guard", TP_PHASE_TURN_INTAKE, h.inbox, (tp_subscription){.limit_ms = LONG_MS});
  for (size_t i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, serve_pool, &p);
  for (size_t i = 0; i < POOL_TURNS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%zu", i);
    const tp_session_options opens = {.struct_size = sizeof opens, .id = id, .model = &h.model};
    const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
    assert_int_equal(tp_session_open(h.runtime, &opens, &sessions[i], NULL), TP_OK);
    assert_int_equal(tp_turn_submit(sessions[i], &request, tp_end_of_turn, end_for(&h, NULL), NULL, NULL), TP_OK);
  }
  assert_int_equal(take_ends(&h, &p, in_pool), POOL_TURNS);
  end_pool(&p, threads, thread_count);
  for (size_t i = 0; i < POOL_TURNS; i++) tp_session_close(sessions[i], NULL, NULL);
  tp_inbox_free(h.inbox);
  close_runtime(h.runtime);
}

TEST(pool_of_few_threads_serves_many_turns_as_no_thread_waits_for_an_end) {
  for (size_t threads = 1; threads <= POOL_MAX; threads++)
    for (unsigned in_pool = IN_POOL_GUARDS; in_pool <= (IN_POOL_GUARDS | IN_POOL_MODELS); in_pool++)
      many_turns_complete(threads, in_pool);
}
