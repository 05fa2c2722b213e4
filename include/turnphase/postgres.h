/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres.h: the library turnphase-postgres: the history of sessions, and a store, in a PostgreSQL database (13 or
 * later), which hosts on several machines share. A handle has a few connections and one thread, which writes everything
 * that waits at the same time, of any sessions and jobs, in one transaction. Threads: any. */
#ifndef TURNPHASE_POSTGRES_H
#define TURNPHASE_POSTGRES_H

#include "turnphase/questions.h"
#include "turnphase/sessions.h"
#include "turnphase/store.h"

TP_BEGIN_DECLS

struct tp_memory_store; /* memory_store.h */

/** A database, with its connections. Counted: the caller of tp_postgres_open() has a reference, and so has each history
 *  and each store that was made from it. */
typedef struct tp_postgres tp_postgres;

/** Options of a database; zero means default. Everything is copied. */
typedef struct tp_postgres_options {
  size_t struct_size;
  /** Required: a connection string of libpq, "postgres://user@host/database" or "host=… dbname=…". What it lacks comes
   *  from where libpq looks: PGPASSWORD and the other variables of the environment, the password file, a service. Its
   *  password is in no fault, and in no log record. */
  const char *conninfo;
  /** The PostgreSQL schema that has the tables; NULL: "turnphase". At most 63 bytes. */
  const char *schema;
  /** The name of this host that other hosts are shown while a turn of this host has a session; NULL: "process ID on
   *  HOSTNAME". */
  const char *address;
  /** The lease: for how long a host that was stopped, or that died, keeps the sessions of its running turns from other
   *  hosts; 0: 15,000. While the host runs, its leases are renewed every third of that. The server's clock counts. */
  uint32_t lease_ms;
  /** How long a call is tried, through lost connections and restarts of the server, until it fails; 0: 25,000. */
  uint32_t timeout_ms;
  /** How long the server may work on one statement, and wait for a lock; a connection that is silent for 2 s more is
   *  given up. 0: 10,000. */
  uint32_t statement_ms;
  /** 1: a schema that is not there gives TP_ERR_NOT_FOUND and is not made; a schema of an earlier version gives
   *  TP_ERR_STORE_SCHEMA and is not upgraded. */
  uint32_t existing_only;
  /** Called, without any lock, when a connection is lost, and when there is a connection again. It must not use the
   *  database. May be NULL. */
  tp_log_fn log;
  /** Of log; both until the last reference ends. */
  void *log_ctx;
} tp_postgres_options;

/** Connects, and makes or upgrades the schema: one process at a time does this, and the others wait for it.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_STORE: no connection, with the server's reason;
 *          TP_ERR_STORE_SCHEMA: a newer or a foreign schema; TP_ERR_STORE_READONLY: the role lacks a right, or the
 *          server is a standby; TP_ERR_NOT_FOUND with existing_only; TP_ERR_STORE_BUSY; TP_ERR_STORE_FULL;
 *          TP_ERR_NO_MEMORY; TP_ERR_NO_THREAD.
 *  Threads: any.   Blocks: on the server, for at most about timeout_ms. */
TP_API tp_status tp_postgres_open(const tp_postgres_options *options, tp_postgres **ret_postgres,
                                  tp_fault *fault) TP_MUST_USE;
/** Ends the caller's reference. With the last reference, writes that wait are still tried for at most 5 s, and the
 *  connections are closed. Accepts NULL.   Threads: any. */
TP_API void tp_postgres_close(tp_postgres *postgres);

/** The history of sessions in the database. It is shared (tp_history.shared): a turn claims its session when it begins,
 *  and its append compares number, fence and position. A turn that finds nothing new waits for the server twice, and
 *  holds no thread meanwhile. An acknowledged append was committed with synchronous_commit on, at least. When the
 *  connection is lost before the commit of an append is acknowledged, the append is looked for before it is tried
 *  again. An append that is still not acknowledged after timeout_ms fails (TP_ERR_STORE), and then it may be in the
 *  database or not; the turn's claim is released when the server answers. Messages may have any bytes; tenants and
 *  sessions must be UTF-8 (TP_ERR_UTF8). Give it to tp_history_share() or tp_session_options.history, which take it, or
 *  free it with tp_history_free().
 *  @return TP_OK; TP_ERR_USAGE; TP_ERR_NO_MEMORY.   Threads: any.   Blocks: no. */
TP_API tp_status tp_postgres_history(tp_postgres *postgres, tp_history **ret_history, tp_fault *fault) TP_MUST_USE;

