/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a turn: each ends the turn with a code and a word of its own, in its result, its events, its record and
 * the session's end. Everything before it is kept, and the next turn goes on. */
#include "tests/support/test.h"
#include "tests/support/world.h"
#include "phases/session/budget.h"
#include "turnphase/inspect.h"

typedef struct world {
  WORLD;
  char reason[32], named[1024];
  uint32_t named_count, turn_ends;
  tp_status end_status;
  _Atomic int runs; /* of the tool */
} world;

static tp_answer note_end(void *ctx, tp_call *call) {
  world *w = ctx;
  tp_text reason = tp_call_text(call, TP_FIELD_REASON);
  snprintf(w->reason, sizeof w->reason, "%.*s", (int)reason.size, reason.data);
  return TP_ANSWER_DONE;
}

static void note_event(void *ctx, const tp_event *event) {
  world *w = ctx;
  if (event->kind == TP_EVENT_TURN_END) {
    w->turn_ends++;
    w->end_status = event->status;
  }
  if (event->kind != TP_EVENT_DIAGNOSTIC || !tp_text_is(event->contribution->key, "call.repeated")) return;
  w->named_count++;
  snprintf(w->named, sizeof w->named, "%.*s", (int)event->text.size, event->text.data);
}

static tp_answer answer(void *ctx, tp_tool_run *run) {
  ((world *)ctx)->runs++;
  return tp_tool_ok(run, tp_text_of("ok"));
}

static void open_world(world *w, const reply *replies, size_t count) {
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "t",
                        .description = "answers",
                        .run = answer,
                        .ctx = w,
                        .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const tools[] = {&tool};
  const hook end = {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_end, .ctx = w};
  *w = (world){.named_count = 0};
  world_open(&w->stage, &(world_options){.hooks = &end,
                                         .hook_count = 1,
                                         .tools = tools,
                                         .tool_count = 1,
                                         .replies = replies,
                                         .reply_count = count,
                                         .session = {.on_event = note_event, .event_ctx = w}});
}

static const tp_turn_result *run_limited(world *w, tp_turn_request request) {
  const tp_turn_result *result = NULL;
  request.struct_size = sizeof request;
  request.text = tp_text_of("go");
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  return result;
}

/* {"a": 1, "b": 2} in both orders, {"a": 2, "b": 1}, and [1, 2] and [2, 1] below "a". */
#define AB "\x82\xa1\x61\x01\xa1\x62\x02"
#define BA "\x82\xa1\x62\x02\xa1\x61\x01"
#define AB_OTHER "\x82\xa1\x61\x02\xa1\x62\x01"
#define LIST_12 "\x81\xa1\x61\x92\x01\x02"
#define LIST_21 "\x81\xa1\x61\x92\x02\x01"
#define ASKS(args) \
  { .text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT(args)}}, .call_count = 1 }
#define ASKS_TWICE(args)                                                                                               \
  {                                                                                                                    \
    .text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT(args)}, {.name = TEXT("t"), .arguments = TEXT(args)}}, \
    .call_count = 2                                                                                                    \
  }
#define USES(in, out, cost)                                                                                   \
  {                                                                                                           \
    .text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT(AB)}}, .call_count = 1, .input_tokens = (in), \
    .output_tokens = (out), .cost_micros = (cost)                                                             \
  }

typedef struct limit_case {
  const char *name;
  reply replies[4];
  size_t count;
  tp_turn_request limits;
  tp_turn_outcome outcome;
  tp_status code;
  const char *ending;
  uint32_t iterations, tool_calls; /* of the result */
  int runs;                        /* of the tool's function */
  const char *reason;              /* a part of it */
} limit_case;

#define LIMIT(status, word) .outcome = TP_TURN_FAILED, .code = (status), .ending = (word)

