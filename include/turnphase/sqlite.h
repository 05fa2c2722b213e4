/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite.h: the library turnphase-sqlite: the history of sessions, entry records and background jobs in a SQLite file,
 * one for each data directory. A history and a store may have the same file open; so may several processes of one
 * machine in one PID namespace. Threads: any. */
#ifndef TURNPHASE_SQLITE_H
#define TURNPHASE_SQLITE_H

#include "turnphase/questions.h"
#include "turnphase/sessions.h"
#include "turnphase/store.h"

TP_BEGIN_DECLS

/** Opens the file, or creates it: mode 0600, WAL, one writer. A batch is durable when its append has ended. Appends
 *  that wait at the same time, of any sessions, share one transaction and one sync; when that fails, each is tried
 *  again by itself. The history has one thread, which commits: a turn that waits for the disk holds no thread.
 *  Do not call it in the child of a fork while the parent has the same file open: SQLite's locks do not cross a fork.
 *  Give it to tp_history_share() or tp_session_options.history, which take it, or free it with tp_history_free(). A
 *  deletion removes rows and overwrites their bytes, but not at once the copies in the write-ahead log
 *  (tp_sqlite_sessions_erase() does). Sessions are shared with other processes (tp_history.shared): see
 *  docs/stores.md.
 *  @return TP_OK; TP_ERR_STORE_SCHEMA (newer or foreign schema), TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY,
 *          TP_ERR_STORE_READONLY, TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY, TP_ERR_NO_THREAD, with the path in
 *          the fault.
 *  Threads: any. */
TP_API tp_status tp_sqlite_history_open(const char *path, tp_history **ret_history, tp_fault *fault) TP_MUST_USE;

/** Options of a history whose turns do not wait for the disk; zero means default. Everything is copied. */
typedef struct tp_sqlite_history_options {
  size_t struct_size;
  /** Required. */
  const char *path;
  /** The most bytes of turns that wait to be written; 0: 8 MiB. */
  size_t queue_bytes_max;
  /** Called, without any lock, when the first turn is refused, when writing begins to fail, when it succeeds again,
   *  and when turns are lost. It must not use the history. May be NULL. */
  tp_log_fn log;
  /** Passed to log. Both are used until the history is destroyed. */
  void *log_ctx;
  /** The lease: for how long a process that was stopped keeps the sessions of its running turns from other processes;
   *  0: 15,000. While the process runs, its leases are renewed every third of that; a process that has ended has no
   *  lease. */
  uint32_t lease_ms;
  /** Zero. */
  uint32_t reserved_;
} tp_sqlite_history_options;

/** tp_sqlite_history_open() with options: path, and lease_ms.
 *  @return as tp_sqlite_history_open(); TP_ERR_USAGE for options of a queue, which this history does not have;
 *  TP_ERR_VERSION. Threads: any. */
TP_API tp_status tp_sqlite_history_open_sync(const tp_sqlite_history_options *options, tp_history **ret_history,
                                             tp_fault *fault) TP_MUST_USE;

