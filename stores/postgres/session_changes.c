/* SPDX-License-Identifier: Apache-2.0
 *
 * Forking and erasing sessions. A fork is one statement: the messages of a session up to the end of a turn become the
 * beginning of a new one, in which turns keep their ids. Its messages have a number of their own (batch), by which a
 * fork whose commit was not acknowledged is recognized. An erasure deletes from every table what belongs to a session;
 * it locks its row first, so that no turn claims it meanwhile. */
#include <string.h>

#include "stores/postgres/store.h"
#include "support/fault.h"
#include "support/text.h"

/* ---- forking ---- */

#define MESSAGE_NAMES "role, is_error, turn, text, call_id, name, parts, value, provider_data, ending, calls"
/* 1 tenant, 2 session, 3 new session, 4 turn or '', 5 batch. */
static const char fork_session[] =
    "WITH old AS (SELECT id FROM @.session WHERE tenant = $1::text AND name = $2::text AND next > 0),"
    " taken AS (SELECT id FROM @.session WHERE tenant = $1::text AND name = $3::text),"
    " span AS (SELECT min(m.position) AS first, max(m.position) FILTER (WHERE $4::bytea = '' OR m.turn = $4::bytea) AS"
    " last FROM @.message m JOIN old ON m.session = old.id),"
    " new AS (INSERT INTO @.session (tenant, name, next, owner, epoch, running)"
    " SELECT $1::text, $3::text, span.last - span.first + 1, 0, 0, false FROM span WHERE span.last IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM taken) ON CONFLICT (tenant, name) DO NOTHING RETURNING id),"
    " copied AS (INSERT INTO @.message (session, position, batch, appended, " MESSAGE_NAMES
    ") SELECT new.id, m.position - span.first, $5::bigint, m.appended, m.role, m.is_error, m.turn, m.text, m.call_id,"
    " m.name, m.parts, m.value, m.provider_data, m.ending, m.calls FROM new, span, old JOIN @.message m"
    " ON m.session = old.id WHERE m.position <= span.last ORDER BY m.position RETURNING 1)"
    " SELECT (SELECT count(*) FROM old), (SELECT coalesce(last - first + 1, 0) FROM span),"
    " (SELECT count(*) FROM copied), (SELECT count(*) FROM @.message m JOIN taken ON m.session = taken.id"
    " WHERE m.batch = $5::bigint)";

static tp_status check_fork(const tp_kept_fork *request, tp_fault *fault) {
  const char *const names[] = {request->tenant, request->session};
  if (!request->session) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_fork.session is NULL");
  if (!tp__is_id(tp_text_of(request->new_session)))
    return tp__refuse(fault, TP_ERR_BAD_ID, request->new_session,
                      "the new session needs an id of 1 to 128 bytes without white space");
  for (int i = 0; i < 2; i++)
    if (names[i] && !tp_utf8_valid(tp_text_of(names[i]), NULL))
      return tp__refuse(fault, TP_ERR_UTF8, NULL, "tenant and session of a fork must be UTF-8");
  return TP_OK;
}

static tp_status refuse_fork(const tp_kept_fork *r, bool has_old, bool has_turn, tp_fault *fault) {
  if (has_old && has_turn)
    return tp__refuse(fault, TP_ERR_DUPLICATE_ID, r->new_session, "there is a session %s already", r->new_session);
  if (!has_old) return tp__refuse(fault, TP_ERR_NOT_FOUND, r->session, "there is no session %s", r->session);
  return tp__refuse(fault, TP_ERR_NOT_FOUND, r->turn, "session %s has no turn %s", r->session, r->turn);
}

tp_status tp_postgres_session_fork(tp_postgres *pg, const tp_kept_fork *theirs, uint64_t *ret_messages,
                                   tp_fault *fault) {
  tp_kept_fork request;
  tp__pg_request r;
  if (!pg || !theirs)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_session_fork needs a database and a request");
  tp_status status = tp__struct_read(&request, sizeof request, theirs, "tp_kept_fork", fault);
  if (status == TP_OK) status = check_fork(&request, fault);
  if (status != TP_OK) return status;
  tp__pg_request_init(&r, pg, TP__PG_WRITES, "fork a session");
  tp__pg_parameters *p = tp__pg_request_add(&r, fork_session);
  tp__pg_parameter_text(p, tp_text_of(request.tenant));
  tp__pg_parameter_text(p, tp_text_of(request.session));
  tp__pg_parameter_text(p, tp_text_of(request.new_session));
  tp__pg_parameter_text(p, tp_text_of(request.turn));
  tp__pg_parameter_int(p, tp__pg_next_batch(pg));
  status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    const PGresult *rows = tp__pg_request_rows(&r, 0);
    int64_t before = tp__pg_int(rows, 0, 3), copied = before ? before : tp__pg_int(rows, 0, 2);
    if (copied == 0) status = refuse_fork(&request, tp__pg_int(rows, 0, 0) > 0, tp__pg_int(rows, 0, 1) > 0, fault);
    if (status == TP_OK && ret_messages) *ret_messages = (uint64_t)copied;
  }
  tp__pg_request_fini(&r);
  return status;
}