static const limit_case cases[] = {
    {"one request",
     {ASKS(AB)},
     1,
     {.iterations_max = 1},
     LIMIT(TP_ERR_MAX_REQUESTS, "max_requests"),
     1,
     1,
     1,
     "model: 1"},
    {"three requests", {ASKS(AB)}, 1, {.iterations_max = 3}, LIMIT(TP_ERR_MAX_REQUESTS, "max_requests"), 3, 3, 3, "3"},
    {"fifty by default", {ASKS(AB)}, 1, {0}, LIMIT(TP_ERR_MAX_REQUESTS, "max_requests"), 50, 50, 50, "50"},
    {"last request answers",
     {ASKS(AB), {.text = "done"}},
     2,
     {.iterations_max = 2},
     .outcome = TP_TURN_COMPLETED,
     .ending = "completed",
     .iterations = 2,
     .tool_calls = 1,
     .runs = 1},
    {"calls over several responses",
     {ASKS_TWICE(AB)},
     1,
     {.tool_calls_max = 3},
     LIMIT(TP_ERR_MAX_TOOL_CALLS, "max_tool_calls"),
     2,
     2,
     2,
     "3"},
    {"calls of one response",
     {ASKS_TWICE(AB)},
     1,
     {.tool_calls_max = 1},
     LIMIT(TP_ERR_MAX_TOOL_CALLS, "max_tool_calls"),
     1,
     0,
     0,
     "2 more"},
    {"as many calls as allowed",
     {ASKS_TWICE(AB), {.text = "done"}},
     2,
     {.tool_calls_max = 2},
     .outcome = TP_TURN_COMPLETED,
     .ending = "completed",
     .iterations = 2,
     .tool_calls = 2,
     .runs = 2},
    {"input tokens", {USES(60, 0, 0)}, 1, {.tokens_max = 100}, LIMIT(TP_ERR_MAX_TOKENS, "max_tokens"), 2, 1, 1, "120"},
    {"output tokens",
     {USES(0, 100, 0)},
     1,
     {.tokens_max = 100},
     LIMIT(TP_ERR_MAX_TOKENS, "max_tokens"),
     1,
     0,
     0,
     "100"},
    {"their sum", {USES(30, 21, 0)}, 1, {.tokens_max = 100}, LIMIT(TP_ERR_MAX_TOKENS, "max_tokens"), 2, 1, 1, "42"},
    {"a sum that would run over",
     {USES(INT64_MAX, INT64_MAX, 0)},
     1,
     {.tokens_max = INT64_MAX},
     LIMIT(TP_ERR_MAX_TOKENS, "max_tokens"),
     1,
     0,
     0,
     "limit"},
    {"cost", {USES(1, 1, 400000)}, 1, {.cost_micros_max = 1000000}, LIMIT(TP_ERR_MAX_COST, "max_cost"), 3, 2, 2, "1.2"},
    {"tokens before cost",
     {USES(9, 9, 9)},
     1,
     {.tokens_max = 5, .cost_micros_max = 5},
     LIMIT(TP_ERR_MAX_TOKENS, "max_tokens"),
     1,
     0,
     0,
     "tokens"},
    {"the answer itself passes the limit",
     {{.text = "long", .output_tokens = 500, .cost_micros = 500}},
     1,
     {.tokens_max = 5, .cost_micros_max = 5},
     .outcome = TP_TURN_COMPLETED,
     .ending = "completed",
     .iterations = 1},
    {"same call",
     {ASKS(AB)},
     1,
     {.call_repeats_max = 3},
     LIMIT(TP_ERR_REPEATED_CALL, "repeated_call"),
     4,
     3,
     3,
     "4 times"},
    {"same call, keys in another order",
     {ASKS(AB), ASKS(BA)},
     2,
     {.call_repeats_max = 1},
     LIMIT(TP_ERR_REPEATED_CALL, "repeated_call"),
     2,
     1,
     1,
     "2 times"},
    {"same call in one response",
     {ASKS_TWICE(AB)},
     1,
     {.call_repeats_max = 1},
     LIMIT(TP_ERR_REPEATED_CALL, "repeated_call"),
     1,
     0,
     0,
     "tool t"},
    {"same call after others",
     {ASKS(AB), ASKS(AB_OTHER), ASKS(AB)},
     3,
     {.call_repeats_max = 1},
     LIMIT(TP_ERR_REPEATED_CALL, "repeated_call"),
     3,
     2,
     2,
     "2 times"},
    {"other values",
     {ASKS(AB), ASKS(AB_OTHER), ASKS(LIST_12), {.text = "done"}},
     4,
     {.call_repeats_max = 1},
     .outcome = TP_TURN_COMPLETED,
     .ending = "completed",
     .iterations = 4,
     .tool_calls = 3,
     .runs = 3},
    {"another order of a list",
     {ASKS(LIST_12), ASKS(LIST_21), {.text = "done"}},
     3,
     {.call_repeats_max = 1},
     .outcome = TP_TURN_COMPLETED,
     .ending = "completed",
     .iterations = 3,
     .tool_calls = 2,
     .runs = 2},
    {"time",
     {{.never = true}},
     1,
     {.limit_ms = 20},
     .outcome = TP_TURN_TIMED_OUT,
     .code = TP_ERR_TIMEOUT,
     .ending = "max_time",
     .reason = "time"},
    {"no limit of them",
     {{.fails = TP_ERR_MODEL}},
     1,
     {.iterations_max = 1},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MODEL,
     .ending = "error",
     .reason = "as set"},
};

