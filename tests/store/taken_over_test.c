/* SPDX-License-Identifier: Apache-2.0
 *
 * A turn whose session another process takes over while it runs, or deletes and begins again: no tool call of it
 * begins, no job of it is inserted, its run records give the reason, and it ends with TP_ERR_FENCED. The other process
 * is simulated by a row that the turn's model writes. */
#include <sqlite3.h>

#include "tests/support/test.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "tests/support/model.h"
#include "turnphase/sqlite.h"

FOR_EACH_TEST(make_directory, remove_directory);

static int64_t sql(const char *statement) {
  sqlite3 *db = NULL;
  sqlite3_stmt *row = NULL;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  sqlite3_busy_timeout(db, 10000);
  assert_int_equal(sqlite3_prepare_v2(db, statement, -1, &row, NULL), SQLITE_OK);
  int64_t number = sqlite3_step(row) == SQLITE_ROW ? sqlite3_column_int64(row, 0) : 0;
  sqlite3_finalize(row);
  sqlite3_close(db);
  return number;
}

enum { NEVER, WHILE_THE_MODEL_THINKS, AFTER_THE_APPEND };
static int taken;
static bool begins_anew; /* in place of taking it over */
static bool is_deleted;  /* and nobody begins it anew */
static bool is_queued;   /* the history, whose turns only look at their session */
static const char *turn_id = "t";
static _Atomic int ran, jobs_ran;

static tp_history_claim claim_as(const tp_history *history, uint64_t process);

static void take_over(void) {
  if (!begins_anew && !is_deleted) {
    (void)sql("UPDATE session SET owner = 77, epoch = max(epoch, id * 268435456) + 1, running = 1");
    return;
  }
  tp_history *history = NULL;
  (void)sql("DELETE FROM session");
  if (is_deleted) return;
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  (void)claim_as(history, 77);
  tp_history_free(history);
}

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  (void)ctx;
  ran++;
  const tp_tool_answer answer = {.struct_size = sizeof answer, .text = TEXT("done")};
  return tp_tool_answer_with(run, &answer, NULL);
}

static tp_answer run_job(void *ctx, tp_call *call) {
  (void)ctx, (void)call;
  jobs_ran++;
  return TP_ANSWER_DONE;
}

static tp_answer take_over_then(void *ctx, tp_call *call) {
  (void)call;
  if (taken == *(int *)ctx) take_over();
  return TP_ANSWER_DONE;
}

static bool note_run(void *ctx, const tp_entry_record *record) {
  tp_run_record run = {.struct_size = sizeof run};
  for (uint32_t i = 0; i < record->run_count; i++)
    if (record->run(record->source, i, &run) && strcmp(run.subscription, "job") == 0) *(tp_run_record *)ctx = run;
  return true;
}

typedef struct ended {
  tp_turn_outcome outcome;
  tp_status code;
  tp_run_record job;
} ended;

