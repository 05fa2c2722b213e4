/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays tests/vectors/turns.json, which every language plays: hooks, tools and a model whose calls come to an inbox. */
#include "tests/support/test.h"
#include "tests/support/inbox.h"

enum { HOOKS = 8, TOOLS = 8, CALLS = 8, KINDS = 64, NAME_BYTES = 64 };

/* One vector while it is played; texts and values point into the file. */
typedef struct player {
  tp_runtime *runtime;
  tp_inbox *inbox;
  tp_text vector;
  int times[HOOKS];    /* how often each hook has given its answer */
  bool has_run[TOOLS]; /* by the tools of the vector */
  int requests;
  char seen[2048];      /* the last message of the last request */
  tp_token hanging[16]; /* calls that are never answered */
  size_t hanging_count;
  bool has_ended;
  char outcome[NAME_BYTES], subscription[NAME_BYTES], text[2048], reason[1024], value[256];
  int64_t iterations, tool_calls;
  struct {
    char name[NAME_BYTES], kind[NAME_BYTES], text[2048];
  } results[CALLS];
  size_t result_count;
  char kinds[KINDS][NAME_BYTES];
  size_t kind_count;
} player;

static tp_text get(tp_text map, const char *key) { return tp_value_get(map, key); }
static tp_text text_in(tp_text map, const char *key) { return tp_value_text(get(map, key)); }
static bool is_set(tp_text map, const char *key) { return tp_value_bool(get(map, key), false); }

/* NUL-terminated; those of the file are short. */
static const char *string_in(tp_text map, const char *key, char buffer[NAME_BYTES]) {
  const tp_text text = text_in(map, key);
  snprintf(buffer, NAME_BYTES, "%.*s", (int)text.size, text.data);
  return text.size ? buffer : NULL;
}

static void keep(char *buffer, size_t size, tp_text text) {
  snprintf(buffer, size, "%.*s", (int)text.size, text.data ? text.data : "");
}

static tp_text row_of(const player *p, const char *list, const void *ctx) {
  return tp_value_at(get(p->vector, list), (size_t)(uintptr_t)ctx - 1);
}

static void hang(player *p, const tp_work *work) {
  assert_true(p->hanging_count < sizeof p->hanging / sizeof *p->hanging);
  p->hanging[p->hanging_count++] = work->token;
}

/* ---- hooks ---- */

static tp_contribution_kind kind_of(tp_text name) {
  if (tp_text_is(name, "prompt_context")) return TP_CONTRIBUTION_PROMPT_CONTEXT;
  assert_true(tp_text_is(name, "reminder"));
  return TP_CONTRIBUTION_REMINDER;
}

static void emit(const tp_work *work, tp_text contributions) {
  for (size_t i = 0; i < tp_value_count(contributions); i++) {
    const tp_text row = tp_value_at(contributions, i);
    const tp_contribution contribution = {.struct_size = sizeof contribution,
                                          .kind = kind_of(text_in(row, "kind")),
                                          .key = text_in(row, "key"),
                                          .text = text_in(row, "text")};
    assert_int_equal(tp_call_emit(work->call, &contribution, NULL), TP_OK);
  }
}

/* @return false when it was refused, as an exception is in other languages. */
static bool replace(const tp_work *work, tp_text fields) {
  tp_value_walk walk = {0};
  bool is_taken = true;
  while (tp_value_next(fields, &walk)) {
    char name[NAME_BYTES];
    keep(name, sizeof name, walk.key);
    const tp_field field = {.id = tp_field_find(name), .kind = TP_FIELD_KIND_TEXT, .text = tp_value_text(walk.value)};
    is_taken = is_taken && tp_call_replace(work->call, &field, 1, NULL) == TP_OK;
  }
  return is_taken;
}