typedef struct found {
  int count;
  uint32_t outcome;
  int32_t code;
} found;

static bool find_record(void *ctx, const tp_turn_record *record) {
  found *f = ctx;
  f->count++;
  f->outcome = record->outcome;
  f->code = record->code;
  return true;
}

static void check_limit(const limit_case *c) {
  world w;
  open_world(&w, c->replies, c->count);
  const tp_turn_result *result = run_limited(&w, c->limits);
  if (result->outcome != c->outcome || result->code != c->code)
    fail_msg("%s: %s, %s: %.*s", c->name, tp_turn_outcome_name(result->outcome), tp_status_name(result->code),
             (int)result->reason.size, result->reason.size ? result->reason.data : "");
  assert_string_equal(tp_turn_ending_name(result->outcome, result->code), c->ending);
  if (result->iterations != c->iterations || result->tool_calls != c->tool_calls || w.runs != c->runs)
    fail_msg("%s: %u requests, %u calls, %d runs", c->name, result->iterations, result->tool_calls, w.runs);
  if (c->reason && !memmem(result->reason.data, result->reason.size, c->reason, strlen(c->reason)))
    fail_msg("%s: %.*s", c->name, (int)result->reason.size, result->reason.data);
  assert_int_equal(w.turn_ends, 1);
  assert_int_equal(w.end_status, c->code);
  found f = {0};
  const tp_turn_query query = {.struct_size = sizeof query};
  assert_int_equal(tp_runtime_turns(w.runtime, &query, find_record, &f, NULL), TP_OK);
  assert_int_equal(f.count, 1);
  assert_int_equal(f.outcome, c->outcome);
  assert_int_equal(f.code, c->code);
  tp_turn_result_free(result);
  world_close(&w.stage);
  assert_string_equal(w.reason, c->outcome == TP_TURN_COMPLETED ? "closed" : c->ending);
}

TEST(each_limit_ends_the_turn_with_a_code_and_a_word_of_its_own) {
  for (size_t i = 0; i < COUNT(cases); i++) check_limit(&cases[i]);
}

TEST(what_happened_before_a_limit_is_in_the_next_request) {
  static const reply replies[] = {ASKS(AB), {.text = "hello"}};
  world w;
  open_world(&w, replies, COUNT(replies));
  const tp_turn_result *result = run_limited(&w, (tp_turn_request){.iterations_max = 1});
  assert_int_equal(result->code, TP_ERR_MAX_REQUESTS);
  tp_turn_result_free(result);
  result = run_limited(&w, (tp_turn_request){.iterations_max = 1});
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_turn_result_free(result);
  static const char kept[] = "U<go>A<>C<t>T<ok>=<call-1-0>U<[The turn failed before it was complete.";
  if (!strstr(w.model->requests[1], kept)) fail_msg("%s", w.model->requests[1]);
  world_close(&w.stage);
  assert_string_equal(w.reason, "closed"); /* the last turn completed */
}

#define NAMED(count) "The tool t was called " count " times in one turn with the same arguments."

