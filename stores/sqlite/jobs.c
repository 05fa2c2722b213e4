/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs. Each change is durable when its function returns; changes of several threads share a transaction. The cost of a
 * claim depends on the number of order keys with an open job that may not run yet, not on the number of jobs. */
#include <stdio.h>
#include <string.h>

#include "stores/sqlite/sqlite.h"
#include "stores/sqlite/statement.h"
#include "support/job_owner.h"

/* ---- rows ---- */

#define JOB(member, column, type) TP__COLUMN(tp_job, member),
static const tp__column job_columns[] = {TP__JOB_LIST(JOB, JOB)};
static const tp__columns jobs = TP__COLUMNS(tp_job, job_columns);

/* Copies one row of a statement that was bound. @return SQLITE_ROW; SQLITE_DONE when there is none; an error. */
static int fetch_job(sqlite3_stmt *statement, int rc, tp_job **ret_job) {
  *ret_job = NULL;
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    tp_job *job = tp__sqlite_copy_struct(statement, 0, &jobs);
    int end = job ? sqlite3_step(statement) : SQLITE_NOMEM; /* a statement that writes commits here */
    if (end == SQLITE_DONE) {
      *ret_job = job;
    } else {
      sqlite3_free(job);
      rc = end;
    }
  }
  tp__sqlite_release(statement);
  return rc;
}

/* Reads one number of a statement that was bound. @return SQLITE_ROW; SQLITE_DONE when there is none; an error. */
static int fetch_number(sqlite3_stmt *statement, int rc, int64_t *ret_number) {
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  if (rc == SQLITE_ROW) {
    int64_t number = sqlite3_column_int64(statement, 0);
    int end = sqlite3_step(statement);
    if (end == SQLITE_DONE) *ret_number = number;
    else rc = end;
  }
  tp__sqlite_release(statement);
  return rc;
}

static int expect_row(int rc) { return rc == SQLITE_ROW ? SQLITE_OK : rc == SQLITE_DONE ? SQLITE_CORRUPT : rc; }

static int count_open_locked(tp__sqlite_store *s, int64_t *ret_count) {
  TP__LOCKED(&s->mutex);
  return expect_row(fetch_number(s->statements[TP__COUNT_OPEN], SQLITE_OK, ret_count));
}

/* The statement that comes next takes the new place. */
static int next_place_locked(tp__sqlite_store *s) {
  TP__LOCKED(&s->mutex);
  return tp__sqlite_run(s->statements[TP__NEXT_PLACE], SQLITE_OK);
}

static tp_status full(const tp__sqlite_store *s, tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_FULL, s->path, "%s: %zu jobs are open, the most that it takes (jobs_max)", s->path,
                    s->options.jobs_max);
}

/* ---- inserting ---- */

static int insert_row_locked(tp__sqlite_store *s, const tp_job *job, const tp_text owner[2]) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *statement = s->statements[TP__INSERT_JOB];
  int rc = next_place_locked(s);
  const int64_t values[] = {job->attempts_max, job->backoff,          job->backoff_ms, job->limit_ms,
                            job->phase,        job->contract_version, job->inserted_ms};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(statement, values, 7);
  const tp_text texts[] = {job->handler, job->subscription, job->idempotency_key, job->order_key};
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(statement, 8, texts, 4);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_blob(statement, 12, job->payload);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_texts(statement, 13, owner, 2);
  return tp__sqlite_run(statement, rc);
}

typedef struct insertion {
  tp__sqlite_store *s;
  tp_job job;
  int64_t id;
  bool existed;
  tp_status refusal; /* TP_OK, TP_ERR_FENCED or TP_ERR_FULL; with an error nothing was written */
} insertion;

