/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages that are added to a running turn: where they enter, what sees them, and messages that come too late. They
 * are added by code that runs within the turn (model, tool, hooks, events), so that each place is hit exactly, and by
 * other threads. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"
#include "tests/support/world.h"
#include "turnphase/inspect.h"

typedef struct world {
  WORLD;
  const char *at; /* the places where the messages of `add` are added, one letter for each, see note_place() */
  const char *const *add;
  size_t added;
  tp_status statuses[8]; /* what each add returned */
  char told[1024];       /* "<text>=<status>" of each MESSAGE */
  char keys[256];        /* the keys of the diagnostics */
  const char *deny;      /* the text that the guard denies */
  const char *fails;     /* the text for which the guard fails */
  char seen[256];        /* the texts that the guard saw */
  bool signals, replaces;
  tp_submission *cancels; /* is cancelled when the model begins its second request */
  latch begun;
} world;

static tp_added_message message_of(const char *text) {
  return (tp_added_message){.struct_size = sizeof(tp_added_message), .text = tp_text_of(text)};
}

static tp_status say(const world *w, const char *text) {
  tp_added_message message = message_of(text);
  return tp_turn_add_message(w->session, NULL, &message, NULL);
}

/* If the next letter of `at` names this place, the next message of `add` is added. */
static void note_place(world *w, char place) {
  while (w->at && w->at[w->added] == place) {
    size_t i = w->added++;
    w->statuses[i] = say(w, w->add[i]);
  }
}

static void note_event(void *ctx, const tp_event *event) {
  world *w = ctx;
  static const char places[] = {[TP_EVENT_TURN_BEGIN] = 'b', [TP_EVENT_MODEL_BEGIN] = 'm', [TP_EVENT_MODEL_DELTA] = 'd',
                                [TP_EVENT_MODEL_END] = 'e',  [TP_EVENT_TOOL_END] = 't',    [TP_EVENT_TURN_END] = 'x'};
  size_t used = strlen(w->told), keys = strlen(w->keys);
  if (event->kind == TP_EVENT_MESSAGE)
    snprintf(w->told + used, sizeof w->told - used, "<%.*s>%s%s%s", (int)event->text.size, event->text.data,
             event->status ? tp_status_name(event->status) : "", event->subscription ? " " : "",
             event->subscription ? event->subscription : "");
  if (event->kind == TP_EVENT_DIAGNOSTIC)
    snprintf(w->keys + keys, sizeof w->keys - keys, "%.*s ", (int)event->contribution->key.size,
             event->contribution->key.data);
  if (event->kind < COUNT(places) && places[event->kind]) note_place(w, places[event->kind]);
}

static tp_answer guard(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  size_t used = strlen(w->seen);
  snprintf(w->seen + used, sizeof w->seen - used, "<%.*s>", (int)text.size, text.data);
  if (w->deny && tp_text_is(text, w->deny)) return tp_call_deny(call, "not that");
  if (w->fails && tp_text_is(text, w->fails)) return tp_call_fail(call, 1, "broken");
  if (w->replaces && !tp_text_is(text, "go")) (void)!tp_call_replace_text(call, TP_FIELD_TEXT, "replaced", NULL);
  if (w->signals && !tp_text_is(text, "go"))
    (void)!tp_call_emit_signal(call, "normalized_intent", "c", TP_SEVERITY_INFO, "sig", NULL);
  return TP_ANSWER_DONE;
}

static tp_answer note_stop(void *ctx, tp_call *call) {
  (void)call;
  note_place(ctx, 's');
  return TP_ANSWER_DONE;
}

static tp_answer note_post(void *ctx, tp_call *call) {
  (void)call;
  note_place(ctx, 'p');
  return TP_ANSWER_DONE;
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  note_place(ctx, 'r');
  return tp_tool_ok(run, tp_text_of("ok"));
}

#define CALLS \
  { .text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT("\x80")}}, .call_count = 1 }
static const reply calls_once[] = {CALLS, {.text = "one"}, {.text = "two"}, {.text = "three"}, {.text = "four"}};
static const reply says[] = {{.text = "one", .delta = "one"}, {.text = "two"}, {.text = "three"}, {.text = "four"}};

