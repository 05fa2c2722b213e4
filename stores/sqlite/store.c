/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite store: its statements, its life, its connections. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite/schema.h"
#include "stores/sqlite/sqlite.h"
#include "stores/sqlite/statement.h"

enum {
  RECORDS_MAX = 100000,
  TURNS_MAX = 100000,
  AUDITS_MAX = 100000,
  JOBS_MAX = 65536,
  JOBS_ENDED_MAX = 10000,
  QUEUE_BYTES_MAX = 8 << 20,
  BUSY_MS_MAX = 600000,
  BYTES_MAX_LEAST = 1 << 20,
  PAGE_CACHE_LEAST = 64 << 10,
  COUNT_MAX = INT32_MAX /* of rows: a file never reaches more */
};

#define JOB_COLUMNS TP__SQL_NAMES(TP__JOB_LIST)
#define NONE_OPEN(key) "NOT EXISTS (SELECT 1 FROM job AS other WHERE other.order_key = " key " AND state IN (1, 2))"
#define COUNTED(state) "(SELECT value FROM counter WHERE id = " state ")"
#define OLDEST(states, count) "(SELECT id FROM job WHERE state " states " ORDER BY ended_ms, id LIMIT " count " > ?1)"

/* A statement that runs for each turn makes no table in memory, as RETURNING and IN do: it costs more than all the
 * rest. */
