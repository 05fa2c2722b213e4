/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the sessions of a database, from all tables that mention them, and passes the rows of one. */
#include <string.h>

#include "stores/postgres/job_rows.h"
#include "stores/postgres/record_values.h"
#include "stores/postgres/sessions.h"
#include "support/fault.h"
#include "turnphase/value.h"

/* ---- the numbers of each session ---- */

#define MS(time) "(extract(epoch FROM " time ") * 1000)::bigint"
#define BYTES(text) "convert_to(" text ", 'UTF8')"
/* Selects a row for each session in a table: the number of its rows, their first and last time, and a process that has
 * an unfinished one. */
#define PART(what, table, first, last, process)                                                     \
  " UNION ALL SELECT x.tenant, x.session, " what ", count(*), min(nullif(" first ", 0)), max(" last \
  "), 0,"                                                                                           \
  " max(" process ") FROM " table " GROUP BY x.tenant, x.session"
#define OF_MESSAGES(order) \
  "(SELECT " MS("m.appended") " FROM @.message m WHERE m.session = s.id ORDER BY m.position " order " LIMIT 1)"
#define SUM(what) "coalesce(sum(number) FILTER (WHERE what = " what "), 0)::bigint"

/* Parameters: 1 and 3: whether a tenant and a session are named, 2 and 4: their names; 5: before which time, or 0; 6:
 * the most sessions. */
static const char list_sessions[] =
    "WITH part (tenant, session, what, number, first, last, owner, process) AS (SELECT " BYTES("s.tenant") ", "
    BYTES("s.name") ", 0, (SELECT count(*) FROM @.message m WHERE m.session = s.id), " OF_MESSAGES("ASC") ", "
    OF_MESSAGES("DESC") ", CASE WHEN s.running THEN s.owner ELSE 0 END, 0 FROM @.session s"
    TP__PG_TABLES_OF_SESSIONS(PART)
    "), w AS (SELECT tenant, session, " SUM("0") " AS messages, " SUM("1") " AS turns, " SUM("2") " AS entries, "
    SUM("3") " AS jobs, " SUM("4") " AS questions, " SUM("5") " AS tasks, " SUM("6") " AS calls, " SUM("7")
    " AS audits, coalesce(min(first), 0)::bigint AS first_ms, coalesce(max(last), 0)::bigint AS last_ms,"
    " max(owner) AS owner, max(process) AS process FROM part WHERE ($1::bigint = 0 OR tenant = $2::bytea)"
    " AND ($3::bigint = 0 OR session = $4::bytea) GROUP BY tenant, session)"
    " SELECT w.messages, w.turns, w.entries, w.jobs, w.questions, w.tasks, w.calls, w.audits, w.first_ms, w.last_ms,"
    " w.tenant, w.session, coalesce(o.address, p.address, ''),"
    " coalesce(ceil(extract(epoch FROM o.lease_end - clock_timestamp()) * 1000), 0)::bigint FROM w"
    " LEFT JOIN @.process o ON o.id = w.owner AND o.lease_end > clock_timestamp()"
    " LEFT JOIN @.process p ON p.id = w.process WHERE $5::bigint = 0 OR (w.last_ms > 0 AND w.last_ms < $5::bigint)"
    " ORDER BY w.last_ms, w.tenant, w.session LIMIT nullif($6::bigint, 0)";

static void read_session(const PGresult *rows, int row, tp_kept_session *s) {
  *s = (tp_kept_session){.struct_size = sizeof *s};
  uint64_t *const counts[] = {&s->messages,  &s->turns, &s->entries, &s->jobs,
                              &s->questions, &s->tasks, &s->calls,   &s->audits};
  for (int i = 0; i < 8; i++) *counts[i] = (uint64_t)tp__pg_int(rows, row, i);
  s->first_unix_ms = tp__pg_int(rows, row, 8);
  s->last_unix_ms = tp__pg_int(rows, row, 9);
  s->tenant = tp__pg_text(rows, row, 10);
  s->session = tp__pg_text(rows, row, 11);
  s->holder = tp__pg_text(rows, row, 12);
  s->lease_ms = tp__pg_int(rows, row, 13);
}

