/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions that are kept in the file of a store: answered by any process that opens it, once, also after the process
 * that asked is gone. */
#include <sqlite3.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

typedef struct world {
  tp_sqlite_questions *questions;
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
  const tp_sqlite_questions_options questions = {
      .struct_size = sizeof questions, .path = path, .poll_ms = 10, .log = note_log, .log_ctx = w};
  tp_fault fault = {0};
  if (tp_sqlite_questions_open(&questions, &w->questions, &fault) != TP_OK) fail_msg("%s", fault.message);
  const tp_runtime_options options = {.struct_size = sizeof options,
                                      .ask = tp_sqlite_questions_put,
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
  tp_sqlite_questions_close(w->questions);
  recorder_free(w->model);
}

/* ---- the rows, as another process sees them ---- */

typedef struct rows {
  size_t count;
  tp_sqlite_question last;
  char turn[32], tool[32], person[32];
} rows;

static bool keep_row(void *ctx, const tp_sqlite_question *q) {
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
  if (tp_sqlite_questions_list(path, open_only, keep_row, &r, &fault) != TP_OK) fail_msg("%s", fault.message);
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
  return tp_sqlite_question_answer(path, number, &decision, fault);
}

static void await_end(world *w, int runs) {
  const tp_turn_result *result;
  assert_int_equal(tp_submission_wait(w->turn, 60000, &result, NULL), TP_OK);
  assert_string_equal(tp_turn_outcome_name(result->outcome), "completed");
  assert_int_equal(w->runs, runs);
}

/* ---- cases ---- */

FOR_EACH_TEST(make_directory, remove_directory);

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
  assert_int_equal(r.last.state, TP_SQLITE_QUESTION_ALLOWED);
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
TEST_WITH(an_answer_survives_the_process_that_asked, NULL, NULL) {
  for (int answered_between = 0; answered_between < 2; answered_between++) {
    world w = {0}, again = {0};
    make_directory(NULL);
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
    remove_directory(NULL);
  }
}

/* The same turn, twice at once, as two processes run it: they wait for one row until it is answered. */
TEST(an_answer_is_for_one_of_two_calls_that_wait) {
  world a = {0}, b = {0};
  open_world(&a);
  rows r = await_question();
  sleep_ms(2); /* the limit of b's question ends in another millisecond: the row shows when b waits for it, too */
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

/* Answered in time, and its turn comes back after the question would have expired. */
TEST(an_answer_in_time_counts_later) {
  world w = {0}, again = {0};
  sqlite3 *db;
  open_world(&w);
  rows r = await_question();
  tp_submission_cancel(w.turn);
  close_world(&w);
  assert_int_equal(answer(r.last.number, TP_VERDICT_ALLOW, (tp_text){0}, NULL), TP_OK);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "UPDATE question SET expires_ms = answered_ms + 1", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
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

/* What cannot be written is denied, and the log says so. */
TEST(a_file_that_is_gone_denies) {
  world w = {0};
  char moved[200];
  const tp_sqlite_questions_options questions = {.struct_size = sizeof questions, .path = path};
  tp_sqlite_questions *other;
  assert_int_equal(tp_sqlite_questions_open(&questions, &other, NULL), TP_OK); /* makes the file */
  tp_sqlite_questions_close(other);
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

TEST(wrong_options_are_refused) {
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
