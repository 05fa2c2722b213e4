/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims of jobs. A claim asks the filter about every handler and version of which it has seen jobs, and claims jobs of
 * those that the filter accepts, in one transaction. When it finds no job, and once a second, a second transaction
 * reads which handlers have open jobs. If there is a new one, the filter is asked about it, and the claim is tried
 * again. While no job is open and NOTIFY works (news.h), the server is asked only every 10 s. */
#include <assert.h>
#include <string.h>

#include "stores/postgres/job_rows.h"
#include "support/clock.h"
#include "support/fault.h"

enum { CLAIMS_MAX = 256, CLASSES_MAX = 1024, BURIED_MAX = 64, LOOK_MS = 1000, ROUNDS_MAX = 3, QUIET_MS = 10000 };

/* ---- statements; in all of them $1 is the time now ---- */

/* Buries jobs whose last lease has ended. Parameters: 2 batch, 3 most, 4 in doubt: then jobs that were buried before
 * count, too. */
static const char bury_lost[] =
    "WITH gone AS (DELETE FROM @.job WHERE id IN (SELECT id FROM @.job WHERE state = 2 AND lease_end_ms <= " TP__PG_NOW(
        "$1") " AND attempt >= attempts_max ORDER BY id LIMIT $3::bigint FOR UPDATE SKIP LOCKED) RETURNING *),"
              " ended AS (INSERT INTO @.job_ended (id, " TP__PG_JOB_COLUMNS
              ") SELECT id, 4, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase, contract_version, 2,"
              " code, inserted_ms, 0, 0, " TP__PG_NOW(
                  "$1") ", postponed_ms, handler, subscription, idempotency_key, order_key, message, payload, key_hash,"
                        " order_hash, 0, $2::bigint, mark, tenant, session FROM gone RETURNING *)"
                        " SELECT " TP__PG_JOB_SHOWN("''::bytea") " FROM ended j UNION ALL SELECT " TP__PG_JOB_SHOWN(
                            "''::bytea") " FROM @.job_ended j WHERE $4::bigint = 1 AND j.batch = $2::bigint";

/* A job that waits for longer than TP_JOB_PAUSE_MS_MAX was written with another clock, and can be claimed at once. */
#define DUE "(j.claimable_ms <= n.now OR j.claimable_ms > n.now + 60000)"
#define FIRST_OF_KEY                                                                                           \
  "NOT EXISTS (SELECT 1 FROM @.job o WHERE o.order_hash = j.order_hash AND (o.place, o.id) < (j.place, j.id))" \
  " AND NOT EXISTS (SELECT 1 FROM @.job o WHERE o.order_hash = j.order_hash AND o.state = 2 AND o.id <> j.id)"
/* Claims jobs. Parameters: 2 lease_ms, 3 process, 4 batch, 5 most, 6 handlers, 7 versions, 8 in doubt: then no further
 * job is claimed. */
static const char claim_jobs[] =
    "WITH n AS (SELECT " TP__PG_NOW(
        "$1") " AS now),"
              " c AS (SELECT * FROM unnest($6::bytea[], $7::bigint[]) AS c(handler, version)),"
              " expired AS (SELECT j.id FROM @.job j, n, c WHERE j.state = 2 AND j.lease_end_ms <= n.now"
              " AND j.attempt < j.attempts_max AND j.handler = c.handler AND j.contract_version = c.version"
              " ORDER BY j.id LIMIT $5::bigint FOR UPDATE OF j SKIP LOCKED),"
              " waiting AS (SELECT w.id FROM n, c CROSS JOIN LATERAL (SELECT j.id FROM @.job j WHERE j.state = 1"
              " AND j.handler = c.handler AND j.contract_version = c.version AND " DUE " AND " FIRST_OF_KEY
              " ORDER BY j.id LIMIT $5::bigint FOR UPDATE OF j SKIP LOCKED) w),"
              " chosen AS (SELECT id FROM (SELECT id FROM expired UNION ALL SELECT id FROM waiting) x"
              " WHERE NOT ($8::bigint = 1 AND EXISTS (SELECT 1 FROM @.job j WHERE j.state = 2"
              " AND j.batch = $4::bigint))"
              " ORDER BY id LIMIT $5::bigint),"
              " claimed AS (UPDATE @.job SET state = 2, claim = claim + 1, attempt = attempt + 1, process = $3::bigint,"
              " batch = $4::bigint, lease_end_ms = n.now + $2::bigint FROM n WHERE id IN (SELECT id FROM chosen)"
              " RETURNING " TP__PG_JOB_RETURNED ")"
              " SELECT " TP__PG_JOB_SHOWN("j.payload") " FROM claimed j UNION ALL SELECT " TP__PG_JOB_SHOWN(
                  "j.payload") " FROM @.job j WHERE $8::bigint = 1 AND j.state = 2 AND j.batch = $4::bigint ORDER BY 1";
