/* SPDX-License-Identifier: Apache-2.0
 *
 * Histories as sessions use them: a counted history that many sessions share, whose sessions are deleted and listed;
 * and a history whose append answers later. tests/store/history has the behaviour of histories themselves. */
#include "tests/support/test.h"
#include "tests/support/counting.h"
#include "tests/support/model.h"

/* ---- a history that counts its calls ---- */

typedef struct counted {
  tp_history *inner;
  tp_history face;
  _Atomic int destroys;
  latch deleting, may_delete;
} counted;

static tp_status counted_load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  counted *w = ctx;
  return w->inner->load(w->inner->ctx, request, fault);
}
static tp_status counted_append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  counted *w = ctx;
  return w->inner->append(w->inner->ctx, request, fault);
}
static tp_status counted_delete(void *ctx, const tp_history_delete *request, tp_fault *fault) {
  counted *w = ctx;
  latch_hit(&w->deleting);
  latch_wait(&w->may_delete, 1);
  return w->inner->delete_session(w->inner->ctx, request, fault);
}
static tp_status counted_list(void *ctx, const tp_history_query *query, tp_history_session_fn each, void *each_ctx,
                              tp_fault *fault) {
  counted *w = ctx;
  return w->inner->list_sessions(w->inner->ctx, query, each, each_ctx, fault);
}
static void counted_destroy(void *ctx) {
  counted *w = ctx;
  w->destroys++;
  tp_history_free(w->inner);
}

static const tp_history *count_calls(counted *w) {
  *w = (counted){.deleting = LATCH, .may_delete = LATCH};
  assert_int_equal(tp_history_memory_new(NULL, &w->inner, NULL), TP_OK);
  w->face = (tp_history){.struct_size = sizeof w->face,
                         .ctx = w,
                         .load = counted_load,
                         .append = counted_append,
                         .delete_session = counted_delete,
                         .list_sessions = counted_list,
                         .destroy = counted_destroy};
  latch_hit(&w->may_delete);
  return &w->face;
}

static tp_shared_history *share(const tp_history *history) {
  tp_shared_history *shared = NULL;
  assert_int_equal(tp_history_share(NULL, history, &shared, NULL), TP_OK);
  return shared;
}

/* ---- sessions ---- */

static tp_session *open_session(tp_runtime *runtime, const char *tenant, const char *id, tp_shared_history *shared) {
  tp_session *session = NULL;
  tp_session_options options = {.struct_size = sizeof options, .id = id, .tenant = tenant, .shared_history = shared};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  return session;
}

/* Runs a turn without a model. It fails, and leaves its message and an end mark. */
static void say(tp_session *session) {
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  assert_int_equal(tp_turn_run(session, &request, NULL, NULL), TP_OK);
}

static void on_closed(void *ctx) { latch_hit(ctx); }

static void close_session(tp_session *session) {
  latch closed = LATCH;
  tp_session_close(session, on_closed, &closed);
  latch_wait(&closed, 1);
}

static bool note_name(void *ctx, const tp_history_session *row) {
  char text[64];
  snprintf(text, sizeof text, "%.*s/%.*s*%u ", (int)row->tenant.size, row->tenant.data, (int)row->session.size,
           row->session.data, (unsigned)row->message_count);
  strcat(ctx, text);
  return true;
}

#define assert_listed(shared, want)                                                          \
  do {                                                                                       \
    char names[256] = "";                                                                    \
    assert_int_equal(tp_shared_history_list((shared), NULL, note_name, names, NULL), TP_OK); \
    assert_string_equal(names, (want));                                                      \
  } while (0)

/* ---- shared ---- */

TEST(shared_history_is_destroyed_with_the_last_that_refers_to_it) {
  counted w;
  tp_shared_history *shared = share(count_calls(&w));
  tp_runtime_options options = {.struct_size = sizeof options, .shared_history = shared};
  tp_runtime *runtime = open_runtime(&options);
  tp_runtime *other = open_runtime(NULL);
  tp_session *by_default = open_session(runtime, NULL, "default", NULL);
  tp_session *named = open_session(other, "t", "named", shared);
  assert_ptr_equal(tp_shared_history_ref(shared), shared);
  tp_shared_history_unref(shared);
  tp_shared_history_unref(shared); /* the host's own */
  say(by_default);
  say(named);
  assert_listed(shared, "/default*2 t/named*2 "); /* lives by the references of runtime and sessions */
  close_session(by_default);
  close_runtime(runtime);
  assert_int_equal(w.destroys, 0);
  close_session(named);
  close_runtime(other);
  assert_int_equal(w.destroys, 1);
  tp_shared_history_unref(NULL);
  assert_null(tp_shared_history_ref(NULL));
}

