/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session_table.h"

#include "phases/session.h"

enum { BUCKETS_MIN = 64 };

void tp__session_table_init(tp__session_table *table, const tp_allocator *allocator) {
  *table = (tp__session_table){.allocator = allocator};
}

void tp__session_table_fini(tp__session_table *table) {
  tp__release(table->allocator, table->buckets, table->bucket_count * sizeof *table->buckets);
}

/* FNV-1a over both names and the NUL between them. */
static uint64_t hash_of(const char *tenant, const char *id) {
  uint64_t hash = 0xcbf29ce484222325u;
  const char *names[] = {tenant ? tenant : "", id};
  for (int i = 0; i < 2; i++) {
    for (const char *at = names[i]; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    hash *= 0x100000001b3u;
  }
  return hash ^ hash >> 32;
}

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static tp_session **bucket_of(const tp__session_table *table, const tp_session *session) {
  return &table->buckets[hash_of(session->tenant, session->id) & (table->bucket_count - 1)];
}

tp_session *tp__session_table_find(const tp__session_table *table, const char *tenant, const char *id) {
  if (!table->buckets) return NULL;
  tp_session *session = table->buckets[hash_of(tenant, id) & (table->bucket_count - 1)];
  while (session && !(same(session->tenant, tenant) && same(session->id, id))) session = session->table_next;
  return session;
}

/* Twice as many buckets. Where there is no memory for them, the chains grow instead. */
static void grow(tp__session_table *table) {
  tp__session_table wider = *table;
  wider.bucket_count = table->bucket_count ? table->bucket_count * 2 : BUCKETS_MIN;
  wider.buckets = tp__alloc_zero(table->allocator, wider.bucket_count * sizeof *wider.buckets);
  if (!wider.buckets) return;
  for (size_t i = 0; i < table->bucket_count; i++)
    for (tp_session *session = table->buckets[i], *next; session; session = next) {
      next = session->table_next;
      tp_session **bucket = bucket_of(&wider, session);
      session->table_next = *bucket;
      *bucket = session;
    }
  tp__session_table_fini(table);
  *table = wider;
}

tp_status tp__session_table_add(tp__session_table *table, tp_session *session) {
  if (table->count >= table->bucket_count) grow(table);
  if (!table->buckets) return TP_ERR_NO_MEMORY;
  tp_session **bucket = bucket_of(table, session);
  for (const tp_session *other = *bucket; other; other = other->table_next)
    if (same(other->tenant, session->tenant) && same(other->id, session->id)) return TP_ERR_BUSY;
  session->table_next = *bucket;
  *bucket = session;
  table->count++;
  return TP_OK;
}

void tp__session_table_remove(tp__session_table *table, tp_session *session) {
  if (!table->buckets) return;
  for (tp_session **at = bucket_of(table, session); *at; at = &(*at)->table_next) {
    if (*at != session) continue;
    *at = session->table_next;
    table->count--;
    return;
  }
}
