/* SPDX-License-Identifier: Apache-2.0
 *
 * Renews and ends claims of jobs, and does what operators do to jobs. A job that ends moves to the table job_ended, so
 * that claims read only open jobs. The payload of a job that succeeded or was discarded is deleted. */
#include <assert.h>
#include <string.h>

#include "stores/postgres/job_rows.h"
#include "support/fault.h"

static const char *name_of(const tp__pg_store *s) { return s->postgres->target.name; }

static tp_status stale(const tp__pg_store *s, uint64_t id, tp_status refusal, tp_fault *fault) {
  return tp__refuse(fault, refusal, name_of(s), "%s: the claim of job %llu is not the current one", name_of(s),
                    (unsigned long long)id);
}

/* ---- renewing ---- */

tp_status tp__pg_job_renew(void *ctx, const tp_job_renew *theirs, tp_fault *fault) {
  static const char renew[] = "UPDATE @.job SET lease_end_ms = " TP__PG_NOW(
      "$1") " + $2::bigint WHERE id = $3::bigint AND claim = $4::bigint AND state = 2 RETURNING id";
  tp__pg_store *s = ctx;
  tp_job_renew request;
  tp__pg_request r;
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_job_renew", fault);
  if (status != TP_OK) return status;
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, "renew the lease of a job");
  r.work.process = s->process;
  tp__pg_parameters *p = tp__pg_request_add(&r, renew);
  tp__pg_parameter_int(p, tp__pg_store_now(s, request.now_ms));
  tp__pg_parameter_int(p, request.lease_ms);
  tp__pg_parameter_int(p, (int64_t)request.id);
  tp__pg_parameter_int(p, (int64_t)request.claim);
  status = tp__pg_request_run(&r, fault);
  bool found = status == TP_OK && PQntuples(tp__pg_request_rows(&r, 0)) > 0;
  tp__pg_request_fini(&r);
  return status != TP_OK || found ? status : stale(s, request.id, TP_ERR_STALE, fault);
}

/* ---- finishing ---- */

typedef struct finishing {
  tp_job_finish request;
  int64_t pause_ms, batch;
} finishing;

#define ENDINGS                                                                                                    \
  " FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]," \
  " $9::bytea[], $10::bigint[], $11::bigint[]) AS c(k, id, claim, ending, reason, code, pause_ms, message,"        \
  " postponed_ms, batch)"
#define OF_CLAIM "j.id = c.id AND j.state = 2 AND j.claim = c.claim"
/* tp_job_end: SUCCEEDED 1, FAILED 2, RETRY 3. */
static const char end_jobs[] =
    "WITH c AS (SELECT *" ENDINGS
    "), gone AS (DELETE FROM @.job j USING c WHERE " OF_CLAIM
    " AND (c.ending <= 2 OR (c.ending = 3 AND j.attempt >= j.attempts_max))"
    " RETURNING c.k, c.reason AS why, c.code AS number, c.message AS said, c.batch AS by,"
    " CASE c.ending WHEN 1 THEN 3 ELSE 4 END AS became, j.*),"
    " ended AS (INSERT INTO @.job_ended (id, " TP__PG_JOB_COLUMNS
    ") SELECT id, became, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, why,"
    " number, inserted_ms, 0, 0, " TP__PG_NOW(
        "$1") ", postponed_ms, handler, subscription, idempotency_key, order_key, said,"
              " CASE became WHEN 4 THEN payload ELSE ''::bytea END, key_hash, order_hash, 0, batch, by, tenant, session"
              " FROM gone ORDER BY k RETURNING 1) SELECT k, became::bigint FROM gone";
static const char put_back[] =
    "UPDATE @.job j SET state = 1, attempt = j.attempt - CASE c.ending WHEN 4 THEN 1 ELSE 0 END, reason = c.reason,"
    " code = c.code, claimable_ms = " TP__PG_NOW(
        "$1") " + c.pause_ms, lease_end_ms = 0, process = 0, message = c.message, mark = c.batch,"
              " postponed_ms = greatest(j.postponed_ms, c.postponed_ms)" ENDINGS " WHERE " OF_CLAIM
              " RETURNING c.k, 1::bigint";