TEST(sessions_of_a_shared_history_go_on_where_they_were) {
  static const reply replies[] = {{.text = "hi"}};
  counted w;
  tp_shared_history *shared = share(count_calls(&w));
  for (int i = 0; i < 2; i++) {
    tp_runtime *runtime = open_runtime(NULL);
    recorder *model = recorder_new(replies, 1);
    tp_session_options options = {
        .struct_size = sizeof options, .id = "s", .model = recorder_model(model, true), .shared_history = shared};
    tp_session *session;
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    say(session);
    assert_string_equal(model->requests[0], i == 0 ? "S<>U<hello>" : "S<>U<hello>A<hi>U<hello>");
    close_session(session);
    close_runtime(runtime);
    recorder_free(model);
  }
  tp_shared_history_unref(shared);
  assert_int_equal(w.destroys, 1);
}

TEST(what_is_refused_is_not_taken_and_not_referenced) {
  counted w;
  const tp_history *history = count_calls(&w);
  tp_history wrong = *history;
  tp_shared_history *shared = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp_history_share(NULL, NULL, &shared, &fault), TP_ERR_USAGE);
  wrong.struct_size = 3;
  assert_int_equal(tp_history_share(NULL, &wrong, &shared, &fault), TP_ERR_VERSION);
  wrong = *history;
  wrong.load = NULL;
  assert_int_equal(tp_history_share(NULL, &wrong, &shared, &fault), TP_ERR_USAGE);
  assert_null(shared);
  shared = share(history);
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session = open_session(runtime, NULL, "s", shared), *second = NULL;
  tp_session_options options = {
      .struct_size = sizeof options, .id = "two", .history = history, .shared_history = shared};
  assert_int_equal(tp_session_open(runtime, &options, &second, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "shared_history"));
  options.history = NULL;
  options.id = "s"; /* a session with this id is open */
  assert_int_equal(tp_session_open(runtime, &options, &second, &fault), TP_ERR_BUSY);
  assert_null(second);
  close_session(session);
  close_runtime(runtime);
  assert_int_equal(w.destroys, 0);
  tp_shared_history_unref(shared);
  assert_int_equal(w.destroys, 1);
}

/* ---- delete ---- */

TEST(session_is_deleted_when_it_is_closed_and_not_before) {
  counted w;
  tp_shared_history *shared = share(count_calls(&w));
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session = open_session(runtime, "t", "s", shared);
  tp_fault fault = {0};
  say(session);
  assert_int_equal(tp_shared_history_delete(shared, "t", "s", &fault), TP_ERR_BUSY);
  assert_non_null(strstr(fault.message, "`s`"));
  assert_int_equal(tp_shared_history_delete(shared, NULL, "s", &fault), TP_ERR_NOT_FOUND); /* of another tenant */
  close_session(session);
  assert_int_equal(tp_shared_history_delete(shared, "t", "s", &fault), TP_OK);
  assert_int_equal(tp_shared_history_delete(shared, "t", "s", &fault), TP_ERR_NOT_FOUND);
  assert_int_equal(tp_shared_history_delete(shared, "t", NULL, &fault), TP_ERR_USAGE);
  assert_listed(shared, "");
  close_runtime(runtime);
  tp_shared_history_unref(shared);
}

static void *delete_it(void *arg) { return (void *)(intptr_t)tp_shared_history_delete(arg, NULL, "s", NULL); }

