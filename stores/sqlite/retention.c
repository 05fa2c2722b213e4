/* SPDX-License-Identifier: Apache-2.0
 *
 * The retention of a store: deletes records that are older than its options allow, and the oldest records while the
 * file is larger than they allow. The thread that writes records makes one step of it after each transaction. A step
 * deletes a part of the rows, and gives back a bounded number of free pages. So neither a commit nor a job waits for
 * long. */
#include <stdio.h>

#include "stores/sqlite/history_age.h"

enum {
  ROWS_A_STEP = 2000, /* of each table at most, by age */
  PARTS = 16,         /* a step that deletes by size deletes this part of all rows */
  RESERVE_PARTS = 8,  /* and leaves this part of the bound for SQLite's log and for new records until the next step */
  PAGES_A_STEP = 512,
  FREE_PAGES_KEPT = 64 /* free pages that the next records will use */
};

/** A table whose numbers rise with time. */
typedef struct table {
  const char *name, *number, *time;
} table;
static const table tables[] = {{"entry", "number", "started_unix_ms"},
                               {"turn", "row", "ended_unix_ms"},
                               {"audit", "row", "unix_ms"},
                               {"tool_start", "row", "started_unix_ms"}};
enum { TABLES = sizeof tables / sizeof tables[0] };

static int delete_up_to(sqlite3 *db, const table *t, int64_t last) {
  char sql[96];
  int rc = SQLITE_OK;
  if (t == &tables[0]) rc = tp__sqlite_once(db, "DELETE FROM run WHERE entry <= ?1", &last, 1, NULL);
  snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s <= ?1", t->name, t->number);
  return rc == SQLITE_OK ? tp__sqlite_once(db, sql, &last, 1, NULL) : rc;
}

/* The lowest and the highest number in a table; 0 when it is empty. */
static int ends_of(sqlite3 *db, const table *t, int64_t *ret_first, int64_t *ret_last) {
  char sql[96];
  snprintf(sql, sizeof sql, "SELECT min(%s) FROM %s", t->number, t->name);
  int rc = tp__sqlite_once(db, sql, NULL, 0, ret_first);
  snprintf(sql, sizeof sql, "SELECT max(%s) FROM %s", t->number, t->name);
  return rc == SQLITE_OK ? tp__sqlite_once(db, sql, NULL, 0, ret_last) : rc;
}

/* ---- by age ---- */

/* Deletes the rows before the first one that is young enough. */
static int delete_old(sqlite3 *db, const table *t, int64_t oldest_ms) {
  char sql[160];
  int64_t first = 0, last = 0, young = 0;
  int rc = ends_of(db, t, &first, &last);
  if (rc != SQLITE_OK || first == 0) return rc;
  snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE %s >= ?1 ORDER BY %s LIMIT 1", t->number, t->name, t->time,
           t->number);
  rc = tp__sqlite_once(db, sql, &oldest_ms, 1, &young);
  if (young) last = young - 1;
  if (last > first + ROWS_A_STEP) last = first + ROWS_A_STEP;
  return rc == SQLITE_OK && last >= first ? delete_up_to(db, t, last) : rc;
}

/* Dead letters are kept, because an operator must examine them. */
static int delete_before(tp__sqlite_store *s, int64_t oldest_ms) {
  int rc = SQLITE_OK;
  for (int i = 0; i < TABLES && rc == SQLITE_OK; i++) rc = delete_old(s->db, &tables[i], oldest_ms);
  if (rc == SQLITE_OK)
    rc = tp__sqlite_once(s->db, "DELETE FROM running WHERE state = 8 AND ended_unix_ms < ?1", &oldest_ms, 1, NULL);
  if (rc != SQLITE_OK) return rc;
  return tp__sqlite_once(s->db, "DELETE FROM job WHERE state IN (3, 5) AND ended_ms < ?1", &oldest_ms, 1, NULL);
}

static int delete_by_age(tp__sqlite_store *s) {
  return delete_before(s, tp__wall_ms() - (int64_t)s->options.age_max_s * 1000);
}

/* ---- by size ---- */

/** How large the file is. */
typedef struct extent {
  int64_t pages, free_pages, page_bytes;
} extent;

static int measure(sqlite3 *db, extent *e) {
  int rc = tp__sqlite_once(db, "PRAGMA page_count", NULL, 0, &e->pages);
  if (rc == SQLITE_OK) rc = tp__sqlite_once(db, "PRAGMA freelist_count", NULL, 0, &e->free_pages);
  return rc == SQLITE_OK ? tp__sqlite_once(db, "PRAGMA page_size", NULL, 0, &e->page_bytes) : rc;
}

static bool is_too_large(const tp__sqlite_store *s, const extent *e) {
  uint64_t most = s->options.bytes_max - s->options.bytes_max / RESERVE_PARTS;
  return s->options.bytes_max && (uint64_t)((e->pages - e->free_pages) * e->page_bytes) > most;
}

