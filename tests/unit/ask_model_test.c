/* SPDX-License-Identifier: Apache-2.0
 *
 * A handler asks a model: the answer, refusals, and requests that were given up. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

/* The limit of a handler that must begin within it, even on a busy machine. */
enum { LIMIT_MS = 500 };

/* ---- a handler that asks once ---- */

typedef struct asker {
  recorder *model;
  bool is_inline, forever;
  bool asks_turns;          /* the model of the turn */
  tp_inbox *inbox;          /* not NULL: the model is of it */
  tp_model_request request; /* without messages: one user's message, "Hi" */
  latch asked;              /* the function has returned */
  tp_status status;
  char text[64], stop_reason[32], call_name[32], message[TP_FAULT_MESSAGE_SIZE];
  int64_t input_tokens;
  bool retryable;
} asker;

static tp_answer ask(void *ctx, tp_call *call) {
  asker *a = ctx;
  static const tp_message hi = {.struct_size = sizeof hi, .role = TP_ROLE_USER, .text = TEXT("Hi")};
  static const tp_message *const messages[] = {&hi};
  tp_model_request request = a->request;
  tp_model_response response = {.struct_size = sizeof response};
  tp_fault fault = {.code = TP_OK};
  if (!request.struct_size) request.struct_size = sizeof request;
  if (!request.messages) {
    request.messages = messages;
    request.message_count = 1;
  }
  const tp_model through = {.struct_size = sizeof through, .name = "through", .ctx = a, .inbox = a->inbox};
  const tp_model *model = a->inbox ? &through : recorder_model(a->model, a->is_inline);
  if (a->asks_turns) model = NULL;
  a->status = tp_call_ask_model(call, model, &request, &response, &a->retryable, &fault);
  snprintf(a->text, sizeof a->text, "%.*s", (int)response.text.size, response.text.size ? response.text.data : "");
  snprintf(a->stop_reason, sizeof a->stop_reason, "%.*s", (int)response.stop_reason.size,
           response.stop_reason.size ? response.stop_reason.data : "");
  if (response.call_count)
    snprintf(a->call_name, sizeof a->call_name, "%.*s", (int)response.calls[0]->name.size,
             response.calls[0]->name.data);
  a->input_tokens = response.input_tokens;
  snprintf(a->message, sizeof a->message, "%s", fault.message);
  latch_hit(&a->asked);
  return TP_ANSWER_DONE;
}

static void destroy(void *ctx) { recorder_destroy(((asker *)ctx)->model); }

/* One handler thread serves the handler and a model that blocks. */
static tp_runtime *open_with(asker *a, bool on_thread, tp_execution execution, uint32_t limit_ms) {
  tp_runtime *runtime =
      open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .handler_threads = 1});
  a->asked = (latch)LATCH;
  add_hooks(runtime,
            &(hook){.id = "asker",
                    .phase = TP_PHASE_TURN_POST_TURN,
                    .run = ask,
                    .ctx = a,
                    .slow = on_thread,
                    .idempotent = true,
                    .destroy = destroy,
                    .sub = {.execution = execution, .limit_ms = limit_ms}},
            1);
  return runtime;
}

static void run_once(asker *a, bool on_thread) {
  tp_runtime *runtime = open_with(a, on_thread, TP_EXECUTION_BLOCKING, 0);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
}

/* ---- what it gets ---- */

TEST(handler_gets_the_response) {
  const reply replies[] = {{.text = "Hello",
                            .calls = {{.id = TEXT("1"), .name = TEXT("look"), .arguments = {"\x80", 1}}},
                            .call_count = 1,
                            .input_tokens = 7}};
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    asker a = {
        .model = recorder_new(replies, 1), .is_inline = is_inline != 0, .request = {.system = TEXT("Be brief.")}};
    run_once(&a, true);
    assert_int_equal(a.status, TP_OK);
    assert_string_equal(a.text, "Hello");
    assert_string_equal(a.stop_reason, "tool_use");
    assert_string_equal(a.call_name, "look");
    assert_int_equal(a.input_tokens, 7);
    assert_string_equal(a.model->requests[0], "S<Be brief.>U<Hi>");
    assert_int_equal(a.model->attempts[0], 1);
    assert_int_equal(a.model->cancels, 0);
    recorder_free(a.model);
  }
}

