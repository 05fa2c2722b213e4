/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn that is submitted again by its id: the history has it, so its result comes from there, and no handler, request
 * or tool runs. With each kind of history: the session's own past, the memory history, a history that answers by
 * tokens, and a history that does not store how a turn ended. tests/store/conversation has a death of the process
 * between the two submissions. */
#include "tests/support/test.h"
#include "tests/support/counting.h"
#include "tests/support/world.h"

/* ---- histories ---- */

static tp_history *kept; /* the inner one */

static void begin_load(void *ctx, const tp_history_load *request, tp_token token);
static void begin_append(void *ctx, const tp_history_append *request, tp_token token) {
  tp_fault fault = {0};
  tp_status status = kept->append(ctx, request, &fault);
  assert_int_equal(tp_history_complete(token, status, &fault, NULL), TP_OK);
}

typedef struct loaded {
  tp_message messages[512];
  const tp_message *list[512];
  size_t count;
} loaded;

static tp_status take(void *ctx, const tp_message *message) {
  loaded *l = ctx;
  l->messages[l->count] = *message;
  l->list[l->count] = &l->messages[l->count];
  l->count++;
  return TP_OK;
}

static loaded load_all(void *ctx) {
  loaded l = {.count = 0};
  tp_history_load request = {.struct_size = sizeof request, .session = TEXT("s"), .each = take, .ctx = &l};
  assert_int_equal(kept->load(ctx, &request, NULL), TP_OK);
  for (size_t i = 0; i < l.count; i++) l.list[i] = &l.messages[i];
  return l;
}

static void begin_load(void *ctx, const tp_history_load *request, tp_token token) {
  loaded l = load_all(ctx);
  (void)request;
  for (size_t i = 0; i < l.count; i++) l.list[i] = &l.messages[i];
  assert_int_equal(tp_history_complete_load(token, TP_OK, l.list, l.count, NULL, NULL), TP_OK);
}

/* An older host's: the member is not in its rows. */
static tp_status load_without(void *ctx, const tp_history_load *request, tp_fault *fault) {
  loaded l = load_all(ctx);
  (void)fault;
  for (size_t i = 0; i < l.count; i++) {
    l.messages[i].ending = (tp_text){NULL, 0};
    tp_status status = request->each(request->ctx, &l.messages[i]);
    if (status != TP_OK) return status;
  }
  return TP_OK;
}

enum { PAST, MEMORY, TOKENS, WITHOUT_ENDING, KINDS };

static const tp_history *history_of(int kind) {
  static tp_history face;
  if (kind == PAST) return NULL;
  face = *kept;
  face.destroy = NULL;
  if (kind >= TOKENS) { /* with functions that claim nothing */
    face.shared = 0;
    face.release = NULL;
    face.load_start = NULL;
  }
  if (kind == TOKENS) {
    face.load = NULL;
    face.append = NULL;
    face.load_start = begin_load;
    face.append_start = begin_append;
  }
  if (kind == WITHOUT_ENDING) face.load = load_without;
  return &face;
}

/* ---- a world whose handlers and tool count their calls ---- */

typedef struct world {
  WORLD;
  _Atomic int calls, ran, diagnostics;
  int kind;
} world;

static tp_answer count_call(void *ctx, tp_call *call) {
  (void)call;
  ((world *)ctx)->calls++;
  return TP_ANSWER_DONE;
}

static tp_answer count_run(void *ctx, tp_tool_run *run) {
  ((world *)ctx)->ran++;
  return tp_tool_ok(run, (tp_text){"done", 4});
}

static void count_diagnostic(void *ctx, const tp_event *event) {
  if (event->kind == TP_EVENT_DIAGNOSTIC && tp_text_is(event->contribution->key, "turn.known"))
    ((world *)ctx)->diagnostics++;
}