/** Options of a store in a database; zero means default. */
typedef struct tp_postgres_store_options {
  size_t struct_size;
  /** The most open jobs; 0: 65,536; above it an insert gives TP_ERR_FULL. Each host counts the jobs only from time to
   *  time, so that several hosts together may insert a few more. */
  size_t jobs_max;
  /** How many ended jobs are known by id and key, about, the newest ones: jobs that succeeded or were discarded, and
   *  dead letters; 0: 10,000. */
  size_t jobs_ended_max;
  /** 1, for tests: the times of requests (tp_job_claim.now_ms and the like) count. 0: only their differences count, as
   *  durations, and the time is that of the server's clock. */
  uint32_t callers_clock;
  /** 1: the store keeps the size and a keyed hash of payload fields and contributions (HMAC-SHA-256; the random key is
   *  in the schema's table secret). The content is copied into the queue, and the connections' thread hashes it. */
  uint32_t content_hashes;
  /** About how many entry records are kept, the newest ones; 0: 100,000. */
  size_t records_max;
  /** About how many turn records are kept, the newest ones; 0: 100,000. */
  size_t turns_max;
  /** About how many audit rows are kept, the newest ones; 0: 100,000. */
  size_t audits_max;
  /** The most bytes of records that wait to be written; 0: 8 MiB. Records that do not fit are dropped, counted and
   *  logged. */
  size_t queue_bytes_max;
  /** Older records are deleted, by the server's clock; 0: no bound. A host applies its own bounds, all of them, when it
   *  writes. */
  uint32_t age_max_s;
  /** Must be zero. */
  uint32_t reserved_;
} tp_postgres_store_options;

/** The store in the database: records, jobs, calls of tools, and tasks. Records are copied into a queue, and a
 *  connection of their own writes them. With durability SYNC, and once commit() has returned, they are on the server's
 *  disk; otherwise a crash of the server may lose those of the last 600 ms (3 * wal_writer_delay). Any host with the
 *  same database may claim its jobs. When a function that changes a job, call or task returns, the change is committed
 *  with synchronous_commit on; a change whose commit was not acknowledged is looked for before it is made again. From
 *  open to destroy the process has a lease, which is renewed every third of lease_ms. When the lease has ended, the
 *  running jobs of the process are queued again by any other process, which looks every half of its own lease, or are
 *  dead letters after their last attempt. tool_start and job_insert return TP_ERR_FENCED when another process has
 *  claimed the session since the turn's claim. Texts may have any bytes; tenant and session must be UTF-8 if a fence is
 *  given. The hashes of arguments have a random key, which is in the table `secret`. Breadcrumbs (tp_breadcrumb) are in
 *  memory: the function that a process called when it died is not known. Give it to tp_runtime_options.store, which
 *  takes it, or free it with tp_store_free().
 *  @param options  NULL: all defaults.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_STORE…; TP_ERR_NO_MEMORY.
 *  Threads: any.   Blocks: on the server. */
TP_API tp_status tp_postgres_store(tp_postgres *postgres, const tp_postgres_store_options *options,
                                   tp_store **ret_store, tp_fault *fault) TP_MUST_USE;

/* ---- memories ------------------------------------------------------------------------------------------------ */

/** The memories in the database, for tp_memory_options.store and tp_memory_open_store(): hosts with the same database
 *  recall what any of them kept. A function of the store that blocks waits for the server. To keep memories, to delete
 *  them, and to read the texts that are recalled takes one round trip each. To read the memories that were added to a
 *  scope since the last time takes one for each page of rows. Memories that wait to be kept at the same time, of any
 *  sessions, are kept in one transaction, which is committed with synchronous_commit on. A commit that was not
 *  acknowledged is done again, and keeps nothing twice. A deleted memory is in no table any more; PostgreSQL has copies
 *  in its files until VACUUM, and in its log, its standbys and backups as long as these are kept. On the database's own
 *  thread a function that blocks returns TP_ERR_USAGE.
 *  @param ret_store  the caller sets its struct_size. Its destroy ends the reference that it has.
 *  @return TP_OK; TP_ERR_USAGE; TP_ERR_VERSION; TP_ERR_NO_MEMORY.   Threads: any.   Blocks: no. */
TP_API tp_status tp_postgres_memory(tp_postgres *postgres, struct tp_memory_store *ret_store,
                                    tp_fault *fault) TP_MUST_USE;

/* ---- questions to people --------------------------------------------------------------------------------------- */

