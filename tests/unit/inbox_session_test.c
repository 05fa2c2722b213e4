/* SPDX-License-Identifier: Apache-2.0
 *
 * TP_INBOX_OF_SESSION: hooks, tools, models and listeners, whose work comes to the inbox of their turn's session. The
 * host here has one runtime and two loops, each with an inbox and a session of its own. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { LOOPS = 2, TOOLS = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION };

typedef struct host {
  tp_runtime *runtime;
  tp_inbox *inboxes[LOOPS];
  tp_session *sessions[LOOPS];
  tp_model model;
  tp_agent *agent;
} host;

static const char *const names[LOOPS] = {"a", "b"};

static const tp_model *of_session_model(host *h) {
  h->model = (tp_model){.struct_size = sizeof h->model, .name = "host", .ctx = h, .inbox = TP_INBOX_OF_SESSION};
  return &h->model;
}

static void open_loops(host *h) {
  *h = (host){.runtime = open_runtime(NULL)};
  for (size_t i = 0; i < LOOPS; i++) h->inboxes[i] = open_inbox(h->runtime, 0);
}

static void open_sessions(host *h, tp_session_options options) {
  for (size_t i = 0; i < LOOPS; i++) {
    options.struct_size = sizeof options;
    options.id = names[i];
    options.inbox = h->inboxes[i];
    assert_int_equal(tp_session_open(h->runtime, &options, &h->sessions[i], NULL), TP_OK);
  }
}

static void open_host(host *h) {
  open_loops(h);
  open_sessions(h, (tp_session_options){.model = of_session_model(h)});
}

static void close_sessions(host *h) {
  for (size_t i = 0; i < LOOPS; i++) {
    latch over = LATCH;
    if (h->sessions[i]) {
      tp_session_close(h->sessions[i], (void (*)(void *))latch_hit, &over);
      latch_wait(&over, 1);
    }
    h->sessions[i] = NULL;
  }
}

static void close_host(host *h) {
  close_sessions(h);
  for (size_t i = 0; i < LOOPS; i++) {
    if (h->inboxes[i]) assert_null(take(h->inboxes[i]));
    tp_inbox_free(h->inboxes[i]);
  }
  expect_no_tokens(h->runtime);
  close_runtime(h->runtime);
}

/* The turn's end comes to the inbox of its loop. */
static void submit_turn(const host *h, size_t loop, const char *text) {
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of(text), .limit_ms = LONG_MS};
  tp_end *end;
  assert_int_equal(tp_end_new(h->inboxes[loop], (void *)(uintptr_t)text, &end, NULL), TP_OK);
  assert_int_equal(tp_turn_submit(h->sessions[loop], &request, tp_end_of_turn, end, NULL, NULL), TP_OK);
}

static const tp_work *take_from(const host *h, size_t loop, tp_work_kind kind) {
  const tp_work *work = take_next(h->inboxes[loop]);
  assert_int_equal(work->kind, kind);
  return work;
}

static void expect_end(const host *h, size_t loop, tp_turn_outcome outcome) {
  const tp_work *work = take_from(h, loop, TP_WORK_END);
  assert_int_equal(work->end->turn->outcome, outcome);
  assert_int_equal(tp_work_release(work), TP_OK);
}

static void answer_model(const tp_work *work, const char *tool) {
  tp_tool_call call = {.struct_size = sizeof call, .name = tp_text_of(tool)};
  const tp_tool_call *calls[] = {&call};
  tp_model_response response = {
      .struct_size = sizeof response, .text = TEXT("ok"), .calls = calls, .call_count = tool ? 1 : 0};
  assert_int_equal(tp_model_complete(work->token, &response, NULL), TP_OK);
}

static void add_guard(const host *h, tp_hook desc) {
  desc.struct_size = sizeof desc;
  if (!desc.id) desc.id = "guard";
  if (!desc.phase) desc.phase = "turn.intake";
  desc.inbox = TP_INBOX_OF_SESSION;
  if (!desc.failure) desc.failure = TP_FAILURE_REQUIRED;
  desc.limit_ms = LONG_MS;
  assert_int_equal(tp_hook_add(h->runtime, &desc, NULL), TP_OK);
}

