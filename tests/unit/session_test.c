/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and driven turns, seen from both ends: what the host gets, and the requests to the model. */
#include "tests/support/test.h"
#include "phases/session/session.h"
#include "tests/support/world.h"

/* ---- a session with a recording model ---- */

typedef struct world {
  WORLD;
} world;

static world open_world_with(const reply *replies, size_t count, const tp_session_options *more, const hook *hooks,
                             size_t hook_count) {
  world w;
  world_options options = {.hooks = hooks, .hook_count = hook_count, .replies = replies, .reply_count = count};
  if (more) options.session = *more;
  options.session.id = "s1";
  world_open(&w.stage, &options);
  return w;
}

static world open_world(const reply *replies, size_t count) { return open_world_with(replies, count, NULL, NULL, 0); }

static tp_turn_request request_of(const char *text) {
  return (tp_turn_request){.struct_size = sizeof(tp_turn_request), .text = tp_text_of(text)};
}

static const tp_turn_result *run_request(world *w, const tp_turn_request *request) {
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  tp_status status = tp_turn_run(w->session, request, &result, &fault);
  if (status != TP_OK) fail_msg("not run: %s: %s", tp_status_name(status), fault.message);
  return result;
}

static const tp_turn_result *say(world *w, const char *text) {
  tp_turn_request request = request_of(text);
  return run_request(w, &request);
}

static void expect(world *w, const char *text, tp_turn_outcome outcome) {
  const tp_turn_result *result = say(w, text);
  if (result->outcome != outcome)
    fail_msg("`%s` was %s: %.*s", text, tp_turn_outcome_name(result->outcome), (int)result->reason.size,
             result->reason.data ? result->reason.data : "");
  tp_turn_result_free(result);
}

/* ---- a tool for turns ---- */

typedef struct tool_world {
  tp_tool tool;
  const tp_tool *list;
  tp_contribution bundle;
  act contributes;
  hook hook;
  _Atomic int runs;
  const char *text;
} tool_world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  tool_world *t = ctx;
  t->runs++;
  return tp_tool_ok(run, tp_text_of(t->text));
}

static void make_tool(tool_world *t, const char *name) {
  t->text = t->text ? t->text : "tool says";
  t->tool = (tp_tool){.struct_size = sizeof t->tool, .name = name, .run = run_tool, .ctx = t};
  t->list = &t->tool;
  t->bundle = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = &t->list,
                                .tool_count = 1};
  t->contributes = (act){.emits = &t->bundle, .emit_count = 1};
  t->hook = (hook){.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &t->contributes};
}

#define CALL(call_id, tool)                                             \
  {                                                                     \
    .id = TEXT(call_id), .name = TEXT(tool), .arguments = { "\x80", 1 } \
  }

/* ---- a turn from its begin to its end ---- */

TEST(request_without_subscriptions_is_byte_for_byte_the_conversation) {
  static const reply replies[] = {{.text = "hi"}, {.text = "fine </system-reminder>"}, {.text = "bye"}};
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    world w = open_world(replies, 3);
    const tp_turn_result *result = say(&w, "hello");
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    assert_text(result->text, "hi");
    assert_int_equal(result->iterations, 1);
    assert_int_equal(result->tool_calls, 0);
    assert_true(result->turn_id.size > 0);
    assert_true(result->started_ns > 0 && result->started_ns <= result->ended_ns);
    tp_turn_result_free(result);
    expect(&w, "how <system-reminder> are & you", TP_TURN_COMPLETED);
    expect(&w, "", TP_TURN_COMPLETED);
    assert_string_equal(w.model->requests[0], "S<>U<hello>");
    assert_string_equal(w.model->requests[1], "S<>U<hello>A<hi>U<how <system-reminder> are & you>");
    assert_string_equal(w.model->requests[2],
                        "S<>U<hello>A<hi>U<how <system-reminder> are & you>A<fine </system-reminder>>U<>");
    assert_int_equal(w.model->tool_counts[0], 0);
    world_close(&w.stage);
  }
}

TEST(bad_requests_are_refused_before_anything_happens) {
  static const reply replies[] = {{.text = "hi"}};
  world w = open_world(replies, 1);
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  tp_turn_request request = request_of("\xc3(");
  assert_int_equal(tp_turn_run(w.session, &request, &result, &fault), TP_ERR_UTF8);
  request = request_of("x");
  request.id = "no spaces please";
  assert_int_equal(tp_turn_run(w.session, &request, &result, &fault), TP_ERR_BAD_ID);
  request = request_of("x");
  request.files = (tp_text)TEXT("\x91");
  assert_int_equal(tp_turn_run(w.session, &request, &result, &fault), TP_ERR_MALFORMED);
  request.struct_size = 1;
  assert_int_equal(tp_turn_run(w.session, &request, &result, &fault), TP_ERR_VERSION);
  assert_int_equal(w.model->asked, 0);
  tp_session *other;
  assert_int_equal(tp_session_open(w.runtime, NULL, &other, &fault), TP_ERR_BAD_ID);
  tp_session_options options = {.struct_size = sizeof options};
  assert_int_equal(tp_session_open(w.runtime, &options, &other, &fault), TP_ERR_BAD_ID);
  expect(&w, "hello", TP_TURN_COMPLETED);
  assert_string_equal(w.model->requests[0], "S<>U<hello>");
  world_close(&w.stage);
}

TEST(session_without_a_model_fails_its_turns) {
  tp_runtime *runtime = open_runtime(NULL);
  tp_session_options options = {.struct_size = sizeof options, .id = "s"};
  world w = {.runtime = runtime};
  assert_int_equal(tp_session_open(runtime, &options, &w.session, NULL), TP_OK);
  expect(&w, "hello", TP_TURN_FAILED);
  tp_session_close(w.session, NULL, NULL);
  close_runtime(runtime);
}

/* ---- tools in a turn ---- */

TEST(results_go_back_to_the_model_in_call_order) {
  static const reply replies[] = {
      {.text = "let me see", .calls = {CALL("a", "t"), CALL("b", "nobody"), CALL("", "t")}, .call_count = 3},
      {.text = "done"}};
  tool_world t = {0};
  make_tool(&t, "t");
  act batch = {0}, post = {0};
  hook hooks[] = {t.hook,
                  {.id = "batch", .phase = TP_PHASE_TOOL_BATCH, .ctx = &batch},
                  {.id = "post", .phase = TP_PHASE_MODEL_POST, .ctx = &post}};
  world w = open_world_with(replies, 2, NULL, hooks, 3);
  const tp_turn_result *result = say(&w, "go");
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(result->iterations, 2);
  assert_int_equal(result->tool_calls, 3);
  assert_text(result->text, "done");
  tp_turn_result_free(result);
  assert_int_equal(t.runs, 2);
  assert_int_equal(batch.calls, 1);
  assert_int_equal(post.calls, 2);
  assert_int_equal(w.model->tool_counts[0], 1);
  assert_non_null(strstr(w.model->requests[1],
                         "S<>U<go>A<let me see>C<t>C<nobody>C<t>T<tool says>=<a>T!<there is no tool of that "
                         "name>=<b>T<tool says>=<call-"));
  expect(&w, "next", TP_TURN_COMPLETED);
  assert_non_null(strstr(w.model->requests[2], "A<done>U<next>")); /* all of it is in the history */
  world_close(&w.stage);
}

/* A handler of tool.batch that notes what each call came to. */
static tp_answer see_batch(void *ctx, tp_call *call) {
  char *seen = ctx;
  for (tp_value_walk walk = {0}; tp_value_next(tp_call_text(call, TP_FIELD_CALLS), &walk);) {
    tp_text id = tp_value_text(tp_value_get(walk.value, "id")), kind = tp_value_text(tp_value_get(walk.value, "kind"));
    tp_text result = tp_value_text(tp_value_get(walk.value, "result"));
    bool is_map = tp_value_kind_of(tp_value_get(walk.value, "arguments")) == TP_VALUE_MAP;
    size_t used = strlen(seen);
    snprintf(seen + used, 512 - used, "%.*s %s%s %.*s <%.*s> %zu\n", (int)id.size, id.data, is_map ? "map" : "",
             tp_value_bool(tp_value_get(walk.value, "malformed"), false) ? "malformed" : "", (int)kind.size, kind.data,
             result.size < 40 ? (int)result.size : 3, result.data, result.size);
  }
  return TP_ANSWER_DONE;
}

