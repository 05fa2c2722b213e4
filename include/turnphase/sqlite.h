/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite.h: the library turnphase-sqlite: the history of sessions, entry records and background jobs in a SQLite file,
 * one for each data directory. A history and a store may have the same file open; so may several processes of one
 * machine that see each other's numbers (one PID namespace). Threads: any. */
#ifndef TURNPHASE_SQLITE_H
#define TURNPHASE_SQLITE_H

#include "turnphase/people.h"
#include "turnphase/store.h"

TP_BEGIN_DECLS

/** Opens (creates) the file, mode 0600, WAL, one writer; a batch is one transaction, durable when append returns.
 *  Not in the child of a fork while the parent has the same file open: SQLite's locks do not cross a fork.
 *  Give it to tp_history_share() or tp_session_options.history, which take it, or free it with tp_history_free(). What
 *  is deleted leaves the tables, not at once the bytes of the file; its number in a list may be given again.
 *  @return TP_OK; TP_ERR_STORE_SCHEMA (newer or foreign schema), TP_ERR_STORE_CORRUPT, TP_ERR_STORE_BUSY,
 *          TP_ERR_STORE_READONLY, TP_ERR_STORE_FULL, TP_ERR_IO, TP_ERR_NO_MEMORY, with the path in the fault. */
TP_API tp_status tp_sqlite_history_open(const char *path, tp_history **ret_history,
    tp_fault *fault) TP_MUST_USE;

/** Options of a history whose turns do not wait for the disk; zero means default. Everything is copied. */
typedef struct tp_sqlite_history_options {
  size_t struct_size;
  const char *path;              /* required */
  size_t queue_bytes_max;        /* turns that wait to be written; 0: 8 MiB */
  tp_log_fn log;                 /* called, without any lock of ours, when the first turn is refused, when writing
                                    begins to fail, when it succeeds again, and when turns are lost. It must not use
                                    the history. May be NULL */
  void *log_ctx;                 /* of log; both until the history is destroyed */
} tp_sqlite_history_options;

/** As tp_sqlite_history_open(), but a turn does not wait for the disk: its batch is copied into a queue, and one
 *  thread writes all that wait, of whatever sessions, in one transaction, about 5 ms after the first. A host that dies
 *  loses the last turns: what is there are the first ones of all sessions together, each whole. Loading, listing and
 *  deleting wait until what was appended to the session is written, or give the reason why it cannot be. While the
 *  file cannot be written (full, locked, removed, damaged) what waits stays in the queue and is tried again five times
 *  a second; a turn that does not fit fails (TP_ERR_STORE_FULL; TP_ERR_TOO_LARGE when no queue could take it).
 *  What still waits when the history is destroyed is written then, with one attempt.
 *  @return as tp_sqlite_history_open(); TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_NO_THREAD.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_history_open_async(const tp_sqlite_history_options *options, tp_history **ret_history,
    tp_fault *fault) TP_MUST_USE;

/** Options of the SQLite store; zero means default. Everything is copied. */
typedef struct tp_sqlite_store_options {
  size_t struct_size;
  const char *path;              /* required: the file, for example DIR/turnphase.db */
  size_t records_max;            /* the newest so many entry records are kept; 0: 100,000 */
  size_t turns_max;              /* the newest so many turn records; 0: 100,000 */
  size_t audits_max;             /* the newest so many audit rows; 0: 100,000 */
  size_t jobs_max;               /* open jobs; 0: 65,536; above it an insert gives TP_ERR_FULL */
  size_t jobs_ended_max;         /* of jobs that succeeded or were discarded, and of dead letters, the newest so many
                                    are known by id and key; 0: 10,000 */
  size_t queue_bytes_max;        /* records that wait to be written; 0: 8 MiB. What does not fit is dropped, counted
                                    and logged */
  tp_log_fn log;                 /* called, without any lock of ours, when records are dropped, when writing them begins
                                    to fail, and when it succeeds again. May be NULL */
  void *log_ctx;                 /* of log; both until the store is destroyed */
  uint32_t busy_ms;              /* how long a write waits for another process; 0: 5,000; at most 600,000 */
  uint32_t existing_only;        /* 1: a file that is not there is TP_ERR_NOT_FOUND instead of being made */
  uint64_t bytes_max;            /* of the file: above it the oldest records are deleted; 0: no bound; at least 1 MiB.
                                    The history, and jobs that are open or dead, stay */
  uint32_t age_max_s;            /* records, and jobs that succeeded or were discarded, that are older are deleted; 0:
                                    no bound. Both are looked at when records are written */
  uint32_t read_only;            /* 1: nothing is written and nothing upgraded, also not beside a process that writes;
                                    a directory that cannot be written will do. The store has the functions that read
                                    alone, so no runtime takes it */
  uint32_t content_hashes;       /* 1: of what phases carried and handlers contributed, the size and a keyed hash are
                                    kept (HMAC-SHA-256; the key, made at random, is the file PATH-key). The content is
                                    copied into the queue, and hashed by the thread that writes */
  uint32_t page_cache_bytes;     /* of the file's pages the connection that writes keeps so many bytes in memory; 0:
                                    SQLite's own 2 MiB; at least 64 KiB */
} tp_sqlite_store_options;

