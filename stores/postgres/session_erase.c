/* SPDX-License-Identifier: Apache-2.0
 *
 * Erasing and exporting sessions, or turns of them. An erasure first locks the sessions' rows, so that no turn claims
 * them meanwhile. Then one statement decides which sessions are free, and deletes from every table what belongs to
 * them: it sees one snapshot, so that each is erased whole. What other processes write later stays.
 *
 * Turns are selected from the rows of a session (stores/choice.h), which goes on under a new number with its other
 * messages, so that a process that has it open reads it anew, and a turn that stood still is fenced. */
#include <assert.h>

#include "stores/choice.h"
#include "stores/postgres/sessions.h"
#include "support/fault.h"

/* ---- the statements ---- */

/* Parameters: 1 tenants, 2 sessions, 3 the time before which their newest row is, or 0; 4 whether only turns of the one
 * session are erased: then 5 turns, 6 keys of tasks, 7 ids of jobs. */
#define NAMES "unnest($1::bytea[], $2::bytea[]) AS n(tenant, session)"
#define IS_NAMED(n) "convert_to(s.tenant, 'UTF8') = " n ".tenant AND convert_to(s.name, 'UTF8') = " n ".session"
#define OF_LIVE(process) " x JOIN @.process p ON p.id = x." process " AND p.lease_end > clock_timestamp() WHERE x."
#define IS_NEW(what, table, first, last, process)     \
  " UNION ALL SELECT x.tenant, x.session FROM " table \
  " JOIN n ON x.tenant = n.tenant AND x.session = n.session WHERE $3::bigint > 0 AND " last " >= $3::bigint"
/* The sessions on which no process works, and in which nothing has happened since they were listed. One set for all of
 * them: a query for each would cost so much by its plan that the server compiles it, which takes seconds. */
#define FREE \
  "n AS (SELECT * FROM " NAMES                                                                             \
  "), c AS MATERIALIZED (SELECT * FROM n WHERE (n.tenant, n.session) NOT IN (SELECT convert_to(x.tenant,"  \
  " 'UTF8'), convert_to(x.name, 'UTF8') FROM @.session" OF_LIVE("owner") "running"                         \
  " UNION ALL SELECT x.tenant, x.session FROM @.job" OF_LIVE("process") "state = 2"                        \
  " UNION ALL SELECT x.tenant, x.session FROM @.running" OF_LIVE("process") "state = 2"                    \
  " UNION ALL SELECT n.tenant, n.session FROM n JOIN @.session s ON " IS_NAMED("n")                        \
  " WHERE $3::bigint > 0 AND (SELECT (extract(epoch FROM m.appended) * 1000)::bigint FROM @.message m"     \
  " WHERE m.session = s.id ORDER BY m.position DESC LIMIT 1) >= $3::bigint"                                \
  TP__PG_TABLES_OF_SESSIONS(IS_NEW) "))"

#define DELETES(table, with, where, what) "DELETE FROM @." table " USING " with " WHERE " where " RETURNING " what
#define COUNTS(table, with, where, what) "SELECT " what " FROM @." table ", " with " WHERE " where
#define ONLY(column, parameter) " AND ($4::bigint = 0 OR " column " = ANY (" parameter "))"
#define OF_TURN ONLY("x.turn", "$5::bytea[]")
#define OF_C(table, which, what) table " x", "c", "x.tenant = c.tenant AND x.session = c.session" which, what
#define OF_ENTRY(table) table " y", "g", "y.process = g.process AND y.entry = g.id", "1"
#define PICK(DOES, ...) DOES(__VA_ARGS__)
#define COUNT(name) "(SELECT count(*) FROM " name ")"
/* `stay` are the messages that stay in a session of which turns go. REST does what only an erasure does. Audit rows
 * without a turn are of operators, and stay. */
