/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite: records and jobs in a SQLite file. One connection writes, under a mutex. Lists are read on a separate
 * connection and in a snapshot of their own (WAL), so their receivers run without any lock of the store. The calling
 * threads write jobs; changes that wait at the same time share one transaction (group.h). Records wait in a queue that
 * is bounded in bytes. One thread writes them, all waiting ones in one transaction. Locks: the store's mutex; those of
 * the queue and of the group, which may be taken under it. */
#ifndef TP__SQLITE_H
#define TP__SQLITE_H

#include "runtime/base/check.h"
#include "stores/sqlite/group.h"
#include "stores/sqlite/statement.h"
#include "stores/sqlite/writer.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/key_file.h"
#include "turnphase/sqlite.h"

enum {
  TP__FIND_KEY,
  TP__COUNT_OPEN,
  TP__NEXT_PLACE,
  TP__INSERT_JOB,
  TP__LOST_JOB,
  TP__NEXT_CLASS,
  TP__READY_JOB,
  TP__NEXT_DUE,
  TP__CLAIM_JOB,
  TP__RENEW_JOB,
  TP__FIND_JOB,
  TP__END_JOB,
  TP__PROMOTE_JOB,
  TP__TRIM_DONE,
  TP__TRIM_DEAD,
  TP__REQUEUE_JOB,
  TP__REDRIVE_JOB,
  TP__COUNT_ORDER,
  TP__INSERT_ENTRY,
  TP__FIND_ENTRY,
  TP__INSERT_RUN,
  TP__NOTE_LATE,
  TP__TRIM_RUNS,
  TP__TRIM_ENTRIES,
  TP__INSERT_TURN,
  TP__INSERT_STEP,
  TP__TRIM_TURNS,
  TP__INSERT_RUNNING,
  TP__INSERT_RUNNING_STEP,
  TP__DELETE_RUNNING,
  TP__DELETE_RUNS,
  TP__FIND_FENCE,
  TP__TAKE_TOOL_START,
  TP__INSERT_TOOL_START,
  TP__TRIM_TOOL_STARTS,
  TP__END_TOOL_START,
  TP__CLEAR_TOOL_RESULTS,
  TP__INSERT_TASK,
  TP__FIND_TASK,
  TP__MARK_TASK,
  TP__DELETE_TASK,
  TP__INSERT_ATTEMPT,
  TP__TRIM_ATTEMPTS,
  TP__INSERT_CONTENT,
  TP__TRIM_CONTENTS,
  TP__INSERT_AUDIT,
  TP__TRIM_AUDITS,
  TP__STATEMENTS
};
enum { TP__KEY_BYTES = TP__KEY_FILE_BYTES, TP__HASH_BYTES = 32 };
extern const char *const tp__sqlite_store_sql[TP__STATEMENTS];

/** A record that waits to be written: the struct, its runs and its texts in one block. */
typedef struct tp__waiting {
  tp__queued queued;
  enum {
    TP__WAITS_ENTRY,
    TP__WAITS_ENTRIES,
    TP__WAITS_LATE,
    TP__WAITS_TURN,
    TP__WAITS_RUNNING,
    TP__WAITS_AUDIT,
    TP__WAITS_ATTEMPT,
    TP__WAITS_CONTENT,
    TP__WAITS_KINDS
  } kind;
  tp_run_record *runs; /* of an entry */
  tp_turn_step *steps; /* of a turn */
  tp_text ids[TP_ID_COUNT];
  union {
    tp_entry_record record;
    tp_entry_batch batch;
    tp_late_record late;
    tp_turn_record turn;
    tp_audit audit;
    tp_attempt_record attempt;
    tp_content_record content;
  };
} tp__waiting;

typedef struct tp__sqlite_store {
  tp_store handle; /* the result of tp_sqlite_store_open(); the runtime has a copy */
  /* never changes after open */
  char *path;
  tp_sqlite_store_options options; /* without zeros */
  uint64_t origin;                 /* tp__sqlite_origin() */
  tp__writer writer;
  tp__group group; /* for data that must be on the disk when the writing function returns */
  bool retention_failed, too_large, has_no_key; /* only for the writer's thread: already logged */
  tp__lock mutex;
  /* ---- under mutex */
  sqlite3 *db;
  sqlite3_stmt *statements[TP__STATEMENTS];
  sqlite3 *reader;                  /* a connection, kept for the next call that reads; NULL: none, or in use */
  unsigned char key[TP__KEY_BYTES]; /* of its hashes, once has_key says so */
  bool has_key;
  uint64_t process_run_id; /* of the owner; 0: none has opened it */
  char boot_id[65];
  bool has_recovered;         /* set once: later recoveries first check whether there is anything to recover */
  tp_breadcrumb *breadcrumbs; /* mapped; NULL: none */
  size_t breadcrumb_count;
  int64_t claimed_ms;       /* the time of the last claim; an earlier time means that the clock was set back */
  int64_t age_looked_at_ms; /* retention.c: when the age of records was last checked */
  bool age_has_more;        /* and there were more than one step deletes */
  int64_t history_aged_ms;  /* when the last round of history_age.c began */
} tp__sqlite_store;

