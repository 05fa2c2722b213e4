/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite of channels for questions: stored in the file of a store, or in a database; answered by any
 * process, once, even after the process that asked is gone. To add a channel, add one line to the table `channels`. */
#include <sqlite3.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"
#ifdef TP_WITH_POSTGRES
#include "tests/support/postgres_server.h"
#include "turnphase/postgres.h"
#endif

typedef struct channel {
  const char *name;
  tp_question_fn put;
  void *(*open)(tp_log_fn log, void *log_ctx);
  void (*close)(void *questions);
  tp_status (*list)(bool open_only, tp_kept_question_fn each, void *ctx, tp_fault *fault);
  tp_status (*answer)(uint64_t number, const tp_decision *decision, tp_fault *fault);
  void (*run_sql)(const char *statement); /* on the table `question` */
} channel;

/* ---- a file ---- */

static void *open_file(tp_log_fn log, void *log_ctx) {
  tp_sqlite_questions *questions = NULL;
  tp_fault fault = {0};
  const tp_sqlite_questions_options options = {
      .struct_size = sizeof options, .path = path, .poll_ms = 10, .log = log, .log_ctx = log_ctx};
  if (tp_sqlite_questions_open(&options, &questions, &fault) != TP_OK) fail_msg("%s", fault.message);
  return questions;
}

static void close_file(void *questions) { tp_sqlite_questions_close(questions); }

static tp_status list_file(bool open_only, tp_kept_question_fn each, void *ctx, tp_fault *fault) {
  return tp_sqlite_questions_list(path, open_only, each, ctx, fault);
}

static tp_status answer_file(uint64_t number, const tp_decision *decision, tp_fault *fault) {
  return tp_sqlite_question_answer(path, number, decision, fault);
}