static void put_name(tp__pg_parameters *p, const char *name) {
  tp__pg_parameter_int(p, name != NULL);
  tp__pg_parameter_text(p, tp_text_of(name));
}

tp_status tp_postgres_sessions_list(tp_postgres *pg, const tp_kept_query *theirs, tp_kept_session_fn each, void *ctx,
                                    tp_fault *fault) {
  tp_kept_query query = {.struct_size = sizeof query};
  tp_kept_session session;
  tp__pg_request r;
  if (!pg || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_sessions_list needs a database and a callback");
  tp_status status = tp__struct_read(&query, sizeof query, theirs ? theirs : &query, "tp_kept_query", fault);
  if (status != TP_OK) return status;
  tp__pg_request_init(&r, pg, TP__PG_READS, "list sessions");
  tp__pg_parameters *p = tp__pg_request_add(&r, list_sessions);
  put_name(p, query.tenant);
  put_name(p, query.session);
  tp__pg_parameter_int(p, query.before_unix_ms);
  tp__pg_parameter_int(p, query.limit < INT64_MAX ? (int64_t)query.limit : 0);
  status = tp__pg_request_run(&r, fault);
  const PGresult *rows = status == TP_OK ? tp__pg_request_rows(&r, 0) : NULL;
  for (int row = 0; row < PQntuples(rows); row++) {
    read_session(rows, row, &session);
    if (!each(ctx, &session)) break;
  }
  tp__pg_request_fini(&r);
  return status;
}

/* ---- everything of one ---- */

/** The receiver of the rows. */
typedef struct receiver {
  tp_kept_row_fn each;
  void *ctx;
  tp_writer *writer;
  tp_status status; /* the status of writing */
  bool stops;
} receiver;

/** Members of a struct with the names of their columns. */
typedef struct named {
  const tp__columns *columns;
  const char *const *names;
} named;

#define NAME_OF(member, column, type) #column,
#define NAMED(what, list)                                             \
  static const char *const what##_names[] = {list(NAME_OF, NAME_OF)}; \
  static const named what = {&tp__##what##_columns, what##_names}
NAMED(entry, TP__ENTRY_LIST);
NAMED(run, TP__RUN_LIST);
NAMED(turn, TP__TURN_LIST);
NAMED(step, TP__STEP_LIST);
NAMED(audit, TP__AUDIT_LIST);
NAMED(attempt, TP__ATTEMPT_LIST);
NAMED(content, TP__CONTENT_LIST);

static void write_bytes(tp_writer *writer, tp_text text) {
  if (tp_utf8_valid(text, NULL)) tp_write_text(writer, text);
  else tp_write_bytes(writer, text);
}

/* Writes a kept value as a value if it can be read as one, else as bytes. */
static void write_kept_value(tp_writer *writer, tp_text text) {
  if (text.size == 0) tp_write_null(writer);
  else if (tp_value_check(text, NULL) == TP_OK) tp_write_value(writer, text);
  else tp_write_bytes(writer, text);
}

static void write_members(tp_writer *writer, const named *of, const void *from) {
  for (int i = 0; i < of->columns->count; i++) {
    const tp__column *column = &of->columns->items[i];
    const void *at = (const char *)from + column->offset;
    tp_write_string(writer, of->names[i]);
    if (column->type == TP__COLUMN_STRING)
      tp_write_string(writer, *(const char *const *)at ? *(const char *const *)at : "");
    else if (column->type == TP__COLUMN_BLOB) tp_write_bytes(writer, *(const tp_text *)at);
    else if (column->type == TP__COLUMN_TEXT) write_bytes(writer, *(const tp_text *)at);
    else tp_write_int(writer, tp__column_int(column, at));
  }
}

/* Writes columns of a row from `first` on; the caller has written their number. */
static void write_columns(tp_writer *writer, const PGresult *rows, int row, int first, int count) {
  static const char *const values[] = {"parts", "value", "provider_data", "arguments", "payload", "edited", "ending"};
  for (int i = first; i < first + count; i++) {
    const char *name = PQfname(rows, i);
    bool is_value = false;
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) is_value = is_value || strcmp(values[v], name) == 0;
    tp_write_string(writer, name);
    if (PQftype(rows, i) == TP__PG_INT8) tp_write_int(writer, tp__pg_int(rows, row, i));
    else if (PQftype(rows, i) == TP__PG_BOOL) tp_write_bool(writer, tp__pg_bool(rows, row, i));
    else if (is_value) write_kept_value(writer, tp__pg_text(rows, row, i));
    else write_bytes(writer, tp__pg_text(rows, row, i));
  }
}

static void pass_row(receiver *to, const char *kind) {
  tp_text value;
  if (to->status == TP_OK) to->status = tp_writer_finish(to->writer, &value);
  if (to->status == TP_OK && !to->each(to->ctx, kind, value)) to->stops = true;
}

static void begin_row(receiver *to, int columns) {
  tp_writer_reset(to->writer);
  tp_write_map(to->writer, (size_t)columns);
}

static bool goes_on(const receiver *to) { return to->status == TP_OK && !to->stops; }

/* ---- kinds of rows ---- */

enum { IDS = 8 }; /* the number of columns of ids, before a value */
#define ID_COLUMNS(x) \
  x ".tenant, " x ".agent, " x ".workspace, " x ".session, " x ".thread, " x ".turn, " x ".task, " x ".run"
#define OF_SESSION(x) " WHERE " x ".tenant = $1::bytea AND " x ".session = $2::bytea ORDER BY "

static tp__pg_value value_of(const PGresult *rows, int row, int column) {
  tp_text text = tp__pg_text(rows, row, column);
  return (tp__pg_value){.at = text.data, .end = text.data + text.size};
}

/* Passes records. A record is its ids, if the table has them, and a value: the members of a struct, and the runs or
 * steps in it. */
static void pass_records(receiver *to, const PGresult *rows, const char *kind, const named *of, int ids,
                         const char *part_kind, const named *of_parts) {
  union {
    size_t size;
    tp_entry_record entry;
    tp_turn_record turn;
    tp_audit audit;
    tp_attempt_record attempt;
    tp_content_record content;
  } record;
  tp__pg_parts parts = {.count = 0};
  for (int row = 0; row < PQntuples(rows) && goes_on(to); row++) {
    tp__pg_value value = value_of(rows, row, ids);
    tp__pg_value_get(&value, of->columns, &record);
    bool is_read = !of_parts || tp__pg_parts_get(&parts, of_parts->columns, &value);
    if (!is_read || value.failed) to->status = value.failed ? TP_ERR_STORE_CORRUPT : TP_ERR_NO_MEMORY;
    if (to->status != TP_OK) break;
    begin_row(to, ids + of->columns->count);
    write_columns(to->writer, rows, row, 0, ids);
    write_members(to->writer, of, &record);
    pass_row(to, kind);
    for (size_t i = 0; of_parts && i < parts.count && goes_on(to); i++) {
      begin_row(to, 1 + of_parts->columns->count);
      write_columns(to->writer, rows, row, 5, 1); /* turn */
      write_members(to->writer, of_parts, tp__pg_part(&parts, i));
      pass_row(to, part_kind);
    }
  }
  tp__pg_parts_fini(&parts);
}

static void pass_columns(receiver *to, const PGresult *rows, const char *kind, int count) {
  for (int row = 0; row < PQntuples(rows) && goes_on(to); row++) {
    begin_row(to, count);
    write_columns(to->writer, rows, row, 0, count);
    pass_row(to, kind);
  }
}

/* Passes a call, an array of id, name, arguments and whether it is malformed (messages.c). */
static void pass_call(receiver *to, const PGresult *rows, int row, int64_t position, tp_text call) {
  static const char *const names[] = {"id", "name", "arguments", "malformed"};
  tp_value_walk walk = {.offset = 0};
  begin_row(to, 7);
  write_columns(to->writer, rows, row, 4, 1); /* turn */
  tp_write_string(to->writer, "message");
  tp_write_int(to->writer, tp__pg_int(rows, row, 0));
  tp_write_string(to->writer, "position");
  tp_write_int(to->writer, position);
  for (int i = 0; i < 4; i++) {
    bool has = tp_value_next(call, &walk);
    tp_write_string(to->writer, names[i]);
    if (i == 3) tp_write_bool(to->writer, has && tp_value_bool(walk.value, false));
    else if (i == 2) write_kept_value(to->writer, has ? tp_value_text(walk.value) : (tp_text){"", 0});
    else write_bytes(to->writer, has ? tp_value_text(walk.value) : (tp_text){"", 0});
  }
  pass_row(to, "tool_call");
}

static void pass_messages(receiver *to, const PGresult *rows) {
  enum { SHOWN = 12 };
  pass_columns(to, rows, "message", SHOWN);
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t position = 0;
    tp_text calls = tp__pg_text(rows, row, SHOWN);
    for (tp_value_walk walk = {0}; calls.size && goes_on(to) && tp_value_next(calls, &walk);)
      pass_call(to, rows, row, position++, walk.value);
  }
}