/* For claims that were neither ended nor renewed: whether the job is open; and for a request in doubt, whether this
 * call has ended it before. */
static const char look_at_rest[] =
    "SELECT c.k, 1::bigint, j.mark = c.batch FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS c(k, id, batch)"
    " JOIN @.job j ON j.id = c.id UNION ALL SELECT c.k, j.state::bigint, j.mark = c.batch"
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS c(k, id, batch) JOIN @.job_ended j ON j.id = c.id";
/* Deletes the oldest ended jobs above a number, with their keys. Parameter 1: the most of each kind. */
#define FORGET(kind)                                                                                               \
  "WITH gone AS (DELETE FROM @.job_ended WHERE " kind " AND number <= (SELECT number FROM @.job_ended WHERE " kind \
  " ORDER BY number DESC OFFSET $1::bigint LIMIT 1) RETURNING key_hash)"                                           \
  " DELETE FROM @.job_key y USING gone WHERE y.hash = gone.key_hash"
static const char forget_done[] = FORGET("state <> 4");
static const char forget_dead[] = FORGET("state = 4");

#define ALL(member) &list->member, sizeof list->member, sizeof *list, count

static void put_endings(const tp__pg_store *s, tp__pg_parameters *p, const finishing *list, size_t count) {
  tp__pg_parameter_int(p, tp__pg_store_now(s, list->request.now_ms));
  tp__pg_put_indexes(p, count);
  tp__pg_put_ints(p, ALL(request.id));
  tp__pg_put_ints(p, ALL(request.claim));
  tp__pg_put_ints(p, ALL(request.end));
  tp__pg_put_ints(p, ALL(request.reason));
  tp__pg_put_ints(p, ALL(request.code));
  tp__pg_put_ints(p, ALL(pause_ms));
  tp__pg_put_texts(p, &list->request.message, sizeof *list, count);
  tp__pg_put_ints(p, ALL(request.postponed_ms));
  tp__pg_put_ints(p, ALL(batch));
}

static tp_status read_finish(tp__pg_store *s, const tp_job_finish *theirs, finishing *f, tp_fault *fault) {
  tp_job_finish *ours = &f->request;
  tp_status status = tp__struct_read(ours, sizeof *ours, theirs, "tp_job_finish", fault);
  if (status != TP_OK) return status;
  if (ours->end < TP_JOB_END_SUCCEEDED || ours->end > TP_JOB_END_RELEASED)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_job_finish.end is %u: it must be a tp_job_end", ours->end);
  f->batch = tp__pg_next_batch(s->postgres);
  f->pause_ms = ours->retry_at_ms > ours->now_ms ? ours->retry_at_ms - ours->now_ms : 0;
  if (!s->options.callers_clock && f->pause_ms > TP_JOB_PAUSE_MS_MAX) f->pause_ms = TP_JOB_PAUSE_MS_MAX;
  return TP_OK;
}

/* Whether it is time to delete old ended jobs, by the number of jobs that this process has ended. */
static bool must_forget(tp__pg_store *s, size_t count) {
  tp__lock_acquire(&s->lock);
  size_t every = s->options.jobs_ended_max / 8 + 1;
  s->ended += count;
  bool is_due = s->ended >= every;
  if (is_due) s->ended = 0;
  tp__lock_release(&s->lock);
  return is_due;
}

static bool may_put_back(const finishing *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (list[i].request.end > TP_JOB_END_FAILED) return true;
  return false;
}

/* Makes the request. Statement 0 returns what the ended jobs became; statement 1, if there is one, returns the jobs
 * that wait again. */
static void make_request(tp__pg_store *s, const finishing *list, size_t count, tp__pg_request *r) {
  tp__pg_request_init(r, s->postgres, TP__PG_WRITES, count == 1 ? "finish a job" : "finish jobs");
  put_endings(s, tp__pg_request_add(r, end_jobs), list, count);
  if (may_put_back(list, count)) put_endings(s, tp__pg_request_add(r, put_back), list, count);
  if (!must_forget(s, count)) return;
  tp__pg_parameter_int(tp__pg_request_add(r, forget_done), (int64_t)s->options.jobs_ended_max);
  tp__pg_parameter_int(tp__pg_request_add(r, forget_dead), (int64_t)s->options.jobs_ended_max);
}