TEST(session_that_is_being_deleted_is_not_opened) {
  counted w;
  tp_shared_history *shared = share(count_calls(&w));
  tp_runtime *runtime = open_runtime(NULL);
  tp_session *session = open_session(runtime, NULL, "s", shared);
  say(session);
  close_session(session);
  w.may_delete.count = 0;
  pthread_t deleter;
  void *status;
  assert_int_equal(pthread_create(&deleter, NULL, delete_it, shared), 0);
  latch_wait(&w.deleting, 1);
  tp_session_options options = {.struct_size = sizeof options, .id = "s", .shared_history = shared};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_ERR_BUSY);
  assert_int_equal(tp_shared_history_delete(shared, NULL, "s", NULL), TP_ERR_BUSY);
  latch_hit(&w.may_delete);
  pthread_join(deleter, &status);
  assert_int_equal((tp_status)(intptr_t)status, TP_OK);
  session = open_session(runtime, NULL, "s", shared);
  close_session(session);
  close_runtime(runtime);
  tp_shared_history_unref(shared);
}

TEST(history_without_delete_and_list_says_so) {
  counted w;
  tp_history without_lists = *count_calls(&w);
  without_lists.delete_session = NULL;
  without_lists.list_sessions = NULL;
  tp_shared_history *shared = share(&without_lists);
  tp_fault fault = {0};
  char names[8] = "";
  assert_int_equal(tp_shared_history_delete(shared, NULL, "s", &fault), TP_ERR_STORE);
  assert_non_null(strstr(fault.message, "delete_session"));
  assert_int_equal(tp_shared_history_list(shared, NULL, note_name, names, &fault), TP_ERR_STORE);
  assert_non_null(strstr(fault.message, "list_sessions"));
  tp_history_query wrong = {.struct_size = 1};
  assert_int_equal(tp_shared_history_list(shared, &wrong, note_name, names, &fault), TP_ERR_VERSION);
  tp_shared_history_unref(shared);
}

/* ---- memory ---- */

static tp_status append_one(tp_history *history, const char *session) {
  tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = TEXT("hello")};
  const tp_message *messages[] = {&message};
  tp_history_append request = {
      .struct_size = sizeof request, .session = tp_text_of(session), .messages = messages, .message_count = 1};
  return history->append(history->ctx, &request, NULL);
}

/* @return what was refused; what was not is whole. */
static tp_status live_on(long allocations) {
  tp_history *history = NULL;
  tp_shared_history *shared = NULL;
  refuse_at = allocations;
  tp_status status = tp_history_memory_new(&counting, &history, NULL);
  if (status != TP_OK) return status;
  status = tp_history_share(&counting, history, &shared, NULL);
  if (status != TP_OK) {
    tp_history_free(history); /* the runtime did not take the history */
    return status;
  }
  char names[256] = "";
  char want[256] = "";
  for (int i = 0; i < 3; i++) {
    char id[8];
    snprintf(id, sizeof id, "s%d", i);
    tp_status appended = append_one(history, id);
    if (appended != TP_OK) status = appended;
    else snprintf(want + strlen(want), sizeof want - strlen(want), "/%s*1 ", id);
  }
  assert_int_equal(tp_shared_history_list(shared, NULL, note_name, names, NULL), TP_OK);
  assert_string_equal(names, want);
  tp_shared_history_unref(shared);
  return status;
}

TEST(each_allocation_of_a_shared_memory_history_may_be_refused) {
  tp_status status = TP_ERR_NO_MEMORY;
  long n = 0;
  for (; status != TP_OK; n++) {
    status = live_on(n);
    refuse_at = -1;
    if (status != TP_OK) assert_int_equal(status, TP_ERR_NO_MEMORY);
    assert_int_equal(blocks_open, 0);
  }
  assert_true(n > 8);
}

/* ---- an append that answers later ---- */

enum { APPENDS_MAX = 32 };

typedef struct later {
  tp_token tokens[APPENDS_MAX];
  tp_text texts[APPENDS_MAX]; /* the text of the first message of each batch, borrowed until its token is completed */
  latch begun;
  pthread_mutex_t mutex;
  int count;
  bool at_once; /* completed before append_start returns */
} later;

static tp_status load_nothing(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_OK;
}

static void begin_append(void *ctx, const tp_history_append *request, tp_token token) {
  later *l = ctx;
  pthread_mutex_lock(&l->mutex);
  l->tokens[l->count] = token;
  l->texts[l->count++] = request->messages[0]->text;
  pthread_mutex_unlock(&l->mutex);
  if (l->at_once && tp_history_complete(token, TP_OK, NULL, NULL) != TP_OK) abort();
  latch_hit(&l->begun);
}

static tp_history later_history(later *l) {
  return (tp_history){.struct_size = sizeof(tp_history), .ctx = l, .load = load_nothing, .append_start = begin_append};
}