const char *const tp__sqlite_store_sql[TP__STATEMENTS] = {
    [TP__FIND_KEY] = "SELECT id FROM job WHERE idempotency_key = ?1",
    [TP__COUNT_OPEN] = "SELECT " COUNTED("1") " + " COUNTED("2"),
    [TP__NEXT_PLACE] = "UPDATE counter SET value = value + 1 WHERE id = 0",
    [TP__INSERT_JOB] =
        "INSERT INTO job (claim, state, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version,"
        " reason, code, inserted_ms, claimable_ms, lease_end_ms, ended_ms, handler, subscription, idempotency_key,"
        " order_key, message, place, is_first, due_ms, process, payload, tenant, session, postponed_ms)"
        " VALUES (0, 1, 0, ?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, 0, 0, 0, ?8, ?9, ?10, ?11, '', " COUNTED(
            "0") ", " NONE_OPEN("?11") ", 0, 0, ?12, ?13, ?14, 0)",
    [TP__LOST_JOB] = "SELECT " JOB_COLUMNS
                     " FROM job WHERE is_first = 1 AND due_ms <= ?1 AND state = 2"
                     " AND attempt >= attempts_max ORDER BY due_ms LIMIT 1",
    [TP__NEXT_CLASS] =
        "SELECT handler, contract_version FROM job WHERE is_first = 1"
        " AND (handler, contract_version) > (?1, ?2) ORDER BY handler, contract_version LIMIT 1",
    [TP__READY_JOB] =
        "SELECT id FROM job WHERE is_first = 1 AND handler = ?3 AND contract_version = ?2"
        " AND id > ?4 AND due_ms <= ?1 AND (state = 1 OR attempt < attempts_max) ORDER BY id LIMIT 1",
    [TP__NEXT_DUE] = "SELECT coalesce(min(due_ms), 0) FROM job WHERE is_first = 1 AND due_ms > ?1",
    [TP__CLAIM_JOB] =
        "UPDATE job SET state = 2, claim = claim + 1, attempt = attempt + 1, process = ?4,"
        " lease_end_ms = ?2 + ?3, due_ms = ?2 + ?3 WHERE id = ?1 AND is_first = 1"
        " AND due_ms <= ?2 AND (state = 1 OR attempt < attempts_max)",
    [TP__RENEW_JOB] =
        "UPDATE job SET lease_end_ms = ?3 + ?4, due_ms = ?3 + ?4 WHERE id = ?1 AND claim = ?2"
        " AND state = 2 RETURNING id",
    [TP__FIND_JOB] = "SELECT " JOB_COLUMNS " FROM job WHERE id = ?1",
    [TP__END_JOB] =
        "UPDATE job SET state = ?2, reason = ?3, code = ?4, ended_ms = ?5, message = ?6, lease_end_ms = 0,"
        " claimable_ms = 0, due_ms = 0, is_first = 0, process = 0,"
        " payload = CASE ?2 WHEN 4 THEN payload ELSE x'' END WHERE id = ?1",
    [TP__PROMOTE_JOB] =
        "UPDATE job SET is_first = 1 WHERE is_first = 0 AND id = (SELECT id FROM job WHERE"
        " order_key = (SELECT order_key FROM job WHERE id = ?1) AND state IN (1, 2)"
        " ORDER BY place LIMIT 1)",
    [TP__TRIM_DONE] = "DELETE FROM job WHERE id = " OLDEST("IN (3, 5)", COUNTED("3") " + " COUNTED("5")),
    [TP__TRIM_DEAD] = "DELETE FROM job WHERE id = " OLDEST("= 4", COUNTED("4")),
    [TP__REQUEUE_JOB] =
        "UPDATE job SET state = 1, attempt = attempt - ?2, reason = ?3, code = ?4, claimable_ms = ?5,"
        " due_ms = ?5, postponed_ms = max(postponed_ms, ?6), message = ?7, lease_end_ms = 0, process = 0 WHERE id = ?1",
    [TP__REDRIVE_JOB] =
        "UPDATE job SET state = 1, attempt = 0, reason = 0, code = 0, ended_ms = 0, postponed_ms = 0, place = " COUNTED(
            "0") ", is_first = " NONE_OPEN("job.order_key") " WHERE id = ?1",
    [TP__COUNT_ORDER] = "SELECT count(*) FROM job WHERE order_key = ?1 AND state IN (1, 2)",
    [TP__INSERT_ENTRY] =
        "INSERT INTO entry (" TP__SQL_NAMES(TP__ENTRY_LIST) ", " TP__SQL_NAMES(TP__ID_LIST)
        ") VALUES (" TP__SQL_PARAMETERS(TP__ENTRY_LIST) ", " TP__SQL_PARAMETERS(TP__ID_LIST)
        ") ON CONFLICT (process, id) DO UPDATE SET ended_ns = excluded.ended_ns, status = excluded.status",
    [TP__FIND_ENTRY] = "SELECT number FROM entry WHERE process = ?1 AND id = ?2",
    [TP__INSERT_RUN] = "INSERT INTO run (entry, position, " TP__SQL_NAMES(TP__RUN_LIST)
                       ") VALUES (?, ?, " TP__SQL_PARAMETERS(TP__RUN_LIST) ")",
    [TP__DELETE_RUNS] = "DELETE FROM run WHERE entry = ?1",
    [TP__NOTE_LATE] =
        "UPDATE run SET late_ns = ?4 WHERE position = ?3"
        " AND entry IN (SELECT number FROM entry WHERE process = ?1 AND id = ?2)",
    [TP__TRIM_RUNS] = "DELETE FROM run WHERE entry <= ?1",
    [TP__TRIM_ENTRIES] = "DELETE FROM entry WHERE number <= ?1",
    [TP__INSERT_TURN] = "INSERT INTO turn (" TP__TURN_COLUMNS ") VALUES (" TP__TURN_PARAMETERS ")",
    [TP__INSERT_STEP] = "INSERT INTO step (turn, position, " TP__SQL_NAMES(TP__STEP_LIST)
                        ") VALUES (?, ?, " TP__SQL_PARAMETERS(TP__STEP_LIST) ")",
    [TP__TRIM_TURNS] = "DELETE FROM turn WHERE row <= ?1",
    [TP__INSERT_RUNNING] = "INSERT INTO running (" TP__TURN_COLUMNS ", state) VALUES (" TP__TURN_PARAMETERS ", ?)",
    [TP__INSERT_RUNNING_STEP] = "INSERT INTO running_step (running, position, " TP__SQL_NAMES(TP__STEP_LIST)
                                ") VALUES (?, ?, " TP__SQL_PARAMETERS(TP__STEP_LIST) ")",
    [TP__DELETE_RUNNING] = "DELETE FROM running WHERE process = ?1 AND number = ?2",
    [TP__FIND_FENCE] = "SELECT epoch, id FROM session WHERE tenant = ?1 AND name = ?2",
    [TP__TAKE_TOOL_START] =
        "UPDATE tool_start SET run_process = ?1, run_turn = ?2 WHERE row = (SELECT row FROM tool_start"
        " WHERE tenant = ?3 AND session = ?4 AND turn = ?5 AND tool = ?6 AND arguments = ?7"
        " AND (run_process <> ?1 OR run_turn <> ?2)"
        " ORDER BY row LIMIT 1) RETURNING row, kind, " TP__SQL_NAMES(TP__TOOL_END_LIST),
    [TP__INSERT_TOOL_START] = "INSERT INTO tool_start (" TP__SQL_NAMES(TP__TOOL_START_LIST)
                              ") VALUES (" TP__SQL_PARAMETERS(TP__TOOL_START_LIST) ")",
    [TP__TRIM_TOOL_STARTS] = "DELETE FROM tool_start WHERE row <= ?1",
    [TP__END_TOOL_START] = "UPDATE tool_start SET kind = ?2, result = ?3, value = ?4, parts = ?5 WHERE row = ?1",
    [TP__CLEAR_TOOL_RESULTS] =
        "UPDATE tool_start SET result = NULL, value = NULL, parts = NULL WHERE tenant = ?1 AND session = ?2 AND turn = "
        "?3"
        " AND result IS NOT NULL",
    [TP__INSERT_TASK] =
        "INSERT INTO task (" TP__SQL_NAMES(TP__TASK_LIST) ") VALUES (" TP__SQL_PARAMETERS(TP__TASK_LIST)
        ") ON CONFLICT (key) DO NOTHING",
    [TP__FIND_TASK] = "SELECT " TP__SQL_NAMES(TP__TASK_LIST) " FROM task WHERE key = ?1",
    [TP__MARK_TASK] = "UPDATE task SET is_begun = ?1 WHERE key = ?2",
    [TP__DELETE_TASK] = "DELETE FROM task WHERE key = ?1",
    [TP__INSERT_ATTEMPT] = "INSERT INTO attempt (" TP__SQL_NAMES(TP__ATTEMPT_LIST)
                           ") VALUES (" TP__SQL_PARAMETERS(TP__ATTEMPT_LIST) ")",
    [TP__TRIM_ATTEMPTS] = "DELETE FROM attempt WHERE row <= ?1",
    [TP__INSERT_CONTENT] = "INSERT INTO content (" TP__SQL_NAMES(TP__CONTENT_LIST)
                           ") VALUES (" TP__SQL_PARAMETERS(TP__CONTENT_LIST) ")",
    [TP__TRIM_CONTENTS] = "DELETE FROM content WHERE row <= ?1",
    [TP__INSERT_AUDIT] = "INSERT INTO audit (process, " TP__SQL_NAMES(TP__AUDIT_LIST)
                         ") VALUES (?, " TP__SQL_PARAMETERS(TP__AUDIT_LIST) ")",
    [TP__TRIM_AUDITS] = "DELETE FROM audit WHERE row <= ?1"};