TEST(failure_comes_with_its_message) {
  for (int retryable = 0; retryable < 2; retryable++) {
    const reply replies[] = {{.fails = TP_ERR_CONTEXT_LENGTH, .retryable = retryable != 0}};
    asker a = {.model = recorder_new(replies, 1)};
    run_once(&a, true);
    assert_int_equal(a.status, TP_ERR_CONTEXT_LENGTH);
    assert_string_equal(a.message, "as set");
    assert_int_equal(a.retryable, retryable);
    assert_string_equal(a.text, "");
    recorder_free(a.model);
  }
}

TEST(background_job_may_ask) {
  const reply replies[] = {{.text = "Hello"}};
  asker a = {.model = recorder_new(replies, 1)};
  tp_runtime *runtime = open_with(&a, true, TP_EXECUTION_BACKGROUND, 0);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  assert_int_equal(tp_jobs_wait(runtime, "", 60000, NULL), TP_OK);
  close_runtime(runtime);
  assert_int_equal(a.status, TP_OK);
  assert_string_equal(a.text, "Hello");
  assert_int_equal(a.model->destroys, 1);
  recorder_free(a.model);
}

/* ---- the model of the turn ---- */

/* A turn of a session whose first model is down asks its second. The handler's request goes to the model that the turn
 * uses then, with a name only if that model knows it. */
TEST(no_model_is_the_one_that_the_turn_asks) {
  const struct {
    tp_text named;
    bool is_first_down;
    const char *asked_by; /* the name that the model got */
  } rows[] = {{{NULL, 0}, false, "big"},
              {TEXT("small"), false, "small"},
              {{NULL, 0}, true, ""},
              {TEXT("small"), true, "small"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    const reply down[] = {{.fails = TP_ERR_MODEL_UNAVAILABLE}};
    const reply up[] = {{.text = "Done"}, {.text = "Hello"}};
    recorder *first = recorder_new(rows[i].is_first_down ? down : up, rows[i].is_first_down ? 1 : 2);
    recorder *second = recorder_new(up, 2);
    asker a = {.model = recorder_new(NULL, 0),
               .asks_turns = true,
               .request = {.system = TEXT("Be brief."), .model = rows[i].named}};
    tp_runtime *runtime = open_with(&a, true, TP_EXECUTION_BLOCKING, 0);
    const tp_model *const others[] = {recorder_model(second, false)};
    const tp_agent_config config = {.struct_size = sizeof config,
                                    .id = "of-two",
                                    .model_name = "big",
                                    .model = recorder_model(first, false),
                                    .fallbacks = others,
                                    .fallback_count = 1};
    tp_agent *agent;
    tp_session *session;
    assert_int_equal(tp_agent_add(runtime, &config, &agent, NULL), TP_OK);
    const tp_session_options options = {.struct_size = sizeof options, .id = "s", .agent = agent};
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("Do it")};
    const tp_turn_result *result;
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    recorder *asked = rows[i].is_first_down ? second : first;
    assert_int_equal(a.status, TP_OK);
    assert_string_equal(a.text, "Hello");
    assert_int_equal(asked->asked, 2);
    assert_string_equal(asked->requests[1], "S<Be brief.>U<Hi>");
    assert_string_equal(asked->model_names[1], rows[i].asked_by);
    tp_turn_result_free(result);
    tp_session_close(session, NULL, NULL);
    tp_agent_remove(agent);
    close_runtime(runtime);
    recorder_free(first);
    recorder_free(second);
    recorder_free(a.model);
  }
}

TEST(turn_without_a_model_has_none_to_ask) {
  asker a = {.model = recorder_new(NULL, 0), .asks_turns = true};
  run_once(&a, true);
  assert_int_equal(a.status, TP_ERR_USAGE);
  assert_non_null(strstr(a.message, "no model"));
  recorder_free(a.model);
}

/* ---- what is refused ---- */