TEST(tool_batch_sees_arguments_and_results) {
  static const reply replies[] = {
      {.text = "x",
       .calls = {CALL("a", "t"),
                 CALL("b", "nobody"),
                 {.id = TEXT("c"), .name = TEXT("t"), .arguments = TEXT("{"), .malformed = true}},
       .call_count = 3},
      {.text = "done"}};
  tool_world t = {0};
  make_tool(&t, "t");
  char seen[512] = "";
  hook hooks[] = {t.hook, {.id = "batch", .phase = TP_PHASE_TOOL_BATCH, .run = see_batch, .ctx = seen}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  expect(&w, "go", TP_TURN_COMPLETED);
  static const char wanted[] =
      "a map ok <tool says> 9\nb map unknown_tool <there is no tool of that name> 29\nc "
      "malformed invalid_arguments <the arguments are not a JSON object> 35\n";
  assert_string_equal(seen, wanted);
  world_close(&w.stage);
}

TEST(results_above_16_mib_keep_head_and_tail_in_tool_batch) {
  static const reply replies[] = {{.text = "x", .calls = {CALL("a", "t"), CALL("b", "t")}, .call_count = 2},
                                  {.text = "done"}};
  enum { SIZE = 9 << 20 };
  char *text = malloc(SIZE + 1);
  assert_non_null(text);
  memset(text, 'x', SIZE);
  text[SIZE] = '\0';
  tool_world t = {.text = text};
  make_tool(&t, "t");
  t.tool.result_bytes_max = SIZE;
  char seen[512] = "";
  act end = {.kind = TP_ANSWER_DENY}; /* the model, which notes what it reads, is not asked again */
  hook hooks[] = {t.hook,
                  {.id = "batch", .phase = TP_PHASE_TOOL_BATCH, .run = see_batch, .ctx = seen},
                  {.id = "end", .phase = TP_PHASE_TOOL_BATCH, .ctx = &end}};
  world w = open_world_with(replies, 2, NULL, hooks, 3);
  expect(&w, "go", TP_TURN_COMPLETED);
  size_t a = 0, b = 0;
  if (sscanf(seen, "a map ok <xxx> %zu\nb map ok <xxx> %zu\n", &a, &b) != 2) fail_msg("%s", seen);
  assert_in_range(a, (8 << 20) - 1000, (8 << 20) + 1000);
  assert_int_equal(a, b);
  world_close(&w.stage);
  free(text);
}

TEST(denied_call_adds_its_reason_and_a_reminder_to_the_next_request) {
  static const reply replies[] = {
      {.text = "", .calls = {CALL("a", "t")}, .call_count = 1}, {.text = "I see"}, {.text = "ok"}};
  tool_world t = {0};
  make_tool(&t, "t");
  act gate = {.kind = TP_ANSWER_DENY, .reason = "not today"};
  hook hooks[] = {t.hook, {.id = "gate", .phase = TP_PHASE_TOOL_PRE, .ctx = &gate}};
  world w = open_world_with(replies, 3, NULL, hooks, 2);
  expect(&w, "go", TP_TURN_COMPLETED);
  assert_int_equal(t.runs, 0);
  const char *second = w.model->requests[1];
  assert_non_null(strstr(second, "T!<"));
  assert_non_null(strstr(second, "hook gate blocked the action: not today"));
  assert_non_null(strstr(second, "<system-reminder>"));
  expect(&w, "next", TP_TURN_COMPLETED);
  assert_null(strstr(w.model->requests[2], "<system-reminder>")); /* delivered once, never in the history */
  world_close(&w.stage);
}

/* Also of those that may change what it is called with, or its result. */
TEST(reminders_of_every_phase_around_a_call_reach_the_next_request) {
  static const reply replies[] = {{.calls = {CALL("a", "t")}, .call_count = 1}, {.text = "done"}};
  static const uint32_t phases[] = {TP_PHASE_TOOL_REWRITE, TP_PHASE_TOOL_PRE, TP_PHASE_TOOL_RESULT, TP_PHASE_TOOL_POST};
  for (size_t i = 0; i < COUNT(phases); i++) {
    static const tp_contribution reminder = {
        .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("mind the gap")};
    tool_world t = {0};
    make_tool(&t, "t");
    act reminds = {.emits = &reminder, .emit_count = 1};
    hook hooks[] = {t.hook, {.id = "reminds", .phase = phases[i], .ctx = &reminds}};
    world w = open_world_with(replies, 2, NULL, hooks, 2);
    expect(&w, "go", TP_TURN_COMPLETED);
    assert_int_equal(t.runs, 1);
    if (!strstr(w.model->requests[1], "mind the gap")) fail_msg("phase %u: %s", phases[i], w.model->requests[1]);
    world_close(&w.stage);
  }
}

/* ---- what handlers contribute ---- */

TEST(sections_contexts_and_reminders_reach_the_request_and_not_the_history) {
  static const reply replies[] = {{.text = "one"}, {.text = "two"}};
  static const tp_contribution section = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_SECTION,
                                          .key = TEXT("s"),
                                          .text = TEXT("a section")};
  static const tp_contribution context = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                          .key = TEXT("c"),
                                          .text = TEXT("a memory")};
  static const tp_contribution reminder = {.struct_size = sizeof(tp_contribution),
                                           .kind = TP_CONTRIBUTION_REMINDER,
                                           .text = TEXT("be brief </system-reminder>")};
  act contributes_section = {.emits = &section, .emit_count = 1},
      contributes_context = {.emits = &context, .emit_count = 1};
  act reminds = {.emits = &reminder, .emit_count = 1};
  hook hooks[] = {{.id = "section", .phase = TP_PHASE_TURN_PRE_PROMPT_COMPILE, .ctx = &contributes_section},
                  {.id = "context", .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, .ctx = &contributes_context},
                  {.id = "reminder", .phase = TP_PHASE_SESSION_START, .ctx = &reminds}};
  world w = open_world_with(replies, 2, NULL, hooks, 3);
  expect(&w, "hello", TP_TURN_COMPLETED);
  expect(&w, "again", TP_TURN_COMPLETED);
  const char *first = w.model->requests[0], *second = w.model->requests[1];
  assert_non_null(strstr(first, "a section"));
  assert_non_null(strstr(first, "a memory"));
  assert_non_null(strstr(first, "be brief"));
  assert_non_null(strstr(first, "hello"));
  int frames = 0;
  for (const char *at = first; (at = strstr(at, "</system-reminder>")); at++) frames++;
  assert_int_equal(frames, 1); /* what was in the text is escaped */
  assert_null(strstr(second, "be brief"));
  assert_non_null(strstr(second, "U<hello>A<one>")); /* the history holds what was said, nothing else */
  assert_int_equal(reminds.calls, 1);
  assert_int_equal(contributes_context.calls, 2);
  world_close(&w.stage);
}

static size_t count_of(const char *text, const char *words) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, words)); at++) count++;
  return count;
}

TEST(repeated_request_carries_each_reminder_once) {
  static const reply replies[] = {{.fails = TP_ERR_MODEL, .retryable = true},
                                  {.fails = TP_ERR_MODEL, .retryable = true},
                                  {.text = "hi"},
                                  {.text = "again"}};
  static const tp_contribution reminder = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("mind the gap")};
  act pre = {.emits = &reminder, .emit_count = 1}, reminds = {.emits = &reminder, .emit_count = 1};
  hook hooks[] = {{.id = "pre", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre},
                  {.id = "reminds", .phase = TP_PHASE_SESSION_START, .ctx = &reminds}};
  world w = open_world_with(replies, COUNT(replies), NULL, hooks, 2);
  expect(&w, "hello", TP_TURN_COMPLETED);
  expect(&w, "hello", TP_TURN_COMPLETED);
  assert_int_equal(pre.calls, 4);
  for (int i = 0; i < 3; i++) assert_int_equal(count_of(w.model->requests[i], "mind the gap"), 2);
  assert_int_equal(count_of(w.model->requests[3], "mind the gap"), 1);
  world_close(&w.stage);
}

TEST(context_of_model_pre_is_for_this_request_only) {
  static const reply replies[] = {{.text = "", .calls = {CALL("a", "t")}, .call_count = 1}, {.text = "done"}};
  static const tp_contribution context = {.struct_size = sizeof(tp_contribution),
                                          .kind = TP_CONTRIBUTION_PROMPT_CONTEXT,
                                          .key = TEXT("c"),
                                          .text = TEXT("for now")};
  tool_world t = {0};
  make_tool(&t, "t");
  act pre = {.emits = &context, .emit_count = 1};
  hook hooks[] = {t.hook, {.id = "pre", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  expect(&w, "go", TP_TURN_COMPLETED);
  assert_int_equal(pre.calls, 2);
  for (int i = 0; i < 2; i++) {
    const char *at = strstr(w.model->requests[i], "for now");
    assert_non_null(at);
    assert_null(strstr(at + 1, "for now")); /* once each, not twice in the second */
  }
  world_close(&w.stage);
}

TEST(intake_rewrites_what_the_model_and_the_history_get) {
  static const reply replies[] = {{.text = "one"}, {.text = "two"}};
  act intake = {.replaces = TP_FIELD_TEXT, .appends = "!"},
      response = {.replaces = TP_FIELD_RESPONSE_TEXT, .appends = "?"};
  act system = {.replaces = TP_FIELD_SYSTEM, .text = "be kind"};
  hook hooks[] = {{.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &intake},
                  {.id = "response", .phase = TP_PHASE_MODEL_RESPONSE, .ctx = &response},
                  {.id = "system", .phase = TP_PHASE_TURN_POST_PROMPT_COMPILE, .ctx = &system}};
  world w = open_world_with(replies, 2, NULL, hooks, 3);
  const tp_turn_result *result = say(&w, "hello");
  assert_text(result->text, "one?");
  tp_turn_result_free(result);
  expect(&w, "again", TP_TURN_COMPLETED);
  assert_string_equal(w.model->requests[0], "S<be kind>U<hello!>");
  assert_string_equal(w.model->requests[1], "S<be kind>U<hello!>A<one?>U<again!>");
  world_close(&w.stage);
}

/* A handler of model.response that gives other calls. */
typedef struct filter {
  const char *calls; /* a msgpack value */
  size_t size;
  char seen[256];
} filter;

static tp_answer filter_calls(void *ctx, tp_call *call) {
  filter *f = ctx;
  f->seen[0] = 0;
  for (tp_value_walk walk = {0}; tp_value_next(tp_call_text(call, TP_FIELD_CALLS), &walk);) {
    tp_text id = tp_value_text(tp_value_get(walk.value, "id"));
    size_t used = strlen(f->seen);
    snprintf(f->seen + used, sizeof f->seen - used, "%.*s:%d%s ", (int)id.size, id.data,
             (int)tp_value_kind_of(tp_value_get(walk.value, "arguments")) == TP_VALUE_MAP,
             tp_value_bool(tp_value_get(walk.value, "malformed"), false) ? "!" : "");
  }
  tp_field field = {.id = TP_FIELD_CALLS, .kind = TP_FIELD_KIND_VALUE, .text = {f->calls, f->size}};
  return !f->calls || !f->seen[0] || tp_call_replace(call, &field, 1, NULL) == TP_OK ? TP_ANSWER_DONE
                                                                                     : TP_ANSWER_FAILED;
}

#define VALUE(bytes) bytes, sizeof(bytes) - 1

static bool note_replacement(void *ctx, const tp_audit *row) {
  char *to = ctx;
  size_t used = strlen(to);
  if (strcmp(row->action, "replacement") == 0) snprintf(to + used, 512 - used, "%s\n", row->detail);
  return true;
}

TEST(response_handler_drops_and_changes_calls_and_the_audit_shows_which) {
  static const reply replies[] = {
      {.text = "x",
       .calls = {CALL("a", "t"),
                 CALL("b", "t"),
                 CALL("c", "nobody"),
                 {.id = TEXT("d"), .name = TEXT("t"), .arguments = TEXT("{"), .malformed = true}},
       .call_count = 4},
      {.text = "done"}};
  /* [{id: b, arguments: {n: 1}}, {id: c, tool: t}, {id: d, arguments: {}}] */
  filter f = {VALUE("\x93\x82\xa2id\xa1"
                    "b\xa9"
                    "arguments\x81\xa1n\x01\x82\xa2id\xa1"
                    "c\xa4tool\xa1t\x82\xa2id\xa1"
                    "d\xa9"
                    "arguments\x80"),
              ""};
  tool_world t = {0};
  make_tool(&t, "t");
  hook hooks[] = {t.hook, {.id = "filter", .phase = TP_PHASE_MODEL_RESPONSE, .run = filter_calls, .ctx = &f}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  const tp_turn_result *result = say(&w, "go");
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_int_equal(result->tool_calls, 3);
  tp_turn_result_free(result);
  assert_int_equal(t.runs, 3);
  assert_string_equal(w.model->requests[1], "S<>U<go>A<x>C<t>C<t>C<t>T<tool says>=<b>T<tool says>=<c>T<tool says>=<d>");
  char rows[512] = "";
  tp_runtime_audit(w.runtime, TP_VISIBILITY_INTERNAL, note_replacement, rows);
  assert_non_null(strstr(rows, "t: the call was dropped\n"));
  assert_non_null(strstr(rows, "t: the arguments of the call were changed\n"));
  assert_non_null(strstr(rows, "nobody: the call became one of another tool\n"));
  assert_int_equal(count_of(rows, "\n"), 4);
  world_close(&w.stage);
}

TEST(response_without_its_calls_ends_the_turn) {
  static const reply replies[] = {{.text = "x", .calls = {CALL("a", "t")}, .call_count = 1}};
  filter f = {VALUE("\x90"), ""};
  tool_world t = {0};
  make_tool(&t, "t");
  hook hooks[] = {t.hook, {.id = "filter", .phase = TP_PHASE_MODEL_RESPONSE, .run = filter_calls, .ctx = &f}};
  world w = open_world_with(replies, 1, NULL, hooks, 2);
  expect(&w, "go", TP_TURN_COMPLETED);
  assert_string_equal(f.seen, "a:1 ");
  assert_int_equal(t.runs, 0);
  assert_int_equal(w.model->asked, 1);
  world_close(&w.stage);
}

TEST(calls_that_the_response_has_not_fail_the_turn) {
  static const reply replies[] = {
      {.text = "x",
       .calls = {CALL("a", "t"), {.id = TEXT("b"), .name = TEXT("t"), .arguments = TEXT("{"), .malformed = true}},
       .call_count = 2}};
  static const filter values[] = {
      {VALUE("\x80"), ""},                                     /* no array */
      {VALUE("\x91\x01"), ""},                                 /* no map */
      {VALUE("\x91\x80"), ""},                                 /* no id */
      {VALUE("\x91\x81\xa2id\xa1z"), ""},                      /* another id */
      {VALUE("\x92\x81\xa2id\xa1\x61\x81\xa2id\xa1\x61"), ""}, /* twice */
      {VALUE("\x92\x81\xa2id\xa1\x62\x81\xa2id\xa1\x61"), ""}, /* in another order */
      {VALUE("\x91\x82\xa2id\xa1\x61\xa4tool\x01"), ""},       /* a tool that is no name */
      {VALUE("\x91\x82\xa2id\xa1\x61\xa9"
             "arguments\xa1x"),
       ""}, /* arguments that are no map */
  };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    filter f = values[i];
    tool_world t = {0};
    make_tool(&t, "t");
    hook hooks[] = {t.hook, {.id = "filter", .phase = TP_PHASE_MODEL_RESPONSE, .run = filter_calls, .ctx = &f}};
    world w = open_world_with(replies, 1, NULL, hooks, 2);
    const tp_turn_result *result = say(&w, "go");
    assert_string_equal(f.seen, "a:1 b:0! ");
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->code, TP_ERR_MALFORMED);
    assert_memory_equal(result->reason.data, "calls: ", 7);
    assert_int_equal(t.runs, 0);
    tp_turn_result_free(result);
    world_close(&w.stage);
  }
}

/* ---- outcomes ---- */

typedef struct ends {
  _Atomic int post_turns, errors;
  char outcome[32];
  int64_t code;
} ends;

static tp_answer note_post_turn(void *ctx, tp_call *call) {
  ends *e = ctx;
  e->post_turns++;
  tp_text outcome = tp_call_text(call, TP_FIELD_OUTCOME);
  snprintf(e->outcome, sizeof e->outcome, "%.*s", (int)outcome.size, outcome.data);
  return TP_ANSWER_DONE;
}

static tp_answer note_error(void *ctx, tp_call *call) {
  ends *e = ctx;
  e->errors++;
  e->code = tp_call_int(call, TP_FIELD_CODE);
  return TP_ANSWER_DONE;
}

typedef struct outcome_case {
  const char *name;
  reply replies[2];
  act act;
  uint32_t phase; /* where act is subscribed; 0: nowhere */
  tp_failure failure;
  tp_turn_request limits;
  tp_turn_outcome outcome;
  tp_status code;
  const char *kept; /* in the history between the user's message and the mark */
} outcome_case;

#define ASKED "A<>+calls;T<there is no tool of that name>;"
#define NOT_RUN "T<the call was not run: the turn ended before it>;"

static const outcome_case outcomes[] = {
    {.name = "completed", .replies = {{.text = "hi"}}, .outcome = TP_TURN_COMPLETED},
    {.name = "denied at intake",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_DENY, .reason = "no"},
     .phase = TP_PHASE_TURN_INTAKE,
     .outcome = TP_TURN_DENIED,
     .code = TP_ERR_DENIED},
    {.name = "policy fails",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED, .reason = "ill"},
     .phase = TP_PHASE_TURN_PRE_POLICY,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_HOOK},
    {.name = "tools fail",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED},
     .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_HOOK},
    {.name = "sections fail",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED},
     .phase = TP_PHASE_TURN_PRE_PROMPT_COMPILE,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_HOOK},
    {.name = "optional context fails",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED},
     .phase = TP_PHASE_TURN_PRE_PROMPT_CONTEXT,
     .outcome = TP_TURN_COMPLETED},
    {.name = "model.pre required fails",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED},
     .phase = TP_PHASE_MODEL_PRE,
     .failure = TP_FAILURE_REQUIRED,
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_HOOK},
    {.name = "model fails", .replies = {{.fails = TP_ERR_MODEL}}, .outcome = TP_TURN_FAILED, .code = TP_ERR_MODEL},
    {.name = "post_turn fails",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED},
     .phase = TP_PHASE_TURN_POST_TURN,
     .outcome = TP_TURN_COMPLETED},
    {.name = "error after calls",
     .replies = {{.calls = {CALL("a", "nobody")}, .call_count = 1}, {.fails = TP_ERR_MODEL}},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MODEL,
     .kept = ASKED},
    {.name = "error after words and two calls",
     .replies = {{.text = "I look.", .calls = {CALL("a", "nobody"), CALL("b", "nobody")}, .call_count = 2},
                 {.fails = TP_ERR_MODEL}},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MODEL,
     .kept = "A<I look.>+calls;T<there is no tool of that name>;T<there is no tool of that name>;"},
    {.name = "out of time after calls",
     .replies = {{.calls = {CALL("a", "nobody")}, .call_count = 1}, {.never = true}},
     .limits = {.limit_ms = 300},
     .outcome = TP_TURN_TIMED_OUT,
     .code = TP_ERR_TIMEOUT,
     .kept = ASKED},
    {.name = "stop fails after the answer",
     .replies = {{.text = "hi"}},
     .act = {.kind = TP_ANSWER_FAILED, .reason = "ill"},
     .phase = TP_PHASE_TURN_STOP,
     .outcome = TP_TURN_COMPLETED},
    {.name = "answer unread",
     .replies = {{.text = "a secret"}},
     .act = {.kind = TP_ANSWER_FAILED, .reason = "ill"},
     .phase = TP_PHASE_MODEL_RESPONSE,
     .failure = TP_FAILURE_REQUIRED,
     .outcome = TP_TURN_DENIED,
     .code = TP_ERR_DENIED},
    {.name = "too many iterations",
     .replies = {{.calls = {CALL("a", "nobody")}, .call_count = 1}, {.calls = {CALL("a", "nobody")}, .call_count = 1}},
     .limits = {.iterations_max = 3},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MAX_REQUESTS,
     .kept = ASKED ASKED ASKED},
    {.name = "too many calls",
     .replies = {{.calls = {CALL("a", "nobody"), CALL("b", "nobody")}, .call_count = 2}},
     .limits = {.tool_calls_max = 1},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MAX_TOOL_CALLS,
     .kept = "A<>+calls;" NOT_RUN NOT_RUN},
    {.name = "too many tokens",
     .replies = {{.calls = {CALL("a", "nobody")}, .call_count = 1, .input_tokens = 60, .output_tokens = 50}},
     .limits = {.tokens_max = 100},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MAX_TOKENS,
     .kept = "A<>+calls;" NOT_RUN},
    {.name = "too expensive",
     .replies = {{.calls = {CALL("a", "nobody")}, .call_count = 1, .cost_micros = 11}},
     .limits = {.cost_micros_max = 10},
     .outcome = TP_TURN_FAILED,
     .code = TP_ERR_MAX_COST,
     .kept = "A<>+calls;" NOT_RUN},
    {.name = "out of time",
     .replies = {{.never = true}},
     .limits = {.limit_ms = 30},
     .outcome = TP_TURN_TIMED_OUT,
     .code = TP_ERR_TIMEOUT},
};