/** A store in a file (mode 0600, WAL, synchronous FULL). A file that holds only a history, or has an earlier schema, is
 *  upgraded in one transaction.
 *  A job's change is durable when its function returns. Records are copied into a queue that is bounded in bytes, and
 *  one thread writes all that wait in one transaction; commit returns when those before it are durable, or when an
 *  attempt to write them failed. While the file cannot be written (full, locked, removed, damaged) what waits stays in
 *  the queue and is tried again five times a second, so that no restart is needed; what does not fit is dropped: record
 *  gives TP_ERR_FULL. What still waits when the store is destroyed is written then, with one attempt. The payload of a
 *  job is deleted, and its bytes overwritten, when it succeeds or is discarded.
 *  Not in the child of a fork while the parent has the same file open. Give it to tp_runtime_options.store, which takes
 *  it, or free it with tp_store_free().
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; TP_ERR_NOT_FOUND with existing_only; else as
 *          tp_sqlite_history_open(); TP_ERR_NO_THREAD.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_store_open(const tp_sqlite_store_options *options, tp_store **ret_store,
    tp_fault *fault) TP_MUST_USE;

/** What became of the records that a store was given since it was opened. The caller sets struct_size; it is filled
 *  that far, and struct_size says how far. */
typedef struct tp_sqlite_store_report {
  size_t struct_size;
  uint64_t records_queued;       /* taken; late notes count as records */
  uint64_t records_written;      /* of these committed */
  uint64_t records_dropped;      /* refused because the queue was full */
  uint64_t write_failures;       /* attempts to write that failed */
  uint64_t queue_bytes;          /* what waits now */
  int32_t last_failure;          /* tp_status of the last attempt that failed; TP_OK: none has */
  uint32_t is_failing;           /* 1: the last attempt failed */
} tp_sqlite_store_report;

/** Fills a report.
 *  @param store  what tp_sqlite_store_open() gave, until it is destroyed: also when a runtime has taken it.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size.
 *  Threads: any.   Blocks: no. */
TP_API tp_status tp_sqlite_store_counts(const tp_store *store, tp_sqlite_store_report *ret_report) TP_MUST_USE;

/** The keyed hash of content as the store would keep it: by it a host finds where it passed through a phase.
 *  @return TP_OK; TP_ERR_USAGE for another store, or one that is read only; TP_ERR_IO when the key cannot be read or
 *          made.
 *  Threads: any.   Blocks: on the file of the key. */
TP_API tp_status tp_sqlite_store_hash(const tp_store *store, tp_text content, unsigned char ret_hash[32],
    tp_fault *fault) TP_MUST_USE;

/** What is in the file of a store. The caller sets struct_size; it is filled that far, and struct_size says how far. */
typedef struct tp_sqlite_store_stats {
  size_t struct_size;
  uint64_t file_bytes, free_bytes; /* without the log of what is not yet in it; of these not used */
  uint64_t entries, runs, turns, audits;
  uint64_t jobs_queued, jobs_running, jobs_succeeded, jobs_dead, jobs_discarded;
  uint64_t sessions, messages;   /* of the history */
  uint64_t processes;            /* that have it open, or ended without closing it */
  int64_t oldest_unix_ms, newest_unix_ms; /* when the oldest and the newest entry began; 0: there is none */
  uint32_t schema_version;
  uint32_t reserved_;            /* zero */
} tp_sqlite_store_stats;

/** Counts what is in the file.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size; what the file says.
 *  Threads: any.   Blocks: on the file; it reads all of it that is counted. */
TP_API tp_status tp_sqlite_store_stats_get(const tp_store *store, tp_sqlite_store_stats *ret_stats,
    tp_fault *fault) TP_MUST_USE;

/** What to delete, and what became of it. The caller sets struct_size. */
typedef struct tp_sqlite_prune {
  size_t struct_size;
  uint64_t bytes_max;            /* the oldest records, until what is used of the file is at most this; 0: none */
  int64_t before_unix_ms;        /* records, and jobs that succeeded or were discarded, from before then; 0: none */
  void (*progress)(void *ctx, uint64_t rows_deleted); /* after each step, on the calling thread; may be NULL */
  void *ctx;                     /* of progress */
} tp_sqlite_prune;

/** Deletes records as the retention of a store does, now and until there is nothing left to delete, and gives the room
 *  back to the file system. History, open jobs and dead letters stay. Others may use the file meanwhile: each step is a
 *  short transaction of its own.
 *  @return TP_OK; TP_ERR_USAGE for another store; TP_ERR_VERSION for a wrong struct_size; TP_ERR_STORE_READONLY for a
 *          store that is read only; what the file says: what was deleted before stays deleted.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_store_prune(const tp_store *store, const tp_sqlite_prune *request,
    uint64_t *ret_rows_deleted, tp_fault *fault) TP_MUST_USE;

/** Receives one sentence about something that is wrong; borrowed till return. */
typedef void (*tp_sqlite_problem_fn)(void *ctx, tp_text problem);
/** Checks every page and index of the file, and that its rows agree with each other. What others write meanwhile is not
 *  seen.
 *  @param each  called for each problem; may be NULL.
 *  @return TP_OK; TP_ERR_STORE_CORRUPT when there is one; TP_ERR_USAGE for another store; what the file says.
 *  Threads: any; each is called on the calling one.   Blocks: on the file, all of which it reads. */