TEST(model_and_user_are_told_of_a_repeated_call) {
  static const struct {
    tp_turn_request limits;
    uint32_t asked;      /* requests of the turn */
    const char *told[6]; /* a part of each request; NULL: no word of it */
    uint32_t named;      /* events */
  } told[] = {
      {{.call_repeats_max = 4, .iterations_max = 9}, 5, {NULL, NULL, NAMED("2"), NAMED("3"), NAMED("4")}, 3},
      {{.call_repeats_max = 5, .iterations_max = 9}, 6, {NULL, NULL, NULL, NAMED("3"), NAMED("4"), NAMED("5")}, 3},
      {{.call_repeats_max = 1, .iterations_max = 9}, 2, {NULL, NULL}, 0},
      {{.call_repeats_max = 3, .call_repeats_named = 3, .iterations_max = 9}, 4, {NULL, NULL, NULL, NAMED("3")}, 1},
      {{.call_repeats_named = 2, .iterations_max = 4}, 4, {NULL, NULL, NAMED("2"), NAMED("3")}, 3},
      {{.call_repeats_named = 1, .iterations_max = 3}, 3, {NULL, NULL, NAMED("2")}, 2},
      {{.iterations_max = 5}, 5, {NULL, NULL, NULL, NULL, NULL}, 0},
  };
  static const reply replies[] = {ASKS(AB)};
  for (size_t i = 0; i < COUNT(told); i++) {
    world w;
    open_world(&w, replies, 1);
    tp_turn_result_free(run_limited(&w, told[i].limits));
    assert_int_equal(w.model->asked, told[i].asked);
    for (uint32_t n = 0; n < told[i].asked; n++) {
      const char *text = told[i].told[n], *request = w.model->requests[n];
      if (text ? !strstr(request, text) : strstr(request, "times in one turn") != NULL)
        fail_msg("%zu, %u: %s", i, n, request);
    }
    assert_int_equal(w.named_count, told[i].named);
    world_close(&w.stage);
  }
}