/* A turn with a model that first calls a tool, and with a subscription that makes a job in a phase. */
static ended play_turn(uint32_t phase_of_job, int when) {
  static int thinks = WHILE_THE_MODEL_THINKS, after = AFTER_THE_APPEND;
  static const tp_tool charge = {
      .struct_size = sizeof charge, .name = "charge", .run = run_tool, .placement = TP_PLACEMENT_THREAD};
  static const tp_tool *const list[] = {&charge};
  static const tp_contribution bundle = {.struct_size = sizeof bundle,
                                         .kind = TP_CONTRIBUTION_TOOL_BUNDLE,
                                         .key = TEXT("b"),
                                         .tools = list,
                                         .tool_count = 1};
  static act contributes = {.emits = &bundle, .emit_count = 1};
  const hook hooks[] = {
      {.id = "tools", .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, .ctx = &contributes},
      {.id = "thief", .phase = TP_PHASE_MODEL_PRE, .run = take_over_then, .ctx = &thinks, .slow = true},
      {.id = "late", .phase = TP_PHASE_TURN_POST_TURN, .run = take_over_then, .ctx = &after, .slow = true},
      {.id = "job",
       .phase = phase_of_job,
       .run = run_job,
       .slow = true,
       .optional_after = phase_of_job == TP_PHASE_TURN_POST_TURN ? "late" : NULL,
       .sub = {.execution = TP_EXECUTION_BACKGROUND}}};
  const reply replies[] = {
      {.calls = {{.id = TEXT("c1"), .name = TEXT("charge"), .arguments = {"\x80", 1}}}, .call_count = 1},
      {.text = "all done"}};
  recorder *model = recorder_new(replies, 2);
  tp_store *store = NULL;
  tp_history *history = NULL;
  const tp_sqlite_store_options of_store = {.struct_size = sizeof of_store, .path = path};
  assert_int_equal(tp_sqlite_store_open(&of_store, &store, NULL), TP_OK);
  const tp_sqlite_history_options of_history = {.struct_size = sizeof of_history, .path = path};
  assert_int_equal(is_queued ? tp_sqlite_history_open_async(&of_history, &history, NULL)
                             : tp_sqlite_history_open(path, &history, NULL),
                   TP_OK);
  const tp_runtime_options options = {.struct_size = sizeof options, .store = store, .durability = TP_DURABILITY_SYNC};
  tp_store reads = *store;
  tp_runtime *runtime = open_runtime(&options);
  add_hooks(runtime, hooks, COUNT(hooks));
  const tp_session_options of_session = {
      .struct_size = sizeof of_session, .id = "s", .model = recorder_model(model, false), .history = history};
  tp_session *session = NULL;
  assert_int_equal(tp_session_open(runtime, &of_session, &session, NULL), TP_OK);
  const tp_turn_request request = {.struct_size = sizeof request, .id = turn_id, .text = TEXT("pay")};
  const tp_turn_result *result = NULL;
  taken = when;
  ran = jobs_ran = 0;
  assert_int_equal(tp_turn_run(session, &request, &result, NULL), TP_OK);
  ended e = {.outcome = result->outcome, .code = result->code};
  tp_turn_result_free(result);
  assert_int_equal(tp_jobs_wait(runtime, "", 30000, NULL), TP_OK);
  const tp_record_query query = {.struct_size = sizeof query, .phase = phase_of_job};
  assert_int_equal(reads.records(reads.ctx, &query, note_run, &e.job, NULL), TP_OK);
  e.job.subscription = e.job.handler = e.job.owner = NULL;
  tp_session_close(session, NULL, NULL);
  close_runtime(runtime);
  recorder_free(model);
  return e;
}

#define assert_job(ended, want_state, want_reason)                                   \
  do {                                                                               \
    assert_string_equal(tp_state_name((tp_state)(ended).job.state), want_state);     \
    assert_string_equal(tp_reason_name((tp_reason)(ended).job.reason), want_reason); \
  } while (0)

TEST(turn_that_has_its_session_calls_its_tool_and_inserts_its_jobs) {
  static const uint32_t phases[] = {TP_PHASE_MODEL_POST, TP_PHASE_TURN_STOP, TP_PHASE_TURN_POST_TURN};
  for (size_t i = 0; i < COUNT(phases); i++) {
    ended e = play_turn(phases[i], NEVER);
    assert_int_equal(e.code, TP_OK);
    assert_job(e, "backgrounded", "none");
    assert_int_equal(ran, 1);
    assert_int_equal(jobs_ran, phases[i] == TP_PHASE_MODEL_POST ? 2 : 1);
    remove_directory(NULL);
    make_directory(NULL);
  }
}

TEST(turn_whose_session_was_taken_over_inserts_no_job_and_its_record_says_why) {
  ended e = play_turn(TP_PHASE_MODEL_POST, WHILE_THE_MODEL_THINKS);
  assert_int_equal(e.outcome, TP_TURN_FAILED);
  assert_int_equal(e.code, TP_ERR_FENCED);
  assert_job(e, "failed", "fenced");
  assert_int_equal(sql("SELECT count(*) FROM job"), 0);
  assert_int_equal(sql("SELECT count(*) FROM tool_start"), 0);
  assert_int_equal(sql("SELECT count(*) FROM message"), 0);
  assert_true(ran == 0 && jobs_ran == 0);
}

TEST(turn_whose_session_was_taken_over_begins_no_tool_call) {
  ended e = play_turn(TP_PHASE_TURN_POST_TURN, WHILE_THE_MODEL_THINKS);
  assert_int_equal(e.code, TP_ERR_FENCED);
  assert_int_equal(sql("SELECT count(*) FROM tool_start"), 0);
  assert_int_equal(sql("SELECT count(*) FROM message"), 0);
  assert_int_equal(ran, 0);
}