static void play_hook(player *p, const tp_work *work) {
  static const struct {
    const char *name;
    tp_answer kind;
  } answers[] = {{"done", TP_ANSWER_DONE}, {"allow", TP_ANSWER_ALLOW},   {"deny", TP_ANSWER_DENY},
                 {"ask", TP_ANSWER_ASK},   {"failed", TP_ANSWER_FAILED}, {"raise", TP_ANSWER_FAILED}};
  const tp_text row = row_of(p, "hooks", work->ctx), name = text_in(row, "answer");
  const size_t index = (size_t)(uintptr_t)work->ctx - 1;
  tp_answer kind = TP_ANSWER_NONE;
  char reason[NAME_BYTES];
  emit(work, get(row, "emit"));
  const bool is_taken = replace(work, get(row, "replace"));
  if (tp_text_is(name, "hang")) {
    hang(p, work);
    return;
  }
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
    if (tp_text_is(name, answers[i].name)) kind = answers[i].kind;
  if (p->times[index]++ >= tp_value_int(get(row, "times"), INT32_MAX)) kind = TP_ANSWER_DONE;
  if (tp_text_is(name, "nonsense")) /* no answer: refused, and the binding completes it as one that raised */
    assert_int_equal(answer(work, TP_ANSWER_NONE, NULL), TP_ERR_USAGE);
  if (!is_taken || kind == TP_ANSWER_NONE) kind = TP_ANSWER_FAILED;
  assert_int_equal(answer(work, kind, string_in(row, "reason", reason)), TP_OK);
}

static void add_vector_hooks(player *p) {
  const tp_text rows = get(p->vector, "hooks");
  assert_true(tp_value_count(rows) <= HOOKS);
  for (size_t i = 0; i < tp_value_count(rows); i++) {
    const tp_text row = tp_value_at(rows, i), patterns = get(row, "tools");
    char id[NAME_BYTES], phase[NAME_BYTES], pattern[NAME_BYTES];
    const char *const tools[] = {pattern};
    keep(pattern, sizeof pattern, tp_value_text(tp_value_at(patterns, 0)));
    const tp_match match = {.struct_size = sizeof match, .tools = tools, .tool_count = 1};
    const tp_hook added = {
        .struct_size = sizeof added,
        .id = string_in(row, "id", id),
        .phase = string_in(row, "phase", phase),
        .inbox = p->inbox,
        .ctx = (void *)(uintptr_t)(i + 1),
        .failure = tp_text_is(text_in(row, "failure"), "required") ? TP_FAILURE_REQUIRED : TP_FAILURE_BEST_EFFORT,
        .limit_ms = (uint32_t)tp_value_int(get(row, "limit_ms"), LONG_MS),
        .grants = is_set(row, "privileged") ? TP_GRANT_PRIVILEGED_HOOKS : 0,
        .match = tp_value_count(patterns) ? &match : NULL};
    assert_int_equal(tp_hook_add(p->runtime, &added, NULL), TP_OK);
  }
}

/* ---- tools ---- */

static void play_tool(player *p, const tp_work *work) {
  const tp_text row = row_of(p, "tools", work->ctx);
  p->has_run[(size_t)(uintptr_t)work->ctx - 1] = true;
  if (is_set(row, "hang")) {
    hang(p, work);
    return;
  }
  const tp_tool_answer given = {.struct_size = sizeof given,
                                .is_error = is_set(row, "is_error") || is_set(row, "raise"),
                                .text = is_set(row, "raise") ? tp_text_of("raised") : text_in(row, "text"),
                                .value = get(row, "value")};
  assert_int_equal(tp_tool_complete_with(work->token, &given, NULL), TP_OK);
}