/** Writes by a function (tp__group_work.write), in one transaction and one sync with the writes of other threads.
 *  Without the mutex. @param doing  the action, for the fault. */
tp_status tp__store_write(tp__sqlite_store *s, int (*write)(void *ctx), void *ctx, const char *doing, tp_fault *fault);
tp_status tp__store_fail(const tp__sqlite_store *s, sqlite3 *db, const char *doing, int rc, tp_fault *fault);
/** The store of a handle; NULL when the handle belongs to another library. */
tp__sqlite_store *tp__sqlite_store_of(const tp_store *store);
/** Takes a connection for reading, until it is returned. Without the mutex. */
tp_status tp__store_take_reader(tp__sqlite_store *s, sqlite3 **ret_db, tp_fault *fault);
void tp__store_return_reader(tp__sqlite_store *s, sqlite3 *db);
/** Copies the query of a list of records, and writes the waiting records of the queue. If that write fails, which is
 *  logged, the list still shows the earlier records. Without the mutex. */
tp_status tp__store_read_query(tp__sqlite_store *s, void *query, size_t size, const void *theirs, const char *name,
                               tp_fault *fault);
/** tp__sqlite_list() on a connection for reading. Without the mutex.
 *  @param listing  its sql is NULL when there was no memory for it. @param doing the action, for the fault. */
tp_status tp__store_list(tp__sqlite_store *s, const tp__listing *listing, const char *doing, tp_fault *fault);

/** tp__store_take_reader(), with a transaction of its own, which is one snapshot. */
tp_status tp__sqlite_begin_reading(tp__sqlite_store *s, sqlite3 **ret_db, tp_fault *fault);
void tp__sqlite_end_reading(tp__sqlite_store *s, sqlite3 *db);

/* ---- records (records.c) ---- */
/** Used instead of the next function, in a store that is read only. */
tp_status tp__sqlite_record_refused(void *ctx, const tp_entry_record *record);
tp_status tp__sqlite_record(void *ctx, const tp_entry_record *record);
tp_status tp__sqlite_record_batch(void *ctx, const tp_entry_batch *batch);
tp_status tp__sqlite_record_late(void *ctx, const tp_late_record *late);
tp_status tp__sqlite_records(void *ctx, const tp_record_query *query, tp_record_fn each, void *each_ctx,
                             tp_fault *fault);
tp_status tp__sqlite_turn_record(void *ctx, const tp_turn_record *record);
tp_status tp__sqlite_turns(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                           tp_fault *fault);
tp_status tp__sqlite_audit(void *ctx, const tp_audit *row);
tp_status tp__sqlite_audits(void *ctx, const tp_audit_query *query, tp_audit_fn each, void *each_ctx, tp_fault *fault);
/** Copies a caller's struct with its texts, and queues it. @param columns  at least those of its texts. */
tp_status tp__sqlite_queue_copy(void *ctx, int kind, const tp__columns *columns, const char *name, const void *theirs);
/** tp_entry_record.run for a waiting record: reads its runs. @param source  the tp__waiting. */
bool tp__sqlite_waiting_run(const void *source, size_t index, tp_run_record *record);
/** Writes a list inside of a transaction. */
int tp__sqlite_write_locked(tp__sqlite_store *s, const tp__waiting *first);

/** The column names of a turn's ids, in the order of TP_ID_TENANT and so on. */
/* clang-format off */
#define TP__ID_LIST(FIRST, C)                                                                                 \
  FIRST(TENANT, tenant, TEXT) C(AGENT, agent, TEXT) C(WORKSPACE, workspace, TEXT) C(SESSION, session, TEXT)   \
  C(THREAD, thread, TEXT) C(TURN, turn, TEXT) C(TASK, task, TEXT) C(RUN, run, TEXT)
/* clang-format on */
/** Shared by records.c and running.c: the columns of a turn, and tp_turn_record.step for tp__rows. */
#define TP__TURN_COLUMNS TP__SQL_NAMES(TP__TURN_LIST) ", " TP__SQL_NAMES(TP__ID_LIST)
#define TP__TURN_PARAMETERS TP__SQL_PARAMETERS(TP__TURN_LIST) ", " TP__SQL_PARAMETERS(TP__ID_LIST)
bool tp__sqlite_show_step(const void *source, size_t index, tp_turn_step *step);