TEST(turn_whose_session_was_begun_anew_begins_no_tool_call_and_inserts_no_job) {
  static const uint32_t phases[] = {TP_PHASE_MODEL_POST, TP_PHASE_TURN_POST_TURN};
  begins_anew = true;
  for (size_t i = 0; i < COUNT(phases); i++) {
    ended e = play_turn(phases[i], WHILE_THE_MODEL_THINKS);
    assert_int_equal(e.code, TP_ERR_FENCED);
    assert_int_equal(sql("SELECT count(*) FROM session WHERE id > 1 AND owner = 77"), 1);
    if (phases[i] == TP_PHASE_MODEL_POST) assert_job(e, "failed", "fenced");
    assert_int_equal(sql("SELECT count(*) FROM job"), 0);
    assert_int_equal(sql("SELECT count(*) FROM tool_start"), 0);
    assert_int_equal(sql("SELECT count(*) FROM message"), 0);
    assert_true(ran == 0 && jobs_ran == 0);
    remove_directory(NULL);
    make_directory(NULL);
  }
  begins_anew = false;
}

TEST(turn_whose_session_was_deleted_begins_no_tool_call_and_inserts_no_job) {
  static const uint32_t phases[] = {TP_PHASE_MODEL_POST, TP_PHASE_TURN_POST_TURN};
  is_deleted = true;
  for (size_t i = 0; i < COUNT(phases); i++) {
    ended e = play_turn(phases[i], WHILE_THE_MODEL_THINKS);
    assert_int_equal(e.code, TP_ERR_FENCED);
    assert_int_equal(sql("SELECT count(*) FROM session"), 0);
    if (phases[i] == TP_PHASE_MODEL_POST) assert_job(e, "failed", "fenced");
    assert_int_equal(sql("SELECT count(*) FROM job"), 0);
    assert_int_equal(sql("SELECT count(*) FROM tool_start"), 0);
    assert_true(ran == 0 && jobs_ran == 0);
    remove_directory(NULL);
    make_directory(NULL);
  }
  is_deleted = false;
}

/* They have no claim, and the session has no epoch. */
TEST(turns_that_only_look_at_their_session_call_tools_until_another_one_has_claimed_it) {
  static const char *const ids[] = {"t1", "t2", "t3"};
  is_queued = true;
  for (size_t i = 0; i < COUNT(ids); i++) {
    turn_id = ids[i];
    ended e = play_turn(TP_PHASE_MODEL_POST, i < 2 ? NEVER : WHILE_THE_MODEL_THINKS);
    assert_int_equal(e.code, i < 2 ? TP_OK : TP_ERR_FENCED);
    assert_int_equal(ran, i < 2);
    assert_int_equal(sql("SELECT count(*) FROM tool_start"), i < 2 ? (int)i + 1 : 2);
  }
  is_queued = false;
  turn_id = "t";
}

/* The messages of the turn are acknowledged by then, so its further work is done, whichever process has the session
 * now. */
TEST(job_of_a_turn_that_has_appended_is_inserted_though_another_process_has_the_session_since) {
  ended e = play_turn(TP_PHASE_TURN_POST_TURN, AFTER_THE_APPEND);
  assert_int_equal(e.code, TP_OK);
  assert_job(e, "backgrounded", "none");
  assert_int_equal(jobs_ran, 1);
}

/* ---- the store by itself ---- */

static tp_job job_of_session(const char *key, const char *session, uint64_t fence, tp_writer **ret_writer) {
  tp_job job = {.struct_size = sizeof job,
                .attempts_max = 1,
                .limit_ms = 100,
                .handler = TEXT("h"),
                .idempotency_key = tp_text_of(key),
                .fence = fence};
  assert_int_equal(tp_writer_new(NULL, ret_writer), TP_OK);
  tp_writer *writer = *ret_writer;
  tp_write_map(writer, 1);
  tp_write_string(writer, "ids");
  tp_write_array(writer, TP_ID_COUNT);
  for (int i = 0; i < TP_ID_COUNT; i++) tp_write_string(writer, i == TP_ID_SESSION ? session : "");
  assert_int_equal(tp_writer_finish(writer, &job.payload), TP_OK);
  return job;
}