TEST(appends_that_answer_later_take_no_handler_thread) {
  enum { SESSIONS = APPENDS_MAX };
  later l = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER};
  tp_history history = later_history(&l);
  tp_shared_history *shared = share(&history);
  tp_runtime_options options = {.struct_size = sizeof options, .handler_threads = 4, .shared_history = shared};
  tp_runtime *runtime = open_runtime(&options);
  tp_session *sessions[SESSIONS];
  tp_submission *turns[SESSIONS];
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  for (int i = 0; i < SESSIONS; i++) {
    char id[8];
    snprintf(id, sizeof id, "s%d", i);
    sessions[i] = open_session(runtime, "t", id, NULL);
    assert_int_equal(tp_turn_submit(sessions[i], &request, NULL, NULL, &turns[i], NULL), TP_OK);
  }
  latch_wait(&l.begun, SESSIONS); /* all of them at once */
  for (int i = 0; i < SESSIONS; i++) {
    assert_int_equal(tp_submission_wait(turns[i], 0, NULL, NULL), TP_ERR_TIMEOUT);
  }
  for (int i = 0; i < SESSIONS; i++) { /* in the order in which they began, which need not be that of the turns */
    assert_true(l.texts[i].size == 5 && memcmp(l.texts[i].data, "hello", 5) == 0);
    assert_int_equal(tp_history_complete(l.tokens[i], TP_OK, NULL, NULL), TP_OK);
    assert_int_equal(tp_history_complete(l.tokens[i], TP_OK, NULL, NULL), TP_ERR_STALE);
  }
  for (int i = 0; i < SESSIONS; i++) {
    const tp_turn_result *result;
    assert_int_equal(tp_submission_wait(turns[i], 60000, &result, NULL), TP_OK);
    assert_int_equal(result->code, TP_ERR_MODEL); /* it has none: its message and the mark were appended */
    tp_submission_unref(turns[i]);
    tp_session_close(sessions[i], NULL, NULL);
  }
  close_runtime(runtime);
  tp_shared_history_unref(shared);
}

typedef struct failing_append {
  tp_status status;
  const char *message;
  tp_turn_outcome outcome;
  const char *reason;
} failing_append;

TEST(append_that_fails_later_fails_its_turn_and_says_why) {
  static const reply replies[] = {{.text = "hi"}};
  static const failing_append cases[] = {
      {TP_OK, "not read", TP_TURN_COMPLETED, ""},
      {TP_ERR_STORE_FULL, "no room left", TP_TURN_FAILED, "the turn was not stored: no room left"},
      {TP_ERR_STORE_FULL, NULL, TP_TURN_FAILED, "the turn was not stored: the disk is full"},
      {TP_ERR_STORE_BUSY, "\xc3(", TP_TURN_FAILED,
       "the turn was not stored: the store is locked by another connection or process"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    later l = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER};
    tp_history history = later_history(&l);
    tp_runtime *runtime = open_runtime(NULL);
    recorder *model = recorder_new(replies, 1);
    tp_session_options options = {
        .struct_size = sizeof options, .id = "s", .model = recorder_model(model, true), .history = &history};
    tp_session *session;
    tp_submission *turn;
    tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
    assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
    assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &turn, NULL), TP_OK);
    latch_wait(&l.begun, 1);
    tp_fault fault = {.code = TP_ERR_IO};
    if (cases[i].message) strcpy(fault.message, cases[i].message);
    assert_int_equal(tp_history_complete(l.tokens[0], (tp_status)4711, NULL, NULL), TP_ERR_USAGE);
    assert_true(tp_token_open(l.tokens[0])); /* that completed nothing */
    assert_int_equal(tp_history_complete(l.tokens[0], cases[i].status, cases[i].message ? &fault : NULL, NULL), TP_OK);
    const tp_turn_result *result;
    assert_int_equal(tp_submission_wait(turn, 60000, &result, NULL), TP_OK);
    assert_int_equal(result->outcome, cases[i].outcome);
    assert_int_equal(result->code, cases[i].status);
    assert_int_equal(result->reason.size, strlen(cases[i].reason));
    assert_memory_equal(result->reason.data ? result->reason.data : "", cases[i].reason, result->reason.size);
    tp_submission_unref(turn);
    close_session(session);
    close_runtime(runtime);
    recorder_free(model);
  }
}