TEST(wrong_requests_are_refused) {
  static const tp_tool tool = {.struct_size = sizeof tool, .name = "t"};
  static const tp_tool *const tools[] = {&tool};
  static const tp_message broken = {.struct_size = sizeof broken, .role = TP_ROLE_USER, .text = TEXT("\xFF")};
  static const tp_message *const broken_list[] = {&broken};
  static const tp_message unknown = {.struct_size = sizeof unknown, .role = 99};
  static const tp_message *const unknown_list[] = {&unknown};
  const struct {
    tp_model_request request;
    tp_status status;
    const char *words;
  } rows[] = {
      {{.tools = tools, .tool_count = 1}, TP_ERR_USAGE, "takes no tools"},
      {{.struct_size = 3}, TP_ERR_VERSION, "struct_size"},
      {{.messages = broken_list, .message_count = 0}, TP_ERR_USAGE, "needs messages"},
      {{.messages = broken_list, .message_count = 1}, TP_ERR_UTF8, "messages[0]"},
      {{.messages = unknown_list, .message_count = 1}, TP_ERR_USAGE, ""},
      {{.system = TEXT("\xFF")}, TP_ERR_UTF8, "system"},
      {{.model = TEXT("\xFF")}, TP_ERR_UTF8, "model"},
      {{.parameters = TEXT("\x01")}, TP_ERR_USAGE, "must be a map"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    asker a = {.model = recorder_new(NULL, 0), .request = rows[i].request};
    run_once(&a, true);
    assert_int_equal(a.status, rows[i].status);
    assert_non_null(strstr(a.message, rows[i].words));
    assert_int_equal(a.model->asked, 0);
    recorder_free(a.model);
  }
}

TEST(inline_handler_may_not_wait) {
  asker a = {.model = recorder_new(NULL, 0)};
  run_once(&a, false);
  assert_int_equal(a.status, TP_ERR_USAGE);
  assert_non_null(strstr(a.message, "TP_PLACEMENT_THREAD"));
  recorder_free(a.model);
}

/* ---- what is given up ---- */

static void answer_to(recorder *r) {
  const tp_model_response late = {.struct_size = sizeof late, .text = TEXT("late")};
  assert_int_equal(tp_model_complete(r->token, &late, NULL), TP_ERR_STALE);
}

TEST(request_ends_at_the_limit_of_the_handler) {
  const reply replies[] = {{.never = true}};
  asker a = {.model = recorder_new(replies, 1)};
  tp_runtime *runtime = open_with(&a, true, TP_EXECUTION_BLOCKING, LIMIT_MS);
  tp_turn *turn = begin_bare(runtime, 60000);
  tp_phase_result result = run_phase(turn, TP_PHASE_TURN_POST_TURN, NULL);
  latch_wait(&a.asked, 1);
  assert_int_equal(a.status, TP_ERR_TIMEOUT);
  assert_non_null(strstr(a.message, "limit"));
  while (a.model->cancels == 0) sleep_ms(1);
  latch_wait(&a.model->started, 1); /* a cancel may come while start() runs */
  answer_to(a.model);
  assert_int_equal(a.model->cancels, 1);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(a.model->destroys, 1);
  recorder_free(a.model);
}

static void *cancel_turn(void *turn_and_model) {
  void **both = turn_and_model;
  latch_wait(&((recorder *)both[1])->started, 1);
  tp_turn_cancel(both[0]);
  return NULL;
}

TEST(request_ends_with_a_cancelled_turn) {
  const reply replies[] = {{.never = true}};
  asker a = {.model = recorder_new(replies, 1)};
  tp_runtime *runtime = open_with(&a, true, TP_EXECUTION_BLOCKING, 60000);
  tp_turn *turn = begin_bare(runtime, 60000);
  void *both[] = {turn, a.model};
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_turn, both);
  tp_phase_result result = {.struct_size = sizeof result};
  (void)!tp_phase_run(turn, TP_PHASE_TURN_POST_TURN, NULL, &result, NULL);
  pthread_join(thread, NULL);
  latch_wait(&a.asked, 1);
  assert_true(a.status == TP_ERR_CANCELLED || a.status == TP_ERR_TIMEOUT);
  while (a.model->cancels == 0) sleep_ms(1);
  latch_wait(&a.model->started, 1); /* a cancel may come while start() runs */
  answer_to(a.model);
  tp_phase_result_release(turn, &result);
  tp_turn_end(turn);
  close_runtime(runtime);
  assert_int_equal(a.model->destroys, 1);
  recorder_free(a.model);
}

/* ---- a model whose host takes the requests from an inbox ---- */

typedef struct looper {
  asker a;
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_turn *turn;
  ran ran;
} looper;