static const char select_messages[] =
    "SELECT m.position AS id, " MS(
        "m.appended") " AS unix_ms, convert_to(CASE m.role WHEN 1 THEN 'user' WHEN 2 THEN 'assistant' WHEN 3 THEN"
                      " 'tool' ELSE 'end' END, 'UTF8') AS role, m.is_error, m.turn, m.text, m.call_id, m.name, m.parts,"
                      " m.value, m.provider_data, m.ending, m.calls FROM @.session s JOIN @.message m"
                      " ON m.session = s.id WHERE " BYTES("s.tenant") " = $1::bytea AND " BYTES(
                          "s.name") " = $2::bytea ORDER BY m.position";

/* Adds statements about one session, each with its tenant and its name. */
static void add_all(tp__pg_request *r, tp_postgres *pg, const char *const *sql, size_t count, tp_text tenant,
                    tp_text session) {
  tp__pg_request_init(r, pg, TP__PG_READS, "read a session");
  for (size_t i = 0; i < count; i++) {
    tp__pg_parameters *p = tp__pg_request_add(r, sql[i]);
    tp__pg_parameter_text(p, tenant);
    tp__pg_parameter_text(p, session);
  }
}

static const char *const select_records[] = {
    select_messages,
    "SELECT " ID_COLUMNS("t") ", t.value FROM @.turn t" OF_SESSION("t") "t.place",
    "SELECT " ID_COLUMNS("t") ", t.value FROM @.running t" OF_SESSION("t") "t.place",
    "SELECT " ID_COLUMNS("e") ", e.value FROM @.entry e" OF_SESSION("e") "e.place",
    "SELECT e.turn, a.value FROM @.entry e JOIN @.attempt a ON a.process = e.process AND a.entry = e.id" OF_SESSION(
        "e") "e.place, a.place",
    "SELECT e.turn, c.value FROM @.entry e JOIN @.content c ON c.process = e.process AND c.entry = e.id" OF_SESSION(
        "e") "e.place, c.place",
    "SELECT a.value FROM @.audit a WHERE a.tenant = $1::bytea AND a.session = $2::bytea AND a.turn <> '' ORDER BY "
    "a.place"};

