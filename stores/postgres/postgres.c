/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/postgres/postgres.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "stores/postgres/memory.h"
#include "stores/postgres/news.h"
#include "stores/postgres/records.h"
#include "stores/postgres/request.h"
#include "stores/postgres/schema.h"
#include "support/clock.h"
#include "support/fault.h"

enum { LEASE_MS = 15000, TIMEOUT_MS = 25000, STATEMENT_MS = 10000, NAME_BYTES_MAX = 63, CONNECT_S_MAX = 10 };

/* ---- life ---- */

static void database_free(void *ctx) {
  tp_postgres *pg = ctx;
  for (int i = 0; i < TP__PG_STATEMENTS; i++) tp__heap_string_free(pg->sql[i]);
  tp__heap_string_free(pg->quoted);
  tp__heap_string_free(pg->address);
  tp__pg_news_free(pg->news);
  tp__pg_target_fini(&pg->target);
  tp__heap_free(pg->leases, pg->lease_capacity * sizeof *pg->leases);
  tp__heap_free(pg->claimed, pg->claimed_capacity * sizeof *pg->claimed);
  tp__lock_fini(&pg->lock);
  tp__heap_free(pg, sizeof *pg);
}

static void leave_ended(tp__pg_work *work) { tp__heap_free(work, sizeof(tp__pg_operation)); }

/* Ends all leases of this process: a turn that has a session at this moment will never release it, and the next owner
 * should not have to wait for the end of the lease. */
static void leave(tp_postgres *pg) {
  tp__lock_acquire(&pg->lock);
  bool has_leases = pg->has_leases;
  tp__lock_release(&pg->lock);
  tp__pg_operation *o = has_leases ? tp__heap_alloc(sizeof *o) : NULL;
  if (!o) return;
  o->work = (tp__pg_work){.class = &tp__pg_history_class,
                          .lane = TP__PG_WRITES,
                          .doing = "end the leases of this process",
                          .exclusive = true,
                          .end = leave_ended};
  o->postgres = pg;
  o->kind = TP__PG_OF_LEAVE;
  tp__pg_submit(pg->pool, &o->work);
}

void tp__pg_unref(tp_postgres *pg) {
  if (!tp__references_unref(&pg->references)) return;
  leave(pg);
  tp__pg_pool_free(pg->pool, database_free, pg);
}

void tp_postgres_close(tp_postgres *postgres) {
  if (postgres) tp__pg_unref(postgres);
}

/* ---- open ---- */

static char *address_of(const char *given) {
  char host[64] = "this machine", address[128];
  if (given && given[0]) return tp__heap_copy(tp_text_of(given));
  if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "this machine");
  snprintf(address, sizeof address, "process %ld on %s", (long)getpid(), host);
  return tp__heap_copy(tp_text_of(address));
}

/* Quotes a name as an identifier of SQL, with inner quotes doubled. */
static char *quote(const char *name) {
  tp__bytes bytes = {0};
  tp__bytes_put_string(&bytes, "\"");
  for (; *name; name++) {
    if (*name == '"') tp__bytes_put_string(&bytes, "\"");
    tp__bytes_put(&bytes, name, 1);
  }
  tp__bytes_put_string(&bytes, "\"");
  char *quoted = bytes.failed ? NULL : tp__heap_copy(tp__bytes_text(&bytes));
  tp__bytes_fini(&bytes);
  return quoted;
}

static tp_status expand_all(tp_postgres *pg, tp_fault *fault) {
  for (int i = 0; i < TP__PG_STATEMENTS; i++) {
    pg->sql[i] = tp__pg_expand(tp__pg_history_sql[i], pg->quoted);
    if (!pg->sql[i]) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the statements of a database");
  }
  return TP_OK;
}

static tp_status read_options(const tp_postgres_options *theirs, tp_postgres_options *options, tp_fault *fault) {
  tp_status status = tp__struct_read(options, sizeof *options, theirs, "tp_postgres_options", fault);
  if (status != TP_OK) return status;
  if (!options->schema) options->schema = "turnphase";
  if (!options->schema[0] || strlen(options->schema) > NAME_BYTES_MAX || strchr(options->schema, '@') ||
      !tp_utf8_valid(tp_text_of(options->schema), NULL))
    return tp__refuse(fault, TP_ERR_USAGE, "schema", "the name of a schema has 1 to %d bytes of UTF-8, and no '@'",
                      NAME_BYTES_MAX);
  if (!options->lease_ms) options->lease_ms = LEASE_MS;
  if (!options->timeout_ms) options->timeout_ms = TIMEOUT_MS;
  if (!options->statement_ms) options->statement_ms = STATEMENT_MS;
  return TP_OK;
}

