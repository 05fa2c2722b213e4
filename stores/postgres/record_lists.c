/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the records that records.c keeps, in pages, each in a statement of its own. So a list needs memory for one page
 * only, and its receiver is called on the thread that asked, without a lock. */
#include <stdlib.h>
#include <string.h>

#include "stores/postgres/record_values.h"
#include "stores/postgres/records.h"
#include "support/fault.h"
#include "turnphase/turn.h"

enum { PAGE_ROWS = 256 };

#define ID(number, column) " AND (length($" #number "::bytea) = 0 OR x." column " = $" #number "::bytea)"
/* Parameters: $1: rows before that place; $2: the most rows; $3, $4: after that row of the page before; $5, $6:
 * times. */
#define WHERE(table, name, time)                                                                     \
  " WHERE x.place < $1::bigint AND ($4::bigint = 0 OR x.place < (SELECT b.place FROM @." table       \
  " b WHERE b.process = $3::bigint AND b." name " = $4::bigint)) AND ($5::bigint = 0 OR x." time     \
  " >= $5::bigint) AND ($6::bigint = 0 OR x." time " <= $6::bigint)" ID(9, "tenant") ID(10, "agent") \
      ID(11, "workspace") ID(12, "session") ID(13, "thread") ID(14, "turn") ID(15, "task") ID(16, "run")
#define NEWEST_FIRST(least) " AND x.place >= $" #least "::bigint ORDER BY x.place DESC LIMIT $2::bigint"
/* The place of the oldest row that counts. A table may have more rows, since old rows are deleted only from time to
 * time. */
#define LEAST(table) \
  "SELECT coalesce((SELECT x.place FROM @." table " x ORDER BY x.place DESC OFFSET $1::bigint LIMIT 1), 0)"
#define HAS_DIED(process) \
  "EXISTS (SELECT 1 FROM @.process p WHERE p.id = " process " AND p.lease_end <= clock_timestamp())"

static const char entries_sql[] =
    "SELECT x.place, x.value, x.status, x.ended_ns = 0 AND x.status = 0 AND " HAS_DIED(
        "x.process") ", coalesce((SELECT string_agg(l.position::text || ' ' || l.late_ns::text, ' ') FROM @.late l"
                     " WHERE l.process = x.process AND l.entry = x.id), ''), " TP__PG_IDS " FROM @.entry x" WHERE(
                         "entry", "id", "started_unix_ms") " AND ($7::bigint = 0 OR x.phase = $7::bigint)"
                                                           " AND ($8::bigint = 0 OR x.status <> 0)" NEWEST_FIRST(17);
static const char turns_sql[] = "SELECT x.place, x.value, " TP__PG_IDS " FROM @.turn x" WHERE(
    "turn", "number", "ended_unix_ms") " AND ($8::bigint = 0 OR x.outcome <> $7::bigint)" NEWEST_FIRST(17);
static const char running_sql[] = "SELECT x.place, x.value, x.state, x.state = 2 AND " HAS_DIED(
    "x.process") ", " TP__PG_IDS
                 " FROM @.running x" WHERE("running", "number",
                                           "ended_unix_ms") " AND $7::bigint = 0 AND $8::bigint = 0" NEWEST_FIRST(17);
static const char audits_sql[] =
    "SELECT x.place, x.value FROM @.audit x WHERE x.place < $1::bigint AND ($3::bigint = 0 OR x.unix_ms >= $3::bigint)"
    " AND ($4::bigint = 0 OR x.unix_ms <= $4::bigint) AND ($5::bigint = 0 OR x.phase = $5::bigint)" NEWEST_FIRST(6);
static const char attempts_sql[] =
    "SELECT value FROM @.attempt WHERE process = $1::bigint AND entry = $2::bigint ORDER BY position, number, place";
static const char contents_sql[] =
    "SELECT value FROM @.content WHERE process = $1::bigint AND entry = $2::bigint ORDER BY place";
static const char is_cut_sql[] =
    "SELECT EXISTS (SELECT 1 FROM @.died WHERE process = $1::bigint) OR " HAS_DIED(
        "$1::bigint") ", EXISTS (SELECT 1 FROM @.turn x WHERE x.turn = $4::bytea AND x.session = $3::bytea"
                      " AND x.tenant = $2::bytea AND (x.process = $1::bigint"
                      " OR x.place > (SELECT d.turn FROM @.died d WHERE d.process = $1::bigint)))";