/* ---- for the other files ---- */

tp_status tp__store_write(tp__sqlite_store *s, int (*write)(void *ctx), void *ctx, const char *doing, tp_fault *fault) {
  tp__group_work work = {.write = write, .ctx = ctx, .doing = doing};
  return tp__group_run(&s->group, &work, fault);
}

tp_status tp__store_fail(const tp__sqlite_store *s, sqlite3 *db, const char *doing, int rc, tp_fault *fault) {
  return tp__sqlite_fail(db, s->path, doing, rc, fault);
}

tp_status tp__store_take_reader(tp__sqlite_store *s, sqlite3 **ret_db, tp_fault *fault) {
  tp__lock_acquire(&s->mutex);
  sqlite3 *db = s->reader;
  s->reader = NULL;
  tp__lock_release(&s->mutex);
  if (!db && s->options.read_only) return tp__sqlite_open_read_only(s->path, &tp__sqlite_store_schema, ret_db, fault);
  if (!db) return tp__sqlite_open_reader(s->path, ret_db, fault);
  *ret_db = db;
  return TP_OK;
}

void tp__store_return_reader(tp__sqlite_store *s, sqlite3 *db) {
  assert(db && db != s->db);
  tp__lock_acquire(&s->mutex);
  sqlite3 *surplus = s->reader ? db : NULL;
  if (!surplus) s->reader = db;
  tp__lock_release(&s->mutex);
  sqlite3_close(surplus);
}

tp_status tp__store_read_query(tp__sqlite_store *s, void *query, size_t size, const void *theirs, const char *name,
                               tp_fault *fault) {
  assert(size >= sizeof(size_t));
  tp_status status = tp__struct_read(query, size, theirs, name, fault);
  if (status == TP_OK) (void)!tp__sqlite_commit(s, NULL);
  return status;
}

tp_status tp__store_list(tp__sqlite_store *s, const tp__listing *listing, const char *doing, tp_fault *fault) {
  assert(listing->show && doing);
  sqlite3 *db = NULL;
  tp_status status = tp__store_take_reader(s, &db, fault);
  if (status != TP_OK) return status;
  int rc = listing->sql ? tp__sqlite_list(db, listing) : SQLITE_NOMEM;
  if (rc != SQLITE_OK) status = tp__store_fail(s, db, doing, rc, fault);
  tp__store_return_reader(s, db);
  return status;
}

