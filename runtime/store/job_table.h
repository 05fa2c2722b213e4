/* SPDX-License-Identifier: Apache-2.0
 *
 * job_table: finds what lies in it by a hash, in constant time. The links are members of what is found; it has no lock:
 * its owner's guards it. */
#ifndef TP__JOB_TABLE_H
#define TP__JOB_TABLE_H

#include "runtime/base/base.h"

typedef struct tp__hash_link {
  struct tp__hash_link *next; /* in the same bucket */
  uint64_t hash;
} tp__hash_link;

typedef struct tp__job_table {
  tp__hash_link **buckets; /* bucket_count of them, a power of two */
  size_t bucket_count, count;
} tp__job_table;

/** Zero-filled it is empty. */
void tp__job_table_fini(tp__job_table *table, const tp_allocator *allocator);
/** Makes sure that tp__job_table_add() has a bucket. Where a larger table finds no memory the smaller one remains.
 *  @return TP_OK; TP_ERR_NO_MEMORY for the first one. */
tp_status tp__job_table_reserve(tp__job_table *table, const tp_allocator *allocator);
void tp__job_table_add(tp__job_table *table, tp__hash_link *link, uint64_t hash);
void tp__job_table_remove(tp__job_table *table, tp__hash_link *link);
/** The first link of a hash, and the next one; NULL: none. The caller compares what the links are of. */
tp__hash_link *tp__job_table_first(const tp__job_table *table, uint64_t hash);
tp__hash_link *tp__job_table_next(const tp__hash_link *link);

#endif