static void pass_history_and_records(const tp__pg_request *r, receiver *to) {
  pass_messages(to, tp__pg_request_rows(r, 0));
  pass_records(to, tp__pg_request_rows(r, 1), "turn", &turn, IDS, "step", &step);
  pass_records(to, tp__pg_request_rows(r, 2), "running", &turn, IDS, "running_step", &step);
  pass_records(to, tp__pg_request_rows(r, 3), "entry", &entry, IDS, "run", &run);
  pass_records(to, tp__pg_request_rows(r, 4), "attempt", &attempt, 1, NULL, NULL);
  pass_records(to, tp__pg_request_rows(r, 5), "content", &content, 1, NULL, NULL);
  pass_records(to, tp__pg_request_rows(r, 6), "audit", &audit, 0, NULL, NULL);
}

#define JOB_NAMED                                                                                              \
  "SELECT id, state::bigint AS state, claim, attempt, attempts_max, backoff, backoff_ms, limit_ms, phase,"     \
  " contract_version, reason, code, inserted_ms, claimable_ms, lease_end_ms, ended_ms, postponed_ms, handler," \
  " subscription, idempotency_key, order_key, message, payload, tenant, session FROM @."
enum { JOB_COLUMNS = 25, CALL_COLUMNS = 12, QUESTION_COLUMNS = 18, TASK_COLUMNS = 8 };