tp__sqlite_store *tp__sqlite_store_of(const tp_store *store) {
  bool is_ours = store && (store->record == tp__sqlite_record || store->record == tp__sqlite_record_refused);
  return is_ours ? store->ctx : NULL;
}

tp_status tp_sqlite_store_counts(const tp_store *store, tp_sqlite_store_report *ret_report) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  if (!s || !ret_report) return TP_ERR_USAGE;
  tp__writer *w = &s->writer;
  tp__lock_acquire(&w->mutex);
  tp_sqlite_store_report report = {.struct_size = sizeof report,
                                   .records_queued = w->queued,
                                   .records_written = w->written,
                                   .records_dropped = w->dropped,
                                   .write_failures = w->failures,
                                   .queue_bytes = w->bytes,
                                   .last_failure = w->failures ? w->status : TP_OK,
                                   .is_failing = w->is_failing};
  tp__lock_release(&w->mutex);
  return tp__sqlite_show(ret_report, &report, sizeof report);
}

/* ---- on the writer's thread ---- */

static tp_status write_list(void *ctx, tp__queued *list, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp__lock_acquire(&s->mutex);
  int rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK) rc = tp__sqlite_write_locked(s, (const tp__waiting *)list);
  tp_status status = rc == SQLITE_OK ? TP_OK : tp__store_fail(s, s->db, "write records", rc, fault);
  int end = tp__sqlite_end(s->db, rc);
  if (status == TP_OK && end != SQLITE_OK) status = tp__store_fail(s, s->db, "commit records", end, fault);
  tp__lock_release(&s->mutex);
  return status;
}

/* The first failure in a row is logged. A bound that is smaller than the data that must be kept is logged, too. */
static void retain(void *ctx) {
  tp__sqlite_store *s = ctx;
  tp_fault fault = {0};
  bool none_left = false;
  char message[TP_FAULT_MESSAGE_SIZE];
  tp_status status = tp__sqlite_retain(s, &none_left, &fault);
  if (status != TP_OK && !s->retention_failed) tp__writer_log(&s->writer, TP_LOG_WARNING, status, fault.message);
  s->retention_failed = status != TP_OK;
  if (none_left && !s->too_large) {
    snprintf(message, sizeof message,
             "%s: the history and the jobs alone are larger than bytes_max (%llu): no records are kept", s->path,
             (unsigned long long)s->options.bytes_max);
    tp__writer_log(&s->writer, TP_LOG_WARNING, TP_ERR_FULL, message);
  }
  s->too_large = none_left;
}

static const tp__writer_class writer_class = {
    .noun = "records", .refused = "are dropped", .write = write_list, .written = retain};

tp_status tp__sqlite_queue(void *ctx, tp__waiting *node) {
  assert(node->kind < TP__WAITS_KINDS && node->queued.bytes > 0);
  tp_status status = tp__writer_add(&((tp__sqlite_store *)ctx)->writer, &node->queued);
  if (status != TP_OK) sqlite3_free(node);
  return status;
}

tp_status tp__sqlite_commit(void *ctx, tp_fault *fault) {
  return tp__writer_commit(&((tp__sqlite_store *)ctx)->writer, fault);
}

static tp_status start_writer(tp__sqlite_store *s, tp_fault *fault) {
  const tp_sqlite_store_options *options = &s->options;
  return tp__writer_init(&s->writer, &writer_class, s, s->path, options->queue_bytes_max, options->log,
                         options->log_ctx, fault);
}

/* ---- life ---- */

static void destroy_sqlite_store(void *ctx) {
  tp__sqlite_store *s = ctx;
  tp__writer_fini(&s->writer);
  tp__group_fini(&s->group);
  if (s->db) tp__sqlite_store_disown(s);
  tp__sqlite_breadcrumbs_fini(s);
  for (int i = 0; i < TP__STATEMENTS; i++) sqlite3_finalize(s->statements[i]);
  sqlite3_close(s->reader);
  sqlite3_close(s->db);
  tp__lock_fini(&s->mutex);
  sqlite3_free(s->path);
  sqlite3_free(s);
}

