/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hash_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BUCKETS_MIN = 64 };

static tp__hash_link **hash_bucket(const tp__hash_table *table, uint64_t hash) {
  return &table->buckets[hash & (table->bucket_count - 1)];
}

void tp__hash_table_fini(tp__hash_table *table, const tp_allocator *allocator) {
  tp__release(allocator, table->buckets, table->bucket_count * sizeof *table->buckets);
  *table = (tp__hash_table){0};
}

tp_status tp__hash_table_reserve(tp__hash_table *table, const tp_allocator *allocator) {
  if (table->count < table->bucket_count) return TP_OK;
  tp__hash_table larger = {.bucket_count = table->bucket_count ? 2 * table->bucket_count : BUCKETS_MIN};
  larger.buckets = tp__alloc_zero(allocator, larger.bucket_count * sizeof *larger.buckets);
  if (!larger.buckets) return table->bucket_count ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; i < table->bucket_count; i++) {
    for (tp__hash_link *link = table->buckets[i], *next; link; link = next) {
      next = link->next;
      tp__hash_table_add(&larger, link, link->hash);
    }
  }
  tp__hash_table_fini(table, allocator);
  *table = larger;
  return TP_OK;
}

void tp__hash_table_add(tp__hash_table *table, tp__hash_link *link, uint64_t hash) {
  tp__hash_link **bucket = hash_bucket(table, hash);
  *link = (tp__hash_link){.next = *bucket, .hash = hash};
  *bucket = link;
  table->count++;
}

void tp__hash_table_remove(tp__hash_table *table, tp__hash_link *link) {
  tp__hash_link **at = hash_bucket(table, link->hash);
  while (*at != link) at = &(*at)->next;
  *at = link->next;
  table->count--;
}

tp__hash_link *tp__hash_table_first(const tp__hash_table *table, uint64_t hash) {
  if (table->bucket_count == 0) return NULL;
  tp__hash_link *link = *hash_bucket(table, hash);
  while (link && link->hash != hash) link = link->next;
  return link;
}

tp__hash_link *tp__hash_table_next(const tp__hash_link *link) {
  uint64_t hash = link->hash;
  tp__hash_link *next = link->next;
  while (next && next->hash != hash) next = next->next;
  return next;
}

uint64_t tp__hash_text(tp_text text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.size ? text.data : "", text.size, seed);
}
