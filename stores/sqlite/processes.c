/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that have the file open. Each has a row, which is deleted when the store is closed. A process that
 * ended without closing the store leaves its row. Another process finds it when it starts, or later. Then the running
 * jobs of the ended process are queued again, or become dead letters after their last attempt, and its running turns
 * and entries are interrupted. All processes that use one file must see each other's numbers (one PID namespace). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stores/sqlite/sqlite.h"

static const char processes_sql[] = "SELECT id, process_id, process_started, boot_id FROM process ORDER BY id";

/** What /proc says of a process. */
typedef struct process_look {
  int64_t started; /* in ticks since the boot; 0: unknown */
  bool has_ended;  /* its parent has not waited for it yet */
} process_look;

static const char *skip_fields(const char *at, int count) {
  for (int i = 0; at && i < count; i++) at = strchr(at + 1, ' ');
  return at;
}

/* In the line of a process, the second field is in parentheses and may contain anything. The third is its state, the
 * 20th its number of threads, the 22nd its start time. (A process of which only the first thread has ended is in the
 * state of a zombie, too, so the number of threads is needed.) */
static process_look look_at_process(int64_t process_id) {
  assert(process_id >= 0);
  enum { TO_STATE = 1, TO_THREADS = 18, TO_START = 20 };
  char name[64], line[1024];
  snprintf(name, sizeof name, "/proc/%lld/stat", (long long)process_id);
  int fd = tp__file_open(AT_FDCWD, name, NULL);
  if (fd < 0) return (process_look){0};
  ssize_t size = read(fd, line, sizeof line - 1);
  close(fd);
  line[size > 0 ? size : 0] = '\0';
  const char *name_end = strrchr(line, ')'), *state = skip_fields(name_end, TO_STATE);
  const char *threads = skip_fields(name_end, TO_THREADS), *start = skip_fields(name_end, TO_START);
  if (!start) return (process_look){0};
  bool is_zombie = state[1] == 'Z' || state[1] == 'X';
  return (process_look){strtoll(start, NULL, 10), is_zombie && strtoll(threads, NULL, 10) <= 1};
}

static bool are_other_boots(tp_text boot_id, tp_text own_boot_id) {
  return own_boot_id.size && boot_id.size && !tp__same(boot_id, own_boot_id);
}

static bool is_of_other_boot(const tp__sqlite_store *s, tp_text boot_id) {
  return are_other_boots(boot_id, (tp_text){s->boot_id, strlen(s->boot_id)});
}

bool tp__sqlite_process_is_gone(int64_t process_id, int64_t process_started, tp_text boot_id, tp_text own_boot_id) {
  if (are_other_boots(boot_id, own_boot_id)) return true;
  if (kill((pid_t)process_id, 0) != 0 && errno == ESRCH) return true;
  process_look look = look_at_process(process_id);
  return look.has_ended || (look.started != 0 && process_started != 0 && look.started != process_started);
}

static bool is_gone(const tp__sqlite_store *s, int64_t process_id, int64_t process_started, tp_text boot_id) {
  tp_text own = {s->boot_id, strlen(s->boot_id)};
  return tp__sqlite_process_is_gone(process_id, process_started, boot_id, own);
}

tp_status tp__sqlite_store_own(void *ctx, const tp_store_owner *theirs, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_store_owner owner;
  sqlite3_stmt *insert = NULL;
  tp_status status = tp__struct_read(&owner, sizeof owner, theirs, "tp_store_owner", fault);
  if (status != TP_OK) return status;
  tp__lock_acquire(&s->mutex);
  int rc = sqlite3_prepare_v2(s->db, "INSERT OR REPLACE INTO process VALUES (?1, ?2, ?3, ?4, ?5)", -1, &insert, NULL);
  const int64_t values[] = {(int64_t)owner.process_run_id, owner.process_id, owner.process_started,
                            owner.opened_unix_ms};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(insert, values, 4);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(insert, 5, owner.boot_id);
  if (insert) rc = tp__sqlite_run(insert, rc);
  sqlite3_finalize(insert);
  if (rc == SQLITE_OK) {
    if (owner.record_queue_bytes) tp__writer_bound(&s->writer, owner.record_queue_bytes);
    s->process_run_id = owner.process_run_id;
    snprintf(s->boot_id, sizeof s->boot_id, "%.*s", (int)owner.boot_id.size,
             owner.boot_id.size ? owner.boot_id.data : "");
  } else {
    status = tp__store_fail(s, s->db, "name its process", rc, fault);
  }
  tp__lock_release(&s->mutex);
  return status;
}

