/* SPDX-License-Identifier: Apache-2.0
 *
 * The code that opens the files of the history and of the memory: the settings of each, files of the other kind, and
 * refusals with place and remedy. Also how works of several threads share one commit. This program links both archives,
 * which both contain the code. */
#include <errno.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "domains/memory/database.h"
#include "stores/sqlite/database.h"
#include "stores/sqlite/group.h"
#include "stores/sqlite/statement.h"
#include "tests/support/directory.h"
#include "tests/support/host.h"
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
  assert_int_equal(tp__memory_database_open(path, &db, NULL), TP_OK); /* the same when the file is there */
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
  assert_no_memory(TP_ERR_STORE_SCHEMA, "a memory of schema version 5, and this library has version 2",
                   "use the turnphase that wrote it");
  unlink(path);
  make_memory("PRAGMA user_version = 0");
  assert_no_memory(TP_ERR_STORE_CORRUPT, "never was", "restore a copy");
  assert_int_equal(truncate(path, 0), 0);
  assert_int_equal(truncate(path, 4096), 0);
  assert_no_memory(TP_ERR_STORE_CORRUPT, "not a database", "restore a copy");
}

/* ---- upgrades ---- */

static const char *const tables_3[] = {"CREATE TABLE entry (id INTEGER PRIMARY KEY);",
                                       "CREATE TABLE second (id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
                                       "CREATE UNIQUE INDEX second_name ON second (name);",
                                       NULL};
static const tp__sqlite_fill to_3[] = {{"second", NULL, "INSERT INTO second SELECT id, 'made' FROM entry"},
                                       {"second", "name", "UPDATE second SET name = 'filled' || id"},
                                       {NULL, NULL, NULL}};
static const tp__sqlite_fill to_failure[] = {{"second", "name", "UPDATE second SET name = 'the same'"},
                                             {NULL, NULL, NULL}};

