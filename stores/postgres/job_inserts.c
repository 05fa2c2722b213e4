/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserts jobs. A job whose key is known already changes nothing. The table job_key has the keys of open jobs and of
 * jobs that have ended, which are in different tables. */
#include <assert.h>
#include <string.h>

#include "stores/postgres/job_rows.h"
#include "support/fault.h"
#include "support/job_owner.h"
#include "support/sha256.h"
#include "turnphase/value.h"

/** A job, with the further values that the statement needs. */
typedef struct insertion {
  tp_job job;
  char key_hash[TP__PG_HASH_BYTES];
  tp_text key_hash_text;
  int64_t order_hash, batch;
  tp_text owner[2]; /* tenant and session of the turn that inserts it */
  tp_text names[2]; /* the same as names of a session; empty if the job has no fence */
  int64_t is_own;   /* 1: the history of its session is in this database */
} insertion;

/* Locks the sessions whose turns insert jobs, so that they do not change until the jobs are committed. */
static const char lock_sessions[] =
    "SELECT c.k, s.epoch FROM unnest($1::bigint[], $2::text[], $3::text[]) AS c(k, tenant, name)"
    " JOIN @.session s ON s.tenant = c.tenant AND s.name = c.name ORDER BY s.id FOR SHARE OF s";

/* Parameters: 1 now, 2 most, 3 whether to count, 4 k, 5 key_hash, 6 batch, 7 tenant, 8 name, 9 fence, 10 order_hash,
 * 11 attempts_max, 12 backoff, 13 backoff_ms, 14 limit_ms, 15 phase, 16 contract_version, 17 handler, 18 subscription,
 * 19 idempotency_key, 20 order_key, 21 payload, 22 and 23 tenant and session, which may have any bytes, 24 whether the
 * history of the session is in this database. */
static const char insert_jobs[] =
    "WITH open AS (SELECT CASE WHEN $3::bigint = 1 THEN (SELECT count(*) FROM @.job) ELSE -1 END AS jobs),"
    " c AS (SELECT * FROM unnest($4::bigint[], $5::bytea[], $6::bigint[], $7::text[], $8::text[], $9::bigint[],"
    " $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],"
    " $17::bytea[], $18::bytea[], $19::bytea[], $20::bytea[], $21::bytea[], $22::bytea[], $23::bytea[], $24::bigint[])"
    " AS c(k, key_hash, batch, tenant, name, fence, order_hash, attempts_max, backoff, backoff_ms, limit_ms, phase,"
    " contract_version, handler, subscription, idempotency_key, order_key, payload, owner, session,"
    " is_own)),"
    " new AS (SELECT c.*, row_number() OVER (ORDER BY c.k) AS n FROM c"
    " WHERE c.k = (SELECT min(x.k) FROM c x WHERE x.key_hash = c.key_hash)"
    " AND NOT EXISTS (SELECT 1 FROM @.job_key y WHERE y.hash = c.key_hash)"
    " AND (c.fence = 0 OR coalesce((SELECT s.epoch = c.fence FROM @.session s WHERE s.tenant = c.tenant"
    " AND s.name = c.name), c.is_own = 0))),"
    " named AS (INSERT INTO @.job_key (hash, batch) SELECT new.key_hash, new.batch FROM new, open"
    " WHERE open.jobs < 0 OR open.jobs + new.n <= $2::bigint ORDER BY new.k ON CONFLICT (hash) DO NOTHING"
    " RETURNING id, hash),"
    " added AS (INSERT INTO @.job (id, place, " TP__PG_JOB_COLUMNS
    ") SELECT named.id, named.id, 1, 0, 0,"
    " new.attempts_max, new.backoff, new.backoff_ms, new.limit_ms, new.phase, new.contract_version, 0, 0, " TP__PG_NOW(
        "$1") ", 0, 0, 0, 0, new.handler, new.subscription, new.idempotency_key, new.order_key, '', new.payload,"
              " new.key_hash, new.order_hash, 0, 0, 0, new.owner, new.session"
              " FROM new JOIN named ON named.hash = new.key_hash RETURNING 1)"
              " SELECT open.jobs, (SELECT count(*) FROM added) FROM open";