/** A channel for questions (people.h) in the database: a question is a row, and any process with the same database may
 *  answer it, once. When the process that asked has ended, the answer still counts for its turn: when the turn is
 *  submitted again by its id, on any host, and asks about the same call with the same arguments, it gets the answer of
 *  the row, once. The server's clock says when a question expires. Owns a thread. */
typedef struct tp_postgres_questions tp_postgres_questions;

/** Options of a channel for questions; zero means default. */
typedef struct tp_postgres_questions_options {
  size_t struct_size;
  /** How often the channel looks for answers while a question is open, in ms; 0: 1,000. */
  uint32_t poll_ms;
  /** Must be zero. */
  uint32_t reserved_;
  /** Receives errors of the database: a question that cannot be written is denied. May be NULL. */
  tp_log_fn log;
  void *log_ctx;
} tp_postgres_questions_options;

/** Opens the channel, which has a reference to the database.
 *  @param options  NULL: all defaults.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_STORE…; TP_ERR_NO_THREAD; TP_ERR_NO_MEMORY.
 *  Threads: any.   Blocks: on the server. */
TP_API tp_status tp_postgres_questions_open(tp_postgres *postgres, const tp_postgres_questions_options *options,
                                            tp_postgres_questions **ret_questions, tp_fault *fault) TP_MUST_USE;
/** A tp_question_fn: tp_runtime_options.ask or tp_session_options.ask, with ask_ctx the tp_postgres_questions.
 *  Threads: any, several at once.   Blocks: no. */
TP_API void tp_postgres_questions_put(void *questions, const tp_question *question);
/** Closes the channel. Its open questions are denied; their rows stay. Call it after the runtimes that use it were
 *  freed. Accepts NULL.
 *  Threads: any.   Blocks: on the server, for at most about timeout_ms for each change that waits. */
TP_API void tp_postgres_questions_close(tp_postgres_questions *questions);
/** Lists the questions in the database, the oldest first.
 *  @param open_only  only those that may be answered now.
 *  @return TP_OK; TP_ERR_USAGE without postgres or each; TP_ERR_STORE…
 *  Threads: any; each is called on the calling one.   Blocks: on the server. */
TP_API tp_status tp_postgres_questions_list(tp_postgres *postgres, bool open_only, tp_kept_question_fn each, void *ctx,
                                            tp_fault *fault) TP_MUST_USE;
/** Answers a question in the database, once. The process that waits for it sees the answer within its poll_ms.
 *  @param decision  arguments_hash empty: those of the row.
 *  @return TP_OK; TP_ERR_NOT_FOUND for a number that no question has; TP_ERR_STALE for one that was answered, has
 *          expired, or was asked with other arguments; for a wrong decision as tp_question_answer(); TP_ERR_STORE…
 *  Threads: any.   Blocks: on the server. */
TP_API tp_status tp_postgres_question_answer(tp_postgres *postgres, uint64_t number, const tp_decision *decision,
                                             tp_fault *fault) TP_MUST_USE;

/* ---- sessions of a database, and their erasure ------------------------------------------------------------------ */

/** Lists the sessions of which a database has anything: the one whose last activity is oldest comes first.
 *  @param query  NULL: all.
 *  @return TP_OK, also where each has stopped; TP_ERR_USAGE without postgres or each; TP_ERR_VERSION for a wrong
 *          struct_size; TP_ERR_STORE….
 *  Threads: any; each is called on the calling one.   Blocks: on the server, which counts all rows. */
TP_API tp_status tp_postgres_sessions_list(tp_postgres *postgres, const tp_kept_query *query, tp_kept_session_fn each,
                                           void *ctx, tp_fault *fault) TP_MUST_USE;

/** Passes everything that a database has of one session to each. All of it is held in memory. Rows that other processes
 *  write meanwhile may be there or not.
 *  @return TP_OK, also where each has stopped; TP_ERR_USAGE for NULL; TP_ERR_TOO_LARGE for a row of more than 64 MiB;
 *          TP_ERR_STORE_CORRUPT for a record that cannot be read; TP_ERR_STORE…; TP_ERR_NO_MEMORY.
 *  Threads: any; each is called on the calling one.   Blocks: on the server. */
TP_API tp_status tp_postgres_session_rows(tp_postgres *postgres, const char *tenant, const char *session,
                                          tp_kept_row_fn each, void *ctx, tp_fault *fault) TP_MUST_USE;

