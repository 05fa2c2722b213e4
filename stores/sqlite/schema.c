/* SPDX-License-Identifier: Apache-2.0
 *
 * session: one row per (tenant, session). next is the position of its next message, epoch counts its claims, owner is
 * the process of the newest claim, and running is 1 while the turn of that claim has the session. holder: a process
 * that has such turns; end_ms is the end of its lease on the monotonic clock. message: rows in the order of their ids,
 * which is the order of the appends, and of their positions in the session; unix_ms is when it was appended. tool_call:
 * the calls of an assistant message by index.
 *
 * process: one row per run of a process that has the file open, or that ended without closing it. entry: one row per
 * run of a phase; numbers rise and only the lowest are deleted; ended_ns is 0 while it runs, or when its process ended
 * first. run: its subscriptions, in plan order. attempt: an attempt of a run whose row does not show everything; entry
 * is the id of the entry, with which it is deleted. tool_start: a call of a tool that is not idempotent; arguments is
 * the keyed hash of them; result, value and parts are its answer; they are NULL while it runs, and again when its turn
 * has ended. task: a call that was allowed and is not over; hash is the keyed hash of its arguments. content: a content
 * that passed through a phase; hash is its keyed hash. turn: one row per driven turn. audit: one per audit row. Both
 * are numbered like entries. step: a step for which a turn waited, in the order of the ends; deleted with its turn.
 * running: one row per driven turn that has not ended: state is 2 (it runs), or 8 (a recovery has found that its
 * process ended first). running_step: its steps; deleted with it. died: the newest processes that ended without
 * closing. job: place orders the open jobs of an order key. is_first marks the only one of them that may be claimed.
 * due_ms is the time when it may be claimed: claimable_ms of a queued job, lease_end_ms of a running one. counter: the
 * number of jobs in each tp_job_state, kept by triggers; row 0 has the last place; row -1 exists while an erasure is
 * not over. tenant and session of jobs, tasks and audit rows are those of the turn that made them. */
#include "stores/sqlite/schema.h"

#include "stores/sqlite/sqlite.h"

#define HISTORY_TABLES \
  "CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL,"        \
  "  next INTEGER NOT NULL, owner INTEGER NOT NULL, epoch INTEGER NOT NULL, running INTEGER NOT NULL,"           \
  "  UNIQUE (tenant, name));"                                                                                    \
  "CREATE TABLE holder (process INTEGER PRIMARY KEY, process_id INTEGER NOT NULL,"                               \
  "  process_started INTEGER NOT NULL, end_ms INTEGER NOT NULL, boot_id TEXT NOT NULL);"                         \
  "CREATE TABLE message (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, " TP__SQL_COLUMNS(TP__MESSAGE_LIST)   \
  ", unix_ms INTEGER NOT NULL, position INTEGER NOT NULL);"                                                      \
  "CREATE UNIQUE INDEX message_position ON message (session, position);"                                         \
  "CREATE TABLE tool_call (message INTEGER NOT NULL, position INTEGER NOT NULL, " TP__SQL_COLUMNS(TP__CALL_LIST) \
  ", PRIMARY KEY (message, position)) WITHOUT ROWID;"

#define TURN_COLUMNS TP__SQL_COLUMNS(TP__TURN_LIST) ", " TP__SQL_COLUMNS(TP__ID_LIST)