/* ---- turns that run (running.c) ---- */
tp_status tp__sqlite_turn_running(void *ctx, const tp_turn_record *record); /* in records.c */
tp_status tp__sqlite_turns_running(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                                   tp_fault *fault);
int tp__sqlite_write_running_locked(tp__sqlite_store *s, const tp__waiting *node);
/** It has ended. Inside of a transaction. */
int tp__sqlite_delete_running_locked(tp__sqlite_store *s, uint64_t process, uint64_t number);
/** Pauses between two attempts are at most a minute. A job that would wait for longer was postponed by a clock that has
 *  changed since, so it is due. */
int tp__sqlite_bound_pauses_locked(tp__sqlite_store *s, int64_t now_ms);

/** Notes that a process has died, and interrupts its turns. Inside of a transaction.
 *  @param audits_before  the last audit row before this recovery. @param by_itself the machine has not been restarted
 *                        since. */
int tp__sqlite_interrupt_turns_locked(tp__sqlite_store *s, int64_t process, int64_t audits_before, bool by_itself,
                                      tp_store_recovery *recovery);
tp_status tp__sqlite_turn_is_cut(void *ctx, uint64_t process_run_id, const tp_text *ids, size_t id_count,
                                 bool *ret_is_cut, tp_fault *fault);

/* ---- attempts (attempts.c) ---- */
tp_status tp__sqlite_attempt(void *ctx, const tp_attempt_record *record);
tp_status tp__sqlite_attempts(void *ctx, const tp_attempt_query *query, tp_attempt_record_fn each, void *each_ctx,
                              tp_fault *fault);
int tp__sqlite_write_attempt_locked(tp__sqlite_store *s, const tp_attempt_record *record, int64_t *ret_row);

/* ---- hashes for content that a record must not hold (keyed_hash.c) ---- */
tp_status tp__sqlite_hash_locked(tp__sqlite_store *s, tp_text content, unsigned char ret_hash[TP__HASH_BYTES],
                                 tp_fault *fault);

/* ---- what of it is kept (contents.c) ---- */
tp_status tp__sqlite_content(void *ctx, const tp_content_record *record);
tp_status tp__sqlite_contents(void *ctx, const tp_content_query *query, tp_content_record_fn each, void *each_ctx,
                              tp_fault *fault);
int tp__sqlite_write_content_locked(tp__sqlite_store *s, const tp_content_record *record, int64_t *ret_row);

/* ---- calls of tools that are not idempotent (tool_starts.c) ---- */
tp_status tp__sqlite_tool_start(void *ctx, const tp_tool_start_record *start, uint64_t *ret_start_id,
                                tp_tool_end_fn earlier, void *earlier_ctx, tp_fault *fault);
tp_status tp__sqlite_tool_end(void *ctx, const tp_tool_end_record *end, tp_fault *fault);
/** Whether another turn has claimed the session since, or it was deleted. Whether it was deleted is known only of a
 *  claim of this file.
 *  @param session  tenant and session. @param fence 0: the turn has no claim, so it is never fenced.
 *  @param origin   of the claim. */
int tp__sqlite_look_for_fence_locked(tp__sqlite_store *s, const tp_text session[2], uint64_t fence, uint64_t origin,
                                     bool *ret_is_fenced);
/** @return TP_ERR_FENCED */
tp_status tp__sqlite_refuse_fenced(const tp__sqlite_store *s, tp_fault *fault);
/** The turn with these ids has ended: deletes the stored results of its calls. Inside of a transaction. */
int tp__sqlite_clear_results_locked(tp__sqlite_store *s, const tp_text *ids);

/* ---- tasks (tasks.c) ---- */
tp_status tp__sqlite_task_put(void *ctx, const tp_task_record *record, tp_fault *fault);
tp_status tp__sqlite_task_take(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault);
tp_status tp__sqlite_task_settle(void *ctx, tp_text key, bool stays, tp_fault *fault);

/* ---- what is not kept (retention.c) ---- */
/** Makes one step. @param ret_none_left  the file is too large, but there are no records to delete. */
tp_status tp__sqlite_retain(tp__sqlite_store *s, bool *ret_none_left, tp_fault *fault);
/** Bounds SQLite's own log by the options; called before other threads know the store. */
int tp__sqlite_bound_log(tp__sqlite_store *s);

/* ---- the thread that writes them ---- */
/** @param node  taken. @return TP_OK; TP_ERR_FULL. */
tp_status tp__sqlite_queue(void *ctx, tp__waiting *node);
/** tp__writer_commit(). */
tp_status tp__sqlite_commit(void *ctx, tp_fault *fault);