/* The handler asks on its thread, and the test is the loop. */
static void begin_to_ask(looper *l, uint32_t limit_ms) {
  *l = (looper){.a = {.model = recorder_new(NULL, 0)}};
  l->runtime = open_with(&l->a, true, TP_EXECUTION_BLOCKING, limit_ms);
  l->a.inbox = l->inbox = open_inbox(l->runtime, 0);
  l->turn = begin_bare(l->runtime, 60000);
}

static void ask_in_turn(looper *l) { submit(l->turn, TP_PHASE_TURN_POST_TURN, NULL, &l->ran); }

static void end_asking(looper *l, tp_status status) {
  latch_wait(&l->ran.ended, 1);
  latch_wait(&l->a.asked, 1);
  assert_int_equal(l->a.status, status);
  tp_turn_end(l->turn);
  expect_no_tokens(l->runtime);
  close_runtime(l->runtime);
  tp_inbox_free(l->inbox);
  recorder_free(l->a.model);
}

TEST(request_to_a_model_of_an_inbox_is_answered_by_its_loop) {
  looper l;
  begin_to_ask(&l, 60000);
  ask_in_turn(&l);
  const tp_work *work = take_next(l.inbox);
  assert_int_equal(work->kind, TP_WORK_MODEL);
  assert_ptr_equal(work->ctx, &l.a);
  assert_text(work->request->messages[0]->text, "Hi");
  assert_in_range(work->request->time_left_ms, 1, 60000);
  const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("Hello"), .input_tokens = 7};
  assert_int_equal(tp_model_complete(work->token, &response, NULL), TP_OK);
  end_asking(&l, TP_OK);
  assert_string_equal(l.a.text, "Hello");
  assert_int_equal(l.a.input_tokens, 7);
}

TEST(model_of_an_inbox_fails_with_the_words_of_its_loop) {
  looper l;
  begin_to_ask(&l, 60000);
  ask_in_turn(&l);
  assert_int_equal(tp_model_fail(take_next(l.inbox)->token, TP_ERR_MODEL_UNAVAILABLE, "asleep", true, NULL), TP_OK);
  end_asking(&l, TP_ERR_MODEL_UNAVAILABLE);
  assert_string_equal(l.a.message, "asleep");
  assert_true(l.a.retryable);
}

TEST(request_that_was_taken_brings_its_cancel_at_the_limit) {
  looper l;
  begin_to_ask(&l, LIMIT_MS);
  ask_in_turn(&l);
  tp_token token = take_next(l.inbox)->token;
  const tp_work *work = take_any(l.inbox);
  assert_int_equal(work->kind, TP_WORK_CANCEL);
  assert_int_equal(work->token.bits, token.bits);
  assert_int_equal(tp_work_release(work), TP_OK);
  const tp_model_response late = {.struct_size = sizeof late, .text = TEXT("late")};
  assert_int_equal(tp_model_complete(token, &late, NULL), TP_ERR_STALE);
  end_asking(&l, TP_ERR_TIMEOUT);
}

TEST(request_that_was_not_taken_is_withdrawn_at_the_limit) {
  looper l;
  begin_to_ask(&l, LIMIT_MS);
  ask_in_turn(&l);
  latch_wait(&l.a.asked, 1);
  latch_wait(&l.ran.ended, 1);
  expect_no_tokens(l.runtime);
  assert_null(take(l.inbox));
  end_asking(&l, TP_ERR_TIMEOUT);
}

TEST(model_of_a_freed_inbox_fails_at_once) {
  looper l;
  begin_to_ask(&l, 60000);
  ask_in_turn(&l);
  wait_readable(l.inbox);
  tp_inbox_free(l.inbox);
  l.inbox = NULL;
  end_asking(&l, TP_ERR_MODEL);
  assert_non_null(strstr(l.a.message, "inbox"));
}

TEST(model_of_another_inbox_is_refused) {
  tp_runtime *other = open_runtime(NULL);
  tp_inbox *foreign = open_inbox(other, 0);
  tp_inbox *const wrong[] = {foreign, TP_INBOX_OF_SESSION};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    looper l;
    begin_to_ask(&l, 60000);
    l.a.inbox = wrong[i];
    ask_in_turn(&l);
    end_asking(&l, TP_ERR_USAGE);
    assert_non_null(strstr(l.a.message, i == 0 ? "another runtime" : "TP_INBOX_OF_SESSION"));
  }
  tp_inbox_free(foreign);
  close_runtime(other);
}