/** Begins a new session with the messages of another one, up to the end of a turn: the newest run of that turn. Turns
 *  keep their ids and times, so that a turn which the new session has is answered from it, and no call runs again. The
 *  records, jobs and questions stay those of the old session. A turn that runs in the old session is not copied.
 *  @param ret_messages  how many were copied; may be NULL.
 *  @return TP_OK; TP_ERR_NOT_FOUND: no such session with messages, or it has no such turn; TP_ERR_DUPLICATE_ID where
 *          the history has a session of the new id; TP_ERR_BAD_ID; TP_ERR_USAGE, TP_ERR_VERSION for a wrong request;
 *          TP_ERR_UTF8; TP_ERR_STORE…. With anything but TP_OK nothing was changed, with one exception: when the
 *          server's answer was lost for good (TP_ERR_STORE), it is not known.
 *  Threads: any.   Blocks: on the server. */
TP_API tp_status tp_postgres_session_fork(tp_postgres *postgres, const tp_kept_fork *request, uint64_t *ret_messages,
                                          tp_fault *fault) TP_MUST_USE;

/** Erases sessions, or turns of them: the history, records, jobs, questions, tasks and calls of each, by the same
 *  choice as tp_sqlite_sessions_erase(). Each transaction erases up to 100 whole sessions, or what was selected of one
 *  session; when this fails or the process dies, the sessions before are erased, and the next call erases the rest.
 *  Other processes may go on meanwhile, and what waits in their queues is written later; one that has an erased session
 *  open begins it anew, and where turns were erased it reads the session anew. Commit the stores of this process
 *  before. The server keeps deleted rows in its files until it vacuums them, and copies in its log, in its standbys and
 *  in backups as long as these are kept.
 *  @param request     a tenant, a session, a time or turns must be given. With turns the rows of each session that fits
 *                     are read into memory, one session at a time.
 *  @param ret_erased  set also when this fails, to what was erased until then; may be NULL.
 *  @return TP_OK; TP_ERR_BUSY: sessions are in use, and stay (the others were erased); TP_ERR_USAGE for a wrong
 *          request; TP_ERR_VERSION for a wrong struct_size; TP_ERR_TOO_LARGE, TP_ERR_STORE_CORRUPT: turns were to be
 *          selected, and a row has more than 64 MiB, or cannot be read; TP_ERR_STORE…; TP_ERR_NO_MEMORY.
 *  Threads: any.   Blocks: on the server. */
TP_API tp_status tp_postgres_sessions_erase(tp_postgres *postgres, const tp_kept_choice *request,
                                            tp_kept_erased *ret_erased, tp_fault *fault) TP_MUST_USE;

/** Passes every row that tp_postgres_sessions_erase() would delete for the same request to each, session after session.
 *  Also rows of sessions that are in use. Deletes nothing; with_others and only_counts mean nothing here. Rows that
 *  other processes write meanwhile may be there or not.
 *  @param ret_passed  sessions and rows that were passed, turns and turns_unknown as of an erasure; set also when this
 *                     fails; may be NULL.
 *  @return TP_OK, also where each has stopped; TP_ERR_TOO_LARGE for a row of more than 64 MiB; TP_ERR_STORE_CORRUPT for
 *          a record that cannot be read; TP_ERR_USAGE for a wrong request; TP_ERR_VERSION for a wrong struct_size;
 *          TP_ERR_STORE…; TP_ERR_NO_MEMORY.
 *  Threads: any; each is called on the calling one.   Blocks: on the server. */
TP_API tp_status tp_postgres_sessions_export(tp_postgres *postgres, const tp_kept_choice *request,
                                             tp_kept_export_fn each, void *ctx, tp_kept_erased *ret_passed,
                                             tp_fault *fault) TP_MUST_USE;

/** Counters of a database since it was opened. The caller sets struct_size; it is filled that far, and struct_size says
 *  how far. */
typedef struct tp_postgres_report {
  size_t struct_size;
  uint64_t operations;   /* that have ended: loads, appends, claims of jobs, lists, renewals of leases and the like */
  uint64_t transactions; /* committed transactions; each is one round trip */
  uint64_t retries;      /* transactions that were tried again */
  uint64_t connections;  /* connections that were made, the first included */
  uint64_t lost;         /* connections that were lost, or given up */
} tp_postgres_report;

/** Fills a report.
 *  @return TP_OK; TP_ERR_USAGE; TP_ERR_VERSION for a wrong struct_size.   Threads: any.   Blocks: no. */
TP_API tp_status tp_postgres_counts(tp_postgres *postgres, tp_postgres_report *ret_report) TP_MUST_USE;

TP_END_DECLS
#endif