/* ---- jobs (jobs.c) ---- */
/** The row of a job, without the columns that only the store itself reads. */
/* clang-format off */
#define TP__JOB_LIST(FIRST, C)                                                                                     \
  FIRST(id, id, ROW_ID) C(claim, claim, INTEGER) C(state, state, INTEGER) C(attempt, attempt, INTEGER)             \
  C(attempts_max, attempts_max, INTEGER) C(backoff, backoff, INTEGER) C(backoff_ms, backoff_ms, INTEGER)           \
  C(limit_ms, limit_ms, INTEGER) C(phase, phase, INTEGER) C(contract_version, contract_version, INTEGER)           \
  C(reason, reason, INTEGER) C(code, code, INTEGER) C(inserted_ms, inserted_ms, INTEGER)                           \
  C(claimable_ms, claimable_ms, INTEGER) C(lease_end_ms, lease_end_ms, INTEGER) C(ended_ms, ended_ms, INTEGER)     \
  C(handler, handler, TEXT) C(subscription, subscription, TEXT) C(idempotency_key, idempotency_key, UNIQUE_TEXT)   \
  C(order_key, order_key, TEXT) C(message, message, TEXT) C(payload, payload, BLOB)                                \
  C(postponed_ms, postponed_ms, INTEGER)
/* clang-format on */
tp_status tp__sqlite_job_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault);
tp_status tp__sqlite_job_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault);
tp_status tp__sqlite_job_renew(void *ctx, const tp_job_renew *request, tp_fault *fault);
tp_status tp__sqlite_job_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault);
tp_status tp__sqlite_job_insert_all(void *ctx, const tp_job *const *jobs, size_t count, uint64_t *ret_ids,
                                    bool *ret_existed, tp_status *ret_statuses, tp_fault *fault);
tp_status tp__sqlite_job_finish_all(void *ctx, const tp_job_finish *const *requests, size_t count, uint32_t *ret_states,
                                    tp_status *ret_statuses, tp_fault *fault);
tp_status tp__sqlite_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault);
tp_status tp__sqlite_jobs(void *ctx, const tp_job_query *query, tp_job_each_fn each, void *each_ctx, tp_fault *fault);
tp_status tp__sqlite_job_redrive(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault);
tp_status tp__sqlite_job_discard(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault);

/** How a running job goes on or ends. */
typedef struct tp__job_change {
  uint64_t id;
  uint32_t state; /* QUEUED, or one that ended */
  uint32_t attempts_back, reason, code;
  int64_t at_ms;        /* QUEUED: when it becomes claimable; else when it ended */
  int64_t postponed_ms; /* QUEUED: of the job from now on */
  tp_text message;
} tp__job_change;
int tp__sqlite_job_change_locked(tp__sqlite_store *s, const tp__job_change *change);

/* ---- who has it open (processes.c) ---- */
tp_status tp__sqlite_store_own(void *ctx, const tp_store_owner *owner, tp_fault *fault);
tp_status tp__sqlite_store_recover(void *ctx, tp_store_recovery *ret_recovery, tp_fault *fault);
void tp__sqlite_store_disown(tp__sqlite_store *s);
/** @param boot_id  of the process; own_boot_id: of the running machine. Empty: not known. */
bool tp__sqlite_process_is_gone(int64_t process_id, int64_t process_started, tp_text boot_id, tp_text own_boot_id);
/** @param ret_process_id  the process of this run, if it is alive; else 0. */
int tp__sqlite_live_process(const tp__sqlite_store *s, sqlite3 *db, int64_t process, int64_t *ret_process_id);
/** @param ret_is_left  true when the process of this run is gone, and no recovery has found that yet. */
int tp__sqlite_left_process(const tp__sqlite_store *s, sqlite3 *db, int64_t process, bool *ret_is_left);
/** @param ret_process_id  a living process that has the file open with another store; 0: there is none. */
int tp__sqlite_other_process(const tp__sqlite_store *s, sqlite3 *db, int64_t *ret_process_id);

/* ---- breadcrumbs: what threads of processes are doing (breadcrumbs.c) ---- */
tp_status tp__sqlite_breadcrumbs(void *ctx, size_t count, tp_breadcrumb **ret_breadcrumbs, tp_fault *fault);
void tp__sqlite_breadcrumbs_fini(tp__sqlite_store *s);
/** Reports, inside of a transaction, each function that was running when a process died.
 *  @param ret_count  counts them.  @return SQLITE_OK or an error. */
int tp__sqlite_breadcrumbs_recover_locked(tp__sqlite_store *s, int64_t process, uint64_t *ret_count);
/** A step that was running when a process died; the strings are borrowed. */
typedef struct tp__suspect {
  const char *what, *did; /* "the tool", "was called" */
  const char *name;       /* of a subscription, a tool, a model */
  const char *turn, *tenant, *session;
  tp_phase_id phase; /* 0: none */
} tp__suspect;
/** Writes an audit row about it, inside of a transaction. */
int tp__sqlite_write_suspect_locked(tp__sqlite_store *s, const tp__suspect *suspect);
/** Removes the files of processes that no longer have a row. */
void tp__sqlite_breadcrumbs_sweep_locked(tp__sqlite_store *s);

#endif