/** A list under way. */
typedef struct lister {
  tp__pg_store *store;
  const char *sql, *doing;
  const char *least; /* finds the least place; NULL: all rows count */
  size_t most;       /* how many rows count */
  /** Puts the parameters after the first two. */
  void (*put)(tp__pg_parameters *parameters, const void *query);
  const void *query;
  /** Shows a row. @return false to stop. */
  bool (*show)(struct lister *lister, const PGresult *rows, int row);
  union {
    tp_record_fn entry;
    tp_turn_record_fn turn;
    tp_audit_fn audit;
    tp_attempt_record_fn attempt;
    tp_content_record_fn content;
  } each;
  void *ctx;
  tp__pg_parts parts;
  bool is_cut;      /* that of the shown entry: its process died at the end of its turn */
  tp_status status; /* the status of a row that could not be shown */
} lister;

static tp_status refuse_row(const lister *l, tp_fault *fault) {
  const char *name = l->store->postgres->target.name;
  return l->status == TP_ERR_NO_MEMORY
             ? tp__refuse(fault, TP_ERR_NO_MEMORY, name, "%s: cannot %s: no memory", name, l->doing)
             : tp__refuse(fault, TP_ERR_STORE_CORRUPT, name, "%s: cannot %s: a row has a value that is none", name,
                          l->doing);
}

/* @param ret_place  the place of the last row. @return how many rows there were; -1: it has failed, or must stop. */
static int show_page(lister *l, const PGresult *rows, int64_t *ret_place) {
  int count = PQntuples(rows);
  for (int i = 0; i < count; i++) {
    if (!l->show(l, rows, i) || l->status != TP_OK) return -1;
    *ret_place = tp__pg_int(rows, i, 0);
  }
  return count;
}

/* Finds the place of the oldest row that counts. */
static tp_status find_least(const lister *l, int64_t *ret_place, tp_fault *fault) {
  tp__pg_request request;
  *ret_place = 0;
  if (!l->least) return TP_OK;
  tp__pg_request_init(&request, l->store->postgres, TP__PG_READS, l->doing);
  tp__pg_parameter_int(tp__pg_request_add(&request, l->least), (int64_t)l->most - 1);
  tp_status status = tp__pg_request_run(&request, fault);
  if (status == TP_OK) *ret_place = tp__pg_int(tp__pg_request_rows(&request, 0), 0, 0);
  tp__pg_request_fini(&request);
  return status;
}

/* @param limit  0: all. */
static tp_status list_records(lister *l, size_t limit, tp_fault *fault) {
  int64_t place = INT64_MAX, least = 0;
  size_t shown = 0;
  tp__pg_records_drain(l->store);
  tp_status status = find_least(l, &least, fault);
  for (bool goes_on = true; goes_on && status == TP_OK;) {
    tp__pg_request request;
    size_t most = limit && limit - shown < PAGE_ROWS ? limit - shown : PAGE_ROWS;
    tp__pg_request_init(&request, l->store->postgres, TP__PG_READS, l->doing);
    tp__pg_parameters *p = tp__pg_request_add(&request, l->sql);
    tp__pg_parameter_int(p, place);
    tp__pg_parameter_int(p, (int64_t)most);
    l->put(p, l->query);
    tp__pg_parameter_int(p, least);
    status = tp__pg_request_run(&request, fault);
    int count = status == TP_OK ? show_page(l, tp__pg_request_rows(&request, 0), &place) : -1;
    if (count > 0) shown += (size_t)count;
    goes_on = count == (int)most && (!limit || shown < limit);
    tp__pg_request_fini(&request);
  }
  tp__pg_parts_fini(&l->parts);
  return status == TP_OK && l->status != TP_OK ? refuse_row(l, fault) : status;
}

static tp__pg_value value_of(const PGresult *rows, int row, int column) {
  tp_text text = tp__pg_text(rows, row, column);
  return (tp__pg_value){.at = text.data, .end = text.data + text.size};
}