static void check_outcome(const outcome_case *c) {
  ends e = {0};
  act a;
  memcpy(&a, &c->act, sizeof a);
  hook hooks[] = {{.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = note_post_turn, .ctx = &e},
                  {.id = "error", .phase = TP_PHASE_RUNTIME_ERROR, .run = note_error, .ctx = &e},
                  {.id = "act", .phase = c->phase, .ctx = &a, .sub = {.failure = c->failure}}};
  world w = open_world_with(c->replies, 2, NULL, hooks, c->phase ? 3 : 2);
  tp_turn_request request = c->limits;
  request.struct_size = sizeof request;
  request.text = tp_text_of("hello");
  request.id = "t1";
  const tp_turn_result *result = run_request(&w, &request);
  if (result->outcome != c->outcome || result->code != c->code)
    fail_msg("%s: %s, %s: %.*s", c->name, tp_turn_outcome_name(result->outcome), tp_status_name(result->code),
             (int)result->reason.size, result->reason.data ? result->reason.data : "");
  assert_text(result->turn_id, "t1");
  if (c->outcome != TP_TURN_COMPLETED) {
    assert_true(result->reason.size > 0);
    assert_int_equal(result->text.size, 0);
  }
  bool error = c->outcome == TP_TURN_FAILED || c->outcome == TP_TURN_TIMED_OUT;
  assert_int_equal(e.post_turns, 1);
  assert_string_equal(e.outcome, tp_turn_outcome_name(c->outcome));
  assert_int_equal(e.errors, error ? 1 : 0);
  if (error) assert_int_equal(e.code, c->code);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST(every_outcome_has_post_turn_once_and_runtime_error_when_it_failed) {
  for (size_t i = 0; i < COUNT(outcomes); i++) check_outcome(&outcomes[i]);
}

/* A server says 403 to the one and 503 to the other. */
TEST(result_names_who_refused_and_whether_it_answered) {
  static const struct {
    act act;
    tp_turn_outcome outcome;
    tp_state state;
    tp_reason why;
    const char *words;
  } cases[] = {{{.kind = TP_ANSWER_DENY, .reason = "not today"},
                TP_TURN_DENIED,
                TP_STATE_SUCCEEDED,
                TP_REASON_NONE,
                "not today"},
               {{.defers = true}, TP_TURN_DENIED, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT, "timeout"}};
  static const reply replies[] = {{.text = "hi"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    act guard;
    memcpy(&guard, &cases[i].act, sizeof guard);
    hook h = {.id = "guard",
              .phase = TP_PHASE_TURN_INTAKE,
              .ctx = &guard,
              .sub = {.failure = TP_FAILURE_REQUIRED, .limit_ms = guard.defers ? 5 : 60000}};
    world w = open_world_with(replies, 1, NULL, &h, 1);
    const tp_turn_result *result = say(&w, "hello");
    assert_int_equal(result->outcome, cases[i].outcome);
    assert_int_equal(result->phase, TP_PHASE_TURN_INTAKE);
    assert_text(result->subscription, "guard");
    assert_text(result->bare_reason, cases[i].words);
    assert_int_equal(result->state, cases[i].state);
    assert_int_equal(result->why, cases[i].why);
    tp_turn_result_free(result);
    world_close(&w.stage);
  }
}

typedef struct script_of_messages {
  char text[1024];
} script_of_messages;

static tp_status write_message(void *ctx, const tp_message *m) {
  script_of_messages *s = ctx;
  size_t used = strlen(s->text);
  snprintf(s->text + used, sizeof s->text - used, "%s<%.*s>%.*s%s;",
           m->role == TP_ROLE_USER        ? "U"
           : m->role == TP_ROLE_ASSISTANT ? "A"
           : m->role == TP_ROLE_TOOL      ? "T"
                                          : "E",
           (int)m->text.size, m->text.size ? m->text.data : "", m->role == TP_ROLE_END ? (int)m->name.size : 0,
           m->name.size ? m->name.data : "", m->call_count ? "+calls" : "");
  return TP_OK;
}

/* The host keeps its history. A turn that did not complete leaves its message and an end mark there. */
static tp_history *shared_history;
static tp_history borrowed_history;
static const tp_history *borrow_history(void) {
  borrowed_history = *shared_history;
  borrowed_history.destroy = NULL;
  return &borrowed_history;
}

TEST(turn_that_does_not_complete_leaves_what_happened_and_a_mark) {
  for (size_t i = 0; i < COUNT(outcomes); i++) {
    const outcome_case *c = &outcomes[i];
    assert_int_equal(tp_history_memory_new(NULL, &shared_history, NULL), TP_OK);
    act a;
    memcpy(&a, &c->act, sizeof a);
    hook h = {.id = "act", .phase = c->phase, .ctx = &a, .sub = {.failure = c->failure}};
    tp_session_options options = {.history = borrow_history()};
    world w = open_world_with(c->replies, 2, &options, &h, c->phase ? 1 : 0);
    tp_turn_request request = c->limits;
    request.struct_size = sizeof request;
    request.text = tp_text_of("hello");
    const tp_turn_result *result = run_request(&w, &request);
    assert_int_equal(result->outcome, c->outcome);
    script_of_messages s = {""};
    tp_history_load load = {.struct_size = sizeof load, .session = tp_text_of("s1"), .each = write_message, .ctx = &s};
    assert_int_equal(shared_history->load(shared_history->ctx, &load, NULL), TP_OK);
    if (c->outcome == TP_TURN_COMPLETED) {
      assert_string_equal(s.text, "U<hello>;A<hi>;");
    } else {
      char want[512];
      snprintf(want, sizeof want, "U<hello>;%sE<%.*s>%s;", c->kept ? c->kept : "", (int)result->reason.size,
               result->reason.data, tp_turn_outcome_name(c->outcome));
      assert_string_equal(s.text, want);
    }
    tp_turn_result_free(result);
    world_close(&w.stage);
    tp_history_free(shared_history);
  }
}

TEST(end_mark_reaches_the_model_as_a_line) {
  static const reply replies[] = {{.fails = TP_ERR_MODEL}, {.text = "hi"}};
  world w = open_world(replies, 2);
  expect(&w, "one", TP_TURN_FAILED);
  expect(&w, "two", TP_TURN_COMPLETED);
  assert_string_equal(w.model->requests[1], "S<>U<one>U<[The turn failed before it was complete.]>U<two>");
  world_close(&w.stage);
}

TEST(history_outlives_its_session) {
  static const reply replies[] = {{.text = "hi"}};
  assert_int_equal(tp_history_memory_new(NULL, &shared_history, NULL), TP_OK);
  for (int i = 0; i < 2; i++) {
    tp_session_options options = {.history = borrow_history()};
    world w = open_world_with(replies, 1, &options, NULL, 0);
    expect(&w, "hello", TP_TURN_COMPLETED);
    assert_string_equal(w.model->requests[0], i == 0 ? "S<>U<hello>" : "S<>U<hello>A<hi>U<hello>");
    world_close(&w.stage);
  }
  tp_history_free(shared_history);
}

TEST(history_of_a_wrong_size_or_without_its_functions_is_refused) {
  tp_history *memory;
  assert_int_equal(tp_history_memory_new(NULL, &memory, NULL), TP_OK);
  tp_runtime *runtime = open_runtime(NULL);
  tp_history history = *memory;
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .history = &history};
  tp_session *session = NULL;
  tp_fault fault = {0};
  history.struct_size = 0;
  assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_VERSION);
  assert_non_null(strstr(fault.message, "tp_history"));
  history.struct_size = sizeof history;
  history.append = NULL;
  assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "append"));
  assert_null(session);
  close_runtime(runtime);
  tp_history_free(memory); /* still ours */
  tp_history_free(NULL);
}