static void run_on_file(const char *statement) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 10000);
  assert_int_equal(sqlite3_exec(db, statement, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

/* ---- a database ---- */

#ifdef TP_WITH_POSTGRES
static tp_postgres *database; /* what another process has */
static char schema[16];
static int schema_count;

static tp_postgres *connect_database(void) {
  tp_postgres *opened = NULL;
  tp_fault fault = {0};
  const tp_postgres_options options = {
      .struct_size = sizeof options, .conninfo = postgres_server.conninfo, .schema = schema, .timeout_ms = 3000};
  if (tp_postgres_open(&options, &opened, &fault) != TP_OK) fail_msg("%s", fault.message);
  return opened;
}

static void *open_database(tp_log_fn log, void *log_ctx) {
  tp_postgres_questions *questions = NULL;
  tp_fault fault = {0};
  const tp_postgres_questions_options options = {
      .struct_size = sizeof options, .poll_ms = 10, .log = log, .log_ctx = log_ctx};
  tp_postgres *own = connect_database();
  if (tp_postgres_questions_open(own, &options, &questions, &fault) != TP_OK) fail_msg("%s", fault.message);
  tp_postgres_close(own);
  return questions;
}

static void close_database(void *questions) { tp_postgres_questions_close(questions); }

static tp_status list_database(bool open_only, tp_kept_question_fn each, void *ctx, tp_fault *fault) {
  return tp_postgres_questions_list(database, open_only, each, ctx, fault);
}

static tp_status answer_database(uint64_t number, const tp_decision *decision, tp_fault *fault) {
  return tp_postgres_question_answer(database, number, decision, fault);
}

static void run_on_database(const char *statement) {
  char search[64];
  PGconn *connection = PQconnectdb(postgres_server.conninfo);
  snprintf(search, sizeof search, "SET search_path = %s", schema);
  PQclear(PQexec(connection, search));
  PGresult *result = PQexec(connection, statement);
  assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
  PQclear(result);
  PQfinish(connection);
}
#endif

static const channel channels[] = {
    {"sqlite", tp_sqlite_questions_put, open_file, close_file, list_file, answer_file, run_on_file},
#ifdef TP_WITH_POSTGRES
    /* the last: it is left out where there is no server */
    {"postgres", tp_postgres_questions_put, open_database, close_database, list_database, answer_database,
     run_on_database},
#endif
};
static const channel *kind; /* under test */

static int make_place(void **state) {
  kind = *state;
#ifdef TP_WITH_POSTGRES
  if (kind->open == open_database) {
    snprintf(schema, sizeof schema, "s%d", schema_count++);
    database = connect_database();
    return 0;
  }
#endif
  return make_directory(state);
}

static int remove_place(void **state) {
#ifdef TP_WITH_POSTGRES
  if (kind->open == open_database) {
    tp_postgres_close(database);
    return 0;
  }
#endif
  return remove_directory(state);
}

/* ---- a host ---- */

typedef struct world {
  void *questions;
  tp_runtime *runtime;
  tp_session *session;
  tp_submission *turn;
  recorder *model;
  tp_tool tool;
  const tp_tool *list[1];
  tp_contribution bundle;
  act contributes;
  _Atomic int runs, logged;
  char argument[4];
} world;

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  ((world *)ctx)->runs++;
  return tp_tool_ok(run, tp_text_of("written"));
}

static int32_t asks(void *ctx, const tp_permission_request *request) {
  (void)ctx, (void)request;
  return TP_PERMISSION_ASK;
}

static void note_log(void *ctx, const tp_log_record *record) {
  if (record->level == TP_LOG_ERROR) ((world *)ctx)->logged++;
}

static const reply replies[] = {
    {.calls = {{.id = TEXT("c1"), .name = TEXT("write"), .arguments = {"\x81\xa1n\x07", 4}}}, .call_count = 1},
    {.text = "done"}};

static void open_world(world *w) {
  w->questions = kind->open(note_log, w);
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .ask = kind->put,
                                      .ask_ctx = w->questions,
                                      .permission = asks,
                                      .permission_ctx = w};
  w->runtime = open_runtime(&options);
  w->tool = (tp_tool){
      .struct_size = sizeof(tp_tool), .name = "write", .run = run_tool, .ctx = w, .placement = TP_PLACEMENT_INLINE};
  w->list[0] = &w->tool;
  w->bundle = (tp_contribution){.struct_size = sizeof w->bundle,
                                .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                .key = TEXT("b"),
                                .tools = w->list,
                                .tool_count = 1};
  w->contributes = (act){.emits = &w->bundle, .emit_count = 1};
  const hook bundle = {.id = "bundle", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &w->contributes};
  add_hooks(w->runtime, &bundle, 1);
  w->model = recorder_new(replies, COUNT(replies));
  const tp_session_options session = {
      .struct_size = sizeof session, .id = "s", .tenant = "t", .model = recorder_model(w->model, true)};
  assert_int_equal(tp_session_open(w->runtime, &session, &w->session, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .id = "turn-1", .text = TEXT("write it")};
  assert_int_equal(tp_turn_submit(w->session, &request, NULL, NULL, &w->turn, NULL), TP_OK);
}

static void close_world(world *w) {
  tp_submission_unref(w->turn);
  tp_session_close(w->session, NULL, NULL);
  close_runtime(w->runtime);
  kind->close(w->questions);
  recorder_free(w->model);
}

/* ---- the rows, as another process sees them ---- */

typedef struct rows {
  size_t count;
  tp_kept_question last;
  char turn[32], tool[32], person[32];
} rows;

static bool keep_row(void *ctx, const tp_kept_question *q) {
  rows *r = ctx;
  r->count++;
  r->last = *q;
  snprintf(r->turn, sizeof r->turn, "%.*s", (int)q->turn.size, q->turn.data);
  snprintf(r->tool, sizeof r->tool, "%.*s", (int)q->tool.size, q->tool.data);
  snprintf(r->person, sizeof r->person, "%.*s", (int)q->person.size, q->person.data);
  return true;
}

static rows read_rows(bool open_only) {
  rows r = {0};
  tp_fault fault = {0};
  if (kind->list(open_only, keep_row, &r, &fault) != TP_OK) fail_msg("%s", fault.message);
  return r;
}

static rows await_question(void) {
  rows r = read_rows(true);
  for (; r.count == 0 || !r.last.is_waited_for; r = read_rows(true)) sleep_ms(1);
  return r;
}

static tp_status answer(uint64_t number, tp_verdict verdict, tp_text hash, tp_fault *fault) {
  const tp_decision decision = {.struct_size = sizeof decision,
                                .verdict = verdict,
                                .arguments_hash = hash,
                                .reason = TEXT("as the test says"),
                                .person = TEXT("ann")};
  return kind->answer(number, &decision, fault);
}

static void await_end(world *w, int runs) {
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(w->turn, 60000, &result, NULL), TP_OK);
  assert_string_equal(tp_turn_outcome_name(result->outcome), "completed");
  assert_int_equal(w->runs, runs);
}

/* ---- cases ---- */

FOR_EACH_TEST(make_place, remove_place);

TEST(an_answer_of_another_process_counts_once) {
  world w = {0};
  tp_fault fault;
  open_world(&w);
  rows r = await_question();
  assert_string_equal(r.turn, "turn-1");
  assert_string_equal(r.tool, "write");
  assert_int_equal(r.last.arguments.size, 4);
  assert_true(r.last.expires_unix_ms > r.last.asked_unix_ms);
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, NULL), TP_OK);
  await_end(&w, 1);
  assert_int_equal(answer(r.last.number, TP_VERDICT_DENY, (tp_text){0}, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "answered before"));
  assert_int_equal(answer(r.last.number + 1, TP_VERDICT_DENY, (tp_text){0}, NULL), TP_ERR_NOT_FOUND);
  assert_int_equal(read_rows(true).count, 0);
  r = read_rows(false);
  assert_int_equal(r.last.state, TP_QUESTION_ALLOWED);
  assert_string_equal(r.person, "ann");
  assert_true(r.last.used_unix_ms >= r.last.answered_unix_ms);
  assert_int_equal(r.last.arguments.size, 0);
  close_world(&w);
}

