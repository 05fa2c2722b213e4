/* SPDX-License-Identifier: Apache-2.0
 *
 * version: one row; its lock is held while the tables are made or upgraded.
 * process: one row per host that has running turns, with the end of its lease by the server's clock.
 * session: one row per (tenant, name): next is the position of its next message; epoch counts its claims, owner is the
 * process of the newest, and running is true while its turn has the session. No index has a column that a turn changes.
 * message: texts are bytes; calls is a value; batch is the number of the append that it came with, random for each
 * process, by which an append is recognized when its commit was not acknowledged.
 * secret: the key of hashes.
 * job_key: each idempotency key that is known, by its SHA-256, and the id of its job.
 * job: open jobs; place orders those of an order key, whose hash is order_hash. batch is the number of the claim that
 * it has; mark that of what put it back. No index has a column that a heartbeat changes; the unique one lets only one
 * job of an order key run, whatever two workers see.
 * job_ended: those that ended; number orders their ends.
 * tool_start: calls of tools that are not idempotent; turn_hash is of tenant, session and turn; batch is the number of
 * its start, taken that of the last run that was matched with it.
 * entry, turn, running, audit, attempt, content, late: records (records.h). place is their order; value is the record
 * (record_values.h), whose queried members are columns. running is of turns that have not ended.
 * died: processes that died, each with the place of the last turn that had ended then. flush: always empty.
 * task, question: as their functions say (tasks.c, questions.c).
 * memory_scope: one row per (tenant, kind, name) that memories are kept for, found by key_hash; last is its highest id,
 * changes counts replaced texts, replaced facts and deletions. memory: what is kept; one with a subject is a fact.
 * memory_vector, memory_embedded: its vectors, whose scale are the bits of a double, and up to which id there are all.
 * memory_erased: deletions of the last hour, each with its number and what it counted (memory.c).
 * Tenants and names compare by their bytes, whatever the locale of the database, and whatever its next version. */
#include "stores/postgres/schema.h"

#include <assert.h>
#include <string.h>

#include "stores/postgres/parameters.h"
#include "support/fault.h"

static const char *const version_1[] = {
    "CREATE TABLE @.process (id bigint PRIMARY KEY, address text NOT NULL, lease_end timestamptz NOT NULL,"
    " started timestamptz NOT NULL) WITH (fillfactor = 70)",
    "CREATE TABLE @.session (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant text COLLATE \"C\" NOT NULL,"
    " name text COLLATE \"C\" NOT NULL, next bigint NOT NULL, owner bigint NOT NULL, epoch bigint NOT NULL,"
    " running boolean NOT NULL, UNIQUE (tenant, name)) WITH (fillfactor = 70)",
    "CREATE TABLE @.message (session bigint NOT NULL, position bigint NOT NULL, role smallint NOT NULL,"
    " is_error boolean NOT NULL, turn bytea NOT NULL, text bytea NOT NULL, call_id bytea NOT NULL,"
    " name bytea NOT NULL, parts bytea NOT NULL, value bytea NOT NULL, provider_data bytea NOT NULL,"
    " ending bytea NOT NULL, calls bytea NOT NULL, batch bigint NOT NULL, appended timestamptz NOT NULL,"
    " PRIMARY KEY (session, position))",
    NULL};

#define JOB_COLUMNS                                                                                                 \
  "state smallint NOT NULL, claim bigint NOT NULL, attempt bigint NOT NULL, attempts_max bigint NOT NULL,"          \
  " backoff bigint NOT NULL, backoff_ms bigint NOT NULL, limit_ms bigint NOT NULL, phase bigint NOT NULL,"          \
  " contract_version bigint NOT NULL, reason bigint NOT NULL, code bigint NOT NULL, inserted_ms bigint NOT NULL,"   \
  " claimable_ms bigint NOT NULL, lease_end_ms bigint NOT NULL, ended_ms bigint NOT NULL, postponed_ms bigint NOT"  \
  " NULL, handler bytea NOT NULL, subscription bytea NOT NULL, idempotency_key bytea NOT NULL, order_key bytea NOT" \
  " NULL, message bytea NOT NULL, payload bytea NOT NULL, key_hash bytea NOT NULL, order_hash bigint NOT NULL,"     \
  " process bigint NOT NULL, batch bigint NOT NULL, mark bigint NOT NULL"
