/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: calls that were allowed and wait to be run. The caller that takes a task sets is_begun, in the transaction
 * that reads the task. Only one caller can. is_begun stays set when its process dies. */
#include <string.h>

#include "stores/sqlite/sqlite.h"

static tp_status no_such_task(tp_text key, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NOT_FOUND, NULL, "there is no task %.*s", (int)key.size, key.data);
}

#define TASK(member) TP__COLUMN(tp_task_record, member)
static const tp__column task_columns[] = {
    TASK(created_unix_ms), TASK(key),    TASK(tool), TASK(agent), TP__BLOB_COLUMN(tp_task_record, arguments),
    TASK(tenant),          TASK(session)};
static const tp__columns tasks = TP__COLUMNS(tp_task_record, task_columns);

/* ---- put ---- */

static int insert_locked(tp__sqlite_store *s, const tp_task_record *task, const unsigned char *hash) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *insert = s->statements[TP__INSERT_TASK];
  int rc = tp__sqlite_bind_struct(insert, 1, &tasks, task);
  if (rc == SQLITE_OK)
    rc = tp__sqlite_bind_blob(insert, 1 + tasks.count, (tp_text){(const char *)hash, TP__HASH_BYTES});
  return tp__sqlite_run(insert, rc);
}

typedef struct putting {
  tp__sqlite_store *s;
  tp_task_record task;
  tp_status hashed; /* TP_OK, or why nothing was written */
  tp_fault fault;
  bool is_new;
} putting;

static int write_task(void *ctx) {
  putting *w = ctx;
  unsigned char hash[TP__HASH_BYTES];
  w->hashed = tp__sqlite_hash_locked(w->s, w->task.arguments, hash, &w->fault);
  if (w->hashed != TP_OK) return SQLITE_OK;
  int rc = insert_locked(w->s, &w->task, hash);
  w->is_new = rc == SQLITE_OK && sqlite3_changes(w->s->db) == 1;
  return rc;
}

tp_status tp__sqlite_task_put(void *ctx, const tp_task_record *theirs, tp_fault *fault) {
  putting w = {.s = ctx};
  const tp_text *key = &w.task.key;
  tp_status status = tp__struct_read(&w.task, sizeof w.task, theirs, "tp_task_record", fault);
  if (status != TP_OK) return status;
  if (!key->size || !w.task.tool.size)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "a task has a key and a tool, and its places are empty");
  status = tp__store_write(w.s, write_task, &w, "keep a task", fault);
  if (status != TP_OK) return status;
  if (w.hashed != TP_OK && fault) *fault = w.fault;
  if (w.hashed != TP_OK || w.is_new) return w.hashed;
  return tp__refuse(fault, TP_ERR_DUPLICATE_ID, NULL, "there is a task %.*s", (int)key->size, key->data);
}

/* ---- take ---- */

/** A copy, so that its receiver is called without the lock. */
typedef struct found {
  bool is_begun;
  unsigned char hash[TP__HASH_BYTES];
  tp_task_record *task; /* NULL: there is none */
} found;

static int copy_row(sqlite3_stmt *row, found *f) {
  tp_text hash = tp__sqlite_column(row, 1);
  f->is_begun = sqlite3_column_int64(row, 0) != 0;
  if (hash.size == sizeof f->hash) memcpy(f->hash, hash.data, hash.size);
  f->task = tp__sqlite_copy_struct(row, 2, &tasks);
  return f->task ? SQLITE_OK : SQLITE_NOMEM;
}

static int find_stored_task_locked(tp__sqlite_store *s, tp_text key, found *f) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *find = s->statements[TP__FIND_TASK];
  int rc = tp__sqlite_bind_text(find, 1, key);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc == SQLITE_ROW) rc = copy_row(find, f);
  tp__sqlite_release(find);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int mark_locked(tp__sqlite_store *s, tp_text key, int64_t is_begun) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *mark = s->statements[TP__MARK_TASK];
  int rc = tp__sqlite_bind_ints(mark, &is_begun, 1);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(mark, 2, key);
  return tp__sqlite_run(mark, rc);
}

/* Whether a task that was found may begin. */
static tp_status judge_locked(tp__sqlite_store *s, tp_text key, const found *f, tp_fault *fault) {
  TP__LOCKED(&s->mutex);
  unsigned char hash[TP__HASH_BYTES];
  if (!f->task) return no_such_task(key, fault);
  if (f->is_begun)
    return tp__refuse(fault, TP_ERR_BUSY, NULL,
                      "the task %.*s is being run, or was when its process died: then discard it", (int)key.size,
                      key.data);
  tp_status status = tp__sqlite_hash_locked(s, f->task->arguments, hash, fault);
  if (status != TP_OK || memcmp(hash, f->hash, sizeof hash) == 0) return status;
  return tp__refuse(fault, TP_ERR_STORE_CORRUPT, s->path,
                    "the arguments of the task %.*s are not those that were allowed: discard it", (int)key.size,
                    key.data);
}

typedef struct taking {
  tp__sqlite_store *s;
  tp_text key;
  found found;
  tp_status verdict;
  tp_fault fault;
} taking;

static int write_taking(void *ctx) {
  taking *w = ctx;
  sqlite3_free(w->found.task);
  w->found = (found){.task = NULL};
  int rc = find_stored_task_locked(w->s, w->key, &w->found);
  if (rc != SQLITE_OK) return rc;
  w->verdict = judge_locked(w->s, w->key, &w->found, &w->fault);
  return w->verdict == TP_OK ? mark_locked(w->s, w->key, 1) : SQLITE_OK;
}

tp_status tp__sqlite_task_take(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault) {
  taking w = {.s = ctx, .key = key};
  tp_status status = tp__store_write(w.s, write_taking, &w, "begin a task", fault);
  if (status == TP_OK && w.verdict != TP_OK) {
    status = w.verdict;
    if (fault) *fault = w.fault;
  }
  if (status == TP_OK) take(take_ctx, w.found.task);
  sqlite3_free(w.found.task);
  return status;
}

/* ---- settle ---- */

static int delete_task_locked(tp__sqlite_store *s, tp_text key) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *delete = s->statements[TP__DELETE_TASK];
  return tp__sqlite_run(delete, tp__sqlite_bind_text(delete, 1, key));
}

typedef struct settling {
  tp__sqlite_store *s;
  tp_text key;
  bool stays, was_there;
} settling;

static int write_settling(void *ctx) {
  settling *w = ctx;
  int rc = w->stays ? mark_locked(w->s, w->key, 0) : delete_task_locked(w->s, w->key);
  w->was_there = rc == SQLITE_OK && sqlite3_changes(w->s->db) == 1;
  return rc;
}

tp_status tp__sqlite_task_settle(void *ctx, tp_text key, bool stays, tp_fault *fault) {
  settling w = {.s = ctx, .key = key, .stays = stays};
  tp_status status = tp__store_write(w.s, write_settling, &w, "settle a task", fault);
  return status == TP_OK && !w.was_there ? no_such_task(key, fault) : status;
}
