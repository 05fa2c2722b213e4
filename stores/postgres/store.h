/* SPDX-License-Identifier: Apache-2.0
 *
 * store: a tp_store on the connections of a database. Its functions make requests (request.h) and wait for them, on the
 * thread that calls. A process that has a store open has a lease, also without turns (operations.c). */
#ifndef TP__POSTGRES_STORE_H
#define TP__POSTGRES_STORE_H

#include "stores/postgres/news.h"

enum { TP__PG_HASH_BYTES = 32 };

/** A handler and a contract version. The filter of a claim gives the same answer for all their jobs. */
typedef struct tp__pg_job_class {
  char *handler; /* a copy */
  size_t handler_size;
  uint32_t version;
} tp__pg_job_class;

typedef struct tp__pg_store {
  tp_store face; /* what tp_postgres_store() returns; its taker copies it */
  /* never changes after it was made */
  tp_postgres *postgres;             /* holds a reference */
  tp_postgres_store_options options; /* its counts have their defaults instead of zeros */
  unsigned char key[TP__PG_HASH_BYTES];
  /* set by open() and breadcrumbs(), before other functions are called */
  int64_t process;                /* the owner's process_run_id; 0: the store was not opened */
  struct tp__pg_records *records; /* records.c */
  tp_breadcrumb *breadcrumbs;
  size_t breadcrumb_count;
  tp__pg_watcher watcher; /* news.h */
  tp__lock lock;
  /* ---- under lock */
  tp__pg_job_class *classes; /* the handlers whose jobs were seen */
  size_t class_count, class_capacity;
  uint64_t counted, inserted; /* the number of open jobs at the last count; how many were inserted here since then */
  size_t ended;               /* how many this process has ended since old ones were deleted */
  int64_t look_ns;            /* when to look for new handlers of jobs again */
  int64_t quiet_ns;           /* set when no job was open: unless there are news, no job is looked for until then */
  uint64_t quiet_number;      /* the number of the news at that look */
  uint32_t recoveries;        /* counts looks for what dead processes left */
} tp__pg_store;

extern const tp_store tp__pg_store_face;

/** HMAC-SHA-256 with the store's key. */
void tp__pg_store_hash(const tp__pg_store *store, tp_text content, unsigned char ret_hash[TP__PG_HASH_BYTES]);
/** The SHA-256 of a text. */
void tp__pg_long_hash(tp_text text, unsigned char ret_hash[TP__PG_HASH_BYTES]);
/** Of texts with their sizes: other ones have another hash. */
void tp__pg_texts_hash(const tp_text *texts, size_t count, unsigned char ret_hash[TP__PG_HASH_BYTES]);
/** The first 8 bytes of the SHA-256 of texts, each with its length: for an index, since texts may be long. */
int64_t tp__pg_short_hash(const tp_text *texts, size_t count);
/** Whether a claim is of the history of this store's handle (tp_history_claim.origin). */
static inline bool tp__pg_is_own(const tp__pg_store *store, uint64_t origin) {
  return origin != 0 && origin == tp__pg_origin(store->postgres);
}
/** The time of a request; -1: the server's clock counts. */
int64_t tp__pg_store_now(const tp__pg_store *store, int64_t now_ms);
/** The server's clock, or the parameter if it is not negative. */
#define TP__PG_NOW(parameter)                             \
  "(CASE WHEN " parameter "::bigint >= 0 THEN " parameter \
  "::bigint ELSE (extract(epoch FROM statement_timestamp()) * 1000)::bigint END)"
#define TP__PG_LIVES(process) \
  "EXISTS (SELECT 1 FROM @.process p WHERE p.id = " process " AND p.lease_end > clock_timestamp())"

/* ---- jobs (jobs.c, job_claims.c, job_inserts.c, job_lists.c) ---- */
tp_status tp__pg_job_insert(void *ctx, const tp_job *job, uint64_t *ret_id, bool *ret_existed, tp_fault *fault);
tp_status tp__pg_job_insert_all(void *ctx, const tp_job *const *jobs, size_t count, uint64_t *ret_ids,
                                bool *ret_existed, tp_status *ret_statuses, tp_fault *fault);
tp_status tp__pg_job_claim(void *ctx, const tp_job_claim *request, int64_t *ret_next_ms, tp_fault *fault);
void tp__pg_job_classes_fini(tp__pg_store *store);
tp_status tp__pg_job_renew(void *ctx, const tp_job_renew *request, tp_fault *fault);
tp_status tp__pg_job_finish(void *ctx, const tp_job_finish *request, uint32_t *ret_state, tp_fault *fault);
tp_status tp__pg_job_finish_all(void *ctx, const tp_job_finish *const *requests, size_t count, uint32_t *ret_states,
                                tp_status *ret_statuses, tp_fault *fault);
tp_status tp__pg_job_open(void *ctx, tp_text order_key, uint64_t *ret_count, tp_fault *fault);
tp_status tp__pg_jobs(void *ctx, const tp_job_query *query, tp_job_each_fn each, void *each_ctx, tp_fault *fault);
tp_status tp__pg_job_redrive(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault);
tp_status tp__pg_job_discard(void *ctx, uint64_t id, int64_t now_ms, tp_fault *fault);

/* ---- calls of tools that are not idempotent (tool_starts.c) ---- */
tp_status tp__pg_tool_start(void *ctx, const tp_tool_start_record *record, uint64_t *ret_start_id,
                            tp_tool_end_fn earlier, void *earlier_ctx, tp_fault *fault);
tp_status tp__pg_tool_end(void *ctx, const tp_tool_end_record *record, tp_fault *fault);
/** The turn has ended: what its calls said is not kept any more. 1 tp__pg_short_hash() of tenant, session and turn,
 *  2 tenant, 3 session, 4 turn. */
extern const char tp__pg_forget_results_sql[];

/* ---- tasks (tasks.c) ---- */
tp_status tp__pg_task_put(void *ctx, const tp_task_record *record, tp_fault *fault);
tp_status tp__pg_task_take(void *ctx, tp_text key, tp_task_record_fn take, void *take_ctx, tp_fault *fault);
tp_status tp__pg_task_settle(void *ctx, tp_text key, bool stays, tp_fault *fault);

/* ---- what processes leave whose lease has ended (recovery.c) ---- */
tp_status tp__pg_store_recover(void *ctx, tp_store_recovery *ret_recovery, tp_fault *fault);

#endif