static const char find_keys[] =
    "SELECT c.k, y.id, y.batch FROM unnest($1::bigint[], $2::bytea[]) AS c(k, key_hash)"
    " JOIN @.job_key y ON y.hash = c.key_hash";

/* ---- what is inserted ---- */

static tp_status read_insertion(tp__pg_store *s, const tp_job *theirs, insertion *i, tp_fault *fault) {
  tp_status status = tp__struct_read(&i->job, sizeof i->job, theirs, "tp_job", fault);
  if (status != TP_OK) return status;
  tp__pg_long_hash(i->job.idempotency_key, (unsigned char *)i->key_hash);
  i->key_hash_text = (tp_text){i->key_hash, sizeof i->key_hash};
  i->order_hash = tp__pg_order_hash(i->job.order_key);
  i->batch = tp__pg_next_batch(s->postgres);
  i->owner[0] = i->owner[1] = i->names[0] = i->names[1] = (tp_text){"", 0};
  tp__job_owner(i->job.payload, i->owner);
  if (i->job.fence) memcpy(i->names, i->owner, sizeof i->names);
  i->is_own = tp__pg_is_own(s, i->job.origin);
  return TP_OK;
}

/* Whether the open jobs must be counted: the more of them are open, or were inserted since the last count, the
 * sooner. */
static bool must_count(tp__pg_store *s, size_t count) {
  tp__lock_acquire(&s->lock);
  bool is_known = s->counted != UINT64_MAX;
  bool is_due = !is_known || s->counted + 16 * (s->inserted + count) > s->options.jobs_max / 2;
  tp__lock_release(&s->lock);
  return is_due;
}

static void note_count(tp__pg_store *s, const PGresult *rows) {
  int64_t open = tp__pg_int(rows, 0, 0), added = tp__pg_int(rows, 0, 1);
  tp__lock_acquire(&s->lock);
  if (open >= 0) {
    s->counted = (uint64_t)(open + added);
    s->inserted = 0;
  } else {
    s->inserted += (uint64_t)added;
  }
  tp__lock_release(&s->lock);
}

/* ---- the request ---- */

#define FIRST(member) &list->member, sizeof *list, count
#define FIRST_INT(member) &list->member, sizeof list->member, sizeof *list, count

static void put_names(tp__pg_parameters *p, const insertion *list, size_t count) {
  for (int n = 0; n < 2; n++) {
    tp__bytes *array = tp__pg_parameter_array(p, TP__PG_TEXT, count);
    for (size_t i = 0; i < count; i++) tp__pg_put_bytes(array, list[i].names[n]);
  }
}

static void put_insertions(tp__pg_parameters *p, const insertion *list, size_t count) {
  tp__pg_put_indexes(p, count);
  tp__pg_put_texts(p, FIRST(key_hash_text));
  tp__pg_put_ints(p, FIRST_INT(batch));
  put_names(p, list, count);
  tp__pg_put_ints(p, FIRST_INT(job.fence));
  tp__pg_put_ints(p, FIRST_INT(order_hash));
  tp__pg_put_ints(p, FIRST_INT(job.attempts_max));
  tp__pg_put_ints(p, FIRST_INT(job.backoff));
  tp__pg_put_ints(p, FIRST_INT(job.backoff_ms));
  tp__pg_put_ints(p, FIRST_INT(job.limit_ms));
  tp__pg_put_ints(p, FIRST_INT(job.phase));
  tp__pg_put_ints(p, FIRST_INT(job.contract_version));
  tp__pg_put_texts(p, FIRST(job.handler));
  tp__pg_put_texts(p, FIRST(job.subscription));
  tp__pg_put_texts(p, FIRST(job.idempotency_key));
  tp__pg_put_texts(p, FIRST(job.order_key));
  tp__pg_put_texts(p, FIRST(job.payload));
  tp__pg_put_texts(p, FIRST(owner[0]));
  tp__pg_put_texts(p, FIRST(owner[1]));
  tp__pg_put_ints(p, FIRST_INT(is_own));
}

enum { LOCKED, INSERTED, FOUND };

