/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of the SQLite store, where they differ from those of other stores: how many ended ones the file keeps, and
 * what the statements of a turn cost. */
#include <sqlite3.h>

#include "stores/sqlite/sqlite.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
#include "tests/support/test.h"

FOR_EACH_TEST(make_directory, remove_directory);

static tp_store *open_with(size_t jobs_ended_max) {
  const tp_sqlite_store_options options = {
      .struct_size = sizeof options, .path = path, .jobs_ended_max = jobs_ended_max};
  tp_store *store = NULL;
  assert_int_equal(tp_sqlite_store_open(&options, &store, NULL), TP_OK);
  return store;
}

/* ---- ended jobs ---- */

static void note_claim(void *ctx, const tp_job *job) {
  *(tp_job_finish *)ctx = (tp_job_finish){.id = job->id, .claim = job->claim};
}

/* Inserts a job and ends it at that time. @param end  0: it is discarded. */
static void end_one(tp_store *store, const char *key, uint32_t end, int64_t at_ms) {
  const tp_job job = {.struct_size = sizeof job,
                      .attempts_max = 1,
                      .limit_ms = 1,
                      .handler = TEXT("h"),
                      .idempotency_key = tp_text_of(key),
                      .order_key = tp_text_of(key)};
  tp_job_finish finish = {0};
  uint64_t id;
  uint32_t state;
  int64_t next_ms;
  bool existed;
  assert_int_equal(store->job_insert(store->ctx, &job, &id, &existed, NULL), TP_OK);
  if (end == 0) {
    assert_int_equal(store->job_discard(store->ctx, id, at_ms, NULL), TP_OK);
    return;
  }
  const tp_job_claim claim = {
      .struct_size = sizeof claim, .now_ms = at_ms, .lease_ms = 1000, .take = note_claim, .ctx = &finish};
  assert_int_equal(store->job_claim(store->ctx, &claim, &next_ms, NULL), TP_OK);
  assert_int_equal(finish.id, id);
  finish.struct_size = sizeof finish;
  finish.now_ms = at_ms;
  finish.end = end;
  assert_int_equal(store->job_finish(store->ctx, &finish, &state, NULL), TP_OK);
}

static bool add_key(void *ctx, const tp_job *job) {
  char *keys = ctx;
  const size_t used = strlen(keys);
  snprintf(keys + used, 64 - used, "%.*s ", (int)job->idempotency_key.size, job->idempotency_key.data);
  return true;
}

static void assert_keys(const tp_store *store, uint32_t states, const char *wanted) {
  char keys[64] = "";
  const tp_job_query query = {.struct_size = sizeof query, .states = states};
  assert_int_equal(store->jobs(store->ctx, &query, add_key, keys, NULL), TP_OK);
  assert_string_equal(keys, wanted);
}

TEST(ended_jobs_beyond_the_bound_go_and_the_oldest_first) {
  const uint32_t done = 1u << TP_JOB_SUCCEEDED | 1u << TP_JOB_DISCARDED, dead = 1u << TP_JOB_DEAD;
  tp_store *store = open_with(3);
  end_one(store, "a", TP_JOB_END_SUCCEEDED, 50);
  end_one(store, "b", 0, 10);
  end_one(store, "c", TP_JOB_END_FAILED, 10);
  end_one(store, "d", TP_JOB_END_SUCCEEDED, 20);
  assert_keys(store, done, "a b d ");
  end_one(store, "e", TP_JOB_END_SUCCEEDED, 60);
  assert_keys(store, done, "a d e ");
  end_one(store, "f", 0, 60);
  assert_keys(store, done, "a e f ");
  for (int i = 0; i < 3; i++) end_one(store, (const char *const[]){"g", "h", "i"}[i], TP_JOB_END_FAILED, 70 + i);
  assert_keys(store, dead, "g h i ");
  assert_keys(store, done, "a e f ");
  tp_store_free(store);
  store = open_with(1); /* what is too many now goes with the next that ends */
  end_one(store, "j", TP_JOB_END_SUCCEEDED, 80);
  assert_keys(store, done, "j ");
  assert_keys(store, dead, "g h i ");
  end_one(store, "k", TP_JOB_END_FAILED, 90);
  assert_keys(store, dead, "k ");
  tp_store_free(store);
}

/* ---- what statements cost ---- */

/* A table in memory costs a statement more than all else that it does. Those that may have one run rarely. */
TEST(statement_that_runs_for_each_turn_makes_no_table_in_memory) {
  static const int rare[] = {TP__RENEW_JOB, TP__NOTE_LATE, TP__TAKE_TOOL_START};
  sqlite3 *db = NULL;
  tp_store_free(open_with(0));
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  for (int i = 0; i < TP__STATEMENTS; i++) {
    bool is_rare = false, makes_one = false;
    char *sql = sqlite3_mprintf("EXPLAIN %s", tp__sqlite_store_sql[i]);
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      const char *operation = (const char *)sqlite3_column_text(statement, 1);
      makes_one = makes_one || strcmp(operation, "OpenEphemeral") == 0 || strcmp(operation, "OpenAutoindex") == 0 ||
                  strcmp(operation, "SorterOpen") == 0;
    }
    for (size_t r = 0; r < COUNT(rare); r++) is_rare = is_rare || rare[r] == i;
    if (makes_one && !is_rare) fail_msg("%s", tp__sqlite_store_sql[i]);
    sqlite3_finalize(statement);
    sqlite3_free(sql);
  }
  sqlite3_close(db);
}