/* Finds the handlers and versions of open jobs, with one look into the index for each. */
static const char find_classes[] =
    "WITH RECURSIVE c AS ((SELECT j.handler, j.contract_version FROM @.job j WHERE j.state = 1"
    " ORDER BY j.handler, j.contract_version LIMIT 1) UNION ALL SELECT x.handler, x.contract_version FROM c"
    " CROSS JOIN LATERAL (SELECT j.handler, j.contract_version FROM @.job j WHERE j.state = 1"
    " AND (j.handler, j.contract_version) > (c.handler, c.contract_version)"
    " ORDER BY j.handler, j.contract_version LIMIT 1) x)"
    " SELECT handler, contract_version FROM c"
    " UNION SELECT handler, contract_version FROM @.job WHERE state = 2 LIMIT 1000";
/* Finds in how many milliseconds to look again, after nothing was claimed; 0: not known. */
static const char find_next[] =
    "SELECT coalesce((SELECT min(due) - n.now FROM (SELECT CASE state WHEN 1 THEN claimable_ms ELSE lease_end_ms END"
    " AS due FROM @.job) j WHERE due > n.now), 0) FROM (SELECT " TP__PG_NOW("$1") " AS now) n";

enum { LOST, CLAIMED };

/* ---- handlers of which jobs were seen ---- */

void tp__pg_job_classes_fini(tp__pg_store *s) {
  for (size_t i = 0; i < s->class_count; i++) tp__heap_free(s->classes[i].handler, s->classes[i].handler_size + 1);
  tp__heap_free(s->classes, s->class_capacity * sizeof *s->classes);
  s->classes = NULL;
  s->class_count = s->class_capacity = 0;
}

static tp_text handler_of(const tp__pg_job_class *class) { return (tp_text){class->handler, class->handler_size}; }

static bool knows_locked(const tp__pg_store *s, tp_text handler, uint32_t version) {
  TP__LOCKED(&s->lock);
  for (size_t i = 0; i < s->class_count; i++) {
    if (s->classes[i].version == version && tp_text_equal(handler_of(&s->classes[i]), handler)) return true;
  }
  return false;
}

/* Adds a handler to the list. Jobs of handlers beyond its size are not claimed by this process until the list is
 * cleared. */
static bool learn_locked(tp__pg_store *s, tp_text handler, uint32_t version) {
  TP__LOCKED(&s->lock);
  if (s->class_count >= CLASSES_MAX) tp__pg_job_classes_fini(s);
  if (!tp__grow(tp__heap, (void **)&s->classes, &s->class_capacity, s->class_count + 1, sizeof *s->classes))
    return false;
  char *copy = tp__heap_copy(handler);
  if (!copy) return false;
  s->classes[s->class_count++] = (tp__pg_job_class){copy, handler.size, version};
  return true;
}

/* @return whether there was a new one. */
static bool learn_all(tp__pg_store *s, const PGresult *rows) {
  bool is_new = false;
  tp__lock_acquire(&s->lock);
  for (int i = 0; i < PQntuples(rows); i++) {
    tp_text handler = tp__pg_text(rows, i, 0);
    uint32_t version = (uint32_t)tp__pg_int(rows, i, 1);
    if (!knows_locked(s, handler, version) && learn_locked(s, handler, version)) is_new = true;
  }
  tp__lock_release(&s->lock);
  return is_new;
}

/** The handlers about which the filter is asked in one claim. */
typedef struct asking {
  tp__pg_job_class *list; /* copies */
  bool *accepted;
  size_t count, capacity, accepted_capacity;
} asking;

static bool copy_class_locked(const tp__pg_store *s, size_t index, asking *a) {
  TP__LOCKED(&s->lock);
  const tp__pg_job_class *class = &s->classes[index];
  if (!tp__grow(tp__heap, (void **)&a->list, &a->capacity, a->count + 1, sizeof *a->list) ||
      !tp__grow(tp__heap, (void **)&a->accepted, &a->accepted_capacity, a->count + 1, sizeof *a->accepted))
    return false;
  char *copy = tp__heap_copy(handler_of(class));
  if (!copy) return false;
  a->list[a->count] = (tp__pg_job_class){copy, class->handler_size, class->version};
  a->accepted[a->count++] = false;
  return true;
}

