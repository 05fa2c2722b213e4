/* SPDX-License-Identifier: Apache-2.0
 *
 * No piece of an answer bypasses a filter: text that a handler of model.response removes is in no event, log line,
 * result, record, audit row or history, wherever the pieces of the stream cut it, and however the turn ends. */
#include "tests/support/directory.h"
#include "tests/support/test.h"
#include "tests/support/world.h"
#include "turnphase/inspect.h"
#include "turnphase/sqlite.h"

/* What is taken out. It stands nowhere else. */
#define MARKER "k7Qx-zebra-41Wm"
enum { MARKER_SIZE = sizeof MARKER - 1, KEPT_MAX = 1 << 20 };

/* ---- everything that leaves the library ---- */

static struct {
  char bytes[KEPT_MAX];
  size_t size;
  pthread_mutex_t mutex;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void keep(tp_text text) {
  pthread_mutex_lock(&kept.mutex);
  size_t size = text.size < KEPT_MAX - kept.size - 2 ? text.size : KEPT_MAX - kept.size - 2;
  if (size > 0) memcpy(kept.bytes + kept.size, text.data, size);
  kept.size += size;
  kept.bytes[kept.size++] = '\n';
  pthread_mutex_unlock(&kept.mutex);
}

/* A piece of it that is long enough to be no accident is as bad. */
static bool has_marker(const char *bytes, size_t size) {
  for (size_t at = 0; at + 6 <= MARKER_SIZE; at++)
    if (memmem(bytes, size, &MARKER[at], 6)) return true;
  return false;
}

static void keep_event(void *ctx, const tp_event *event) {
  (void)ctx;
  char line[128];
  snprintf(line, sizeof line, "<%s> %d", tp_event_name(event->kind), (int)event->status);
  keep(tp_text_of(line));
  keep(event->text);
  keep(event->finish_word);
  if (event->contribution) keep(event->contribution->text);
  if (event->contribution) keep(event->contribution->value);
}

static void keep_line(void *ctx, const tp_log_record *record) {
  (void)ctx;
  keep(tp_text_of(record->message));
}

/* ---- a model that says the marker ---- */

typedef struct speech {
  const char *text, *thinking; /* of the answer; thinking is in provider_data, and comes as pieces */
  size_t cut;                  /* the text comes as two pieces, cut there; 0: as a piece for each byte */
  bool no_deltas;
  bool fails_first; /* after the pieces; retryable */
  bool calls;       /* the first answer has a call */
  bool never;       /* does not answer: the turn is cancelled */
  uint32_t requests;
  tp_submission *submission;
  latch said;
} speech;

static void say_in_pieces(const speech *s, tp_token token, const char *text, bool thinking) {
  size_t size = strlen(text), step;
  for (size_t at = 0; at < size; at += step) {
    step = s->cut == 0 ? 1 : at == 0 && s->cut < size ? s->cut : size - at;
    tp_text piece = {text + at, step};
    tp_status status = thinking ? tp_model_thinking(token, piece, NULL) : tp_model_delta(token, piece, NULL);
    if (status != TP_OK) abort();
  }
}

static tp_text data_of(const char *thinking, tp_writer *writer) {
  tp_text data = {NULL, 0};
  if (!thinking) return data;
  tp_write_map(writer, 2);
  tp_write_string(writer, "thinking");
  tp_write_string(writer, thinking);
  tp_write_string(writer, "refusal");
  tp_write_string(writer, thinking);
  if (tp_writer_finish(writer, &data) != TP_OK) abort();
  return data;
}

static void speech_start(void *ctx, const tp_model_request *request, tp_token token) {
  (void)request;
  speech *s = ctx;
  tp_writer *writer;
  uint32_t number = s->requests++;
  if (s->thinking && !s->no_deltas) say_in_pieces(s, token, s->thinking, true);
  if (!s->no_deltas) say_in_pieces(s, token, s->text, false);
  if (s->never) {
    latch_hit(&s->said);
    return;
  }
  if (s->fails_first && number == 0) {
    (void)!tp_model_fail(token, TP_ERR_MODEL, "broken off", true, NULL);
    return;
  }
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  const tp_tool_call call = {.struct_size = sizeof call, .id = TEXT("c"), .name = TEXT("look")};
  const tp_tool_call *const calls[] = {&call};
  tp_model_response response = {.struct_size = sizeof response,
                                .text = tp_text_of(s->text),
                                .stop_reason = TEXT("end_turn"),
                                .calls = calls,
                                .call_count = s->calls && number == 0,
                                .provider_data = data_of(s->thinking, writer)};
  (void)!tp_model_complete(token, &response, NULL);
  tp_writer_free(writer);
}

static tp_answer look(void *ctx, tp_tool_run *run) {
  (void)ctx;
  return tp_tool_ok(run, tp_text_of("seen"));
}

/* ---- the filter ---- */

typedef struct filter {
  bool fails;          /* and is required */
  bool gives_thinking; /* replaces it, too */
  bool drops_all;      /* the text becomes empty */
  bool denies;
  uint32_t calls;
} filter;

static tp_answer run_filter(void *ctx, tp_call *call) {
  filter *f = ctx;
  f->calls++;
  if (f->fails) return tp_call_fail(call, 1, "cannot look");
  if (f->denies) return tp_call_deny(call, "not for people");
  tp_text text = tp_call_text(call, TP_FIELD_RESPONSE_TEXT);
  char out[256];
  const char *at = text.size ? memmem(text.data, text.size, MARKER, MARKER_SIZE) : NULL;
  if (at && f->drops_all) out[0] = 0;
  else if (at)
    snprintf(out, sizeof out, "%.*s[out]%.*s", (int)(at - text.data), text.data,
             (int)(text.data + text.size - at - MARKER_SIZE), at + MARKER_SIZE);
  if (at && tp_call_replace_text(call, TP_FIELD_RESPONSE_TEXT, out, NULL) != TP_OK) return TP_ANSWER_FAILED;
  if (f->gives_thinking && tp_call_has(call, TP_FIELD_THINKING) &&
      tp_call_replace_text(call, TP_FIELD_THINKING, "[thought]", NULL) != TP_OK)
    return TP_ANSWER_FAILED;
  return TP_ANSWER_DONE;
}

static tp_answer answer_in_place(void *ctx, tp_call *call) {
  (void)ctx;
  tp_writer *writer;
  tp_field field = {.id = TP_FIELD_RESPONSE, .kind = TP_FIELD_KIND_VALUE};
  if (tp_writer_new(NULL, &writer) != TP_OK) return TP_ANSWER_FAILED;
  tp_write_map(writer, 1);
  tp_write_string(writer, "text");
  tp_write_string(writer, "my " MARKER);
  tp_status status = tp_writer_finish(writer, &field.text);
  if (status == TP_OK) status = tp_call_replace(call, &field, 1, NULL);
  tp_writer_free(writer);
  return status == TP_OK ? TP_ANSWER_DONE : TP_ANSWER_FAILED;
}

/* ---- one turn, and the search ---- */

typedef struct row {
  const char *name;
  speech speech;
  filter filter;
  bool slow, each_delta, in_place;
  tp_turn_outcome outcome; /* 0: completed */
  const char *text;        /* of the result; NULL: "my [out] x" */
  const char *events;      /* something that stands in what left; NULL: the text as one delta */
} row;

static void search_files(const char *name) {
  char command[256], line[256];
  snprintf(command, sizeof command, "strings -n 6 %s/* | cat", directory);
  FILE *all = popen(command, "r");
  assert_non_null(all);
  while (fgets(line, sizeof line, all))
    if (has_marker(line, strlen(line))) fail_msg("%s: it is in a file: %s", name, line);
  pclose(all);
}

static void keep_result(void *ctx, const tp_turn_result *result) {
  (void)ctx;
  keep(result->text);
  keep(result->reason);
}

static tp_turn_outcome run_turn(world_stage *w, speech *s, const row *r, char *ret_text, size_t size) {
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello"), .each_delta = r->each_delta};
  if (s->never) {
    assert_int_equal(tp_turn_submit(w->session, &request, keep_result, NULL, &s->submission, NULL), TP_OK);
    latch_wait(&s->said, 1);
    tp_submission_cancel(s->submission);
    assert_int_equal(tp_submission_wait(s->submission, 60000, &result, NULL), TP_OK);
  } else {
    assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  }
  tp_turn_outcome outcome = result->outcome;
  keep_result(NULL, result);
  snprintf(ret_text, size, "%.*s", (int)result->text.size, result->text.size ? result->text.data : "");
  if (s->never) tp_submission_unref(s->submission);
  else tp_turn_result_free(result);
  return outcome;
}

static void play_row(const row *r) {
  speech s = r->speech;
  filter f = r->filter;
  world_stage w;
  char text[256];
  s.said = (latch)LATCH;
  kept.size = 0;
  const tp_model model = {.struct_size = sizeof model, .name = "speech", .ctx = &s, .start = speech_start};
  const tp_tool tool = {.struct_size = sizeof tool, .name = "look", .run = look, .placement = TP_PLACEMENT_INLINE};
  const tp_tool *const tools[] = {&tool};
  hook hooks[] = {{.id = "filter",
                   .phase = TP_PHASE_MODEL_RESPONSE,
                   .run = run_filter,
                   .ctx = &f,
                   .slow = r->slow,
                   .sub = {.failure = TP_FAILURE_REQUIRED}},
                  {.id = "cache", .phase = TP_PHASE_MODEL_REQUEST, .run = answer_in_place}};
  const tp_sqlite_store_options store_options = {.struct_size = sizeof store_options, .path = path};
  char history_path[128];
  tp_store *store;
  tp_history *history;
  snprintf(history_path, sizeof history_path, "%s/history.db", directory);
  assert_int_equal(tp_sqlite_store_open(&store_options, &store, NULL), TP_OK);
  assert_int_equal(tp_sqlite_history_open(history_path, &history, NULL), TP_OK);
  world_open(
      &w,
      &(world_options){
          .runtime = {.store = store, .durability = TP_DURABILITY_SYNC, .log = keep_line, .log_level = TP_LOG_DEBUG},
          .hooks = hooks,
          .hook_count = r->in_place ? 2 : 1,
          .tools = tools,
          .tool_count = 1,
          .session = {.model = &model, .history = history, .on_event = keep_event}});
  tp_turn_outcome wanted = r->outcome ? r->outcome : TP_TURN_COMPLETED,
                  outcome = run_turn(&w, &s, r, text, sizeof text);
  if (outcome != wanted) fail_msg("%s: the turn was %s", r->name, tp_turn_outcome_name(outcome));
  const char *want = wanted != TP_TURN_COMPLETED ? "" : r->text ? r->text : "my [out] x";
  if (strcmp(text, want) != 0) fail_msg("%s: the answer was %s", r->name, text);
  world_close(&w);
  kept.bytes[kept.size] = 0;
  if (has_marker(kept.bytes, kept.size)) fail_msg("%s: it left the library: %s", r->name, kept.bytes);
  const char *events = r->events ? r->events : "<model_delta> 0\nmy [out] x\n";
  if (!strstr(kept.bytes, events)) fail_msg("%s: `%s` is not in %s", r->name, events, kept.bytes);
  if (!strstr(kept.bytes, "<model_end>")) fail_msg("%s: no end of the answer", r->name);
  search_files(r->name);
}

#define SAYS "my " MARKER " x"

TEST_WITH(marker_is_nowhere_wherever_the_stream_cuts_it, make_directory_in_memory, remove_directory) {
  for (size_t cut = 0; cut <= sizeof SAYS - 1; cut++) {
    char name[32];
    snprintf(name, sizeof name, "cut at %zu", cut);
    play_row(&(row){.name = name, .speech = {.text = SAYS, .cut = cut}});
    assert_int_equal(remove_directory(NULL), 0);
    assert_int_equal(make_directory_in_memory(NULL), 0);
  }
}

TEST_WITH(marker_is_nowhere_however_the_answer_comes_and_the_turn_ends, make_directory_in_memory, remove_directory) {
  static const row rows[] = {
      {.name = "a slow filter", .speech = {.text = SAYS, .cut = 6}, .slow = true},
      {.name = "an event for each piece", .speech = {.text = SAYS}, .each_delta = true},
      {.name = "no pieces", .speech = {.text = SAYS, .no_deltas = true}, .events = "<model_end> 0\nmy [out] x\n"},
      {.name = "thinking that was not looked at", .speech = {.text = SAYS, .thinking = "so " MARKER, .cut = 9}},
      {.name = "thinking without pieces",
       .speech = {.text = SAYS, .thinking = MARKER, .no_deltas = true},
       .events = "<model_end> 0\nmy [out] x\n"},
      {.name = "thinking that is replaced",
       .speech = {.text = SAYS, .thinking = "so " MARKER},
       .filter = {.gives_thinking = true},
       .events = "<thinking> 0\n[thought]\n"},
      {.name = "thinking alone",
       .speech = {.text = "my x", .thinking = "so " MARKER},
       .filter = {.gives_thinking = true},
       .text = "my x",
       .events = "<model_delta> 0\nmy x\n"},
      {.name = "a text that is dropped",
       .speech = {.text = SAYS},
       .filter = {.drops_all = true},
       .text = "",
       .events = "<model_end> 0\n\n"},
      {.name = "a filter that fails",
       .speech = {.text = SAYS, .thinking = MARKER, .cut = 4},
       .filter = {.fails = true},
       .outcome = TP_TURN_DENIED,
       .events = "<model_end> "},
      {.name = "a slow filter that fails",
       .speech = {.text = SAYS},
       .filter = {.fails = true},
       .slow = true,
       .outcome = TP_TURN_DENIED,
       .events = "<model_end> "},
      {.name = "a filter that denies",
       .speech = {.text = SAYS, .thinking = MARKER, .cut = 4},
       .filter = {.denies = true},
       .outcome = TP_TURN_DENIED,
       .events = "filter: not for people"},
      {.name = "a slow filter that denies an answer with a call",
       .speech = {.text = SAYS, .calls = true},
       .filter = {.denies = true},
       .slow = true,
       .outcome = TP_TURN_DENIED,
       .events = "<model_end> "},
      {.name = "a denied answer in the model's place",
       .speech = {.text = "unused"},
       .filter = {.denies = true},
       .in_place = true,
       .outcome = TP_TURN_DENIED,
       .events = "<model_end> "},
      {.name = "a request that breaks off", .speech = {.text = SAYS, .cut = 7, .fails_first = true}},
      {.name = "calls with the text", .speech = {.text = SAYS, .thinking = MARKER, .calls = true, .cut = 5}},
      {.name = "a turn that is cancelled",
       .speech = {.text = SAYS, .thinking = MARKER, .never = true},
       .outcome = TP_TURN_CANCELLED,
       .events = "<model_end> "},
      {.name = "an answer in the model's place",
       .speech = {.text = "unused"},
       .in_place = true,
       .text = "my [out]",
       .events = "<model_delta> 0\nmy [out]\n"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    play_row(&rows[i]);
    assert_int_equal(remove_directory(NULL), 0);
    assert_int_equal(make_directory_in_memory(NULL), 0);
  }
}

TEST_WITH(handler_that_never_replaces_holds_nothing, make_directory_in_memory, remove_directory) {
  static const char *const without[] = {"<model_delta> 0\nmy \n", "<model_end> 0\nmy x\n"};
  speech s = {.text = "my x", .cut = 3};
  act observes = {.calls = 0};
  hook hooks[] = {{.id = "look", .phase = TP_PHASE_MODEL_RESPONSE, .ctx = &observes, .no_capability = true}};
  const tp_model model = {.struct_size = sizeof model, .name = "speech", .ctx = &s, .start = speech_start};
  world_stage w;
  char text[64];
  kept.size = 0;
  world_open(&w,
             &(world_options){.hooks = hooks, .hook_count = 1, .session = {.model = &model, .on_event = keep_event}});
  assert_int_equal(run_turn(&w, &s, &(row){.each_delta = true}, text, sizeof text), TP_TURN_COMPLETED);
  world_close(&w);
  kept.bytes[kept.size] = 0;
  for (size_t i = 0; i < COUNT(without); i++) assert_non_null(strstr(kept.bytes, without[i]));
  assert_int_equal(observes.calls, 1);
}
