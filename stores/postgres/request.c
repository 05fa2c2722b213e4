/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/request.h"

#include <assert.h>

#include "stores/postgres/schema.h"
#include "support/fault.h"

void tp__pg_request_init(tp__pg_request *r, tp_postgres *pg, tp__pg_lane lane, const char *doing) {
  *r = (tp__pg_request){.work = {.class = &tp__pg_request_class, .lane = lane, .doing = doing}, .postgres = pg};
}

tp__pg_parameters *tp__pg_request_add(tp__pg_request *r, const char *sql) {
  assert(r->count < TP__PG_REQUEST_STATEMENTS_MAX);
  tp__pg_asked *asked = &r->asked[r->count++];
  asked->sql = tp__pg_expand(sql, r->postgres->quoted);
  asked->doubt = -1;
  asked->index = -1;
  r->work.statements++;
  return &asked->parameters;
}

void tp__pg_request_put_doubt(tp__pg_request *r) {
  assert(r->count > 0);
  tp__pg_asked *asked = &r->asked[r->count - 1];
  asked->doubt = asked->parameters.count;
  tp__pg_parameter_int(&asked->parameters, 0);
}

static bool has_memory(const tp__pg_request *r) {
  for (int i = 0; i < r->count; i++) {
    if (!r->asked[i].sql) return false;
    for (int p = 0; p < r->asked[i].parameters.count; p++)
      if (r->asked[i].parameters.values[p].failed) return false;
  }
  return true;
}

static void count_bytes(tp__pg_request *r) {
  for (int i = 0; i < r->count; i++)
    for (int p = 0; p < r->asked[i].parameters.count; p++) r->work.bytes += r->asked[i].parameters.values[p].size;
}

tp_status tp__pg_request_run(tp__pg_request *r, tp_fault *fault) {
  if (!has_memory(r))
    return tp__refuse(fault, TP_ERR_NO_MEMORY, r->postgres->target.name, "%s: cannot %s: no memory",
                      r->postgres->target.name, r->work.doing);
  count_bytes(r);
  return tp__pg_run(r->postgres->pool, &r->work, fault);
}

bool tp__pg_request_submit(tp__pg_request *r) {
  if (!has_memory(r)) return false;
  count_bytes(r);
  tp__pg_submit(r->postgres->pool, &r->work);
  return true;
}

const PGresult *tp__pg_request_rows(const tp__pg_request *r, int statement) {
  assert(statement >= 0 && statement < r->count);
  return r->asked[statement].rows;
}

void tp__pg_request_clear_rows(tp__pg_request *r) {
  for (int i = 0; i < r->count; i++) {
    PQclear(r->asked[i].rows);
    r->asked[i].rows = NULL;
  }
}

void tp__pg_request_fini(tp__pg_request *r) {
  for (int i = 0; i < r->count; i++) {
    tp__heap_string_free(r->asked[i].sql);
    tp__pg_parameters_fini(&r->asked[i].parameters);
    PQclear(r->asked[i].rows);
  }
  r->count = 0;
}

/* ---- on the pool's thread ---- */

static tp__pg_request *request_of(const tp__pg_class *class, const tp__pg_flight *f, size_t index) {
  tp__pg_work *work = f->works[index];
  return work->class == class ? (tp__pg_request *)(void *)work : NULL; /* the work comes first */
}

bool tp__pg_requests_build(const tp__pg_class *class, tp__pg_flight *f) {
  for (size_t i = 0; i < f->count; i++) {
    tp__pg_request *r = request_of(class, f, i);
    for (int s = 0; r && s < r->count; s++) {
      tp__pg_asked *asked = &r->asked[s];
      if (asked->doubt >= 0) tp__pg_parameter_set_int(&asked->parameters, asked->doubt, r->work.in_doubt);
      if (!tp__pg_flight_send_given(f, asked->sql, &asked->parameters, &asked->index)) return false;
    }
  }
  return true;
}

/* The answers are the request's from here on. */
void tp__pg_requests_settle(const tp__pg_class *class, tp__pg_flight *f) {
  for (size_t i = 0; i < f->count; i++) {
    tp__pg_request *r = request_of(class, f, i);
    for (int s = 0; r && s < r->count; s++) {
      tp__pg_asked *asked = &r->asked[s];
      assert(!asked->rows && asked->index >= 0);
      asked->rows = f->answers[asked->index];
      f->answers[asked->index] = NULL;
    }
  }
}

static bool build_requests(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  (void)ctx, (void)lane;
  return tp__pg_requests_build(&tp__pg_request_class, f);
}

static void settle(void *ctx, tp__pg_lane lane, tp__pg_flight *f) {
  (void)ctx, (void)lane;
  tp__pg_requests_settle(&tp__pg_request_class, f);
}

const tp__pg_class tp__pg_request_class = {.build = build_requests, .settle = settle};