/* Storage parameters of small tables that change often: their dead rows are removed early. */
#define OLD_GO "(autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1)"
#define BUSY "(fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500)"

static const char *const version_2[] = {
    "CREATE TABLE @.secret (id integer PRIMARY KEY CHECK (id = 1), key bytea NOT NULL)",
    "CREATE TABLE @.job_key (hash bytea PRIMARY KEY, id bigint GENERATED ALWAYS AS IDENTITY, batch bigint NOT NULL)",
    "CREATE TABLE @.job (id bigint PRIMARY KEY, place bigint NOT NULL, " JOB_COLUMNS ") WITH " BUSY,
    "CREATE INDEX job_order ON @.job (order_hash, place, id)",
    "CREATE INDEX job_waiting ON @.job (handler, contract_version, id) WHERE state = 1",
    "CREATE UNIQUE INDEX job_running ON @.job (order_hash) WHERE state = 2",
    "CREATE TABLE @.job_ended (id bigint PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY, " JOB_COLUMNS ")",
    "CREATE INDEX job_done ON @.job_ended (number) WHERE state <> 4",
    "CREATE INDEX job_dead ON @.job_ended (number) WHERE state = 4",
    "CREATE TABLE @.tool_start (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, turn_hash bigint NOT NULL,"
    " tenant bytea NOT NULL, session bytea NOT NULL, turn bytea NOT NULL, tool bytea NOT NULL, arguments bytea NOT"
    " NULL, call_id bytea NOT NULL, call_index bigint NOT NULL, started_unix_ms bigint NOT NULL, run_process bigint NOT"
    " NULL, run_turn bigint NOT NULL, batch bigint NOT NULL, taken bigint NOT NULL, kind bigint NOT NULL, result bytea,"
    " value bytea, parts bytea)",
    "CREATE INDEX tool_start_turn ON @.tool_start (turn_hash, id)",
    "CREATE TABLE @.task (key_hash bytea PRIMARY KEY, is_begun boolean NOT NULL, batch bigint NOT NULL, taken bigint "
    "NOT"
    " NULL, created_unix_ms bigint NOT NULL, key bytea NOT NULL, tool bytea NOT NULL, agent bytea NOT NULL, arguments"
    " bytea NOT NULL, tenant bytea NOT NULL, session bytea NOT NULL, hash bytea NOT NULL)",
    "CREATE TABLE @.question (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, call_hash bigint NOT NULL, state"
    " bigint NOT NULL, waits boolean NOT NULL, asked_ms bigint NOT NULL, expires_ms bigint NOT NULL, answered_ms bigint"
    " NOT NULL, used_ms bigint NOT NULL, batch bigint NOT NULL, taken bigint NOT NULL, tenant bytea NOT NULL, agent"
    " bytea NOT NULL, session bytea NOT NULL, turn bytea NOT NULL, tool bytea NOT NULL, call_id bytea NOT NULL,"
    " arguments bytea NOT NULL, hash bytea NOT NULL, subscription bytea NOT NULL, reason bytea NOT NULL, person bytea"
    " NOT NULL, answer bytea NOT NULL, edited bytea NOT NULL)",
    "CREATE INDEX question_call ON @.question (call_hash, number)",
    "CREATE INDEX question_open ON @.question (number) WHERE state = 0",
    NULL};

#define ID_COLUMNS                                                                                                  \
  "tenant bytea NOT NULL, agent bytea NOT NULL, workspace bytea NOT NULL, session bytea NOT NULL, thread bytea NOT" \
  " NULL, turn bytea NOT NULL, task bytea NOT NULL, run bytea NOT NULL"
#define PLACE "place bigint GENERATED ALWAYS AS IDENTITY"