/* ---- a history that fails ---- */

static _Atomic int loads_refused, appends_refused;
static tp_status load_or_not(void *ctx, const tp_history_load *request, tp_fault *fault) {
  if (loads_refused > 0) {
    loads_refused--;
    return TP_ERR_STORE_BUSY;
  }
  return shared_history->load(ctx, request, fault);
}
static tp_status append_or_not(void *ctx, const tp_history_append *request, tp_fault *fault) {
  if (appends_refused > 0) {
    appends_refused--;
    return TP_ERR_STORE_FULL;
  }
  return shared_history->append(ctx, request, fault);
}

TEST(history_that_fails_fails_the_turn_and_the_next_works) {
  static const reply replies[] = {{.text = "hi"}};
  assert_int_equal(tp_history_memory_new(NULL, &shared_history, NULL), TP_OK);
  tp_session_options options = {.history = borrow_history()};
  borrowed_history.load_start = NULL;
  borrowed_history.load = load_or_not;
  borrowed_history.append = append_or_not;
  act started = {0};
  hook h = {.id = "start", .phase = TP_PHASE_SESSION_START, .ctx = &started};
  world w = open_world_with(replies, 1, &options, &h, 1);
  loads_refused = 1;
  const tp_turn_result *result = say(&w, "one");
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_STORE_BUSY);
  tp_turn_result_free(result);
  assert_int_equal(started.calls, 0);
  appends_refused = 1;
  result = say(&w, "two");
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_STORE_FULL);
  tp_turn_result_free(result);
  assert_int_equal(started.calls, 1);
  expect(&w, "three", TP_TURN_COMPLETED);
  assert_int_equal(started.calls, 1);
  world_close(&w.stage);
  tp_history_free(shared_history);
}

/* ---- the model ---- */

TEST(failed_request_is_repeated_when_it_is_retryable_and_said_nothing_yet) {
  static const struct {
    reply replies[4];
    uint32_t asked;
    tp_turn_outcome outcome;
  } cases[] = {
      {{{.fails = TP_ERR_MODEL, .retryable = true}, {.fails = TP_ERR_MODEL, .retryable = true}, {.text = "hi"}},
       3,
       TP_TURN_COMPLETED},
      {{{.fails = TP_ERR_MODEL, .retryable = true},
        {.fails = TP_ERR_MODEL, .retryable = true},
        {.fails = TP_ERR_MODEL, .retryable = true}},
       3,
       TP_TURN_FAILED},
      {{{.fails = TP_ERR_MODEL, .retryable = true, .delta = "I th"}, {.text = "hi"}}, 1, TP_TURN_FAILED},
      {{{.fails = TP_ERR_MODEL}, {.text = "hi"}}, 1, TP_TURN_FAILED},
  };
  static const tp_contribution reminder = {
      .struct_size = sizeof(tp_contribution), .kind = TP_CONTRIBUTION_REMINDER, .text = TEXT("remember")};
  for (size_t i = 0; i < COUNT(cases); i++) {
    act pre = {0}, reminds = {.emits = &reminder, .emit_count = 1};
    hook hooks[] = {{.id = "pre", .phase = TP_PHASE_MODEL_PRE, .ctx = &pre},
                    {.id = "reminds", .phase = TP_PHASE_SESSION_START, .ctx = &reminds}};
    world w = open_world_with(cases[i].replies, 4, NULL, hooks, 2);
    expect(&w, "hello", cases[i].outcome);
    assert_int_equal(w.model->asked, cases[i].asked);
    assert_int_equal(pre.calls, cases[i].asked); /* each attempt fires model.pre */
    for (uint32_t r = 0; r < cases[i].asked; r++) {
      assert_int_equal(w.model->attempts[r], r + 1);
      assert_non_null(strstr(w.model->requests[r], "remember")); /* delivered when it succeeded */
    }
    world_close(&w.stage);
  }
}

typedef struct event_log {
  char text[2048];
  uint64_t sequence;
  int bad;
  char delta[64];
} event_log;

static void keep_event(void *ctx, const tp_event *event) {
  event_log *log = ctx;
  if (event->sequence == 1) log->sequence = 0;
  if (event->sequence != ++log->sequence) log->bad++;
  if (event->ids[TP_ID_SESSION].size != 2 || event->time_ns <= 0 || event->unix_ms <= 0) log->bad++;
  size_t used = strlen(log->text);
  snprintf(log->text + used, sizeof log->text - used, "%s ", tp_event_name(event->kind));
  if (event->kind == TP_EVENT_MODEL_DELTA) strncat(log->delta, event->text.data, event->text.size);
}

TEST(events_report_the_turn_in_order_and_without_gaps) {
  static const reply replies[] = {{.calls = {CALL("a", "t")}, .call_count = 1}, {.text = "hi", .delta = "h"}};
  tool_world t = {0};
  make_tool(&t, "t");
  event_log log = {.sequence = 0};
  tp_session_options options = {.on_event = keep_event, .event_ctx = &log};
  world w = open_world_with(replies, 2, &options, &t.hook, 1);
  expect(&w, "go", TP_TURN_COMPLETED);
  assert_int_equal(log.bad, 0);
  assert_string_equal(log.text,
                      "turn_begin phase_begin run phase_end model_begin model_end tool_begin tool_end model_begin "
                      "model_delta model_end turn_end ");
  assert_string_equal(log.delta, "h");
  world_close(&w.stage);
}

/* ---- the queue ---- */

typedef struct order {
  pthread_mutex_t mutex;
  char text[256];
  latch ended;
} order;

static void note_order(void *ctx, const tp_turn_result *result) {
  order *o = ctx;
  pthread_mutex_lock(&o->mutex);
  size_t used = strlen(o->text);
  snprintf(o->text + used, sizeof o->text - used, "%.*s:%s ", (int)result->turn_id.size, result->turn_id.data,
           tp_turn_outcome_name(result->outcome));
  pthread_mutex_unlock(&o->mutex);
  latch_hit(&o->ended);
}

static tp_submission *submit(world *w, const char *id, order *o) {
  tp_turn_request request = request_of("hello");
  tp_submission *submission = NULL;
  request.id = id;
  assert_int_equal(tp_turn_submit(w->session, &request, note_order, o, &submission, NULL), TP_OK);
  return submission;
}

TEST(turns_of_a_session_run_one_at_a_time_in_order) {
  static const reply replies[] = {{.text = "hi"}};
  latch entered = LATCH, leave = LATCH;
  act intake = {.entered = &entered, .waits_for = &leave};
  hook h = {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &intake, .slow = true, .sub = {.limit_ms = 60000}};
  world w = open_world_with(replies, 1, NULL, &h, 1);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  static const char *const ids[] = {"a", "b", "c", "d", "e"};
  for (int i = 0; i < 5; i++) tp_submission_unref(submit(&w, ids[i], &o));
  latch_wait(&entered, 1);
  assert_int_equal(intake.calls, 1);
  latch_hit(&leave);
  expect(&w, "mixed in", TP_TURN_COMPLETED); /* a synchronous one waits its turn */
  latch_wait(&o.ended, 5);
  assert_string_equal(o.text, "a:completed b:completed c:completed d:completed e:completed ");
  assert_int_equal(w.model->asked, 6);
  assert_non_null(strstr(w.model->requests[5], "U<mixed in>"));
  world_close(&w.stage);
}

TEST(queue_has_a_bound) {
  static const reply replies[] = {{.text = "hi"}};
  latch entered = LATCH, leave = LATCH;
  act intake = {.entered = &entered, .waits_for = &leave};
  hook h = {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &intake, .slow = true};
  tp_session_options options = {.turns_queued_max = 2};
  world w = open_world_with(replies, 1, &options, &h, 1);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  for (int i = 0; i < 3; i++) tp_submission_unref(submit(&w, NULL, &o));
  tp_turn_request request = request_of("one too many");
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_submit(w.session, &request, note_order, &o, NULL, NULL), TP_ERR_FULL);
  assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_ERR_FULL);
  latch_hit(&leave);
  latch_wait(&o.ended, 3);
  expect(&w, "now it fits", TP_TURN_COMPLETED);
  assert_int_equal(latch_count(&o.ended), 3);
  world_close(&w.stage);
}

