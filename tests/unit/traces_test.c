/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans of turns (turnphase/traces.h), as a collector gets them: which spans there are, their parents, their content,
 * which headers traceparent count, and spans that the collector does not accept. */
#include "tests/support/endpoint.h"
#include "tests/support/world.h"
#include "turnphase/traces.h"

enum { WAIT_MS = 10000 };

typedef struct world {
  WORLD;
  endpoint *collector;
  tp_traces *traces;
  latch logged;
  char log[4][256];
} world;

static void note_line(void *ctx, const char *line) {
  world *w = ctx;
  int n = latch_count(&w->logged);
  if (n < 4) snprintf(w->log[n], sizeof w->log[n], "%s", line);
  latch_hit(&w->logged);
}

static const endpoint_reply taken[] = {{.type = "application/json", .body = "{\"partialSuccess\":{}}"}};
static const reply with_call[] = {{.text = "Wait.",
                                   .calls = {{.id = TEXT("c1"), .name = TEXT("look"), .arguments = TEXT("\x80")}},
                                   .call_count = 1,
                                   .input_tokens = 11,
                                   .output_tokens = 3},
                                  {.text = "It is the secret.", .input_tokens = 13, .output_tokens = 2}};

static tp_answer look(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("the secret"));
}

static const tp_tool look_tool = {.struct_size = sizeof look_tool, .name = "look", .description = "looks", .run = look};
static const tp_tool *const tools[] = {&look_tool};

static void open_traces(world *w, world_options options, tp_traces_options of) {
  tp_fault fault = {0};
  memset(w, 0, sizeof *w);
  w->logged = (latch)LATCH;
  w->collector = endpoint_open(taken, 1);
  options.tools = tools;
  options.tool_count = 1;
  world_open(&w->stage, &options);
  of.struct_size = sizeof of;
  of.log = note_line;
  of.log_ctx = w;
  if (!of.url) of.url = w->collector->url;
  if (!of.pause_ms) of.pause_ms = 1;
  if (tp_traces_open(w->runtime, &of, &w->traces, &fault) != TP_OK) fail_msg("%s", fault.message);
}

static tp_traces_stats end_traces(world *w, uint32_t limit_ms) {
  tp_traces_stats stats = {.struct_size = sizeof stats};
  tp_traces_close(w->traces, limit_ms, &stats);
  assert_int_equal(stats.waiting, 0);
  return stats;
}

static void close_world(world *w) {
  world_close(&w->stage);
  endpoint_close(w->collector);
}

