/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/keeping.h"

#include <string.h>

#include "domains/memory/store_internal.h"

struct tp__memory_keeping {
  tp__memory_store *store;
  tp__memory_kept_fn end;
  uint64_t tag;
  size_t count;
  const tp_memory_entry **list; /* the entries; their texts follow in the same block */
  tp_memory_entry entries[];
};

static void ended(void *ctx, tp_status status) {
  tp__memory_keeping *k = ctx;
  tp__memory_kept_fn end = k->end;
  uint64_t tag = k->tag;
  sqlite3_free(k);
  end(tag, status);
}

/* Calls a function with each text of an entry that is kept, except those of its scope. */
static void each_text(tp_memory_entry *entry, void (*visit)(void *ctx, tp_text *text), void *ctx) {
  tp_text *const texts[] = {&entry->session, &entry->turn, &entry->part, &entry->text, &entry->subject};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) visit(ctx, texts[i]);
}

static void add_size(void *ctx, tp_text *text) { *(size_t *)ctx += text->size; }

static void put_copy(void *ctx, tp_text *text) { *text = tp__memory_put_text(ctx, *text); }

tp__memory_keeping *tp__memory_keeping_new(tp__memory_store *store, const tp__memory_scope *scope,
                                           const tp__memory *memories, size_t count) {
  assert(store && count > 0);
  const size_t entries_end = sizeof(tp__memory_keeping) + count * sizeof(tp_memory_entry);
  const size_t head = entries_end + count * sizeof(tp_memory_entry *);
  size_t size = head + scope->tenant.size + scope->kind.size + scope->name.size;
  for (size_t i = 0; i < count; i++) {
    tp_memory_entry entry = tp__memory_entry_of(&memories[i]);
    each_text(&entry, add_size, &size);
  }
  tp__memory_keeping *k = sqlite3_malloc64(size);
  if (!k) return NULL;
  memset(k, 0, head);
  k->store = store;
  k->count = count;
  k->list = (const tp_memory_entry **)(void *)((char *)k + entries_end);
  char *at = (char *)k + head;
  const tp_text tenant = tp__memory_put_text(&at, scope->tenant), kind = tp__memory_put_text(&at, scope->kind),
                name = tp__memory_put_text(&at, scope->name);
  for (size_t i = 0; i < count; i++) {
    tp_memory_entry *entry = &k->entries[i];
    *entry = tp__memory_entry_of(&memories[i]);
    each_text(entry, put_copy, &at);
    entry->tenant = tenant;
    entry->scope = kind;
    entry->name = name;
    k->list[i] = entry;
  }
  return k;
}

void tp__memory_keeping_free(tp__memory_keeping *keeping) { sqlite3_free(keeping); }

void tp__memory_keep_later(tp__memory_keeping *keeping, tp__memory_kept_fn end, uint64_t tag) {
  const tp_memory_store *rows = &keeping->store->rows;
  keeping->end = end;
  keeping->tag = tag;
  tp_status status = rows->put_later(rows->ctx, keeping->list, keeping->count, ended, keeping);
  if (status != TP_OK) ended(keeping, status);
}