TP_API tp_status tp_sqlite_store_verify(const tp_store *store, tp_sqlite_problem_fn each, void *ctx,
    tp_fault *fault) TP_MUST_USE;

/* ---- questions to people, kept in the file of a store --------------------------------------------------------- */

/** A channel for questions (people.h) that outlives the process: a question is a row in the file of a store, and any
 *  process may answer it. Where the process that asked is gone, the answer counts for the same question of the same
 *  turn: a turn that is submitted again by its id, and asks about the same call with the same arguments, is answered
 *  from the row, once. Owns a thread and a connection to the file. */
typedef struct tp_sqlite_questions tp_sqlite_questions;

typedef struct tp_sqlite_questions_options {
  size_t struct_size;
  const char *path;              /* of the file, as tp_sqlite_store_options.path; required */
  uint32_t poll_ms;              /* how often answers of other processes are looked for while a question is open;
                                    0: 200 */
  uint32_t reserved_;            /* must be zero */
  tp_log_fn log;                 /* of what goes wrong with the file: then what is asked is denied. May be NULL */
  void *log_ctx;
} tp_sqlite_questions_options;

/** @return TP_OK; TP_ERR_USAGE, TP_ERR_VERSION for bad options; as tp_sqlite_store_open() for the file;
 *          TP_ERR_NO_THREAD; TP_ERR_NO_MEMORY.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_questions_open(const tp_sqlite_questions_options *options,
    tp_sqlite_questions **ret_questions, tp_fault *fault) TP_MUST_USE;
/** A tp_question_fn: tp_runtime_options.ask or tp_session_options.ask, with ask_ctx the tp_sqlite_questions.
 *  Threads: any, several at once.   Blocks: no. */
TP_API void tp_sqlite_questions_put(void *questions, const tp_question *question);
/** Gives up what is still open here (it is denied); the rows stay. After the runtimes that use it were freed. Accepts
 *  NULL.
 *  Threads: any.   Blocks: on the file. */
TP_API void tp_sqlite_questions_close(tp_sqlite_questions *questions);

/** What became of a question. */
typedef enum tp_sqlite_question_state {
  TP_SQLITE_QUESTION_OPEN = 0,
  TP_SQLITE_QUESTION_ALLOWED = 1,
  TP_SQLITE_QUESTION_DENIED = 2,
  TP_SQLITE_QUESTION_STATE_FORCE_32 = 0x7fffffff
} tp_sqlite_question_state;

/** A question as the file has it. Made by the library; borrowed till the callback returns. */
typedef struct tp_sqlite_question {
  size_t struct_size;
  uint64_t number;               /* for tp_sqlite_question_answer() */
  tp_sqlite_question_state state;
  uint32_t is_waited_for;        /* 1: a call waits for it, or its process was killed. 0: the call is over, or its
                                    process has ended */
  int64_t asked_unix_ms, expires_unix_ms; /* it is answered until then */
  int64_t answered_unix_ms;      /* 0: not answered */
  int64_t used_unix_ms;          /* when a call got the answer; 0: none has */
  tp_text tenant, agent, session, turn;
  tp_text tool, call_id;
  tp_text arguments;             /* value: as they will run; empty once a call has the answer */
  tp_text arguments_hash;
  tp_text subscription, reason;  /* who asked, and why */
  tp_text person, answer;        /* who decided, and why */
} tp_sqlite_question;
/** False stops. */
typedef bool (*tp_sqlite_question_fn)(void *ctx, const tp_sqlite_question *question);

/** The questions in a file, the oldest first.
 *  @param open_only  those that may be answered now.
 *  @return TP_OK; TP_ERR_USAGE without path or each; TP_ERR_IO when there is no file; as tp_sqlite_store_open().
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_questions_list(const char *path, bool open_only, tp_sqlite_question_fn each, void *ctx,
    tp_fault *fault) TP_MUST_USE;
/** Answers a question in a file, once. The process that waits for it sees the answer within its poll_ms.
 *  @param decision  arguments_hash empty: those of the row.
 *  @return TP_OK; TP_ERR_NOT_FOUND for a number that no question has; TP_ERR_STALE for one that was answered, has
 *          expired, or was asked with other arguments; TP_ERR_USAGE, TP_ERR_VERSION, TP_ERR_TOO_LARGE, TP_ERR_UTF8 as
 *          tp_question_answer(); what the file says.
 *  Threads: any.   Blocks: on the file. */
TP_API tp_status tp_sqlite_question_answer(const char *path, uint64_t number, const tp_decision *decision,
    tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