static void add_vector_tools(player *p) {
  const tp_text rows = get(p->vector, "tools");
  assert_true(tp_value_count(rows) <= TOOLS);
  for (size_t i = 0; i < tp_value_count(rows); i++) {
    char name[NAME_BYTES];
    const tp_tool tool = {.struct_size = sizeof tool,
                          .name = string_in(tp_value_at(rows, i), "name", name),
                          .inbox = p->inbox,
                          .ctx = (void *)(uintptr_t)(i + 1),
                          .limit_ms = (uint32_t)tp_value_int(get(tp_value_at(rows, i), "limit_ms"), 0)};
    assert_int_equal(tp_tool_add(p->runtime, &tool, NULL), TP_OK);
  }
}

/* ---- the model ---- */

static void respond(const tp_work *work, tp_text row) {
  const tp_text calls = get(row, "calls"), deltas = get(row, "deltas");
  tp_tool_call made[CALLS];
  const tp_tool_call *pointers[CALLS];
  assert_true(tp_value_count(calls) <= CALLS);
  for (size_t i = 0; i < tp_value_count(deltas); i++)
    assert_int_equal(tp_model_delta(work->token, tp_value_text(tp_value_at(deltas, i)), NULL), TP_OK);
  for (size_t i = 0; i < tp_value_count(calls); i++) {
    const tp_text call = tp_value_at(calls, i);
    made[i] = (tp_tool_call){
        .struct_size = sizeof made[i], .name = text_in(call, "name"), .arguments = get(call, "arguments")};
    pointers[i] = &made[i];
  }
  const tp_model_response response = {.struct_size = sizeof response,
                                      .text = text_in(row, "text"),
                                      .calls = pointers,
                                      .call_count = tp_value_count(calls)};
  assert_int_equal(tp_model_complete(work->token, &response, NULL), TP_OK);
}

static void play_model(player *p, const tp_work *work) {
  const tp_text rows = get(p->vector, "model");
  const size_t last = tp_value_count(rows) - 1, at = (size_t)p->requests++;
  const tp_text row = tp_value_at(rows, at < last ? at : last);
  char words[NAME_BYTES];
  keep(p->seen, sizeof p->seen, work->request->messages[work->request->message_count - 1]->text);
  if (is_set(row, "hang")) hang(p, work);
  else if (string_in(row, "fail", words))
    assert_int_equal(tp_model_fail(work->token, TP_ERR_MODEL, words, is_set(row, "retryable"), NULL), TP_OK);
  else respond(work, row);
}

/* ---- what comes of it ---- */

static const uint64_t kinds = 1 << TP_EVENT_TURN_BEGIN | 1 << TP_EVENT_MODEL_BEGIN | 1 << TP_EVENT_MODEL_DELTA |
                              1 << TP_EVENT_MODEL_END | 1 << TP_EVENT_TOOL_BEGIN | 1 << TP_EVENT_TOOL_END |
                              1 << TP_EVENT_TURN_END | 1 << TP_EVENT_MESSAGE;

static void take_event(player *p, const tp_event *event) {
  const bool repeats = event->kind == TP_EVENT_MODEL_DELTA && p->kind_count > 0 &&
                       strcmp(p->kinds[p->kind_count - 1], "model_delta") == 0;
  assert_true(p->kind_count < KINDS && event->call_index < CALLS);
  if (!repeats) keep(p->kinds[p->kind_count++], NAME_BYTES, tp_text_of(tp_event_name(event->kind)));
  if (event->kind != TP_EVENT_TOOL_END) return;
  const tp_tool_result *result = event->tool_result;
  keep(p->results[event->call_index].name, NAME_BYTES, result->name);
  keep(p->results[event->call_index].kind, NAME_BYTES, tp_text_of(tp_tool_result_name(result->kind)));
  keep(p->results[event->call_index].text, sizeof p->results[0].text, result->text);
  p->result_count++;
}