static size_t read_ended(const PGresult *rows, size_t count, uint32_t *ret_states, tp_status *ret_statuses) {
  for (int row = 0; row < PQntuples(rows); row++) {
    size_t i = (size_t)tp__pg_int(rows, row, 0);
    assert(i < count);
    ret_states[i] = (uint32_t)tp__pg_int(rows, row, 1);
    ret_statuses[i] = TP_OK;
  }
  return (size_t)PQntuples(rows);
}

/* Looks at the jobs whose claim is not the current one, or that were ended before an answer was lost. */
static tp_status look_at_others(tp__pg_store *s, const finishing *list, size_t count, uint32_t *ret_states,
                                tp_status *ret_statuses, tp_fault *fault) {
  tp__pg_request r;
  tp__pg_request_init(&r, s->postgres, TP__PG_READS, "look at jobs");
  tp__pg_parameters *p = tp__pg_request_add(&r, look_at_rest);
  tp__pg_put_indexes(p, count);
  tp__pg_put_ints(p, ALL(request.id));
  tp__pg_put_ints(p, ALL(batch));
  tp_status status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  for (int row = 0; row < PQntuples(rows); row++) {
    size_t i = (size_t)tp__pg_int(rows, row, 0);
    int64_t state = tp__pg_int(rows, row, 1);
    assert(i < count);
    if (ret_statuses[i] == TP_OK) continue;
    ret_statuses[i] = tp__pg_bool(rows, row, 2) ? TP_OK : state == TP_JOB_QUEUED ? TP_ERR_STALE : TP_ERR_NOT_FOUND;
    ret_states[i] = (uint32_t)state;
  }
  tp__pg_request_fini(&r);
  return status;
}

static tp_status finish_list(tp__pg_store *s, const finishing *list, size_t count, uint32_t *ret_states,
                             tp_status *ret_statuses, tp_fault *fault) {
  tp__pg_request r;
  size_t done = 0;
  for (size_t i = 0; i < count; i++) ret_statuses[i] = TP_ERR_NOT_FOUND;
  make_request(s, list, count, &r);
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) done = read_ended(tp__pg_request_rows(&r, 0), count, ret_states, ret_statuses);
  if (status == TP_OK && may_put_back(list, count))
    done += read_ended(tp__pg_request_rows(&r, 1), count, ret_states, ret_statuses);
  tp__pg_request_fini(&r);
  return status == TP_OK && done < count ? look_at_others(s, list, count, ret_states, ret_statuses, fault) : status;
}

tp_status tp__pg_job_finish_all(void *ctx, const tp_job_finish *const *requests, size_t count, uint32_t *ret_states,
                                tp_status *ret_statuses, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_status status = TP_OK;
  assert(count > 0);
  finishing *list = count < SIZE_MAX / sizeof *list ? tp__heap_alloc(count * sizeof *list) : NULL;
  if (!list) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to finish %zu jobs", count);
  for (size_t i = 0; status == TP_OK && i < count; i++) status = read_finish(s, requests[i], &list[i], fault);
  if (status == TP_OK) status = finish_list(s, list, count, ret_states, ret_statuses, fault);
  tp__heap_free(list, count * sizeof *list);
  return status;
}

tp_status tp__pg_job_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault) {
  tp_status own = TP_OK, status = tp__pg_job_finish_all(ctx, &request, 1, ret_state, &own, fault);
  return status == TP_OK && own != TP_OK ? stale(ctx, request->id, own, fault) : status;
}

/* ---- what operators do ---- */

/* Makes a dead letter the newest open job of its order key. Parameters: 1 id, 2 batch, 3 most. */
static const char redrive[] =
    "WITH gone AS (DELETE FROM @.job_ended WHERE id = $1::bigint AND state = 4"
    " AND (SELECT count(*) FROM @.job) < $3::bigint RETURNING *)"
    " INSERT INTO @.job (id, place, " TP__PG_JOB_COLUMNS
    ") SELECT id, coalesce((SELECT max(o.place) + 1 FROM @.job o WHERE o.order_hash = gone.order_hash), id), 1, claim, "
    "0,"
    " attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, 0, 0, inserted_ms, 0, 0, 0, 0, handler,"
    " subscription, idempotency_key, order_key, message, payload, key_hash, order_hash, 0, 0, $2::bigint, tenant, "
    "session FROM gone";