static void open_world(world *w, const reply *replies, size_t count, bool guarded) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "t",
                        .description = "answers",
                        .run = run_tool,
                        .ctx = w,
                        .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const tools[] = {&tool};
  const hook hooks[] = {
      {.id = "stop", .phase = TP_PHASE_TURN_STOP, .run = note_stop, .ctx = w},
      {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = note_post, .ctx = w},
      {.id = "guard", .phase = TP_PHASE_TURN_INTAKE, .run = guard, .ctx = w, .sub = {.failure = TP_FAILURE_REQUIRED}}};
  w->begun = (latch)LATCH;
  world_open(&w->stage, &(world_options){.hooks = hooks,
                                         .hook_count = guarded ? 3 : 2,
                                         .tools = tools,
                                         .tool_count = 1,
                                         .replies = replies,
                                         .reply_count = count,
                                         .session = {.on_event = note_event, .event_ctx = w}});
}

static const tp_turn_result *run(world *w, const char *text, tp_turn_request request) {
  const tp_turn_result *result = NULL;
  request.struct_size = sizeof request;
  request.text = tp_text_of(text);
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  return result;
}

static void expect(world *w, const char *text, tp_turn_outcome outcome, uint32_t iterations) {
  const tp_turn_result *result = run(w, text, (tp_turn_request){0});
  assert_int_equal(result->outcome, outcome);
  assert_int_equal(result->iterations, iterations);
  tp_turn_result_free(result);
}

static const char *const abc[] = {"a", "b", "c", "d"};

TEST(message_enters_before_the_next_request_wherever_it_is_added) {
  static const struct {
    const char *at;
    const reply *replies;
    uint32_t iterations;
    const char *last; /* what the last request is */
  } rows[] = {
      {"b", says, 1, "S<>U<go>U<a>"},
      {"m", says, 2, "S<>U<go>A<one>U<a>"},
      {"d", says, 2, "S<>U<go>A<one>U<a>"},
      {"e", says, 2, "S<>U<go>A<one>U<a>"},
      {"s", says, 2, "S<>U<go>A<one>U<a>"},
      {"bb", says, 1, "S<>U<go>U<a>U<b>"},
      {"bmd", says, 2, "S<>U<go>U<a>A<one>U<b>U<c>"},
      {"ds", says, 3, "S<>U<go>A<one>U<a>A<two>U<b>"},
      {"ss", says, 2, "S<>U<go>A<one>U<a>U<b>"},
      {"mmm", says, 2, "S<>U<go>A<one>U<a>U<b>U<c>"},
      {"m", calls_once, 2, "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>"},
      {"e", calls_once, 2, "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>"},
      {"r", calls_once, 2, "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>"},
      {"t", calls_once, 2, "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>"},
      {"rts", calls_once, 3, "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>U<b>A<one>U<c>"},
  };
  for (int guarded = 0; guarded < 2; guarded++)
    for (size_t i = 0; i < COUNT(rows); i++) {
      world w = {.at = rows[i].at, .add = abc};
      char told[64] = "", next[256], seen[64] = "<go>";
      open_world(&w, rows[i].replies, 5 - (rows[i].replies == says), guarded);
      expect(&w, "go", TP_TURN_COMPLETED, rows[i].iterations);
      assert_int_equal(w.added, strlen(rows[i].at));
      assert_int_equal(w.model->asked, rows[i].iterations);
      assert_string_equal(w.model->requests[rows[i].iterations - 1], rows[i].last);
      for (size_t k = 0; k < w.added; k++) {
        assert_int_equal(w.statuses[k], TP_OK);
        snprintf(told + strlen(told), sizeof told - strlen(told), "<%s>", abc[k]);
      }
      assert_string_equal(w.told, told);
      snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s", told);
      assert_string_equal(w.seen, guarded ? seen : "");
      /* The history has each message once, in its place. */
      w.at = NULL;
      expect(&w, "next", TP_TURN_COMPLETED, 1);
      snprintf(next, sizeof next, "%s", rows[i].last);
      assert_memory_equal(w.model->requests[rows[i].iterations], next, strlen(next));
      world_close(&w.stage);
    }
}

TEST(turn_that_ends_takes_no_message_and_says_so) {
  static const char *const places[] = {"p", "x"};
  for (size_t i = 0; i < COUNT(places); i++) {
    world w = {.at = places[i], .add = abc};
    open_world(&w, says, COUNT(says), true);
    expect(&w, "go", TP_TURN_COMPLETED, 1);
    assert_int_equal(w.added, 1);
    assert_int_equal(w.statuses[0], TP_ERR_STALE);
    assert_string_equal(w.told, "");
    assert_int_equal(say(&w, "later"), TP_ERR_STALE);
    expect(&w, "next", TP_TURN_COMPLETED, 1);
    assert_string_equal(w.model->requests[1], "S<>U<go>A<one>U<next>");
    world_close(&w.stage);
  }
}