static tp_status turn(world *w, const char *id) {
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of("tell the secret")};
  tp_fault fault = {0};
  if (tp_turn_run(w->session, &request, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_status status = result->code;
  tp_turn_result_free(result);
  return status;
}

/* The spans of all requests, after the traces were closed. */
static void read_all(world *w, char *to, size_t size) {
  size_t used = 0;
  for (int i = 0; i < endpoint_count(w->collector, &w->collector->request_count); i++)
    used += (size_t)snprintf(to + used, size - used, "%s", endpoint_body(w->collector, (size_t)i));
  assert_true(used < size);
}

/* The first span whose name begins so. */
static const char *span_of(const char *all, const char *name, char *to, size_t size) {
  char want[160];
  snprintf(want, sizeof want, "\"name\":\"%s", name);
  const char *at = strstr(all, want), *begin = at;
  if (!at) fail_msg("there is no span '%s' in: %s", name, all);
  while (begin > all && strncmp(begin, "{\"traceId\"", 10) != 0) begin--;
  const char *end = strstr(begin + 1, "{\"traceId\"");
  snprintf(to, size, "%.*s", end ? (int)(end - begin) : (int)strlen(begin), begin);
  return to;
}

static void field_of(const char *span, const char *key, char to[33]) {
  char want[40];
  snprintf(want, sizeof want, "\"%s\":\"", key);
  const char *at = strstr(span, want);
  to[0] = '\0';
  if (at) snprintf(to, 33, "%.*s", (int)strcspn(at + strlen(want), "\""), at + strlen(want));
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
}

static int count_of(const char *text, const char *part) {
  int count = 0;
  for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
  return count;
}

static char all[1 << 18], one[1 << 14], other[1 << 14];

/* ---- which spans there are ---- */

TEST(a_turn_has_its_requests_and_calls_and_nothing_that_was_said) {
  world w;
  char id[33], parent[33], trace[33], trace_of_root[33];
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){.service = "my \"s\""});
  assert_int_equal(turn(&w, "t1"), TP_OK);
  assert_int_equal(end_traces(&w, WAIT_MS).sent, 4);
  read_all(&w, all, sizeof all);
  assert_null(strstr(all, "secret"));
  assert_int_equal(count_of(all, "\"spanId\""), 4);
  expect_in(all, "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"my \\\"s\\\"\"}}");
  field_of(span_of(all, "invoke_agent", one, sizeof one), "spanId", id);
  field_of(one, "traceId", trace_of_root);
  assert_int_equal(strlen(id), 16);
  assert_int_equal(strlen(trace_of_root), 32);
  assert_null(strstr(one, "parentSpanId"));
  expect_in(one, "{\"key\":\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"24\"}}");
  expect_in(one, "{\"key\":\"gen_ai.usage.output_tokens\",\"value\":{\"intValue\":\"5\"}}");
  expect_in(one, "{\"key\":\"turnphase.turn\",\"value\":{\"stringValue\":\"t1\"}}");
  assert_int_equal(count_of(one, "\"status\""), 0);
  const char *const names[] = {"execute_tool look", "chat"};
  for (size_t i = 0; i < 2; i++) {
    field_of(span_of(all, names[i], other, sizeof other), "parentSpanId", parent);
    field_of(other, "traceId", trace);
    assert_string_equal(parent, id);
    assert_string_equal(trace, trace_of_root);
    expect_in(other, i == 0 ? "\"kind\":1" : "\"kind\":3");
  }
  expect_in(span_of(all, "execute_tool look", other, sizeof other),
            "\"gen_ai.tool.call.id\",\"value\":{\"stringValue\":\"c1\"");
  close_world(&w);
}

TEST(times_are_of_the_wall_clock_and_parts_lie_within_their_turn) {
  world w;
  char text[33];
  int64_t began[3], ended[3], before_ms = (int64_t)time(NULL) * 1000 - 1000;
  const char *const names[] = {"invoke_agent", "chat", "execute_tool look"};
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
  assert_int_equal(turn(&w, "t1"), TP_OK);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  for (size_t i = 0; i < 3; i++) {
    field_of(span_of(all, names[i], one, sizeof one), "startTimeUnixNano", text);
    began[i] = strtoll(text, NULL, 10);
    field_of(one, "endTimeUnixNano", text);
    ended[i] = strtoll(text, NULL, 10);
    assert_true(began[i] <= ended[i] && began[0] <= began[i] && ended[i] <= ended[0]);
  }
  assert_true(began[0] / 1000000 >= before_ms && ended[0] / 1000000 <= ((int64_t)time(NULL) + 1) * 1000);
  close_world(&w);
}

static act denies = {.kind = TP_ANSWER_DENY, .reason = "because of a secret"}, done;

TEST(a_turn_that_fails_has_its_phases_and_handlers) {
  world w;
  char phase[33], parent[33];
  const hook hooks[] = {{.id = "gate", .phase = TP_PHASE_TURN_INTAKE, .ctx = &denies}};
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2, .hooks = hooks, .hook_count = 1},
              (tp_traces_options){0});
  assert_int_equal(turn(&w, "t1"), TP_ERR_DENIED);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  assert_null(strstr(all, "secret"));
  expect_in(span_of(all, "invoke_agent", one, sizeof one), "\"status\":{\"code\":2}");
  expect_in(one, "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"");
  field_of(span_of(all, "turnphase.phase turn.intake", one, sizeof one), "spanId", phase);
  expect_in(one, "{\"key\":\"turnphase.subscription\",\"value\":{\"stringValue\":\"gate\"}}");
  expect_in(one, "\"status\":{\"code\":2}");
  field_of(span_of(all, "turnphase.handler gate", one, sizeof one), "parentSpanId", parent);
  assert_string_equal(parent, phase);
  close_world(&w);
}