/* Sessions: "s" has been claimed seven times, "queued" never, by number 2. */
#define LOOK (UINT64_C(1) << 62)
#define EPOCHS UINT64_C(268435456)

TEST(store_compares_the_fence_of_each_job_with_its_session) {
  enum { JOBS = 10 };
  static const struct {
    const char *key, *session;
    uint64_t fence;
    tp_status status;
  } rows[JOBS] = {{"old", "s", 6, TP_ERR_FENCED},
                  {"own", "s", 7, TP_OK},
                  {"none", "s", 0, TP_OK},
                  {"unknown", "elsewhere", 3, TP_OK},
                  {"newer", "s", 8, TP_ERR_FENCED},
                  {"looked", "queued", LOOK | (2 * EPOCHS + 1), TP_OK},
                  {"looked before it was begun", "queued", LOOK | 1, TP_OK},
                  {"looked at another one", "queued", LOOK | (3 * EPOCHS + 1), TP_ERR_FENCED},
                  {"claimed since", "s", LOOK | 1, TP_ERR_FENCED},
                  {"looked at what is not there", "elsewhere", LOOK | 1, TP_OK}};
  tp_store *store = NULL;
  tp_history *history = NULL;
  const tp_sqlite_store_options of_store = {.struct_size = sizeof of_store, .path = path};
  assert_int_equal(tp_sqlite_store_open(&of_store, &store, NULL), TP_OK);
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  (void)sql("INSERT INTO session (tenant, name, next, owner, epoch, running) VALUES ('', 's', 0, 1, 7, 1)");
  (void)sql("INSERT INTO session (id, tenant, name, next, owner, epoch, running) VALUES (2, '', 'queued', 2, 0, 0, 0)");
  tp_writer *writers[JOBS], *again;
  tp_job jobs[JOBS];
  const tp_job *list[JOBS];
  uint64_t ids[JOBS] = {0}, id = 0;
  bool existed[JOBS] = {false};
  tp_status statuses[JOBS];
  tp_fault fault = {0};
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = job_of_session(rows[i].key, rows[i].session, rows[i].fence, &writers[i]);
    list[i] = &jobs[i];
  }
  assert_int_equal(store->job_insert_all(store->ctx, list, JOBS, ids, existed, statuses, NULL), TP_OK);
  for (int i = 0; i < JOBS; i++) {
    assert_int_equal(statuses[i], rows[i].status);
    assert_int_equal(store->job_insert(store->ctx, &jobs[i], &id, &existed[i], &fault), rows[i].status);
    if (rows[i].status == TP_OK) assert_true(existed[i] && id == ids[i]);
    else assert_non_null(strstr(fault.message, "taken over"));
  }
  /* A job that is inserted again finds itself, whichever process has the session since. */
  tp_job own = job_of_session("own", "s", 5, &again);
  assert_int_equal(store->job_insert(store->ctx, &own, &id, &existed[0], &fault), TP_OK);
  assert_true(existed[0] && id == ids[1]);
  assert_int_equal(sql("SELECT count(*) FROM job"), 6);
  for (int i = 0; i < JOBS; i++) tp_writer_free(writers[i]);
  tp_writer_free(again);
  tp_history_free(history);
  tp_store_free(store);
}

/* A store does not know the sessions of a history that is in another file. */
TEST(store_refuses_a_session_that_is_not_there_only_by_a_claim_of_its_own_file) {
  char other[320];
  tp_store *store = NULL;
  tp_history *own = NULL, *others = NULL;
  const tp_sqlite_store_options of_store = {.struct_size = sizeof of_store, .path = path};
  snprintf(other, sizeof other, "%s.other", path);
  assert_int_equal(tp_sqlite_store_open(&of_store, &store, NULL), TP_OK);
  assert_int_equal(tp_sqlite_history_open(path, &own, NULL), TP_OK);
  assert_int_equal(tp_sqlite_history_open(other, &others, NULL), TP_OK);
  const tp_history_claim claims[] = {claim_as(own, 77), claim_as(others, 77), {.fence = 3}};
  static const tp_status statuses[] = {TP_ERR_FENCED, TP_OK, TP_OK};
  static const char *const keys[] = {"own", "other", "not known"};
  assert_true(claims[0].origin && claims[1].origin && claims[0].origin != claims[1].origin);
  (void)sql("DELETE FROM session");
  for (size_t i = 0; i < COUNT(claims); i++) {
    uint64_t id;
    bool existed;
    tp_writer *writer;
    tp_job job = job_of_session(keys[i], "s", claims[i].fence, &writer);
    job.origin = claims[i].origin;
    assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), statuses[i]);
    tp_writer_free(writer);
  }
  tp_history_free(own);
  tp_history_free(others);
  tp_store_free(store);
}

