/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that must not or cannot be written: opened for reading only, without a change. If the file has a log, reading
 * needs a file of shared memory next to it, which cannot be made in a directory without write access. Without a log,
 * the file is read as one that no process changes. */
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/check.h"
#include "stores/sqlite/database.h"

/* The path as a URI, in which some characters have a special meaning. */
static char *uri_of(const char *path, const char *options) {
  sqlite3_str *uri = sqlite3_str_new(NULL);
  sqlite3_str_appendall(uri, path[0] == '/' ? "file:" : "file:./");
  for (; *path; path++)
    if (strchr("?#%", *path)) sqlite3_str_appendf(uri, "%%%02X", (unsigned char)*path);
    else sqlite3_str_append(uri, path, 1);
  sqlite3_str_appendall(uri, options);
  return sqlite3_str_finish(uri);
}

static int connect_with(const char *path, const char *options, int busy_ms, sqlite3 **ret_db) {
  assert(path && *path && options[0] == '?');
  char *uri = uri_of(path, options);
  if (!uri) return SQLITE_NOMEM;
  int rc = sqlite3_open_v2(uri, ret_db,
                           SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
  sqlite3_free(uri);
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(*ret_db, busy_ms);
  if (rc == SQLITE_OK) rc = sqlite3_exec(*ret_db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
  return rc;
}

static bool has_log(const char *path) {
  struct stat found;
  char *log = sqlite3_mprintf("%s-wal", path);
  bool has = !log || (stat(log, &found) == 0 && found.st_size > 0);
  sqlite3_free(log);
  return has;
}

static tp_status check_database(sqlite3 *db, const char *path, const tp__sqlite_schema *schema, tp_fault *fault) {
  int64_t id = 0, version = 0;
  int rc = tp__sqlite_once(db, "PRAGMA application_id", NULL, 0, &id);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(db, "PRAGMA user_version", NULL, 0, &version);
  if (rc != SQLITE_OK) return tp__sqlite_fail(db, path, "read its header", rc, fault);
  if (id != schema->application_id)
    return tp__refuse(fault, TP_ERR_STORE_SCHEMA, path, "%s is not %s; give another path", path, schema->noun);
  if (version == schema->version) return TP_OK;
  if (version > 0 && version < schema->version)
    return tp__refuse(fault, TP_ERR_STORE_SCHEMA, path,
                      "%s is of schema version %lld, and this library reads version %d; open it once where it can be "
                      "written, which upgrades it",
                      path, (long long)version, (int)schema->version);
  return tp__refuse(fault, TP_ERR_STORE_SCHEMA, path,
                    "%s is of schema version %lld, and this library reads version %d; use the turnphase that wrote it",
                    path, (long long)version, (int)schema->version);
}

tp_status tp__sqlite_open_read_only(const char *path, const tp__sqlite_schema *schema, sqlite3 **ret_db,
                                    tp_fault *fault) {
  sqlite3 *db = NULL;
  tp_status status = tp__sqlite_check_type(path, fault);
  if (status != TP_OK) return status;
  int busy_ms = schema->busy_ms ? (int)schema->busy_ms : TP__SQLITE_BUSY_MS;
  int rc = connect_with(path, "?mode=ro", busy_ms, &db);
  bool lacks_memory = (rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY;
  if (lacks_memory && !has_log(path)) {
    sqlite3_close(db);
    db = NULL;
    rc = connect_with(path, "?mode=ro&immutable=1", busy_ms, &db);
  }
  status = rc == SQLITE_OK ? check_database(db, path, schema, fault) : tp__sqlite_fail(db, path, "read it", rc, fault);
  if (status == TP_OK) *ret_db = db;
  else sqlite3_close(db);
  return status;
}