static void open_world(world *w, int kind, const reply *replies, size_t count, tp_compaction compaction) {
  memset(w, 0, sizeof *w);
  w->kind = kind;
  const hook hooks[] = {{.id = "start", .phase = TP_PHASE_SESSION_START, .run = count_call, .ctx = w},
                        {.id = "intake", .phase = TP_PHASE_TURN_INTAKE, .run = count_call, .ctx = w},
                        {.id = "error", .phase = TP_PHASE_RUNTIME_ERROR, .run = count_call, .ctx = w},
                        {.id = "post", .phase = TP_PHASE_TURN_POST_TURN, .run = count_call, .ctx = w}};
  const tp_tool tool = {.struct_size = sizeof tool, .name = "work", .run = count_run, .ctx = w};
  const tp_tool *const tools[] = {&tool};
  world_open(&w->stage, &(world_options){.hooks = hooks,
                                         .hook_count = COUNT(hooks),
                                         .tools = tools,
                                         .tool_count = 1,
                                         .replies = replies,
                                         .reply_count = count,
                                         .session = {.history = history_of(kind),
                                                     .compaction = compaction,
                                                     .history_tokens_max = compaction ? 10 : 0,
                                                     .on_event = count_diagnostic,
                                                     .event_ctx = w}});
  w->is_outlived = true; /* by the history, which has the same allocator */
}

/* Opens the session again, like a new process; the past of a session is freed with it. */
static void reopen(world *w, const reply *replies, size_t count) {
  if (w->kind == PAST) return;
  int kind = w->kind;
  world_close(&w->stage);
  open_world(w, kind, replies, count, TP_COMPACTION_NONE);
}

static int begin(void **state) {
  (void)state;
  return tp_history_memory_new(&counting, &kept, NULL) == TP_OK ? 0 : -1;
}
static int end(void **state) {
  (void)state;
  tp_history_free(kept);
  return 0;
}

static const tp_turn_result *submit(world *w, const char *id, const char *text, uint8_t if_exists) {
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = tp_text_of(text), .if_exists = if_exists};
  const tp_turn_result *result = NULL;
  assert_int_equal(tp_turn_run(w->session, &request, &result, NULL), TP_OK);
  return result;
}

static void assert_submit(world *w, const char *id, const char *text, uint8_t if_exists, tp_status code) {
  const tp_turn_result *result = submit(w, id, text, if_exists);
  assert_int_equal(result->code, code);
  tp_turn_result_free(result);
}

/* ---- a stored result ---- */

static const struct turn_case {
  const char *name;
  reply replies[2];
  tp_turn_outcome outcome;
  int ran;
} turns[] = {
    {"completed", {{.text = "hi", .input_tokens = 7, .output_tokens = 2, .cost_micros = 5}}, TP_TURN_COMPLETED, 0},
    {"empty answer", {{.text = ""}}, TP_TURN_COMPLETED, 0},
    {"with a tool",
     {{.text = "wait", .calls = {{.id = TEXT("c"), .name = TEXT("work"), .arguments = {"\x80", 1}}}, .call_count = 1},
      {.text = "so"}},
     TP_TURN_COMPLETED,
     1},
    {"failed", {{.fails = TP_ERR_MODEL}}, TP_TURN_FAILED, 0},
    {"failed behind a tool",
     {{.calls = {{.id = TEXT("c"), .name = TEXT("work"), .arguments = {"\x80", 1}}}, .call_count = 1},
      {.fails = TP_ERR_MODEL}},
     TP_TURN_FAILED,
     1},
};

static void assert_same_result(const tp_turn_result *a, const tp_turn_result *b, bool has_ending) {
  assert_true(!a->is_stored && b->is_stored);
  assert_int_equal(a->outcome, b->outcome);
  assert_true(tp_text_equal(a->text, b->text) && tp_text_equal(a->reason, b->reason));
  assert_true(tp_text_equal(a->turn_id, b->turn_id));
  assert_int_equal(a->tool_calls, b->tool_calls);
  if (!has_ending) return;
  assert_int_equal(a->code, b->code);
  assert_int_equal(a->iterations, b->iterations);
  assert_int_equal(a->finish, b->finish);
  assert_true(tp_text_equal(a->finish_word, b->finish_word));
  assert_int_equal(a->input_tokens, b->input_tokens);
  assert_int_equal(a->output_tokens, b->output_tokens);
  assert_int_equal(a->cost_micros, b->cost_micros);
}

static void check_turn(int kind, const struct turn_case *c) {
  static const reply none[] = {{.text = "once more"}};
  world w;
  assert_int_equal(begin(NULL), 0);
  open_world(&w, kind, c->replies, 2, TP_COMPACTION_NONE);
  const tp_turn_result *first = submit(&w, "t", "hello", 0);
  assert_int_equal(first->outcome, c->outcome);
  assert_int_equal(w.ran, c->ran);
  reopen(&w, none, 1);
  int calls = w.calls, ran = w.ran;
  uint32_t asked = w.model->asked;
  const tp_turn_result *second = submit(&w, "t", "hello", 0);
  assert_same_result(first, second, kind != WITHOUT_ENDING);
  assert_int_equal(w.calls, calls);
  assert_int_equal(w.ran, ran);
  assert_int_equal(w.model->asked, asked);
  assert_int_equal(w.diagnostics, 1);
  tp_turn_result_free(first);
  tp_turn_result_free(second);
  world_close(&w.stage);
  end(NULL);
}