TEST(more_calls_than_a_first_list_has_are_counted) {
  enum { CALLS = 40 };
  reply replies[CALLS + 1];
  char arguments[CALLS][4];
  for (int i = 0; i < CALLS; i++)
    replies[i] =
        (reply){.text = "", .calls = {{.name = TEXT("t"), .arguments = argument_n(arguments[i], i)}}, .call_count = 1};
  replies[CALLS] = replies[0];
  world w;
  open_world(&w, replies, COUNT(replies));
  const tp_turn_result *result = run_limited(&w, (tp_turn_request){.call_repeats_max = 1});
  assert_int_equal(result->code, TP_ERR_REPEATED_CALL);
  assert_int_equal(result->iterations, CALLS + 1);
  assert_int_equal(w.runs, CALLS);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST(malformed_calls_of_one_tool_are_the_same_call) {
  static const reply replies[] = {
      {.text = "", .calls = {{.name = TEXT("t"), .malformed = true}}, .call_count = 1},
      {.text = "", .calls = {{.name = TEXT("t"), .arguments = TEXT("\x80")}}, .call_count = 1},
      {.text = "", .calls = {{.name = TEXT("t"), .malformed = true}}, .call_count = 1}};
  world w;
  open_world(&w, replies, COUNT(replies));
  const tp_turn_result *result = run_limited(&w, (tp_turn_request){.call_repeats_max = 1});
  assert_int_equal(result->code, TP_ERR_REPEATED_CALL);
  assert_int_equal(result->iterations, 3);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST(same_arguments_of_another_tool_are_another_call) {
  static const reply replies[] = {
      ASKS(AB), {.text = "", .calls = {{.name = TEXT("u"), .arguments = TEXT(AB)}}, .call_count = 1}, {.text = "done"}};
  world w;
  open_world(&w, replies, COUNT(replies));
  const tp_turn_result *result = run_limited(&w, (tp_turn_request){.call_repeats_max = 1});
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(result->tool_calls, 2);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

/* A reason that the host gives is used; without one the session's end tells how its last turn ended. */
TEST(end_of_a_session_has_the_word_of_its_last_turn) {
  static const reply replies[] = {ASKS(AB)};
  const tp_session_end own = {.struct_size = sizeof own, .reason = "moved on"};
  for (int i = 0; i < 4; i++) {
    world w;
    open_world(&w, replies, 1);
    if (i == 3) assert_int_equal(tp_session_end_phase(w.session, NULL, NULL), TP_OK);
    if (i == 3) assert_string_equal(w.reason, "phase");
    tp_turn_result_free(run_limited(&w, (tp_turn_request){.tool_calls_max = 1}));
    if (i == 1) assert_int_equal(tp_runtime_drain(w.runtime, 60000, NULL, NULL), TP_OK);
    if (i == 2) assert_int_equal(tp_session_end_phase(w.session, &own, NULL), TP_OK);
    if (i == 2) assert_string_equal(w.reason, "moved on");
    if (i == 3) assert_int_equal(tp_session_end_phase(w.session, NULL, NULL), TP_OK);
    if (i == 3) assert_string_equal(w.reason, "max_tool_calls");
    world_close(&w.stage);
    assert_string_equal(w.reason, "max_tool_calls");
  }
}

TEST(every_outcome_and_code_has_a_word) {
  static const struct {
    tp_turn_outcome outcome;
    tp_status code;
    const char *word;
  } words[] = {{TP_TURN_COMPLETED, TP_OK, "completed"},
               {TP_TURN_DENIED, TP_ERR_DENIED, "denied"},
               {TP_TURN_CANCELLED, TP_ERR_CANCELLED, "cancelled"},
               {TP_TURN_TIMED_OUT, TP_ERR_TIMEOUT, "max_time"},
               {TP_TURN_FAILED, TP_ERR_MAX_REQUESTS, "max_requests"},
               {TP_TURN_FAILED, TP_ERR_MAX_TOOL_CALLS, "max_tool_calls"},
               {TP_TURN_FAILED, TP_ERR_MAX_TOKENS, "max_tokens"},
               {TP_TURN_FAILED, TP_ERR_MAX_COST, "max_cost"},
               {TP_TURN_FAILED, TP_ERR_OVER_BUDGET, "budget"},
               {TP_TURN_FAILED, TP_ERR_REPEATED_CALL, "repeated_call"},
               {TP_TURN_FAILED, TP_ERR_MODEL, "error"},
               {TP_TURN_FAILED, TP_ERR_TIMEOUT, "error"},
               {TP_TURN_FAILED, TP_ERR_TOO_LARGE, "error"},
               {TP_TURN_NONE, TP_OK, "unknown"},
               {(tp_turn_outcome)77, TP_ERR_MAX_COST, "unknown"}};
  for (size_t i = 0; i < COUNT(words); i++)
    assert_string_equal(tp_turn_ending_name(words[i].outcome, words[i].code), words[i].word);
}

/* ---- budgets ---- */

#define BUDGET(...) \
  &(tp_budget) { .struct_size = sizeof(tp_budget), __VA_ARGS__ }

static void spend_world(world *w, const tp_budget *of_session, const tp_budget *of_tenant, const tp_budget *of_all,
                        const reply *replies, const char *tenant) {
  *w = (world){.named_count = 0};
  world_open(
      &w->stage,
      &(world_options){.runtime = {.tenant_day_budget = of_tenant, .day_budget = of_all},
                       .replies = replies,
                       .reply_count = 1,
                       .session = {.tenant = tenant, .budget = of_session, .on_event = note_event, .event_ctx = w}});
}

/* @return how many turns of one request complete before one is refused; *ret_reason is the reason. */
static int turns_until_refused(tp_session *session, int most, char ret_reason[256]) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  ret_reason[0] = 0;
  for (int i = 0; i < most; i++) {
    const tp_turn_result *result = NULL;
    assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
    bool refused = result->outcome != TP_TURN_COMPLETED;
    if (refused) {
      assert_int_equal(result->code, TP_ERR_OVER_BUDGET);
      assert_int_equal(result->iterations, 0);
      assert_string_equal(tp_turn_ending_name(result->outcome, result->code), "budget");
      snprintf(ret_reason, 256, "%.*s", (int)result->reason.size, result->reason.data);
    }
    tp_turn_result_free(result);
    if (refused) return i;
  }
  return most;
}

TEST(each_budget_ends_the_turn_before_its_request) {
  static const reply costs[] = {{.text = "hi", .input_tokens = 30, .output_tokens = 20, .cost_micros = 250000}};
  static const struct {
    tp_budget session, tenant, day;
    int turns; /* that complete, of 6 */
    const char *reason;
  } budgets[] = {
      {{0}, {0}, {0}, 6, ""},
      {{.requests_max = 2}, {0}, {0}, 2, "the session's budget is used up: 2 requests, of 2"},
      {{.tokens_max = 100}, {0}, {0}, 2, "the session's budget is used up: 100 tokens, of 100"},
      {{.tokens_max = 101}, {0}, {0}, 3, "the session's budget is used up: 150 tokens, of 101"},
      {{.cost_micros_max = 1000000}, {0}, {0}, 4, "the session's budget is used up: a cost of 1.000000, of 1.000000"},
      {{0}, {.requests_max = 1}, {0}, 1, "the tenant's budget of the day is used up: 1 requests, of 1"},
      {{0}, {.tokens_max = 51}, {0}, 2, "the tenant's budget of the day is used up: 100 tokens, of 51"},
      {{0},
       {.cost_micros_max = 1},
       {0},
       1,
       "the tenant's budget of the day is used up: a cost of 0.250000, of 0.000001"},
      {{0}, {0}, {.requests_max = 3}, 3, "the budget of the day is used up: 3 requests, of 3"},
      {{0}, {0}, {.tokens_max = 150}, 3, "the budget of the day is used up: 150 tokens, of 150"},
      {{0}, {0}, {.cost_micros_max = 1000001}, 5, "the budget of the day is used up: a cost of 1.250000, of 1.000001"},
      {{.requests_max = 5}, {.tokens_max = 100}, {.cost_micros_max = 1000000}, 2, "the tenant's budget of the day"},
      {{.requests_max = 1}, {.tokens_max = 100}, {.cost_micros_max = 1000000}, 1, "the session's budget"},
  };
  for (size_t i = 0; i < COUNT(budgets); i++) {
    tp_budget of[] = {budgets[i].session, budgets[i].tenant, budgets[i].day};
    for (int k = 0; k < 3; k++) of[k].struct_size = sizeof of[k];
    char reason[256];
    world w;
    spend_world(&w, &of[0], &of[1], &of[2], costs, "acme");
    assert_int_equal(turns_until_refused(w.session, 6, reason), budgets[i].turns);
    if (strncmp(reason, budgets[i].reason, strlen(budgets[i].reason)) != 0) fail_msg("%zu: %s", i, reason);
    assert_int_equal(w.model->asked, budgets[i].turns);
    world_close(&w.stage);
  }
}

TEST(budget_that_is_used_up_by_a_response_leaves_its_calls_unrun) {
  static const reply costs[] = {USES(30, 20, 0)};
  world w;
  spend_world(&w, BUDGET(.tokens_max = 100), NULL, NULL, costs, NULL);
  const tp_turn_result *result = run_limited(&w, (tp_turn_request){0});
  assert_int_equal(result->code, TP_ERR_OVER_BUDGET);
  assert_int_equal(result->iterations, 2);
  assert_int_equal(result->tool_calls, 1);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

static tp_session *open_session_of(tp_runtime *runtime, const char *id, const char *tenant, const tp_model *model) {
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = tenant, .model = model};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

static void expect_usage(tp_runtime *runtime, const char *tenant, int64_t requests, int64_t tokens, int64_t cost) {
  tp_usage usage = {.struct_size = sizeof usage};
  assert_int_equal(tp_runtime_usage_get(runtime, tenant, &usage, NULL), TP_OK);
  assert_int_equal(usage.requests, requests);
  assert_int_equal(usage.tokens, tokens);
  assert_int_equal(usage.cost_micros, cost);
  assert_int_equal(usage.day_unix_ms % 86400000, 0);
}

TEST(tenants_have_budgets_of_their_own_and_share_that_of_the_day) {
  static const reply costs[] = {{.text = "hi", .input_tokens = 7, .output_tokens = 3, .cost_micros = 5}};
  recorder *models[4];
  tp_session *sessions[4];
  static const char *const tenants[] = {"a", "a", "b", NULL};
  char reason[256];
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .tenant_day_budget = BUDGET(.requests_max = 4),
                                      .day_budget = BUDGET(.requests_max = 9)};
  tp_runtime *runtime = open_runtime(&options);
  for (int i = 0; i < 4; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    models[i] = recorder_new(costs, 1);
    sessions[i] = open_session_of(runtime, id, tenants[i], recorder_model(models[i], true));
  }
  assert_int_equal(turns_until_refused(sessions[0], 3, reason), 3);
  assert_int_equal(turns_until_refused(sessions[1], 3, reason), 1); /* both sessions are of tenant a */
  expect_usage(runtime, "a", 4, 40, 20);
  expect_usage(runtime, "b", 0, 0, 0);
  expect_usage(runtime, "nobody", 0, 0, 0);
  assert_int_equal(tp_runtime_set_tenant_budget(runtime, "a", BUDGET(.requests_max = 5), NULL), TP_OK);
  assert_int_equal(turns_until_refused(sessions[1], 3, reason), 1);
  assert_int_equal(tp_runtime_set_tenant_budget(runtime, "a", NULL, NULL), TP_OK);
  assert_int_equal(turns_until_refused(sessions[0], 3, reason), 0);
  assert_non_null(strstr(reason, "5 requests, of 4"));
  assert_int_equal(turns_until_refused(sessions[2], 3, reason), 3);
  expect_usage(runtime, "b", 3, 30, 15);
  assert_int_equal(turns_until_refused(sessions[3], 3, reason), 1); /* 9 of the day */
  assert_non_null(strstr(reason, "the budget of the day"));
  expect_usage(runtime, "", 1, 10, 5);
  expect_usage(runtime, NULL, 9, 90, 45);
  for (int i = 0; i < 4; i++) tp_session_close(sessions[i], NULL, NULL);
  close_runtime(runtime);
  for (int i = 0; i < 4; i++) recorder_free(models[i]);
}

static void hit(void *ctx) { latch_hit(ctx); }

TEST(use_of_a_tenant_outlives_its_sessions) {
  static const reply costs[] = {{.text = "hi", .output_tokens = 10}};
  const tp_runtime_options options = {.struct_size = sizeof options, .tenant_day_budget = BUDGET(.tokens_max = 25)};
  tp_runtime *runtime = open_runtime(&options);
  char reason[256];
  recorder *models[3];
  for (int i = 0; i < 3; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    models[i] = recorder_new(costs, 1);
    tp_session *session = open_session_of(runtime, id, "acme", recorder_model(models[i], true));
    assert_int_equal(turns_until_refused(session, 2, reason), i == 0 ? 2 : i == 1 ? 1 : 0);
    latch closed = LATCH;
    tp_session_close(session, hit, &closed);
    latch_wait(&closed, 1);
  }
  expect_usage(runtime, "acme", 3, 30, 0);
  close_runtime(runtime);
  for (int i = 0; i < 3; i++) recorder_free(models[i]);
}

TEST(budgets_that_are_wrong_are_refused) {
  tp_runtime *runtime;
  tp_fault fault;
  const tp_budget *const wrong[] = {BUDGET(.requests_max = -1), BUDGET(.tokens_max = -1),
                                    BUDGET(.cost_micros_max = -1)};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    tp_runtime_options options = {.struct_size = sizeof options, .tenant_day_budget = wrong[i]};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "tenant_day_budget"));
    options = (tp_runtime_options){.struct_size = sizeof options, .day_budget = wrong[i]};
    assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_USAGE);
    world w;
    world_open(&w.stage, &(world_options){.replies = &(reply){.text = "hi"}, .reply_count = 1});
    const tp_session_options session = {.struct_size = sizeof session, .id = "other", .budget = wrong[i]};
    assert_int_equal(tp_session_open(w.runtime, &session, &w.session, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "tp_session_options.budget"));
    /* nothing is counted: a budget of one tenant would have no effect */
    assert_int_equal(tp_runtime_set_tenant_budget(w.runtime, "a", BUDGET(.tokens_max = 1), &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "tenant_day_budget"));
    world_close(&w.stage);
  }
  tp_runtime_options options = {.struct_size = sizeof options, .day_budget = &(tp_budget){.struct_size = 3}};
  assert_int_equal(tp_runtime_new(&options, &runtime, &fault), TP_ERR_VERSION);
}