static const char *const version_3[] = {
    "CREATE TABLE @.entry (" PLACE
    " UNIQUE, process bigint NOT NULL, id bigint NOT NULL, started_unix_ms bigint NOT"
    " NULL, ended_ns bigint NOT NULL, phase bigint NOT NULL, status bigint NOT NULL, " ID_COLUMNS
    ", value bytea NOT NULL, PRIMARY KEY (process, id)) WITH " OLD_GO,
    "CREATE INDEX entry_session ON @.entry (session, place)",
    "CREATE INDEX entry_turn ON @.entry (turn, place)",
    "CREATE INDEX entry_running ON @.entry (process) WHERE ended_ns = 0",
    "CREATE TABLE @.late (process bigint NOT NULL, entry bigint NOT NULL, position bigint NOT NULL, late_ns bigint NOT"
    " NULL, PRIMARY KEY (process, entry, position))",
    "CREATE TABLE @.attempt (" PLACE
    " UNIQUE, mark bigint PRIMARY KEY, process bigint NOT NULL, entry bigint NOT NULL,"
    " position bigint NOT NULL, number bigint NOT NULL, value bytea NOT NULL) WITH " OLD_GO,
    "CREATE INDEX attempt_entry ON @.attempt (process, entry)",
    "CREATE TABLE @.content (" PLACE
    " UNIQUE, mark bigint PRIMARY KEY, process bigint NOT NULL, entry bigint NOT NULL,"
    " value bytea NOT NULL) WITH " OLD_GO,
    "CREATE INDEX content_entry ON @.content (process, entry)",
    "CREATE TABLE @.turn (" PLACE
    " UNIQUE, process bigint NOT NULL, number bigint NOT NULL, outcome bigint NOT NULL,"
    " ended_unix_ms bigint NOT NULL, " ID_COLUMNS ", value bytea NOT NULL, PRIMARY KEY (process, number)) WITH " OLD_GO,
    "CREATE INDEX turn_session ON @.turn (session, place)",
    "CREATE INDEX turn_turn ON @.turn (turn, place)",
    "CREATE TABLE @.running (" PLACE
    " UNIQUE, process bigint NOT NULL, number bigint NOT NULL, state bigint NOT NULL,"
    " ended_unix_ms bigint NOT NULL, " ID_COLUMNS ", value bytea NOT NULL, PRIMARY KEY (process, number)) WITH " BUSY,
    "CREATE TABLE @.died (" PLACE " UNIQUE, process bigint PRIMARY KEY, turn bigint NOT NULL)",
    "CREATE TABLE @.audit (" PLACE
    " UNIQUE, mark bigint PRIMARY KEY, unix_ms bigint NOT NULL, phase bigint NOT NULL,"
    " tenant bytea NOT NULL, session bytea NOT NULL, turn bytea NOT NULL, value bytea NOT NULL) WITH " OLD_GO,
    "CREATE INDEX audit_session ON @.audit (session, place)",
    "CREATE TABLE @.flush (id bigint PRIMARY KEY)",
    NULL};

/* The turn to which each job belongs: as its payload has it, until the job has ended. */
static const char *const version_4[] = {
    "ALTER TABLE @.job ADD COLUMN tenant bytea NOT NULL DEFAULT '', ADD COLUMN session bytea NOT NULL DEFAULT ''",
    "ALTER TABLE @.job_ended ADD COLUMN tenant bytea NOT NULL DEFAULT '', ADD COLUMN session bytea NOT NULL DEFAULT ''",
    NULL};

static const char *const version_5[] = {
    "CREATE TABLE @.memory_scope (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key_hash bytea NOT NULL UNIQUE,"
    " tenant bytea NOT NULL, kind bytea NOT NULL, name bytea NOT NULL, memories bigint NOT NULL, last bigint NOT NULL,"
    " changes bigint NOT NULL) WITH (fillfactor = 70)",
    "CREATE TABLE @.memory (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope bigint NOT NULL, key_hash bytea"
    " NOT NULL, said_ms bigint NOT NULL, session bytea NOT NULL, turn bytea NOT NULL, part bytea NOT NULL, text bytea"
    " NOT NULL, subject bytea NOT NULL, replaced_ms bigint NOT NULL, replaced_by bigint NOT NULL,"
    " UNIQUE (scope, key_hash)) WITH " OLD_GO,
    "CREATE INDEX memory_of_scope ON @.memory (scope, id)",
    "CREATE INDEX memory_fact ON @.memory (scope, replaced_ms) WHERE subject <> ''",
    "CREATE INDEX memory_replaced_by ON @.memory (replaced_by) WHERE replaced_by <> 0",
    "CREATE TABLE @.memory_embedded (scope bigint PRIMARY KEY, embedder bytea NOT NULL, upto bigint NOT NULL)",
    "CREATE TABLE @.memory_vector (memory bigint PRIMARY KEY, scope bigint NOT NULL, scale bigint NOT NULL, bytes bytea"
    " NOT NULL) WITH " OLD_GO,
    "CREATE INDEX memory_vector_scope ON @.memory_vector (scope, memory)",
    "CREATE TABLE @.memory_erased (batch bigint PRIMARY KEY, memories bigint NOT NULL, erased timestamptz NOT NULL)",
    NULL};