TEST(phases_of_each_turn_come_where_every_turn_is_slow) {
  world w;
  const hook hooks[] = {{.id = "sees", .phase = TP_PHASE_TURN_INTAKE, .ctx = &done}};
  for (int32_t slow_ms = -1; slow_ms <= 0; slow_ms++) {
    open_traces(&w, (world_options){.replies = with_call, .reply_count = 2, .hooks = hooks, .hook_count = 1},
                (tp_traces_options){.slow_ms = slow_ms});
    assert_int_equal(turn(&w, "t1"), TP_OK);
    end_traces(&w, WAIT_MS);
    read_all(&w, all, sizeof all);
    assert_int_equal(count_of(all, "\"name\":\"turnphase.handler sees\""), slow_ms < 0);
    assert_int_equal(count_of(all, "\"name\":\"turnphase.phase turn.intake\""), slow_ms < 0);
    close_world(&w);
  }
}

TEST(a_call_that_fails_is_an_error_and_a_cancelled_turn_is_none) {
  static const reply unknown[] = {
      {.text = "", .calls = {{.id = TEXT("c1"), .name = TEXT("nope"), .arguments = TEXT("\x80")}}, .call_count = 1},
      {.text = "Done."}};
  static const reply never[] = {{.never = true}};
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  tp_submission *submission = NULL;
  world w;
  open_traces(&w, (world_options){.replies = unknown, .reply_count = 2}, (tp_traces_options){0});
  assert_int_equal(turn(&w, "t1"), TP_OK);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  expect_in(span_of(all, "execute_tool nope", one, sizeof one), "\"status\":{\"code\":2}");
  expect_in(one, "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"unknown_tool\"}}");
  assert_null(strstr(span_of(all, "invoke_agent", one, sizeof one), "\"status\""));
  close_world(&w);
  open_traces(&w, (world_options){.replies = never, .reply_count = 1}, (tp_traces_options){0});
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&w.model->started, 1);
  tp_submission_cancel(submission);
  (void)!tp_token_abandon(w.model->token, NULL);
  assert_int_equal(tp_submission_wait(submission, WAIT_MS, NULL, NULL), TP_OK);
  tp_submission_unref(submission);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  assert_null(strstr(span_of(all, "invoke_agent", one, sizeof one), "\"status\":{"));
  expect_in(one, "\"turnphase.status\",\"value\":{\"stringValue\":\"TP_ERR_CANCELLED\"}");
  close_world(&w);
}

TEST(turns_that_end_within_the_pause_are_one_request) {
  world w;
  open_traces(&w, (world_options){.replies = with_call + 1, .reply_count = 1}, (tp_traces_options){.pause_ms = 60000});
  for (int i = 0; i < 3; i++) assert_int_equal(turn(&w, NULL), TP_OK);
  assert_int_equal(end_traces(&w, WAIT_MS).sent, 6);
  assert_int_equal(endpoint_count(w.collector, &w.collector->request_count), 1);
  close_world(&w);
}

/* ---- nested turns ---- */

typedef struct nesting {
  world *w;
  tp_session *session;
  char during[56]; /* tp_traces_parent() of the outer turn while its call runs */
} nesting;

static tp_answer run_nested(void *ctx, tp_tool_run *run) {
  nesting *n = ctx;
  const tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = TEXT("s"), [TP_ID_TURN] = TEXT("outer")};
  const tp_turn_request request = {.struct_size = sizeof request, .id = "inner", .text = TEXT("go")};
  (void)tp_traces_parent(n->w->traces, ids, TP_ID_COUNT, n->during);
  tp_status status = tp_tool_run_turn(run, n->session, &request, NULL, NULL);
  assert_int_equal(status, TP_OK);
  return tp_tool_ok(run, tp_text_of("ok"));
}