TEST(running_and_queued_turns_can_be_cancelled) {
  static const reply replies[] = {{.never = true}, {.text = "hi"}};
  ends e = {0};
  hook hooks[] = {{.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = note_post_turn, .ctx = &e},
                  {.id = "error", .phase = TP_PHASE_RUNTIME_ERROR, .run = note_error, .ctx = &e}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  tp_submission *running = submit(&w, "running", &o), *queued = submit(&w, "queued", &o);
  tp_submission *after = submit(&w, "after", &o);
  latch_wait(&w.model->started, 1);
  tp_submission_cancel(queued);
  latch_wait(&o.ended, 1); /* at once: the running one still runs */
  assert_string_equal(o.text, "queued:cancelled ");
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(queued, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->started_ns, 0);
  assert_text(result->reason, "the turn was cancelled before it began");
  tp_submission_cancel(running);
  tp_submission_cancel(running);
  latch_wait(&o.ended, 3);
  assert_string_equal(o.text, "queued:cancelled running:cancelled after:completed ");
  assert_int_equal(w.model->asked, 2); /* the queued one never got so far */
  assert_int_equal(w.model->cancels, 1);
  assert_int_equal(e.post_turns, 2); /* the queued one fired nothing */
  assert_int_equal(e.errors, 0);     /* cancelled is no error */
  tp_submission_cancel(after);       /* harmless on a turn that has ended */
  tp_submission_unref(running);
  tp_submission_unref(queued);
  tp_submission_unref(after);
  assert_string_equal(w.model->requests[1], /* the queued one's message is in no history */
                      "S<>U<hello>U<[The turn was cancelled before it was complete.]>U<hello>");
  world_close(&w.stage);
}

/* ---- submissions ---- */

typedef struct slow_end {
  latch entered, leave;
  bool returned;
} slow_end;

static void end_slowly(void *ctx, const tp_turn_result *result) {
  slow_end *e = ctx;
  (void)result;
  latch_hit(&e->entered);
  latch_wait(&e->leave, 1);
  e->returned = true;
}

static void *leave_later(void *arg) {
  sleep_ms(20);
  latch_hit(arg);
  return NULL;
}

TEST(wait_for_a_submission_comes_behind_its_callback) {
  static const reply replies[] = {{.text = "hi"}};
  world w = open_world_with(replies, 1, NULL, NULL, 0);
  slow_end e = {.entered = LATCH, .leave = LATCH};
  tp_submission *submission;
  tp_turn_request request = request_of("hello");
  assert_int_equal(tp_turn_submit(w.session, &request, end_slowly, &e, &submission, NULL), TP_OK);
  latch_wait(&e.entered, 1);
  const tp_turn_result *result = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_submission_wait(submission, 0, &result, NULL), TP_ERR_TIMEOUT);
  assert_int_equal(tp_submission_wait(submission, 1, &result, &fault), TP_ERR_TIMEOUT);
  assert_non_null(strstr(fault.message, "1 ms"));
  assert_null(result);
  pthread_t leaver;
  assert_int_equal(pthread_create(&leaver, NULL, leave_later, &e.leave), 0);
  assert_int_equal(tp_submission_wait(submission, 60000, &result, NULL), TP_OK);
  assert_true(e.returned);
  assert_int_equal(result->struct_size, sizeof *result);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  assert_text(result->text, "hi");
  pthread_join(leaver, NULL);
  tp_submission_unref(submission);
  world_close(&w.stage);
}

TEST(submission_without_a_callback_outlives_its_runtime) {
  static const reply replies[] = {{.text = "hi"}, {.never = true}};
  world w = open_world_with(replies, 2, NULL, NULL, 0);
  tp_submission *ended, *open;
  tp_turn_request request = request_of("hello");
  request.id = "t1";
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &ended, NULL), TP_OK);
  request.id = "t2";
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &open, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(ended, 60000, NULL, NULL), TP_OK);
  latch_wait(&w.model->started, 2);
  w.is_outlived = true;
  world_close(&w.stage);
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(ended, 0, &result, NULL), TP_OK);
  assert_text(result->turn_id, "t1");
  assert_text(result->text, "hi");
  assert_int_equal(tp_submission_wait(open, 0, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_CANCELLED);
  tp_submission_cancel(open); /* harmless */
  tp_submission_unref(ended);
  tp_submission_unref(open);
  tp_submission_cancel(NULL);
  tp_submission_unref(NULL);
}

typedef struct own_end {
  tp_submission *submission;
  latch ready, ended;
  tp_status waited, looked;
} own_end;

static void wait_and_unref(void *ctx, const tp_turn_result *result) {
  own_end *e = ctx;
  (void)result;
  latch_wait(&e->ready, 1);
  e->waited = tp_submission_wait(e->submission, 1000, NULL, NULL);
  e->looked = tp_submission_wait(e->submission, 0, NULL, NULL);
  tp_submission_unref(e->submission);
  latch_hit(&e->ended);
}

TEST(callback_cannot_wait_for_its_own_submission_but_unref_it) {
  static const reply replies[] = {{.text = "hi"}};
  world w = open_world_with(replies, 1, NULL, NULL, 0);
  own_end e = {.ready = LATCH, .ended = LATCH};
  tp_turn_request request = request_of("hello");
  assert_int_equal(tp_turn_submit(w.session, &request, wait_and_unref, &e, &e.submission, NULL), TP_OK);
  latch_hit(&e.ready);
  latch_wait(&e.ended, 1);
  assert_int_equal(e.waited, TP_ERR_USAGE);
  assert_int_equal(e.looked, TP_ERR_TIMEOUT);
  world_close(&w.stage);
}

TEST(result_that_is_not_wanted_is_not_made) {
  static const reply replies[] = {{.text = "hi"}};
  world w = open_world_with(replies, 1, NULL, NULL, 0);
  tp_turn_request request = request_of("hello");
  assert_int_equal(tp_turn_run(w.session, &request, NULL, NULL), TP_OK);
  tp_turn_result_free(NULL);
  world_close(&w.stage);
}

TEST(cancel_in_the_middle_of_tools_leaves_the_calls_with_results_in_the_history) {
  static const reply replies[] = {{.calls = {CALL("a", "t")}, .call_count = 1}, {.text = "hi"}};
  tool_world t = {.text = "x"};
  make_tool(&t, "t");
  latch entered = LATCH, leave = LATCH;
  act gate = {.entered = &entered, .waits_for = &leave};
  hook hooks[] = {t.hook,
                  {.id = "gate", .phase = TP_PHASE_TOOL_PRE, .ctx = &gate, .slow = true, .sub = {.limit_ms = 60000}}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  tp_submission *turn = submit(&w, "t1", &o);
  latch_wait(&entered, 1);
  tp_submission_cancel(turn);
  latch_wait(&o.ended, 1);
  tp_submission_unref(turn);
  assert_string_equal(o.text, "t1:cancelled ");
  assert_int_equal(t.runs, 0);
  latch_hit(&leave);
  expect(&w, "next", TP_TURN_COMPLETED);
  assert_string_equal(w.model->requests[1],
                      "S<>U<hello>A<>C<t>T!<the call was cancelled>=<a>U<[The turn was cancelled before it was "
                      "complete. What its calls did is done: do not repeat it unless the user asks for it.]>U<next>");
  world_close(&w.stage);
}

/* ---- the life of a session ---- */

typedef struct life {
  _Atomic int ends_;
  char reason[32], outcome[32], files[32], abilities[32], tasks[32];
  int64_t code, closed;
} life;

static void note_text(char *to, tp_call *call, uint32_t field) {
  tp_text text = tp_call_text(call, field);
  snprintf(to, 32, "%.*s", (int)text.size, text.size ? text.data : "");
}

static tp_answer note_session_end(void *ctx, tp_call *call) {
  life *l = ctx;
  l->ends_++;
  note_text(l->reason, call, TP_FIELD_REASON);
  note_text(l->outcome, call, TP_FIELD_OUTCOME);
  note_text(l->files, call, TP_FIELD_CHANGED_FILES);
  note_text(l->abilities, call, TP_FIELD_ABILITIES_USED);
  note_text(l->tasks, call, TP_FIELD_TASKS_SUMMARY);
  l->code = tp_call_int(call, TP_FIELD_CODE);
  l->closed = tp_call_int(call, TP_FIELD_CLOSED);
  return TP_ANSWER_DONE;
}

static void hit(void *ctx) { latch_hit(ctx); }

TEST(clients_that_left_free_capacity_in_the_queue) {
  static const reply replies[] = {{.never = true}, {.text = "hi"}};
  enum { CLIENTS = 64 };
  world w = open_world_with(replies, 2, NULL, NULL, 0);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  tp_submission *running = submit(&w, "r", &o), *left[CLIENTS];
  latch_wait(&w.model->started, 1);
  tp_turn_request request = request_of("hello");
  for (int i = 0; i < CLIENTS; i++)
    assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &left[i], NULL), TP_OK);
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, NULL, NULL), TP_ERR_FULL);
  for (int i = 0; i < CLIENTS; i++) tp_submission_cancel(left[i]);
  for (int i = 0; i < CLIENTS; i++) {
    assert_int_equal(tp_submission_wait(left[i], 60000, NULL, NULL), TP_OK);
    tp_submission_unref(left[i]);
  }
  tp_submission *next = submit(&w, "n", &o);
  tp_submission_cancel(running);
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(next, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_submission_unref(running);
  tp_submission_unref(next);
  world_close(&w.stage);
}

static void *run_with_a_short_limit(void *session) {
  tp_turn_request request = request_of("waits");
  request.limit_ms = 20;
  const tp_turn_result *result;
  if (tp_turn_run(session, &request, &result, NULL) != TP_OK) return NULL;
  bool as_wanted = result->outcome == TP_TURN_TIMED_OUT && result->started_ns == 0;
  tp_turn_result_free(result);
  return as_wanted ? session : NULL;
}

TEST(limit_of_a_turn_counts_in_the_queue) {
  static const reply replies[] = {{.never = true}};
  latch closed = LATCH;
  world w = open_world_with(replies, 1, NULL, NULL, 0);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  tp_submission *running = submit(&w, "r", &o), *queued;
  latch_wait(&w.model->started, 1);
  tp_turn_request request = request_of("waits");
  request.id = "q";
  request.limit_ms = 20;
  assert_int_equal(tp_turn_submit(w.session, &request, note_order, &o, &queued, NULL), TP_OK);
  latch_wait(&o.ended, 1);
  assert_string_equal(o.text, "q:timed_out ");
  pthread_t runner;
  void *as_wanted;
  assert_int_equal(pthread_create(&runner, NULL, run_with_a_short_limit, w.session), 0);
  pthread_join(runner, &as_wanted);
  assert_non_null(as_wanted);
  tp_submission_unref(queued);
  tp_submission_cancel(running);
  tp_submission_unref(running);
  tp_session_close(w.session, hit, &closed);
  latch_wait(&closed, 1);
  assert_string_equal(o.text, "q:timed_out r:cancelled ");
  close_runtime(w.runtime);
  recorder_free(w.model);
}

/* ---- one session of a tenant and id ---- */

TEST(turn_that_never_began_fires_neither_post_turn_nor_runtime_error) {
  static const reply replies[] = {{.never = true}};
  act intake = {0}, post = {0}, error = {0};
  hook hooks[] = {{.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &intake},
                  {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .ctx = &post},
                  {.id = "error", .phase = TP_PHASE_RUNTIME_ERROR, .ctx = &error}};
  world w = open_world_with(replies, 1, NULL, hooks, COUNT(hooks));
  tp_submission *turns[3];
  tp_turn_request request = request_of("hello");
  for (int i = 0; i < 3; i++) {
    request.limit_ms = i == 2 ? 20 : 0;
    assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &turns[i], NULL), TP_OK);
  }
  latch_wait(&w.model->started, 1);
  const tp_turn_result *result = NULL;
  tp_submission_cancel(turns[1]);
  static const tp_turn_outcome wanted[] = {TP_TURN_NONE, TP_TURN_CANCELLED, TP_TURN_TIMED_OUT};
  for (int i = 1; i < 3; i++) {
    assert_int_equal(tp_submission_wait(turns[i], 20000, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, wanted[i]);
    assert_int_equal(result->started_ns, 0);
  }
  assert_int_equal(intake.calls, 1); /* the running one's */
  assert_int_equal(post.calls + error.calls, 0);
  tp_submission_cancel(turns[0]);
  assert_int_equal(tp_submission_wait(turns[0], 20000, &result, NULL), TP_OK);
  assert_int_equal(post.calls, 1); /* of one that began, for every outcome */
  for (int i = 0; i < 3; i++) tp_submission_unref(turns[i]);
  world_close(&w.stage);
}

