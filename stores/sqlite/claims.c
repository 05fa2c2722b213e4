/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/sqlite/claims.h"

#include <stdlib.h>
#include <string.h>

#include "support/text.h"

enum { LEASE_MS = 15000 };

#define HOLDER_COLUMNS "process_id, process_started, boot_id, end_ms"

static const char find_holder_sql[] = "SELECT " HOLDER_COLUMNS " FROM holder WHERE process = ?1";

#define TEXT_OF(number) #number
#define TEXT_OF_MACRO(macro) TEXT_OF(macro)
#define EPOCHS TEXT_OF_MACRO(TP__EPOCHS_OF_SESSION)

static const char *const claim_sql[TP__CLAIM_STATEMENTS] = {
    [TP__FIND_CLAIMED] = "SELECT id, next, epoch, running, owner FROM session WHERE tenant = ?1 AND name = ?2",
    [TP__NEW_CLAIMED] = "INSERT INTO session (tenant, name, next, owner, epoch, running) VALUES (?1, ?2, 0, 0, 0, 0)",
    [TP__CLAIM_SESSION] =
        "UPDATE session SET owner = ?2, epoch = max(epoch, id * " EPOCHS ") + 1, running = 1 WHERE id = ?1",
    [TP__FIND_HOLDER] = find_holder_sql,
    [TP__RENEW_HOLDER] =
        "INSERT OR REPLACE INTO holder (process, process_id, process_started, end_ms, boot_id)"
        " VALUES (?1, ?2, ?3, ?4, ?5)",
    [TP__BEAT_HOLDER] = "UPDATE holder SET end_ms = ?2 WHERE process = ?1",
    [TP__DELETE_HOLDER] = "DELETE FROM holder WHERE process = ?1",
    [TP__SWEEP_HOLDERS] =
        "DELETE FROM holder WHERE process <> ?1 AND end_ms < ?2"
        " AND NOT EXISTS (SELECT 1 FROM session WHERE owner = holder.process AND running = 1)",
    [TP__END_CLAIM] =
        "UPDATE session SET next = next + ?4, running = 0"
        " WHERE id = ?1 AND epoch = ?2 AND next = ?3 AND running = 1",
    /* by its first owner: if another process has had the session since, a turn that stood still must find out that it
     * was taken over */
    [TP__FORGET_CLAIMED] =
        "DELETE FROM session WHERE id = ?1 AND next = 0 AND running = 0 AND epoch = id * " EPOCHS " + 1"};

/* ---- who has a session ---- */

static int read_holder(sqlite3_stmt *find, int64_t owner, tp_text boot_id, tp__holder *ret_holder) {
  int64_t now_ms = tp__monotonic_ms();
  *ret_holder = (tp__holder){0, 0};
  int rc = tp__sqlite_bind_ints(find, &owner, 1);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_OK : rc;
  int64_t process_id = sqlite3_column_int64(find, 0), end_ms = sqlite3_column_int64(find, 3);
  bool is_gone =
      tp__sqlite_process_is_gone(process_id, sqlite3_column_int64(find, 1), tp__sqlite_column(find, 2), boot_id);
  if (!is_gone && end_ms > now_ms) *ret_holder = (tp__holder){process_id, end_ms - now_ms};
  return SQLITE_OK;
}

int tp__sqlite_find_holder(sqlite3 *db, int64_t owner, tp_text boot_id, tp__holder *ret_holder) {
  sqlite3_stmt *find = NULL;
  int rc = sqlite3_prepare_v2(db, find_holder_sql, -1, &find, NULL);
  if (rc == SQLITE_OK) rc = read_holder(find, owner, boot_id, ret_holder);
  sqlite3_finalize(find);
  return rc;
}

static int find_holder_locked(tp__claims *c, int64_t owner, tp_text boot_id, tp__holder *ret_holder) {
  TP__LOCKED(c->connection);
  sqlite3_stmt *find = c->statements[TP__FIND_HOLDER];
  int rc = read_holder(find, owner, boot_id, ret_holder);
  tp__sqlite_release(find);
  return rc;
}