/* A known key is checked first: a job that is inserted again finds itself, whatever happened meanwhile. */
static int write_insertion(void *ctx) {
  insertion *i = ctx;
  sqlite3_stmt *find = i->s->statements[TP__FIND_KEY];
  int64_t open = 0;
  bool is_fenced = false;
  tp_text owner[2] = {{NULL, 0}, {NULL, 0}};
  i->refusal = TP_OK;
  int rc = fetch_number(find, tp__sqlite_bind_text(find, 1, i->job.idempotency_key), &i->id);
  i->existed = rc == SQLITE_ROW;
  if (rc != SQLITE_DONE) return rc == SQLITE_ROW ? SQLITE_OK : rc;
  tp__job_owner(i->job.payload, owner);
  rc = tp__sqlite_look_for_fence_locked(i->s, owner, i->job.fence, i->job.origin, &is_fenced);
  if (rc == SQLITE_OK) rc = count_open_locked(i->s, &open);
  if (is_fenced) i->refusal = TP_ERR_FENCED;
  else if (open >= (int64_t)i->s->options.jobs_max) i->refusal = TP_ERR_FULL;
  if (rc == SQLITE_OK && i->refusal == TP_OK) rc = insert_row_locked(i->s, &i->job, owner);
  i->id = i->refusal == TP_OK ? sqlite3_last_insert_rowid(i->s->db) : 0;
  return rc;
}

tp_status tp__sqlite_job_insert(void *ctx, const tp_job *theirs, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  insertion i = {.s = ctx};
  tp_status status = tp__struct_read(&i.job, sizeof i.job, theirs, "tp_job", fault);
  if (status == TP_OK) status = tp__store_write(i.s, write_insertion, &i, "insert a job", fault);
  if (status != TP_OK) return status;
  if (i.refusal == TP_ERR_FULL) return full(i.s, fault);
  if (i.refusal != TP_OK) return tp__sqlite_refuse_fenced(i.s, fault);
  *ret_id = (uint64_t)i.id;
  *ret_existed = i.existed;
  return TP_OK;
}

typedef struct insertion_all {
  insertion *items;
  size_t count;
} insertion_all;

static int write_insertions(void *ctx) {
  const insertion_all *all = ctx;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < all->count; i++) rc = write_insertion(&all->items[i]);
  return rc;
}

tp_status tp__sqlite_job_insert_all(void *ctx, const tp_job *const *theirs, size_t count, uint64_t *ret_ids,
                                    bool *ret_existed, tp_status *ret_statuses, tp_fault *fault) {
  tp_status status = TP_OK;
  assert(count > 0);
  insertion_all all = {sqlite3_malloc64(count * sizeof *all.items), count};
  if (!all.items) return tp__store_fail(ctx, NULL, "insert jobs", SQLITE_NOMEM, fault);
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    all.items[i] = (insertion){.s = ctx};
    status = tp__struct_read(&all.items[i].job, sizeof all.items[i].job, theirs[i], "tp_job", fault);
  }
  if (status == TP_OK) status = tp__store_write(ctx, write_insertions, &all, "insert jobs", fault);
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    const insertion *item = &all.items[i];
    ret_statuses[i] = item->refusal;
    ret_ids[i] = (uint64_t)item->id;
    ret_existed[i] = item->existed;
  }
  sqlite3_free(all.items);
  return status;
}

/* ---- how a job goes on or ends ---- */

/* The oldest of those that are too many, one by one: mostly there is none, and rarely more than one. */
static int trim_locked(tp__sqlite_store *s, uint32_t state) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *trim = s->statements[state == TP_JOB_DEAD ? TP__TRIM_DEAD : TP__TRIM_DONE];
  const int64_t most = (int64_t)s->options.jobs_ended_max;
  int rc;
  do rc = tp__sqlite_run(trim, tp__sqlite_bind_ints(trim, &most, 1));
  while (rc == SQLITE_OK && sqlite3_changes(s->db) > 0);
  return rc;
}

static int end_locked(tp__sqlite_store *s, const tp__job_change *change) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *end = s->statements[TP__END_JOB], *promote = s->statements[TP__PROMOTE_JOB];
  const int64_t id = (int64_t)change->id, values[] = {id, change->state, change->reason, change->code, change->at_ms};
  int rc = tp__sqlite_bind_ints(end, values, 5);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(end, 6, change->message);
  rc = tp__sqlite_run(end, rc);
  if (rc == SQLITE_OK) rc = tp__sqlite_run(promote, tp__sqlite_bind_ints(promote, &id, 1));
  return rc == SQLITE_OK ? trim_locked(s, change->state) : rc;
}

