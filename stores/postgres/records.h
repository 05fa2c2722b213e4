/* SPDX-License-Identifier: Apache-2.0
 *
 * records: a store's records of entries, attempts, turns, audit rows and content. A record is copied into a queue that
 * is bounded in bytes, and no turn waits for the database. A record that does not fit is dropped and counted; the log
 * has a line when dropping begins and when it ends. At most one work of a store is under way: it takes the waiting
 * records, up to a size, and sends one statement for each table. It has a connection of its own, so that records never
 * delay the works that turns wait for.
 *
 * Without durability SYNC, and without a commit() that waits, a transaction is acknowledged before it is on the disk of
 * the server (synchronous_commit off): a crash of the server loses the last records, but never leaves a gap. A record
 * that is written twice, since its commit was not acknowledged, is there once: an entry and a turn have a name, and all
 * else has a number of its own (mark).
 *
 * Records that could not be written stay in the queue, and are tried again five times a second. A record that the
 * server refuses because of its content is dropped and logged. Lock: that of the queue. */
#ifndef TP__POSTGRES_RECORDS_H
#define TP__POSTGRES_RECORDS_H

#include "stores/postgres/request.h"
#include "stores/postgres/store.h"

typedef struct tp__pg_records tp__pg_records;

/** Makes store->records. @return TP_OK; TP_ERR_NO_MEMORY. */
tp_status tp__pg_records_new(tp__pg_store *store, tp_fault *fault);
/** Writes the waiting records, until all are written or an attempt fails, for at most timeout_ms, logs how many are
 *  lost, and frees the queue. Accepts a store without records. */
void tp__pg_records_free(tp__pg_store *store);
/** Takes the durability and the bound of the queue from the owner. */
void tp__pg_records_own(tp__pg_store *store, const tp_store_owner *owner);
/** tp_store.commit. */
tp_status tp__pg_records_commit(void *ctx, tp_fault *fault);
/** Waits until all earlier records are written, or until that fails. Called before a list is read. */
void tp__pg_records_drain(tp__pg_store *store);
/** The tables with a bound of rows. */
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
/** Adds statements to the request of a recovery, before the statement that deletes the rows of dead processes: they
 *  note the deaths, and mark what ran as interrupted. */
void tp__pg_records_add_reap(tp__pg_request *request);
/** Counts what was interrupted, once the request was run.   @param first  the number of the first of these
 *  statements. */
void tp__pg_records_read_reap(const tp__pg_request *request, int first, tp_store_recovery *recovery);

extern const tp__pg_class tp__pg_records_class;

/** The columns of ids, by TP_ID_*. */
#define TP__PG_IDS "tenant, agent, workspace, session, thread, turn, task, run"

#endif
