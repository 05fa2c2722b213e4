/* SPDX-License-Identifier: Apache-2.0
 *
 * record_log: the newest entry records of all threads. Each thread adds to one of a few rings, so that threads seldom
 * wait for each other. A reader gets one list, newest first. Locks: `records`, one for each ring; no thread holds two
 * at once. */
#ifndef TP__RECORD_LOG_H
#define TP__RECORD_LOG_H

#include "runtime/store/record_ring.h"

enum { TP__RECORD_STRIPES = 8 };

typedef struct tp__record_stripe {
  tp__mutex mutex;
  tp__record_ring ring; /* under mutex */
  char pad[128];        /* the next one is on other cache lines */
} tp__record_stripe;

typedef struct tp__record_log {
  const tp_allocator *allocator;
  size_t entries_max;
  tp__a64 bytes; /* of all rings; relaxed: each thread may exceed the bound by one segment */
  char pad[128];
  tp__record_stripe stripes[TP__RECORD_STRIPES];
} tp__record_log;

/** Retains at least the newest entries_max of each thread's records, where memory allows, and gives that many. */
tp_status tp__record_log_init(tp__record_log *log, const tp_allocator *allocator, size_t entries_max);
void tp__record_log_fini(tp__record_log *log);
/** @return as tp__record_ring_add(). Threads: any. */
tp_status tp__record_log_add(tp__record_log *log, const tp__record_source *from, const tp__record_batch *batch);
/** Notes that a run was late. When the entry is no longer retained, nothing happens. */
void tp__record_log_late(tp__record_log *log, const tp_late_record *late);
/** Gives the records that fit the query, newest first, until the callback returns false. Of two records of one thread,
 *  the newer one was added later. Of two records of different threads, the newer one ended later. Records that are
 *  added meanwhile may be missed.
 *  @return TP_OK, TP_ERR_NO_MEMORY. */
tp_status tp__record_log_read(tp__record_log *log, const tp_record_query *query, tp_record_fn each, void *ctx);

#endif