TEST(append_may_be_completed_before_its_start_returns) {
  static const reply replies[] = {{.text = "hi"}};
  later l = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER, .at_once = true};
  tp_history history = later_history(&l);
  tp_runtime *runtime = open_runtime(NULL);
  recorder *model = recorder_new(replies, 1);
  tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = recorder_model(model, true), .history = &history};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  say(session);
  say(session);
  assert_string_equal(model->requests[1], "S<>U<hello>A<hi>U<hello>");
  close_session(session);
  close_runtime(runtime);
  recorder_free(model);
}

TEST(token_of_an_append_is_completed_by_tp_history_complete_alone) {
  later l = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER};
  tp_history history = later_history(&l);
  tp_runtime *runtime = open_runtime(NULL);
  static const reply replies[] = {{.text = "hi"}};
  recorder *model = recorder_new(replies, 1);
  tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = recorder_model(model, true), .history = &history};
  tp_session *session;
  tp_submission *turn;
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  assert_int_equal(tp_turn_submit(session, &request, NULL, NULL, &turn, NULL), TP_OK);
  latch_wait(&l.begun, 1);
  assert_int_equal(tp_token_complete(l.tokens[0], &done, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_tool_complete(l.tokens[0], false, tp_text_of("done"), NULL), TP_ERR_USAGE);
  assert_int_equal(tp_model_fail(l.tokens[0], TP_ERR_MODEL, "no", false, NULL), TP_ERR_USAGE);
  assert_true(tp_token_open(l.tokens[0]));
  assert_int_equal(tp_history_complete(l.tokens[0], TP_OK, NULL, NULL), TP_OK);
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(turn, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, TP_TURN_COMPLETED);
  tp_submission_unref(turn);
  close_session(session);
  close_runtime(runtime);
  recorder_free(model);
}

TEST(history_has_a_way_to_append) {
  counted w;
  tp_shared_history *shared = NULL;
  tp_fault fault = {0};
  tp_history history = *count_calls(&w);
  history.append = NULL;
  assert_int_equal(tp_history_share(NULL, &history, &shared, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "append_start"));
  tp_history_free(w.inner);
}

static tp_status refuse_append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)ctx, (void)request, (void)fault;
  return TP_ERR_STORE;
}

/* No handler thread waits where none has to. */
TEST(turn_begins_its_append_where_it_could_wait_for_it) {
  later l = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER, .at_once = true};
  tp_history history = later_history(&l);
  history.append = history.append_paired = refuse_append;
  tp_shared_history *shared = share(&history);
  tp_runtime_options options = {.struct_size = sizeof options, .shared_history = shared};
  tp_runtime *runtime = open_runtime(&options);
  tp_session *session = open_session(runtime, NULL, "s", NULL);
  say(session);
  assert_int_equal(l.count, 1);
  close_session(session);
  close_runtime(runtime);
  tp_shared_history_unref(shared);
}

/* ---- a load that answers later ---- */

typedef struct slow {
  tp_token tokens[APPENDS_MAX];
  const tp_history_load *requests[APPENDS_MAX]; /* these are borrowed until the token is completed */
  latch begun;
  pthread_mutex_t mutex;
  int count;
  _Atomic int cancels, appends;
  _Atomic uint64_t cancelled; /* the newest token */
  bool at_once;               /* completed before load_start returns */
} slow;

static const tp_message said_before[] = {
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .turn_id = TEXT("t0"), .text = TEXT("before")},
    {.struct_size = sizeof(tp_message), .role = TP_ROLE_ASSISTANT, .turn_id = TEXT("t0"), .text = TEXT("answered")}};
static const tp_message *const before[] = {&said_before[0], &said_before[1]};

static void begin_load(void *ctx, const tp_history_load *request, tp_token token) {
  slow *s = ctx;
  pthread_mutex_lock(&s->mutex);
  s->tokens[s->count] = token;
  s->requests[s->count++] = request;
  pthread_mutex_unlock(&s->mutex);
  if (s->at_once && tp_history_complete_load(token, TP_OK, before, 2, NULL, NULL) != TP_OK) abort();
  latch_hit(&s->begun);
}

