/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads jobs. A list is read in pages, each in a transaction of its own, on the lane for reading. */
#include "stores/postgres/job_rows.h"
#include "support/fault.h"

enum { PAGE = 500 };

tp_status tp__pg_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault) {
  static const char count_all[] = "SELECT count(*) FROM @.job";
  static const char count_key[] = "SELECT count(*) FROM @.job WHERE order_hash = $1::bigint AND order_key = $2::bytea";
  tp__pg_store *s = ctx;
  tp__pg_request r;
  tp__pg_request_init(&r, s->postgres, TP__PG_READS, "count jobs");
  tp__pg_parameters *p = tp__pg_request_add(&r, order_key.size ? count_key : count_all);
  if (order_key.size) {
    tp__pg_parameter_int(p, tp__pg_order_hash(order_key));
    tp__pg_parameter_text(p, order_key);
  }
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) *ret_count = (uint64_t)tp__pg_int(tp__pg_request_rows(&r, 0), 0, 0);
  tp__pg_request_fini(&r);
  return status;
}

/* Parameters: 1 after, 2 limit, 3 states, 4 with payload, 5 handler, 6 order key, 7 the only job's id, or 0. */
#define FITS                                                                                                          \
  " j WHERE j.id > $1::bigint AND ($7::bigint = 0 OR j.id = $7::bigint) AND ($3::bigint >> j.state::integer) & 1 = 1" \
  " AND ($5::bytea = '' OR j.handler = $5::bytea) AND ($6::bytea = '' OR j.order_key = $6::bytea)"                    \
  " ORDER BY j.id LIMIT $2::bigint"
#define PAYLOAD "CASE WHEN $4::bigint = 1 THEN j.payload ELSE ''::bytea END"
static const char list_jobs[] =
    "(SELECT " TP__PG_JOB_SHOWN(PAYLOAD) " FROM @.job" FITS
                                         ")"
                                         " UNION ALL (SELECT " TP__PG_JOB_SHOWN(PAYLOAD) " FROM @.job_ended" FITS
                                                                                         ")"
                                                                                         " ORDER BY 1 LIMIT $2::bigint";

static void make_list_request(tp__pg_store *s, const tp_job_query *query, uint64_t after, size_t limit,
                              tp__pg_request *r) {
  uint32_t states = query->states ? query->states : 1u << TP_JOB_QUEUED | 1u << TP_JOB_RUNNING | 1u << TP_JOB_DEAD;
  tp__pg_request_init(r, s->postgres, TP__PG_READS, "list jobs");
  tp__pg_parameters *p = tp__pg_request_add(r, list_jobs);
  tp__pg_parameter_int(p, after > INT64_MAX ? INT64_MAX : (int64_t)after);
  tp__pg_parameter_int(p, (int64_t)limit);
  tp__pg_parameter_int(p, states);
  tp__pg_parameter_int(p, query->with_payload != 0);
  tp__pg_parameter_text(p, query->handler);
  tp__pg_parameter_text(p, query->order_key);
  tp__pg_parameter_int(p, query->id > INT64_MAX ? INT64_MAX : (int64_t)query->id);
}

tp_status tp__pg_jobs(void *ctx, const tp_job_query *theirs, tp_job_each_fn each, void *each_ctx, tp_fault *fault) {
  tp_job_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_job_query", fault);
  if (status != TP_OK) return status;
  size_t left = query.limit ? query.limit : SIZE_MAX;
  uint64_t after = query.after_id;
  for (bool goes_on = true; status == TP_OK && goes_on && left > 0;) {
    tp__pg_request r;
    size_t limit = left < PAGE ? left : PAGE;
    make_list_request(ctx, &query, after, limit, &r);
    status = tp__pg_request_run(&r, fault);
    const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
    int count = PQntuples(rows);
    goes_on = (size_t)count == limit;
    left -= (size_t)count;
    for (int i = 0; i < count; i++) {
      tp_job job;
      tp__pg_job_read(rows, i, &job);
      after = job.id;
      if (each(each_ctx, &job)) continue;
      goes_on = false;
      break;
    }
    tp__pg_request_fini(&r);
  }
  return status;
}