int tp__sqlite_job_change_locked(tp__sqlite_store *s, const tp__job_change *change) {
  TP__LOCKED(&s->mutex);
  assert(change->id > 0 && change->state >= TP_JOB_QUEUED && change->state != TP_JOB_RUNNING);
  if (change->state != TP_JOB_QUEUED) return end_locked(s, change);
  sqlite3_stmt *requeue = s->statements[TP__REQUEUE_JOB];
  const int64_t values[] = {(int64_t)change->id, change->attempts_back, change->reason,
                            change->code,        change->at_ms,         change->postponed_ms};
  int rc = tp__sqlite_bind_ints(requeue, values, 6);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(requeue, 7, change->message);
  return tp__sqlite_run(requeue, rc);
}

/* ---- claiming ---- */

/** A handler and a contract version. The filter's answer for one of their jobs holds for all. */
typedef struct job_class {
  tp_text handler; /* a copy */
  uint32_t version;
  bool is_accepted;
} job_class;

typedef struct class_list {
  job_class *items;
  size_t count;
} class_list;

static int add_class(class_list *list, tp_text handler, uint32_t version) {
  job_class *items = sqlite3_realloc64(list->items, (list->count + 1) * sizeof *items);
  if (!items) return SQLITE_NOMEM;
  list->items = items;
  char *copy = sqlite3_malloc64(handler.size + 1);
  if (!copy) return SQLITE_NOMEM;
  if (handler.size) memcpy(copy, handler.data, handler.size);
  items[list->count++] = (job_class){{copy, handler.size}, version, false};
  return SQLITE_OK;
}

/* The first job of a class that may run, with an id above after. @return SQLITE_ROW, SQLITE_DONE or an error. */
static int first_of_class(tp__sqlite_store *s, const job_class *class, int64_t now_ms, int64_t after, int64_t *ret_id) {
  sqlite3_stmt *ready = s->statements[TP__READY_JOB];
  const int64_t values[] = {now_ms, class->version};
  int rc = tp__sqlite_bind_ints(ready, values, 2);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(ready, 3, class->handler);
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(ready, 4, after);
  return fetch_number(ready, rc, ret_id);
}

/* Appends the class after the last one of the list. @return SQLITE_ROW, SQLITE_DONE or an error. */
static int next_class_locked(tp__sqlite_store *s, class_list *list) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *next = s->statements[TP__NEXT_CLASS];
  const job_class *last = list->count ? &list->items[list->count - 1] : NULL;
  int rc = tp__sqlite_bind_text(next, 1, last ? last->handler : (tp_text){NULL, 0});
  if (rc == SQLITE_OK) rc = sqlite3_bind_int64(next, 2, last ? (int64_t)last->version : -1);
  if (rc == SQLITE_OK) rc = sqlite3_step(next);
  if (rc == SQLITE_ROW) {
    int added = add_class(list, tp__sqlite_column(next, 0), (uint32_t)sqlite3_column_int64(next, 1));
    if (added != SQLITE_OK) rc = added;
  }
  tp__sqlite_release(next);
  return rc;
}

/* The oldest job that may run, among the accepted classes.
 * @param id  the one that was found before, or 0: those up to it are not looked at again.
 * @return SQLITE_ROW, SQLITE_DONE or an error. */
static int candidate_locked(tp__sqlite_store *s, const class_list *classes, int64_t now_ms, int64_t *id) {
  TP__LOCKED(&s->mutex);
  int64_t best = 0, found = 0;
  for (size_t i = 0; i < classes->count; i++) {
    if (!classes->items[i].is_accepted) continue;
    int rc = first_of_class(s, &classes->items[i], now_ms, *id, &found);
    if (rc == SQLITE_ROW && (best == 0 || found < best)) best = found;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return rc;
  }
  *id = best;
  return best ? SQLITE_ROW : SQLITE_DONE;
}

static int find_job_locked(tp__sqlite_store *s, int64_t id, tp_job **ret_job) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *find = s->statements[TP__FIND_JOB];
  return fetch_job(find, tp__sqlite_bind_ints(find, &id, 1), ret_job);
}