static void note_load_cancel(void *ctx, tp_token token) {
  slow *s = ctx;
  s->cancelled = token.bits;
  s->cancels++;
}

static tp_status append_to_nothing(void *ctx, const tp_history_append *request, tp_fault *fault) {
  (void)request, (void)fault;
  ((slow *)ctx)->appends++;
  return TP_OK;
}

static tp_history slow_history(slow *s) {
  return (tp_history){.struct_size = sizeof(tp_history),
                      .ctx = s,
                      .load_start = begin_load,
                      .load_cancel = note_load_cancel,
                      .append = append_to_nothing};
}

/* A session whose history loads later, its model, and one turn of it. */
typedef struct loading {
  slow s;
  tp_runtime *runtime;
  recorder *model;
  tp_session *session;
  tp_submission *turn;
} loading;

static void submit(loading *l, uint32_t limit_ms) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello"), .limit_ms = limit_ms};
  assert_int_equal(tp_turn_submit(l->session, &request, NULL, NULL, &l->turn, NULL), TP_OK);
}

static void begin(loading *l, bool at_once, uint32_t limit_ms) {
  static const reply replies[] = {{.text = "hi"}};
  *l = (loading){.s = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER, .at_once = at_once}};
  tp_history history = slow_history(&l->s);
  l->runtime = open_runtime(NULL);
  l->model = recorder_new(replies, 1);
  tp_session_options options = {.struct_size = sizeof options,
                                .id = "s",
                                .tenant = "t",
                                .model = recorder_model(l->model, true),
                                .history = &history};
  assert_int_equal(tp_session_open(l->runtime, &options, &l->session, NULL), TP_OK);
  submit(l, limit_ms);
  latch_wait(&l->s.begun, 1);
}

static void expect(loading *l, tp_turn_outcome outcome, tp_status code, const char *reason) {
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(l->turn, 60000, &result, NULL), TP_OK);
  assert_int_equal(result->outcome, outcome);
  assert_int_equal(result->code, code);
  if (reason && !tp_text_is(result->reason, reason))
    fail_msg("the reason is %.*s", (int)result->reason.size, result->reason.data);
  tp_submission_unref(l->turn);
}

static void end(loading *l) {
  close_session(l->session);
  close_runtime(l->runtime);
  recorder_free(l->model);
}

TEST(loads_that_answer_later_take_no_thread) {
  enum { SESSIONS = APPENDS_MAX };
  slow s = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER};
  tp_history history = slow_history(&s);
  tp_shared_history *shared = share(&history);
  tp_runtime_options options = {
      .struct_size = sizeof options, .engine_workers = 1, .handler_threads = 4, .shared_history = shared};
  tp_runtime *runtime = open_runtime(&options);
  tp_session *sessions[SESSIONS];
  tp_submission *turns[SESSIONS];
  tp_turn_request request = {.struct_size = sizeof request, .text = TEXT("hello")};
  for (int i = 0; i < SESSIONS; i++) {
    char id[8];
    snprintf(id, sizeof id, "s%d", i);
    sessions[i] = open_session(runtime, "t", id, NULL);
    assert_int_equal(tp_turn_submit(sessions[i], &request, NULL, NULL, &turns[i], NULL), TP_OK);
  }
  latch_wait(&s.begun, SESSIONS); /* all of them at once */
  for (int i = 0; i < SESSIONS; i++) {
    assert_true(tp_text_is(s.requests[i]->tenant, "t") && s.requests[i]->session.data[0] == 's');
    assert_null(s.requests[i]->each);
    assert_int_equal(tp_history_complete_load(s.tokens[i], TP_OK, NULL, 0, NULL, NULL), TP_OK);
    assert_int_equal(tp_history_complete_load(s.tokens[i], TP_OK, NULL, 0, NULL, NULL), TP_ERR_STALE);
  }
  for (int i = 0; i < SESSIONS; i++) {
    const tp_turn_result *result;
    assert_int_equal(tp_submission_wait(turns[i], 60000, &result, NULL), TP_OK);
    assert_int_equal(result->code, TP_ERR_MODEL); /* it has none */
    tp_submission_unref(turns[i]);
    tp_session_close(sessions[i], NULL, NULL);
  }
  assert_int_equal(s.cancels, 0);
  close_runtime(runtime);
  tp_shared_history_unref(shared);
}