/* Version 2 has a table without a column, and a table that version 3 has not. */
static void make_minimal(int version) {
  const tp__sqlite_schema made = {.noun = "a list", .application_id = 7, .version = version, .sql = tables};
  sqlite3 *db = NULL;
  assert_int_equal(tp__sqlite_open(path, &made, &db, NULL), TP_OK);
  assert_int_equal(sqlite3_exec(db, "INSERT INTO entry VALUES (4)", NULL, NULL, NULL), SQLITE_OK);
  static const char second[] =
      "CREATE TABLE second (id INTEGER PRIMARY KEY); INSERT INTO second VALUES (8), (9);"
      "CREATE TABLE third (id); CREATE TRIGGER added AFTER INSERT ON entry BEGIN"
      " INSERT INTO third VALUES (new.id); END;";
  if (version == 2) assert_int_equal(sqlite3_exec(db, second, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static tp_status open_as_3(const tp__sqlite_fill *fills, sqlite3 **ret_db, tp_fault *fault) {
  const tp__sqlite_schema third = {
      .noun = "a list", .application_id = 7, .version = 3, .sql = tables_3, .fills = fills};
  return tp__sqlite_open(path, &third, ret_db, fault);
}

TEST(a_file_of_an_earlier_version_gets_the_tables_that_are_declared_once) {
  for (int version = 1; version <= 2; version++) {
    make_minimal(version);
    for (int times = 0; times < 2; times++) { /* the second time there is nothing to do */
      sqlite3 *db = NULL;
      assert_int_equal(open_as_3(to_3, &db, NULL), TP_OK);
      assert_answer(db, "SELECT group_concat(id) FROM entry", "4");
      assert_answer(db, "SELECT group_concat(id || name) FROM second", version == 1 ? "4made" : "8filled8,9filled9");
      assert_answer(db, "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)",
                    "entry,second,second_name");
      assert_answer(db, "PRAGMA user_version", "3");
      sqlite3_close(db);
    }
    unlink(path);
  }
}

TEST(a_file_that_cannot_be_upgraded_is_left_as_it_was) {
  sqlite3 *db = NULL;
  tp_fault fault = {0};
  make_minimal(2);
  for (int i = 0; i < 2; i++) { /* the second time without a fill: '' for both rows */
    assert_int_equal(open_as_3(i == 0 ? to_failure : NULL, &db, &fault), TP_ERR_STORE);
    assert_null(db);
    assert_says(&fault, TP_ERR_STORE, "upgrade its tables", "UNIQUE");
  }
  assert_int_equal(tp__sqlite_open(path, &minimal, &db, NULL), TP_OK);
  assert_answer(db, "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema ORDER BY name)",
                "added,entry,second,third");
  sqlite3_close(db);
  assert_int_equal(open_as_3(to_3, &db, NULL), TP_OK);
  assert_answer(db, "SELECT group_concat(id || name) FROM second", "8filled8,9filled9");
  sqlite3_close(db);
}

/* Each way in which a table may differ. The table has the row (7, 'a', 5), which keeps the columns that the declared
 * table still has. */
TEST(a_table_that_differs_in_anything_is_the_declared_one_afterwards) {
#define OLD_TABLE "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER)"
  static const struct {
    const char *old, *declared, *columns, *row;
    bool is_altered; /* it was altered in place, so that the text of its statement differs */
  } rows[] = {
      {OLD_TABLE, OLD_TABLE, "id || name || size", "7a5", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER, more BLOB NOT NULL)",
       "id || name || size || length(more)", "7a50", true},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER, more INTEGER)",
       "id || name || (more IS NULL)", "7a1", true},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, more TEXT NOT NULL, name TEXT NOT NULL)",
       "id || name || more", "7a", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)", "id || name", "7a", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name BLOB NOT NULL, size INTEGER)", "id || name || size",
       "7a5", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER NOT NULL)",
       "id || name || size", "7a5", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, size INTEGER)",
       "id || name || size", "7a5", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER)",
       "id || name || size", "7a5", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER) WITHOUT ROWID",
       "id || name || size", "7a5", false},
      {OLD_TABLE,
       "CREATE TABLE t (id INTEGER, name TEXT NOT NULL, size INTEGER, part INTEGER NOT NULL, PRIMARY KEY (id, part))",
       "id || name || size || part", "7a50", false},
      {OLD_TABLE, "CREATE TABLE t (id INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER, PRIMARY KEY (id, name))",
       "id || name || size", "7a5", false},
      {"CREATE TABLE t (id INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER, PRIMARY KEY (id, name))",
       "CREATE TABLE t (id INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER, PRIMARY KEY (id, name)) WITHOUT ROWID",
       "id || name || size", "7a5", false},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    const char *const old[] = {rows[i].old, NULL}, *const declared[] = {rows[i].declared, NULL};
    const tp__sqlite_schema made = {.noun = "a list", .application_id = 7, .version = 1, .sql = old};
    const tp__sqlite_schema newer = {.noun = "a list", .application_id = 7, .version = 2, .sql = declared};
    sqlite3 *db = NULL;
    char question[128];
    assert_int_equal(tp__sqlite_open(path, &made, &db, NULL), TP_OK);
    assert_int_equal(sqlite3_exec(db, "INSERT INTO t VALUES (7, 'a', 5)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(tp__sqlite_open(path, &newer, &db, NULL), TP_OK);
    snprintf(question, sizeof question, "SELECT %s FROM t", rows[i].columns);
    assert_answer(db, question, rows[i].row);
    if (!rows[i].is_altered) assert_answer(db, "SELECT sql FROM sqlite_schema WHERE name = 't'", rows[i].declared);
    assert_answer(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'", "1");
    sqlite3_close(db);
    unlink(path);
  }
#undef OLD_TABLE
}

/* A memory of version 1, as the library made it. */
static const char memory_1[] =
    "DROP TRIGGER memory_added; DROP TRIGGER memory_changed; DROP TRIGGER memory_removed;"
    "CREATE INDEX memory_session ON memory (scope, session);"
    "CREATE VIRTUAL TABLE recall USING fts5 (text, scope, content='memory', content_rowid='id',"
    "  tokenize='porter unicode61 remove_diacritics 2');"
    "CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN"
    "  UPDATE scope SET memories = memories + 1 WHERE id = new.scope;"
    "  INSERT INTO recall (rowid, text, scope) VALUES (new.id, new.text, new.scope); END;"
    "CREATE TRIGGER memory_changed AFTER UPDATE OF text ON memory BEGIN"
    "  UPDATE scope SET changes = changes + 1 WHERE id = old.scope;"
    "  INSERT INTO recall (recall, rowid, text, scope) VALUES ('delete', old.id, old.text, old.scope);"
    "  INSERT INTO recall (rowid, text, scope) VALUES (new.id, new.text, new.scope); END;"
    "CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN"
    "  UPDATE scope SET memories = memories - 1, changes = changes + 1 WHERE id = old.scope;"
    "  INSERT INTO recall (recall, rowid, text, scope) VALUES ('delete', old.id, old.text, old.scope); END;"
    "INSERT INTO scope (tenant, kind, name, memories) VALUES ('t', 'workspace', 'w', 0);"
    "INSERT INTO memory (scope, session, turn, part, said_ms, asks, text) VALUES (1, 's', '1', '', 1, 0, 'a "
    "kegerator');"
    "INSERT INTO memory (scope, session, turn, part, said_ms, asks, text) VALUES (1, 's', '2', '', 1, 0, 'a violin');"
    "PRAGMA user_version = 1; VACUUM;"; /* VACUUM puts the virtual table after its own tables */

TEST(a_memory_of_version_1_loses_its_full_text_index_and_nothing_else) {
  static const char more[] =
      "UPDATE memory SET text = 'a cello' WHERE turn = '2'; DELETE FROM memory WHERE turn = '1';"
      "INSERT INTO memory (scope, session, turn, part, said_ms, asks, text)"
      " VALUES (1, 's', '3', '', 1, 0, 'a flute');";
  sqlite3 *db = NULL;
  make_memory(memory_1);
  assert_int_equal(tp__memory_database_open(path, &db, NULL), TP_OK);
  assert_answer(db, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'recall%' OR name = 'memory_session'", "0");
  assert_answer(db, "SELECT group_concat(text) FROM memory", "a kegerator,a violin");
  assert_int_equal(sqlite3_exec(db, more, NULL, NULL, NULL), SQLITE_OK);
  assert_answer(db, "SELECT memories || ' ' || changes FROM scope", "2 2");
  assert_answer(db, "SELECT max(id) FROM memory", "3");
  assert_answer(db, "PRAGMA user_version", "2");
  assert_answer(db, "PRAGMA integrity_check", "ok");
  sqlite3_close(db);
  sqlite3 *new = NULL;
  char other[sizeof path + 8];
  snprintf(other, sizeof other, "%s-new", path);
  assert_int_equal(tp__memory_database_open(other, &new, NULL), TP_OK);
  char sql[256];
  snprintf(sql, sizeof sql, "ATTACH '%s' AS old", path);
  assert_int_equal(sqlite3_exec(new, sql, NULL, NULL, NULL), SQLITE_OK);
  assert_answer(new,
                "SELECT count(*) FROM (SELECT name, sql FROM main.sqlite_schema EXCEPT SELECT name, sql FROM"
                " old.sqlite_schema)",
                "0"); /* it is what a new file is */
  sqlite3_close(new);
  unlink(other);
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

/* Every primary result code of SQLite, and the extended codes whose meaning differs from their class. */
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

/* Whatever ended the transaction, no lock may be left: else the file stays locked for all others. */
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

/* ---- works that share one commit ---- */

enum { WORKS = 12 };

typedef struct group_world {
  tp__lock connection;
  sqlite3 *db;
  tp__group group;
  int commits; /* guarded by the lock of the connection */
  latch begun, may_end;
  latch ended;
} group_world;

typedef struct row_work {
  tp__group_work base;
  group_world *world;
  int number;
  int fails_with; /* an SQLite code after its insert; SQLITE_OK: none */
  bool waits;     /* in its first write, for may_end */
  int writes;
  char doing[16];
  tp_status status;
} row_work;

static int count_commit(void *ctx) {
  ((group_world *)ctx)->commits++;
  return 0;
}

static void open_group(group_world *w, bool with_thread) {
  *w = (group_world){.begun = LATCH, .may_end = LATCH, .ended = LATCH};
  tp__lock_init(&w->connection, TP__LOCK_store);
  assert_int_equal(tp__sqlite_open(path, &minimal, &w->db, NULL), TP_OK);
  sqlite3_commit_hook(w->db, count_commit, w);
  assert_int_equal(tp__group_init(&w->group, &w->connection, w->db, path, with_thread, NULL), TP_OK);
}

static void close_group(group_world *w) {
  tp__group_fini(&w->group);
  sqlite3_close(w->db);
  tp__lock_fini(&w->connection);
}

static int write_row(void *ctx) {
  row_work *r = ctx;
  const int64_t number = r->number;
  if (r->waits && r->writes == 0) {
    latch_hit(&r->world->begun);
    latch_wait(&r->world->may_end, 1);
  }
  r->writes++;
  int rc = tp__sqlite_once(r->world->db, "INSERT INTO entry VALUES (?1)", &number, 1, NULL);
  return rc == SQLITE_OK ? r->fails_with : rc;
}

static void row_ended(tp__group_work *work) {
  row_work *r = work->ctx;
  r->status = work->status;
  latch_hit(&r->world->ended);
}

static row_work *make_rows(row_work *rows, group_world *w, void (*end)(tp__group_work *work)) {
  for (int i = 0; i < WORKS; i++) {
    rows[i] = (row_work){.world = w, .number = i + 1, .waits = i == 0};
    snprintf(rows[i].doing, sizeof rows[i].doing, "write row %d", i);
    rows[i].base = (tp__group_work){.write = write_row, .ctx = &rows[i], .doing = rows[i].doing, .end = end};
  }
  return rows;
}

static bool has_row(group_world *w, int number) {
  const int64_t value = number;
  int64_t found = 0;
  assert_int_equal(tp__sqlite_once(w->db, "SELECT count(*) FROM entry WHERE id = ?1", &value, 1, &found), SQLITE_OK);
  return found == 1;
}

static size_t waiting_works(group_world *w) {
  size_t count = 0;
  tp__lock_acquire(&w->group.mutex);
  for (const tp__group_work *work = w->group.first; work; work = work->next) count++;
  tp__lock_release(&w->group.mutex);
  return count;
}

/* The first work holds the connection until all others wait. */
static void submit_behind_the_first(group_world *w, row_work *rows) {
  tp__group_submit(&w->group, &rows[0].base);
  latch_wait(&w->begun, 1);
  for (int i = 1; i < WORKS; i++) tp__group_submit(&w->group, &rows[i].base);
  assert_int_equal(waiting_works(w), WORKS - 1);
  latch_hit(&w->may_end);
  latch_wait(&w->ended, WORKS);
}

TEST(works_that_come_during_a_commit_share_the_next_one) {
  group_world w;
  row_work rows[WORKS];
  open_group(&w, true);
  submit_behind_the_first(&w, make_rows(rows, &w, row_ended));
  assert_int_equal(w.commits, 2);
  for (int i = 0; i < WORKS; i++) {
    assert_int_equal(rows[i].status, TP_OK);
    assert_int_equal(rows[i].writes, 1);
    assert_true(has_row(&w, i + 1));
  }
  close_group(&w);
}

/* One work fails, for any reason and at any place in the group; the others do not fail. */
TEST(a_work_that_fails_fails_alone) {
  static const struct {
    int rc;
    tp_status status;
  } failures[] = {
      {SQLITE_CONSTRAINT, TP_ERR_STORE}, {SQLITE_TOOBIG, TP_ERR_TOO_LARGE},  {SQLITE_FULL, TP_ERR_STORE_FULL},
      {SQLITE_NOMEM, TP_ERR_NO_MEMORY},  {SQLITE_IOERR_WRITE, TP_ERR_IO},    {SQLITE_CORRUPT, TP_ERR_STORE_CORRUPT},
      {SQLITE_BUSY, TP_ERR_STORE_BUSY},  {SQLITE_LOCKED, TP_ERR_STORE_BUSY}, {SQLITE_READONLY, TP_ERR_STORE_READONLY},
      {SQLITE_INTERRUPT, TP_ERR_STORE},  {SQLITE_MISMATCH, TP_ERR_STORE},    {SQLITE_RANGE, TP_ERR_STORE}};
  for (size_t f = 0; f < COUNT(failures); f++) {
    group_world w;
    row_work rows[WORKS];
    const int bad = 1 + (int)f % (WORKS - 1);
    unlink(path);
    open_group(&w, true);
    make_rows(rows, &w, row_ended);
    rows[bad].fails_with = failures[f].rc;
    submit_behind_the_first(&w, rows);
    for (int i = 0; i < WORKS; i++) {
      assert_int_equal(rows[i].status, i == bad ? failures[f].status : TP_OK);
      assert_true(has_row(&w, i + 1) == (i != bad));
    }
    assert_says(&rows[bad].base.fault, failures[f].status, rows[bad].doing, "");
    assert_int_equal(w.commits, WORKS - 1); /* the first work, and each of the others alone */
    close_group(&w);
  }
}

static int count_waits(void *ctx, int waited) {
  (void)waited;
  ++*(int *)ctx;
  return 0; /* no longer */
}

/* No work waits for the lock in a transaction of its own. */
TEST(works_of_a_file_that_is_locked_fail_together) {
  group_world w;
  row_work rows[WORKS];
  sqlite3 *other = NULL;
  int waits = 0;
  open_group(&w, true);
  sqlite3_busy_handler(w.db, count_waits, &waits);
  make_rows(rows, &w, row_ended);
  tp__group_submit(&w.group, &rows[0].base);
  latch_wait(&w.begun, 1);
  tp__lock_acquire(&w.group.mutex); /* the next transaction begins when the file is locked and all wait */
  latch_hit(&w.may_end);
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  sqlite3_busy_timeout(other, 60000);
  assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  tp__lock_release(&w.group.mutex);
  tp__lock_acquire(&w.connection);
  for (int i = 1; i < WORKS; i++) tp__group_submit(&w.group, &rows[i].base);
  tp__lock_release(&w.connection);
  latch_wait(&w.ended, WORKS);
  assert_int_equal(waits, 1);
  assert_int_equal(rows[0].status, TP_OK);
  for (int i = 1; i < WORKS; i++) {
    assert_int_equal(rows[i].status, TP_ERR_STORE_BUSY);
    assert_int_equal(rows[i].writes, 0);
    assert_says(&rows[i].base.fault, TP_ERR_STORE_BUSY, "locked", "end the other process");
  }
  assert_int_equal(sqlite3_close(other), SQLITE_OK);
  close_group(&w);
}

TEST(a_group_does_what_waits_before_it_ends) {
  group_world w;
  row_work rows[WORKS];
  open_group(&w, true);
  make_rows(rows, &w, row_ended)[0].waits = false;
  for (int i = 0; i < WORKS; i++) tp__group_submit(&w.group, &rows[i].base);
  tp__group_fini(&w.group);
  for (int i = 0; i < WORKS; i++) assert_int_equal(rows[i].status, TP_OK);
  for (int i = 0; i < WORKS; i++) assert_true(has_row(&w, i + 1));
  close_group(&w);
}

static void *run_row(void *ctx) {
  row_work *r = ctx;
  tp_fault fault = {0};
  r->status = tp__group_run(&r->world->group, &r->base, &fault);
  assert(r->status == fault.code);
  return NULL;
}

/* Without a thread of the group, the first waiting thread leads the next commit. Here, too, one work fails alone. */
TEST(threads_that_wait_lead_one_after_the_other) {
  enum { BAD = 5 };
  for (int with_thread = 0; with_thread < 2; with_thread++) {
    group_world w;
    row_work rows[WORKS];
    pthread_t threads[WORKS];
    unlink(path);
    open_group(&w, with_thread);
    make_rows(rows, &w, NULL)[BAD].fails_with = SQLITE_CONSTRAINT;
    for (int i = 0; i < WORKS; i++) {
      assert_int_equal(pthread_create(&threads[i], NULL, run_row, &rows[i]), 0);
      if (i == 0) latch_wait(&w.begun, 1);
    }
    while (waiting_works(&w) < WORKS - 1) sched_yield();
    latch_hit(&w.may_end);
    for (int i = 0; i < WORKS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < WORKS; i++) {
      assert_int_equal(rows[i].status, i == BAD ? TP_ERR_STORE : TP_OK);
      assert_true(has_row(&w, i + 1) == (i != BAD));
    }
    assert_int_equal(w.commits, WORKS - 1);
    close_group(&w);
  }
}

static void end_group_of(void *ctx) {
  group_world *w = ctx;
  tp__group_fini(&w->group);
  latch_hit(&w->ended);
}

static void end_owner(tp__group_work *work) {
  row_work *r = work->ctx;
  assert(tp__group_end_later(&r->world->group, end_group_of, r->world));
}

/* The end of a work may free the object that contains the group. */
TEST(a_group_ends_from_the_end_of_a_work) {
  group_world w;
  row_work rows[WORKS];
  open_group(&w, true);
  make_rows(rows, &w, end_owner)[0].waits = false;
  assert_false(tp__group_end_later(&w.group, end_group_of, &w)); /* this thread is not the thread of the group */
  tp__group_submit(&w.group, &rows[0].base);
  latch_wait(&w.ended, 1);
  assert_true(has_row(&w, 1));
  close_group(&w); /* which has ended */
}