static void count_unknown(void *ctx, const tp_event *event) {
  if (event->kind == TP_EVENT_DIAGNOSTIC && tp_text_is(event->contribution->key, "cost.unknown")) ++*(int *)ctx;
}

TEST(limit_of_cost_without_a_cost_is_said_once_in_a_turn) {
  static const struct {
    reply reply;
    int64_t turn_max, session_max, day_max;
    int said;
  } asked[] = {{USES(5, 5, 0), 100, 0, 0, 1}, {USES(5, 5, 0), 0, 100, 0, 1}, {USES(5, 5, 0), 0, 0, 100, 1},
               {USES(5, 5, 0), 0, 0, 0, 0},   {USES(0, 0, 0), 100, 0, 0, 0}, {USES(5, 5, 1), 100, 100, 100, 0}};
  for (size_t i = 0; i < COUNT(asked); i++) {
    int said = 0;
    world w;
    world_open(&w.stage, &(world_options){.runtime = {.day_budget = BUDGET(.cost_micros_max = asked[i].day_max)},
                                          .replies = &asked[i].reply,
                                          .reply_count = 1,
                                          .session = {.budget = BUDGET(.cost_micros_max = asked[i].session_max),
                                                      .on_event = count_unknown,
                                                      .event_ctx = &said}});
    tp_turn_result_free(run_limited(&w, (tp_turn_request){.iterations_max = 3, .cost_micros_max = asked[i].turn_max}));
    assert_int_equal(said, asked[i].said);
    world_close(&w.stage);
  }
}