TEST(session_is_open_once) {
  static const reply replies[] = {{.text = "hi"}};
  world w = open_world_with(replies, 1, NULL, NULL, 0);
  tp_session *second, *other;
  tp_session_options options = {.struct_size = sizeof options, .id = "s1"};
  tp_fault fault = {0};
  assert_int_equal(tp_session_open(w.runtime, &options, &second, &fault), TP_ERR_BUSY);
  assert_string_equal(fault.subject, "s1");
  assert_non_null(strstr(fault.message, "on_end"));
  options.tenant = "another";
  assert_int_equal(tp_session_open(w.runtime, &options, &other, NULL), TP_OK);
  expect(&w, "hello", TP_TURN_COMPLETED);
  latch closed = LATCH;
  tp_session_close(w.session, hit, &closed);
  latch_wait(&closed, 1);
  options.tenant = "";
  assert_int_equal(tp_session_open(w.runtime, &options, &second, NULL), TP_OK);
  tp_session_close(second, NULL, NULL);
  tp_session_close(other, NULL, NULL);
  close_runtime(w.runtime);
  recorder_free(w.model);
}

/* ---- histories of several tenants ---- */

typedef struct slow_store {
  latch entered, leave;
} slow_store;

static tp_status load_nothing(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static tp_status append_when_let(void *ctx, const tp_history_append *request, tp_fault *fault) {
  slow_store *store = ctx;
  (void)fault;
  if (!tp_text_is(request->tenant, "slow")) return TP_OK;
  latch_hit(&store->entered);
  latch_wait(&store->leave, 1);
  return TP_OK;
}

static tp_status append_at_once(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

TEST(history_that_is_slow_leaves_threads_to_other_tenants) {
  enum { SESSIONS = 8 };
  slow_store store = {.entered = LATCH, .leave = LATCH};
  tp_runtime_options options = {.struct_size = sizeof options, .handler_threads = SESSIONS};
  tp_runtime *runtime = open_runtime(&options);
  act intake = {0};
  add_hooks(runtime, &(hook){.id = "i", .phase = TP_PHASE_TURN_INTAKE, .ctx = &intake, .slow = true}, 1);
  tp_session *sessions[SESSIONS + 1];
  tp_submission *turns[SESSIONS + 1];
  for (int i = 0; i <= SESSIONS; i++) {
    char id[8];
    snprintf(id, sizeof id, "s%d", i);
    tp_session_options session = {.struct_size = sizeof session, .id = id, .tenant = i < SESSIONS ? "slow" : "other"};
    tp_history history = {.struct_size = sizeof history,
                          .ctx = &store,
                          .load = load_nothing,
                          .append = i < SESSIONS ? append_when_let : append_at_once};
    session.history = &history;
    assert_int_equal(tp_session_open(runtime, &session, &sessions[i], NULL), TP_OK);
  }
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello"), .limit_ms = 30000};
  for (int i = 0; i < SESSIONS; i++)
    assert_int_equal(tp_turn_submit(sessions[i], &request, NULL, NULL, &turns[i], NULL), TP_OK);
  latch_wait(&store.entered, 1);
  /* Without the cap each slow turn would hold a thread by now. With it, turns whose load comes after an append wait. */
  for (int i = 0; i < 100 && intake.calls < SESSIONS; i++) sleep_ms(1);
  assert_int_equal(tp_turn_submit(sessions[SESSIONS], &request, NULL, NULL, &turns[SESSIONS], NULL), TP_OK);
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(turns[SESSIONS], 60000, &result, NULL), TP_OK);
  assert_int_equal(result->code, TP_ERR_MODEL); /* it has no model; so far it came in time */
  assert_int_equal(tp_submission_wait(turns[0], 0, NULL, NULL), TP_ERR_TIMEOUT);
  latch_hit(&store.leave);
  for (int i = 0; i <= SESSIONS; i++) {
    assert_int_equal(tp_submission_wait(turns[i], 60000, NULL, NULL), TP_OK);
    tp_submission_unref(turns[i]);
    tp_session_close(sessions[i], NULL, NULL);
  }
  close_runtime(runtime);
}

/* The search for the next session was quadratic: 6.8 s for 20,000 sessions with a limit of 5 s. */
TEST(drain_of_many_idle_sessions_keeps_its_limit) {
  enum { SESSIONS = 20000, LIMIT_MS = 5000 };
  tp_runtime *runtime = open_runtime(NULL);
  for (int i = 0; i < SESSIONS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    tp_session *session;
    tp_session_options options = {.struct_size = sizeof options, .id = id};
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  }
  int64_t began_ns = now_ns();
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(runtime, LIMIT_MS, &report, NULL), TP_OK);
  assert_in_range((now_ns() - began_ns) / 1000000, 0, LIMIT_MS);
  assert_true(report.complete);
  assert_int_equal(report.turns_cancelled, 0);
  close_runtime(runtime);
}

TEST(session_starts_once_with_its_first_turn_and_ends_once) {
  static const reply replies[] = {{.text = "hi"}};
  act start = {0};
  life l = {0};
  hook hooks[] = {{.id = "start", .phase = TP_PHASE_SESSION_START, .ctx = &start},
                  {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l, .slow = true}};
  world w = open_world_with(replies, 1, NULL, hooks, 2);
  assert_int_equal(start.calls, 0); /* opening never blocks */
  expect(&w, "one", TP_TURN_COMPLETED);
  expect(&w, "two", TP_TURN_COMPLETED);
  assert_int_equal(start.calls, 1);
  assert_int_equal(tp_session_end_phase(w.session, END("topic_change"), NULL), TP_OK);
  assert_int_equal(l.ends_, 1);
  assert_string_equal(l.reason, "topic_change");
  expect(&w, "three", TP_TURN_COMPLETED);
  assert_int_equal(start.calls, 1);
  latch closed = LATCH;
  tp_session_close(w.session, hit, &closed);
  latch_wait(&closed, 1);
  assert_int_equal(l.ends_, 2);
  assert_string_equal(l.reason, "closed");
  close_runtime(w.runtime);
  assert_int_equal(l.ends_, 2);
  recorder_free(w.model);
}

static size_t past_count;
static tp_status load_some(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx;
  (void)fault;
  const tp_message said = {.struct_size = sizeof said, .role = TP_ROLE_USER, .turn_id = TEXT("t"), .text = TEXT("q")};
  tp_status status = TP_OK;
  for (size_t i = 0; i < past_count && status == TP_OK; i++) status = request->each(request->ctx, &said);
  return status;
}

static tp_answer note_source(void *ctx, tp_call *call) {
  tp_text source = tp_call_text(call, TP_FIELD_SOURCE);
  snprintf(ctx, 16, "%.*s", (int)source.size, source.data);
  return TP_ANSWER_DONE;
}

TEST(start_of_a_session_says_whether_it_has_a_past) {
  static const reply replies[] = {{.text = "hi"}};
  static const tp_history history = {.struct_size = sizeof history, .load = load_some, .append = append_at_once};
  const tp_session_options options = {.struct_size = sizeof options, .history = &history};
  for (past_count = 0; past_count < 3; past_count++) {
    char source[16] = "";
    hook start = {.id = "start", .phase = TP_PHASE_SESSION_START, .run = note_source, .ctx = source};
    world w = open_world_with(replies, 1, &options, &start, 1);
    expect(&w, "one", TP_TURN_COMPLETED);
    assert_string_equal(source, past_count ? "resume" : "startup");
    world_close(&w.stage);
  }
}

/* A session with one turn in its intake, which waits until it is released, and one turn in its queue. */
typedef struct busy_session {
  latch entered, leave, closed;
  act intake;
  life life;
  order order;
  world w;
} busy_session;

static void keep_busy(busy_session *b) {
  static const reply replies[] = {{.text = "hi"}};
  *b = (busy_session){.entered = LATCH, .leave = LATCH, .closed = LATCH};
  b->order = (order){.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  b->intake = (act){.entered = &b->entered, .waits_for = &b->leave};
  hook hooks[] = {
      {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .ctx = &b->intake, .slow = true, .sub = {.limit_ms = 60000}},
      {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &b->life}};
  b->w = open_world_with(replies, 1, NULL, hooks, 2);
  tp_submission_unref(submit(&b->w, "a", &b->order));
  tp_submission_unref(submit(&b->w, "b", &b->order));
  latch_wait(&b->entered, 1);
}

/* Its host was notified after both turns, and session.end came once. */
static void let_finish(busy_session *b) {
  int closed_early = latch_count(&b->closed);
  latch_hit(&b->leave);
  latch_wait(&b->closed, 1);
  assert_int_equal(closed_early, 0);
  assert_string_equal(b->order.text, "a:completed b:completed ");
  assert_int_equal(b->life.ends_, 1);
}

TEST(closing_comes_after_the_queue_and_refuses_what_follows) {
  busy_session b;
  keep_busy(&b);
  tp_session_close(b.w.session, hit, &b.closed);
  tp_turn_request request = request_of("too late");
  assert_int_equal(tp_turn_submit(b.w.session, &request, note_order, &b.order, NULL, NULL), TP_ERR_SHUTDOWN);
  assert_int_equal(b.life.ends_, 0);
  let_finish(&b);
  close_runtime(b.w.runtime);
  recorder_free(b.w.model);
}

static void *drain_all(void *runtime) {
  tp_drain_report report = {.struct_size = sizeof report};
  bool complete = tp_runtime_drain(runtime, 60000, &report, NULL) == TP_OK && report.complete;
  return complete ? runtime : NULL;
}

TEST(host_that_closes_beside_a_drain_is_notified_behind_its_turns) {
  busy_session b;
  keep_busy(&b);
  pthread_t drainer;
  void *complete;
  assert_int_equal(pthread_create(&drainer, NULL, drain_all, b.w.runtime), 0);
  while (!tp__a32_load_acquire(&b.w.session->end_asked)) sleep_ms(1); /* the drain ends the session, */
  tp_session_close(b.w.session, hit, &b.closed);                      /* and its host closes it */
  tp_session *late;
  tp_session_options options = {.struct_size = sizeof options, .id = "late"};
  assert_int_equal(tp_session_open(b.w.runtime, &options, &late, NULL), TP_ERR_SHUTDOWN);
  let_finish(&b);
  pthread_join(drainer, &complete);
  assert_non_null(complete);
  close_runtime(b.w.runtime);
  recorder_free(b.w.model);
}

static void *run_stuck_turn(void *session) {
  tp_turn_request request = request_of("stuck");
  const tp_turn_result *result = NULL;
  if (tp_turn_run(session, &request, &result, NULL) != TP_OK) return NULL;
  bool cancelled = result->outcome == TP_TURN_CANCELLED;
  tp_turn_result_free(result);
  return cancelled ? session : NULL;
}

/* Its host's thread has the turn, and would for ten minutes. */
TEST(drain_without_engine_workers_keeps_its_limit) {
  static const reply replies[] = {{.never = true}};
  tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  world w = {.runtime = open_runtime(&options), .model = recorder_new(replies, 1)};
  life l = {0};
  hook end = {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l};
  add_hooks(w.runtime, &end, 1);
  tp_session_options session = {.struct_size = sizeof session, .id = "s1", .model = recorder_model(w.model, false)};
  assert_int_equal(tp_session_open(w.runtime, &session, &w.session, NULL), TP_OK);
  pthread_t host;
  void *cancelled;
  assert_int_equal(pthread_create(&host, NULL, run_stuck_turn, w.session), 0);
  latch_wait(&w.model->started, 1);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(w.runtime, 30, &report, NULL), TP_OK);
  pthread_join(host, &cancelled);
  assert_non_null(cancelled);
  assert_int_equal(report.turns_cancelled, 1);
  assert_int_equal(l.ends_, 1);
  close_runtime(w.runtime);
  recorder_free(w.model);
}