static void make_insert_request(tp__pg_store *s, const insertion *list, size_t count, tp__pg_request *r) {
  tp__pg_request_init(r, s->postgres, TP__PG_WRITES, count == 1 ? "insert a job" : "insert jobs");
  tp__pg_parameters *p = tp__pg_request_add(r, lock_sessions);
  tp__pg_put_indexes(p, count);
  put_names(p, list, count);
  p = tp__pg_request_add(r, insert_jobs);
  tp__pg_parameter_int(p, tp__pg_store_now(s, list->job.inserted_ms));
  tp__pg_parameter_int(p, (int64_t)s->options.jobs_max);
  tp__pg_parameter_int(p, must_count(s, count));
  put_insertions(p, list, count);
  p = tp__pg_request_add(r, find_keys);
  tp__pg_put_indexes(p, count);
  tp__pg_put_texts(p, FIRST(key_hash_text));
}

static tp_status refuse_insert(const tp__pg_store *s, tp_status status, tp_fault *fault) {
  const char *name = s->postgres->target.name;
  return status == TP_ERR_FENCED
             ? tp__refuse(fault, status, name,
                          "%s: the session was taken over by another process while its turn ran: its job was not "
                          "inserted",
                          name)
             : tp__refuse(fault, status, name, "%s: %zu jobs are open, the most that it takes (jobs_max)", name,
                          s->options.jobs_max);
}

/* Reads the answers. A known key comes first; then the fence; then the number of open jobs. */
static void read_answers(const tp__pg_request *r, const insertion *list, size_t count, uint64_t *ret_ids,
                         bool *ret_existed, tp_status *ret_statuses) {
  const PGresult *locked = tp__pg_request_rows(r, LOCKED), *found = tp__pg_request_rows(r, FOUND);
  for (size_t i = 0; i < count; i++)
    ret_statuses[i] = list[i].job.fence && list[i].is_own ? TP_ERR_FENCED : TP_ERR_FULL; /* without a row of it */
  for (int row = 0; row < PQntuples(locked); row++) {
    size_t i = (size_t)tp__pg_int(locked, row, 0);
    assert(i < count);
    bool is_fenced = list[i].job.fence && (uint64_t)tp__pg_int(locked, row, 1) != list[i].job.fence;
    ret_statuses[i] = is_fenced ? TP_ERR_FENCED : TP_ERR_FULL;
  }
  for (int row = 0; row < PQntuples(found); row++) {
    size_t i = (size_t)tp__pg_int(found, row, 0);
    assert(i < count);
    ret_ids[i] = (uint64_t)tp__pg_int(found, row, 1);
    ret_existed[i] = tp__pg_int(found, row, 2) != list[i].batch;
    ret_statuses[i] = TP_OK;
  }
}

tp_status tp__pg_job_insert_all(void *ctx, const tp_job *const *jobs, size_t count, uint64_t *ret_ids,
                                bool *ret_existed, tp_status *ret_statuses, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_status status = TP_OK;
  tp__pg_request r;
  assert(count > 0);
  insertion *list = count < SIZE_MAX / sizeof *list ? tp__heap_alloc(count * sizeof *list) : NULL;
  if (!list) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to insert %zu jobs", count);
  for (size_t i = 0; status == TP_OK && i < count; i++) status = read_insertion(s, jobs[i], &list[i], fault);
  if (status == TP_OK) {
    make_insert_request(s, list, count, &r);
    r.work.has_news = true;
    status = tp__pg_request_run(&r, fault);
    tp__pg_news_add(s->postgres, &s->watcher);
    if (status == TP_OK) note_count(s, tp__pg_request_rows(&r, INSERTED));
    if (status == TP_OK) read_answers(&r, list, count, ret_ids, ret_existed, ret_statuses);
    tp__pg_request_fini(&r);
  }
  tp__heap_free(list, count * sizeof *list);
  return status;
}

tp_status tp__pg_job_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault) {
  tp_status own = TP_OK, status = tp__pg_job_insert_all(ctx, &job, 1, ret_id, ret_existed, &own, fault);
  return status == TP_OK && own != TP_OK ? refuse_insert(ctx, own, fault) : status;
}