TEST(messages_that_were_loaded_later_stand_before_the_turn) {
  loading l;
  begin(&l, false, 0);
  assert_int_equal(tp_history_complete_load(l.s.tokens[0], TP_OK, before, 2, NULL, NULL), TP_OK);
  expect(&l, TP_TURN_COMPLETED, TP_OK, NULL);
  submit(&l, 0); /* that loads nothing any more */
  expect(&l, TP_TURN_COMPLETED, TP_OK, NULL);
  assert_string_equal(l.model->requests[0], "S<>U<before>A<answered>U<hello>");
  assert_string_equal(l.model->requests[1], "S<>U<before>A<answered>U<hello>A<hi>U<hello>");
  assert_int_equal(l.s.count, 1);
  assert_int_equal(l.s.appends, 2);
  end(&l);
}

TEST(load_may_be_completed_before_its_start_returns) {
  loading l;
  begin(&l, true, 0);
  expect(&l, TP_TURN_COMPLETED, TP_OK, NULL);
  assert_string_equal(l.model->requests[0], "S<>U<before>A<answered>U<hello>");
  assert_int_equal(l.s.cancels, 0);
  end(&l);
}

TEST(load_may_be_completed_on_the_thread_of_a_synchronous_turn) {
  static const reply replies[] = {{.text = "hi"}};
  slow s = {.begun = LATCH, .mutex = PTHREAD_MUTEX_INITIALIZER, .at_once = true};
  tp_history history = slow_history(&s);
  tp_runtime_options alone = {.struct_size = sizeof alone, .no_engine_workers = true};
  tp_runtime *runtime = open_runtime(&alone);
  recorder *model = recorder_new(replies, 1);
  tp_session_options options = {
      .struct_size = sizeof options, .id = "s", .model = recorder_model(model, true), .history = &history};
  tp_session *session;
  assert_int_equal(tp_session_open(runtime, &options, &session, NULL), TP_OK);
  say(session);
  assert_string_equal(model->requests[0], "S<>U<before>A<answered>U<hello>");
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
}

typedef struct failing_load {
  tp_status status;
  const char *message, *reason;
} failing_load;

