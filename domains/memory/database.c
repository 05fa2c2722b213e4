/* SPDX-License-Identifier: Apache-2.0
 *
 * scope: one row per (tenant, kind, name), with the number of its memories. memory: what is remembered; its key is
 * (scope, session, turn, part), and ids rise and are never used again, so that "memory:12" means one thing for ever.
 * recall: the full-text index over memory (external content, kept in step by triggers). The id of the scope is indexed
 * beside the text: a search enters the index at the words of its own scope and walks through no other tenant's. */
#include "domains/memory/database.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x54704d65 /* "TpMe" */, SCHEMA_VERSION = 1 };

static const char schema_sql[] =
    "CREATE TABLE scope (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,"
    "  memories INTEGER NOT NULL, UNIQUE (tenant, kind, name));"
    "CREATE TABLE memory (id INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL, session TEXT NOT NULL,"
    "  turn TEXT NOT NULL, part TEXT NOT NULL, said_ms INTEGER NOT NULL, asks INTEGER NOT NULL, text TEXT NOT NULL,"
    "  UNIQUE (scope, session, turn, part));"
    "CREATE INDEX memory_scope ON memory (scope);"
    "CREATE INDEX memory_session ON memory (scope, session);"
    "CREATE VIRTUAL TABLE recall USING fts5 (text, scope, content='memory', content_rowid='id',"
    "  tokenize='porter unicode61 remove_diacritics 2');"
    "CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN"
    "  UPDATE scope SET memories = memories + 1 WHERE id = new.scope;"
    "  INSERT INTO recall (rowid, text, scope) VALUES (new.id, new.text, new.scope); END;"
    "CREATE TRIGGER memory_changed AFTER UPDATE OF text ON memory BEGIN"
    "  INSERT INTO recall (recall, rowid, text, scope) VALUES ('delete', old.id, old.text, old.scope);"
    "  INSERT INTO recall (rowid, text, scope) VALUES (new.id, new.text, new.scope); END;"
    "CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN"
    "  UPDATE scope SET memories = memories - 1 WHERE id = old.scope;"
    "  INSERT INTO recall (recall, rowid, text, scope) VALUES ('delete', old.id, old.text, old.scope); END;";

/* ---- faults ---- */

/* Copies what fits, and never half a code point. */
static void copy_cut(char *into, size_t into_size, const char *text) {
  size_t size = strlen(text);
  if (size >= into_size)
    for (size = into_size - 1; size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80;) size--;
  memcpy(into, text, size);
  into[size] = '\0';
}

tp_status tp__memory_refuse(tp_fault *fault, tp_status code, const char *subject, const char *format, ...) {
  if (!fault) return code;
  char message[2 * TP_FAULT_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  memset(fault, 0, sizeof *fault);
  fault->code = code;
  copy_cut(fault->subject, sizeof fault->subject, subject ? subject : "");
  copy_cut(fault->message, sizeof fault->message, message);
  return code;
}

tp_status tp__memory_status(int rc) {
  if (rc == SQLITE_IOERR_NOMEM) return TP_ERR_NO_MEMORY;
  switch (rc & 0xff) {
  case SQLITE_OK:
  case SQLITE_ROW:
  case SQLITE_DONE: return TP_OK;
  case SQLITE_NOMEM: return TP_ERR_NO_MEMORY;
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return TP_ERR_STORE_BUSY;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return TP_ERR_STORE_CORRUPT;
  case SQLITE_FULL: return TP_ERR_STORE_FULL;
  case SQLITE_READONLY:
  case SQLITE_PERM: return TP_ERR_STORE_READONLY;
  case SQLITE_IOERR:
  case SQLITE_CANTOPEN: return TP_ERR_IO;
  case SQLITE_TOOBIG: return TP_ERR_TOO_LARGE;
  default: return TP_ERR_STORE;
  }
}

static const char *name_of(const char *path) { return path ? path : "memory"; }

static tp_status fail_with(const char *path, const char *doing, int rc, tp_fault *fault) {
  return tp__memory_refuse(fault, tp__memory_status(rc), name_of(path), "%s: %s: %s", name_of(path), doing,
                           sqlite3_errstr(rc));
}

/* ---- opening ---- */

static tp_status status_of_errno(int error) {
  switch (error) {
  case ENOMEM: return TP_ERR_NO_MEMORY;
  case ENOSPC:
  case EDQUOT: return TP_ERR_STORE_FULL;
  case EACCES:
  case EPERM:
  case EROFS: return TP_ERR_STORE_READONLY;
  default: return TP_ERR_IO;
  }
}

/* SQLite would give the file the mode that the umask leaves, so it is made here. Only a file that was not there is
 * opened: closing any descriptor of a file drops every POSIX lock this process holds on it. The mutex keeps a second
 * opener of the same new file from taking such a lock between our open and our close. */
static tp_status create_private(const char *path, tp_fault *fault) {
  static pthread_mutex_t birth = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&birth);
  int error = 0;
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  else if (errno != EEXIST) error = errno;
  pthread_mutex_unlock(&birth);
  if (!error) return TP_OK;
  char words[128];
  return tp__memory_refuse(fault, status_of_errno(error), path, "%s cannot be made: %s", path,
                           strerror_r(error, words, sizeof words));
}