/* More than there is capacity for closing turns: the drain waits for places. */
TEST(drain_ends_every_session_of_thousands) {
  enum { SESSIONS = 1500 };
  tp_session *sessions[SESSIONS];
  tp_runtime_options options = {.struct_size = sizeof options, .turns_max = 4};
  tp_runtime *runtime = open_runtime(&options);
  latch leave = LATCH;
  act end = {.waits_for = &leave};
  hook held = {.id = "end", .phase = TP_PHASE_SESSION_END, .ctx = &end, .slow = true, .sub = {.limit_ms = 60000}};
  add_hooks(runtime, &held, 1);
  for (int i = 0; i < SESSIONS; i++) {
    char id[16];
    snprintf(id, sizeof id, "s%d", i);
    tp_session_options of = {.struct_size = sizeof of, .id = id};
    assert_int_equal(tp_session_open(runtime, &of, &sessions[i], NULL), TP_OK);
  }
  pthread_t drainer;
  void *complete;
  assert_int_equal(pthread_create(&drainer, NULL, drain_all, runtime), 0);
  while (tp__runtime_listed_count(runtime, TP__TURN_CLOSING) < tp__detached_max(runtime)) sleep_ms(1);
  latch_hit(&leave);
  pthread_join(drainer, &complete);
  assert_non_null(complete);
  for (int i = 0; i < SESSIONS; i++) tp_session_close(sessions[i], NULL, NULL);
  close_runtime(runtime);
  assert_int_equal(end.calls, SESSIONS);
}

TEST(drain_closes_what_is_open) {
  static const reply replies[] = {{.text = "hi"}, {.never = true}};
  life l = {0};
  ends e = {0};
  hook hooks[] = {{.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l},
                  {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = note_post_turn, .ctx = &e}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  expect(&w, "one", TP_TURN_COMPLETED);
  order o = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = LATCH};
  tp_submission_unref(submit(&w, "stuck", &o));
  tp_submission_unref(submit(&w, "queued", &o));
  latch_wait(&w.model->started, 2);
  tp_drain_report report = {.struct_size = sizeof report};
  assert_int_equal(tp_runtime_drain(w.runtime, 30, &report, NULL), TP_OK);
  assert_true(report.complete);
  assert_int_equal(report.turns_cancelled, 2);
  assert_non_null(strstr(o.text, "stuck:cancelled "));
  assert_non_null(strstr(o.text, "queued:cancelled "));
  assert_int_equal(l.ends_, 1);
  assert_in_range(e.post_turns, 2, 3); /* the queued one may have begun before it was cancelled */
  close_runtime(w.runtime);
  assert_int_equal(w.model->destroys, 1);
  recorder_free(w.model);
}

#define FILES \
  "\x92\xa1"  \
  "a"         \
  "\xa1"      \
  "b"                    /* [a, b] */
#define TASKS "\x91\x80" /* [{}] */

TEST(end_of_a_session_reports_reason_lists_and_the_last_outcome) {
  static const reply replies[] = {{.text = "hi"}, {.fails = TP_ERR_MODEL}};
  life l = {0};
  hook h = {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l, .slow = true};
  world w = open_world_with(replies, 2, NULL, &h, 1);
  assert_int_equal(tp_session_end_phase(w.session, NULL, NULL), TP_OK);
  assert_string_equal(l.reason, "phase");
  assert_string_equal(l.outcome, ""); /* no turn yet */
  assert_string_equal(l.files, "");
  expect(&w, "one", TP_TURN_COMPLETED);
  char files[] = FILES, reason[] = "moved on";
  tp_session_end end = {.struct_size = sizeof end, .reason = reason, .changed_files = TEXT(files)};
  latch notified = LATCH;
  assert_int_equal(tp_session_end_phase_submit(w.session, &end, hit, &notified, NULL), TP_OK);
  memset(files, 'x', sizeof files); /* it was copied */
  memset(reason, 'x', sizeof reason - 1);
  latch_wait(&notified, 1);
  assert_int_equal(l.ends_, 2);
  assert_string_equal(l.reason, "moved on");
  assert_string_equal(l.files, FILES);
  assert_string_equal(l.abilities, "");
  assert_string_equal(l.outcome, "completed");
  assert_int_equal(l.code, TP_OK);
  assert_int_equal(l.closed, 0);
  expect(&w, "two", TP_TURN_FAILED);
  end = (tp_session_end){
      .struct_size = sizeof end, .reason = "done", .abilities_used = TEXT(FILES), .tasks_summary = TEXT(TASKS)};
  assert_int_equal(tp_session_close_with(w.session, &end, hit, &notified, NULL), TP_OK);
  latch_wait(&notified, 2);
  assert_string_equal(l.reason, "done");
  assert_string_equal(l.abilities, FILES);
  assert_string_equal(l.tasks, TASKS);
  assert_string_equal(l.outcome, "failed");
  assert_int_equal(l.code, TP_ERR_MODEL);
  assert_int_equal(l.closed, 1);
  close_runtime(w.runtime);
  recorder_free(w.model);
}

TEST(end_of_a_session_lists_the_tools_that_its_turns_ran_since_the_last_one) {
  static const reply replies[] = {
      {.text = "", .calls = {CALL("a", "t"), CALL("b", "nobody"), CALL("", "t")}, .call_count = 3}, {.text = "done"}};
  life l = {0};
  tool_world t = {0};
  make_tool(&t, "t");
  hook hooks[] = {t.hook, {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l}};
  world w = open_world_with(replies, 2, NULL, hooks, 2);
  expect(&w, "one", TP_TURN_COMPLETED);
  assert_int_equal(t.runs, 2);
  assert_int_equal(tp_session_end_phase(w.session, NULL, NULL), TP_OK);
  assert_string_equal(l.abilities, "\x91\xa1t"); /* once, and not what no tool answered */
  assert_int_equal(tp_session_end_phase(w.session, NULL, NULL), TP_OK);
  assert_string_equal(l.abilities, "");
  world_close(&w.stage);
}

TEST(end_of_a_session_that_is_malformed_is_refused_and_nothing_is_closed) {
  static const reply replies[] = {{.text = "hi"}};
  life l = {0};
  hook h = {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l};
  world w = open_world_with(replies, 1, NULL, &h, 1);
  char big[(1 << 20) + 8];
  memset(big, 0xc0, sizeof big);
  memcpy(big, "\xdd\x00\x10\x00\x03", 5); /* an array of so many nils */
  const struct {
    tp_session_end end;
    tp_status status;
    const char *field;
  } wrong[] = {{{.struct_size = 3}, TP_ERR_VERSION, "struct_size"},
               {{.struct_size = sizeof(tp_session_end), .reason = "\xc3("}, TP_ERR_UTF8, "reason"},
               {{.struct_size = sizeof(tp_session_end), .changed_files = TEXT(TASKS)}, TP_ERR_MALFORMED, "changed"},
               {{.struct_size = sizeof(tp_session_end), .abilities_used = TEXT("\x80")}, TP_ERR_MALFORMED, "abilities"},
               {{.struct_size = sizeof(tp_session_end), .tasks_summary = TEXT(FILES)}, TP_ERR_MALFORMED, "tasks"},
               {{.struct_size = sizeof(tp_session_end), .changed_files = TEXT("\x92")}, TP_ERR_MALFORMED, ""},
               {{.struct_size = sizeof(tp_session_end), .changed_files = {big, sizeof big}}, TP_ERR_TOO_LARGE, "ch"}};
  latch notified = LATCH;
  for (size_t i = 0; i < COUNT(wrong); i++) {
    tp_fault fault = {0};
    assert_int_equal(tp_session_close_with(w.session, &wrong[i].end, hit, &notified, &fault), wrong[i].status);
    assert_non_null(strstr(fault.message, wrong[i].field));
    assert_int_equal(tp_session_end_phase(w.session, &wrong[i].end, &fault), wrong[i].status);
    assert_int_equal(tp_session_end_phase_submit(w.session, &wrong[i].end, hit, &notified, &fault), wrong[i].status);
  }
  expect(&w, "one", TP_TURN_COMPLETED);
  assert_int_equal(l.ends_, 0);
  assert_int_equal(latch_count(&notified), 0);
  world_close(&w.stage);
  assert_string_equal(l.reason, "closed");
}

TEST(drain_says_that_it_ended_a_session) {
  static const reply replies[] = {{.text = "hi"}};
  life l = {0};
  hook h = {.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l};
  world w = open_world_with(replies, 1, NULL, &h, 1);
  expect(&w, "one", TP_TURN_COMPLETED);
  assert_int_equal(tp_runtime_drain(w.runtime, 10000, NULL, NULL), TP_OK);
  assert_string_equal(l.reason, "drained");
  assert_string_equal(l.outcome, "completed");
  world_close(&w.stage);
}

static tp_status compact_nothing(void *ctx, const tp_compaction_request *compaction, tp_fault *fault) {
  (void)ctx, (void)compaction, (void)fault;
  return TP_OK;
}

TEST(options_of_compaction_that_would_do_nothing_are_refused) {
  tp_runtime *runtime = open_runtime(NULL);
  const tp_session_options later[] = {
      {.struct_size = sizeof(tp_session_options), .id = "s", .history_tokens_max = 1},
      {.struct_size = sizeof(tp_session_options), .id = "s", .history_tokens_max = -1},
      {.struct_size = sizeof(tp_session_options), .id = "s", .compact_ctx = runtime},
      {.struct_size = sizeof(tp_session_options), .id = "s", .compaction = TP_COMPACTION_HOST},
      {.struct_size = sizeof(tp_session_options), .id = "s", .compact = compact_nothing},
      {.struct_size = sizeof(tp_session_options),
       .id = "s",
       .compact = compact_nothing,
       .compaction = TP_COMPACTION_SUMMARIZE},
      {.struct_size = sizeof(tp_session_options),
       .id = "s",
       .compact = compact_nothing,
       .compaction = TP_COMPACTION_DROP_OLDEST},
      {.struct_size = sizeof(tp_session_options), .id = "s", .compaction = (tp_compaction)4},
      {.struct_size = sizeof(tp_session_options), .id = "s", .compaction = (tp_compaction)-1},
      {.struct_size = sizeof(tp_session_options),
       .id = "s",
       .compact_ctx = runtime,
       .compaction = TP_COMPACTION_DROP_OLDEST}};
  static const char *const why[] = {"without compaction",      "is negative",
                                    "without compact",         "needs compact",
                                    "TP_COMPACTION_HOST only", "TP_COMPACTION_HOST only",
                                    "TP_COMPACTION_HOST only", "is no tp_compaction",
                                    "is no tp_compaction",     "without compact"};
  for (size_t i = 0; i < COUNT(later); i++) {
    tp_session *session = NULL;
    tp_fault fault = {0};
    assert_int_equal(tp_session_open(runtime, &later[i], &session, &fault), TP_ERR_USAGE);
    if (!strstr(fault.message, why[i])) fail_msg("case %zu: `%s` is not in `%s`", i, why[i], fault.message);
  }
  close_runtime(runtime);
}

static int32_t matches_nothing(void *ctx, const tp_match_view *view) {
  (void)ctx;
  (void)view;
  return TP_MATCH_NO;
}