static const char *const select_work[] = {
    "SELECT id, tenant, session, turn, tool, call_id, call_index, started_unix_ms, kind, coalesce(result, '') AS"
    " result, value, parts FROM @.tool_start x" OF_SESSION("x") "id",
    JOB_NAMED "job x" OF_SESSION("x") "id", JOB_NAMED "job_ended x" OF_SESSION("x") "number",
    "SELECT number, state, asked_ms, expires_ms, answered_ms, used_ms, tenant, agent, session, turn, tool, call_id,"
    " arguments, subscription, reason, person, answer, edited FROM @.question x" OF_SESSION("x") "number",
    "SELECT is_begun, created_unix_ms, key, tool, agent, arguments, tenant, session FROM @.task x" OF_SESSION(
        "x") "created_unix_ms, key"};

static void pass_work(const tp__pg_request *r, receiver *to) {
  static const struct {
    const char *kind;
    int columns;
  } kinds[] = {{"call", CALL_COLUMNS},
               {"job", JOB_COLUMNS},
               {"job", JOB_COLUMNS},
               {"question", QUESTION_COLUMNS},
               {"task", TASK_COLUMNS}};
  for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
    pass_columns(to, tp__pg_request_rows(r, i), kinds[i].kind, kinds[i].columns);
}

tp_status tp__pg_session_rows_read(tp_postgres *pg, tp_text tenant, tp_text session, tp__pg_session_rows *rows,
                                   tp_fault *fault) {
  add_all(&rows->records, pg, select_records, sizeof select_records / sizeof *select_records, tenant, session);
  add_all(&rows->work, pg, select_work, sizeof select_work / sizeof *select_work, tenant, session);
  tp_status status = tp__pg_request_run(&rows->records, fault);
  return status == TP_OK ? tp__pg_request_run(&rows->work, fault) : status;
}

tp_status tp__pg_session_rows_pass(const tp__pg_session_rows *rows, tp_text session, tp_writer *writer,
                                   tp_kept_row_fn each, void *ctx, tp_fault *fault) {
  receiver to = {.each = each, .ctx = ctx, .writer = writer};
  const tp_postgres *pg = rows->records.postgres;
  pass_history_and_records(&rows->records, &to);
  pass_work(&rows->work, &to);
  if (to.status == TP_OK) return TP_OK;
  return tp__refuse(fault, to.status, pg->target.name, "%s: a row of session %.*s is %s", pg->target.name,
                    tp__cut_word(session, TP_ID_BYTES_MAX), session.data,
                    to.status == TP_ERR_STORE_CORRUPT ? "not one of turnphase's" : "too large");
}

void tp__pg_session_rows_fini(tp__pg_session_rows *rows) {
  tp__pg_request_fini(&rows->records);
  tp__pg_request_fini(&rows->work);
}

tp_status tp_postgres_session_rows(tp_postgres *pg, const char *tenant, const char *session, tp_kept_row_fn each,
                                   void *ctx, tp_fault *fault) {
  tp__pg_session_rows rows;
  tp_writer *writer = NULL;
  if (!pg || !tenant || !session || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_postgres_session_rows needs a database, a tenant, a session and a callback");
  tp_status status = tp_writer_new(NULL, &writer);
  if (status != TP_OK) return tp__refuse(fault, status, NULL, "no memory to read a session");
  status = tp__pg_session_rows_read(pg, tp_text_of(tenant), tp_text_of(session), &rows, fault);
  if (status == TP_OK) status = tp__pg_session_rows_pass(&rows, tp_text_of(session), writer, each, ctx, fault);
  tp__pg_session_rows_fini(&rows);
  tp_writer_free(writer);
  return status;
}