/** As tp_sqlite_history_open(), but a turn does not wait for the disk: its batch is copied into a queue, and one thread
 *  writes all batches of the queue, of all sessions, in one transaction, about 5 ms after the first. When the host
 *  dies, the last batches are lost: the file then has whole batches only, in the order of their appends, and no gap
 *  between them. Loading, listing and deleting wait until the batches of the session are written, or return the error
 *  of writing them. While the file cannot be written (full, locked, removed, damaged), the batches stay in the queue
 *  and are tried again five times a second; a turn that does not fit fails (TP_ERR_STORE_FULL; TP_ERR_TOO_LARGE when it
 *  is larger than the queue). The destroy function of the history writes the rest of the queue, with one attempt.
 *  @return as tp_sqlite_history_open(); TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_NO_THREAD.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_history_open_async(const tp_sqlite_history_options *options, tp_history **ret_history,
                                              tp_fault *fault) TP_MUST_USE;

/** Options of the SQLite store; zero means default. Everything is copied. */
typedef struct tp_sqlite_store_options {
  size_t struct_size;
  /** Required: the file, for example DIR/turnphase.db. */
  const char *path;
  /** How many entry records are kept, the newest ones; 0: 100,000. */
  size_t records_max;
  /** How many turn records are kept, the newest ones; 0: 100,000. */
  size_t turns_max;
  /** How many audit rows are kept, the newest ones; 0: 100,000. */
  size_t audits_max;
  /** The most open jobs; 0: 65,536; above it an insert gives TP_ERR_FULL. */
  size_t jobs_max;
  /** How many ended jobs are known by id and key, the newest ones: jobs that succeeded or were discarded, and dead
   *  letters; 0: 10,000. */
  size_t jobs_ended_max;
  /** The most bytes of records that wait to be written; 0: 8 MiB. Records that do not fit are dropped, counted and
   *  logged. */
  size_t queue_bytes_max;
  /** Called, without any lock, when records are dropped, when writing them begins to fail, and when it succeeds
   *  again. May be NULL. */
  tp_log_fn log;
  /** Passed to log. Both are used until the store is destroyed. */
  void *log_ctx;
  /** How long a write waits for another process; 0: 5,000; at most 600,000. */
  uint32_t busy_ms;
  /** 1: a file that is not there gives TP_ERR_NOT_FOUND and is not made. */
  uint32_t existing_only;
  /** The size of the file above which the oldest records are deleted; 0: no bound; at least 1 MiB. The history stays,
   *  and so do open jobs and dead letters. */
  uint64_t bytes_max;
  /** The age above which records, and jobs that succeeded or were discarded, are deleted; 0: no bound. Both bounds are
   *  applied when records are written. */
  uint32_t age_max_s;
  /** 1: the store writes and upgrades nothing. Another process may write meanwhile, and the directory may be read-only.
   *  The store has only the functions that read, so a runtime refuses it. */
  uint32_t read_only;
  /** 1: the store keeps the size and a keyed hash of payload fields and contributions (HMAC-SHA-256; the random key
   *  is in the file PATH-key). The content is copied into the queue, and hashed by the thread that writes. */
  uint32_t content_hashes;
  /** Size of the page cache of the connection that writes; 0: SQLite's default of 2 MiB; at least 64 KiB. */
  uint32_t page_cache_bytes;
  /** The age of turns in the history of this file: turns whose messages are all older are deleted, from the beginning
   *  of their session on; 0: no bound. Applied when records are written, at most once a minute, and logged. A session
   *  stays whole while a turn of it runs in any process, as far as the file's records report it (with
   *  TP_DURABILITY_MEMORY there are no records of running turns), or a question of it is open. A session that is open
   *  and idle goes on with what it has read; a session that is opened later reads what is left. The id of a deleted
   *  turn is not known any more (tp_turn_request.if_exists). */
  uint32_t history_age_max_s;
  /** Must be zero. */
  uint32_t reserved_;
} tp_sqlite_store_options;

/** A store in a file (mode 0600, WAL, synchronous FULL). A file that holds only a history, or has an earlier schema, is
 *  upgraded in one transaction.
 *  A job's change is durable when its function returns. Records are copied into a queue that is bounded in bytes, and
 *  one thread writes all records of the queue in one transaction; commit returns when the earlier records are durable,
 *  or when an attempt to write them failed. While the file cannot be written (full, locked, removed, damaged), the
 *  records stay in the queue and are tried again five times a second, so no restart is needed. A record that does not
 *  fit is dropped: record returns TP_ERR_FULL. The destroy function of the store writes the rest of the queue, with one
 *  attempt. The payload of a job is deleted, and its bytes overwritten, when it succeeds or is discarded. Do not open
 *  it in the child of a fork while the parent has the same file open. Give it to tp_runtime_options.store, which takes
 *  it, or free it with tp_store_free().
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_NOT_FOUND with existing_only; else as
 *          tp_sqlite_history_open(); TP_ERR_NO_THREAD.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_store_open(const tp_sqlite_store_options *options, tp_store **ret_store,
                                      tp_fault *fault) TP_MUST_USE;

/** Counters of a store's records since it was opened. The caller sets struct_size; it is filled
 *  that far, and struct_size says how far. */
typedef struct tp_sqlite_store_report {
  size_t struct_size;
  uint64_t records_queued;  /* accepted records; a tp_late_record counts as one */
  uint64_t records_written; /* committed records */
  uint64_t records_dropped; /* records that were refused because the queue was full */
  uint64_t write_failures;  /* attempts to write that failed */
  uint64_t queue_bytes;     /* bytes that are in the queue now */
  int32_t last_failure;     /* tp_status of the last attempt that failed; TP_OK: none has */
  uint32_t is_failing;      /* 1: the last attempt failed */
} tp_sqlite_store_report;

