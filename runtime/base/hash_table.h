/* SPDX-License-Identifier: Apache-2.0
 *
 * hash_table: finds what lies in it by a hash, in constant time. The links are members of what is found; it has no
 * lock: its owner's guards it. */
#ifndef TP__HASH_TABLE_H
#define TP__HASH_TABLE_H

#include "runtime/base/base.h"

typedef struct tp__hash_link {
  struct tp__hash_link *next; /* in the same bucket */
  uint64_t hash;
} tp__hash_link;

typedef struct tp__hash_table {
  tp__hash_link **buckets; /* bucket_count of them, a power of two */
  size_t bucket_count, count;
} tp__hash_table;

/** Zero-filled it is empty. */
void tp__hash_table_fini(tp__hash_table *table, const tp_allocator *allocator);
/** Makes sure that tp__hash_table_add() has a bucket. Where a larger table finds no memory the smaller one remains.
 *  @return TP_OK; TP_ERR_NO_MEMORY for the first one. */
tp_status tp__hash_table_reserve(tp__hash_table *table, const tp_allocator *allocator);
void tp__hash_table_add(tp__hash_table *table, tp__hash_link *link, uint64_t hash);
void tp__hash_table_remove(tp__hash_table *table, tp__hash_link *link);
/** The first link of a hash, and the next one; NULL: none. The caller compares what the links are of. */
tp__hash_link *tp__hash_table_first(const tp__hash_table *table, uint64_t hash);
tp__hash_link *tp__hash_table_next(const tp__hash_link *link);

/** @param seed  0, or the hash of what comes before the text. */
uint64_t tp__hash_text(tp_text text, uint64_t seed);

#endif