#define RECORD_TABLES \
  "CREATE TABLE process (id INTEGER PRIMARY KEY, process_id INTEGER NOT NULL, process_started INTEGER NOT NULL," \
  "  opened_unix_ms INTEGER NOT NULL, boot_id TEXT NOT NULL);"                                                   \
  "CREATE TABLE entry (number INTEGER PRIMARY KEY, " TP__SQL_COLUMNS(TP__ENTRY_LIST) ", "                        \
  TP__SQL_COLUMNS(TP__ID_LIST) ");"                                                                              \
  "CREATE UNIQUE INDEX entry_id ON entry (process, id);"                                                         \
  "CREATE INDEX entry_session ON entry (session);"                                                               \
  "CREATE INDEX entry_turn ON entry (turn);"                                                                     \
  "CREATE INDEX entry_running ON entry (process) WHERE ended_ns = 0;"                                            \
  "CREATE TABLE run (entry INTEGER NOT NULL, position INTEGER NOT NULL, " TP__SQL_COLUMNS(TP__RUN_LIST)          \
  ", PRIMARY KEY (entry, position)) WITHOUT ROWID;"                                                              \
  "CREATE TABLE audit (row INTEGER PRIMARY KEY, process INTEGER NOT NULL, " TP__SQL_COLUMNS(TP__AUDIT_LIST) ");" \
  "CREATE TABLE turn (row INTEGER PRIMARY KEY, " TURN_COLUMNS ");"                                               \
  "CREATE INDEX turn_number ON turn (process, number);"                                                          \
  "CREATE INDEX turn_session ON turn (session);"                                                                 \
  "CREATE INDEX turn_turn ON turn (turn);"

#define JOB_TABLES \
  "CREATE TABLE job (place INTEGER NOT NULL, is_first INTEGER NOT NULL, due_ms INTEGER NOT NULL,"                \
  "  process INTEGER NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, " TP__SQL_COLUMNS(TP__JOB_LIST) ");" \
  "CREATE INDEX job_order ON job (order_key, place) WHERE state IN (1, 2);"                                      \
  "CREATE INDEX job_ready ON job (handler, contract_version, id, due_ms) WHERE is_first = 1;"                    \
  "CREATE INDEX job_due ON job (due_ms) WHERE is_first = 1;"                                                     \
  "CREATE INDEX job_running ON job (process) WHERE state = 2;"                                                   \
  "CREATE INDEX job_done ON job (ended_ms, id) WHERE state IN (3, 5);"                                           \
  "CREATE INDEX job_dead ON job (ended_ms, id) WHERE state = 4;"                                                 \
  "CREATE TABLE counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL);"                                       \
  "INSERT INTO counter VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0);"                                   \
  "CREATE TRIGGER job_inserted AFTER INSERT ON job BEGIN"                                                        \
  "  UPDATE counter SET value = value + 1 WHERE id = NEW.state; END;"                                            \
  "CREATE TRIGGER job_moved AFTER UPDATE OF state ON job WHEN OLD.state <> NEW.state BEGIN"                      \
  "  UPDATE counter SET value = value - 1 WHERE id = OLD.state;"                                                 \
  "  UPDATE counter SET value = value + 1 WHERE id = NEW.state; END;"                                            \
  "CREATE TRIGGER job_deleted AFTER DELETE ON job BEGIN"                                                         \
  "  UPDATE counter SET value = value - 1 WHERE id = OLD.state; END;"

#define STEP_COLUMNS "position INTEGER NOT NULL, " TP__SQL_COLUMNS(TP__STEP_LIST)

#define STEP_TABLES                                         \
  "CREATE TABLE step (turn INTEGER NOT NULL, " STEP_COLUMNS \
  ", PRIMARY KEY (turn, position)) WITHOUT ROWID;"          \
  "CREATE TRIGGER turn_deleted AFTER DELETE ON turn BEGIN DELETE FROM step WHERE turn = OLD.row; END;"

#define RUNNING_TABLES                                                                                               \
  "CREATE TABLE running (row INTEGER PRIMARY KEY, state INTEGER NOT NULL, " TURN_COLUMNS                             \
  ");"                                                                                                               \
  "CREATE UNIQUE INDEX running_number ON running (process, number);"                                                 \
  "CREATE TABLE running_step (running INTEGER NOT NULL, " STEP_COLUMNS                                               \
  ", PRIMARY KEY (running, position))"                                                                               \
  "  WITHOUT ROWID;"                                                                                                 \
  "CREATE TRIGGER running_deleted AFTER DELETE ON running BEGIN"                                                     \
  "  DELETE FROM running_step WHERE running = OLD.row; END;"                                                         \
  "CREATE TABLE died (row INTEGER PRIMARY KEY AUTOINCREMENT, process INTEGER NOT NULL UNIQUE, turn INTEGER NOT NULL" \
  ");"