static tp_status read_store_options(tp_sqlite_store_options *options, const tp_sqlite_store_options *theirs,
                                    tp_fault *fault) {
  tp_status status = tp__struct_read(options, sizeof *options, theirs, "tp_sqlite_store_options", fault);
  if (status != TP_OK) return status;
  if (!options->path || !options->path[0])
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_store_options.path: a store needs the path of its file; give one");
  if (options->busy_ms > BUSY_MS_MAX)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_options.busy_ms is %u: give at most %d",
                      options->busy_ms, BUSY_MS_MAX);
  if (options->read_only > 1)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_options.read_only is %u: it must be 0 or 1",
                      options->read_only);
  if (options->bytes_max && options->bytes_max < BYTES_MAX_LEAST)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_store_options.bytes_max is %llu: give at least %d (1 MiB), or 0 for no bound",
                      (unsigned long long)options->bytes_max, BYTES_MAX_LEAST);
  if (options->existing_only > 1)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_options.existing_only is %u: it must be 0 or 1",
                      options->existing_only);
  if (options->content_hashes > 1)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_options.content_hashes is %u: it must be 0 or 1",
                      options->content_hashes);
  if (options->reserved_)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_options.reserved_ must be zero");
  if (options->page_cache_bytes && options->page_cache_bytes < PAGE_CACHE_LEAST)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_sqlite_store_options.page_cache_bytes is %u: give at least %d (64 KiB), or 0",
                      options->page_cache_bytes, PAGE_CACHE_LEAST);
  size_t *counts[] = {&options->records_max, &options->turns_max, &options->audits_max, &options->jobs_max,
                      &options->jobs_ended_max};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
    if (*counts[i] > COUNT_MAX) *counts[i] = COUNT_MAX;
  if (!options->records_max) options->records_max = RECORDS_MAX;
  if (!options->turns_max) options->turns_max = TURNS_MAX;
  if (!options->audits_max) options->audits_max = AUDITS_MAX;
  if (!options->jobs_max) options->jobs_max = JOBS_MAX;
  if (!options->jobs_ended_max) options->jobs_ended_max = JOBS_ENDED_MAX;
  if (!options->queue_bytes_max) options->queue_bytes_max = QUEUE_BYTES_MAX;
  if (!options->busy_ms) options->busy_ms = TP__SQLITE_BUSY_MS;
  return TP_OK;
}

static tp__sqlite_store *store_new(const tp_sqlite_store_options *options) {
  tp__sqlite_store *s = sqlite3_malloc64(sizeof *s);
  if (!s) return NULL;
  memset(s, 0, sizeof *s);
  s->options = *options;
  s->path = sqlite3_mprintf("%s", options->path);
  if (s->path) {
    tp__lock_init(&s->mutex, TP__LOCK_store);
    s->options.path = s->path;
    return s;
  }
  sqlite3_free(s->path);
  sqlite3_free(s);
  return NULL;
}

static int set_page_cache(sqlite3 *db, uint32_t bytes) {
  char sql[64];
  if (!bytes) return SQLITE_OK;
  snprintf(sql, sizeof sql, "PRAGMA cache_size = -%u", bytes / 1024); /* less than nothing: KiB */
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* A file that lost its content, or whose creator died. While a store is being made, its log has bytes. */
static bool has_no_bytes(const char *path) {
  struct stat found;
  char *log = sqlite3_mprintf("%s-wal", path);
  bool has_log = !log || (stat(log, &found) == 0 && found.st_size > 0);
  sqlite3_free(log);
  return !has_log && stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 0;
}

static tp_status check_bytes(const tp__sqlite_store *s, tp_fault *fault) {
  char message[TP_FAULT_MESSAGE_SIZE];
  if (!has_no_bytes(s->path)) return TP_OK;
  if (s->options.existing_only || s->options.read_only)
    return tp__refuse(fault, TP_ERR_STORE_CORRUPT, s->path,
                      "%s has 0 bytes, and is no store: restore a copy, or remove it", s->path);
  snprintf(message, sizeof message, "%s had 0 bytes: it is a new store now; whatever it held before is lost", s->path);
  tp__sqlite_log(s->options.log, s->options.log_ctx, TP_LOG_WARNING, TP_OK, message);
  return TP_OK;
}

static tp_status open_file(tp__sqlite_store *s, tp_fault *fault) {
  tp__sqlite_schema schema = tp__sqlite_store_schema;
  if ((s->options.existing_only || s->options.read_only) && access(s->path, F_OK) != 0)
    return tp__refuse(fault, TP_ERR_NOT_FOUND, s->path, "%s: there is no such file; give the path of a store", s->path);
  tp_status checked = check_bytes(s, fault);
  if (checked != TP_OK) return checked;
  if (s->options.read_only) {
    tp_status status = tp__sqlite_open_read_only(s->path, &tp__sqlite_store_schema, &s->reader, fault);
    return status == TP_OK ? start_writer(s, fault) : status;
  }
  schema.busy_ms = (int)s->options.busy_ms;
  tp_status status = tp__sqlite_open(s->path, &schema, &s->db, fault);
  if (status == TP_OK) s->origin = tp__sqlite_origin(s->db);
  for (int i = 0; i < TP__STATEMENTS && status == TP_OK; i++) {
    int rc = tp__sqlite_prepare(s->db, tp__sqlite_store_sql[i], &s->statements[i]);
    if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "prepare", rc, fault);
  }
  if (status != TP_OK) return status;
  int rc = set_page_cache(s->db, s->options.page_cache_bytes);
  if (rc == SQLITE_OK) rc = tp__sqlite_bound_log(s);
  if (rc == SQLITE_OK) status = tp__group_init(&s->group, &s->mutex, s->db, s->path, false, fault);
  if (status != TP_OK) return status;
  return rc == SQLITE_OK ? start_writer(s, fault) : tp__store_fail(s, s->db, "set up its journal", rc, fault);
}