TEST(guard_of_what_the_user_says_sees_what_is_added) {
  world w = {.at = "mmm", .add = abc, .deny = "b"};
  open_world(&w, says, COUNT(says), true);
  expect(&w, "go", TP_TURN_COMPLETED, 2);
  assert_string_equal(w.seen, "<go><a><b><c>");
  assert_string_equal(w.told, "<a><b>TP_ERR_DENIED guard<c>");
  assert_string_equal(w.keys, "message.denied ");
  assert_string_equal(w.model->requests[1], "S<>U<go>A<one>U<a>U<c>"); /* neither the model nor the history gets the
                                                                          message */
  w.at = NULL;
  expect(&w, "next", TP_TURN_COMPLETED, 1);
  assert_string_equal(w.model->requests[2], "S<>U<go>A<one>U<a>U<c>A<two>U<next>");
  world_close(&w.stage);
}

TEST(required_guard_that_fails_lets_no_message_in) {
  world w = {.at = "m", .add = abc, .fails = "a"};
  open_world(&w, says, COUNT(says), true);
  expect(&w, "go", TP_TURN_COMPLETED, 2);
  assert_string_equal(w.told, "<a>TP_ERR_DENIED guard");
  assert_string_equal(w.model->requests[1], "S<>U<go>A<one>");
  world_close(&w.stage);
}

TEST(guard_may_replace_what_is_added_and_its_signals_go_with_it) {
  world w = {.at = "mm", .add = abc, .replaces = true, .signals = true};
  open_world(&w, says, COUNT(says), true);
  expect(&w, "go", TP_TURN_COMPLETED, 2);
  assert_string_equal(w.told, "<replaced><replaced>");
  const char *block = strstr(w.model->requests[1], "A<one>U<replaced>U<<hook-signals>\n");
  assert_non_null(block);
  block = strstr(block, "</hook-signals>\n<hook-signals>"); /* one block for each message */
  assert_non_null(block);
  assert_non_null(strstr(block, "</hook-signals>\n\nreplaced>"));
  w.at = NULL;
  w.replaces = w.signals = false;
  expect(&w, "next", TP_TURN_COMPLETED, 1);
  assert_string_equal(w.model->requests[2], "S<>U<go>A<one>U<replaced>U<replaced>A<two>U<next>");
  world_close(&w.stage);
}

/* When a turn fails or reaches a limit, messages that have not entered are kept. Later turns read them if no guard
 * would have seen them; otherwise no model reads them. */
TEST(message_of_a_turn_that_ends_before_it_stays_unanswered) {
  static const reply fails[] = {{.fails = TP_ERR_MODEL}, {.text = "two"}};
  static const char mark[] = "U<[The turn failed before it was complete.]>";
  for (int guarded = 0; guarded < 2; guarded++) {
    world w = {.at = "m", .add = abc};
    char want[256];
    open_world(&w, fails, COUNT(fails), guarded);
    expect(&w, "go", TP_TURN_FAILED, 0);
    assert_int_equal(w.statuses[0], TP_OK);
    assert_string_equal(w.told, "<a>TP_ERR_STALE");
    w.at = NULL;
    expect(&w, "next", TP_TURN_COMPLETED, 1);
    snprintf(want, sizeof want, "S<>U<go>%s%sU<next>", guarded ? "" : "U<a>", mark);
    assert_string_equal(w.model->requests[1], want);
    assert_string_equal(w.seen, guarded ? "<go><next>" : "");
    world_close(&w.stage);
  }
}

/* An added message gives the turn no further request. It is kept: the next turn reads it, and after it the line that
 * says that the turn failed and that its calls have run. */
TEST(limit_of_requests_holds_for_what_is_added) {
  for (int guarded = 0; guarded < 2; guarded++) {
    world w = {.at = "rse", .add = abc};
    open_world(&w, calls_once, COUNT(calls_once), guarded);
    const tp_turn_result *result = run(&w, "go", (tp_turn_request){.iterations_max = 2});
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->code, TP_ERR_MAX_REQUESTS);
    tp_turn_result_free(result);
    assert_string_equal(w.told, "<a><b>"); /* the message had entered when the limit was reached */
    w.at = NULL;
    expect(&w, "next", TP_TURN_COMPLETED, 1);
    assert_string_equal(w.model->requests[2],
                        "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>A<one>U<b>U<[The turn failed before it was complete. What "
                        "its calls did is done: do not repeat it unless the user asks for it.]>U<next>");
    world_close(&w.stage);
  }
}