static tp_status open_connection(tp_postgres *pg, const tp_postgres_options *options, PGconn **ret_connection,
                                 tp_fault *fault) {
  int timeout_s = (int)(options->timeout_ms / 1000);
  if (timeout_s > CONNECT_S_MAX) timeout_s = CONNECT_S_MAX;
  tp_status status = tp__pg_connect(&pg->target, timeout_s < 2 ? 2 : timeout_s, ret_connection, fault);
  if (status != TP_OK) return status;
  status = tp__pg_schema_open(&pg->target, *ret_connection, pg->quoted, options->existing_only, fault);
  if (status == TP_OK) return TP_OK;
  PQfinish(*ret_connection);
  return status;
}

/* Sessions are locked before all else: every transaction locks in the order of the classes. */
static const tp__pg_class *const classes[] = {&tp__pg_history_class, &tp__pg_request_class, &tp__pg_memory_class,
                                              &tp__pg_records_class, &tp__pg_news_class,    NULL};

static tp_status open_target(tp_postgres *pg, const tp_postgres_options *options, tp_fault *fault) {
  PGconn *connection = NULL;
  tp_status status = tp__pg_target_init(&pg->target, options->conninfo, fault);
  if (status != TP_OK) return status;
  pg->quoted = quote(options->schema);
  pg->address = address_of(options->address);
  pg->lease_ms = options->lease_ms;
  pg->timeout_ms = options->timeout_ms;
  if (!pg->quoted || !pg->address) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a database");
  if (getrandom(&pg->batch_base, sizeof pg->batch_base, 0) != (ssize_t)sizeof pg->batch_base)
    return tp__refuse(fault, TP_ERR_SYSTEM, NULL, "the system has no random numbers");
  pg->news = tp__pg_news_new(options->schema, (uint64_t)pg->batch_base);
  if (!pg->news) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a database");
  status = expand_all(pg, fault);
  if (status == TP_OK) status = open_connection(pg, options, &connection, fault);
  if (status != TP_OK) return status;
  tp__pg_news_ask(pg->news, connection);
  pg->pool = tp__pg_pool_new(&pg->target, options, connection, classes, pg);
  return pg->pool ? TP_OK
                  : tp__refuse(fault, TP_ERR_NO_THREAD, pg->target.name, "%s: no thread, or no memory, for it",
                               pg->target.name);
}

tp_status tp_postgres_open(const tp_postgres_options *theirs, tp_postgres **ret_postgres, tp_fault *fault) {
  tp_postgres_options options;
  if (!theirs || !ret_postgres)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_open: options and ret_postgres are needed");
  tp_status status = read_options(theirs, &options, fault);
  if (status != TP_OK) return status;
  tp_postgres *pg = tp__heap_alloc(sizeof *pg);
  if (!pg) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a database");
  tp__references_init(&pg->references);
  pg->face = tp__pg_history_face;
  pg->face.ctx = pg;
  tp__lock_init(&pg->lock, TP__LOCK_postgres_loads);
  status = open_target(pg, &options, fault);
  if (status == TP_OK) {
    *ret_postgres = pg;
    return TP_OK;
  }
  (void)!tp__references_unref(&pg->references);
  database_free(pg);
  return status;
}

/* ---- counters ---- */

tp_status tp_postgres_counts(tp_postgres *postgres, tp_postgres_report *ret_report) {
  tp_postgres_report report;
  if (!postgres || !ret_report) return TP_ERR_USAGE;
  if (ret_report->struct_size < sizeof(size_t) || ret_report->struct_size > 4096) return TP_ERR_VERSION;
  tp__pg_counts(postgres->pool, &report);
  report.struct_size = ret_report->struct_size < sizeof report ? ret_report->struct_size : sizeof report;
  memcpy(ret_report, &report, report.struct_size);
  return TP_OK;
}