TEST(a_denial_is_one_with_its_reason) {
  world w = {0};
  open_world(&w);
  rows r = await_question();
  assert_int_equal(answer(r.last.number, TP_VERDICT_DENY, (tp_text){0}, NULL), TP_OK);
  await_end(&w, 0);
  assert_non_null(strstr(w.model->requests[1], "as the test says"));
  close_world(&w);
}

/* The first process is gone before the answer, or after it; the same turn is submitted again. */
TEST(an_answer_survives_the_process_that_asked) {
  for (int answered_between = 0; answered_between < 2; answered_between++) {
    world w = {0}, again = {0};
    if (answered_between) kind->run_sql("DELETE FROM question");
    open_world(&w);
    rows r = await_question();
    tp_submission_cancel(w.turn);
    close_world(&w);
    assert_int_equal(read_rows(true).last.is_waited_for, 0);
    if (answered_between) assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, NULL), TP_OK);
    open_world(&again);
    if (!answered_between) {
      assert_int_equal(await_question().last.number, r.last.number);
      assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, NULL), TP_OK);
    }
    await_end(&again, 1);
    close_world(&again);
    assert_int_equal(read_rows(false).count, 1);
    world third = {0}; /* the answer was used: it is asked anew */
    open_world(&third);
    assert_int_equal(await_question().last.number, r.last.number + 1);
    tp_submission_cancel(third.turn);
    close_world(&third);
  }
}

/* The same turn runs twice at once, in two processes: they wait for one row until it is answered. */
TEST(an_answer_is_for_one_of_two_calls_that_wait) {
  world a = {0}, b = {0};
  open_world(&a);
  rows r = await_question();
  sleep_ms(2); /* the limit of b's question ends in another millisecond, so the row shows when b waits for it, too */
  open_world(&b);
  rows second = r;
  while (second.last.expires_unix_ms == r.last.expires_unix_ms) second = read_rows(true);
  assert_int_equal(second.last.number, r.last.number);
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, NULL), TP_OK);
  second = await_question();
  assert_int_equal(second.last.number, r.last.number + 1);
  assert_int_equal(a.runs + b.runs <= 1, 1);
  assert_int_equal(answer(second.last.number, TP_VERDICT_DENY, (tp_text){0}, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(a.turn, 60000, NULL, NULL), TP_OK);
  assert_int_equal(tp_submission_wait(b.turn, 60000, NULL, NULL), TP_OK);
  assert_int_equal(a.runs + b.runs, 1);
  close_world(&a);
  close_world(&b);
}

/* The question is answered in time, and its turn comes back after the question would have expired. */
TEST(an_answer_in_time_counts_later) {
  world w = {0}, again = {0};
  open_world(&w);
  rows r = await_question();
  tp_submission_cancel(w.turn);
  close_world(&w);
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, NULL), TP_OK);
  kind->run_sql("UPDATE question SET expires_ms = answered_ms + 1");
  sleep_ms(2);
  open_world(&again);
  await_end(&again, 1);
  close_world(&again);
}

TEST(an_answer_to_other_arguments_is_refused) {
  world w = {0};
  tp_fault fault;
  open_world(&w);
  rows r = await_question();
  tp_text other = TEXT("00000000000000000000000000000000");
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, other, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "other arguments"));
  assert_int_equal(answer(r.last.number, TP_VERDICT_NONE, (tp_text){0}, NULL), TP_ERR_USAGE);
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, r.last.arguments_hash.size ? (tp_text){0} : other, NULL),
                   TP_OK);
  await_end(&w, 1);
  close_world(&w);
}

/* One that has expired is answered by nobody, and its turn asks anew. */
TEST(question_that_has_expired_is_not_answered) {
  world w = {0}, again = {0};
  tp_fault fault;
  open_world(&w);
  rows r = await_question();
  tp_submission_cancel(w.turn);
  close_world(&w);
  kind->run_sql("UPDATE question SET expires_ms = asked_ms");
  assert_int_equal(read_rows(true).count, 0);
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, &fault), TP_ERR_STALE);
  assert_non_null(strstr(fault.message, "expired"));
  open_world(&again);
  assert_true(await_question().last.number > r.last.number);
  tp_submission_cancel(again.turn);
  close_world(&again);
}