static bool fail_row(lister *l, const tp__pg_value *value) {
  l->status = value->failed ? TP_ERR_STORE_CORRUPT : TP_ERR_NO_MEMORY;
  return false;
}

static void read_ids(const PGresult *rows, int row, int first, tp_text ids[TP_ID_COUNT]) {
  static const int order[] = {TP_ID_TENANT, TP_ID_AGENT, TP_ID_WORKSPACE, TP_ID_SESSION,
                              TP_ID_THREAD, TP_ID_TURN,  TP_ID_TASK,      TP_ID_RUN};
  for (int i = 0; i < TP_ID_COUNT; i++) ids[order[i]] = tp__pg_text(rows, row, first + i);
}

static void put_ids(tp__pg_parameters *p, const tp_text *ids, size_t id_count) {
  static const int order[] = {TP_ID_TENANT, TP_ID_AGENT, TP_ID_WORKSPACE, TP_ID_SESSION,
                              TP_ID_THREAD, TP_ID_TURN,  TP_ID_TASK,      TP_ID_RUN};
  for (size_t i = 0; i < TP_ID_COUNT; i++)
    tp__pg_parameter_text(p, (size_t)order[i] < id_count ? ids[order[i]] : (tp_text){"", 0});
}

static void put_ints(tp__pg_parameters *p, const int64_t *values, size_t count) {
  for (size_t i = 0; i < count; i++) tp__pg_parameter_int(p, values[i]);
}

/* ---- entries ---- */

static void put_entries(tp__pg_parameters *p, const void *theirs) {
  const tp_record_query *q = theirs;
  const int64_t values[] = {(int64_t)q->before_process_run_id,
                            (int64_t)q->before_entry_id,
                            q->from_unix_ms,
                            q->to_unix_ms,
                            q->phase,
                            q->only_failed};
  put_ints(p, values, 6);
  put_ids(p, q->ids, q->id_count);
}

/* Reads "POSITION NS POSITION NS": the late answers. */
static void read_late(lister *l, tp_text late) {
  char *end = NULL;
  const char *at = late.data;
  while (at < late.data + late.size) {
    unsigned long position = strtoul(at, &end, 10);
    if (end == at) return;
    long long late_ns = strtoll(end, &end, 10);
    if (position < l->parts.count) ((tp_run_record *)tp__pg_part(&l->parts, position))->late_ns = late_ns;
    at = end;
  }
}

static bool show_run(const void *source, size_t index, tp_run_record *run) {
  const lister *l = source;
  if (!tp__pg_part_show(&l->parts, index, run)) return false;
  if (l->is_cut && (run->state == TP_STATE_RUNNING || run->state == TP_STATE_QUEUED)) {
    run->state = TP_STATE_INTERRUPTED;
    run->reason = TP_REASON_CRASH;
  }
  return true;
}

static bool show_entry(lister *l, const PGresult *rows, int row) {
  tp_entry_record record;
  tp_text ids[TP_ID_COUNT];
  tp__pg_value value = value_of(rows, row, 1);
  tp__pg_value_get(&value, &tp__entry_columns, &record);
  if (!tp__pg_parts_get(&l->parts, &tp__run_columns, &value)) return fail_row(l, &value);
  record.status = tp__pg_bool(rows, row, 3) ? TP_ERR_HOOK : (int32_t)tp__pg_int(rows, row, 2);
  l->is_cut = record.ended_ns == 0 && record.status != TP_OK;
  read_late(l, tp__pg_text(rows, row, 4));
  read_ids(rows, row, 5, ids);
  record.ids = ids;
  record.id_count = TP_ID_COUNT;
  record.run_count = l->parts.count;
  record.run = show_run;
  record.source = l;
  return l->each.entry(l->ctx, &record);
}

tp_status tp__pg_record_list(void *ctx, const tp_record_query *theirs, tp_record_fn each, void *each_ctx,
                             tp_fault *fault) {
  tp_record_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_record_query", fault);
  lister l = {.store = ctx,
              .least = LEAST("entry"),
              .most = tp__pg_records_most(ctx, TP__PG_MOST_ENTRIES),
              .sql = entries_sql,
              .doing = "read records",
              .put = put_entries,
              .query = &query,
              .show = show_entry,
              .each.entry = each,
              .ctx = each_ctx};
  return status == TP_OK ? list_records(&l, query.limit, fault) : status;
}