#define ERASE(DOES, REST) \
  "WITH " FREE, ", k AS (" PICK(DOES, OF_C("job", ONLY("x.id", "$7::bigint[]"), "x.key_hash"))                      \
  "), e AS (" PICK(DOES, OF_C("job_ended", ONLY("x.id", "$7::bigint[]"), "x.key_hash"))                            \
  "), g AS (" PICK(DOES, OF_C("entry", OF_TURN, "x.process, x.id"))                                                \
  "), l AS (" PICK(DOES, OF_ENTRY("late")) "), a AS (" PICK(DOES, OF_ENTRY("attempt"))                             \
  "), h AS (" PICK(DOES, OF_ENTRY("content")) "), t AS (" PICK(DOES, OF_C("turn", OF_TURN, "1"))                   \
  "), r AS (" PICK(DOES, OF_C("running", OF_TURN, "1"))                                                            \
  "), d AS (" PICK(DOES, OF_C("audit", OF_TURN " AND x.turn <> ''", "1"))                                          \
  "), i AS (" PICK(DOES, OF_C("tool_start", OF_TURN, "1")) "), q AS (" PICK(DOES, OF_C("question", OF_TURN, "1"))  \
  "), w AS (" PICK(DOES, OF_C("task", ONLY("x.key", "$6::bytea[]"), "1"))                                          \
  "), ", "o AS (SELECT s.id FROM @.session s JOIN c ON " IS_NAMED("c")                                                 \
  "), m AS (" DOES("message x", "o", "x.session = o.id" OF_TURN, "x.session")                                      \
  "), stay AS (SELECT o.id, x.position, row_number() OVER (PARTITION BY o.id ORDER BY x.position) - 1 AS place"    \
  " FROM o JOIN @.message x ON x.session = o.id WHERE $4::bigint <> 0 AND x.turn <> ALL ($5::bytea[])"             \
  "), z AS (" DOES("session x", "o", "x.id = o.id AND NOT EXISTS (SELECT 1 FROM stay WHERE stay.id = o.id)", "1")  \
  ")" REST, " SELECT " COUNT("k") " + " COUNT("e") " + " COUNT("g") " + " COUNT("l") " + " COUNT("a") " + "         \
  COUNT("h") " + " COUNT("t") " + " COUNT("r") " + " COUNT("d") " + " COUNT("i") " + " COUNT("q") " + "            \
  COUNT("w") " + " COUNT("m") " + " COUNT("z") ", " COUNT("c")
#define KEYS_AND_NUMBERS                                                                                         \
  ", y AS (DELETE FROM @.job_key z USING (SELECT key_hash FROM k UNION ALL SELECT key_hash FROM e) b"            \
  " WHERE z.hash = b.key_hash RETURNING 1), v AS (UPDATE @.session x SET id = DEFAULT, owner = 0,"               \
  " running = false, next = (SELECT count(*) FROM stay WHERE stay.id = o.id) FROM o WHERE x.id = o.id"           \
  " AND EXISTS (SELECT 1 FROM stay WHERE stay.id = o.id) AND EXISTS (SELECT 1 FROM m WHERE m.session = o.id)"    \
  " RETURNING x.id AS now, o.id AS before), u AS (UPDATE @.message x SET session = v.now, position = stay.place" \
  " FROM v JOIN stay ON stay.id = v.before WHERE x.session = stay.id AND x.position = stay.position RETURNING 1)"

static const char no_jit[] = "SELECT set_config('jit', 'off', true)"; /* set because the plan of the next statements
                                                                         would otherwise be compiled, which takes
                                                                         seconds */
static const char *const lock_sql[] = {"SELECT s.id FROM @.session s JOIN " NAMES
                                       " ON " IS_NAMED("n") " ORDER BY s.id FOR UPDATE OF s",
                                       "SELECT j.id FROM @.job j JOIN " NAMES
                                       " ON j.tenant = n.tenant AND j.session = n.session ORDER BY j.id FOR UPDATE"
                                       " OF j"};
enum { LOCKS = sizeof lock_sql / sizeof *lock_sql };
/* A list of parts, since C does not guarantee longer string literals. */
static const char *const erase_sql[] = {ERASE(DELETES, KEYS_AND_NUMBERS), NULL};
static const char *const count_sql[] = {ERASE(COUNTS, ""), NULL};