/* What cannot be written is denied, and the log says so. */
TEST(question_that_cannot_be_written_is_denied) {
  world w = {0};
  open_world(&w);
  (void)await_question();
  const tp_turn_request request = {.struct_size = sizeof request, .id = "turn-2", .text = TEXT("write it")};
  tp_submission_cancel(w.turn);
  assert_int_equal(tp_submission_wait(w.turn, 60000, NULL, NULL), TP_OK);
  tp_submission_unref(w.turn);
  kind->run_sql("DROP TABLE question");
  w.model->asked = 0;
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &w.turn, NULL), TP_OK);
  await_end(&w, 0);
  assert_true(w.logged > 0);
  close_world(&w);
}

/* A file that was moved away is not the one that other processes see. */
TEST(file_that_is_gone_denies) {
  if (kind->open != open_file) return;
  world w = {0};
  char moved[200];
  kind->close(kind->open(NULL, NULL)); /* makes the file */
  snprintf(moved, sizeof moved, "%s.moved", path);
  open_world(&w);
  (void)await_question();
  assert_int_equal(rename(path, moved), 0);
  const tp_turn_request request = {.struct_size = sizeof request, .id = "turn-2", .text = TEXT("write it")};
  tp_submission_cancel(w.turn);
  assert_int_equal(tp_submission_wait(w.turn, 60000, NULL, NULL), TP_OK);
  tp_submission_unref(w.turn);
  w.model->asked = 0;
  assert_int_equal(tp_turn_submit(w.session, &request, NULL, NULL, &w.turn, NULL), TP_OK);
  await_end(&w, 0);
  assert_true(w.logged > 0);
  close_world(&w);
}

/* Old ones go when a channel is opened. */
TEST(questions_of_last_week_are_deleted) {
  world w = {0};
  open_world(&w);
  (void)await_question();
  tp_submission_cancel(w.turn);
  close_world(&w);
  kind->run_sql("UPDATE question SET expires_ms = expires_ms - 6 * 86400000");
  kind->close(kind->open(NULL, NULL));
  assert_int_equal(read_rows(false).count, 1);
  kind->run_sql("UPDATE question SET expires_ms = expires_ms - 2 * 86400000");
  kind->close(kind->open(NULL, NULL));
  assert_int_equal(read_rows(false).count, 0);
}

static void refuse_options_of_file(void) {
  tp_sqlite_questions *questions = NULL;
  tp_sqlite_questions_options options = {.struct_size = sizeof options};
  assert_int_equal(tp_sqlite_questions_open(NULL, &questions, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_sqlite_questions_open(&options, &questions, NULL), TP_ERR_USAGE);
  options.path = path;
  options.reserved_ = 1;
  assert_int_equal(tp_sqlite_questions_open(&options, &questions, NULL), TP_ERR_USAGE);
  options.reserved_ = 0;
  options.struct_size = 3;
  assert_int_equal(tp_sqlite_questions_open(&options, &questions, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_sqlite_questions_list("/nonexistent/turnphase.db", true, keep_row, NULL, NULL), TP_ERR_IO);
  assert_null(questions);
  tp_sqlite_questions_close(NULL);
}

#ifdef TP_WITH_POSTGRES
static void refuse_options_of_database(void) {
  tp_postgres_questions *questions = NULL;
  tp_postgres_questions_options options = {.struct_size = sizeof options, .reserved_ = 1};
  assert_int_equal(tp_postgres_questions_open(NULL, &options, &questions, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_questions_open(database, &options, &questions, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_questions_open(database, NULL, NULL, NULL), TP_ERR_USAGE);
  options.reserved_ = 0;
  options.struct_size = 3;
  assert_int_equal(tp_postgres_questions_open(database, &options, &questions, NULL), TP_ERR_VERSION);
  assert_int_equal(tp_postgres_questions_list(NULL, true, keep_row, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp_postgres_question_answer(NULL, 1, NULL, NULL), TP_ERR_USAGE);
  assert_null(questions);
  tp_postgres_questions_close(NULL);
  tp_postgres_questions_put(NULL, NULL);
}
#endif

TEST(wrong_options_are_refused) {
#ifdef TP_WITH_POSTGRES
  if (kind->open == open_database) {
    refuse_options_of_database();
    return;
  }
#endif
  refuse_options_of_file();
}

TEST_MAIN(count, arguments) {
  test_variant variants[COUNT(channels)];
  size_t kinds = COUNT(variants);
  for (size_t i = 0; i < COUNT(variants); i++)
    variants[i] = (test_variant){.name = channels[i].name, .state = (void *)(uintptr_t)&channels[i]};
#ifdef TP_WITH_POSTGRES
  const char *lack = postgres_lack();
  if (lack) printf("# skipped: postgres: %s\n", lack);
  else postgres_make();
  kinds -= lack != NULL;
#endif
  int failed = test_main_for_each(count, arguments, variants, kinds);
#ifdef TP_WITH_POSTGRES
  postgres_remove();
#endif
  return failed;
}