/* ---- a session without messages ---- */

static tp_status take_nothing(void *ctx, const tp_message *message) {
  (void)ctx, (void)message;
  return TP_OK;
}

static tp_status count_message(void *ctx, const tp_message *message) {
  (void)message;
  ++*(size_t *)ctx;
  return TP_OK;
}

static tp_history_claim claim_as(const tp_history *history, uint64_t process) {
  tp_history_claim claim = {.struct_size = sizeof claim};
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = process, .process_id = getpid()};
  const tp_history_load load = {
      .struct_size = sizeof load, .session = TEXT("s"), .each = take_nothing, .owner = &owner, .claim = &claim};
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  return claim;
}

static void release(const tp_history *history, const tp_history_claim *claim) {
  const tp_history_release request = {.struct_size = sizeof request, .session = TEXT("s"), .claim = claim};
  history->release(history->ctx, &request);
  while (sql("SELECT count(*) FROM session WHERE running = 1") > 0) usleep(1000); /* it waits for no file */
}

/* The calls and jobs of a turn compare the epoch of the session with this name, so no epoch is given again while a turn
 * may still have it. */
TEST(epoch_of_a_turn_that_stands_still_is_not_given_again) {
  tp_history *history = NULL;
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  tp_history_claim first = claim_as(history, 11);
  release(history, &first); /* nobody else has had it: nothing is left of it */
  assert_int_equal(sql("SELECT count(*) FROM session"), 0);
  first = claim_as(history, 11); /* and stands still from here on */
  (void)sql("UPDATE session SET running = 0");
  tp_history_claim second = claim_as(history, 12);
  assert_true(second.number == first.number && second.fence > first.fence);
  release(history, &second);
  tp_history_claim third = claim_as(history, 13);
  assert_true(third.fence > second.fence && third.number == first.number);
  tp_history_free(history);
}

/* The batch is after the claim's position, so it is not given: the next load begins there. */
TEST(load_gives_no_message_from_after_the_claim) {
  tp_history *history = NULL;
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  tp_history_claim claim = claim_as(history, 11);
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = TEXT("one")};
  const tp_message *const messages[] = {&message};
  const tp_history_append append = {
      .struct_size = sizeof append, .session = TEXT("s"), .messages = messages, .message_count = 1, .claim = &claim};
  assert_int_equal(history->append(history->ctx, &append, NULL), TP_OK);
  /* Another process appends directly after the claim: simulated by a trigger, in the claim's own transaction. */
  (void)sql(
      "CREATE TRIGGER late AFTER UPDATE OF epoch ON session WHEN new.owner = 12 BEGIN"
      " INSERT INTO message SELECT NULL, session, 1, role, is_error, turn, text, call_id, name, parts, value,"
      " provider_data, ending, unix_ms FROM message; END");
  assert_int_equal(sql("SELECT count(*) FROM message"), 1);
  tp_history_claim second = {.struct_size = sizeof second};
  const tp_store_owner owner = {.struct_size = sizeof owner, .process_run_id = 12, .process_id = getpid()};
  size_t given = 0;
  const tp_history_load load = {.struct_size = sizeof load,
                                .session = TEXT("s"),
                                .each = count_message,
                                .ctx = &given,
                                .owner = &owner,
                                .claim = &second};
  assert_int_equal(history->load(history->ctx, &load, NULL), TP_OK);
  assert_int_equal(sql("SELECT count(*) FROM message"), 2);
  assert_true(given == 1 && second.position == 1);
  tp_history_free(history);
}

TEST_MAIN(count, arguments) { return test_main(count, arguments); }