/** Fills a report.
 *  @param store  a store of tp_sqlite_store_open() that is not destroyed, also one that a runtime has taken.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size.
 *  Threads: any.   Blocks: no. */
TP_API tp_status tp_sqlite_store_counts(const tp_store *store, tp_sqlite_store_report *ret_report) TP_MUST_USE;

/** Computes the keyed hash of content as the store keeps it: with it a host finds the phases that had this content.
 *  @return TP_OK; TP_ERR_USAGE for another store, or one that is read only; TP_ERR_IO when the key cannot be read or
 *          made.
 *  Threads: any.   Blocks: on the file of the key. */
TP_API tp_status tp_sqlite_store_hash(const tp_store *store, tp_text content, unsigned char ret_hash[32],
                                      tp_fault *fault) TP_MUST_USE;

/** Numbers of a store's file. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_sqlite_store_stats {
  size_t struct_size;
  uint64_t file_bytes, free_bytes; /* the size without the write-ahead log, and how many bytes of it are unused */
  uint64_t entries, runs, turns, audits;
  uint64_t jobs_queued, jobs_running, jobs_succeeded, jobs_dead, jobs_discarded;
  uint64_t sessions, messages;            /* in the history */
  uint64_t processes;                     /* processes that have the file open, or ended without closing it */
  int64_t oldest_unix_ms, newest_unix_ms; /* when the oldest and the newest entry began; 0: there is none */
  uint32_t schema_version;
  uint32_t reserved_; /* zero */
} tp_sqlite_store_stats;

/** Counts the rows of the file.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size; TP_ERR_STORE…, TP_ERR_IO.
 *  Threads: any.   Blocks: on the file, the counted tables of which it reads. */
TP_API tp_status tp_sqlite_store_stats_get(const tp_store *store, tp_sqlite_store_stats *ret_stats,
                                           tp_fault *fault) TP_MUST_USE;

/** A request to delete old rows, with its progress. The caller sets struct_size. */
typedef struct tp_sqlite_prune {
  size_t struct_size;
  /** Deletes the oldest records until the used bytes of the file are at most this; 0: none. */
  uint64_t bytes_max;
  /** Deletes older records, and older jobs that succeeded or were discarded; 0: none. */
  int64_t before_unix_ms;
  /** Called after each step, on the calling thread; may be NULL. */
  void (*progress)(void *ctx, uint64_t rows_deleted);
  /** Passed to progress. */
  void *ctx;
  /** Deletes older turns of the history, by the rules of history_age_max_s; 0: none. */
  int64_t history_before_unix_ms;
} tp_sqlite_prune;

/** Deletes records by the rules of tp_sqlite_store_options, until there is nothing left to delete, and returns the free
 *  space to the file system. Open jobs and dead letters stay, and the history without history_before_unix_ms. Other
 *  threads and processes may use the file meanwhile: each step is a short transaction.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size; TP_ERR_STORE_READONLY for a
 *          store that is read only; TP_ERR_STORE…, TP_ERR_IO: rows that were deleted before stay deleted.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_store_prune(const tp_store *store, const tp_sqlite_prune *request,
                                       uint64_t *ret_rows_deleted, tp_fault *fault) TP_MUST_USE;

/** Receives one sentence about a problem; borrowed till return. Threads: the calling one. */
typedef void (*tp_sqlite_problem_fn)(void *ctx, tp_text problem);
/** Checks every page and index of the file, and that its rows agree with each other. It does not see
 *  concurrent writes.
 *  @param each  called for each problem; may be NULL.
 *  @return TP_OK; TP_ERR_STORE_CORRUPT when there is a problem; TP_ERR_USAGE for another store; TP_ERR_STORE…,
 *          TP_ERR_IO.
 *  Threads: any; each is called on the calling one.   Blocks: on the file, all of which it reads. */
TP_API tp_status tp_sqlite_store_verify(const tp_store *store, tp_sqlite_problem_fn each, void *ctx,
                                        tp_fault *fault) TP_MUST_USE;

/* ---- what processes do now ------------------------------------------------------------------------------------- */

/** A function that a process calls now, or that it called when it died. Made by the library; borrowed till the callback
 *  returns. */