/* ---- turns ---- */

static void put_turn_query(tp__pg_parameters *p, const tp_turn_query *q, int64_t completed, int64_t only_failed) {
  const int64_t values[] = {(int64_t)q->before_process_run_id,
                            (int64_t)q->before_number,
                            q->from_unix_ms,
                            q->to_unix_ms,
                            completed,
                            only_failed};
  put_ints(p, values, 6);
  put_ids(p, q->ids, q->id_count);
}

static void put_turns(tp__pg_parameters *p, const void *theirs) {
  const tp_turn_query *q = theirs;
  put_turn_query(p, q, TP_TURN_COMPLETED, q->only_failed);
}

/* Turns that run have not completed, and have not failed. */
static void put_running(tp__pg_parameters *p, const void *theirs) { put_turn_query(p, theirs, 0, 0); }

static bool show_step(const void *source, size_t index, tp_turn_step *step) {
  return tp__pg_part_show(&((const lister *)source)->parts, index, step);
}

/* @param state  0: the turn has ended. */
static bool show_any_turn(lister *l, const PGresult *rows, int row, int first_id, uint32_t state) {
  tp_turn_record record;
  tp_text ids[TP_ID_COUNT];
  tp__pg_value value = value_of(rows, row, 1);
  tp__pg_value_get(&value, &tp__turn_columns, &record);
  if (!tp__pg_parts_get(&l->parts, &tp__step_columns, &value)) return fail_row(l, &value);
  read_ids(rows, row, first_id, ids);
  record.ids = ids;
  record.id_count = TP_ID_COUNT;
  record.step_count = l->parts.count;
  record.step = show_step;
  record.step_source = l;
  record.state = state;
  return l->each.turn(l->ctx, &record);
}

static bool show_turn(lister *l, const PGresult *rows, int row) { return show_any_turn(l, rows, row, 2, 0); }

static bool show_running(lister *l, const PGresult *rows, int row) {
  bool has_died = tp__pg_bool(rows, row, 3);
  return show_any_turn(l, rows, row, 4, has_died ? TP_STATE_INTERRUPTED : (uint32_t)tp__pg_int(rows, row, 2));
}

static tp_status list_turns(void *ctx, const tp_turn_query *theirs, bool runs, tp_turn_record_fn each, void *each_ctx,
                            tp_fault *fault) {
  tp_turn_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_turn_query", fault);
  lister l = {.store = ctx,
              .least = runs ? NULL : LEAST("turn"),
              .most = tp__pg_records_most(ctx, TP__PG_MOST_TURNS),
              .sql = runs ? running_sql : turns_sql,
              .doing = runs ? "read turns that run" : "read turns",
              .put = runs ? put_running : put_turns,
              .query = &query,
              .show = runs ? show_running : show_turn,
              .each.turn = each,
              .ctx = each_ctx};
  return status == TP_OK ? list_records(&l, query.limit, fault) : status;
}

tp_status tp__pg_turn_list(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                           tp_fault *fault) {
  return list_turns(ctx, query, false, each, each_ctx, fault);
}

tp_status tp__pg_turn_running_list(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                                   tp_fault *fault) {
  return list_turns(ctx, query, true, each, each_ctx, fault);
}

/* ---- audit rows ---- */

static void put_audits(tp__pg_parameters *p, const void *theirs) {
  const tp_audit_query *q = theirs;
  const int64_t values[] = {q->from_unix_ms, q->to_unix_ms, q->phase};
  put_ints(p, values, 3);
}

static bool show_audit(lister *l, const PGresult *rows, int row) {
  tp_audit audit;
  tp__pg_value value = value_of(rows, row, 1);
  tp__pg_value_get(&value, &tp__audit_columns, &audit);
  if (value.failed) return fail_row(l, &value);
  if (!audit.subscription[0]) audit.subscription = NULL;
  return l->each.audit(l->ctx, &audit);
}