TEST(known_turn_is_answered_and_nothing_runs) {
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < COUNT(turns); i++) {
      print_message("# history %d, %s\n", kind, turns[i].name);
      check_turn(kind, &turns[i]);
    }
}

TEST_WITH(turn_that_was_cancelled_runs_again, begin, end) {
  static const reply replies[] = {{.never = true}, {.text = "so"}};
  for (uint8_t if_exists = 0; if_exists <= TP_IF_EXISTS_RUN; if_exists++) {
    char id[2] = {(char)('a' + if_exists), 0};
    world w;
    open_world(&w, MEMORY, replies, 2, TP_COMPACTION_NONE);
    tp_turn_request request = {.struct_size = sizeof request, .id = id, .text = TEXT("hello")};
    tp_submission *submission = NULL;
    assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &submission, NULL), TP_OK);
    latch_wait(&w.model->started, 1);
    tp_submission_cancel(submission);
    assert_int_equal(tp_submission_wait(submission, 60000, NULL, NULL), TP_OK);
    tp_submission_unref(submission);
    const tp_turn_result *result = submit(&w, id, "hello", if_exists);
    assert_true(!result->is_stored && tp_text_is(result->text, "so"));
    tp_turn_result_free(result);
    result = submit(&w, id, "hello", 0);
    assert_true(result->is_stored && tp_text_is(result->text, "so"));
    assert_int_equal(result->iterations, 1); /* of the run that completed */
    tp_turn_result_free(result);
    world_close(&w.stage);
  }
}

/* ---- what is refused ---- */

TEST_WITH(another_request_with_the_id_is_refused_and_leaves_nothing, begin, end) {
  static const reply replies[] = {{.text = "hi"}};
  static const struct {
    const char *id, *text;
    uint8_t if_exists;
    tp_status code;
    const char *reason; /* a part of it */
  } rows[] = {
      {"t", "bye", TP_IF_EXISTS_ANSWER, TP_ERR_EXISTS, "turn `t` of session `s` is in the history with another text"},
      {"t", "", TP_IF_EXISTS_ANSWER, TP_ERR_EXISTS, "another text"},
      {"t", "hello ", TP_IF_EXISTS_ANSWER, TP_ERR_EXISTS, "an id of its own"},
      {"t", "hello", TP_IF_EXISTS_REFUSE, TP_ERR_EXISTS, "tp_turn_request.if_exists"},
      {"t", "bye", TP_IF_EXISTS_REFUSE, TP_ERR_EXISTS, "another text"},
      {"t", "hello", TP_IF_EXISTS_ANSWER, TP_OK, ""},
  };
  world w;
  open_world(&w, MEMORY, replies, 1, TP_COMPACTION_NONE);
  assert_submit(&w, "t", "hello", TP_IF_EXISTS_REFUSE, TP_OK); /* there is none yet */
  int calls = w.calls;
  for (size_t i = 0; i < COUNT(rows); i++) {
    const tp_turn_result *result = submit(&w, rows[i].id, rows[i].text, rows[i].if_exists);
    assert_int_equal(result->code, rows[i].code);
    assert_int_equal(result->outcome, rows[i].code == TP_OK ? TP_TURN_COMPLETED : TP_TURN_FAILED);
    assert_int_equal(result->is_stored, rows[i].code == TP_OK);
    assert_true(result->reason.size >= strlen(rows[i].reason));
    if (rows[i].code != TP_OK)
      assert_non_null(memmem(result->reason.data, result->reason.size, rows[i].reason, strlen(rows[i].reason)));
    tp_turn_result_free(result);
  }
  assert_int_equal(load_all(kept->ctx).count, 2);
  assert_int_equal(w.calls, calls);
  assert_int_equal(w.model->asked, 1);
  world_close(&w.stage);
}