TEST(jobs_of_post_turn_and_session_end_are_scheduled) {
  static const reply replies[] = {{.text = "hi"}};
  static const tp_contribution job = {.struct_size = sizeof(tp_contribution),
                                      .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                                      .key = TEXT("once"),
                                      .domain = TEXT("worker"),
                                      .value = TEXT("\x81\xa1x\x01")};
  static const tp_contribution last = {.struct_size = sizeof(tp_contribution),
                                       .kind = TP_CONTRIBUTION_BACKGROUND_JOB,
                                       .key = TEXT("last"),
                                       .domain = TEXT("worker"),
                                       .value = TEXT("\x80")};
  act schedules = {.emits = &job, .emit_count = 1}, ends_ = {.emits = &last, .emit_count = 1}, worker = {0};
  hook hooks[] = {
      {.id = "schedules", .phase = TP_PHASE_TURN_POST_TURN, .ctx = &schedules},
      {.id = "ends", .phase = TP_PHASE_SESSION_END, .ctx = &ends_},
      {.id = "worker",
       .phase = TP_PHASE_TURN_POST_TURN,
       .ctx = &worker,
       .sub = {.match = &(const tp_match){
                   .struct_size = sizeof(tp_match), .matches = matches_nothing, .description = "never by itself"}}}};
  world w = open_world_with(replies, 1, NULL, hooks, 3);
  expect(&w, "one", TP_TURN_COMPLETED);
  expect(&w, "two", TP_TURN_COMPLETED); /* the same key: the same job */
  assert_int_equal(tp_jobs_wait(w.runtime, "s1", 10000, NULL), TP_OK);
  uint32_t after_turns = worker.calls;
  assert_int_equal(tp_session_end_phase(w.session, END("over"), NULL), TP_OK);
  assert_int_equal(tp_jobs_wait(w.runtime, "s1", 10000, NULL), TP_OK);
  uint32_t after_end = worker.calls;
  world_close(&w.stage);
  assert_int_equal(after_turns, 1);
  assert_int_equal(after_end, 2);
}

TEST(without_engine_workers_everything_runs_on_the_caller) {
  static const reply replies[] = {{.text = "hi"}};
  tp_runtime_options options = {.struct_size = sizeof options, .no_engine_workers = true};
  world w = {.runtime = open_runtime(&options), .model = recorder_new(replies, 1)};
  life l = {0};
  act slow = {0};
  hook hooks[] = {{.id = "end", .phase = TP_PHASE_SESSION_END, .run = note_session_end, .ctx = &l},
                  {.id = "slow", .phase = TP_PHASE_TURN_INTAKE, .ctx = &slow, .slow = true}};
  add_hooks(w.runtime, hooks, 2);
  tp_session_options session = {.struct_size = sizeof session, .id = "s1", .model = recorder_model(w.model, false)};
  assert_int_equal(tp_session_open(w.runtime, &session, &w.session, NULL), TP_OK);
  expect(&w, "one", TP_TURN_COMPLETED);
  tp_turn_request request = request_of("x");
  assert_int_equal(tp_turn_submit(w.session, &request, note_order, NULL, NULL, NULL), TP_ERR_USAGE);
  tp_session_close(w.session, NULL, NULL);
  assert_int_equal(l.ends_, 1);
  close_runtime(w.runtime);
  assert_int_equal(w.model->destroys, 1);
  recorder_free(w.model);
}

TEST(script_model_plays_its_list) {
  static const tp_model_response list[] = {{.struct_size = sizeof(tp_model_response), .text = TEXT("one")},
                                           {.struct_size = sizeof(tp_model_response), .text = TEXT("two")}};
  static const tp_model_response *const pointers[] = {&list[0], &list[1]};
  tp_model *model = NULL;
  for (int repeat = 0; repeat < 2; repeat++) {
    tp_runtime *runtime = open_runtime(NULL);
    tp_session_options options = {.struct_size = sizeof options, .id = "s1"};
    assert_int_equal(tp_script_model_new(pointers, 2, repeat, &model, NULL), TP_OK);
    options.model = model;
    world w = {.runtime = runtime};
    assert_int_equal(tp_session_open(runtime, &options, &w.session, NULL), TP_OK);
    static const char *const want[] = {"one", "two", "one"};
    for (int i = 0; i < 3; i++) {
      const tp_turn_result *result = say(&w, "x");
      assert_int_equal(result->outcome, i < 2 || repeat ? TP_TURN_COMPLETED : TP_TURN_FAILED);
      if (result->outcome == TP_TURN_COMPLETED) assert_text(result->text, want[i]);
      tp_turn_result_free(result);
    }
    tp_session_close(w.session, NULL, NULL);
    close_runtime(runtime);
  }
}

/* ---- what a provider gets beside the conversation ---- */

typedef struct seer {
  char ids[TP_ID_COUNT][32];
  uint32_t id_count;
  int64_t time_left_ms;
} seer;

static void see_request(void *ctx, const tp_model_request *request, tp_token token) {
  seer *s = ctx;
  s->id_count = request->id_count;
  for (uint32_t i = 0; i < request->id_count && i < TP_ID_COUNT; i++)
    snprintf(s->ids[i], sizeof s->ids[i], "%.*s", (int)request->ids[i].size,
             request->ids[i].data ? request->ids[i].data : "");
  s->time_left_ms = request->time_left_ms;
  tp_model_response response = {.struct_size = sizeof response, .text = TEXT("seen")};
  (void)!tp_model_complete(token, &response, NULL);
}

TEST(a_provider_reads_the_ids_of_the_turn_and_the_time_that_is_left) {
  for (int placement = TP_PLACEMENT_THREAD; placement <= TP_PLACEMENT_INLINE; placement++) {
    tp_runtime *runtime = open_runtime(NULL);
    seer s;
    memset(&s, 0, sizeof s);
    tp_model model = {
        .struct_size = sizeof model, .ctx = &s, .start = see_request, .placement = (tp_placement)placement};
    tp_session_options options = {.struct_size = sizeof options,
                                  .id = "s1",
                                  .tenant = "acme",
                                  .workspace = "w1",
                                  .thread = "th1",
                                  .model = &model};
    world w = {.runtime = runtime};
    assert_int_equal(tp_session_open(runtime, &options, &w.session, NULL), TP_OK);
    tp_turn_request request = request_of("hello");
    request.id = "t1";
    request.task = "k1";
    request.limit_ms = 500000;
    const tp_turn_result *result = run_request(&w, &request);
    assert_int_equal(result->outcome, TP_TURN_COMPLETED);
    tp_turn_result_free(result);
    assert_int_equal(s.id_count, TP_ID_COUNT);
    static const char *const want[TP_ID_COUNT] = {"acme", "", "w1", "s1", "th1", "t1", "k1", "t1"};
    for (int i = 0; i < TP_ID_COUNT; i++) assert_string_equal(s.ids[i], want[i]);
    assert_true(s.time_left_ms > 0 && s.time_left_ms <= 500000);
    tp_session_close(w.session, NULL, NULL);
    close_runtime(runtime);
  }
}

/* ---- tokens that a provider never completes ---- */

static uint64_t open_tokens(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats.tokens_open;
}

static world open_world_of_tokens(const reply *replies, uint32_t tokens, bool is_inline, bool destroys) {
  world w = {
      .runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options), .deferred_max = tokens}),
      .model = recorder_new(replies, 1)};
  tp_session_options options = {.struct_size = sizeof options, .id = "s1", .model = recorder_model(w.model, is_inline)};
  if (!destroys) w.model->model.destroy = NULL;
  assert_int_equal(tp_session_open(w.runtime, &options, &w.session, NULL), TP_OK);
  return w;
}

/* A turn that is cancelled when its model has been asked. */
static void cancel_a_turn(world *w, int nth) {
  tp_turn_request request = request_of("hello");
  tp_submission *submission;
  const tp_turn_result *result;
  assert_int_equal(tp_turn_submit(w->session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&w->model->started, nth);
  tp_submission_cancel(submission);
  assert_int_equal(tp_submission_wait(submission, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_CANCELLED);
  tp_submission_unref(submission);
  assert_int_equal(w->model->cancels, nth);
}

TEST(a_turn_without_a_token_names_the_model_that_holds_them_and_the_host_abandons_them) {
  static const reply replies[] = {{.never = true}};
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    world w = open_world_of_tokens(replies, 2, is_inline, true);
    tp_token tokens[2];
    for (int i = 0; i < 2; i++) {
      cancel_a_turn(&w, i + 1);
      tokens[i] = w.model->token;
    }
    const tp_turn_result *result = say(&w, "hello");
    assert_int_equal(result->outcome, TP_TURN_FAILED);
    assert_int_equal(result->code, TP_ERR_FULL);
    assert_text(result->reason,
                "the model failed: 2 tokens are open, as tp_runtime_options.deferred_max says, most of them, 2, of "
                "model `recorder`: complete them or call tp_token_abandon()");
    tp_turn_result_free(result);
    for (int i = 0; i < 2; i++) assert_int_equal(tp_token_abandon(tokens[i], NULL), TP_OK);
    while (open_tokens(w.runtime) > 0) sched_yield(); /* until start has returned */
    assert_int_equal(tp_model_fail(tokens[0], TP_ERR_MODEL, NULL, false, NULL), TP_ERR_STALE);
    w.model->replies = (const reply[]){{.text = "fine"}};
    expect(&w, "again", TP_TURN_COMPLETED);
    world_close(&w.stage);
  }
}

TEST(the_token_of_a_model_without_destroy_ends_with_its_turn) {
  static const reply replies[] = {{.never = true}};
  for (int is_inline = 0; is_inline < 2; is_inline++) {
    world w = open_world_of_tokens(replies, 1, is_inline, false);
    for (int i = 1; i <= 3; i++) {
      cancel_a_turn(&w, i);
      while (open_tokens(w.runtime) > 0) sched_yield(); /* until start has returned */
      assert_int_equal(tp_token_abandon(w.model->token, NULL), TP_ERR_STALE);
    }
    tp_session_close(w.session, NULL, NULL);
    close_runtime(w.runtime);
    recorder_free(w.model);
  }
}

static void *abandon_when_asked(void *arg) {
  world *w = arg;
  latch_wait(&w->model->started, 1);
  assert_int_equal(tp_token_abandon(w->model->token, NULL), TP_OK);
  return NULL;
}

TEST(abandoning_the_token_of_a_model_fails_the_turn_at_once) {
  static const reply replies[] = {{.never = true}};
  world w = open_world(replies, 1);
  pthread_t thread;
  pthread_create(&thread, NULL, abandon_when_asked, &w);
  const tp_turn_result *result = say(&w, "hello");
  pthread_join(thread, NULL);
  assert_int_equal(result->outcome, TP_TURN_FAILED);
  assert_int_equal(result->code, TP_ERR_MODEL);
  assert_text(result->reason, "the model failed: the host abandoned its token");
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST(an_agent_of_another_runtime_opens_no_session) {
  tp_runtime *runtime = open_runtime(NULL), *other = open_runtime(NULL);
  tp_agent *agent;
  tp_session *session = NULL;
  tp_fault fault = {0};
  const tp_agent_config config = {.struct_size = sizeof config, .id = "a"};
  assert_int_equal(tp_agent_add(other, &config, &agent, NULL), TP_OK);
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .agent = agent};
  assert_int_equal(tp_session_open(runtime, &options, &session, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.message, "tp_session_options.agent is of another runtime");
  assert_null(session);
  assert_int_equal(tp_session_open(other, &options, &session, NULL), TP_OK);
  tp_session_close(session, NULL, NULL);
  tp_agent_remove(agent);
  close_runtime(other);
  close_runtime(runtime);
}