/** What upgrades the schema from each version to the next one. */
static const char *const *const upgrades[TP__PG_SCHEMA_VERSION] = {version_1, version_2, version_3, version_4,
                                                                   version_5};

static const char read_version[] = "SELECT version::bigint FROM @.version WHERE id = 1";
static const char lock_version[] = "SELECT version::bigint FROM @.version WHERE id = 1 FOR UPDATE";

char *tp__pg_expand(const char *sql, const char *quoted) {
  tp__bytes bytes = {0};
  for (const char *at = sql; *at;) {
    size_t size = strcspn(at, "@");
    tp__bytes_put(&bytes, at, size);
    if (at[size]) tp__bytes_put_string(&bytes, quoted);
    at += size + (at[size] != '\0');
  }
  char *expanded = bytes.failed ? NULL : tp__heap_copy(tp__bytes_text(&bytes));
  tp__bytes_fini(&bytes);
  return expanded;
}

/** An opening that is under way. */
typedef struct opening {
  const tp__pg_target *target;
  PGconn *connection;
  const char *quoted;
  char sqlstate[6]; /* that of the last statement that failed */
  tp_fault *fault;
} opening;

/* @param ret_rows  NULL: the rows are not wanted. */
static tp_status run_expanded(opening *o, const char *sql, PGresult **ret_rows) {
  char *expanded = tp__pg_expand(sql, o->quoted);
  if (!expanded) return tp__refuse(o->fault, TP_ERR_NO_MEMORY, NULL, "no memory for a statement");
  PGresult *rows = PQexecParams(o->connection, expanded, 0, NULL, NULL, NULL, NULL, 1);
  ExecStatusType got = PQresultStatus(rows); /* for NULL this returns PGRES_FATAL_ERROR */
  tp__heap_string_free(expanded);
  if (got == PGRES_COMMAND_OK || got == PGRES_TUPLES_OK) {
    if (ret_rows) *ret_rows = rows;
    else PQclear(rows);
    return TP_OK;
  }
  const char *sqlstate = PQresultErrorField(rows, PG_DIAG_SQLSTATE);
  const char *message = PQresultErrorField(rows, PG_DIAG_MESSAGE_PRIMARY);
  memset(o->sqlstate, 0, sizeof o->sqlstate);
  if (sqlstate && strlen(sqlstate) < sizeof o->sqlstate) memcpy(o->sqlstate, sqlstate, strlen(sqlstate));
  tp_status status = tp__pg_refuse(o->target, tp__pg_meaning_of(sqlstate).status, "open the schema",
                                   message ? message : PQerrorMessage(o->connection), sqlstate, o->fault);
  PQclear(rows);
  return status;
}

/* @return also TP_ERR_NOT_FOUND: there is no schema, or it has no version. */
static tp_status read_version_by(opening *o, const char *sql, int64_t *ret_version) {
  PGresult *rows = NULL;
  tp_status status = run_expanded(o, sql, &rows);
  bool is_absent = strcmp(o->sqlstate, "42P01") == 0 || strcmp(o->sqlstate, "3F000") == 0;
  if (status != TP_OK)
    return is_absent ? tp__refuse(o->fault, TP_ERR_NOT_FOUND, o->target->name, "%s has no schema %s", o->target->name,
                                  o->quoted)
                     : status;
  bool has_row = PQntuples(rows) == 1;
  if (has_row) *ret_version = tp__pg_int(rows, 0, 0);
  PQclear(rows);
  if (has_row) return TP_OK;
  return tp__refuse(o->fault, TP_ERR_NOT_FOUND, o->target->name, "%s has no version of schema %s", o->target->name,
                    o->quoted);
}