static tp_answer end_after_tools(void *ctx, tp_call *call) {
  note_place(ctx, 'h');
  return tp_call_deny(call, "enough");
}

TEST(turn_that_a_hook_ends_after_its_tools_keeps_what_was_added) {
  for (int guarded = 0; guarded < 2; guarded++) {
    world w = {.at = "rh", .add = abc};
    const hook ends = {.id = "ends", .phase = TP_PHASE_TOOL_BATCH, .run = end_after_tools, .ctx = &w};
    open_world(&w, calls_once, COUNT(calls_once), guarded);
    add_hooks(w.runtime, &ends, 1);
    expect(&w, "go", TP_TURN_COMPLETED, 1);
    assert_string_equal(w.told, "<a>TP_ERR_STALE<b>TP_ERR_STALE");
    w.at = NULL;
    expect(&w, "next", TP_TURN_COMPLETED, 1);
    assert_string_equal(w.model->requests[1], guarded ? "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<next>"
                                                      : "S<>U<go>A<>C<t>T<ok>=<call-1-0>U<a>U<b>U<next>");
    world_close(&w.stage);
  }
}

TEST(files_of_a_message_are_parts_of_it) {
  world w = {0};
  char names[64];
  tp_text files = {
      "\x91\xa1"
      "f",
      3};
  open_world(&w, says, COUNT(says), false);
  tp_turn_request request = {.struct_size = sizeof request, .id = "t1", .text = tp_text_of("go")};
  tp_added_message message = message_of("see");
  tp_submission *submission;
  message.files = files;
  w.model->replies = (const reply[]){{.never = true}, {.text = "two"}};
  w.model->count = 2;
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&w.model->started, 1);
  assert_int_equal(tp_turn_add_message(w.session, "t1", &message, NULL), TP_OK);
  assert_int_equal(tp_turn_add_message(w.session, "t2", &message, NULL), TP_ERR_STALE);
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("one")};
  assert_int_equal(tp_model_complete(w.model->token, &response, NULL), TP_OK);
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(submission, LONG_MS, &result, NULL), TP_OK);
  assert_text(result->text, "two");
  assert_int_equal(tp_submission_add_message(submission, &message, NULL), TP_ERR_STALE);
  tp_submission_unref(submission);
  snprintf(names, sizeof names, "%s", w.model->requests[1]);
  assert_string_equal(names, "S<>U<go>A<one>U<see>");
  world_close(&w.stage);
}

TEST(cancelled_turn_keeps_what_was_said_to_it) {
  static const reply never[] = {{.never = true}, {.text = "two"}};
  world w = {0};
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  tp_added_message message = message_of("a");
  tp_submission *submission;
  const tp_turn_result *result;
  open_world(&w, never, COUNT(never), false);
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&w.model->started, 1);
  assert_int_equal(tp_submission_add_message(submission, &message, NULL), TP_OK);
  tp_submission_cancel(submission);
  assert_int_equal(tp_submission_wait(submission, LONG_MS, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_CANCELLED);
  tp_submission_unref(submission);
  assert_string_equal(w.told, "<a>TP_ERR_STALE");
  expect(&w, "next", TP_TURN_COMPLETED, 1);
  assert_string_equal(w.model->requests[1], "S<>U<go>U<a>U<[The turn was cancelled before it was complete.]>U<next>");
  world_close(&w.stage);
}