/* ---- a transaction ---- */

enum { SESSIONS_TOGETHER = 100 };

/** Sessions that are erased together; or one session with a choice, of which only turns are erased. */
typedef struct erasing {
  tp_postgres *postgres;
  const tp_kept_choice *request;
  tp_text names[2][SESSIONS_TOGETHER]; /* tenants and sessions; copies where there are several */
  size_t count;
  const tp__choice *choice; /* NULL: whole sessions */
  tp_kept_erased *erased;
} erasing;

static void put_names(tp__pg_parameters *p, const erasing *e) {
  for (int l = 0; l < 2; l++) {
    tp__bytes *array = tp__pg_parameter_array(p, TP__PG_BYTEA, e->count);
    for (size_t i = 0; i < e->count; i++) tp__pg_put_bytes(array, e->names[l][i]);
  }
}

/* Puts the chosen units of a kind. @param kind  jobs are put as numbers. */
static void put_units(tp__pg_parameters *p, const tp__choice *c, tp__unit_kind kind) {
  size_t count = 0;
  for (size_t i = 0; c && i < c->count; i++) count += c->units[i].is_chosen && c->units[i].kind == kind;
  tp__bytes *array = tp__pg_parameter_array(p, kind == TP__UNIT_JOB ? TP__PG_INT8 : TP__PG_BYTEA, count);
  for (size_t i = 0; c && i < c->count; i++) {
    const tp__unit *u = &c->units[i];
    if (!u->is_chosen || u->kind != kind) continue;
    if (kind == TP__UNIT_JOB) tp__pg_put_int(array, u->id);
    else tp__pg_put_bytes(array, kind == TP__UNIT_TURN ? u->turn : u->key);
  }
}

static tp_status erase_together(const erasing *e, tp_fault *fault) {
  assert(e->count > 0 && e->count <= SESSIONS_TOGETHER && (!e->choice || e->count == 1));
  tp__pg_request r;
  tp__bytes sql = {0};
  const bool only_counts = e->request->only_counts;
  tp__pg_request_init(&r, e->postgres, only_counts ? TP__PG_READS : TP__PG_WRITES, "erase sessions");
  (void)tp__pg_request_add(&r, no_jit);
  for (int i = 0; i < LOCKS && !only_counts; i++) put_names(tp__pg_request_add(&r, lock_sql[i]), e);
  for (const char *const *part = only_counts ? count_sql : erase_sql; *part; part++) tp__bytes_put_string(&sql, *part);
  tp__pg_parameters *p = tp__pg_request_add(&r, tp__bytes_string(&sql));
  put_names(p, e);
  tp__pg_parameter_int(p, e->request->before_unix_ms);
  tp__pg_parameter_int(p, e->choice != NULL);
  put_units(p, e->choice, TP__UNIT_TURN);
  put_units(p, e->choice, TP__UNIT_TASK);
  put_units(p, e->choice, TP__UNIT_JOB);
  tp_status status = sql.failed ? tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to erase sessions")
                                : tp__pg_request_run(&r, fault);
  tp__bytes_fini(&sql);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&r, r.count - 1);
    uint64_t sessions = (uint64_t)tp__pg_int(rows, 0, 1);
    e->erased->rows += (uint64_t)tp__pg_int(rows, 0, 0);
    e->erased->sessions += sessions;
    e->erased->sessions_in_use += e->count - sessions;
    if (e->choice && sessions) e->erased->turns += e->choice->turns;
  }
  tp__pg_request_fini(&r);
  return status;
}

/* ---- whole sessions ---- */

/** The names of the sessions that fit. */
typedef struct fitting {
  struct {
    tp_text names[2]; /* tenant and session, copies; data is NULL when there was no memory */
  } * items;
  size_t count, capacity;
  bool failed;
} fitting;