static int find_live(const tp__sqlite_store *s, sqlite3_stmt *rows, int64_t not_this, int64_t *ret_process_id) {
  int rc;
  while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
    if (sqlite3_column_int64(rows, 0) == not_this) continue;
    if (is_gone(s, sqlite3_column_int64(rows, 1), sqlite3_column_int64(rows, 2), tp__sqlite_column(rows, 3))) continue;
    *ret_process_id = sqlite3_column_int64(rows, 1);
    return SQLITE_OK;
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int tp__sqlite_live_process(const tp__sqlite_store *s, sqlite3 *db, int64_t process, int64_t *ret_process_id) {
  sqlite3_stmt *rows = NULL;
  *ret_process_id = 0;
  if (!process) return SQLITE_OK;
  int rc = sqlite3_prepare_v2(db, "SELECT id, process_id, process_started, boot_id FROM process WHERE id = ?1", -1,
                              &rows, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(rows, 1, process);
  if (rc == SQLITE_OK) rc = find_live(s, rows, 0, ret_process_id);
  sqlite3_finalize(rows);
  return rc;
}

int tp__sqlite_left_process(const tp__sqlite_store *s, sqlite3 *db, int64_t process, bool *ret_is_left) {
  int64_t has_row = 0, alive = 0;
  int rc = tp__sqlite_once(db, "SELECT 1 FROM process WHERE id = ?1", &process, 1, &has_row);
  if (rc == SQLITE_OK && has_row) rc = tp__sqlite_live_process(s, db, process, &alive);
  *ret_is_left = has_row && !alive;
  return rc;
}

int tp__sqlite_other_process(const tp__sqlite_store *s, sqlite3 *db, int64_t *ret_process_id) {
  sqlite3_stmt *rows = NULL;
  *ret_process_id = 0;
  int rc = sqlite3_prepare_v2(db, processes_sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = find_live(s, rows, (int64_t)s->process_run_id, ret_process_id);
  sqlite3_finalize(rows);
  return rc;
}

/* One job of a process that is gone. */
static int recover_job_locked(tp__sqlite_store *s, sqlite3_stmt *row, tp_store_recovery *recovery) {
  TP__LOCKED(&s->mutex);
  bool may_go_on = sqlite3_column_int64(row, 1) < sqlite3_column_int64(row, 2);
  static const char why[] = "its process ended while it ran";
  tp__job_change change = {.id = (uint64_t)sqlite3_column_int64(row, 0),
                           .state = may_go_on ? TP_JOB_QUEUED : TP_JOB_DEAD,
                           .reason = TP_REASON_CRASH,
                           .at_ms = may_go_on ? 0 : tp__wall_ms(),
                           .message = {why, sizeof why - 1}};
  if (may_go_on) recovery->jobs_requeued++;
  else recovery->jobs_dead++;
  return tp__sqlite_job_change_locked(s, &change);
}

/* Recovers one job at a time, because each change moves the rows that are read. */
static int recover_jobs_locked(tp__sqlite_store *s, int64_t process, tp_store_recovery *recovery) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *rows = NULL;
  static const char sql[] =
      "SELECT id, attempt, attempts_max FROM job WHERE state = 2 AND process = ?1 ORDER BY id LIMIT 1";
  int rc = sqlite3_prepare_v2(s->db, sql, -1, &rows, NULL);
  while (rc == SQLITE_OK) {
    rc = sqlite3_bind_int64(rows, 1, process);
    if (rc == SQLITE_OK) rc = sqlite3_step(rows);
    if (rc != SQLITE_ROW) break;
    rc = recover_job_locked(s, rows, recovery);
    sqlite3_reset(rows);
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Entries that were running have failed, and their runs were interrupted. Their rows keep showing that they never
 * ended. */
static int interrupt_entries_locked(tp__sqlite_store *s, int64_t process, tp_store_recovery *recovery) {
  TP__LOCKED(&s->mutex);
  char runs[192], entries[128];
  snprintf(runs, sizeof runs,
           "UPDATE run SET state = %d, reason = %d WHERE state IN (%d, %d) AND entry IN"
           " (SELECT number FROM entry WHERE process = ?1 AND ended_ns = 0)",
           TP_STATE_INTERRUPTED, TP_REASON_CRASH, TP_STATE_QUEUED, TP_STATE_RUNNING);
  snprintf(entries, sizeof entries, "UPDATE entry SET status = %d WHERE process = ?1 AND ended_ns = 0", TP_ERR_HOOK);
  int rc = tp__sqlite_once(s->db, runs, &process, 1, NULL);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(s->db, entries, &process, 1, NULL);
  if (rc == SQLITE_OK) recovery->entries_interrupted += (uint64_t)sqlite3_changes(s->db);
  return rc;
}

/* @param ret_by_itself  the machine has not been restarted since. @return SQLITE_ROW with the next process that is
 *   gone, SQLITE_DONE or an error. */
static int next_gone_locked(tp__sqlite_store *s, sqlite3_stmt *rows, int64_t *ret_process, bool *ret_by_itself) {
  TP__LOCKED(&s->mutex);
  int rc;
  while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
    *ret_process = sqlite3_column_int64(rows, 0);
    *ret_by_itself = !is_of_other_boot(s, tp__sqlite_column(rows, 3));
    if (*ret_process != (int64_t)s->process_run_id &&
        is_gone(s, sqlite3_column_int64(rows, 1), sqlite3_column_int64(rows, 2), tp__sqlite_column(rows, 3)))
      return rc;
  }
  return rc;
}

int tp__sqlite_bound_pauses_locked(tp__sqlite_store *s, int64_t now_ms) {
  TP__LOCKED(&s->mutex);
  const int64_t values[] = {now_ms,
                            now_ms < INT64_MAX - TP_JOB_PAUSE_MS_MAX ? now_ms + TP_JOB_PAUSE_MS_MAX : INT64_MAX};
  return tp__sqlite_once(s->db, "UPDATE job SET claimable_ms = ?1, due_ms = ?1 WHERE state = 1 AND claimable_ms > ?2",
                         values, 2, NULL);
}

static int recover_locked(tp__sqlite_store *s, tp_store_recovery *recovery) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *rows = NULL;
  int64_t process = 0;
  bool by_itself = false;
  int64_t audits_before = 0;
  int rc = tp__sqlite_once(s->db, "SELECT coalesce(max(row), 0) FROM audit", NULL, 0, &audits_before);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(s->db, processes_sql, -1, &rows, NULL);
  while (rc == SQLITE_OK) {
    rc = next_gone_locked(s, rows, &process, &by_itself);
    if (rc != SQLITE_ROW) break;
    recovery->owners++;
    rc = recover_jobs_locked(s, process, recovery);
    if (rc == SQLITE_OK) rc = interrupt_entries_locked(s, process, recovery);
    if (rc == SQLITE_OK && by_itself) rc = tp__sqlite_breadcrumbs_recover_locked(s, process, &recovery->crash_suspects);
    if (rc == SQLITE_OK) rc = tp__sqlite_interrupt_turns_locked(s, process, audits_before, by_itself, recovery);
    if (rc == SQLITE_OK) rc = tp__sqlite_once(s->db, "DELETE FROM process WHERE id = ?1", &process, 1, NULL);
  }
  sqlite3_finalize(rows);
  return rc == SQLITE_DONE ? tp__sqlite_bound_pauses_locked(s, tp__wall_ms()) : rc;
}

/* Read without the file's lock, because other processes wait for that lock. */
static int any_gone_locked(tp__sqlite_store *s, bool *ret_any) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *rows = NULL;
  int64_t process;
  bool by_itself;
  int rc = sqlite3_prepare_v2(s->db, processes_sql, -1, &rows, NULL);
  if (rc == SQLITE_OK) rc = next_gone_locked(s, rows, &process, &by_itself);
  sqlite3_finalize(rows);
  *ret_any = rc == SQLITE_ROW;
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp__sqlite_store_recover(void *ctx, tp_store_recovery *ret_recovery, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_store_recovery found = {.struct_size = sizeof found};
  tp_status status = TP_OK;
  tp__lock_acquire(&s->mutex);
  bool is_needed = !s->has_recovered;
  int rc = is_needed ? SQLITE_OK : any_gone_locked(s, &is_needed);
  if (rc == SQLITE_OK && is_needed) {
    rc = tp__sqlite_begin(s->db);
    if (rc == SQLITE_OK) rc = recover_locked(s, &found);
    rc = tp__sqlite_end(s->db, rc);
    s->has_recovered = s->has_recovered || rc == SQLITE_OK;
  }
  if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "recover what processes left that are gone", rc, fault);
  else if (is_needed) tp__sqlite_breadcrumbs_sweep_locked(s);
  tp__lock_release(&s->mutex);
  if (status != TP_OK) return status;
  return tp__sqlite_show(ret_recovery, &found, sizeof found);
}

/* A row with running jobs, entries or turns stays for a recovery after the process has ended. */
void tp__sqlite_store_disown(tp__sqlite_store *s) {
  static const char sql[] =
      "DELETE FROM process WHERE id = ?1"
      " AND NOT EXISTS (SELECT 1 FROM job WHERE state = 2 AND process = ?1)"
      " AND NOT EXISTS (SELECT 1 FROM entry WHERE ended_ns = 0 AND process = ?1)"
      " AND NOT EXISTS (SELECT 1 FROM running WHERE state = 2 AND process = ?1)";
  const int64_t process = (int64_t)s->process_run_id;
  if (process) (void)tp__sqlite_once(s->db, sql, &process, 1, NULL);
}