/* Discards an open job. Parameters: 1 id, 2 batch, 3 now. */
static const char discard_open[] =
    "WITH gone AS (DELETE FROM @.job WHERE id = $1::bigint AND state = 1 RETURNING *)"
    " INSERT INTO @.job_ended (id, " TP__PG_JOB_COLUMNS
    ") SELECT id, 5, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, reason,"
    " code, inserted_ms, 0, 0, " TP__PG_NOW("$3") ", postponed_ms, handler, subscription, idempotency_key, order_key,"
                                                  " message,"
                                            " '', key_hash, order_hash, 0, 0, $2::bigint, tenant, session FROM gone";
static const char discard_dead[] =
    "UPDATE @.job_ended SET state = 5, payload = '', mark = $2::bigint, ended_ms = " TP__PG_NOW(
        "$3") " WHERE id = $1::bigint AND state = 4";
/* Reads the state of a job, and whether this call has set it. */
static const char look_at_job[] =
    "SELECT state::bigint, mark = $2::bigint FROM @.job WHERE id = $1::bigint"
    " UNION ALL SELECT state::bigint, mark = $2::bigint FROM @.job_ended WHERE id = $1::bigint";

static tp_status operate(tp__pg_store *s, const char *const *statements, uint64_t id, int64_t third, const char *doing,
                         tp_fault *fault, int64_t *ret_state) {
  tp__pg_request r;
  int64_t batch = tp__pg_next_batch(s->postgres);
  *ret_state = 0;
  if (id > INT64_MAX) return TP_OK;
  tp__pg_request_init(&r, s->postgres, TP__PG_WRITES, doing);
  r.work.has_news = true;
  for (; *statements; statements++) {
    tp__pg_parameters *p = tp__pg_request_add(&r, *statements);
    tp__pg_parameter_int(p, (int64_t)id);
    tp__pg_parameter_int(p, batch);
    tp__pg_parameter_int(p, third);
  }
  tp__pg_parameters *p = tp__pg_request_add(&r, look_at_job);
  tp__pg_parameter_int(p, (int64_t)id);
  tp__pg_parameter_int(p, batch);
  tp_status status = tp__pg_request_run(&r, fault);
  tp__pg_news_add(s->postgres, &s->watcher);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&r, r.count - 1);
    bool is_done = PQntuples(rows) > 0 && tp__pg_bool(rows, 0, 1);
    if (PQntuples(rows) > 0) *ret_state = is_done ? -1 : tp__pg_int(rows, 0, 0);
  }
  tp__pg_request_fini(&r);
  return status;
}

tp_status tp__pg_job_redrive(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  static const char *const statements[] = {redrive, NULL};
  tp__pg_store *s = ctx;
  int64_t state;
  (void)now_ms;
  tp_status status = operate(s, statements, id, (int64_t)s->options.jobs_max, "redrive a job", fault, &state);
  if (status != TP_OK || state < 0) return status;
  if (state == TP_JOB_DEAD)
    return tp__refuse(fault, TP_ERR_FULL, name_of(s), "%s: %zu jobs are open, the most that it takes (jobs_max)",
                      name_of(s), s->options.jobs_max);
  return tp__refuse(fault, TP_ERR_NOT_FOUND, name_of(s), "job %llu cannot be redriven: there is no such dead letter",
                    (unsigned long long)id);
}

tp_status tp__pg_job_discard(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault) {
  static const char *const statements[] = {discard_open, discard_dead, NULL};
  tp__pg_store *s = ctx;
  int64_t state;
  tp_status status = operate(s, statements, id, tp__pg_store_now(s, now_ms), "discard a job", fault, &state);
  if (status != TP_OK || state < 0) return status;
  bool is_running = state == TP_JOB_RUNNING;
  return tp__refuse(fault, is_running ? TP_ERR_BUSY : TP_ERR_NOT_FOUND, name_of(s), "job %llu cannot be discarded: %s",
                    (unsigned long long)id, is_running ? "it is running" : "there is no such job, or it has ended");
}