TEST(a_nested_turn_is_a_child_of_the_call_that_runs_it) {
  static const reply asks[] = {
      {.text = "", .calls = {{.id = TEXT("c1"), .name = TEXT("nest"), .arguments = TEXT("\x80")}}, .call_count = 1},
      {.text = "Done."}};
  static const reply says[] = {{.text = "Inner."}};
  world w;
  char call[33], parent[33], trace[33], trace_of_root[33], root[33];
  recorder *inner = recorder_new(says, 1);
  nesting n = {.w = &w};
  open_traces(&w, (world_options){.replies = asks, .reply_count = 2}, (tp_traces_options){0});
  const tp_tool nest = {.struct_size = sizeof nest,
                        .name = "nest",
                        .description = "nests",
                        .run = run_nested,
                        .ctx = &n,
                        .placement = TP_PLACEMENT_THREAD};
  const tp_session_options of_inner = {
      .struct_size = sizeof of_inner, .id = "s2", .model = recorder_model(inner, true)};
  assert_int_equal(tp_tool_add(w.runtime, &nest, NULL), TP_OK);
  assert_int_equal(tp_session_open(w.runtime, &of_inner, &n.session, NULL), TP_OK);
  assert_int_equal(turn(&w, "outer"), TP_OK);
  tp_session_close(n.session, NULL, NULL);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  field_of(span_of(all, "execute_tool nest", one, sizeof one), "spanId", call);
  field_of(one, "traceId", trace_of_root);
  field_of(one, "parentSpanId", root);
  const char *at = strstr(all, "\"stringValue\":\"inner\"");
  assert_non_null(at);
  while (strncmp(at, "{\"traceId\"", 10) != 0) at--;
  field_of(at, "parentSpanId", parent);
  field_of(at, "traceId", trace);
  assert_string_equal(parent, call);
  assert_string_equal(trace, trace_of_root);
  snprintf(one, sizeof one, "00-%s-%s-01", trace_of_root, root); /* no request is open while the call runs */
  assert_string_equal(n.during, one);
  close_world(&w);
  recorder_free(inner);
}

/* ---- traceparent ---- */

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

typedef enum expectation { GOES_ON, NOT_TRACED, BEGINS_ANEW } expectation;

static const struct header_row {
  const char *text;
  expectation expected;
} header_rows[] = {
    {"00-" TRACE "-" SPAN "-01", GOES_ON},
    {"00-" TRACE "-" SPAN "-03", GOES_ON},
    {"01-" TRACE "-" SPAN "-01", GOES_ON}, /* a later version */
    {"cc-" TRACE "-" SPAN "-01-what the future will be like", GOES_ON},
    {"00-" TRACE "-" SPAN "-00", NOT_TRACED},
    {"00-" TRACE "-" SPAN "-02", NOT_TRACED},
    {"ff-" TRACE "-" SPAN "-01", BEGINS_ANEW},
    {"00-00000000000000000000000000000000-" SPAN "-01", BEGINS_ANEW},
    {"00-" TRACE "-0000000000000000-01", BEGINS_ANEW},
    {"00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", BEGINS_ANEW},
    {"00-" TRACE "-" SPAN "-01-more", BEGINS_ANEW}, /* this version has no more */
    {"cc-" TRACE "-" SPAN "-01.more", BEGINS_ANEW},
    {"00-" TRACE "-" SPAN "-1", BEGINS_ANEW},
    {"00-" TRACE "-" SPAN, BEGINS_ANEW},
    {"00_" TRACE "_" SPAN "_01", BEGINS_ANEW},
    {"00-" TRACE "-" SPAN "-0g", BEGINS_ANEW},
    {"g0-" TRACE "-" SPAN "-01", BEGINS_ANEW},
    {"", BEGINS_ANEW},
};

TEST(a_trace_goes_on_where_the_header_says_so) {
  for (size_t i = 0; i < sizeof header_rows / sizeof *header_rows; i++) {
    const struct header_row *row = &header_rows[i];
    world w;
    char trace[33], parent[33];
    const tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = TEXT("s"), [TP_ID_TURN] = TEXT("t1")};
    open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
    tp_traces_begin(w.traces, ids, TP_ID_COUNT, tp_text_of(row->text));
    assert_int_equal(turn(&w, "t1"), TP_OK);
    uint64_t sent = end_traces(&w, WAIT_MS).sent;
    if (sent != (row->expected == NOT_TRACED ? 0 : 4)) fail_msg("%s: %d spans", row->text, (int)sent);
    read_all(&w, all, sizeof all);
    if (sent > 0) {
      field_of(span_of(all, "invoke_agent", one, sizeof one), "traceId", trace);
      field_of(one, "parentSpanId", parent);
      bool goes_on = strcmp(trace, TRACE) == 0 && strcmp(parent, SPAN) == 0;
      if (goes_on != (row->expected == GOES_ON)) fail_msg("%s: %s %s", row->text, trace, parent);
      if (!goes_on) assert_string_equal(parent, "");
    }
    close_world(&w);
  }
}