TEST(budget_of_one_tenant_is_kept_without_its_sessions) {
  static const reply costs[] = {{.text = "hi", .output_tokens = 10}};
  const tp_runtime_options options = {.struct_size = sizeof options, .tenant_day_budget = BUDGET(.requests_max = 1)};
  tp_runtime *runtime = open_runtime(&options);
  recorder *model = recorder_new(costs, 1);
  char reason[256];
  assert_int_equal(tp_runtime_set_tenant_budget(runtime, "early", BUDGET(.requests_max = 3), NULL), TP_OK);
  assert_int_equal(tp_runtime_set_tenant_budget(runtime, "other", NULL, NULL), TP_OK); /* nothing to keep */
  tp_session *session = open_session_of(runtime, "s", "early", recorder_model(model, true));
  assert_int_equal(turns_until_refused(session, 5, reason), 3);
  assert_non_null(strstr(reason, "3 requests, of 3"));
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}

/* The clock is changed so that the day has begun earlier, or so that it seems to be set back. */
TEST(another_day_begins_with_nothing_used) {
  static const reply costs[] = {{.text = "hi", .output_tokens = 10}};
  world w;
  char reason[256];
  spend_world(&w, NULL, BUDGET(.requests_max = 2), NULL, costs, "acme");
  tp__budgets *budgets = tp__layer_budgets(w.runtime);
  assert_int_equal(turns_until_refused(w.session, 5, reason), 2);
  budgets->day++;
  assert_int_equal(turns_until_refused(w.session, 5, reason), 0);
  budgets->day -= 3;
  assert_int_equal(turns_until_refused(w.session, 5, reason), 2);
  expect_usage(w.runtime, "acme", 2, 20, 0);
  budgets->day--;
  expect_usage(w.runtime, NULL, 0, 0, 0);
  expect_usage(w.runtime, "acme", 0, 0, 0);
  world_close(&w.stage);
}