static tp_status refuse_version(const opening *o, int64_t version) {
  return tp__refuse(o->fault, TP_ERR_STORE_SCHEMA, o->target->name,
                    "%s: schema %s has version %lld, and this library %d: use %s", o->target->name, o->quoted,
                    (long long)version, TP__PG_SCHEMA_VERSION,
                    version > TP__PG_SCHEMA_VERSION ? "a newer turnphase" : "one that may upgrade it once");
}

/* Whether another process may have created the same at the same time. Then both can fail because of unique indexes of
 * the catalog, despite IF NOT EXISTS: the failed statement is tried again, and finds what the other process made. */
static bool may_have_met_another(const opening *o) {
  static const char *const states[] = {"23505", "42P06", "42P07", "42710", "40001", "40P01", "XX000"};
  for (size_t i = 0; i < sizeof states / sizeof *states; i++)
    if (strcmp(o->sqlstate, states[i]) == 0) return true;
  return false;
}

static tp_status make_version(opening *o) {
  enum { TRIES = 10 };
  static const char *const statements[] = {
      "CREATE SCHEMA IF NOT EXISTS @",
      "CREATE TABLE IF NOT EXISTS @.version (id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL)",
      "INSERT INTO @.version (id, version) VALUES (1, 0) ON CONFLICT (id) DO NOTHING"};
  tp_status status = TP_OK;
  for (int i = 0; i < TRIES; i++) {
    /* If the schema exists, the role needs no right to create one, but PostgreSQL would check the right even with IF
     * NOT EXISTS. */
    status = run_expanded(o, statements[0], NULL);
    bool may_not = status != TP_OK && strcmp(o->sqlstate, "42501") == 0;
    if (may_not) status = TP_OK;
    for (size_t s = 1; status == TP_OK && s < sizeof statements / sizeof *statements; s++)
      status = run_expanded(o, statements[s], NULL);
    if (may_not && status == TP_ERR_STORE_SCHEMA)
      return tp__refuse(o->fault, TP_ERR_STORE_READONLY, o->target->name,
                        "%s: there is no schema %s, and the role may not make it: GRANT CREATE ON DATABASE, or let an "
                        "administrator run CREATE SCHEMA %s AUTHORIZATION the role",
                        o->target->name, o->quoted, o->quoted);
    if (status == TP_OK || !may_have_met_another(o)) break;
  }
  return status;
}

/* Runs in a transaction that holds the lock of the version. */
static tp_status upgrade_in_transaction(opening *o) {
  int64_t version = 0;
  tp_status status = read_version_by(o, lock_version, &version);
  if (status == TP_OK && version > TP__PG_SCHEMA_VERSION) status = refuse_version(o, version);
  for (; status == TP_OK && version < TP__PG_SCHEMA_VERSION; version++) {
    const char *const *statements = upgrades[version];
    while (status == TP_OK && *statements) status = run_expanded(o, *statements++, NULL);
    if (status == TP_OK) status = run_expanded(o, "UPDATE @.version SET version = version + 1 WHERE id = 1", NULL);
  }
  return status;
}

static tp_status upgrade(opening *o) {
  tp_status status = run_expanded(o, "BEGIN", NULL);
  if (status == TP_OK) status = upgrade_in_transaction(o);
  if (status == TP_OK) return run_expanded(o, "COMMIT", NULL);
  tp_fault *fault = o->fault;
  o->fault = NULL; /* the first fault is kept */
  (void)!run_expanded(o, "ROLLBACK", NULL);
  o->fault = fault;
  return status;
}

tp_status tp__pg_schema_open(const tp__pg_target *target, PGconn *connection, const char *quoted, bool existing_only,
                             tp_fault *fault) {
  opening o = {.target = target, .connection = connection, .quoted = quoted, .fault = fault};
  int64_t version = 0;
  tp_status status = read_version_by(&o, read_version, &version); /* without a lock, since a lock needs the right to
                                                                     write */
  if (status == TP_OK && version == TP__PG_SCHEMA_VERSION) return TP_OK;
  if (status == TP_OK && (version > TP__PG_SCHEMA_VERSION || existing_only)) return refuse_version(&o, version);
  if (status == TP_ERR_NOT_FOUND && !existing_only) status = make_version(&o);
  return status == TP_OK ? upgrade(&o) : status;
}