/* ---- erasing ---- */

enum { SESSIONS_TOGETHER = 100 };

/** Sessions that are erased together. */
typedef struct erasing {
  tp_text tenants[SESSIONS_TOGETHER], sessions[SESSIONS_TOGETHER]; /* copies */
  size_t count;
} erasing;

/* 1 tenants, 2 sessions, 3 the time before which their last message was appended, or 0. */
#define NAMES "unnest($1::bytea[], $2::bytea[]) AS c(tenant, session)"
#define IS_NAMED "convert_to(s.tenant, 'UTF8') = c.tenant AND convert_to(s.name, 'UTF8') = c.session"
/* The sessions on which no process works, and in which nothing was said since they were listed. Their rows are locked,
 * so that this stays so until the commit. One set for all of them: a query for each would cost so much by its plan that
 * the server compiles it, which takes seconds. */
#define OF_LIVE "JOIN @.process p ON p.id = x."
#define LIVES " AND p.lease_end > clock_timestamp() WHERE x."
#define SAID_SINCE                                                                                     \
  "SELECT c.tenant, c.session FROM " NAMES " JOIN @.session s ON " IS_NAMED                            \
  " WHERE $3::bigint > 0 AND (SELECT (extract(epoch FROM m.appended) * 1000)::bigint FROM @.message m" \
  " WHERE m.session = s.id ORDER BY m.position DESC LIMIT 1) >= $3::bigint"
#define FREE                                                                  \
  "c AS (SELECT * FROM " NAMES                                                \
  " WHERE (c.tenant, c.session) NOT IN (SELECT convert_to(x.tenant, 'UTF8')," \
  " convert_to(x.name, 'UTF8') FROM @.session x " OF_LIVE "owner" LIVES       \
  "running UNION ALL SELECT x.tenant,"                                        \
  " x.session FROM @.job x " OF_LIVE "process" LIVES                          \
  "state = 2 UNION ALL SELECT x.tenant, x.session FROM"                       \
  " @.running x " OF_LIVE "process" LIVES "state = 2 UNION ALL " SAID_SINCE "))"
/* Audit rows without a turn are of operators, and stay. */
#define GONE_AUDITS \
  "DELETE FROM @.audit x USING c WHERE x.tenant = c.tenant AND x.session = c.session AND x.turn <> '' RETURNING 1"
#define GONE(table) "DELETE FROM @." table " x USING c WHERE x.tenant = c.tenant AND x.session = c.session RETURNING "
#define OF_ENTRY(table) \
  "DELETE FROM @." table " y USING gone WHERE y.process = gone.process AND y.entry = gone.id RETURNING 1"
#define ALL(a, b, c, d) a " + " b " + " c " + " d
#define COUNT(name) "(SELECT count(*) FROM " name ")"

static const char *const erase_sessions[] = {
    "SELECT s.id FROM @.session s JOIN " NAMES " ON " IS_NAMED " ORDER BY s.id FOR UPDATE OF s",
    "SELECT j.id FROM @.job j JOIN " NAMES " ON j.tenant = c.tenant AND j.session = c.session ORDER BY j.id FOR UPDATE"
    " OF j",
    "WITH " FREE ", k AS (" GONE("job") "x.key_hash) , e AS (" GONE("job_ended") "x.key_hash),"
    " y AS (DELETE FROM @.job_key z USING (SELECT key_hash FROM k UNION ALL SELECT key_hash FROM e) h"
    " WHERE z.hash = h.key_hash RETURNING 1) SELECT " COUNT("k") " + " COUNT("e"),
    "WITH " FREE ", gone AS (" GONE("entry") "x.process, x.id), l AS (" OF_ENTRY("late") "), a AS (" OF_ENTRY(
        "attempt") "), h AS (" OF_ENTRY("content") ") SELECT " ALL(COUNT("gone"), COUNT("l"), COUNT("a"), COUNT("h")),
    "WITH " FREE ", t AS (" GONE("turn") "1), r AS (" GONE("running") "1), a AS (" GONE_AUDITS "), s AS (" GONE(
        "tool_start") "1), q AS (" GONE("question") "1), k AS (" GONE("task") "1)"
    " SELECT " ALL(COUNT("t"), COUNT("r"), COUNT("a"), COUNT("s")) " + " COUNT("q") " + " COUNT("k"),
    /* The last one: what it counts has been erased, and the rest is in use. */
    "WITH " FREE ", gone AS (DELETE FROM @.session s USING c WHERE " IS_NAMED " RETURNING s.id), m AS"
    " (DELETE FROM @.message m USING gone WHERE m.session = gone.id RETURNING 1) SELECT " COUNT("gone") " + " COUNT("m")
    ", " COUNT("c")};
enum { FIRST_COUNT = 2, LAST = 5 };

