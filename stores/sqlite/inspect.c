/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions of an operator about a file: how much it holds, and whether it is intact. Both are read in one snapshot, on
 * a separate connection. */

#include "stores/sqlite/sqlite.h"

tp_status tp__sqlite_begin_reading(tp__sqlite_store *s, sqlite3 **ret_db, tp_fault *fault) {
  sqlite3 *db = NULL;
  tp_status status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
  if (rc == SQLITE_OK) {
    *ret_db = db;
    return TP_OK;
  }
  status = tp__store_fail(s, db, "read it", rc, fault);
  tp__store_return_reader(s, db);
  return status;
}

void tp__sqlite_end_reading(tp__sqlite_store *s, sqlite3 *db) {
  sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  tp__store_return_reader(s, db);
}

/* ---- how much there is ---- */

/** The target of the first number that a query gives. */
typedef struct question {
  const char *sql;
  void *into; /* an int64_t or a uint64_t */
} question;

tp_status tp_sqlite_store_stats_get(const tp_store *store, tp_sqlite_store_stats *ret_stats, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  sqlite3 *db = NULL;
  int64_t version = 0;
  tp_sqlite_store_stats stats = {.struct_size = sizeof stats};
  const question questions[] = {
      {"SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", &stats.file_bytes},
      {"SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size", &stats.free_bytes},
      {"SELECT count(*) FROM entry", &stats.entries},
      {"SELECT count(*) FROM run", &stats.runs},
      {"SELECT count(*) FROM turn", &stats.turns},
      {"SELECT count(*) FROM audit", &stats.audits},
      {"SELECT value FROM counter WHERE id = 1", &stats.jobs_queued},
      {"SELECT value FROM counter WHERE id = 2", &stats.jobs_running},
      {"SELECT value FROM counter WHERE id = 3", &stats.jobs_succeeded},
      {"SELECT value FROM counter WHERE id = 4", &stats.jobs_dead},
      {"SELECT value FROM counter WHERE id = 5", &stats.jobs_discarded},
      {"SELECT count(*) FROM session", &stats.sessions},
      {"SELECT count(*) FROM message", &stats.messages},
      {"SELECT count(*) FROM process", &stats.processes},
      {"SELECT coalesce(min(started_unix_ms), 0) FROM entry WHERE number = (SELECT min(number) FROM entry)",
       &stats.oldest_unix_ms},
      {"SELECT coalesce(max(started_unix_ms), 0) FROM entry WHERE number = (SELECT max(number) FROM entry)",
       &stats.newest_unix_ms},
      {"SELECT user_version FROM pragma_user_version", &version},
  };
  if (!s || !ret_stats)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_stats_get: this is no store of this library");
  tp_status status = tp__sqlite_begin_reading(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < sizeof questions / sizeof questions[0]; i++)
    rc = tp__sqlite_once(db, questions[i].sql, NULL, 0, questions[i].into);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "count what it has", rc, fault);
  tp__sqlite_end_reading(s, db);
  stats.schema_version = (uint32_t)version;
  if (status != TP_OK) return status;
  status = tp__sqlite_show(ret_stats, &stats, sizeof stats);
  return status == TP_OK ? TP_OK
                         : tp__refuse(fault, status, NULL, "tp_sqlite_store_stats: set struct_size to its size");
}

/* ---- whether it is whole ---- */

/* Each query gives a text for each error that it finds. */
static const char *const checks[] = {
    "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
    "SELECT 'the runs of entry ' || entry || ' have no entry' FROM run"
    " WHERE entry NOT IN (SELECT number FROM entry) GROUP BY entry LIMIT 100",
    "SELECT 'message ' || id || ' has no session' FROM message WHERE session NOT IN (SELECT id FROM session) LIMIT 100",
    "SELECT 'message ' || message.id || ' stands after the end of its session' FROM message"
    " JOIN session ON session.id = message.session WHERE position >= next LIMIT 100",
    "SELECT 'tool calls of message ' || message || ' have no message' FROM tool_call"
    " WHERE message NOT IN (SELECT id FROM message) GROUP BY message LIMIT 100",
    "SELECT 'there are ' || (SELECT count(*) FROM job WHERE state = counter.id) || ' jobs of state ' || id ||"
    " ', and counted are ' || value FROM counter WHERE id > 0"
    " AND value <> (SELECT count(*) FROM job WHERE state = counter.id)",
    "SELECT 'job ' || id || ' of order key ' || quote(order_key) || ' is ' || iif(is_first, '', 'not ') ||"
    " 'the first of its key' FROM job WHERE is_first <> (state IN (1, 2) AND place = (SELECT min(other.place)"
    " FROM job AS other WHERE other.order_key = job.order_key AND other.state IN (1, 2))) LIMIT 100",
    "SELECT 'job ' || id || ' has ended and still has its payload' FROM job WHERE state IN (3, 5) AND payload <> x''"
    " LIMIT 100",
};

static int run_check(sqlite3 *db, const char *sql, tp_sqlite_problem_fn each, void *ctx, uint64_t *count) {
  sqlite3_stmt *row = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &row, NULL);
  while (rc == SQLITE_OK && (rc = sqlite3_step(row)) == SQLITE_ROW) {
    ++*count;
    if (each) each(ctx, tp__sqlite_column(row, 0));
    rc = SQLITE_OK;
  }
  sqlite3_finalize(row);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp_sqlite_store_verify(const tp_store *store, tp_sqlite_problem_fn each, void *ctx, tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  sqlite3 *db = NULL;
  uint64_t problems = 0;
  if (!s) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_verify: no store of this library");
  tp_status status = tp__sqlite_begin_reading(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < sizeof checks / sizeof checks[0]; i++)
    rc = run_check(db, checks[i], each, ctx, &problems);
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, "verify it", rc, fault);
  tp__sqlite_end_reading(s, db);
  if (status != TP_OK || problems == 0) return status;
  return tp__refuse(fault, TP_ERR_STORE_CORRUPT, s->path,
                    "%s: %llu things are wrong; keep the file, and restore"
                    " a copy",
                    s->path, (unsigned long long)problems);
}