static bool is_asked(const asking *a, const tp__pg_job_class *class) {
  for (size_t i = 0; i < a->count; i++)
    if (a->list[i].version == class->version && tp_text_equal(handler_of(&a->list[i]), handler_of(class))) return true;
  return false;
}

/* Asks the filter about copies, without the lock, since the filter acquires locks of its own. @return false without
 * memory. */
static bool ask(tp__pg_store *s, const tp_job_claim *request, asking *a) {
  size_t first = a->count;
  bool has_memory = true;
  tp__lock_acquire(&s->lock);
  for (size_t i = 0; has_memory && i < s->class_count; i++)
    if (!is_asked(a, &s->classes[i])) has_memory = copy_class_locked(s, i, a);
  tp__lock_release(&s->lock);
  for (size_t i = first; i < a->count; i++) {
    const tp_job job = {.struct_size = sizeof job,
                        .state = TP_JOB_QUEUED,
                        .handler = handler_of(&a->list[i]),
                        .contract_version = a->list[i].version};
    a->accepted[i] = !request->filter || request->filter(request->ctx, &job);
  }
  return has_memory;
}

static void asking_fini(asking *a) {
  for (size_t i = 0; i < a->count; i++) tp__heap_free(a->list[i].handler, a->list[i].handler_size + 1);
  tp__heap_free(a->list, a->capacity * sizeof *a->list);
  tp__heap_free(a->accepted, a->accepted_capacity * sizeof *a->accepted);
}

/* ---- claiming ---- */

static size_t count_accepted(const asking *a) {
  size_t count = 0;
  for (size_t i = 0; i < a->count; i++) count += a->accepted[i];
  return count;
}

static void put_accepted(tp__pg_parameters *p, const asking *a) {
  size_t count = count_accepted(a);
  tp__bytes *handlers = tp__pg_parameter_array(p, TP__PG_BYTEA, count);
  for (size_t i = 0; i < a->count; i++)
    if (a->accepted[i]) tp__pg_put_bytes(handlers, handler_of(&a->list[i]));
  tp__bytes *versions = tp__pg_parameter_array(p, TP__PG_INT8, count);
  for (size_t i = 0; i < a->count; i++)
    if (a->accepted[i]) tp__pg_put_int(versions, a->list[i].version);
}

static void make_claim_request(tp__pg_store *s, const tp_job_claim *request, const asking *a, size_t most,
                               tp__pg_request *r) {
  int64_t now = tp__pg_store_now(s, request->now_ms), batch = tp__pg_next_batch(s->postgres);
  tp__pg_request_init(r, s->postgres, TP__PG_WRITES, "claim jobs");
  r->work.process = s->process;
  tp__pg_parameters *p = tp__pg_request_add(r, bury_lost);
  tp__pg_parameter_int(p, now);
  tp__pg_parameter_int(p, batch);
  tp__pg_parameter_int(p, BURIED_MAX);
  tp__pg_request_put_doubt(r);
  p = tp__pg_request_add(r, claim_jobs);
  tp__pg_parameter_int(p, now);
  tp__pg_parameter_int(p, request->lease_ms);
  tp__pg_parameter_int(p, s->process);
  tp__pg_parameter_int(p, batch);
  tp__pg_parameter_int(p, (int64_t)most);
  put_accepted(p, a);
  tp__pg_request_put_doubt(r);
}

static void give(const PGresult *rows, tp_job_fn take, void *ctx) {
  for (int i = 0; i < PQntuples(rows); i++) {
    tp_job job;
    tp__pg_job_read(rows, i, &job);
    take(ctx, &job);
  }
}

/* @param ret_count  how many were claimed. */
static tp_status claim_once(tp__pg_store *s, const tp_job_claim *request, const asking *a, size_t most,
                            size_t *ret_count, tp_fault *fault) {
  tp__pg_request r;
  make_claim_request(s, request, a, most, &r);
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    *ret_count = (size_t)PQntuples(tp__pg_request_rows(&r, CLAIMED));
    if (request->dead) give(tp__pg_request_rows(&r, LOST), request->dead, request->ctx);
    give(tp__pg_request_rows(&r, CLAIMED), request->take, request->ctx);
  }
  tp__pg_request_fini(&r);
  return status;
}

/* Reads which handlers have jobs, and when the next job can be claimed. @param ret_is_new  whether a handler was not
 * known before. */