TEST(turn_that_waits_takes_messages_before_its_first_request) {
  static const reply never[] = {{.never = true}, {.text = "two"}, {.text = "three"}};
  world w = {0};
  tp_turn_request first = {.struct_size = sizeof first, .id = "t1", .text = tp_text_of("go")};
  tp_turn_request second = {.struct_size = sizeof second, .id = "t2", .text = tp_text_of("then")};
  tp_turn_request third = {.struct_size = sizeof third, .id = "t3", .text = tp_text_of("never")};
  tp_added_message message = message_of("a");
  tp_submission *turns[3];
  const tp_turn_result *result;
  open_world(&w, never, COUNT(never), true);
  assert_int_equal(tp_turn_submit(w.session, &first, NULL, NULL, &turns[0], NULL), TP_OK);
  latch_wait(&w.model->started, 1);
  assert_int_equal(tp_turn_submit(w.session, &second, NULL, NULL, &turns[1], NULL), TP_OK);
  assert_int_equal(tp_turn_submit(w.session, &third, NULL, NULL, &turns[2], NULL), TP_OK);
  assert_int_equal(tp_turn_add_message(w.session, "t2", &message, NULL), TP_OK);
  assert_int_equal(tp_submission_add_message(turns[2], &message, NULL), TP_OK); /* dropped with its turn */
  tp_submission_cancel(turns[2]);
  assert_int_equal(tp_submission_wait(turns[2], LONG_MS, &result, NULL), TP_OK);
  assert_int_equal(tp_submission_add_message(turns[2], &message, NULL), TP_ERR_STALE);
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("one")};
  assert_int_equal(tp_model_complete(w.model->token, &response, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(turns[1], LONG_MS, &result, NULL), TP_OK);
  assert_string_equal(w.model->requests[1], "S<>U<go>A<one>U<then>U<a>");
  assert_string_equal(w.told, "<a>");
  for (int i = 0; i < 3; i++) tp_submission_unref(turns[i]);
  world_close(&w.stage);
}

TEST(message_that_is_wrong_is_refused_with_its_reason) {
  static const struct {
    tp_added_message message;
    tp_status status;
  } rows[] = {
      {{.struct_size = sizeof(tp_added_message)}, TP_ERR_USAGE},
      {{.struct_size = 3, .text = TEXT("a")}, TP_ERR_VERSION},
      {{.struct_size = sizeof(tp_added_message), .text = TEXT("\xff")}, TP_ERR_UTF8},
      {{.struct_size = sizeof(tp_added_message), .files = TEXT("\x01")}, TP_ERR_MALFORMED},
      {{.struct_size = sizeof(tp_added_message), .files = TEXT("\x91\x01")}, TP_ERR_MALFORMED},
      {{.struct_size = sizeof(tp_added_message), .text = {"", 17 << 20}}, TP_ERR_TOO_LARGE},
      {{.struct_size = sizeof(tp_added_message), .text = TEXT("a"), .files = {"", 16 << 20}}, TP_ERR_TOO_LARGE},
      {{.struct_size = sizeof(tp_added_message), .text = TEXT("a")}, TP_ERR_STALE}, /* no turn runs */
  };
  world w = {0};
  open_world(&w, says, COUNT(says), false);
  for (size_t i = 0; i < COUNT(rows); i++) {
    tp_fault fault = {0};
    assert_int_equal(tp_turn_add_message(w.session, NULL, &rows[i].message, &fault), rows[i].status);
    assert_true(fault.message[0] != 0);
  }
  world_close(&w.stage);
}

TEST(at_most_64_messages_wait_for_a_turn) {
  static const reply never[] = {{.never = true}, {.text = "two"}};
  world w = {0};
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  tp_submission *submission;
  open_world(&w, never, COUNT(never), false);
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&w.model->started, 1);
  for (int i = 0; i < 64; i++) assert_int_equal(say(&w, "a"), TP_OK);
  assert_int_equal(say(&w, "a"), TP_ERR_FULL);
  tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("one")};
  assert_int_equal(tp_model_complete(w.model->token, &response, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(submission, LONG_MS, NULL, NULL), TP_OK);
  assert_int_equal(strlen(w.told), 64 * 3);
  tp_submission_unref(submission);
  world_close(&w.stage);
}

/* ---- other threads ---- */

enum { ADDERS = 4, EACH = 8 };

typedef struct adder {
  pthread_t thread;
  world *w;
  int index, taken;
} adder;

static void *add_some(void *arg) {
  adder *a = arg;
  char text[16];
  for (int i = 0; i < EACH; i++) {
    snprintf(text, sizeof text, "%d.%d", a->index, i);
    if (say(a->w, text) != TP_OK) break; /* the turn has ended */
    a->taken++;
  }
  return NULL;
}

/* At any moment each accepted message is once in the requests of the turn, in the order of its thread, and is
 * answered. */