static bool add_fitting(void *ctx, const tp_kept_session *session) {
  fitting *f = ctx;
  const tp_text texts[] = {session->tenant, session->session};
  f->failed = !tp__grow(tp__heap, (void **)&f->items, &f->capacity, f->count + 1, sizeof *f->items);
  if (f->failed) return false;
  for (int i = 0; i < 2; i++) {
    f->items[f->count].names[i] = (tp_text){tp__heap_copy(texts[i]), texts[i].size};
    f->failed = f->failed || !f->items[f->count].names[i].data;
  }
  f->count++;
  return !f->failed;
}

static void fitting_fini(fitting *f) {
  for (size_t i = 0; i < f->count; i++)
    for (int n = 0; n < 2; n++)
      tp__heap_free((void *)(uintptr_t)f->items[i].names[n].data, f->items[i].names[n].size + 1);
  tp__heap_free(f->items, f->capacity * sizeof *f->items);
}

static tp_status erase_whole(erasing *e, tp_fault *fault) {
  fitting f = {.count = 0};
  const tp_kept_query query = tp__choice_query(e->request);
  tp_status status = tp_postgres_sessions_list(e->postgres, &query, add_fitting, &f, fault);
  if (status == TP_OK && f.failed) status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to erase sessions");
  for (size_t i = 0; i < f.count && status == TP_OK; i++) {
    for (int n = 0; n < 2; n++) e->names[n][e->count] = f.items[i].names[n];
    if (++e->count < SESSIONS_TOGETHER && i + 1 < f.count) continue;
    status = erase_together(e, fault);
    e->count = 0;
  }
  fitting_fini(&f);
  return status;
}

/* ---- turns ---- */

/** The selection of turns, session by session: for an erasure, or for an export. */
typedef struct selection {
  tp_postgres *postgres;
  tp__choice choice;
  tp_writer *writer;
  tp_kept_erased *result;
  erasing *erases; /* NULL: the turns are exported */
  /* of an export */
  bool is_by_turn; /* else whole sessions are passed */
  tp_kept_export_fn each;
  void *ctx;
  const tp_kept_session *session; /* the session whose rows are passed now */
  bool stopped;
  tp_status status;
  tp_fault *fault;
} selection;

static bool see_row(void *ctx, const char *kind, tp_text row) { return tp__choice_see(ctx, kind, row); }

static bool pass_row(void *ctx, const char *kind, tp_text row) {
  selection *s = ctx;
  assert(s->each && !s->stopped);
  if (s->is_by_turn && !tp__choice_has(&s->choice, kind, row)) return true;
  s->result->rows++;
  s->stopped = !s->each(s->ctx, s->session, kind, row);
  return !s->stopped;
}

static void choose_of(selection *s, const tp__pg_session_rows *rows) {
  tp__choice_clear(&s->choice);
  s->status = tp__pg_session_rows_pass(rows, s->session->session, s->writer, see_row, &s->choice, s->fault);
  if (s->status == TP_OK && s->choice.failed)
    s->status = tp__refuse(s->fault, TP_ERR_NO_MEMORY, NULL, "no memory to select turns");
  if (s->status != TP_OK) return;
  tp__choice_decide(&s->choice);
  s->result->turns_unknown += s->choice.unknown;
}

static void erase_chosen(selection *s) {
  assert(s->choice.chosen > 0 && s->session);
  erasing *e = s->erases;
  e->names[0][0] = s->session->tenant;
  e->names[1][0] = s->session->session;
  e->count = 1;
  e->choice = &s->choice;
  s->status = erase_together(e, s->fault);
}

static void pass_session(selection *s, const tp__pg_session_rows *rows) {
  s->result->sessions++;
  if (s->is_by_turn) s->result->turns += s->choice.turns;
  s->status = tp__pg_session_rows_pass(rows, s->session->session, s->writer, pass_row, s, s->fault);
}

