/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/keeping.h"

#include <string.h>

#include "domains/memory/store_internal.h"

struct tp__memory_keeping {
  tp__group_work work; /* the first: the group knows it */
  tp__memory_store *store;
  tp__memory_scope scope; /* its texts follow the memories */
  tp__memory_kept_fn end;
  uint64_t tag;
  size_t count;
  tp__memory memories[]; /* likewise */
};

static int write_all_of(void *ctx) {
  const tp__memory_keeping *k = ctx;
  int rc = SQLITE_OK;
  for (size_t i = 0; rc == SQLITE_OK && i < k->count; i++) {
    int64_t id;
    rc = tp__memory_put_locked(k->store, &k->scope, &k->memories[i], &id);
  }
  return rc;
}

static void ended(tp__group_work *work) {
  tp__memory_keeping *k = (tp__memory_keeping *)work;
  tp__memory_kept_fn end = k->end;
  uint64_t tag = k->tag;
  tp_status status = work->status;
  sqlite3_free(k);
  end(tag, status);
}

/* Calls a function with each text of a memory that is kept. */
static void each_text(tp__memory *memory, void (*visit)(void *ctx, tp_text *text), void *ctx) {
  tp_text *const texts[] = {&memory->session, &memory->turn, &memory->part, &memory->text, &memory->subject};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) visit(ctx, texts[i]);
}

static void add_size(void *ctx, tp_text *text) { *(size_t *)ctx += text->size; }

static void put_copy(void *ctx, tp_text *text) { *text = tp__memory_put_text(ctx, *text); }

tp__memory_keeping *tp__memory_keeping_new(tp__memory_store *store, const tp__memory_scope *scope,
                                           const tp__memory *memories, size_t count) {
  assert(store && count > 0);
  const size_t head = sizeof(tp__memory_keeping) + count * sizeof *memories;
  size_t size = head + scope->tenant.size + scope->kind.size + scope->name.size;
  for (size_t i = 0; i < count; i++) {
    tp__memory memory = memories[i];
    each_text(&memory, add_size, &size);
  }
  tp__memory_keeping *k = sqlite3_malloc64(size);
  if (!k) return NULL;
  memset(k, 0, head);
  k->work = (tp__group_work){.write = write_all_of, .ctx = k, .doing = "write", .end = ended};
  k->store = store;
  k->count = count;
  char *at = (char *)k + head;
  k->scope.tenant = tp__memory_put_text(&at, scope->tenant);
  k->scope.kind = tp__memory_put_text(&at, scope->kind);
  k->scope.name = tp__memory_put_text(&at, scope->name);
  for (size_t i = 0; i < count; i++) {
    k->memories[i] = memories[i];
    each_text(&k->memories[i], put_copy, &at);
  }
  return k;
}

void tp__memory_keeping_free(tp__memory_keeping *keeping) { sqlite3_free(keeping); }

void tp__memory_keep_later(tp__memory_keeping *keeping, tp__memory_kept_fn end, uint64_t tag) {
  keeping->end = end;
  keeping->tag = tag;
  tp__group_submit(&keeping->store->group, &keeping->work);
}