/* ---- each kind of work comes to the loop whose session's turn it is ---- */

TEST(guard_of_each_session_runs_in_its_own_loop) {
  host h;
  open_host(&h);
  add_guard(&h, (tp_hook){0});
  for (size_t i = 0; i < LOOPS; i++) submit_turn(&h, i, names[i]);
  for (size_t i = 0; i < LOOPS; i++) {
    const tp_work *work = take_from(&h, i, TP_WORK_HANDLER);
    assert_text(tp_call_id(work->call, TP_ID_SESSION), names[i]);
    assert_text(tp_call_text(work->call, TP_FIELD_TEXT), names[i]);
    assert_int_equal(answer(work, i == 0 ? TP_ANSWER_DENY : TP_ANSWER_ALLOW, "no"), TP_OK);
  }
  expect_end(&h, 0, TP_TURN_DENIED);
  answer_model(take_from(&h, 1, TP_WORK_MODEL), NULL);
  expect_end(&h, 1, TP_TURN_COMPLETED);
  close_host(&h);
}

TEST(model_of_an_agent_is_asked_in_the_loop_of_each_session) {
  host h;
  open_loops(&h);
  tp_agent_config config = {.struct_size = sizeof config, .id = "agent", .model = of_session_model(&h)};
  assert_int_equal(tp_agent_add(h.runtime, &config, &h.agent, NULL), TP_OK);
  open_sessions(&h, (tp_session_options){.agent = h.agent});
  for (size_t i = LOOPS; i-- > 0;) submit_turn(&h, i, names[i]);
  for (size_t i = 0; i < LOOPS; i++) {
    const tp_work *work = take_from(&h, i, TP_WORK_MODEL);
    assert_text(work->request->messages[0]->text, names[i]);
    answer_model(work, NULL);
    expect_end(&h, i, TP_TURN_COMPLETED);
  }
  close_sessions(&h);
  tp_agent_remove(h.agent);
  close_host(&h);
}

static _Atomic int destroys;
static void destroy(void *ctx) {
  (void)ctx;
  destroys++;
}

TEST(model_and_fallback_of_a_session_are_destroyed_through_its_inbox) {
  host h;
  open_loops(&h);
  destroys = 0;
  tp_model second = *of_session_model(&h);
  const tp_model *fallbacks[] = {&second};
  h.model.destroy = second.destroy = destroy;
  second.ctx = &second;
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "a",
                                .model = &h.model,
                                .fallbacks = fallbacks,
                                .fallback_count = 1,
                                .inbox = h.inboxes[0]};
  assert_int_equal(tp_session_open(h.runtime, &options, &h.sessions[0], NULL), TP_OK);
  submit_turn(&h, 0, "x");
  assert_int_equal(tp_model_fail(take_from(&h, 0, TP_WORK_MODEL)->token, TP_ERR_MODEL_UNAVAILABLE, "gone", false, NULL),
                   TP_OK);
  const tp_work *work = take_from(&h, 0, TP_WORK_MODEL);
  assert_ptr_equal(work->ctx, &second);
  answer_model(work, NULL);
  expect_end(&h, 0, TP_TURN_COMPLETED);
  close_sessions(&h);
  assert_int_equal(destroys, 0);
  take_destroy(h.inboxes[0], &h);
  take_destroy(h.inboxes[0], &second);
  assert_int_equal(destroys, 2);
  close_host(&h);
}