tp_status tp_sqlite_store_open(const tp_sqlite_store_options *theirs, tp_store **ret_store, tp_fault *fault) {
  tp_sqlite_store_options options;
  if (!theirs || !ret_store)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_open: options and ret_store are needed");
  tp_status status = read_store_options(&options, theirs, fault);
  if (status != TP_OK) return status;
  tp__sqlite_store *s = store_new(&options);
  if (!s) return tp__sqlite_fail(NULL, options.path, "open", SQLITE_NOMEM, fault);
  status = open_file(s, fault);
  if (status != TP_OK) {
    destroy_sqlite_store(s);
    return status;
  }
  s->handle = (tp_store){.struct_size = sizeof s->handle,
                         .ctx = s,
                         .name = "sqlite",
                         .open = tp__sqlite_store_own,
                         .recover = tp__sqlite_store_recover,
                         .record = tp__sqlite_record,
                         .record_batch = tp__sqlite_record_batch,
                         .record_late = tp__sqlite_record_late,
                         .commit = tp__sqlite_commit,
                         .records = tp__sqlite_records,
                         .turn_record = tp__sqlite_turn_record,
                         .turns = tp__sqlite_turns,
                         .turn_running = tp__sqlite_turn_running,
                         .turns_running = tp__sqlite_turns_running,
                         .turn_is_cut = tp__sqlite_turn_is_cut,
                         .audit = tp__sqlite_audit,
                         .audits = tp__sqlite_audits,
                         .attempt = tp__sqlite_attempt,
                         .attempts = tp__sqlite_attempts,
                         .tool_start = tp__sqlite_tool_start,
                         .tool_end = tp__sqlite_tool_end,
                         .task_put = tp__sqlite_task_put,
                         .task_take = tp__sqlite_task_take,
                         .task_settle = tp__sqlite_task_settle,
                         .job_insert = tp__sqlite_job_insert,
                         .job_claim = tp__sqlite_job_claim,
                         .job_finish = tp__sqlite_job_finish,
                         .job_finish_all = tp__sqlite_job_finish_all,
                         .job_insert_all = tp__sqlite_job_insert_all,
                         .job_renew = tp__sqlite_job_renew,
                         .job_open = tp__sqlite_job_open,
                         .jobs = tp__sqlite_jobs,
                         .job_redrive = tp__sqlite_job_redrive,
                         .job_discard = tp__sqlite_job_discard,
                         .breadcrumbs = tp__sqlite_breadcrumbs,
                         .content = s->options.content_hashes ? tp__sqlite_content : NULL,
                         .contents = tp__sqlite_contents,
                         .destroy = destroy_sqlite_store,
                         .durable = 1};
  if (s->options.read_only)
    s->handle = (tp_store){.struct_size = sizeof s->handle,
                           .ctx = s,
                           .name = "sqlite",
                           .record = tp__sqlite_record_refused,
                           .records = tp__sqlite_records,
                           .turns = tp__sqlite_turns,
                           .turns_running = tp__sqlite_turns_running,
                           .audits = tp__sqlite_audits,
                           .attempts = tp__sqlite_attempts,
                           .contents = tp__sqlite_contents,
                           .jobs = tp__sqlite_jobs,
                           .destroy = destroy_sqlite_store};
  *ret_store = &s->handle;
  return TP_OK;
}