TEST(what_was_announced_is_of_that_turn_only_and_once) {
  world w;
  char trace[33];
  const tp_text others[TP_ID_COUNT] = {[TP_ID_SESSION] = TEXT("other"), [TP_ID_TURN] = TEXT("t1")};
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
  tp_traces_begin(w.traces, others, TP_ID_COUNT, tp_text_of(header_rows[0].text));
  tp_traces_begin(NULL, others, TP_ID_COUNT, tp_text_of(header_rows[0].text));
  assert_int_equal(turn(&w, "t1"), TP_OK);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  field_of(span_of(all, "invoke_agent", one, sizeof one), "traceId", trace);
  assert_string_not_equal(trace, TRACE);
  close_world(&w);
}

TEST(an_announced_turn_is_found_among_thousands_that_never_begin) {
  world w;
  char trace[33], id[16];
  tp_text ids[TP_ID_COUNT] = {[TP_ID_SESSION] = TEXT("s")};
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
  for (int i = 0; i < 9000; i++) {
    if (i == 6000) snprintf(id, sizeof id, "t1"); /* with 2,999 newer ones */
    else snprintf(id, sizeof id, "never%d", i);
    ids[TP_ID_TURN] = tp_text_of(id);
    tp_traces_begin(w.traces, ids, TP_ID_COUNT, tp_text_of(header_rows[0].text));
  }
  assert_int_equal(turn(&w, "t1"), TP_OK);
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  field_of(span_of(all, "invoke_agent", one, sizeof one), "traceId", trace);
  assert_string_equal(trace, TRACE);
  close_world(&w);
}

typedef struct asked {
  world *w;
  char parent[2][56];
  int count;
} asked;

static void note_parent(void *ctx, const tp_model_request *request, tp_token token) {
  asked *a = ctx;
  const tp_model_response response = {.struct_size = sizeof response, .text = TEXT("ok")};
  if (a->count < 2) assert_true(tp_traces_parent(a->w->traces, request->ids, request->id_count, a->parent[a->count++]));
  (void)!tp_model_complete(token, &response, NULL);
}

TEST(what_a_request_to_a_model_sends_along_names_its_span) {
  world w;
  char want[80], trace[33], span[33];
  asked a = {.w = &w};
  const tp_model model = {.struct_size = sizeof model, .name = "m", .start = note_parent, .ctx = &a};
  const tp_text none[TP_ID_COUNT] = {[TP_ID_TURN] = TEXT("none")};
  open_traces(&w, (world_options){.session.model = &model}, (tp_traces_options){0});
  assert_int_equal(turn(&w, "t1"), TP_OK);
  assert_false(tp_traces_parent(w.traces, none, TP_ID_COUNT, a.parent[1]));
  assert_string_equal(a.parent[1], "");
  assert_false(tp_traces_parent(NULL, none, TP_ID_COUNT, a.parent[1]));
  end_traces(&w, WAIT_MS);
  read_all(&w, all, sizeof all);
  field_of(span_of(all, "chat m", one, sizeof one), "traceId", trace);
  field_of(one, "spanId", span);
  snprintf(want, sizeof want, "00-%s-%s-01", trace, span);
  assert_string_equal(a.parent[0], want);
  close_world(&w);
}

TEST(none_of_1000_are_traced_and_all_where_nothing_is_said) {
  world w;
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){.sampled_of_1000 = -1});
  for (int i = 0; i < 20; i++) assert_int_equal(turn(&w, NULL), TP_OK);
  assert_int_equal(end_traces(&w, WAIT_MS).sent, 0);
  close_world(&w);
  open_traces(&w, (world_options){.replies = with_call + 1, .reply_count = 1},
              (tp_traces_options){.sampled_of_1000 = 500});
  for (int i = 0; i < 200; i++) assert_int_equal(turn(&w, NULL), TP_OK);
  uint64_t sent = end_traces(&w, WAIT_MS).sent; /* two spans a turn; 13 standard deviations */
  assert_true(sent > 2 * 10 && sent < 2 * 190);
  close_world(&w);
}