TEST(messages_of_any_thread_enter_once_and_in_order) {
  for (int round = 0; round < 20; round++) {
    world w = {0};
    adder adders[ADDERS];
    open_world(&w, says, COUNT(says), round % 2);
    tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
    tp_submission *submission;
    const tp_turn_result *result;
    assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
    for (int i = 0; i < ADDERS; i++) {
      adders[i] = (adder){.w = &w, .index = i};
      assert_int_equal(pthread_create(&adders[i].thread, NULL, add_some, &adders[i]), 0);
    }
    for (int i = 0; i < ADDERS; i++) pthread_join(adders[i].thread, NULL);
    assert_int_equal(tp_submission_wait(submission, LONG_MS, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    tp_submission_unref(submission);
    const char *last = w.model->requests[w.model->asked - 1];
    for (int i = 0; i < ADDERS; i++) {
      const char *from = last;
      for (int k = 0; k < EACH; k++) {
        char text[16];
        snprintf(text, sizeof text, "U<%d.%d>", i, k);
        const char *found = strstr(last, text);
        assert_int_equal(found != NULL, k < adders[i].taken);
        if (!found) continue;
        assert_true(found >= from);
        from = found + 1;
        assert_null(strstr(from, text));
      }
    }
    world_close(&w.stage);
  }
}

/* A host with one thread adds messages between two pieces of work. */
TEST(host_of_an_inbox_adds_from_its_thread) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_inbox *inbox = open_inbox(runtime, 0);
  tp_model model = {.struct_size = sizeof model, .name = "host", .inbox = inbox};
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = &model};
  tp_session *session;
  tp_end *end;
  tp_added_message message = message_of("and this");
  tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_end_new(inbox, NULL, &end, NULL), TP_OK);
  assert_int_equal(tp_turn_submit(session, &request, tp_end_of_turn, end, NULL, NULL), TP_OK);
  for (size_t i = 0; i < 2; i++) {
    const tp_work *work = take_next(inbox);
    assert_int_equal(work->kind, TP_WORK_MODEL);
    const tp_model_request *asked = work->request;
    assert_int_equal(asked->message_count, 1 + 2 * i);
    assert_text(asked->messages[asked->message_count - 1]->text, i ? "and this" : "go");
    if (i == 0) assert_int_equal(tp_turn_add_message(session, NULL, &message, NULL), TP_OK);
    tp_model_response response = {.struct_size = sizeof response, .text = tp_text_of("yes")};
    assert_int_equal(tp_model_complete(work->token, &response, NULL), TP_OK); /* the completion also releases the
                                                                                 work */
  }
  const tp_work *over = take_next(inbox);
  assert_int_equal(over->kind, TP_WORK_END);
  assert_int_equal(over->end->turn->iterations, 2);
  assert_int_equal(tp_work_release(over), TP_OK);
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  tp_inbox_free(inbox);
}

/* ---- the record ---- */

typedef struct steps {
  tp_turn_step items[16];
  size_t count;
} steps;

static bool keep_steps(void *ctx, const tp_turn_record *record) {
  steps *s = ctx;
  for (size_t i = 0; i < COUNT(s->items); i++) {
    s->items[i].struct_size = sizeof s->items[i];
    if (!record->step(record->step_source, i, &s->items[i])) break;
    s->count++;
  }
  return true;
}

TEST(record_of_the_turn_has_a_step_for_each_message) {
  world w = {.at = "mm", .add = abc, .deny = "b"};
  steps kept = {.count = 0};
  open_world(&w, says, COUNT(says), true);
  expect(&w, "go", TP_TURN_COMPLETED, 2);
  assert_int_equal(tp_runtime_turns(w.runtime, &(tp_turn_query){.struct_size = sizeof(tp_turn_query), .limit = 1},
                                    keep_steps, &kept, NULL),
                   TP_OK);
  static const tp_step_kind kinds[] = {TP_STEP_MODEL, TP_STEP_MESSAGE, TP_STEP_MESSAGE, TP_STEP_MODEL};
  size_t at = 0;
  for (size_t i = 0; i < kept.count; i++) {
    if (kept.items[i].kind == TP_STEP_LOAD || kept.items[i].kind == TP_STEP_APPEND) continue;
    assert_true(at < COUNT(kinds));
    assert_int_equal(kept.items[i].kind, kinds[at++]);
    if (at == 3) assert_int_equal(kept.items[i].outcome, TP_ERR_DENIED);
  }
  assert_int_equal(at, COUNT(kinds));
  assert_string_equal(tp_step_kind_name(TP_STEP_MESSAGE), "message");
  world_close(&w.stage);
}