static void take_end(player *p, const tp_turn_result *result) {
  tp_writer *writer;
  tp_text json = {0};
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  if (result->value.size) assert_int_equal(tp_json_encode(result->value, writer, &json, NULL), TP_OK);
  keep(p->value, sizeof p->value, json);
  tp_writer_free(writer);
  keep(p->outcome, sizeof p->outcome, tp_text_of(tp_turn_outcome_name(result->outcome)));
  keep(p->subscription, sizeof p->subscription, result->subscription);
  keep(p->text, sizeof p->text, result->text);
  keep(p->reason, sizeof p->reason, result->reason);
  p->iterations = result->iterations;
  p->tool_calls = result->tool_calls;
  p->has_ended = true;
}

static void take_work(player *p, const tp_work *work) {
  if (work->kind == TP_WORK_HANDLER) play_hook(p, work);
  if (work->kind == TP_WORK_TOOL) play_tool(p, work);
  if (work->kind == TP_WORK_MODEL) play_model(p, work);
  if (work->kind <= TP_WORK_MODEL) return;
  if (work->kind == TP_WORK_EVENT) take_event(p, work->event);
  if (work->kind == TP_WORK_END && work->end->kind == TP_END_TURN) take_end(p, work->end->turn);
  assert_int_equal(tp_work_release(work), TP_OK);
}

static void submit_turn(player *p, tp_session *session) {
  const tp_text request = get(p->vector, "request");
  char mode[NAME_BYTES], schema[128];
  tp_end *end;
  keep(schema, sizeof schema, text_in(request, "answer_schema"));
  const tp_turn_request asked = {.struct_size = sizeof asked,
                                 .text = text_in(p->vector, "text"),
                                 .mode = string_in(request, "mode", mode),
                                 .limit_ms = (uint32_t)tp_value_int(get(request, "limit_ms"), 0),
                                 .iterations_max = (uint32_t)tp_value_int(get(request, "iterations_max"), 0),
                                 .answer_schema = schema[0] ? schema : NULL};
  assert_int_equal(tp_end_new(p->inbox, p, &end, NULL), TP_OK);
  assert_int_equal(tp_turn_submit(session, &asked, tp_end_of_turn, end, NULL, NULL), TP_OK);
}

