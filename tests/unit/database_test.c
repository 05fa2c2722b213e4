/* SPDX-License-Identifier: Apache-2.0
 *
 * The one piece of code that opens the files of the history and of the memory: what each asks of it, files that are the
 * other's, and refusals that say where and what helps. This program links both archives, which both hold it. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/database.h"
#include "stores/sqlite/database.h"
#include "stores/sqlite/statement.h"
#include "tests/support/directory.h"
#include "turnphase/sqlite.h"

static const char *const tables[] = {"CREATE TABLE entry (id INTEGER PRIMARY KEY);", NULL};
static const tp__sqlite_schema minimal = {.noun = "a list", .application_id = 7, .version = 2, .sql = tables};

static void make_memory(const char *more) {
  sqlite3 *db = NULL;
  assert_int_equal(tp__memory_database_open(path, &db, NULL), TP_OK);
  assert_int_equal(sqlite3_exec(db, more, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static void assert_answer(sqlite3 *db, const char *question, const char *expected) {
  sqlite3_stmt *statement = NULL;
  assert_int_equal(sqlite3_prepare_v2(db, question, -1, &statement, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(statement, 0), expected);
  sqlite3_finalize(statement);
}

static void assert_opened(sqlite3 *db, const char *journal, const char *busy_ms, const char *secure_delete) {
  assert_answer(db, "PRAGMA journal_mode", journal);
  assert_answer(db, "PRAGMA synchronous", "2"); /* FULL */
  assert_answer(db, "PRAGMA busy_timeout", busy_ms);
  assert_answer(db, "PRAGMA secure_delete", secure_delete);
  sqlite3_close(db);
}

FOR_EACH_TEST(make_directory, remove_directory);

TEST(a_memory_waits_shortly_and_overwrites_what_is_deleted) {
  sqlite3 *db = NULL;
  assert_int_equal(tp__memory_database_open(path, &db, NULL), TP_OK);
  assert_opened(db, "wal", "250", "1");
  assert_int_equal(tp__memory_database_open(path, &db, NULL), TP_OK); /* and when it is there */
  assert_opened(db, "wal", "250", "1");
  assert_int_equal(tp__memory_database_open(NULL, &db, NULL), TP_OK);
  assert_opened(db, "memory", "250", "1");
}

TEST(a_schema_that_asks_for_nothing_waits_long_and_overwrites_what_costs_nothing) {
  sqlite3 *db = NULL;
  assert_int_equal(tp__sqlite_open(path, &minimal, &db, NULL), TP_OK);
  assert_opened(db, "wal", "5000", "2"); /* FAST */
}

static void assert_says(const tp_fault *fault, tp_status code, const char *what, const char *remedy) {
  assert_int_equal(fault->code, code);
  assert_string_equal(fault->subject, path);
  assert_int_equal(strncmp(fault->message, path, strlen(path)), 0);
  if (!strstr(fault->message, what) || !strstr(fault->message, remedy))
    fail_msg("'%s' or '%s' is not in: %s", what, remedy, fault->message);
}

static void assert_no_memory(tp_status code, const char *what, const char *remedy) {
  sqlite3 *db = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp__memory_database_open(path, &db, &fault), code);
  assert_null(db);
  assert_says(&fault, code, what, remedy);
}

TEST(a_memory_is_no_history_and_a_history_no_memory) {
  tp_history *history = NULL;
  tp_fault fault = {0};
  make_memory("");
  assert_int_equal(tp_sqlite_history_open(path, &history, &fault), TP_ERR_STORE_SCHEMA);
  assert_says(&fault, TP_ERR_STORE_SCHEMA, "not a store of turnphase", "another path");
  unlink(path);
  assert_int_equal(tp_sqlite_history_open(path, &history, NULL), TP_OK);
  tp_history_free(history);
  assert_no_memory(TP_ERR_STORE_SCHEMA, "not a memory", "another path");
}

TEST(a_refused_memory_says_what_helps) {
  make_memory("PRAGMA user_version = 5");
  assert_no_memory(TP_ERR_STORE_SCHEMA, "a memory of schema version 5, and this library has version 1",
                   "use the turnphase that wrote it");
  unlink(path);
  make_memory("PRAGMA user_version = 0");
  assert_no_memory(TP_ERR_STORE_CORRUPT, "never was", "restore a copy");
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(truncate(path, 4096), 0);
  assert_no_memory(TP_ERR_STORE_CORRUPT, "not a database", "restore a copy");
}