int tp__claims_find_live_locked(tp__claims *c, int64_t session, int64_t *ret_process_id) {
  TP__LOCKED(c->connection);
  int64_t owner = 0;
  tp__holder holder = {0, 0};
  int rc = tp__sqlite_once(c->db, "SELECT owner FROM session WHERE id = ?1 AND running = 1", &session, 1, &owner);
  if (rc == SQLITE_OK && owner) rc = find_holder_locked(c, owner, (tp_text){"", 0}, &holder);
  *ret_process_id = holder.process_id;
  return rc;
}

/* ---- leases ---- */

static tp__lease *find_lease_locked(tp__claims *c, int64_t process) {
  TP__LOCKED(c->connection);
  for (size_t i = 0; i < c->count; i++)
    if (c->leases[i].process == process) return &c->leases[i];
  return NULL;
}

/* Makes space for one more item. @return the items; NULL without memory. */
static void *reserve_claim(void *items, size_t count, size_t *capacity, size_t size) {
  if (count < *capacity) return items;
  size_t wanted = *capacity ? 2 * *capacity : 4;
  void *grown = sqlite3_realloc64(items, wanted * size);
  if (grown) *capacity = wanted;
  return grown;
}

static bool reserve_locked(tp__claims *c) {
  TP__LOCKED(c->connection);
  tp__lease *leases = reserve_claim(c->leases, c->count, &c->capacity, sizeof *leases);
  if (leases) c->leases = leases;
  tp__claimed *claimed = reserve_claim(c->claimed, c->claimed_count, &c->claimed_capacity, sizeof *claimed);
  if (claimed) c->claimed = claimed;
  return leases && claimed;
}

/* ---- what is claimed here ---- */

/* @param fence  0: of whatever claim. */
static void forget_claim_locked(tp__claims *c, uint64_t number, uint64_t fence) {
  TP__LOCKED(c->connection);
  for (size_t i = 0; i < c->claimed_count; i++) {
    if (c->claimed[i].number != number || (fence && c->claimed[i].fence != fence)) continue;
    c->claimed[i] = c->claimed[--c->claimed_count];
    return;
  }
}

/* Replaces an earlier claim of the session. */
static void note_claim_locked(tp__claims *c, int64_t process, const tp_history_claim *claim) {
  TP__LOCKED(c->connection);
  forget_claim_locked(c, claim->number, 0);
  assert(c->claimed_count < c->claimed_capacity);
  c->claimed[c->claimed_count++] = (tp__claimed){process, claim->number, claim->fence};
}

static bool has_claims_locked(const tp__claims *c, int64_t process) {
  TP__LOCKED(c->connection);
  size_t i = 0;
  while (i < c->claimed_count && c->claimed[i].process != process) i++;
  return i < c->claimed_count;
}

static void note_lease_locked(tp__claims *c, int64_t process, int64_t end_ms) {
  TP__LOCKED(c->connection);
  assert(process != 0 && end_ms > 0);
  tp__lease *lease = find_lease_locked(c, process);
  if (!lease) {
    assert(c->count < c->capacity);
    lease = &c->leases[c->count++];
    tp__lock_condition_signal(&c->wanted);
  }
  *lease = (tp__lease){process, end_ms};
}

/* @param ret_end_ms  0: the present lease is long enough. */
static int renew_locked(tp__claims *c, const tp_store_owner *owner, int64_t *ret_end_ms) {
  TP__LOCKED(c->connection);
  int64_t now_ms = tp__monotonic_ms(), process = (int64_t)owner->process_run_id;
  const tp__lease *lease = find_lease_locked(c, process);
  *ret_end_ms = 0;
  if (lease && lease->end_ms - now_ms > c->lease_ms * 2 / 3) return SQLITE_OK;
  *ret_end_ms = now_ms + c->lease_ms;
  sqlite3_stmt *sweep = c->statements[TP__SWEEP_HOLDERS], *renew = c->statements[TP__RENEW_HOLDER];
  int rc = tp__sqlite_run(sweep, tp__sqlite_bind_ints(sweep, (const int64_t[]){process, now_ms}, 2));
  const int64_t values[] = {process, owner->process_id, owner->process_started, *ret_end_ms};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(renew, values, 4);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(renew, 5, owner->boot_id);
  return rc == SQLITE_OK ? tp__sqlite_run(renew, rc) : rc;
}

