/* SPDX-License-Identifier: Apache-2.0
 *
 * turn.stop: what keeps a turn from ending, how often, and what the model and the history get of it. */
#include <assert.h>

#include "tests/support/test.h"
#include "tests/support/world.h"

enum { ALWAYS = 1000 };

/* Denies so many times, then has nothing to say. */
typedef struct guard {
  int denies;
  bool fails;         /* instead */
  int64_t counts[16]; /* what it saw */
  char texts[16][32];
  size_t calls;
} guard;

static tp_answer stop(void *ctx, tp_call *call) {
  guard *g = ctx;
  assert(g->calls < COUNT(g->counts));
  g->counts[g->calls] = tp_call_int(call, TP_FIELD_STOP_DENIALS);
  tp_text text = tp_call_text(call, TP_FIELD_RESPONSE_TEXT);
  snprintf(g->texts[g->calls++], sizeof g->texts[0], "%.*s", (int)text.size, text.data);
  if (g->fails) return tp_call_fail(call, 1, "broken");
  return g->denies-- > 0 ? tp_call_deny(call, "finish the list") : TP_ANSWER_DONE;
}

typedef struct world {
  WORLD;
  guard guard;
  int overruled;
  char said[256];
} world;

static void keep_event(void *ctx, const tp_event *event) {
  world *w = ctx;
  bool is_stop = event->phase == TP_PHASE_TURN_STOP;
  const char *key = is_stop ? "turn_stop.overruled" : "tool_batch.ended";
  bool is_ours = event->kind == TP_EVENT_DIAGNOSTIC && event->contribution &&
                 event->contribution->key.size == strlen(key) &&
                 memcmp(event->contribution->key.data, key, strlen(key)) == 0;
  if (!is_ours) return;
  w->overruled += is_stop;
  assert(strcmp(event->subscription, is_stop ? "guard" : "ends") == 0);
  assert(event->visibility == TP_VISIBILITY_USER_VISIBLE);
  snprintf(w->said, sizeof w->said, "%.*s", (int)event->text.size, event->text.data);
}

static void open_world(world *w, const reply *replies, size_t count, const hook *more, tp_failure failure, bool slow) {
  hook hooks[2] = {{.id = "guard",
                    .phase = TP_PHASE_TURN_STOP,
                    .run = stop,
                    .ctx = &w->guard,
                    .slow = slow,
                    .sub = {.failure = failure}}};
  if (more) hooks[1] = *more;
  world_open(&w->stage, &(world_options){.hooks = hooks,
                                         .hook_count = more ? 2 : 1,
                                         .replies = replies,
                                         .reply_count = count,
                                         .session = {.id = "s1", .on_event = keep_event, .event_ctx = w}});
}

static const tp_turn_result *run_limited(world *w, const char *text, tp_turn_request request) {
  const tp_turn_result *result = NULL;
  request.struct_size = sizeof request;
  request.text = tp_text_of(text);
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  return result;
}

static void expect(world *w, const char *text, tp_turn_outcome outcome) {
  const tp_turn_result *result = run_limited(w, text, (tp_turn_request){0});
  assert_int_equal(result->outcome, outcome);
  tp_turn_result_free(result);
}

static const reply answers[] = {{.text = "one"}, {.text = "two"}, {.text = "three"}, {.text = "four"}};
#define OBJECTION "U<hook guard does not let the turn end: finish the list>"

TEST(reason_of_a_denial_is_what_the_model_is_asked_next_and_stays_in_the_history) {
  for (int slow = 0; slow < 2; slow++) {
    world w = {.guard = {.denies = 2}};
    open_world(&w, answers, COUNT(answers), NULL, 0, slow);
    const tp_turn_result *result = run_limited(&w, "go", (tp_turn_request){0});
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    assert_int_equal(result->iterations, 3);
    assert_text(result->text, "three");
    tp_turn_result_free(result);
    assert_string_equal(w.model->requests[1], "S<>U<go>A<one>" OBJECTION);
    assert_string_equal(w.model->requests[2], "S<>U<go>A<one>" OBJECTION "A<two>" OBJECTION);
    assert_int_equal(w.guard.calls, 3);
    for (int64_t i = 0; i < 3; i++) assert_int_equal(w.guard.counts[i], i);
    assert_string_equal(w.guard.texts[0], "one");
    assert_string_equal(w.guard.texts[2], "three");
    expect(&w, "next", TP_TURN_COMPLETED);
    assert_string_equal(w.model->requests[3], "S<>U<go>A<one>" OBJECTION "A<two>" OBJECTION "A<three>U<next>");
    assert_int_equal(w.guard.counts[3], 0); /* of each turn anew */
    assert_int_equal(w.overruled, 0);
    world_close(&w.stage);
  }
}

TEST(ninth_denial_of_a_turn_is_overruled_and_said) {
  world w = {.guard = {.denies = ALWAYS}};
  open_world(&w, answers, COUNT(answers), NULL, 0, false);
  expect(&w, "go", TP_TURN_COMPLETED);
  assert_int_equal(w.model->asked, 9);
  assert_int_equal(w.guard.calls, 9);
  assert_int_equal(w.guard.counts[8], 8);
  assert_int_equal(w.overruled, 1);
  assert_string_equal(w.said,
                      "the turn ends, since it was kept from it 8 times: hook guard does not let the turn end: "
                      "finish the list");
  world_close(&w.stage);
}

