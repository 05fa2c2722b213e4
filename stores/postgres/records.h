/* SPDX-License-Identifier: Apache-2.0
 *
 * records: what a store keeps of entries, attempts, turns, audit rows and content. A record is copied into a queue that
 * is bounded in bytes, and nothing waits for the database; what does not fit is dropped, counted, and logged when that
 * begins and ends. At most one work of a store is under way: it takes what waits, up to a size, and sends one statement
 * for each table. Its connection is one of its own, so that records never stand before what a turn waits for.
 *
 * Without durability SYNC, and without a commit() that waits, a transaction is acknowledged before it is on the disk of
 * the server (synchronous_commit off): a crash of the server loses the last ones, never one of the middle. A record
 * that is written twice, since its commit was not acknowledged, is there once: an entry and a turn have a name, and all
 * else has a number of its own (mark).
 *
 * What could not be written waits on and is tried again five times a second. A single record that the server refuses
 * for what it is, is dropped and logged. Lock: that of the queue. */
#ifndef TP__POSTGRES_RECORDS_H
#define TP__POSTGRES_RECORDS_H

#include "stores/postgres/request.h"
#include "stores/postgres/store.h"

typedef struct tp__pg_records tp__pg_records;

/** Makes store->records. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__pg_records_new(tp__pg_store *store, tp_fault *fault);
/** Writes what waits, until all is written or an attempt fails, which takes timeout_ms at most; what is lost is logged.
 *  Frees it. Accepts a store without. */
void tp__pg_records_free(tp__pg_store *store);
/** Of the owner: durability and the bound of the queue. */
void tp__pg_records_own(tp__pg_store *store, const tp_store_owner *owner);
/** tp_store.commit. */
tp_status tp__pg_records_commit(void *ctx, tp_fault *fault);
/** Waits until what was recorded before is written, or until that fails: before a list is read. */
void tp__pg_records_drain(tp__pg_store *store);
/** How many rows of a table count. */
typedef enum tp__pg_most { TP__PG_MOST_ENTRIES, TP__PG_MOST_TURNS, TP__PG_MOST_AUDITS } tp__pg_most;
size_t tp__pg_records_most(const tp__pg_store *store, tp__pg_most table);

/* ---- tp_store ---- */
tp_status tp__pg_record(void *ctx, const tp_entry_record *record);
tp_status tp__pg_record_batch(void *ctx, const tp_entry_batch *batch);
tp_status tp__pg_record_late(void *ctx, const tp_late_record *late);
tp_status tp__pg_attempt(void *ctx, const tp_attempt_record *record);
tp_status tp__pg_turn_record(void *ctx, const tp_turn_record *record);
tp_status tp__pg_turn_running(void *ctx, const tp_turn_record *record);
tp_status tp__pg_audit(void *ctx, const tp_audit *row);
tp_status tp__pg_content(void *ctx, const tp_content_record *record);
/* record_lists.c */
tp_status tp__pg_record_list(void *ctx, const tp_record_query *query, tp_record_fn each, void *each_ctx,
                             tp_fault *fault);
tp_status tp__pg_attempt_list(void *ctx, const tp_attempt_query *query, tp_attempt_record_fn each, void *each_ctx,
                              tp_fault *fault);
tp_status tp__pg_turn_list(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                           tp_fault *fault);
tp_status tp__pg_turn_running_list(void *ctx, const tp_turn_query *query, tp_turn_record_fn each, void *each_ctx,
                                   tp_fault *fault);
tp_status tp__pg_audit_list(void *ctx, const tp_audit_query *query, tp_audit_fn each, void *each_ctx, tp_fault *fault);
tp_status tp__pg_content_list(void *ctx, const tp_content_query *query, tp_content_record_fn each, void *each_ctx,
                              tp_fault *fault);
tp_status tp__pg_turn_is_cut(void *ctx, uint64_t process_run_id, const tp_text *ids, size_t id_count, bool *ret_is_cut,
                             tp_fault *fault);

/* ---- recovery ---- */
/** Adds statements to the request of a recovery, before that which deletes the rows of processes that have died: they
 *  note the deaths, and interrupt what ran. */
void tp__pg_records_add_reap(tp__pg_request *request);
/** Counts what was interrupted, once the request was run.   @param first  the number of the first of the statements. */
void tp__pg_records_read_reap(const tp__pg_request *request, int first, tp_store_recovery *recovery);

extern const tp__pg_class tp__pg_records_class;

/** The columns of ids, by TP_ID_*. */
#define TP__PG_IDS "tenant, agent, workspace, session, thread, turn, task, run"

#endif