TEST_WITH(other_files_are_another_request, begin, end) {
  static const reply replies[] = {{.text = "hi"}};
  world w;
  open_world(&w, MEMORY, replies, 1, TP_COMPACTION_NONE);
  static const char a[] = "\x91\xa1\x61", b[] = "\x91\xa1\x62";
  tp_turn_request request = {.struct_size = sizeof request, .id = "t", .text = TEXT("look"), .files = TEXT(a)};
  const tp_turn_result *result = NULL;
  for (int i = 0; i < 3; i++) {
    if (i == 2) request.files = (tp_text){b, 3};
    assert_int_equal(tp_turn_run(w.session, &request, &result, NULL), TP_OK);
    assert_int_equal(result->code, i == 2 ? TP_ERR_EXISTS : TP_OK);
    tp_turn_result_free(result);
  }
  world_close(&w.stage);
}

TEST_WITH(option_runs_a_known_turn_again, begin, end) {
  static const reply replies[] = {{.text = "one"}, {.text = "two"}};
  world w;
  open_world(&w, MEMORY, replies, 2, TP_COMPACTION_NONE);
  assert_submit(&w, "t", "hello", TP_IF_EXISTS_RUN, TP_OK);
  assert_submit(&w, "t", "bye", TP_IF_EXISTS_RUN, TP_OK);
  assert_int_equal(w.model->asked, 2);
  const tp_turn_result *result = submit(&w, "t", "bye", 0); /* the newest run answers */
  assert_true(result->is_stored && tp_text_is(result->text, "two"));
  assert_int_equal(result->iterations, 1);
  tp_turn_result_free(result);
  world_close(&w.stage);
}

TEST_WITH(options_without_effect_are_refused, begin, end) {
  static const reply replies[] = {{.text = "hi"}};
  world w;
  open_world(&w, MEMORY, replies, 1, TP_COMPACTION_NONE);
  const tp_turn_request requests[] = {
      {.struct_size = sizeof(tp_turn_request), .text = TEXT("x"), .if_exists = TP_IF_EXISTS_REFUSE},
      {.struct_size = sizeof(tp_turn_request), .id = "t", .text = TEXT("x"), .if_exists = 3}};
  for (size_t i = 0; i < COUNT(requests); i++) {
    tp_fault fault = {0};
    assert_int_equal(tp_turn_run(w.session, &requests[i], NULL, &fault), TP_ERR_USAGE);
    assert_non_null(strstr(fault.message, "if_exists"));
  }
  tp_turn_request held = requests[1];
  held.if_exists = TP_IF_EXISTS_REFUSE;
  tp_turn *turn;
  assert_int_equal(tp_turn_begin(w.session, &held, &turn, NULL), TP_ERR_USAGE);
  world_close(&w.stage);
}

TEST_WITH(turns_without_an_id_of_the_host_run_each_time, begin, end) {
  static const reply replies[] = {{.text = "hi"}};
  world w;
  open_world(&w, MEMORY, replies, 1, TP_COMPACTION_NONE);
  assert_submit(&w, NULL, "hello", 0, TP_OK);
  assert_submit(&w, NULL, "hello", 0, TP_OK);
  assert_int_equal(w.model->asked, 2);
  for (size_t i = 0; i < load_all(kept->ctx).count; i++)
    assert_int_equal(load_all(kept->ctx).messages[i].ending.size, 0); /* they cost the history nothing */
  world_close(&w.stage);
}

/* ---- of many turns, and of turns that were compacted ---- */

static void check_many(int kind, tp_compaction compaction) {
  static const reply replies[] = {{.text = "a rather long answer, which a compaction leaves out before long"}};
  enum { TURNS = 200 };
  char id[16];
  world w;
  assert_int_equal(begin(NULL), 0);
  open_world(&w, kind, replies, 1, compaction);
  for (int i = 0; i < TURNS; i++) {
    snprintf(id, sizeof id, "t%d", i);
    assert_submit(&w, id, id, 0, TP_OK);
  }
  uint32_t asked = w.model->asked;
  bool forgotten = kind == PAST && compaction != TP_COMPACTION_NONE;
  for (int i = 0; i < TURNS; i += 17) {
    snprintf(id, sizeof id, "t%d", i);
    const tp_turn_result *result = submit(&w, id, id, 0);
    assert_int_equal(result->code, forgotten ? TP_ERR_EXISTS : TP_OK);
    assert_int_equal(result->is_stored, !forgotten);
    tp_turn_result_free(result);
  }
  assert_int_equal(w.model->asked, asked);
  world_close(&w.stage);
  end(NULL);
}