static bool do_session(void *ctx, const tp_kept_session *session) {
  selection *s = ctx;
  tp__pg_session_rows rows;
  s->session = session;
  s->status = tp__pg_session_rows_read(s->postgres, session->tenant, session->session, &rows, s->fault);
  if (s->status == TP_OK && s->is_by_turn) choose_of(s, &rows);
  if (s->status == TP_OK && (!s->is_by_turn || s->choice.chosen)) {
    if (s->erases) erase_chosen(s);
    else pass_session(s, &rows);
  }
  tp__pg_session_rows_fini(&rows);
  return s->status == TP_OK && !s->stopped;
}

static tp_status do_sessions(selection *s, const tp_kept_choice *request, tp_fault *fault) {
  const tp_kept_query query = tp__choice_query(request);
  s->choice.request = request;
  s->is_by_turn = tp__choice_is_by_turn(request);
  s->fault = fault;
  tp_status status = tp_writer_new(NULL, &s->writer);
  if (status != TP_OK) return tp__refuse(fault, status, NULL, "no memory to read sessions");
  status = tp_postgres_sessions_list(s->postgres, &query, do_session, s, fault);
  tp_writer_free(s->writer);
  tp__choice_fini(&s->choice);
  return status == TP_OK ? s->status : status;
}

/* ---- the public functions ---- */

static tp_status refuse_erasure(const tp_postgres *pg, uint64_t in_use, tp_fault *fault) {
  return tp__refuse(
      fault, TP_ERR_BUSY, pg->target.name,
      "%s: %llu sessions stay: a process works on them, or has just worked on them; erase them when their turns and "
      "jobs have ended",
      pg->target.name, (unsigned long long)in_use);
}

tp_status tp_postgres_sessions_erase(tp_postgres *pg, const tp_kept_choice *theirs, tp_kept_erased *ret_erased,
                                     tp_fault *fault) {
  tp_kept_choice request;
  tp_kept_erased erased = {.struct_size = sizeof erased};
  if (!pg || !theirs)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_sessions_erase needs a database and a request");
  tp_status status = tp__choice_read(&request, theirs, fault);
  if (status != TP_OK) return status;
  const bool is_by_turn = tp__choice_is_by_turn(&request);
  if (!request.tenant && !request.session && !request.before_unix_ms && !is_by_turn)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "which sessions? name a tenant, a session or a time");
  if (ret_erased && tp__choice_show(ret_erased, &erased) != TP_OK)
    return tp__refuse(fault, TP_ERR_VERSION, NULL, "tp_kept_erased has a wrong struct_size");
  erasing e = {.postgres = pg, .request = &request, .erased = &erased};
  selection s = {.postgres = pg, .result = &erased, .erases = &e};
  status = is_by_turn ? do_sessions(&s, &request, fault) : erase_whole(&e, fault);
  if (ret_erased) (void)!tp__choice_show(ret_erased, &erased);
  if (status != TP_OK || request.only_counts || !erased.sessions_in_use) return status;
  return refuse_erasure(pg, erased.sessions_in_use, fault);
}

tp_status tp_postgres_sessions_export(tp_postgres *pg, const tp_kept_choice *theirs, tp_kept_export_fn each, void *ctx,
                                      tp_kept_erased *ret_passed, tp_fault *fault) {
  tp_kept_choice request;
  tp_kept_erased passed = {.struct_size = sizeof passed};
  if (!pg || !theirs || !each)
    return tp__refuse(fault, TP_ERR_USAGE, NULL,
                      "tp_postgres_sessions_export needs a database, a request and a callback");
  tp_status status = tp__choice_read(&request, theirs, fault);
  if (status != TP_OK) return status;
  if (ret_passed && tp__choice_show(ret_passed, &passed) != TP_OK)
    return tp__refuse(fault, TP_ERR_VERSION, NULL, "tp_kept_erased has a wrong struct_size");
  selection s = {.postgres = pg, .result = &passed, .each = each, .ctx = ctx};
  status = do_sessions(&s, &request, fault);
  if (ret_passed) (void)!tp__choice_show(ret_passed, &passed);
  return status;
}