static int lost_locked(tp__sqlite_store *s, int64_t now_ms, tp_job **ret_job) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *lost = s->statements[TP__LOST_JOB];
  return fetch_job(lost, tp__sqlite_bind_ints(lost, &now_ms, 1), ret_job);
}

/* Ends one job whose last lease ran out. It may have been ended meanwhile, so it is searched under the file's lock.
 * @return SQLITE_ROW with it, SQLITE_DONE or an error. */
static int bury_one_locked(tp__sqlite_store *s, int64_t now_ms, tp_job **ret_job) {
  TP__LOCKED(&s->mutex);
  int rc = lost_locked(s, now_ms, ret_job);
  if (rc != SQLITE_ROW) return rc;
  sqlite3_free(*ret_job);
  *ret_job = NULL;
  rc = tp__sqlite_begin(s->db);
  int found = rc == SQLITE_OK ? lost_locked(s, now_ms, ret_job) : rc;
  tp_job *job = *ret_job;
  if (found == SQLITE_ROW) {
    tp__job_change change = {.id = job->id,
                             .state = TP_JOB_DEAD,
                             .reason = TP_REASON_TIMEOUT,
                             .code = job->code,
                             .at_ms = now_ms,
                             .message = job->message};
    rc = tp__sqlite_job_change_locked(s, &change);
    job->state = TP_JOB_DEAD;
    job->reason = TP_REASON_TIMEOUT;
    job->ended_ms = now_ms;
    job->lease_end_ms = job->claimable_ms = 0;
  } else if (found != SQLITE_DONE) {
    rc = found;
  }
  rc = tp__sqlite_end(s->db, rc);
  if (rc == SQLITE_OK) return found;
  sqlite3_free(job);
  return rc;
}