TEST(each_of_many_turns_is_known) {
  for (int kind = 0; kind < KINDS; kind++) check_many(kind, TP_COMPACTION_NONE);
}

TEST(turn_that_was_compacted_is_known) {
  for (int kind = 0; kind < WITHOUT_ENDING; kind++) check_many(kind, TP_COMPACTION_DROP_OLDEST);
}

/* ---- an ending from outside ---- */

static tp_text ending_given;
static tp_status load_given(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx;
  (void)fault;
  const tp_message user = {.struct_size = sizeof user, .role = TP_ROLE_USER, .turn_id = TEXT("t"), .text = TEXT("q")};
  const tp_message answer = {.struct_size = sizeof answer,
                             .role = TP_ROLE_ASSISTANT,
                             .turn_id = TEXT("t"),
                             .text = TEXT("stored"),
                             .ending = ending_given};
  tp_status status = request->each(request->ctx, &user);
  return status == TP_OK ? request->each(request->ctx, &answer) : status;
}
static tp_status append_nothing(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)ctx;
  (void)request;
  (void)fault;
  return TP_OK;
}

TEST(ending_that_is_none_is_read_as_its_messages) {
  static const struct {
    tp_text ending;
    tp_status code;
  } rows[] = {
      {TEXT("\xc1"), TP_ERR_MALFORMED},                                                  /* no value: the load fails */
      {{"\x80", 1}, TP_OK},                                                              /* a map */
      {{"\x91\x01", 2}, TP_OK},                                                          /* too short */
      {{"\xa1x", 2}, TP_OK},                                                             /* a text */
      {{"\x9f\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xa0\xa0\xa0", 16}, TP_OK}, /* no such outcome */
      {{"\x9f\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xa0\xa0\xa0", 16}, TP_OK}, /* failed, without a code */
      {{"\x9f\x01\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xa0\xa0\xa0", 16}, TP_OK}, /* completed, with a code */
  };
  static const reply replies[] = {{.text = "hi"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    ending_given = rows[i].ending;
    const tp_history history = {.struct_size = sizeof history, .load = load_given, .append = append_nothing};
    world w;
    memset(&w, 0, sizeof w);
    world_open(&w.stage, &(world_options){.replies = replies, .reply_count = 1, .session = {.history = &history}});
    const tp_turn_result *result = submit(&w, "t", "q", 0);
    assert_int_equal(result->code, rows[i].code);
    assert_int_equal(result->is_stored, rows[i].code == TP_OK);
    if (rows[i].code == TP_OK) assert_true(tp_text_is(result->text, "stored"));
    tp_turn_result_free(result);
    world_close(&w.stage);
  }
}

TEST(stored_answer_is_read_by_the_schema_of_the_turn) {
  static const struct {
    const char *schema;
    tp_status code;
  } rows[] = {{"{\"type\": \"object\", \"required\": [\"a\"]}", TP_OK},
              {"{\"type\": \"object\", \"required\": [\"b\"]}", TP_ERR_EXISTS},
              {"{\"type\": \"string\"}", TP_ERR_EXISTS}};
  static const reply replies[] = {{.text = "```json\n{\"a\": 7}\n```"}};
  world w;
  memset(&w, 0, sizeof w);
  world_open(&w.stage, &(world_options){.replies = replies, .reply_count = 1});
  for (size_t i = 0; i < 2 * COUNT(rows); i++) {
    const tp_turn_result *result = NULL;
    tp_fault fault = {0};
    tp_turn_request request = {
        .struct_size = sizeof request, .id = "t", .text = TEXT("q"), .answer_schema = rows[i / 2].schema};
    if (tp_turn_run(w.session, &request, &result, &fault) != TP_OK) fail_msg("%s", fault.message);
    assert_int_equal(result->code, rows[i / 2].code);
    assert_int_equal(result->is_stored, i > 0 && rows[i / 2].code == TP_OK);
    assert_int_equal(tp_value_int(tp_value_get(result->value, "a"), 0), rows[i / 2].code == TP_OK ? 7 : 0);
    if (rows[i / 2].code == TP_OK) assert_true(tp_text_is(result->text, "{\"a\": 7}"));
    tp_turn_result_free(result);
  }
  assert_int_equal(w.model->count, 1);
  world_close(&w.stage);
}