/* ---- transactions without a sync ---- */

/* While the connection does not sync, nothing may be written that is acknowledged as durable. */
static int begin_weak_locked(tp__claims *c) {
  TP__LOCKED(c->connection);
  c->is_weak = true;
  int rc = sqlite3_exec(c->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
  return rc == SQLITE_OK ? tp__sqlite_begin(c->db) : rc;
}

static int end_weak_locked(tp__claims *c, int rc) {
  TP__LOCKED(c->connection);
  rc = tp__sqlite_end(c->db, rc);
  c->is_weak = sqlite3_exec(c->db, "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK;
  return rc;
}

/* ---- the thread that extends leases ---- */

/* @return whether the process still has running turns; if not, its row is gone. When the file is locked, this is tried
 *   again. */
static bool beat_locked(tp__claims *c, tp__lease *lease) {
  TP__LOCKED(c->connection);
  int64_t end_ms = tp__monotonic_ms() + c->lease_ms;
  sqlite3_stmt *beat = c->statements[TP__BEAT_HOLDER], *delete = c->statements[TP__DELETE_HOLDER];
  bool runs = has_claims_locked(c, lease->process);
  int rc = begin_weak_locked(c);
  if (rc == SQLITE_OK && runs)
    rc = tp__sqlite_run(beat, tp__sqlite_bind_ints(beat, (const int64_t[]){lease->process, end_ms}, 2));
  if (rc == SQLITE_OK && !runs) rc = tp__sqlite_run(delete, tp__sqlite_bind_ints(delete, &lease->process, 1));
  rc = end_weak_locked(c, rc);
  if (rc == SQLITE_OK && runs) lease->end_ms = end_ms;
  return rc != SQLITE_OK || runs;
}

static void beat_all_locked(tp__claims *c) {
  TP__LOCKED(c->connection);
  for (size_t i = 0; i < c->count;) {
    if (beat_locked(c, &c->leases[i])) i++;
    else c->leases[i] = c->leases[--c->count];
  }
}

static void *beat(void *ctx) {
  tp__claims *c = ctx;
  tp__lock_acquire(c->connection);
  while (!c->ending) {
    int64_t next_ns = tp__monotonic_ns() + c->lease_ms * TP__NS_IN_MS / 3;
    if (c->count == 0) {
      tp__lock_condition_wait(&c->wanted, c->connection);
      continue;
    }
    while (!c->ending && tp__lock_condition_wait_until(&c->wanted, c->connection, next_ns)) continue;
    if (!c->ending) beat_all_locked(c);
  }
  tp__lock_release(c->connection);
  return NULL;
}

static tp_status need_thread_locked(tp__claims *c, tp_fault *fault) {
  TP__LOCKED(c->connection);
  if (!c->has_thread) c->has_thread = tp__thread_spawn(&c->thread, beat, c) == 0;
  if (c->has_thread) return TP_OK;
  return tp__refuse(fault, TP_ERR_NO_THREAD, c->path, "%s: no thread to keep the claims of sessions", c->path);
}

/* ---- claims ---- */

/** A claim that is made. */
typedef struct claiming {
  const tp_history_load *request;
  tp__holder holder; /* the holder of the session */
  int64_t lease_end_ms;
} claiming;

enum { ID, NEXT, EPOCH, RUNNING, OWNER, FOUND };

static int find_session(sqlite3_stmt *find, const tp_history_load *request, int64_t values[FOUND]) {
  int rc = tp__sqlite_bind_texts(find, 1, (const tp_text[]){request->tenant, request->session}, 2);
  if (rc == SQLITE_OK) rc = sqlite3_step(find);
  for (int i = 0; rc == SQLITE_ROW && i < FOUND; i++) values[i] = sqlite3_column_int64(find, i);
  tp__sqlite_release(find);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static uint64_t next_epoch(int64_t session, int64_t epoch) {
  int64_t first = session * TP__EPOCHS_OF_SESSION;
  return (uint64_t)(epoch > first ? epoch : first) + 1;
}

static uint64_t look_fence(int64_t session, int64_t epoch) { return next_epoch(session, epoch) | TP__FENCE_OF_LOOK; }

bool tp__claims_look_holds(uint64_t fence, int64_t session, int64_t epoch) {
  return fence == look_fence(session, epoch) || (epoch == 0 && fence == look_fence(0, 0));
}

static void fill_claim(const tp_history_load *request, uint64_t number, uint64_t fence, const int64_t found[FOUND]) {
  tp_history_claim *claim = request->claim;
  claim->number = number;
  claim->fence = fence;
  claim->position = (uint64_t)found[NEXT];
  claim->origin = 0;
  claim->first = request->number == number && request->after <= claim->position ? request->after : 0;
}

static int claim_locked(tp__claims *c, claiming *w) {
  TP__LOCKED(c->connection);
  int64_t found[FOUND] = {0}, process = (int64_t)w->request->owner->process_run_id;
  sqlite3_stmt *insert = c->statements[TP__NEW_CLAIMED], *update = c->statements[TP__CLAIM_SESSION];
  int rc = find_session(c->statements[TP__FIND_CLAIMED], w->request, found);
  if (rc == SQLITE_OK && found[RUNNING] && found[OWNER] != process)
    rc = find_holder_locked(c, found[OWNER], w->request->owner->boot_id, &w->holder);
  if (rc != SQLITE_OK || w->holder.process_id) return rc;
  if (!found[ID]) {
    rc = tp__sqlite_bind_texts(insert, 1, (const tp_text[]){w->request->tenant, w->request->session}, 2);
    rc = tp__sqlite_run(insert, rc);
    found[ID] = sqlite3_last_insert_rowid(c->db);
  }
  if (rc == SQLITE_OK)
    rc = tp__sqlite_run(update, tp__sqlite_bind_ints(update, (const int64_t[]){found[ID], process}, 2));
  fill_claim(w->request, (uint64_t)found[ID], next_epoch(found[ID], found[EPOCH]), found);
  w->request->claim->origin = c->origin;
  return rc == SQLITE_OK ? renew_locked(c, w->request->owner, &w->lease_end_ms) : rc;
}

static tp_status refuse_busy(const tp__claims *c, const claiming *w, tp_fault *fault) {
  const tp_history_load *r = w->request;
  assert(w->holder.process_id != 0 && w->holder.lease_ms > 0);
  r->claim->retry_ms = (uint64_t)w->holder.lease_ms;
  return tp__refuse(fault, TP_ERR_BUSY, c->path,
                    "a turn of process %lld has session `%.*s`: its lease ends in %lld.%lld s, unless it is renewed",
                    (long long)w->holder.process_id, (int)r->session.size, r->session.data,
                    (long long)(w->holder.lease_ms / 1000), (long long)(w->holder.lease_ms % 1000 / 100));
}

tp_status tp__claims_claim(tp__claims *c, const tp_history_load *request, tp_fault *fault) {
  claiming w = {.request = request};
  assert(request->owner && request->claim && request->owner->process_run_id);
  tp__lock_acquire(c->connection);
  tp_status status = need_thread_locked(c, fault);
  if (status == TP_OK && !reserve_locked(c))
    status = tp__sqlite_fail(NULL, c->path, "claim a session", SQLITE_NOMEM, fault);
  if (status == TP_OK) {
    int rc = begin_weak_locked(c);
    if (rc == SQLITE_OK) rc = claim_locked(c, &w);
    rc = end_weak_locked(c, rc);
    if (rc != SQLITE_OK) status = tp__sqlite_fail(c->db, c->path, "claim a session", rc, fault);
  }
  if (status == TP_OK && w.lease_end_ms) note_lease_locked(c, (int64_t)request->owner->process_run_id, w.lease_end_ms);
  if (status != TP_OK) request->claim->fence = 0;
  if (request->claim->fence) note_claim_locked(c, (int64_t)request->owner->process_run_id, request->claim);
  tp__lock_release(c->connection);
  return status == TP_OK && w.holder.process_id ? refuse_busy(c, &w, fault) : status;
}

static int look(sqlite3 *db, claiming *w) {
  int64_t found[FOUND] = {0};
  sqlite3_stmt *find = NULL;
  int rc = sqlite3_prepare_v2(db, claim_sql[TP__FIND_CLAIMED], -1, &find, NULL);
  if (rc == SQLITE_OK) rc = find_session(find, w->request, found);
  sqlite3_finalize(find);
  if (rc == SQLITE_OK && found[RUNNING])
    rc = tp__sqlite_find_holder(db, found[OWNER], w->request->owner->boot_id, &w->holder);
  fill_claim(w->request, found[ID] ? (uint64_t)found[ID] : TP__SESSION_NEW, look_fence(found[ID], found[EPOCH]), found);
  return rc;
}

tp_status tp__claims_look(const tp__claims *c, sqlite3 *db, const tp_history_load *request, tp_fault *fault) {
  claiming w = {.request = request};
  assert(request->owner && request->claim);
  int rc = look(db, &w);
  if (rc != SQLITE_OK || w.holder.process_id) request->claim->fence = 0;
  if (rc != SQLITE_OK) return tp__sqlite_fail(db, c->path, "look at a session", rc, fault);
  return w.holder.process_id ? refuse_busy(c, &w, fault) : TP_OK;
}

int tp__claims_end_locked(tp__claims *c, const tp_history_claim *claim, size_t count, bool *ret_is_fenced) {
  TP__LOCKED(c->connection);
  assert(claim->fence && claim->number != TP__SESSION_NEW);
  sqlite3_stmt *end = c->statements[TP__END_CLAIM], *forget = c->statements[TP__FORGET_CLAIMED];
  const int64_t id = (int64_t)claim->number;
  const int64_t values[] = {id, (int64_t)claim->fence, (int64_t)claim->position, (int64_t)count};
  if (c->is_weak) return SQLITE_NOMEM;
  /* Forgotten first: if the statement fails, the session stays claimed until the lease of the process ends. */
  forget_claim_locked(c, claim->number, claim->fence);
  int rc = tp__sqlite_run(end, tp__sqlite_bind_ints(end, values, 4));
  *ret_is_fenced = rc == SQLITE_OK && sqlite3_changes(c->db) == 0;
  if (rc == SQLITE_OK && !*ret_is_fenced && count == 0 && claim->position == 0)
    rc = tp__sqlite_run(forget, tp__sqlite_bind_ints(forget, &id, 1));
  return rc;
}

/* ---- life ---- */

tp_status tp__claims_init(tp__claims *c, tp__lock *connection, sqlite3 *db, const char *path, uint32_t lease_ms,
                          tp_fault *fault) {
  *c = (tp__claims){.connection = connection,
                    .db = db,
                    .path = path,
                    .lease_ms = lease_ms ? lease_ms : LEASE_MS,
                    .origin = tp__sqlite_origin(db)};
  tp__lock_condition_init(&c->wanted);
  for (int i = 0; i < TP__CLAIM_STATEMENTS; i++) {
    int rc = tp__sqlite_prepare(db, claim_sql[i], &c->statements[i]);
    if (rc != SQLITE_OK) return tp__sqlite_fail(db, path, "prepare", rc, fault);
  }
  return TP_OK;
}

/* A turn that still has its session here will never be ended, so the next owner need not wait for the lease. */
void tp__claims_fini(tp__claims *c) {
  if (!c->connection) return;
  tp__lock_acquire(c->connection);
  c->ending = true;
  tp__lock_condition_signal(&c->wanted);
  tp__lock_release(c->connection);
  if (c->has_thread) pthread_join(c->thread, NULL);
  tp__lock_acquire(c->connection);
  sqlite3_stmt *delete = c->statements[TP__DELETE_HOLDER];
  for (size_t i = 0; i < c->count; i++) {
    int rc = begin_weak_locked(c);
    if (rc == SQLITE_OK) rc = tp__sqlite_run(delete, tp__sqlite_bind_ints(delete, &c->leases[i].process, 1));
    (void)end_weak_locked(c, rc);
  }
  tp__lock_release(c->connection);
  for (int i = 0; i < TP__CLAIM_STATEMENTS; i++) sqlite3_finalize(c->statements[i]);
  tp__lock_condition_fini(&c->wanted);
  sqlite3_free(c->leases);
  sqlite3_free(c->claimed);
  *c = (tp__claims){0};
}
