/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: calls that were allowed and wait to be run. is_begun is set by the one caller that takes a task, and stays set
 * when its process dies. `taken` is the number of the call that has taken it, `batch` that of the call that has put
 * it. */
#include <string.h>

#include "stores/postgres/store.h"
#include "support/fault.h"

static tp_status no_such_task(tp_text key, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NOT_FOUND, NULL, "there is no task %.*s", (int)key.size, key.data);
}

static void put_key(tp__pg_parameters *p, tp_text key) {
  unsigned char hash[TP__PG_HASH_BYTES];
  tp__pg_long_hash(key, hash);
  tp__pg_parameter_text(p, (tp_text){(const char *)hash, sizeof hash});
}

/* ---- put ---- */

static void make_put(tp__pg_store *s, const tp_task_record *task, tp__pg_request *r) {
  static const char insert[] =
      "INSERT INTO @.task (key_hash, batch, is_begun, taken, created_unix_ms, key, tool, agent, arguments, tenant,"
      " session, hash) VALUES ($1::bytea, $2::bigint, false, 0, $3::bigint, $4::bytea, $5::bytea, $6::bytea, $7::bytea,"
      " $8::bytea, $9::bytea, $10::bytea) ON CONFLICT (key_hash) DO NOTHING";
  static const char find[] = "SELECT batch = $2::bigint FROM @.task WHERE key_hash = $1::bytea";
  const tp_text texts[] = {task->key, task->tool, task->agent, task->arguments, task->tenant, task->session};
  unsigned char hash[TP__PG_HASH_BYTES];
  int64_t batch = tp__pg_next_batch(s->postgres);
  tp__pg_store_hash(s, task->arguments, hash);
  tp__pg_request_init(r, s->postgres, TP__PG_WRITES, "keep a task");
  tp__pg_parameters *p = tp__pg_request_add(r, insert);
  put_key(p, task->key);
  tp__pg_parameter_int(p, batch);
  tp__pg_parameter_int(p, task->created_unix_ms);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) tp__pg_parameter_text(p, texts[i]);
  tp__pg_parameter_text(p, (tp_text){(const char *)hash, sizeof hash});
  p = tp__pg_request_add(r, find);
  put_key(p, task->key);
  tp__pg_parameter_int(p, batch);
}

tp_status tp__pg_task_put(void *ctx, const tp_task_record *theirs, tp_fault *fault) {
  tp_task_record task;
  tp__pg_request r;
  tp_status status = tp__struct_read(&task, sizeof task, theirs, "tp_task_record", fault);
  if (status != TP_OK) return status;
  if (!task.key.size || !task.tool.size)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "a task has a key and a tool, and its places are empty");
  make_put(ctx, &task, &r);
  status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 1) : NULL;
  if (status == TP_OK && !(PQntuples(rows) == 1 && tp__pg_bool(rows, 0, 0)))
    status = tp__refuse(fault, TP_ERR_DUPLICATE_ID, NULL, "there is a task %.*s", (int)task.key.size, task.key.data);
  tp__pg_request_fini(&r);
  return status;
}

/* ---- take ---- */

/* The arguments are compared with their hash before the task begins; the begin checks that the row is still the
 * same. */
static const char look[] =
    "SELECT is_begun, hash, batch, created_unix_ms, key, tool, agent, arguments, tenant, session FROM @.task"
    " WHERE key_hash = $1::bytea";
/* Parameters: 2 batch of the row, 3 hash, 4 number of this call, 5 in doubt. */
static const char begin[] =
    "UPDATE @.task SET is_begun = true, taken = $4::bigint WHERE key_hash = $1::bytea AND batch = $2::bigint"
    " AND hash = $3::bytea AND (NOT is_begun OR ($5::bigint = 1 AND taken = $4::bigint)) RETURNING 1";

#define TASK(member) TP__COLUMN(tp_task_record, member)
static const tp__column task_columns[] = {
    TASK(created_unix_ms), TASK(key),    TASK(tool), TASK(agent), TP__BLOB_COLUMN(tp_task_record, arguments),
    TASK(tenant),          TASK(session)};
static const tp__columns tasks = TP__COLUMNS(tp_task_record, task_columns);

static tp_status judge(const tp__pg_store *s, tp_text key, const PGresult *rows, tp_fault *fault) {
  unsigned char hash[TP__PG_HASH_BYTES];
  if (PQntuples(rows) == 0) return no_such_task(key, fault);
  if (tp__pg_bool(rows, 0, 0))
    return tp__refuse(fault, TP_ERR_BUSY, NULL,
                      "the task %.*s is being run, or was when its process died: then discard it", (int)key.size,
                      key.data);
  tp_text kept = tp__pg_text(rows, 0, 1);
  tp__pg_store_hash(s, tp__pg_text(rows, 0, 7), hash);
  if (tp_text_equal(kept, (tp_text){(const char *)hash, sizeof hash})) return TP_OK;
  return tp__refuse(fault, TP_ERR_STORE_CORRUPT, s->postgres->target.name,
                    "the arguments of the task %.*s are not those that were allowed: discard it", (int)key.size,
                    key.data);
}

/* @return TP_OK; TP_ERR_STALE: another caller came before; what the database returns. */
static tp_status begin_task(tp__pg_store *s, tp_text key, const PGresult *seen, tp_fault *fault) {
  tp__pg_request r;
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, "begin a task");
  tp__pg_parameters *p = tp__pg_request_add(&r, begin);
  put_key(p, key);
  tp__pg_parameter_int(p, tp__pg_int(seen, 0, 2));
  tp__pg_parameter_text(p, tp__pg_text(seen, 0, 1));
  tp__pg_parameter_int(p, tp__pg_next_batch(s->postgres));
  tp__pg_request_put_doubt(&r);
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK && PQntuples(tp__pg_request_rows(&r, 0)) == 0) status = TP_ERR_STALE;
  tp__pg_request_fini(&r);
  return status;
}

tp_status tp__pg_task_take(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_status status;
  do {
    tp__pg_request r;
    tp__pg_request_init(&r, s->postgres, TP__PG_READS, "read a task");
    put_key(tp__pg_request_add(&r, look), key);
    status = tp__pg_request_run(&r, fault);
    if (status == TP_OK) status = judge(s, key, tp__pg_request_rows(&r, 0), fault);
    if (status == TP_OK) status = begin_task(s, key, tp__pg_request_rows(&r, 0), fault);
    if (status == TP_OK) {
      tp_task_record task;
      tp__pg_read_struct(tp__pg_request_rows(&r, 0), 0, 3, &tasks, &task);
      take(take_ctx, &task);
    }
    tp__pg_request_fini(&r);
  } while (status == TP_ERR_STALE);
  return status;
}

/* ---- settle ---- */

/* A call in doubt that finds nothing was done before. */
tp_status tp__pg_task_settle(void *ctx, tp_text key, bool stays, tp_fault *fault) {
  static const char keep[] = "UPDATE @.task SET is_begun = false WHERE key_hash = $1::bytea RETURNING 1";
  static const char delete[] = "DELETE FROM @.task WHERE key_hash = $1::bytea RETURNING 1";
  tp__pg_store *s = ctx;
  tp__pg_request r;
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, "settle a task");
  put_key(tp__pg_request_add(&r, stays ? keep : delete), key);
  tp_status status = tp__pg_request_run(&r, fault);
  bool was_there = status == TP_OK && (PQntuples(tp__pg_request_rows(&r, 0)) > 0 || r.work.in_doubt);
  tp__pg_request_fini(&r);
  return status == TP_OK && !was_there ? no_such_task(key, fault) : status;
}