#define ATTEMPT_TABLES \
  "CREATE TABLE attempt (row INTEGER PRIMARY KEY, " TP__SQL_COLUMNS(TP__ATTEMPT_LIST) ");" \
  "CREATE INDEX attempt_entry ON attempt (process, entry);"                                \
  "CREATE TRIGGER entry_deleted AFTER DELETE ON entry BEGIN"                               \
  "  DELETE FROM attempt WHERE process = OLD.process AND entry = OLD.id; END;"

#define TOOL_TABLES \
  "CREATE TABLE tool_start (row INTEGER PRIMARY KEY AUTOINCREMENT, " TP__SQL_COLUMNS(TP__TOOL_START_LIST) \
  ", " TP__SQL_COLUMNS(TP__TOOL_END_LIST) ");" \
  "CREATE INDEX tool_start_turn ON tool_start (turn, session, tenant);"

#define CONTENT_TABLES \
  "CREATE TABLE content (row INTEGER PRIMARY KEY, " TP__SQL_COLUMNS(TP__CONTENT_LIST) ");" \
  "CREATE INDEX content_entry ON content (process, entry);"                                \
  "CREATE TRIGGER entry_content_deleted AFTER DELETE ON entry BEGIN"                       \
  "  DELETE FROM content WHERE process = OLD.process AND entry = OLD.id; END;"

#define QUESTION_TABLES \
  "CREATE TABLE question (" TP__SQL_COLUMNS(TP__QUESTION_LIST) ");" \
  "CREATE INDEX question_call ON question (turn, call_id, session, tenant);"

#define TASK_TABLES "CREATE TABLE task (" TP__SQL_COLUMNS(TP__TASK_LIST) ") WITHOUT ROWID;"

static const char *const tables[] = {HISTORY_TABLES,  RECORD_TABLES,  JOB_TABLES,  STEP_TABLES,
                                     RUNNING_TABLES,  ATTEMPT_TABLES, TOOL_TABLES, CONTENT_TABLES,
                                     QUESTION_TABLES, TASK_TABLES,    NULL};

/* Rows of before a column was there. A message is as old as the upgrade, so that no age deletes what was said since. */
static const tp__sqlite_fill fills[] = {
    {"counter", NULL, "INSERT INTO counter SELECT 0, coalesce(max(place), 0) FROM job"},
    {"counter", NULL,
     "INSERT INTO counter SELECT state, (SELECT count(*) FROM job WHERE job.state = numbers.state)"
     " FROM (SELECT 1 AS state UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5) AS numbers"},
    {"message", "position",
     "UPDATE message SET position = at.place FROM (SELECT id, row_number() OVER (PARTITION BY session ORDER BY id) - 1"
     " AS place FROM message) AS at WHERE at.id = message.id"},
    {"message", "unix_ms", "UPDATE message SET unix_ms = CAST(strftime('%s', 'now') AS INTEGER) * 1000"},
    {"session", "next",
     "UPDATE session SET next = said.messages FROM (SELECT session, count(*) AS messages FROM message GROUP BY session)"
     " AS said WHERE said.session = session.id"},
    {NULL, NULL, NULL}};

/* Version 1 had many forms, and there were versions up to 12 before it. */
const tp__sqlite_schema tp__sqlite_store_schema = {.noun = "a store of turnphase",
                                                   .application_id = 0x54704869, /* "TpHi" */
                                                   .version = 13,
                                                   .sql = tables,
                                                   .fills = fills,
                                                   .overwrites_deleted = true,
                                                   .shrinks = true};