static void put_names(tp__pg_parameters *p, const erasing *e) {
  const tp_text *const lists[] = {e->tenants, e->sessions};
  for (int l = 0; l < 2; l++) {
    tp__bytes *array = tp__pg_parameter_array(p, TP__PG_BYTEA, e->count);
    for (size_t i = 0; i < e->count; i++) tp__pg_put_bytes(array, lists[l][i]);
  }
}

static tp_status erase_together(tp_postgres *pg, const erasing *e, int64_t before_unix_ms, tp_kept_erased *erased,
                                tp_fault *fault) {
  tp__pg_request r;
  tp__pg_request_init(&r, pg, TP__PG_WRITES, "erase sessions");
  for (int i = 0; i <= LAST; i++) {
    tp__pg_parameters *p = tp__pg_request_add(&r, erase_sessions[i]);
    put_names(p, e);
    if (i >= FIRST_COUNT) tp__pg_parameter_int(p, before_unix_ms);
  }
  tp_status status = tp__pg_request_run(&r, fault);
  if (status == TP_OK) {
    uint64_t sessions = (uint64_t)tp__pg_int(tp__pg_request_rows(&r, LAST), 0, 1);
    for (int i = FIRST_COUNT; i <= LAST; i++) erased->rows += (uint64_t)tp__pg_int(tp__pg_request_rows(&r, i), 0, 0);
    erased->sessions += sessions;
    erased->sessions_in_use += e->count - sessions;
  }
  tp__pg_request_fini(&r);
  return status;
}

/** The names of the sessions that fit. */
typedef struct fitting {
  struct {
    tp_text names[2]; /* tenant and session, copies; data is NULL where there was no memory */
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

static tp_status erase_fitting(tp_postgres *pg, const fitting *f, int64_t before_unix_ms, tp_kept_erased *erased,
                               tp_fault *fault) {
  erasing e = {.count = 0};
  tp_status status = TP_OK;
  for (size_t i = 0; i < f->count && status == TP_OK; i++) {
    e.tenants[e.count] = f->items[i].names[0];
    e.sessions[e.count++] = f->items[i].names[1];
    if (e.count < SESSIONS_TOGETHER && i + 1 < f->count) continue;
    status = erase_together(pg, &e, before_unix_ms, erased, fault);
    e.count = 0;
  }
  return status;
}

static tp_status refuse_erasure(const tp_postgres *pg, uint64_t in_use, tp_fault *fault) {
  return tp__refuse(
      fault, TP_ERR_BUSY, pg->target.name,
      "%s: %llu sessions stay: a process works on them, or has just worked on them; erase them when their turns and "
      "jobs have ended",
      pg->target.name, (unsigned long long)in_use);
}

static tp_status read_choice(tp_kept_choice *choice, const tp_kept_choice *theirs, tp_fault *fault) {
  tp_status status = tp__struct_read(choice, sizeof *choice, theirs, "tp_kept_choice", fault);
  if (status != TP_OK) return status;
  if (choice->matching || choice->person || choice->turns_before_unix_ms || choice->only_counts)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "turns of a database cannot be chosen or counted yet");
  if (choice->with_others > 1) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_choice.with_others is 0 or 1");
  if (choice->tenant || choice->session || choice->before_unix_ms) return TP_OK;
  return tp__refuse(fault, TP_ERR_USAGE, NULL, "which sessions? name a tenant, a session or a time");
}

tp_status tp_postgres_sessions_erase(tp_postgres *pg, const tp_kept_choice *theirs, tp_kept_erased *ret_erased,
                                     tp_fault *fault) {
  tp_kept_choice choice;
  tp_kept_erased erased = {.sessions = 0};
  fitting f = {.count = 0};
  if (!pg || !theirs)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_postgres_sessions_erase needs a database and a request");
  if (ret_erased && (ret_erased->struct_size < sizeof(size_t) || ret_erased->struct_size > 4096))
    return tp__refuse(fault, TP_ERR_VERSION, NULL, "tp_kept_erased has a wrong struct_size");
  tp_status status = read_choice(&choice, theirs, fault);
  if (status != TP_OK) return status;
  const tp_kept_query query = {.struct_size = sizeof query,
                               .tenant = choice.tenant,
                               .session = choice.session,
                               .before_unix_ms = choice.before_unix_ms};
  status = tp_postgres_sessions_list(pg, &query, add_fitting, &f, fault);
  if (status == TP_OK && f.failed) status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory to erase sessions");
  if (status == TP_OK) status = erase_fitting(pg, &f, query.before_unix_ms, &erased, fault);
  fitting_fini(&f);
  if (ret_erased) {
    erased.struct_size = ret_erased->struct_size < sizeof erased ? ret_erased->struct_size : sizeof erased;
    memcpy(ret_erased, &erased, erased.struct_size);
  }
  return status == TP_OK && erased.sessions_in_use ? refuse_erasure(pg, erased.sessions_in_use, fault) : status;
}
