/* SPDX-License-Identifier: Apache-2.0
 *
 * scope: one row per (tenant, kind, name), with the number of its memories and of the changes and deletions among them,
 * by which an index in memory finds out that it is out of date. The row of a scope whose memories were all deleted has
 * no kind. memory: the memories; their key is (scope, session, turn, part). Ids rise and are never reused, so that
 * "memory:12" always names the same memory. The file has no index of words: each process that recalls has its own
 * (index.h). vector: the vectors of memories, as numbers of 8 bits with a scale. embedded: for each scope the embedder
 * that made its vectors, and the memory up to which all memories have one; later memories have none yet, or one of
 * another embedder. Row -1 says that a deletion is not over: copies of deleted texts are left. fact: the memories that
 * a model extracted, their subjects, and what replaced them: a replaced fact is no longer recalled. */
#include "domains/memory/database.h"

#include "runtime/base/check.h"
#include "stores/sqlite/database.h"

#define ADDING_TRIGGER                                       \
  "CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN" \
  "  UPDATE scope SET memories = memories + 1 WHERE id = new.scope; END;"

#define COUNTING_TRIGGERS                                               \
  "CREATE TRIGGER memory_changed AFTER UPDATE OF text ON memory BEGIN"  \
  "  UPDATE scope SET changes = changes + 1 WHERE id = old.scope; END;" \
  "CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN"          \
  "  UPDATE scope SET memories = memories - 1, changes = changes + 1 WHERE id = old.scope; END;"

#define VECTOR_TABLES                                                                                 \
  "CREATE TABLE embedded (scope INTEGER PRIMARY KEY, embedder TEXT NOT NULL, upto INTEGER NOT NULL);" \
  "CREATE TABLE vector (memory INTEGER PRIMARY KEY, scope INTEGER NOT NULL, scale REAL NOT NULL,"     \
  "  bytes BLOB NOT NULL);"                                                                           \
  "CREATE INDEX vector_scope ON vector (scope);"                                                      \
  "CREATE TRIGGER vector_changed AFTER UPDATE OF text ON memory WHEN new.text <> old.text BEGIN"      \
  "  DELETE FROM vector WHERE memory = old.id;"                                                       \
  "  UPDATE embedded SET upto = min(upto, old.id - 1) WHERE scope = old.scope; END;"                  \
  "CREATE TRIGGER vector_removed AFTER DELETE ON memory BEGIN DELETE FROM vector WHERE memory = old.id; END;"

#define FACT_TABLE                                                                                \
  "CREATE TABLE fact (memory INTEGER PRIMARY KEY, scope INTEGER NOT NULL, subject TEXT NOT NULL," \
  "  replaced_by INTEGER NOT NULL DEFAULT 0, replaced_ms INTEGER NOT NULL DEFAULT 0);"            \
  "CREATE INDEX fact_scope ON fact (scope, replaced_ms);"                                         \
  "CREATE INDEX fact_replaced_by ON fact (replaced_by);"                                          \
  "CREATE TRIGGER fact_replaced AFTER UPDATE OF replaced_ms ON fact BEGIN"                        \
  "  UPDATE scope SET changes = changes + 1 WHERE id = new.scope; END;"                           \
  "CREATE TRIGGER fact_removed AFTER DELETE ON memory BEGIN DELETE FROM fact WHERE memory = old.id; END;"

#define MEMORY_TABLES                                                                                              \
  "CREATE TABLE scope (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,"      \
  "  memories INTEGER NOT NULL, changes INTEGER NOT NULL DEFAULT 0, UNIQUE (tenant, kind, name));"                 \
  "CREATE TABLE memory (id INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session TEXT NOT NULL,"      \
  "  turn TEXT NOT NULL, part TEXT NOT NULL, said_ms INTEGER NOT NULL, asks INTEGER NOT NULL, text TEXT NOT NULL," \
  "  UNIQUE (scope, session, turn, part));"                                                                        \
  "CREATE INDEX memory_scope ON memory (scope);" ADDING_TRIGGER

static const char *const tables[] = {MEMORY_TABLES, COUNTING_TRIGGERS, VECTOR_TABLES, FACT_TABLE, NULL};

/* Version 1 had a full-text index. It was the most expensive part of each insert, and no search used it: the upgrade
 * drops it. */
static const tp__sqlite_schema schema = {.noun = "a memory",
                                         .application_id = 0x54704d65, /* "TpMe" */
                                         .version = 2,
                                         .sql = tables,
                                         .busy_ms = 250, /* short: a turn cannot wait longer, and a job or a model can
                                                            try again */
                                         .overwrites_deleted = true};

tp_status tp__memory_database_open(const char *path, sqlite3 **ret_db, tp_fault *fault) {
  assert(ret_db);
  if (path && !path[0])
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "the path of the memory is empty; give one, or NULL to keep nothing on disk");
  return tp__sqlite_open(path, &schema, ret_db, fault);
}

tp_status tp__memory_database_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault) {
  assert(path && ret_db);
  tp_status status = tp__sqlite_open_reader(path, ret_db, fault);
  if (status == TP_OK) sqlite3_busy_timeout(*ret_db, schema.busy_ms);
  return status;
}

tp_status tp__memory_database_open_read_only(const char *path, sqlite3 **ret_db, tp_fault *fault) {
  assert(path && ret_db);
  return tp__sqlite_open_read_only(path, &schema, ret_db, fault);
}