static int delete_by_size(tp__sqlite_store *s) {
  int rc = SQLITE_OK;
  for (int i = 0; i < TABLES && rc == SQLITE_OK; i++) {
    int64_t first = 0, last = 0;
    rc = ends_of(s->db, &tables[i], &first, &last);
    if (rc == SQLITE_OK && first != 0) rc = delete_up_to(s->db, &tables[i], first + (last - first) / PARTS);
  }
  return rc;
}

/* ---- a step ---- */

static int delete_step(tp__sqlite_store *s, const extent *e, bool by_age) {
  int rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK && by_age) rc = delete_by_age(s);
  if (rc == SQLITE_OK && is_too_large(s, e)) rc = delete_by_size(s);
  return tp__sqlite_end(s->db, rc);
}

/* A file of an older version, which cannot shrink, keeps its free pages and uses them again. */
static int shrink_file(tp__sqlite_store *s, extent *e) {
  char sql[64];
  int rc = measure(s->db, e);
  if (rc != SQLITE_OK || e->free_pages <= FREE_PAGES_KEPT) return rc;
  snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%d)", PAGES_A_STEP);
  rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK) rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
  return tp__sqlite_end(s->db, rc);
}

static int ask_for_none_left(sqlite3 *db, bool *ret_none_left) {
  int64_t is_there = 0;
  int rc = tp__sqlite_once(
      db,
      "SELECT EXISTS (SELECT 1 FROM entry) OR EXISTS (SELECT 1 FROM turn) OR EXISTS (SELECT 1 FROM audit)"
      " OR EXISTS (SELECT 1 FROM tool_start)",
      NULL, 0, &is_there);
  *ret_none_left = rc == SQLITE_OK && !is_there;
  return rc;
}

static bool should_check_age(tp__sqlite_store *s) {
  enum { LOOK_EVERY_MS = 1000 };
  int64_t now_ms = tp__wall_ms();
  if (!s->options.age_max_s) return false;
  if (now_ms >= s->age_looked_at_ms && now_ms - s->age_looked_at_ms < LOOK_EVERY_MS && !s->age_has_more) return false;
  s->age_looked_at_ms = now_ms;
  return true;
}

/* ---- the history ---- */

static bool should_age_history(tp__sqlite_store *s) {
  enum { ROUND_EVERY_MS = 60000 };
  int64_t now_ms = tp__wall_ms();
  if (!s->options.history_age_max_s) return false;
  if (now_ms >= s->history_aged_ms && now_ms - s->history_aged_ms < ROUND_EVERY_MS) return false;
  s->history_aged_ms = now_ms;
  return true;
}

/* Makes whole rounds; the mutex is free between two steps. */
static tp_status age_history(tp__sqlite_store *s, tp_fault *fault) {
  tp__aged aged = {.has_more = true};
  char message[TP_FAULT_MESSAGE_SIZE];
  int rc = SQLITE_OK;
  tp_status status = TP_OK;
  while (aged.has_more && rc == SQLITE_OK) {
    tp__lock_acquire(&s->mutex);
    int64_t oldest_ms = tp__wall_ms() - (int64_t)s->options.history_age_max_s * 1000;
    rc = tp__sqlite_age_history_locked(s, oldest_ms, &aged);
    if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "delete old turns of the history", rc, fault);
    tp__lock_release(&s->mutex);
  }
  snprintf(message, sizeof message,
           "%s: %llu messages of %llu sessions were older than history_age_max_s (%u), and are deleted; %llu sessions "
           "stay, since something works on them",
           s->path, (unsigned long long)aged.messages, (unsigned long long)aged.sessions, s->options.history_age_max_s,
           (unsigned long long)aged.sessions_in_use);
  if (aged.messages > 0) tp__writer_log(&s->writer, TP_LOG_INFO, TP_OK, message);
  return status;
}

static tp_status retain_records(tp__sqlite_store *s, bool *ret_none_left, tp_fault *fault) {
  extent e = {0};
  tp_status status = TP_OK;
  *ret_none_left = false;
  tp__lock_acquire(&s->mutex);
  int rc = measure(s->db, &e);
  bool by_age = should_check_age(s);
  int64_t before = sqlite3_total_changes64(s->db);
  if (rc == SQLITE_OK && (by_age || is_too_large(s, &e))) rc = delete_step(s, &e, by_age);
  s->age_has_more = by_age && sqlite3_total_changes64(s->db) - before >= ROWS_A_STEP;
  if (rc == SQLITE_OK) rc = shrink_file(s, &e);
  if (rc == SQLITE_OK && is_too_large(s, &e)) rc = ask_for_none_left(s->db, ret_none_left);
  if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "delete old records", rc, fault);
  tp__lock_release(&s->mutex);
  return status;
}