static tp_status look_around(tp__pg_store *s, const tp_job_claim *request, bool *ret_is_new, int64_t *ret_next_in_ms,
                             tp_fault *fault) {
  tp__pg_request r;
  tp__pg_request_init(&r, s->postgres, TP__PG_READS, "look for jobs");
  (void)tp__pg_request_add(&r, find_classes);
  tp__pg_parameter_int(tp__pg_request_add(&r, find_next), tp__pg_store_now(s, request->now_ms));
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    *ret_is_new = learn_all(s, tp__pg_request_rows(&r, 0));
    *ret_next_in_ms = tp__pg_int(tp__pg_request_rows(&r, 1), 0, 0);
  }
  tp__pg_request_fini(&r);
  return status;
}

/* ---- while no job is open ---- */

static bool is_quiet(tp__pg_store *s) {
  uint64_t number = tp__pg_news_number(s->postgres);
  bool is_live = tp__pg_news_live(s->postgres);
  tp__lock_acquire(&s->lock);
  bool is = is_live && s->quiet_number == number && tp__monotonic_ns() < s->quiet_ns;
  tp__lock_release(&s->lock);
  return is;
}

/* Finds out whether any job is open, and tests whether news come: if so, a claim needs no server until there are
 * news. */
static tp_status look_for_any(tp__pg_store *s, bool *ret_is_any, tp_fault *fault) {
  tp__pg_request r;
  uint64_t number = tp__pg_news_number(s->postgres); /* read before the query: jobs that are stored after this moment
                                                        are news */
  tp__pg_request_init(&r, s->postgres, TP__PG_READS, "look for jobs");
  (void)tp__pg_request_add(&r, "SELECT EXISTS (SELECT 1 FROM @.job)");
  tp__pg_news_probe(s->postgres, &r);
  tp_status status = tp__pg_request_run(&r, fault);
  *ret_is_any = status != TP_OK || tp__pg_bool(tp__pg_request_rows(&r, 0), 0, 0);
  tp__pg_request_fini(&r);
  tp__lock_acquire(&s->lock);
  s->quiet_number = number;
  s->quiet_ns = *ret_is_any ? 0 : tp__monotonic_ns() + QUIET_MS * TP__NS_IN_MS;
  tp__lock_release(&s->lock);
  return status;
}

/* Whether to look for new handlers: once a second while the known handlers have enough jobs. */
static bool must_look(tp__pg_store *s) {
  int64_t now_ns = tp__monotonic_ns();
  tp__lock_acquire(&s->lock);
  bool is_due = now_ns >= s->look_ns;
  if (is_due) s->look_ns = now_ns + LOOK_MS * TP__NS_IN_MS;
  tp__lock_release(&s->lock);
  return is_due;
}

tp_status tp__pg_job_claim(void *ctx, const tp_job_claim *theirs, int64_t *ret_next_ms, tp_fault *fault) {
  tp__pg_store *s = ctx;
  tp_job_claim request;
  asking a = {.count = 0};
  size_t count = 0;
  bool is_new = true;
  int64_t next_in_ms = 0;
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_job_claim", fault);
  if (status != TP_OK) return status;
  if (is_quiet(s)) {
    *ret_next_ms = 0;
    return TP_ERR_NOT_FOUND;
  }
  bool is_any = true;
  if (tp__pg_news_listens(s->postgres)) status = look_for_any(s, &is_any, fault);
  if (status == TP_OK && !is_any) *ret_next_ms = 0;
  if (status != TP_OK || !is_any) return status != TP_OK ? status : TP_ERR_NOT_FOUND;
  size_t most = request.count_max == 0 ? 1 : request.count_max < CLAIMS_MAX ? request.count_max : CLAIMS_MAX;
  if (must_look(s)) status = look_around(s, &request, &is_new, &next_in_ms, fault);
  bool goes_on = true;
  for (int i = 0; i < ROUNDS_MAX && status == TP_OK && goes_on; i++) {
    if (!ask(s, &request, &a)) status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to claim jobs");
    if (status == TP_OK) status = claim_once(s, &request, &a, most, &count, fault);
    goes_on = false;
    if (status == TP_OK && count == 0) {
      status = look_around(s, &request, &is_new, &next_in_ms, fault);
      goes_on = is_new;
    }
  }
  asking_fini(&a);
  if (status != TP_OK || count > 0) return status;
  *ret_next_ms = next_in_ms > 0 ? request.now_ms + next_in_ms : 0;
  return TP_ERR_NOT_FOUND;
}