typedef struct tp_sqlite_called {
  size_t struct_size;
  uint64_t process_run_id;
  int64_t process_id;              /* the process id of the operating system */
  int64_t started_unix_ms;         /* when the call began, by the clock as it is set now */
  uint32_t is_alive;               /* 0: the process has died, and no start of a runtime has recovered it yet */
  uint32_t reserved_;              /* zero */
  const tp_breadcrumb *breadcrumb; /* the function, and its turn */
} tp_sqlite_called;
/** Receives a called function; false stops the walk. Threads: the calling one. */
typedef bool (*tp_sqlite_called_fn)(void *ctx, const tp_sqlite_called *called);

/** Passes to each the functions that threads of all processes with this file call now, and those that dead processes
 *  called when they died. Processes note their calls with durability ASYNC and SYNC only. A function may have returned
 *  meanwhile.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_STORE…, TP_ERR_IO.
 *  Threads: any; each is called on the calling one.   Blocks: on the file. */
TP_API tp_status tp_sqlite_store_called(const tp_store *store, tp_sqlite_called_fn each, void *ctx,
                                        tp_fault *fault) TP_MUST_USE;

/* ---- sessions of a file, and their erasure --------------------------------------------------------------------- */

/** Lists the sessions of which a file has anything: the one whose last activity is oldest comes first.
 *  @param query  NULL: all.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size; TP_ERR_STORE…, TP_ERR_IO.
 *  Threads: any; each is called on the calling one.   Blocks: on the file, whose rows it counts. */
TP_API tp_status tp_sqlite_sessions_list(const tp_store *store, const tp_kept_query *query, tp_kept_session_fn each,
                                         void *ctx, tp_fault *fault) TP_MUST_USE;

/** Passes everything that a file has of one session to each, kind after kind, in one snapshot.
 *  @return TP_OK; TP_ERR_USAGE for another store or NULL; TP_ERR_TOO_LARGE for a row of more than 64 MiB;
 *          TP_ERR_STORE…, TP_ERR_IO; TP_ERR_NO_MEMORY.
 *  Threads: any; each is called on the calling one.   Blocks: on the file. */
TP_API tp_status tp_sqlite_session_rows(const tp_store *store, const char *tenant, const char *session,
                                        tp_kept_row_fn each, void *ctx, tp_fault *fault) TP_MUST_USE;

/** Begins a new session with the messages of another one, up to the end of a turn: the newest run of that turn. Turns
 *  keep their ids and times, so that a turn which the new session has is answered from it, and no call runs again. The
 *  records, jobs and questions stay those of the old session. A turn that runs in the old session is not copied.
 *  @param ret_messages  how many were copied; may be NULL.
 *  @return TP_OK; TP_ERR_NOT_FOUND: no such session with messages, or it has no such turn; TP_ERR_DUPLICATE_ID where
 *          the history has a session of the new id; TP_ERR_BAD_ID; TP_ERR_USAGE, TP_ERR_VERSION for a wrong request;
 *          TP_ERR_STORE_READONLY; TP_ERR_STORE…, TP_ERR_IO. With anything but TP_OK nothing was changed.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_session_fork(const tp_store *store, const tp_kept_fork *request, uint64_t *ret_messages,
                                        tp_fault *fault) TP_MUST_USE;

/** Erases sessions, or turns of them: the history, records, jobs, questions, tasks and calls of each, in one
 *  transaction. Then writes the file anew without them, and empties its write-ahead log, so that no byte of them stays;
 *  this takes as long, and as much free space, as the file is large. When this process dies meanwhile, or another
 *  process has the log open, copies are left: then tp_sqlite_erasure_is_left() is true, and the next erasure, of any
 *  sessions, does the rest. Old blocks that a file system, a disk or a backup keeps are out of reach. First close the
 *  sessions in this process: the erasure first writes the store's own queue, but not that of an asynchronous history.
 *  @param ret_erased  set also when this fails; may be NULL.
 *  @return TP_OK; TP_ERR_BUSY: a live process uses the file (nothing was erased), or with_others is 1 and sessions are
 *          in use (the others were erased); TP_ERR_STORE_BUSY: rows were deleted, and copies are left;
 *          TP_ERR_TOO_LARGE: turns were to be chosen, and a row has more than 64 MiB (nothing was erased);
 *          TP_ERR_USAGE for another store or a wrong request; TP_ERR_VERSION for a wrong struct_size;
 *          TP_ERR_STORE_READONLY for a store that is read only; TP_ERR_STORE…, TP_ERR_IO.
 *  Threads: any.   Blocks: on the file, all of which it writes. */