tp_status tp__pg_audit_list(void *ctx, const tp_audit_query *theirs, tp_audit_fn each, void *each_ctx,
                            tp_fault *fault) {
  tp_audit_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_audit_query", fault);
  lister l = {.store = ctx,
              .least = LEAST("audit"),
              .most = tp__pg_records_most(ctx, TP__PG_MOST_AUDITS),
              .sql = audits_sql,
              .doing = "read audit rows",
              .put = put_audits,
              .query = &query,
              .show = show_audit,
              .each.audit = each,
              .ctx = each_ctx};
  return status == TP_OK ? list_records(&l, query.limit, fault) : status;
}

/* ---- of one entry ---- */

static tp_status list_of_entry(lister *l, uint64_t process, uint64_t entry, tp_fault *fault) {
  tp__pg_request request;
  tp__pg_records_drain(l->store);
  tp__pg_request_init(&request, l->store->postgres, TP__PG_READS, l->doing);
  tp__pg_parameters *p = tp__pg_request_add(&request, l->sql);
  tp__pg_parameter_int(p, (int64_t)process);
  tp__pg_parameter_int(p, (int64_t)entry);
  tp_status status = tp__pg_request_run(&request, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&request, 0) : NULL;
  for (int i = 0; i < PQntuples(rows) && l->show(l, rows, i); i++) continue;
  tp__pg_request_fini(&request);
  return status == TP_OK && l->status != TP_OK ? refuse_row(l, fault) : status;
}

static bool show_attempt(lister *l, const PGresult *rows, int row) {
  tp_attempt_record record;
  tp__pg_value value = value_of(rows, row, 0);
  tp__pg_value_get(&value, &tp__attempt_columns, &record);
  return value.failed ? fail_row(l, &value) : l->each.attempt(l->ctx, &record);
}

tp_status tp__pg_attempt_list(void *ctx, const tp_attempt_query *theirs, tp_attempt_record_fn each, void *each_ctx,
                              tp_fault *fault) {
  tp_attempt_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_attempt_query", fault);
  lister l = {.store = ctx,
              .sql = attempts_sql,
              .doing = "read attempts",
              .show = show_attempt,
              .each.attempt = each,
              .ctx = each_ctx};
  return status == TP_OK ? list_of_entry(&l, query.process_run_id, query.entry_id, fault) : status;
}

static bool show_content(lister *l, const PGresult *rows, int row) {
  tp_content_record record;
  tp__pg_value value = value_of(rows, row, 0);
  tp__pg_value_get(&value, &tp__content_columns, &record);
  return value.failed ? fail_row(l, &value) : l->each.content(l->ctx, &record);
}

tp_status tp__pg_content_list(void *ctx, const tp_content_query *theirs, tp_content_record_fn each, void *each_ctx,
                              tp_fault *fault) {
  tp_content_query query;
  tp_status status = tp__struct_read(&query, sizeof query, theirs, "tp_content_query", fault);
  lister l = {.store = ctx,
              .sql = contents_sql,
              .doing = "read what is kept of content",
              .show = show_content,
              .each.content = each,
              .ctx = each_ctx};
  return status == TP_OK ? list_of_entry(&l, query.process_run_id, query.entry_id, fault) : status;
}

/* ---- turns that were cut at their end ---- */

tp_status tp__pg_turn_is_cut(void *ctx, uint64_t process_run_id, const tp_text *ids, size_t id_count, bool *ret_is_cut,
                             tp_fault *fault) {
  static const tp_id_kind kinds[] = {TP_ID_TENANT, TP_ID_SESSION, TP_ID_TURN};
  tp__pg_store *s = ctx;
  tp__pg_request request;
  *ret_is_cut = false;
  tp__pg_records_drain(s); /* since the record may still wait in the queue */
  tp__pg_request_init(&request, s->postgres, TP__PG_READS, "look for the end of a turn");
  tp__pg_parameters *p = tp__pg_request_add(&request, is_cut_sql);
  tp__pg_parameter_int(p, (int64_t)process_run_id);
  for (int i = 0; i < 3; i++) tp__pg_parameter_text(p, kinds[i] < id_count ? ids[kinds[i]] : (tp_text){"", 0});
  tp_status status = tp__pg_request_run(&request, fault);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&request, 0);
    *ret_is_cut = tp__pg_bool(rows, 0, 0) && !tp__pg_bool(rows, 0, 1);
  }
  tp__pg_request_fini(&request);
  return status;
}