static int connect_to(const char *path, sqlite3 **ret_db) {
  /* "file:x" could be a URI to SQLite; what begins with "/" or "./" is a file. */
  char *plain = path ? sqlite3_mprintf("%s%s", path[0] == '/' ? "" : "./", path) : sqlite3_mprintf(":memory:");
  if (!plain) return SQLITE_NOMEM;
  int rc = sqlite3_open_v2(plain, ret_db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
  sqlite3_free(plain);
  if (rc == SQLITE_OK && path && sqlite3_db_readonly(*ret_db, "main") == 1) rc = SQLITE_READONLY;
  return rc == SQLITE_OK ? sqlite3_busy_timeout(*ret_db, TP__MEMORY_OPEN_BUSY_MS) : rc;
}

/** What a file says of itself. */
typedef struct identity {
  int64_t application_id, version, objects;
} identity;

static int query_int(sqlite3 *db, const char *sql, int64_t *ret_value) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) *ret_value = sqlite3_column_int64(statement, 0);
  int end = sqlite3_finalize(statement);
  return rc == SQLITE_ROW ? SQLITE_OK : end != SQLITE_OK ? end : rc;
}

/* One look: the savepoint keeps another process from making the tables between two of the questions. */
static int read_identity(sqlite3 *db, identity *ret_identity) {
  int rc = sqlite3_exec(db, "SAVEPOINT look", NULL, NULL, NULL);
  if (rc != SQLITE_OK) return rc;
  rc = query_int(db, "PRAGMA application_id", &ret_identity->application_id);
  if (rc == SQLITE_OK) rc = query_int(db, "PRAGMA user_version", &ret_identity->version);
  if (rc == SQLITE_OK) rc = query_int(db, "SELECT count(*) FROM sqlite_schema", &ret_identity->objects);
  int end = sqlite3_exec(db, "RELEASE look", NULL, NULL, NULL);
  return rc == SQLITE_OK ? end : rc;
}

static tp_status identify(sqlite3 *db, const char *path, bool *ret_empty, tp_fault *fault) {
  identity is = {0};
  int rc = read_identity(db, &is);
  if (rc != SQLITE_OK) return fail_with(path, "read its header", rc, fault);
  *ret_empty = is.application_id == 0 && is.version == 0 && is.objects == 0;
  if (*ret_empty) return TP_OK;
  if (is.application_id != APPLICATION_ID)
    return tp__memory_refuse(fault, TP_ERR_STORE_SCHEMA, path,
                             "%s is a SQLite file of somebody else, not a memory; give another path", name_of(path));
  if (is.version != SCHEMA_VERSION)
    return tp__memory_refuse(fault, is.version > SCHEMA_VERSION ? TP_ERR_STORE_SCHEMA : TP_ERR_STORE_CORRUPT, path,
                             "%s is a memory of schema version %lld, and this library knows version %d; use a "
                             "turnphase that knows it",
                             name_of(path), (long long)is.version, SCHEMA_VERSION);
  return TP_OK;
}

static tp_status check_pages(sqlite3 *db, const char *path, tp_fault *fault) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  const char *verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  tp_status status = TP_OK;
  if (!verdict) status = fail_with(path, "check its pages", rc == SQLITE_ROW ? SQLITE_NOMEM : rc, fault);
  else if (strcmp(verdict, "ok") != 0)
    status = tp__memory_refuse(fault, TP_ERR_STORE_CORRUPT, path, "%s is damaged: %s; keep it, and restore a copy",
                               name_of(path), verdict);
  sqlite3_finalize(statement);
  return status;
}

/* What is forgotten is overwritten (secure_delete). SQLite does not wait for a lock while it switches a file to WAL, so
 * two openers of a new file could refuse each other: the waiting is done here. */
static int set_durable(sqlite3 *db) {
  static const char sql[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;";
  enum { PAUSE_MS = 10 };
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  for (int waited_ms = 0; (rc & 0xff) == SQLITE_BUSY && waited_ms < TP__MEMORY_OPEN_BUSY_MS; waited_ms += PAUSE_MS) {
    sqlite3_sleep(PAUSE_MS);
    rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  }
  return rc;
}

/* Another process may have made the tables since we looked, so the file is asked again under the lock. */
static tp_status make_tables(sqlite3 *db, const char *path, tp_fault *fault) {
  bool empty = false;
  int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (rc != SQLITE_OK) return fail_with(path, "begin", rc, fault);
  tp_status status = identify(db, path, &empty, fault);
  if (status == TP_OK && empty) {
    char numbers[96];
    snprintf(numbers, sizeof numbers, "PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION_ID,
             SCHEMA_VERSION);
    rc = sqlite3_exec(db, schema_sql, NULL, NULL, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, numbers, NULL, NULL, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (rc != SQLITE_OK) status = fail_with(path, "make its tables", rc, fault);
  }
  if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

static tp_status check_and_set_up(sqlite3 *db, const char *path, tp_fault *fault) {
  bool empty = false;
  tp_status status = identify(db, path, &empty, fault);
  if (status == TP_OK && !empty) status = check_pages(db, path, fault);
  if (status != TP_OK) return status;
  int rc = set_durable(db);
  if (rc != SQLITE_OK) return fail_with(path, "set up its journal", rc, fault);
  status = empty ? make_tables(db, path, fault) : TP_OK;
  sqlite3_busy_timeout(db, TP__MEMORY_BUSY_MS);
  return status;
}

tp_status tp__memory_database_open(const char *path, sqlite3 **ret_db, tp_fault *fault) {
  if (path && !path[0]) return tp__memory_refuse(fault, TP_ERR_USAGE, NULL, "the path of the memory is empty");
  tp_status status = path ? create_private(path, fault) : TP_OK;
  if (status != TP_OK) return status;
  sqlite3 *db = NULL;
  int rc = connect_to(path, &db);
  status = rc == SQLITE_OK ? check_and_set_up(db, path, fault) : fail_with(path, "open", rc, fault);
  if (status == TP_OK) *ret_db = db;
  else sqlite3_close(db);
  return status;
}