TEST(limits_of_the_turn_hold_for_what_a_denial_asks) {
  static const reply costs[] = {{.text = "one", .output_tokens = 6, .cost_micros = 6}};
  const tp_turn_request limits[] = {{.iterations_max = 3}, {.tokens_max = 13}, {.cost_micros_max = 13}};
  const tp_status codes[] = {TP_ERR_MAX_REQUESTS, TP_ERR_MAX_TOKENS, TP_ERR_MAX_COST};
  for (size_t i = 0; i < COUNT(limits); i++) {
    world w = {.guard = {.denies = ALWAYS}};
    open_world(&w, costs, 1, NULL, 0, false);
    const tp_turn_result *result = run_limited(&w, "go", limits[i]);
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->code, codes[i]);
    tp_turn_result_free(result);
    assert_int_equal(w.model->asked, 3);
    world_close(&w.stage);
  }
}

TEST(failing_handler_keeps_the_turn_only_when_it_is_required) {
  static const struct {
    tp_failure failure;
    uint32_t asked;
  } cases[] = {{0, 1}, {TP_FAILURE_BEST_EFFORT, 1}, {TP_FAILURE_REQUIRED, 9}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    world w = {.guard = {.fails = true}};
    open_world(&w, answers, COUNT(answers), NULL, cases[i].failure, false);
    expect(&w, "go", TP_TURN_COMPLETED);
    assert_int_equal(w.model->asked, cases[i].asked);
    if (cases[i].asked > 1) assert_non_null(strstr(w.model->requests[1], "does not let the turn end: broken"));
    world_close(&w.stage);
  }
}

TEST(turn_that_did_not_complete_is_not_asked) {
  static const reply broken[] = {{.fails = TP_ERR_MODEL}};
  world w = {.guard = {.denies = ALWAYS}};
  open_world(&w, broken, 1, NULL, 0, false);
  expect(&w, "go", TP_TURN_FAILED);
  assert_int_equal(w.guard.calls, 0);
  world_close(&w.stage);
  act denies = {.kind = TP_ANSWER_DENY, .reason = "no"};
  hook intake = {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &denies};
  w = (world){.guard = {.denies = ALWAYS}};
  open_world(&w, answers, 1, &intake, 0, false);
  expect(&w, "go", TP_TURN_DENIED);
  assert_int_equal(w.guard.calls, 0);
  world_close(&w.stage);
}

TEST(reminder_goes_with_the_next_request) {
  static const tp_contribution reminder = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("mind the gap")};
  act reminds = {.emits = &reminder, .emit_count = 1};
  hook h = {.id = "reminds", .phase = TP_PHASE_TURN_STOP, .ctx = &reminds, .sub = {.priority = -1}};
  world w = {.guard = {.denies = 1}};
  open_world(&w, answers, COUNT(answers), &h, 0, false);
  expect(&w, "go", TP_TURN_COMPLETED);
  assert_non_null(strstr(w.model->requests[1], "mind the gap"));
  world_close(&w.stage);
}

TEST(time_of_the_turn_ends_a_stop_that_does_not_answer) {
  act never = {.defers = true};
  hook h = {.id = "never", .phase = TP_PHASE_TURN_STOP, .ctx = &never, .sub = {.priority = -1, .limit_ms = 60000}};
  world w = {.guard = {.denies = ALWAYS}};
  open_world(&w, answers, COUNT(answers), &h, 0, false);
  const tp_turn_result *result = run_limited(&w, "go", (tp_turn_request){.limit_ms = 30});
  assert_int_equal(result->outcome, TP_TURN_TIMED_OUT);
  tp_turn_result_free(result);
  assert_int_equal(w.model->asked, 1);
  world_close(&w.stage);
}

/* ---- the two other ends that a hook may cause ---- */

TEST(denied_tool_batch_ends_the_turn_with_its_results) {
  static const reply calls[] = {{.text = "let me",
                                 .calls = {{.id = TEXT("a"), .name = TEXT("nobody"), .arguments = {"\x80", 1}}},
                                 .call_count = 1},
                                {.text = "again"}};
  act ends = {.kind = TP_ANSWER_DENY, .reason = "enough"};
  hook h = {.id = "ends", .phase = TP_PHASE_TOOL_BATCH, .ctx = &ends};
  world w = {.guard = {.denies = ALWAYS}};
  open_world(&w, calls, COUNT(calls), &h, 0, false);
  const tp_turn_result *result = run_limited(&w, "go", (tp_turn_request){0});
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(result->iterations, 1);
  tp_turn_result_free(result);
  assert_int_equal(w.guard.calls, 0); /* no turn.stop: it is over */
  assert_string_equal(w.said, "hook ends ended the turn behind its tools: enough");
  ends.kind = TP_ANSWER_DONE;
  w.guard.denies = 0;
  expect(&w, "next", TP_TURN_COMPLETED);
  assert_non_null(strstr(w.model->requests[1], "A<let me>C<nobody>T!<"));
  assert_non_null(strstr(w.model->requests[1], "U<next>"));
  world_close(&w.stage);
}