TP_API tp_status tp_sqlite_sessions_erase(const tp_store *store, const tp_kept_choice *request,
                                          tp_kept_erased *ret_erased, tp_fault *fault) TP_MUST_USE;
/** Whether an erasure is not over: copies of rows that it deleted are left in the file or its log.
 *  @return TP_OK; TP_ERR_USAGE for another store or NULL; TP_ERR_STORE…, TP_ERR_IO.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_erasure_is_left(const tp_store *store, bool *ret_is_left, tp_fault *fault) TP_MUST_USE;

/** Passes to each every row that tp_sqlite_sessions_erase() would delete for the same request, session after session,
 *  in one snapshot: for example all that a file has of a tenant, or of one of its persons. It also passes rows of
 *  sessions that are in use. Deletes nothing; with_others and only_counts mean nothing here.
 *  @param ret_passed  sessions and rows that were passed, turns and turns_unknown as of an erasure; may be NULL.
 *  @return TP_OK, also where each has stopped; TP_ERR_TOO_LARGE for a row of more than 64 MiB; TP_ERR_USAGE for another
 *          store or a wrong request; TP_ERR_VERSION for a wrong struct_size; TP_ERR_STORE…, TP_ERR_IO;
 *          TP_ERR_NO_MEMORY.
 *  Threads: any; each is called on the calling one.   Blocks: on the file. */
TP_API tp_status tp_sqlite_sessions_export(const tp_store *store, const tp_kept_choice *request, tp_kept_export_fn each,
                                           void *ctx, tp_kept_erased *ret_passed, tp_fault *fault) TP_MUST_USE;

/* ---- questions to people, kept in the file of a store --------------------------------------------------------- */

/** A channel for questions (people.h) that outlives the process: a question is a row in the file of a store, and any
 *  process may answer it. When the process that asked has ended, the answer still counts for its turn: when the
 *  turn is submitted again by its id, and asks about the same call with the same arguments, it gets the answer of the
 *  row, once. Owns a thread and a connection to the file. */
typedef struct tp_sqlite_questions tp_sqlite_questions;

/** Options of a channel for questions. Zero means default. Strings are copied. */
typedef struct tp_sqlite_questions_options {
  size_t struct_size;
  /** The file of the store, as tp_sqlite_store_options.path; required. */
  const char *path;
  /** How often the channel reads answers of other processes while a question is open, in ms; 0: 200. */
  uint32_t poll_ms;
  /** Must be zero. */
  uint32_t reserved_;
  /** Receives errors of the file; the question is denied then. May be NULL. */
  tp_log_fn log;
  void *log_ctx;
} tp_sqlite_questions_options;

/** Opens the channel.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; as tp_sqlite_store_open() for the file;
 *          TP_ERR_NO_THREAD; TP_ERR_NO_MEMORY.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_questions_open(const tp_sqlite_questions_options *options,
                                          tp_sqlite_questions **ret_questions, tp_fault *fault) TP_MUST_USE;
/** A tp_question_fn: tp_runtime_options.ask or tp_session_options.ask, with ask_ctx the tp_sqlite_questions.
 *  Threads: any, several at once.   Blocks: no. */
TP_API void tp_sqlite_questions_put(void *questions, const tp_question *question);
/** Closes the channel. Its open questions are denied; their rows stay. Call it after the runtimes that use it were
 *  freed. Accepts NULL.
 *  Threads: any.   Blocks: on the file. */
TP_API void tp_sqlite_questions_close(tp_sqlite_questions *questions);

/** Lists the questions in a file, the oldest first.
 *  @param open_only  only those that may be answered now.
 *  @return TP_OK; TP_ERR_USAGE without path or each; TP_ERR_IO when there is no file; as tp_sqlite_store_open().
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_questions_list(const char *path, bool open_only, tp_kept_question_fn each, void *ctx,
                                          tp_fault *fault) TP_MUST_USE;
/** Answers a question in a file, once. The process that waits for it sees the answer within its poll_ms.
 *  @param decision  arguments_hash empty: those of the row.
 *  @return TP_OK; TP_ERR_NOT_FOUND for a number that no question has; TP_ERR_STALE for one that was answered, has
 *          expired, or was asked with other arguments; for a wrong decision as tp_question_answer(); TP_ERR_STORE…,
 *          TP_ERR_IO.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_question_answer(const char *path, uint64_t number, const tp_decision *decision,
                                           tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