/* Below a file there can be no other one, not even for root. */
TEST(a_file_that_cannot_be_made_says_why_and_what_helps) {
  char below[sizeof path + 4];
  sqlite3 *db = NULL;
  tp_fault fault = {0};
  make_memory("");
  snprintf(below, sizeof below, "%s/on", path);
  assert_int_equal(tp__memory_database_open(below, &db, &fault), TP_ERR_IO);
  assert_null(db);
  assert_int_equal(fault.system_error, ENOTDIR);
  assert_string_equal(fault.subject, below);
  assert_non_null(strstr(fault.message, "cannot be made"));
  assert_non_null(strstr(fault.message, "its directory is there"));
}

TEST(a_path_that_is_empty_is_a_wrong_use) {
  sqlite3 *db = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp__memory_database_open("", &db, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.subject, "");
  assert_non_null(strstr(fault.message, "give one"));
}

/* Every primary result code of SQLite, and the extended ones that mean something else than their class. */
TEST(every_error_of_sqlite_has_its_status) {
  static const struct {
    int rc;
    tp_status status;
  } rows[] = {
      {SQLITE_OK, TP_OK},
      {SQLITE_ROW, TP_OK},
      {SQLITE_DONE, TP_OK},
      {SQLITE_ERROR, TP_ERR_STORE},
      {SQLITE_INTERNAL, TP_ERR_STORE},
      {SQLITE_PERM, TP_ERR_STORE_READONLY},
      {SQLITE_ABORT, TP_ERR_STORE},
      {SQLITE_BUSY, TP_ERR_STORE_BUSY},
      {SQLITE_BUSY_SNAPSHOT, TP_ERR_STORE_BUSY},
      {SQLITE_BUSY_RECOVERY, TP_ERR_STORE_BUSY},
      {SQLITE_LOCKED, TP_ERR_STORE_BUSY},
      {SQLITE_NOMEM, TP_ERR_NO_MEMORY},
      {SQLITE_READONLY, TP_ERR_STORE_READONLY},
      {SQLITE_READONLY_DIRECTORY, TP_ERR_STORE_READONLY},
      {SQLITE_READONLY_DBMOVED, TP_ERR_IO},
      {SQLITE_INTERRUPT, TP_ERR_STORE},
      {SQLITE_IOERR, TP_ERR_IO},
      {SQLITE_IOERR_FSYNC, TP_ERR_IO},
      {SQLITE_IOERR_NOMEM, TP_ERR_NO_MEMORY},
      {SQLITE_CORRUPT, TP_ERR_STORE_CORRUPT},
      {SQLITE_CORRUPT_INDEX, TP_ERR_STORE_CORRUPT},
      {SQLITE_NOTFOUND, TP_ERR_STORE},
      {SQLITE_FULL, TP_ERR_STORE_FULL},
      {SQLITE_CANTOPEN, TP_ERR_IO},
      {SQLITE_PROTOCOL, TP_ERR_STORE_BUSY},
      {SQLITE_EMPTY, TP_ERR_STORE},
      {SQLITE_SCHEMA, TP_ERR_STORE},
      {SQLITE_TOOBIG, TP_ERR_TOO_LARGE},
      {SQLITE_CONSTRAINT, TP_ERR_STORE},
      {SQLITE_MISMATCH, TP_ERR_STORE},
      {SQLITE_MISUSE, TP_ERR_STORE},
      {SQLITE_NOLFS, TP_ERR_IO},
      {SQLITE_AUTH, TP_ERR_STORE_READONLY},
      {SQLITE_FORMAT, TP_ERR_STORE},
      {SQLITE_RANGE, TP_ERR_STORE},
      {SQLITE_NOTADB, TP_ERR_STORE_CORRUPT},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (tp__sqlite_status(rows[i].rc) != rows[i].status)
      fail_msg("%s: %s", sqlite3_errstr(rows[i].rc), tp_status_name(tp__sqlite_status(rows[i].rc)));
}

/* Whatever ended it: else the file stays locked for all others. */
TEST(a_transaction_that_ends_leaves_no_lock) {
  sqlite3 *db = NULL;
  make_memory("CREATE TABLE extra (id INTEGER PRIMARY KEY);");
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  for (int i = 0; i < 2; i++) {
    int rc = i == 0 ? SQLITE_FULL : SQLITE_OK;
    assert_int_equal(tp__sqlite_begin(db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "INSERT INTO extra DEFAULT VALUES", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(tp__sqlite_end(db, rc), rc);
    assert_true(sqlite3_get_autocommit(db));
    assert_answer(db, "SELECT count(*) FROM extra", i == 0 ? "0" : "1");
  }
  sqlite3_close(db);
}