static int bury_lost_locked(tp__sqlite_store *s, const tp_job_claim *request) {
  TP__LOCKED(&s->mutex);
  tp_job *job;
  int rc;
  while ((rc = bury_one_locked(s, request->now_ms, &job)) == SQLITE_ROW) {
    if (request->dead) {
      job->payload = (tp_text){NULL, 0};
      tp__lock_release(&s->mutex);
      request->dead(request->ctx, job);
      tp__lock_acquire(&s->mutex);
    }
    sqlite3_free(job);
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The filter takes locks of its own, so it is called between two locked parts. */
static int ask_locked(tp__sqlite_store *s, const tp_job_claim *request, int64_t id, bool *ret_accepted) {
  TP__LOCKED(&s->mutex);
  *ret_accepted = true;
  if (!request->filter) return SQLITE_OK;
  tp_job *job;
  int rc = find_job_locked(s, id, &job);
  *ret_accepted = false;
  if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SQLITE_OK : rc;
  job->payload = (tp_text){NULL, 0};
  tp__lock_release(&s->mutex);
  *ret_accepted = request->filter(request->ctx, job);
  tp__lock_acquire(&s->mutex);
  sqlite3_free(job);
  return SQLITE_OK;
}

/* Finds the classes with a job that may run, and asks the filter for each. @return SQLITE_OK or an error. */
static int ask_classes_locked(tp__sqlite_store *s, const tp_job_claim *request, class_list *classes, bool *ret_any) {
  TP__LOCKED(&s->mutex);
  int rc;
  int64_t id = 0;
  *ret_any = false;
  while ((rc = next_class_locked(s, classes)) == SQLITE_ROW) {
    bool accepted = false;
    rc = first_of_class(s, &classes->items[classes->count - 1], request->now_ms, 0, &id);
    if (rc == SQLITE_ROW) rc = ask_locked(s, request, id, &accepted);
    if (rc != SQLITE_OK && rc != SQLITE_DONE) return rc;
    classes->items[classes->count - 1].is_accepted = accepted;
    *ret_any = *ret_any || accepted;
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

enum { CLAIMS_MAX = 256 }; /* in one transaction */

typedef struct claiming {
  tp__sqlite_store *s;
  const tp_job_claim *request;
  class_list classes;
  size_t most;
  tp_job **jobs; /* that were claimed; space for most */
  size_t count;
} claiming;

static void free_claimed(claiming *c) {
  while (c->count > 0) sqlite3_free(c->jobs[--c->count]);
}

/* @return SQLITE_ROW with the job, SQLITE_DONE or an error. */
static int claim_one_locked(tp__sqlite_store *s, int64_t id, const tp_job_claim *request, tp_job **ret_job) {
  TP__LOCKED(&s->mutex);
  sqlite3_stmt *claim = s->statements[TP__CLAIM_JOB];
  const int64_t values[] = {id, request->now_ms, request->lease_ms, (int64_t)s->process_run_id};
  int rc = tp__sqlite_run(claim, tp__sqlite_bind_ints(claim, values, 4));
  if (rc != SQLITE_OK) return rc;
  return sqlite3_changes(s->db) > 0 ? find_job_locked(s, id, ret_job) : SQLITE_DONE;
}

/* Searches under the file's lock, so that no other process claims the jobs meanwhile. */
static int write_claims(void *ctx) {
  claiming *c = ctx;
  int rc = SQLITE_ROW;
  int64_t id = 0;
  free_claimed(c);
  while (rc == SQLITE_ROW && c->count < c->most) {
    rc = candidate_locked(c->s, &c->classes, c->request->now_ms, &id);
    if (rc == SQLITE_ROW) rc = claim_one_locked(c->s, id, c->request, &c->jobs[c->count]);
    if (rc == SQLITE_ROW) c->count++;
  }
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The claims share the commit with other writes, so they wait for it without the lock. */
static tp_status claim_all_locked(claiming *c, tp_fault *fault) {
  tp__sqlite_store *s = c->s;
  TP__LOCKED(&s->mutex);
  tp__lock_release(&s->mutex);
  c->jobs = sqlite3_malloc64(c->most * sizeof(tp_job *));
  tp_status status = c->jobs ? tp__store_write(s, write_claims, c, "claim jobs", fault)
                             : tp__store_fail(s, NULL, "claim jobs", SQLITE_NOMEM, fault);
  tp__lock_acquire(&s->mutex);
  if (status != TP_OK) free_claimed(c);
  return status;
}

/* @return TP_OK with the jobs; or with none, and the time to look again. */
static tp_status claim_locked(claiming *c, int64_t *ret_next_ms, tp_fault *fault) {
  tp__sqlite_store *s = c->s;
  const tp_job_claim *request = c->request;
  TP__LOCKED(&s->mutex);
  bool any = false;
  int rc = request->now_ms < s->claimed_ms ? tp__sqlite_bound_pauses_locked(s, request->now_ms) : SQLITE_OK;
  s->claimed_ms = request->now_ms;
  if (rc == SQLITE_OK) rc = bury_lost_locked(s, request);
  if (rc == SQLITE_OK) rc = ask_classes_locked(s, request, &c->classes, &any);
  if (rc == SQLITE_OK && any) {
    tp_status status = claim_all_locked(c, fault);
    if (status != TP_OK || c->count > 0) return status; /* otherwise another process has claimed all of them by now */
  }
  sqlite3_stmt *next_due = s->statements[TP__NEXT_DUE];
  if (rc == SQLITE_OK)
    rc = expect_row(fetch_number(next_due, tp__sqlite_bind_ints(next_due, &request->now_ms, 1), ret_next_ms));
  return rc == SQLITE_OK ? TP_OK : tp__store_fail(s, s->db, "claim jobs", rc, fault);
}

tp_status tp__sqlite_job_claim(void *ctx, const tp_job_claim *theirs, int64_t *ret_next_ms, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  tp_job_claim request;
  claiming c = {.s = s, .request = &request};
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_job_claim", fault);
  if (status != TP_OK) return status;
  c.most = request.count_max == 0 ? 1 : request.count_max < CLAIMS_MAX ? request.count_max : CLAIMS_MAX;
  tp__lock_acquire(&s->mutex);
  status = claim_locked(&c, ret_next_ms, fault);
  tp__lock_release(&s->mutex);
  if (status == TP_OK && c.count == 0) status = TP_ERR_NOT_FOUND;
  for (size_t i = 0; i < c.count; i++) request.take(request.ctx, c.jobs[i]);
  free_claimed(&c);
  sqlite3_free(c.jobs);
  class_list *list = &c.classes;
  for (size_t i = 0; i < list->count; i++) sqlite3_free((char *)(uintptr_t)list->items[i].handler.data);
  sqlite3_free(list->items);
  return status;
}

/* ---- going on ---- */

static tp_status stale(const tp__sqlite_store *s, uint64_t id, tp_status refusal, tp_fault *fault) {
  return tp__refuse(fault, refusal, s->path, "the claim of job %llu is not the current one", (unsigned long long)id);
}

typedef struct renewal {
  tp__sqlite_store *s;
  tp_job_renew request;
  bool found;
} renewal;

static int write_renewal(void *ctx) {
  renewal *r = ctx;
  sqlite3_stmt *renew = r->s->statements[TP__RENEW_JOB];
  const int64_t values[] = {(int64_t)r->request.id, (int64_t)r->request.claim, r->request.now_ms, r->request.lease_ms};
  int64_t id = 0;
  int rc = fetch_number(renew, tp__sqlite_bind_ints(renew, values, 4), &id);
  r->found = rc == SQLITE_ROW;
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

tp_status tp__sqlite_job_renew(void *ctx, const tp_job_renew *theirs, tp_fault *fault) {
  renewal r = {.s = ctx};
  tp_status status = tp__struct_read(&r.request, sizeof r.request, theirs, "tp_job_renew", fault);
  if (status == TP_OK) status = tp__store_write(r.s, write_renewal, &r, "renew the lease of a job", fault);
  if (status != TP_OK || r.found) return status;
  return stale(r.s, r.request.id, TP_ERR_STALE, fault);
}

/* ---- finishing ---- */

static tp__job_change change_of(const tp_job_finish *request, const tp_job *job) {
  tp__job_change change = {.id = job->id,
                           .state = TP_JOB_QUEUED,
                           .reason = request->reason,
                           .code = request->code,
                           .at_ms = request->retry_at_ms,
                           .postponed_ms = request->postponed_ms,
                           .message = request->message};
  if (request->end == TP_JOB_END_RELEASED) change.attempts_back = 1;
  else if (request->end == TP_JOB_END_SUCCEEDED) change.state = TP_JOB_SUCCEEDED;
  else if (request->end == TP_JOB_END_FAILED || job->attempt >= job->attempts_max) change.state = TP_JOB_DEAD;
  if (change.state != TP_JOB_QUEUED) change.at_ms = request->now_ms;
  return change;
}

/* @param ret_refusal  TP_OK when the claim was ended. */
static int finish_locked(tp__sqlite_store *s, const tp_job_finish *request, uint32_t *ret_state,
                         tp_status *ret_refusal) {
  TP__LOCKED(&s->mutex);
  tp_job *job;
  int rc = find_job_locked(s, (int64_t)request->id, &job);
  *ret_refusal = TP_OK;
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) return rc;
  bool is_open = job && (job->state == TP_JOB_QUEUED || job->state == TP_JOB_RUNNING);
  rc = SQLITE_OK;
  if (!is_open) {
    *ret_refusal = TP_ERR_NOT_FOUND;
  } else if (job->state != TP_JOB_RUNNING || job->claim != request->claim) {
    *ret_refusal = TP_ERR_STALE;
  } else {
    tp__job_change change = change_of(request, job);
    rc = tp__sqlite_job_change_locked(s, &change);
    *ret_state = change.state;
  }
  sqlite3_free(job);
  return rc;
}

typedef struct finishing {
  tp__sqlite_store *s;
  tp_job_finish request;
  uint32_t state;
  tp_status refusal;
} finishing;

static int write_finish(void *ctx) {
  finishing *f = ctx;
  return finish_locked(f->s, &f->request, &f->state, &f->refusal);
}

static tp_status read_finish(const tp_job_finish *theirs, tp_job_finish *ours, tp_fault *fault) {
  tp_status status = tp__struct_read(ours, sizeof *ours, theirs, "tp_job_finish", fault);
  if (status != TP_OK || (ours->end >= TP_JOB_END_SUCCEEDED && ours->end <= TP_JOB_END_RELEASED)) return status;
  return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_job_finish.end is %u: it must be a tp_job_end", ours->end);
}

tp_status tp__sqlite_job_finish(void *ctx, const tp_job_finish *theirs, uint32_t *ret_state, tp_fault *fault) {
  finishing f = {.s = ctx};
  tp_status status = read_finish(theirs, &f.request, fault);
  if (status == TP_OK) status = tp__store_write(f.s, write_finish, &f, "finish a job", fault);
  if (status != TP_OK) return status;
  if (f.refusal != TP_OK) return stale(f.s, f.request.id, f.refusal, fault);
  *ret_state = f.state;
  return TP_OK;
}

typedef struct finishing_all {
  tp__sqlite_store *s;
  const tp_job_finish *requests;
  size_t count;
  uint32_t *states;
  tp_status *refusals;
} finishing_all;

static int write_finishes(void *ctx) {
  finishing_all *f = ctx;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < f->count; i++)
    rc = finish_locked(f->s, &f->requests[i], &f->states[i], &f->refusals[i]);
  return rc;
}

tp_status tp__sqlite_job_finish_all(void *ctx, const tp_job_finish *const *theirs, size_t count, uint32_t *ret_states,
                                    tp_status *ret_statuses, tp_fault *fault) {
  tp_status status = TP_OK;
  assert(count > 0);
  tp_job_finish *requests = sqlite3_malloc64(count * sizeof *requests);
  if (!requests) return tp__store_fail(ctx, NULL, "finish jobs", SQLITE_NOMEM, fault);
  for (size_t i = 0; status == TP_OK && i < count; i++) status = read_finish(theirs[i], &requests[i], fault);
  finishing_all f = {ctx, requests, count, ret_states, ret_statuses};
  if (status == TP_OK) status = tp__store_write(ctx, write_finishes, &f, "finish jobs", fault);
  sqlite3_free(requests);
  return status;
}

/* ---- what operators see and do ---- */

tp_status tp__sqlite_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  tp__sqlite_store *s = ctx;
  int64_t count = 0;
  tp_status status = TP_OK;
  tp__lock_acquire(&s->mutex);
  sqlite3_stmt *of_key = s->statements[TP__COUNT_ORDER];
  int rc = order_key.size == 0 ? count_open_locked(s, &count)
                               : expect_row(fetch_number(of_key, tp__sqlite_bind_text(of_key, 1, order_key), &count));
  if (rc != SQLITE_OK) status = tp__store_fail(s, s->db, "count jobs", rc, fault);
  tp__lock_release(&s->mutex);
  if (status == TP_OK) *ret_count = (uint64_t)count;
  return status;
}

static const char list_sql[] =
    "SELECT id, claim, state, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, reason,"
    " code, inserted_ms, claimable_ms, lease_end_ms, ended_ms, handler, subscription, idempotency_key, order_key,"
    " message, CASE WHEN ?5 THEN payload ELSE x'' END, postponed_ms FROM job WHERE id > ?1 AND (?2 = 0 OR id = ?2)"
    " AND (?3 >> state) & 1 AND (?6 IS NULL OR handler = ?6) AND (?7 IS NULL OR order_key = ?7) ORDER BY id LIMIT ?4";

typedef struct receiver {
  tp_job_each_fn each;
  void *ctx;
} receiver;

static bool show_job(sqlite3_stmt *row, const tp__rows *parts, void *ctx) {
  const receiver *to = ctx;
  tp_job job;
  (void)parts;
  tp__sqlite_read_struct(row, 0, &jobs, &job);
  return to->each(to->ctx, &job);
}

tp_status tp__sqlite_jobs(void *ctx, const tp_job_query *theirs, tp_job_each_fn each, void *each_ctx, tp_fault *fault) {
  tp_job_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_job_query", fault);
  if (status != TP_OK) return status;
  uint32_t states = query.states ? query.states : 1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING | 1u << TP_JOB_DEAD;
  uint64_t after_id = query.id > query.after_id ? query.id - 1 : query.after_id;
  const int64_t values[] = {after_id > INT64_MAX ? INT64_MAX : (int64_t)after_id, (int64_t)query.id, states,
                            query.limit && query.limit <= INT64_MAX ? (int64_t)query.limit : -1, query.with_payload};
  const tp_text texts[] = {query.handler, query.order_key};
  const tp__listing listing = {.sql = list_sql,
                               .values = values,
                               .count = 5,
                               .texts = texts,
                               .first_text = 6,
                               .text_count = 2,
                               .show = show_job,
                               .ctx = &(receiver){each, each_ctx}};
  return tp__store_list(ctx, &listing, "list jobs", fault);
}

static int redrive_locked(tp__sqlite_store *s, const tp_job *job, bool *ret_full) {
  TP__LOCKED(&s->mutex);
  int64_t open = 0;
  int rc = count_open_locked(s, &open);
  *ret_full = rc == SQLITE_OK && open >= (int64_t)s->options.jobs_max;
  if (rc != SQLITE_OK || *ret_full) return rc;
  rc = next_place_locked(s);
  sqlite3_stmt *redrive = s->statements[TP__REDRIVE_JOB];
  const int64_t id = (int64_t)job->id;
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_ints(redrive, &id, 1);
  return tp__sqlite_run(redrive, rc);
}

/** What an operator does to one job. */
typedef enum operation { REDRIVE, DISCARD } operation;

static int operate_locked(tp__sqlite_store *s, operation what, uint64_t id, int64_t now_ms, tp_status *ret_refusal) {
  TP__LOCKED(&s->mutex);
  tp_job *job = NULL;
  bool is_full = false;
  *ret_refusal = TP_OK;
  int rc = id > INT64_MAX ? SQLITE_DONE : find_job_locked(s, (int64_t)id, &job);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) return rc;
  uint32_t state = job ? job->state : 0;
  rc = SQLITE_OK;
  if (what == DISCARD && state == TP_JOB_RUNNING) {
    *ret_refusal = TP_ERR_BUSY;
  } else if (state != TP_JOB_DEAD && !(what == DISCARD && state == TP_JOB_QUEUED)) {
    *ret_refusal = TP_ERR_NOT_FOUND;
  } else if (what == REDRIVE) {
    rc = redrive_locked(s, job, &is_full);
    if (is_full) *ret_refusal = TP_ERR_FULL;
  } else {
    tp__job_change change = {.id = id,
                             .state = TP_JOB_DISCARDED,
                             .reason = job->reason,
                             .code = job->code,
                             .at_ms = now_ms,
                             .message = job->message};
    rc = tp__sqlite_job_change_locked(s, &change);
  }
  sqlite3_free(job);
  return rc;
}

typedef struct operating {
  tp__sqlite_store *s;
  operation what;
  uint64_t id;
  int64_t now_ms;
  tp_status refusal;
} operating;

static int write_operation(void *ctx) {
  operating *w = ctx;
  return operate_locked(w->s, w->what, w->id, w->now_ms, &w->refusal);
}

static tp_status operate(tp__sqlite_store *s, operation what, uint64_t id, int64_t now_ms, tp_fault *fault) {
  const char *doing = what == REDRIVE ? "redriven" : "discarded", *missing = "there is no such job, or it has ended";
  operating w = {.s = s, .what = what, .id = id, .now_ms = now_ms};
  tp_status status = tp__store_write(s, write_operation, &w, "change a job", fault), refusal = w.refusal;
  if (status != TP_OK || refusal == TP_OK) return status;
  if (refusal == TP_ERR_FULL) return full(s, fault);
  if (what == REDRIVE) missing = "there is no such dead letter";
  return tp__refuse(fault, refusal, s->path, "job %llu cannot be %s: %s", (unsigned long long)id, doing,
                    refusal == TP_ERR_BUSY ? "it is running" : missing);
}

tp_status tp__sqlite_job_redrive(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  return operate(ctx, REDRIVE, id, now_ms, fault);
}

tp_status tp__sqlite_job_discard(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  return operate(ctx, DISCARD, id, now_ms, fault);
}
