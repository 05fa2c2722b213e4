/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite/upgrade.h"
#include "support/lock.h"

/* ---- faults ---- */

tp_status tp__sqlite_status(int rc) {
  if (rc == SQLITE_IOERR_NOMEM) return TP_ERR_NO_MEMORY;
  if (rc == SQLITE_READONLY_DBMOVED) return TP_ERR_IO;
  switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return TP_OK;
    case SQLITE_NOMEM:
      return TP_ERR_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return TP_ERR_STORE_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return TP_ERR_STORE_CORRUPT;
    case SQLITE_FULL:
      return TP_ERR_STORE_FULL;
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_PERM:
      return TP_ERR_STORE_READONLY;
    case SQLITE_IOERR:
    case SQLITE_NOLFS:
    case SQLITE_CANTOPEN:
      return TP_ERR_IO;
    case SQLITE_TOOBIG:
      return TP_ERR_TOO_LARGE;
    default:
      return TP_ERR_STORE;
  }
}

static const char *remedy_of(tp_status status) {
  switch (status) {
    case TP_ERR_STORE_BUSY:
      return "; end the other process that holds it, or try again";
    case TP_ERR_STORE_CORRUPT:
      return "; keep the file, and restore a copy";
    case TP_ERR_STORE_FULL:
      return "; free space and try again";
    case TP_ERR_STORE_READONLY:
      return "; give a file and a directory that can be written";
    case TP_ERR_IO:
      return "; see that its directory is there and its disk is well, or give another path";
    default:
      return "";
  }
}

/* After these errors a connection keeps errno until the next such error, also after a rollback. SQLite reports ENOSPC
 * of a write as a full disk. A quota, a limit of the file's size, and a full file of shared memory are reported as I/O
 * errors. */