tp_status tp__sqlite_retain(tp__sqlite_store *s, bool *ret_none_left, tp_fault *fault) {
  const tp_sqlite_store_options *o = &s->options;
  *ret_none_left = false;
  tp_status status = should_age_history(s) ? age_history(s, fault) : TP_OK;
  if (status != TP_OK || (!o->age_max_s && !o->bytes_max && !o->history_age_max_s)) return status;
  return retain_records(s, ret_none_left, fault);
}

/* SQLite's log is a part of the size of the directory, so it is written back more often when the bound is small. */
int tp__sqlite_bound_log(tp__sqlite_store *s) {
  enum { PAGES_MAX = 1000, PAGES_MIN = 32, PAGE_BYTES = 4096, SHARE = 20 };
  char sql[128];
  uint64_t pages = s->options.bytes_max / PAGE_BYTES / SHARE;
  if (!s->options.bytes_max) return SQLITE_OK;
  if (pages > PAGES_MAX) pages = PAGES_MAX;
  if (pages < PAGES_MIN) pages = PAGES_MIN;
  snprintf(sql, sizeof sql, "PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = %d", (int)pages,
           (int)pages * PAGE_BYTES);
  return sqlite3_exec(s->db, sql, NULL, NULL, NULL);
}

/* ---- at once, as asked ---- */

/* One transaction. *ret_rows is 0 when nothing is left to delete. */
static int prune_step(tp__sqlite_store *s, const tp_sqlite_prune *request, uint64_t *ret_rows) {
  extent e = {0};
  int64_t before = sqlite3_total_changes64(s->db);
  int rc = measure(s->db, &e);
  bool is_large = request->bytes_max && (uint64_t)((e.pages - e.free_pages) * e.page_bytes) > request->bytes_max;
  if (rc == SQLITE_OK) rc = tp__sqlite_begin(s->db);
  if (rc == SQLITE_OK && request->before_unix_ms) rc = delete_before(s, request->before_unix_ms);
  if (rc == SQLITE_OK && is_large) rc = delete_by_size(s);
  rc = tp__sqlite_end(s->db, rc);
  *ret_rows = rc == SQLITE_OK ? (uint64_t)(sqlite3_total_changes64(s->db) - before) : 0;
  return rc;
}

/* Gives free pages back to the file system, some at a time. Then writes the log back and empties it, unless another
 * process reads it. */
static int give_all_back(tp__sqlite_store *s) {
  extent e = {0};
  int64_t before;
  int rc;
  do {
    before = e.pages;
    tp__lock_acquire(&s->mutex);
    rc = shrink_file(s, &e);
    if (rc == SQLITE_OK) rc = measure(s->db, &e);
    tp__lock_release(&s->mutex);
  } while (rc == SQLITE_OK && e.free_pages > FREE_PAGES_KEPT && e.pages != before);
  tp__lock_acquire(&s->mutex);
  if (rc == SQLITE_OK) (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  tp__lock_release(&s->mutex);
  return rc;
}

tp_status tp_sqlite_store_prune(const tp_store *store, const tp_sqlite_prune *theirs, uint64_t *ret_rows_deleted,
                                tp_fault *fault) {
  tp__sqlite_store *s = tp__sqlite_store_of(store);
  tp_sqlite_prune request;
  uint64_t rows = 0, deleted = 0;
  int rc;
  if (!s || !theirs) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_sqlite_store_prune: no store of this library");
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_sqlite_prune", fault);
  if (status != TP_OK) return status;
  if (s->options.read_only)
    return tp__refuse(fault, TP_ERR_STORE_READONLY, s->path, "%s is open for reading alone", s->path);
  do {
    tp__lock_acquire(&s->mutex);
    rc = prune_step(s, &request, &rows);
    if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "delete records", rc, fault);
    tp__lock_release(&s->mutex);
    deleted += rows;
    if (request.progress) request.progress(request.ctx, deleted);
  } while (rc == SQLITE_OK && rows > 0);
  for (tp__aged aged = {.has_more = request.history_before_unix_ms != 0}; aged.has_more && rc == SQLITE_OK;) {
    uint64_t before = aged.messages;
    tp__lock_acquire(&s->mutex);
    rc = tp__sqlite_age_history_locked(s, request.history_before_unix_ms, &aged);
    if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "delete old turns of the history", rc, fault);
    tp__lock_release(&s->mutex);
    deleted += aged.messages - before;
    if (request.progress) request.progress(request.ctx, deleted);
  }
  if (rc == SQLITE_OK && (rc = give_all_back(s)) != SQLITE_OK)
    status = tp__store_fail(s, s->db, "free its pages", rc, fault);
  if (ret_rows_deleted) *ret_rows_deleted = deleted;
  return status;
}