TEST(added_tool_is_called_in_the_loop_of_each_session) {
  host h;
  open_host(&h);
  destroys = 0;
  tp_tool tool = {.struct_size = sizeof tool, .name = "deploy", .inbox = TP_INBOX_OF_SESSION, .destroy = destroy};
  assert_int_equal(tp_tool_add(h.runtime, &tool, NULL), TP_OK);
  for (size_t i = 0; i < LOOPS; i++) {
    submit_turn(&h, i, names[i]);
    answer_model(take_from(&h, i, TP_WORK_MODEL), "deploy");
    const tp_work *work = take_from(&h, i, TP_WORK_TOOL);
    assert_text(tp_tool_run_id(work->run, TP_ID_SESSION), names[i]);
    assert_int_equal(tp_tool_complete(work->token, false, tp_text_of("deployed"), NULL), TP_OK);
    answer_model(take_from(&h, i, TP_WORK_MODEL), NULL);
    expect_end(&h, i, TP_TURN_COMPLETED);
  }
  /* The tool belongs to no session, so its destroy is called like that of a tool without an inbox. */
  assert_int_equal(tp_tool_remove(h.runtime, "deploy", NULL), TP_OK);
  close_host(&h);
  assert_int_equal(destroys, 1);
}

static tp_answer emit_tool(void *ctx, tp_call *call) {
  tp_tool tool = {.struct_size = sizeof tool, .name = "deploy", .inbox = TP_INBOX_OF_SESSION, .ctx = ctx};
  tool.destroy = destroy;
  const tp_tool *tools[] = {&tool};
  return tp_call_emit_tool_bundle(call, "tools", tools, 1, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

TEST(tool_that_a_turn_emits_is_called_and_destroyed_in_its_loop) {
  host h;
  open_host(&h);
  tp_hook desc = {.struct_size = sizeof desc, .phase = "turn.pre_tool_materialization", .run = emit_tool, .ctx = &h};
  assert_int_equal(tp_hook_add(h.runtime, &desc, NULL), TP_OK);
  for (size_t i = 0; i < LOOPS; i++) {
    destroys = 0;
    submit_turn(&h, i, names[i]);
    answer_model(take_from(&h, i, TP_WORK_MODEL), "deploy");
    const tp_work *work = take_from(&h, i, TP_WORK_TOOL);
    assert_int_equal(tp_tool_complete(work->token, false, tp_text_of("deployed"), NULL), TP_OK);
    answer_model(take_from(&h, i, TP_WORK_MODEL), NULL);
    expect_end(&h, i, TP_TURN_COMPLETED);
    take_destroy(h.inboxes[i], &h);
    assert_int_equal(destroys, 1);
  }
  close_host(&h);
}

TEST(listener_of_a_session_gets_its_events_and_destroy_in_the_loop_of_that) {
  host h;
  open_host(&h);
  destroys = 0;
  for (size_t i = 0; i < LOOPS; i++) {
    tp_listener listener = {.struct_size = sizeof listener,
                            .inbox = TP_INBOX_OF_SESSION,
                            .ctx = &h.sessions[i],
                            .destroy = destroy,
                            .kinds = UINT64_C(1) << TP_EVENT_TURN_END};
    assert_int_equal(tp_session_listen(h.sessions[i], &listener, NULL, NULL), TP_OK);
  }
  for (size_t i = 0; i < LOOPS; i++) {
    submit_turn(&h, i, names[i]);
    answer_model(take_from(&h, i, TP_WORK_MODEL), NULL);
    const tp_work *work = take_from(&h, i, TP_WORK_EVENT);
    assert_text(work->event->ids[TP_ID_SESSION], names[i]);
    assert_int_equal(tp_work_release(work), TP_OK);
    expect_end(&h, i, TP_TURN_COMPLETED);
  }
  close_sessions(&h);
  for (size_t i = 0; i < LOOPS; i++) take_destroy(h.inboxes[i], &h.sessions[i]);
  assert_int_equal(destroys, LOOPS);
  close_host(&h);
}

TEST(detached_run_comes_to_the_loop_of_its_turn) {
  host h;
  open_host(&h);
  add_guard(&h, (tp_hook){.phase = "turn.pre_prompt_context",
                          .failure = TP_FAILURE_BEST_EFFORT,
                          .execution = TP_EXECUTION_FIRE_AND_RECORD});
  for (size_t i = 0; i < LOOPS; i++) {
    submit_turn(&h, i, names[i]);
    const tp_work *both[2] = {take_next(h.inboxes[i]), take_next(h.inboxes[i])};
    size_t detached = both[0]->kind == TP_WORK_HANDLER ? 0 : 1;
    assert_int_equal(both[detached]->kind, TP_WORK_HANDLER);
    answer_model(both[1 - detached], NULL);
    expect_end(&h, i, TP_TURN_COMPLETED);
    close_sessions(&h); /* its turn's inbox is held for it */
    assert_int_equal(answer(both[detached], TP_ANSWER_DONE, NULL), TP_OK);
    if (i + 1 < LOOPS) open_sessions(&h, (tp_session_options){.model = &h.model});
  }
  close_host(&h);
}

TEST(turn_that_its_host_drives_keeps_the_inbox_of_a_closed_session) {
  host h;
  open_host(&h);
  add_guard(&h, (tp_hook){.phase = "turn.pre_prompt_context"});
  tp_turn *turn;
  tp_turn_request request = {.struct_size = sizeof request, .limit_ms = LONG_MS};
  assert_int_equal(tp_turn_begin(h.sessions[1], &request, &turn, NULL), TP_OK);
  close_sessions(&h);
  ran r;
  submit(turn, GATHER, "x", &r);
  assert_int_equal(answer(take_from(&h, 1, TP_WORK_HANDLER), TP_ANSWER_DONE, NULL), TP_OK);
  latch_wait(&r.ended, 1);
  assert_int_equal(r.result.outcome, TP_OK);
  tp_turn_end(turn);
  close_host(&h);
}

TEST(task_of_a_session_is_guarded_and_run_in_its_loop) {
  host h;
  open_host(&h);
  tp_tool tool = {.struct_size = sizeof tool, .name = "deploy", .inbox = TP_INBOX_OF_SESSION};
  assert_int_equal(tp_tool_add(h.runtime, &tool, NULL), TP_OK);
  add_guard(&h, (tp_hook){.phase = "tool.pre"});
  for (size_t i = 0; i < LOOPS; i++) {
    tp_task_spec spec = {.struct_size = sizeof spec, .tool = "deploy", .session = h.sessions[i]};
    tp_end *end;
    assert_int_equal(tp_end_new(h.inboxes[i], &h, &end, NULL), TP_OK);
    assert_int_equal(tp_task_submit(h.runtime, TP_TASK_CALL, &spec, tp_end_of_task, end, NULL, NULL), TP_OK);
    assert_int_equal(answer(take_from(&h, i, TP_WORK_HANDLER), TP_ANSWER_ALLOW, NULL), TP_OK);
    assert_int_equal(tp_tool_complete(take_from(&h, i, TP_WORK_TOOL)->token, false, tp_text_of("deployed"), NULL),
                     TP_OK);
    const tp_work *work = take_from(&h, i, TP_WORK_END);
    assert_int_equal(work->end->task->kind, TP_TOOL_OK);
    assert_int_equal(tp_work_release(work), TP_OK);
  }
  close_host(&h);
}

TEST(cancel_of_taken_work_comes_to_the_loop_that_took_it) {
  host h;
  open_host(&h);
  add_guard(&h, (tp_hook){0});
  for (size_t i = 0; i < LOOPS; i++) {
    tp_submission *submission;
    tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("x"), .limit_ms = LONG_MS};
    assert_int_equal(tp_turn_submit(h.sessions[i], &request, NULL, NULL, &submission, NULL), TP_OK);
    tp_token token = take_from(&h, i, TP_WORK_HANDLER)->token;
    tp_submission_cancel(submission);
    const tp_work *work = take_any(h.inboxes[i]);
    assert_int_equal(work->kind, TP_WORK_CANCEL);
    assert_int_equal(work->token.bits, token.bits);
    assert_int_equal(tp_work_release(work), TP_OK);
    assert_int_equal(tp_token_abandon(token, NULL), TP_OK);
    assert_int_equal(tp_submission_wait(submission, LONG_MS, NULL, NULL), TP_OK);
    tp_submission_unref(submission);
  }
  close_host(&h);
}

static tp_answer ask(void *ctx, tp_call *call) {
  const tp_message hi = {.struct_size = sizeof hi, .role = TP_ROLE_USER, .text = TEXT("Hi")};
  const tp_message *const messages[] = {&hi};
  const tp_model_request request = {.struct_size = sizeof request, .messages = messages, .message_count = 1};
  tp_model_response response = {.struct_size = sizeof response};
  return tp_call_ask_model(call, ctx, &request, &response, NULL, NULL) == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

TEST(model_that_a_handler_asks_answers_in_the_loop_of_the_turn) {
  host h;
  open_host(&h);
  tp_model asked = {.struct_size = sizeof asked, .name = "asked", .ctx = &asked, .inbox = TP_INBOX_OF_SESSION};
  tp_hook asks = {.struct_size = sizeof asks, .phase = "turn.intake", .run = ask, .ctx = &asked, .limit_ms = LONG_MS};
  asks.failure = TP_FAILURE_REQUIRED;
  assert_int_equal(tp_hook_add(h.runtime, &asks, NULL), TP_OK);
  for (size_t i = 0; i < LOOPS; i++) {
    submit_turn(&h, i, names[i]);
    const tp_work *work = take_from(&h, i, TP_WORK_MODEL);
    assert_ptr_equal(work->ctx, &asked);
    answer_model(work, NULL);
    answer_model(take_from(&h, i, TP_WORK_MODEL), NULL);
    expect_end(&h, i, TP_TURN_COMPLETED);
  }
  close_host(&h);
}

/* ---- a session without an inbox, and other places where there is none ---- */

static tp_status open_without(const host *h, tp_session_options options, tp_session **ret_session, tp_fault *fault) {
  options.struct_size = sizeof options;
  options.id = "without";
  return tp_session_open(h->runtime, &options, ret_session, fault);
}

TEST(session_without_an_inbox_is_refused_whose_model_would_need_it) {
  host h;
  open_loops(&h);
  tp_session *session = NULL;
  tp_fault fault;
  destroys = 0;
  tp_model called = {.struct_size = sizeof called, .name = "called", .start = recorder_start};
  tp_model through = *of_session_model(&h);
  through.destroy = destroy;
  const tp_model *fallbacks[] = {&through};
  assert_int_equal(open_without(&h, (tp_session_options){.model = &through}, &session, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "tp_session_options.inbox"));
  assert_int_equal(open_without(&h, (tp_session_options){.model = &called, .fallbacks = fallbacks, .fallback_count = 1},
                                &session, &fault),
                   TP_ERR_USAGE);
  tp_agent_config config = {.struct_size = sizeof config, .id = "agent", .model = &h.model};
  assert_int_equal(tp_agent_add(h.runtime, &config, &h.agent, NULL), TP_OK);
  assert_int_equal(open_without(&h, (tp_session_options){.agent = h.agent}, &session, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "agent"));
  assert_null(session);
  assert_int_equal(destroys, 0); /* it stayed the host's */
  tp_agent_remove(h.agent);
  close_host(&h);
}

TEST(turn_of_a_session_without_an_inbox_is_refused_while_a_guard_would_need_it) {
  host h;
  open_loops(&h);
  recorder *r = recorder_new((reply[]){{.text = "hi"}}, 1);
  tp_session *session;
  tp_turn *turn = NULL;
  tp_fault fault;
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("x")};
  assert_int_equal(open_without(&h, (tp_session_options){.model = recorder_model(r, false)}, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  add_guard(&h, (tp_hook){0});
  assert_int_equal(tp_turn_run(session, &request, NULL, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.subject, "guard");
  assert_non_null(strstr(fault.message, "tp_session_options.inbox"));
  assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, NULL, &fault), TP_ERR_USAGE);
  tp_turn_request held = {.struct_size = sizeof held};
  assert_int_equal(tp_turn_begin(session, &held, &turn, &fault), TP_ERR_USAGE);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "deploy", .session = session};
  const tp_task_result *task = NULL;
  assert_int_equal(tp_task_call(h.runtime, &spec, &task, &fault), TP_ERR_USAGE);
  assert_int_equal(tp_hook_remove(h.runtime, "guard", NULL), TP_OK);
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
  assert_int_equal(r->asked, 2);
  h.sessions[0] = session;
  close_host(&h);
  recorder_free(r);
}

/* Each case: how the guard fails, and what becomes of the phase. */
static void guard_without_inbox(tp_failure failure, tp_status outcome) {
  host h;
  open_loops(&h);
  add(h.runtime, "guard", GUARD, TP_INBOX_OF_SESSION, (tp_subscription){.limit_ms = LONG_MS, .failure = failure});
  tp_turn *turn = begin_bare(h.runtime, 0);
  ran r;
  submit(turn, GUARD, "rm", &r);
  latch_wait(&r.ended, 1);
  assert_int_equal(r.result.outcome, outcome);
  assert_run(&r.result, "guard", TP_STATE_FAILED, TP_REASON_NO_INBOX);
  assert_string_equal(tp_reason_name(TP_REASON_NO_INBOX), "no_inbox");
  tp_turn_end(turn);
  close_host(&h);
}

TEST(required_guard_denies_in_a_turn_of_no_session) { guard_without_inbox(TP_FAILURE_REQUIRED, TP_ERR_DENIED); }
TEST(best_effort_guard_fails_in_a_turn_of_no_session) { guard_without_inbox(TP_FAILURE_BEST_EFFORT, TP_OK); }

TEST(guard_with_a_match_denies_where_it_is_called_and_nowhere_else) {
  host h;
  open_loops(&h);
  recorder *r = recorder_new((reply[]){{.text = "hi"}}, 1);
  const tp_match rm = {.struct_size = sizeof rm, .text_prefix = "rm "};
  add_guard(&h, (tp_hook){.match = &rm});
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("rm -r")};
  const tp_turn_result *result;
  assert_int_equal(open_without(&h, (tp_session_options){.model = recorder_model(r, false)}, &h.sessions[0], NULL),
                   TP_OK);
  assert_int_equal(tp_turn_run(h.sessions[0], &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_DENIED);
  assert_text(result->reason, "turn.intake: hook guard: no_inbox");
  tp_turn_result_free(result);
  request.text = tp_text_of("ls");
  assert_int_equal(tp_turn_run(h.sessions[0], &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  close_host(&h);
  recorder_free(r);
}

TEST(tool_without_an_inbox_fails_the_turn_by_name) {
  host h;
  open_loops(&h);
  recorder *r = recorder_new((reply[]){{.text = "hi"}}, 1);
  tp_tool tool = {.struct_size = sizeof tool, .name = "deploy", .inbox = TP_INBOX_OF_SESSION};
  assert_int_equal(tp_tool_add(h.runtime, &tool, NULL), TP_OK);
  size_t count = 0;
  assert_int_equal(tp_runtime_tools(h.runtime, NULL, NULL, &count, NULL), TP_OK);
  assert_int_equal(count, 1);
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("x")};
  const tp_turn_result *result;
  assert_int_equal(open_without(&h, (tp_session_options){.model = recorder_model(r, false)}, &h.sessions[0], NULL),
                   TP_OK);
  assert_int_equal(tp_turn_run(h.sessions[0], &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_USAGE);
  assert_text(result->reason,
              "turn.pre_tool_materialization: the tool deploy names TP_INBOX_OF_SESSION: set tp_session_options.inbox");
  tp_turn_result_free(result);
  assert_int_equal(r->asked, 0);
  tp_task_spec spec = {.struct_size = sizeof spec, .tool = "deploy"};
  const tp_task_result *task;
  assert_int_equal(tp_task_call(h.runtime, &spec, &task, NULL), TP_OK);
  assert_int_equal(task->kind, TP_TOOL_SHED);
  assert_text(task->text, "calls of this tool come to the inbox of a session, and this turn is of none that has one");
  tp_task_result_free(task);
  close_host(&h);
  recorder_free(r);
}

TEST(what_is_of_no_session_is_refused_when_it_is_registered) {
  host h;
  open_loops(&h);
  static const char *const agent_phases[] = {"agent.build", "agent.register", "agent.unregister"};
  tp_fault fault;
  for (size_t i = 0; i < COUNT(agent_phases); i++) {
    tp_hook desc = {.struct_size = sizeof desc, .phase = agent_phases[i], .inbox = TP_INBOX_OF_SESSION};
    assert_int_equal(tp_hook_add(h.runtime, &desc, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "TP_INBOX_OF_SESSION"));
  }
  tp_hook job = {.struct_size = sizeof job,
                 .phase = "turn.post_turn",
                 .inbox = TP_INBOX_OF_SESSION,
                 .execution = TP_EXECUTION_BACKGROUND};
  assert_int_equal(tp_hook_add(h.runtime, &job, &fault), TP_ERR_USAGE);
  tp_listener listener = {.struct_size = sizeof listener, .inbox = TP_INBOX_OF_SESSION};
  assert_int_equal(tp_runtime_listen(h.runtime, &listener, NULL, &fault), TP_ERR_USAGE);
  recorder *r = recorder_new(NULL, 0);
  assert_int_equal(open_without(&h, (tp_session_options){.model = recorder_model(r, false)}, &h.sessions[0], NULL),
                   TP_OK);
  assert_int_equal(tp_session_listen(h.sessions[0], &listener, NULL, &fault), TP_ERR_USAGE);
  close_host(&h);
  recorder_free(r);
}

TEST(inbox_of_a_session_is_an_inbox_of_its_runtime) {
  host h;
  open_loops(&h);
  tp_session *session;
  tp_fault fault;
  tp_runtime *other = open_runtime(NULL);
  tp_inbox *foreign = open_inbox(other, 0);
  assert_int_equal(open_without(&h, (tp_session_options){.inbox = foreign}, &session, &fault), TP_ERR_USAGE);
  assert_int_equal(open_without(&h, (tp_session_options){.inbox = TP_INBOX_OF_SESSION}, &session, &fault),
                   TP_ERR_USAGE);
  tp_inbox_free(foreign);
  close_runtime(other);
  close_host(&h);
}

TEST(functions_of_an_inbox_refuse_what_stands_for_one) {
  const tp_work *work;
  size_t count;
  tp_end *end;
  assert_int_equal(tp_inbox_fd(TP_INBOX_OF_SESSION), -1);
  assert_int_equal(tp_inbox_next(TP_INBOX_OF_SESSION, &work), TP_ERR_USAGE);
  assert_int_equal(tp_inbox_take(TP_INBOX_OF_SESSION, &work, 1, &count), TP_ERR_USAGE);
  assert_int_equal(tp_end_new(TP_INBOX_OF_SESSION, NULL, &end, NULL), TP_ERR_USAGE);
  tp_inbox_free(TP_INBOX_OF_SESSION);
}

TEST(freed_inbox_of_a_session_denies_there_and_nowhere_else) {
  host h;
  open_host(&h);
  add_guard(&h, (tp_hook){0});
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("x"), .limit_ms = LONG_MS};
  const tp_turn_result *result;
  tp_inbox_free(h.inboxes[0]);
  h.inboxes[0] = NULL;
  assert_int_equal(tp_turn_run(h.sessions[0], &request, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_DENIED);
  tp_turn_result_free(result);
  submit_turn(&h, 1, "b");
  assert_int_equal(answer(take_from(&h, 1, TP_WORK_HANDLER), TP_ANSWER_DENY, "no"), TP_OK);
  expect_end(&h, 1, TP_TURN_DENIED);
  close_host(&h);
}