static void play_vector(player *p, tp_text vector) {
  tp_session *session;
  *p = (player){.vector = vector, .runtime = open_runtime(NULL)};
  p->inbox = open_inbox(p->runtime, 0);
  const tp_model model = {.struct_size = sizeof model, .name = "vectors", .inbox = p->inbox};
  const tp_session_options options = {.struct_size = sizeof options, .id = "s", .model = &model};
  const tp_listener listener = {.struct_size = sizeof listener, .inbox = p->inbox, .kinds = kinds};
  add_vector_hooks(p);
  add_vector_tools(p);
  assert_int_equal(tp_session_open(p->runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_session_listen(session, &listener, NULL, NULL), TP_OK);
  submit_turn(p, session);
  while (!p->has_ended) take_work(p, take_any(p->inbox));
  for (size_t i = 0; i < p->hanging_count; i++) (void)tp_token_abandon(p->hanging[i], NULL);
  close_runtime(p->runtime);
  tp_inbox_free(p->inbox);
}

/* ---- what must have come ---- */

static bool has(const char *text, tp_text words) {
  char part[256];
  keep(part, sizeof part, words);
  return strstr(text, part) != NULL;
}

static bool list_holds(const player *p, tp_text wanted, const char *name) {
  if (strcmp(name, "results") == 0) {
    bool holds = tp_value_count(wanted) == p->result_count;
    for (size_t i = 0; holds && i < p->result_count; i++) {
      const tp_text row = tp_value_at(wanted, i);
      holds = tp_text_is(tp_value_text(tp_value_at(row, 0)), p->results[i].name) &&
              tp_text_is(tp_value_text(tp_value_at(row, 1)), p->results[i].kind) &&
              has(p->results[i].text, tp_value_text(tp_value_at(row, 2)));
    }
    return holds;
  }
  if (strcmp(name, "events") == 0) {
    bool holds = tp_value_count(wanted) == p->kind_count;
    for (size_t i = 0; holds && i < p->kind_count; i++)
      holds = tp_text_is(tp_value_text(tp_value_at(wanted, i)), p->kinds[i]);
    return holds;
  }
  size_t has_run = 0, named = 0;
  const tp_text tools = get(p->vector, "tools");
  for (size_t i = 0; i < tp_value_count(tools); i++) {
    has_run += p->has_run[i];
    for (size_t j = 0; p->has_run[i] && j < tp_value_count(wanted); j++)
      named += tp_text_equal(text_in(tp_value_at(tools, i), "name"), tp_value_text(tp_value_at(wanted, j)));
  }
  assert_string_equal(name, "ran");
  return has_run == named && named == tp_value_count(wanted);
}

static bool value_holds(const player *p, tp_text wanted) {
  tp_writer *writer;
  tp_text json;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  assert_int_equal(tp_json_encode(wanted, writer, &json, NULL), TP_OK);
  const bool holds = tp_text_is(json, p->value);
  tp_writer_free(writer);
  return holds;
}

static bool member_holds(const player *p, const char *name, tp_text wanted) {
  const tp_text text = tp_value_text(wanted);
  if (tp_value_kind_of(wanted) == TP_VALUE_ARRAY) return list_holds(p, wanted, name);
  if (tp_value_kind_of(wanted) == TP_VALUE_MAP) return value_holds(p, wanted);
  if (strcmp(name, "outcome") == 0) return tp_text_is(text, p->outcome);
  if (strcmp(name, "subscription") == 0) return tp_text_is(text, p->subscription);
  if (strcmp(name, "text") == 0) return has(p->text, text);
  if (strcmp(name, "reason") == 0) return has(p->reason, text);
  if (strcmp(name, "seen") == 0) return has(p->seen, text);
  if (strcmp(name, "iterations") == 0) return tp_value_int(wanted, -1) == p->iterations;
  if (strcmp(name, "tool_calls") == 0) return tp_value_int(wanted, -1) == p->tool_calls;
  assert_string_equal(name, "requests");
  return tp_value_int(wanted, -1) == p->requests;
}

static void read_vectors(tp_writer *writer, tp_text *file) {
  static char text[65536];
  char path[4096];
  tp_fault fault;
  const char *root = getenv("TURNPHASE_SOURCE");
  snprintf(path, sizeof path, "%s/tests/vectors/turns.json", root ? root : ".");
  FILE *stream = fopen(path, "re");
  assert_non_null(stream);
  const size_t size = fread(text, 1, sizeof text, stream);
  fclose(stream);
  assert_true(size < sizeof text);
  if (tp_json_decode((tp_text){text, size}, writer, &fault) != TP_OK) fail_msg("%s: %s", path, fault.message);
  assert_int_equal(tp_writer_finish(writer, file), TP_OK);
}

TEST(each_turn_is_as_the_file_has_it) {
  static player p;
  tp_writer *writer;
  tp_text file;
  assert_int_equal(tp_writer_new(NULL, &writer), TP_OK);
  read_vectors(writer, &file);
  const tp_text vectors = get(file, "vectors");
  assert_true(tp_value_count(vectors) > 30);
  for (size_t i = 0; i < tp_value_count(vectors); i++) {
    const tp_text vector = tp_value_at(vectors, i);
    tp_value_walk walk = {0};
    play_vector(&p, vector);
    while (tp_value_next(get(vector, "expect"), &walk)) {
      char name[NAME_BYTES];
      keep(name, sizeof name, walk.key);
      if (!member_holds(&p, name, walk.value)) {
        const tp_text title = text_in(vector, "name");
        fail_msg("%.*s: %s is not as expected: %s, %s, %s, %s, %d requests, %zu results", (int)title.size, title.data,
                 name, p.outcome, p.text, p.reason, p.seen, p.requests, p.result_count);
      }
    }
  }
  tp_writer_free(writer);
}