/* ---- a collector that does not take them ---- */

typedef struct fate_row {
  const char *name;
  endpoint_reply replies[2];
  uint64_t sent, dropped, failures;
  const char *log; /* of the first line; NULL: none */
} fate_row;

static const fate_row fate_rows[] = {
    {"all are taken", {{.type = "application/json", .body = "{}"}}, 4, 0, 0, NULL},
    {"an empty answer", {{.type = "application/json", .body = ""}}, 4, 0, 0, NULL},
    {"no JSON", {{.type = "text/plain", .body = "thanks"}}, 4, 0, 0, NULL},
    {"202", {{.status = 202, .body = ""}}, 4, 0, 0, NULL},
    {"some are rejected",
     {{.type = "application/json",
       .body = "{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"too old\"}}"}},
     1,
     3,
     0,
     "too old"},
    {"a number",
     {{.type = "application/json", .body = "{\"partialSuccess\":{\"rejectedSpans\":1}}"}},
     3,
     1,
     0,
     "refuses spans"},
    {"more than there are",
     {{.type = "application/json", .body = "{\"partialSuccess\":{\"rejectedSpans\":\"99\"}}"}},
     0,
     4,
     0,
     "refuses spans"},
    {"400", {{.status = 400, .body = "{\"code\":3}"}}, 0, 4, 1, "HTTP 400"},
    {"401", {{.status = 401, .body = ""}}, 0, 4, 1, "HTTP 401"},
    {"404", {{.status = 404, .body = ""}}, 0, 4, 1, "HTTP 404"},
    {"500", {{.status = 500, .body = ""}}, 0, 4, 1, "HTTP 500"},
    {"a redirect", {{.status = 302, .headers = "Location: http://127.0.0.1:1/\r\n", .body = ""}}, 0, 4, 1, "HTTP 302"},
};

TEST(what_the_collector_says_is_what_becomes_of_spans) {
  for (size_t i = 0; i < sizeof fate_rows / sizeof *fate_rows; i++) {
    const fate_row *row = &fate_rows[i];
    world w;
    open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
    w.collector->replies = row->replies;
    assert_int_equal(turn(&w, "t1"), TP_OK);
    tp_traces_stats stats = end_traces(&w, WAIT_MS);
    if (stats.sent != row->sent || stats.dropped != row->dropped || stats.failures != row->failures)
      fail_msg("%s: sent %d, dropped %d, failures %d", row->name, (int)stats.sent, (int)stats.dropped,
               (int)stats.failures);
    assert_int_equal(latch_count(&w.logged), row->log != NULL);
    if (row->log) expect_in(w.log[0], row->log);
    close_world(&w);
  }
}

TEST(a_failure_for_the_moment_is_repeated_and_told_once) {
  static const endpoint_reply later[] = {{.status = 503, .body = ""},
                                         {.status = 429, .headers = "Retry-After: 1\r\n", .body = ""},
                                         {.type = "application/json", .body = "{}"}};
  world w;
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
  w.collector->replies = later;
  w.collector->count = 3;
  assert_int_equal(turn(&w, "t1"), TP_OK);
  endpoint_await(w.collector, &w.collector->request_count, 3);
  latch_wait(&w.logged, 2);
  tp_traces_stats stats = end_traces(&w, WAIT_MS);
  assert_int_equal(stats.sent, 4);
  assert_int_equal(stats.failures, 2);
  assert_int_equal(stats.dropped, 0);
  assert_string_equal(endpoint_body(w.collector, 0), endpoint_body(w.collector, 2));
  expect_in(w.log[0], "HTTP 503");
  expect_in(w.log[1], "takes spans again");
  close_world(&w);
}