TEST(load_that_fails_later_fails_its_turn_and_is_begun_again) {
  static const failing_load cases[] = {
      {TP_ERR_STORE_BUSY, "it is locked", "the history was not loaded: it is locked"},
      {TP_ERR_STORE_BUSY, NULL, "the history was not loaded: the store is locked by another connection or process"},
      {TP_ERR_STORE_BUSY, "\xc3(", "the history was not loaded: the store is locked by another connection or process"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    loading l;
    begin(&l, false, 0);
    tp_fault why = {.code = TP_ERR_IO};
    if (cases[i].message) strcpy(why.message, cases[i].message);
    assert_int_equal(
        tp_history_complete_load(l.s.tokens[0], cases[i].status, NULL, 0, cases[i].message ? &why : NULL, NULL), TP_OK);
    expect(&l, TP_TURN_FAILED, cases[i].status, cases[i].reason);
    assert_int_equal(l.model->asked, 0);
    submit(&l, 0);
    latch_wait(&l.s.begun, 2);
    assert_int_equal(tp_history_complete_load(l.s.tokens[1], TP_OK, before, 2, NULL, NULL), TP_OK);
    expect(&l, TP_TURN_COMPLETED, TP_OK, NULL);
    end(&l);
  }
}

TEST(load_with_a_message_that_is_none_fails_its_turn) {
  const tp_message cases[] = {{.struct_size = 4, .role = TP_ROLE_USER},
                              {.struct_size = sizeof(tp_message), .role = (tp_role)4711}};
  for (size_t i = 0; i <= COUNT(cases); i++) {
    const tp_message *const messages[] = {&said_before[0], i < COUNT(cases) ? &cases[i] : NULL};
    loading l;
    begin(&l, false, 0);
    assert_int_equal(tp_history_complete_load(l.s.tokens[0], TP_OK, messages, 2, NULL, NULL), TP_OK);
    expect(&l, TP_TURN_FAILED, i == 0 ? TP_ERR_VERSION : TP_ERR_USAGE, NULL);
    assert_int_equal(l.model->asked, 0);
    end(&l);
  }
}

TEST(load_that_does_not_answer_ends_at_the_limit_of_its_turn) {
  loading l;
  begin(&l, false, 20);
  expect(&l, TP_TURN_TIMED_OUT, TP_ERR_TIMEOUT, NULL);
  assert_int_equal(l.s.cancels, 1);
  assert_true(l.s.cancelled == l.s.tokens[0].bits);
  assert_true(tp_text_is(l.s.requests[0]->session, "s")); /* kept until its token is completed */
  assert_int_equal(tp_history_complete_load(l.s.tokens[0], TP_OK, before, 2, NULL, NULL), TP_ERR_STALE);
  assert_int_equal(tp_history_complete_load(l.s.tokens[0], TP_OK, before, 2, NULL, NULL), TP_ERR_STALE);
  submit(&l, 0);
  latch_wait(&l.s.begun, 2);
  assert_int_equal(tp_history_complete_load(l.s.tokens[1], TP_OK, NULL, 0, NULL, NULL), TP_OK);
  expect(&l, TP_TURN_COMPLETED, TP_OK, NULL);
  assert_string_equal(l.model->requests[0], "S<>U<hello>"); /* the request has nothing of the late answer */
  end(&l);
}

TEST(cancel_of_a_turn_ends_its_load) {
  loading l;
  begin(&l, false, 0);
  tp_submission_cancel(l.turn);
  expect(&l, TP_TURN_CANCELLED, TP_ERR_CANCELLED, NULL);
  assert_int_equal(l.s.cancels, 1);
  assert_int_equal(tp_history_complete_load(l.s.tokens[0], TP_ERR_STORE, NULL, 0, NULL, NULL), TP_ERR_STALE);
  end(&l);
}

TEST(abandoned_load_fails_its_turn) {
  loading l;
  begin(&l, false, 0);
  assert_int_equal(tp_token_abandon(l.s.tokens[0], NULL), TP_OK);
  expect(&l, TP_TURN_FAILED, TP_ERR_STORE, NULL);
  end(&l);
}

TEST(load_is_completed_after_its_runtime) {
  loading l;
  begin(&l, false, 0);
  tp_submission_unref(l.turn);
  tp_session_close(l.session, NULL, NULL);
  close_runtime(l.runtime);
  assert_int_equal(tp_history_complete_load(l.s.tokens[0], TP_OK, before, 2, NULL, NULL), TP_ERR_STALE);
  recorder_free(l.model);
}

TEST(wrong_completion_of_a_load_leaves_its_token_open) {
  loading l;
  tp_fault fault = {0};
  tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  begin(&l, false, 0);
  tp_token token = l.s.tokens[0];
  assert_int_equal(tp_history_complete_load(token, (tp_status)4711, NULL, 0, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_history_complete_load(token, TP_OK, NULL, 2, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "messages is NULL"));
  assert_int_equal(tp_history_complete_load(token, TP_ERR_STORE, before, 2, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "TP_ERR_STORE"));
  assert_int_equal(tp_history_complete(token, TP_OK, NULL, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "tp_history_complete_load()"));
  assert_int_equal(tp_token_complete(token, &done, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_model_fail(token, TP_ERR_MODEL, "no", false, NULL), TP_ERR_USAGE);
  assert_true(tp_token_open(token)); /* that completed nothing */
  assert_int_equal(tp_history_complete_load(token, TP_OK, NULL, 0, NULL, NULL), TP_OK);
  expect(&l, TP_TURN_COMPLETED, TP_OK, NULL);
  assert_int_equal(tp_history_complete_load((tp_token){0}, TP_OK, NULL, 0, NULL, NULL), TP_ERR_STALE);
  end(&l);
}

TEST(history_has_one_way_to_load) {
  slow s = {.begun = LATCH};
  tp_shared_history *shared = NULL;
  tp_fault fault = {0};
  tp_history history = slow_history(&s);
  history.load = load_nothing;
  assert_int_equal(tp_history_share(NULL, &history, &shared, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "load_start"));
  history.load_start = NULL;
  assert_int_equal(tp_history_share(NULL, &history, &shared, &fault), TP_ERR_USAGE);
  assert_non_null(strstr(fault.message, "load_cancel"));
  history.load = NULL;
  history.load_cancel = NULL;
  assert_int_equal(tp_history_share(NULL, &history, &shared, &fault), TP_ERR_USAGE);
}