static bool has_errno(int rc) { return (rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN; }
static bool is_full(int error) {
  assert(error >= 0);
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

static const char *shown_path(const char *path) { return path ? path : "memory"; }

tp_status tp__sqlite_fail(sqlite3 *db, const char *path, const char *doing, int rc, tp_fault *fault) {
  assert(tp__sqlite_status(rc) != TP_OK);
  tp_status status = tp__sqlite_status(rc);
  bool known_there = db && sqlite3_extended_errcode(db) == rc; /* otherwise the connection remembers a later error */
  const char *words = known_there ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  int system_error = db && has_errno(rc) ? sqlite3_system_errno(db) : 0;
  if (rc == SQLITE_READONLY_DBMOVED) words = "the file was removed, moved or replaced while it was open";
  if (status == TP_ERR_IO && is_full(system_error)) status = TP_ERR_STORE_FULL;
  tp__refuse(fault, status, shown_path(path), "%s: %s: %s%s", shown_path(path), doing, words, remedy_of(status));
  if (fault) fault->system_error = system_error;
  return status;
}

/* ---- opening ---- */

static tp_status status_of_errno(int error) {
  switch (error) {
    case ENOMEM:
      return TP_ERR_NO_MEMORY;
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
      return TP_ERR_STORE_FULL;
    case EACCES:
    case EPERM:
    case EROFS:
      return TP_ERR_STORE_READONLY;
    default:
      return TP_ERR_IO;
  }
}

/* SQLite would create the file with the mode that the umask leaves, and its journal files with the mode of the file, so
 * this code creates the file. It opens a file only if it did not exist before, because closing any descriptor of a file
 * drops every POSIX lock that this process holds on it, including those of other connections. The mutex prevents that
 * another thread opens the same new file and takes such a lock between our open and our close. A child never begins
 * with the mutex held. */
static tp__lock birth = TP__LOCK_INITIALIZER(TP__LOCK_database_birth);
static void lock_birth(void) { tp__lock_acquire(&birth); }
static void unlock_birth(void) { tp__lock_release(&birth); }
__attribute__((constructor)) static void watch_forks(void) {
  (void)!pthread_atfork(lock_birth, unlock_birth, unlock_birth);
}

static tp_status create_private(const char *path, tp_fault *fault) {
  tp__lock_acquire(&birth);
  int error = 0;
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  else if (errno != EEXIST) error = errno;
  tp__lock_release(&birth);
  if (!error) return TP_OK;
  tp_status status = status_of_errno(error);
  (void)!tp__refuse(fault, status, path, "%s cannot be made: %s%s", path, strerror(error), remedy_of(status));
  if (fault) fault->system_error = error;
  return status;
}

/* SQLite could take "file:x" for a URI, and ":memory:" for no file. A path that begins with "/" or "./" is always a
 * file. */
static char *path_without_uri(const char *path) {
  if (!path) return sqlite3_mprintf(":memory:");
  return sqlite3_mprintf("%s%s", path[0] == '/' ? "" : "./", path);
}

/* SQLite would wait for the other end of a FIFO. This check opens no descriptor, because closing one would drop the
 * locks of this process. */
tp_status tp__sqlite_check_type(const char *path, tp_fault *fault) {
  struct stat found;
  if (!path || stat(path, &found) != 0 || S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)) return TP_OK;
  return tp__refuse(fault, TP_ERR_IO, path, "%s is not a regular file; give another path", path);
}

static tp_status connect_to(const char *path, sqlite3 **ret_db, tp_fault *fault) {
  tp_status status = tp__sqlite_check_type(path, fault);
  if (status != TP_OK) return status;
  char *without_uri = path_without_uri(path);
  if (!without_uri) return tp__sqlite_fail(NULL, path, "open", SQLITE_NOMEM, fault);
  sqlite3 *db = NULL;
  int rc = sqlite3_open_v2(without_uri, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
  sqlite3_free(without_uri);
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(db, TP__SQLITE_BUSY_MS);
  if (rc != SQLITE_OK) {
    status = tp__sqlite_fail(db, path, "open", rc, fault);
    sqlite3_close(db);
    return status;
  }
  *ret_db = db;
  return TP_OK;
}

uint64_t tp__sqlite_origin(sqlite3 *db) {
  struct stat found;
  const char *path = sqlite3_db_filename(db, "main");
  if (!path || !path[0] || stat(path, &found) != 0) return 0;
  return ((uint64_t)found.st_dev * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)found.st_ino) | 1;
}

int tp__sqlite_once(sqlite3 *db, const char *sql, const int64_t *values, int count, int64_t *ret_number) {
  assert(sql && count >= 0 && (values || count == 0));
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  for (int i = 0; i < count && rc == SQLITE_OK; i++) rc = sqlite3_bind_int64(statement, i + 1, values[i]);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  if (ret_number) *ret_number = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  sqlite3_finalize(statement);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/** What a file says of itself. */
typedef struct identity {
  int64_t application_id, version, objects;
} identity;

/* Reads everything at one moment: the savepoint prevents that another process makes the tables between two of the
 * questions. */
static int read_identity(sqlite3 *db, identity *ret_identity) {
  int rc = sqlite3_exec(db, "SAVEPOINT look", NULL, NULL, NULL);
  if (rc != SQLITE_OK) return rc;
  rc = tp__sqlite_once(db, "PRAGMA application_id", NULL, 0, &ret_identity->application_id);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(db, "PRAGMA user_version", NULL, 0, &ret_identity->version);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(db, "SELECT count(*) FROM sqlite_schema", NULL, 0, &ret_identity->objects);
  int end = sqlite3_exec(db, "RELEASE look", NULL, NULL, NULL);
  return rc == SQLITE_OK ? end : rc;
}

/* Checks that the file is empty, or has this schema or an earlier one. Any other file is refused.
 * @param ret_version  0: the file is empty. */
static tp_status identify(sqlite3 *db, const char *path, const tp__sqlite_schema *schema, int64_t *ret_version,
                          tp_fault *fault) {
  identity is = {0};
  int rc = read_identity(db, &is);
  if (rc != SQLITE_OK) return tp__sqlite_fail(db, path, "read its header", rc, fault);
  *ret_version = is.version;
  if (is.application_id == 0 && is.version == 0 && is.objects == 0) return TP_OK;
  if (is.application_id != schema->application_id)
    return tp__refuse(fault, TP_ERR_STORE_SCHEMA, path,
                      "%s is a SQLite file of another program, not %s; give another path", path, schema->noun);
  if (is.version > schema->version)
    return tp__refuse(fault, TP_ERR_STORE_SCHEMA, path,
                      "%s is %s of schema version %lld, and this library has version %d; use the turnphase that "
                      "wrote it, or give another path",
                      path, schema->noun, (long long)is.version, (int)schema->version);
  if (is.version <= 0)
    return tp__refuse(fault, TP_ERR_STORE_CORRUPT, path,
                      "%s says it is %s of schema version %lld, which there never was%s", path, schema->noun,
                      (long long)is.version, remedy_of(TP_ERR_STORE_CORRUPT));
  return TP_OK;
}

/* @param version  the version of the file; 0: it is empty. */
static int make_schema(sqlite3 *db, const tp__sqlite_schema *schema, int64_t version) {
  char numbers[96];
  snprintf(numbers, sizeof numbers, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
           (int)schema->application_id, (int)schema->version);
  int rc = version == 0 ? tp__sqlite_make_tables(db, schema) : tp__sqlite_upgrade(db, schema);
  if (rc == SQLITE_OK) rc = sqlite3_exec(db, numbers, NULL, NULL, NULL);
  return rc == SQLITE_OK ? sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) : rc;
}

/* Another process may have made or upgraded the tables between the first look and the lock, so the file is checked
 * again under the lock. */
static tp_status make_tables(sqlite3 *db, const char *path, const tp__sqlite_schema *schema, tp_fault *fault) {
  int rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (rc != SQLITE_OK) return tp__sqlite_fail(db, path, "begin", rc, fault);
  int64_t version = 0;
  tp_status status = identify(db, path, schema, &version, fault);
  if (status == TP_OK && version != schema->version) {
    rc = make_schema(db, schema, version);
    if (rc != SQLITE_OK)
      status = tp__sqlite_fail(db, path, version == 0 ? "make its tables" : "upgrade its tables", rc, fault);
  }
  if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

/* SQLite does not wait for a lock while it switches a file to WAL. Two openers of a new file could refuse each other,
 * so this code waits. auto_vacuum can only be set in a new file, and setting it takes the write lock. */
static tp_status set_durable(sqlite3 *db, const char *path, const tp__sqlite_schema *schema, bool is_new,
                             tp_fault *fault) {
  enum { PAUSE_MS = 10 };
  char sql[144];
  snprintf(sql, sizeof sql, "%sPRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = %s;",
           is_new && schema->shrinks ? "PRAGMA auto_vacuum = INCREMENTAL; " : "",
           schema->overwrites_deleted ? "ON" : "FAST");
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  for (int waited_ms = 0; (rc & 0xff) == SQLITE_BUSY && waited_ms < TP__SQLITE_BUSY_MS; waited_ms += PAUSE_MS) {
    sqlite3_sleep(PAUSE_MS);
    rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  }
  return rc == SQLITE_OK ? TP_OK : tp__sqlite_fail(db, path, "set up its journal", rc, fault);
}

static tp_status check_pages_once(sqlite3 *db, const char *path, tp_fault *fault) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  tp_status status = TP_OK;
  const char *verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  if (rc != SQLITE_ROW) status = tp__sqlite_fail(db, path, "check its pages", rc, fault);
  else if (!verdict) status = tp__sqlite_fail(db, path, "check its pages", SQLITE_NOMEM, fault);
  else if (strcmp(verdict, "ok") != 0)
    status = tp__refuse(fault, TP_ERR_STORE_CORRUPT, path, "%s is damaged: %s%s", path, verdict,
                        remedy_of(TP_ERR_STORE_CORRUPT));
  sqlite3_finalize(statement);
  return status;
}

/* When SQLite had no memory to read a page, it reports the page as damaged. So damage must be found twice. */
static tp_status check_pages(sqlite3 *db, const char *path, tp_fault *fault) {
  tp_status status = check_pages_once(db, path, fault);
  return status == TP_ERR_STORE_CORRUPT ? check_pages_once(db, path, fault) : status;
}

static tp_status check_and_set_up(sqlite3 *db, const char *path, const tp__sqlite_schema *schema, tp_fault *fault) {
  int64_t version = 0;
  if (sqlite3_db_readonly(db, "main") == 1) return tp__sqlite_fail(NULL, path, "open", SQLITE_READONLY, fault);
  tp_status status = identify(db, path, schema, &version, fault);
  if (status == TP_OK && version > 0) status = check_pages(db, path, fault);
  if (status == TP_OK) status = set_durable(db, path, schema, version == 0, fault);
  if (status == TP_OK && version != schema->version) status = make_tables(db, path, schema, fault);
  if (status == TP_OK && schema->busy_ms) sqlite3_busy_timeout(db, schema->busy_ms);
  return status;
}

tp_status tp__sqlite_open(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db, tp_fault *fault) {
  assert(schema->version >= 1 && schema->application_id != 0 && ret_db);
  sqlite3 *db = NULL;
  tp_status status = path ? create_private(path, fault) : TP_OK;
  if (status == TP_OK) status = connect_to(path, &db, fault);
  if (status != TP_OK) return status;
  status = check_and_set_up(db, shown_path(path), schema, fault);
  if (status == TP_OK) *ret_db = db;
  else sqlite3_close(db);
  return status;
}

tp_status tp__sqlite_open_reader(const char *path, sqlite3 **ret_db, tp_fault *fault) {
  sqlite3 *db = NULL;
  tp_status status = connect_to(path, &db, fault);
  if (status != TP_OK) return status;
  int rc = sqlite3_exec(db, "PRAGMA query_only = ON", NULL, NULL, NULL);
  if (rc == SQLITE_OK) *ret_db = db;
  else {
    status = tp__sqlite_fail(db, path, "open", rc, fault);
    sqlite3_close(db);
  }
  return status;
}