TEST(an_end_waits_for_no_collector_longer_than_it_may) {
  static const endpoint_reply silent[] = {{.waits_before = true}};
  world w;
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){0});
  w.collector->replies = silent;
  assert_int_equal(turn(&w, "t1"), TP_OK);
  endpoint_await(w.collector, &w.collector->request_count, 1);
  int64_t began_ns = now_ns();
  tp_traces_stats stats = end_traces(&w, 20);
  assert_true(now_ns() - began_ns < INT64_C(5000000000)); /* its own limit is 10 s */
  assert_int_equal(stats.dropped, 4);
  close_world(&w);
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2},
              (tp_traces_options){.url = "http://127.0.0.1:1/v1/traces"});
  assert_int_equal(turn(&w, "t1"), TP_OK);
  latch_wait(&w.logged, 0);
  assert_int_equal(end_traces(&w, 1).dropped, 4);
  close_world(&w);
}

TEST(a_full_queue_drops_and_counts) {
  world w;
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2}, (tp_traces_options){.queue_bytes_max = 100});
  assert_int_equal(turn(&w, "t1"), TP_OK);
  tp_traces_stats stats = {.struct_size = sizeof stats};
  tp_traces_stats_get(w.traces, &stats);
  assert_int_equal(stats.dropped, 4);
  assert_int_equal(end_traces(&w, WAIT_MS).sent, 0);
  close_world(&w);
}

TEST(headers_are_sent_and_turns_may_outlive_the_traces) {
  static const char *const headers[] = {"Authorization: Bearer k", "X-Scope: 1", NULL};
  static act waits = {.defers = false};
  world w;
  latch entered = LATCH, goes = LATCH;
  waits = (act){.entered = &entered, .waits_for = &goes};
  const hook hooks[] = {{.id = "waits", .phase = TP_PHASE_TURN_INTAKE, .ctx = &waits, .slow = true}};
  open_traces(&w, (world_options){.replies = with_call, .reply_count = 2, .hooks = hooks, .hook_count = 1},
              (tp_traces_options){.headers = headers});
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("go")};
  tp_submission *submission = NULL;
  latch_hit(&goes);
  assert_int_equal(turn(&w, "t1"), TP_OK);
  endpoint_await(w.collector, &w.collector->request_count, 1);
  expect_in(endpoint_request(w.collector, 0), "\r\nAuthorization: Bearer k\r\n");
  expect_in(endpoint_request(w.collector, 0), "\r\nContent-Type: application/json\r\n");
  goes = (latch)LATCH;
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
  latch_wait(&entered, 2);
  end_traces(&w, WAIT_MS);
  latch_hit(&goes);
  assert_int_equal(tp_submission_wait(submission, WAIT_MS, NULL, NULL), TP_OK);
  tp_submission_unref(submission);
  close_world(&w);
}

TEST(options_that_are_wrong_are_named) {
  static const char *const bad_header[] = {"no colon", NULL}, *const split[] = {"A: b\r\nC: d", NULL};
  static const struct {
    tp_traces_options options;
    const char *message;
  } rows[] = {
      {{.url = NULL}, "url is where"},
      {{.url = ""}, "url is where"},
      {{.url = "127.0.0.1:4318"}, "url is where"},
      {{.url = "ftp://127.0.0.1/"}, "url is where"},
      {{.url = "file:///tmp/x"}, "url is where"},
      {{.url = "http://h/", .sampled_of_1000 = 1001}, "at most 1,000"},
      {{.url = "http://h/", .conventions = 40}, "conventions is 41"},
      {{.url = "http://h/", .headers = bad_header}, "headers[0]"},
      {{.url = "http://h/", .headers = split}, "headers[0]"},
  };
  tp_runtime *runtime = open_runtime(&(tp_runtime_options){.struct_size = sizeof(tp_runtime_options)});
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp_traces *traces = NULL;
    tp_fault fault = {0};
    tp_traces_options options = rows[i].options;
    options.struct_size = sizeof options;
    assert_int_equal(tp_traces_open(runtime, &options, &traces, &fault), TP_ERR_USAGE);
    expect_in(fault.message, rows[i].message);
    assert_null(traces);
  }
  tp_fault fault = {0};
  tp_traces *traces = NULL;
  assert_int_equal(
      tp_traces_open(runtime, &(tp_traces_options){.struct_size = 9999, .url = "http://h/"}, &traces, &fault),
      TP_ERR_VERSION);
  tp_traces_close(NULL, 0, NULL);
  close_runtime(runtime);
}
