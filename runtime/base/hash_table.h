/* SPDX-License-Identifier: Apache-2.0
 *
 * hash_table: a table that finds an item by its hash, in constant time. The links are members of the items. The table
 * has no lock: a lock of its owner guards it. */
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
/** Makes sure that tp__hash_table_add() has a bucket. Without memory for a larger table, the smaller table stays in
 *  use.
 *  @return TP_OK; TP_ERR_NO_MEMORY when there is no table yet. */
tp_status tp__hash_table_reserve(tp__hash_table *table, const tp_allocator *allocator);
void tp__hash_table_add(tp__hash_table *table, tp__hash_link *link, uint64_t hash);
void tp__hash_table_remove(tp__hash_table *table, tp__hash_link *link);
/** The first link with this hash, and the next one; NULL: there is none. Different items may have the same hash, so the
 *  caller compares the items. */
tp__hash_link *tp__hash_table_first(const tp__hash_table *table, uint64_t hash);
tp__hash_link *tp__hash_table_next(const tp__hash_link *link);

/** @param seed 0, or the hash of the text that precedes this text. */
uint64_t tp__hash_text(tp_text text, uint64_t seed);

#endif
