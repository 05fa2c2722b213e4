/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: calls that were allowed and wait to be run. The caller that takes a task sets is_begun, in the transaction
 * that reads the task. Only one caller can. is_begun stays set when its process dies. */
#include "stores/sqlite/schema.h"
#include "stores/sqlite/sqlite.h"

static tp_status no_such_task(tp_text key, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NOT_FOUND, NULL, "there is no task %.*s", (int)key.size, key.data);
}

/** A row, and what it is read into: so that its receiver is called without the lock. */
typedef struct stored_task {
  tp_task_record task;
  bool is_begun;
  tp_text hash; /* keyed, of the arguments */
} stored_task;

#define TASK(member, column, type) TP__ITEM_##type(stored_task, member),
static const tp__column task_columns[] = {TP__TASK_LIST(TASK, TASK)};
static const tp__columns tasks = TP__COLUMNS(stored_task, task_columns);

/* ---- put ---- */

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
  const stored_task row = {.task = w->task, .hash = {(const char *)hash, sizeof hash}};
  sqlite3_stmt *insert = w->s->statements[TP__INSERT_TASK];
  int rc = tp__sqlite_run(insert, tp__sqlite_bind_struct(insert, 1, &tasks, &row));
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

/* @param ret_row  NULL: there is none. */
static int find_stored_task_locked(tp__sqlite_store *s, tp_text key, stored_task **ret_row) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *find = s->statements[TP__FIND_TASK];
  int rc = tp__sqlite_bind_text(find, 1, key);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc == SQLITE_ROW) {
    *ret_row = tp__sqlite_copy_struct(find, 0, &tasks);
    if (*ret_row) (*ret_row)->task.struct_size = sizeof(*ret_row)->task;
    rc = *ret_row ? SQLITE_OK : SQLITE_NOMEM;
  }
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
static tp_status judge_locked(tp__sqlite_store *s, tp_text key, const stored_task *row, tp_fault *fault) {
  TP__LOCKED(&s->mutex);
  unsigned char hash[TP__HASH_BYTES];
  if (!row) return no_such_task(key, fault);
  if (row->is_begun)
    return tp__refuse(fault, TP_ERR_BUSY, NULL,
                      "the task %.*s is being run, or was when its process died: then discard it", (int)key.size,
                      key.data);
  tp_status status = tp__sqlite_hash_locked(s, row->task.arguments, hash, fault);
  if (status != TP_OK || tp_text_equal(row->hash, (tp_text){(const char *)hash, sizeof hash})) return status;
  return tp__refuse(fault, TP_ERR_STORE_CORRUPT, s->path,
                    "the arguments of the task %.*s are not those that were allowed: discard it", (int)key.size,
                    key.data);
}

typedef struct taking {
  tp__sqlite_store *s;
  tp_text key;
  stored_task *row; /* NULL: there is none */
  tp_status verdict;
  tp_fault fault;
} taking;

static int write_taking(void *ctx) {
  taking *w = ctx;
  sqlite3_free(w->row);
  w->row = NULL;
  int rc = find_stored_task_locked(w->s, w->key, &w->row);
  if (rc != SQLITE_OK) return rc;
  w->verdict = judge_locked(w->s, w->key, w->row, &w->fault);
  return w->verdict == TP_OK ? mark_locked(w->s, w->key, 1) : SQLITE_OK;
}

tp_status tp__sqlite_task_take(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault) {
  taking w = {.s = ctx, .key = key};
  tp_status status = tp__store_write(w.s, write_taking, &w, "begin a task", fault);
  if (status == TP_OK && w.verdict != TP_OK) {
    status = w.verdict;
    if (fault) *fault = w.fault;
  }
  if (status == TP_OK) take(take_ctx, &w.row->task);
  sqlite3_free(w.row);
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
