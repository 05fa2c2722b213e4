/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/store.h"

#include <string.h>

#include "domains/memory/index.h"
#include "domains/memory/sqlite.h"
#include "stores/sqlite/database.h"

const char tp__memory_assistant[] = "assistant";

bool tp__memory_is_assistant(tp_text part) { return tp__is_word(part, tp__memory_assistant); }

/* ---- life ---- */

static int make_stemmer(tp__memory_store *store) {
  /* Marks count as letters: in Thai and the scripts of India they are vowels. */
  const char *arguments[] = {"unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"};
  fts5_api *api = NULL;
  void *ctx = NULL;
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(store->db, "SELECT fts5(?1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_pointer(statement, 1, &api, "fts5_api_ptr", NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(statement);
  int end = sqlite3_finalize(statement);
  if (rc != SQLITE_ROW || !api) return end != SQLITE_OK ? end : rc == SQLITE_ROW ? SQLITE_ERROR : rc;
  rc = api->xFindTokenizer(api, "porter", &ctx, &store->tokenizer);
  if (rc == SQLITE_OK) rc = store->tokenizer.xCreate(ctx, arguments, 5, &store->stemmer);
  return rc;
}

/* Frees everything but the rows. */
static void store_free(tp__memory_store *store) {
  tp__memory_indexes_free(store);
  if (store->stemmer) store->tokenizer.xDelete(store->stemmer);
  sqlite3_close(store->db);
  tp__lock_condition_fini(&store->released);
  tp__lock_fini(&store->mutex);
  sqlite3_free(store);
}

static tp_status store_new(tp__memory_store **ret_store, tp_fault *fault) {
  tp__memory_store *store = sqlite3_malloc64(sizeof *store);
  if (!store) return tp__sqlite_fail(NULL, NULL, "open", SQLITE_NOMEM, fault);
  memset(store, 0, sizeof *store);
  store->index_bytes_max = TP__MEMORY_INDEX_BYTES_MAX;
  tp__lock_init(&store->mutex, TP__LOCK_memory_index);
  tp__lock_condition_init(&store->released);
  int rc = sqlite3_open_v2(":memory:", &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
  if (rc == SQLITE_OK) rc = make_stemmer(store);
  if (rc == SQLITE_OK) {
    *ret_store = store;
    return TP_OK;
  }
  tp_status status = tp__sqlite_fail(store->db, NULL, "prepare", rc, fault);
  store_free(store);
  return status;
}

static tp_status open_store(const char *path, bool read_only, tp__memory_store **ret_store, tp_fault *fault) {
  tp__memory_store *store = NULL;
  tp_status status = store_new(&store, fault);
  if (status != TP_OK) return status;
  status = tp__memory_sqlite_open(path, read_only, &store->rows, fault);
  if (status == TP_OK) *ret_store = store;
  else store_free(store);
  return status;
}

tp_status tp__memory_store_open(const char *path, tp__memory_store **ret_store, tp_fault *fault) {
  return open_store(path, false, ret_store, fault);
}

tp_status tp__memory_store_open_read_only(const char *path, tp__memory_store **ret_store, tp_fault *fault) {
  return open_store(path, true, ret_store, fault);
}

static bool is_whole(const tp_memory_store *s) {
  return s->put && s->put_later && s->put_facts && s->news && s->get && s->list && s->facts && s->scopes && s->erase &&
         s->vectors_missing && s->vectors_put && s->vectors && s->destroy;
}

static void leave_to_caller(void *ctx) { (void)ctx; }

void tp__memory_store_own(tp__memory_store *store, const tp_memory_store *rows) {
  assert(store->rows.ctx == rows->ctx && store->rows.destroy == leave_to_caller);
  store->rows.destroy = rows->destroy;
}

tp_status tp__memory_store_over(const tp_memory_store *theirs, tp__memory_store **ret_store, tp_fault *fault) {
  tp_memory_store rows;
  tp__memory_store *store = NULL;
  tp_status status = tp__struct_read(&rows, sizeof rows, theirs, "tp_memory_store", fault);
  if (status != TP_OK) return status;
  if (!is_whole(&rows)) return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_memory_store lacks a function: give all");
  status = store_new(&store, fault);
  if (status != TP_OK) return status;
  store->rows = rows;
  store->rows.destroy = leave_to_caller;
  *ret_store = store;
  return TP_OK;
}

void tp__memory_store_close(tp__memory_store *store) {
  if (!store) return;
  store->rows.destroy(store->rows.ctx);
  store_free(store);
}

tp_status tp__memory_store_make_async(tp__memory_store *store, tp_fault *fault) {
  return tp__memory_sqlite_make_async(&store->rows, fault);
}

void tp__memory_store_bound_indexes(tp__memory_store *store, size_t bytes_max) {
  assert(bytes_max > 0 && !store->indexes);
  store->index_bytes_max = bytes_max;
}

/* ---- lists ---- */

void tp__memory_list_fini(tp__memory_list *list) {
  assert(list->count <= list->capacity);
  for (size_t i = 0; i < list->count; i++) sqlite3_free((char *)list->items[i].session.data);
  sqlite3_free(list->items);
  *list = (tp__memory_list){0};
}

void tp__memory_list_cut(tp__memory_list *list, size_t count) {
  assert(count <= list->count && list->count <= list->capacity);
  while (list->count > count) sqlite3_free((char *)list->items[--list->count].session.data);
}

static bool list_grow(tp__memory_list *list) {
  assert(list->count <= list->capacity);
  if (list->count < list->capacity) return true;
  size_t capacity = list->capacity ? 2 * list->capacity : 16;
  tp__memory *items = sqlite3_realloc64(list->items, capacity * sizeof *items);
  if (!items) return false;
  list->items = items;
  list->capacity = capacity;
  return true;
}

tp_text tp__memory_put_text(char **next, tp_text text) {
  char *at = *next;
  if (text.size) memcpy(at, text.data, text.size);
  *next += text.size;
  return (tp_text){at, text.size};
}

tp__memory_gathering tp__memory_gather(tp__memory_list *list) {
  return (tp__memory_gathering){.list = list, .before = list->count, .status = TP_OK};
}

/* The block of the texts begins with the session. */
bool tp__memory_gather_entry(void *gathering, const tp_memory_entry *entry) {
  tp__memory_gathering *g = gathering;
  const tp_text texts[] = {entry->session, entry->turn,   entry->part,  entry->text,
                           entry->subject, entry->tenant, entry->scope, entry->name};
  size_t size = 1;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) size += texts[i].size;
  char *next = list_grow(g->list) ? sqlite3_malloc64(size) : NULL;
  if (!next) {
    g->status = TP_ERR_NO_MEMORY;
    return false;
  }
  tp__memory *memory = &g->list->items[g->list->count++];
  *memory = (tp__memory){.id = entry->id,
                         .said_ms = entry->said_unix_ms,
                         .replaced_ms = entry->replaced_unix_ms,
                         .replaced_by = entry->replaced_by};
  tp_text *const into[] = {&memory->session, &memory->turn,   &memory->part, &memory->text,
                           &memory->subject, &memory->tenant, &memory->kind, &memory->name};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *into[i] = tp__memory_put_text(&next, texts[i]);
  return true;
}

tp_status tp__memory_gathered(tp__memory_gathering *gathering, tp_status status) {
  if (status == TP_OK) status = gathering->status;
  if (status != TP_OK) tp__memory_list_cut(gathering->list, gathering->before);
  return status;
}

tp_memory_entry tp__memory_entry_of(const tp__memory *memory) {
  return (tp_memory_entry){.struct_size = sizeof(tp_memory_entry),
                           .id = memory->id,
                           .said_unix_ms = memory->said_ms,
                           .tenant = memory->tenant,
                           .scope = memory->kind,
                           .name = memory->name,
                           .session = memory->session,
                           .turn = memory->turn,
                           .part = memory->part,
                           .text = memory->text,
                           .subject = memory->subject,
                           .replaced_unix_ms = memory->replaced_ms,
                           .replaced_by = memory->replaced_by};
}

tp_memory_scope tp__memory_owner_of(const tp__memory_scope *scope) {
  return (tp_memory_scope){
      .struct_size = sizeof(tp_memory_scope), .tenant = scope->tenant, .scope = scope->kind, .name = scope->name};
}

/* ---- writing ---- */

tp_status tp__memory_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *memory,
                         int64_t *ret_id) {
  tp_memory_entry entry = tp__memory_entry_of(memory);
  const tp_memory_entry *const entries[] = {&entry};
  entry.tenant = scope->tenant;
  entry.scope = scope->kind;
  entry.name = scope->name;
  return store->rows.put(store->rows.ctx, entries, 1, ret_id, NULL);
}

tp_status tp__memory_put_all(tp__memory_store *store, const tp__memory *memories, size_t count) {
  tp_memory_entry *entries = sqlite3_malloc64((count + 1) * sizeof *entries);
  const tp_memory_entry **list = sqlite3_malloc64((count + 1) * sizeof *list);
  tp_status status = entries && list ? TP_OK : TP_ERR_NO_MEMORY;
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    entries[i] = tp__memory_entry_of(&memories[i]);
    list[i] = &entries[i];
  }
  if (status == TP_OK) status = store->rows.put(store->rows.ctx, list, count, NULL, NULL);
  sqlite3_free(list);
  sqlite3_free(entries);
  return status;
}

tp_status tp__memory_forget(tp__memory_store *store, const tp__memory_scope *scope, int64_t id) {
  const tp_memory_scope owner = tp__memory_owner_of(scope);
  size_t count = 0;
  tp_status status = store->rows.erase(store->rows.ctx, &owner, &id, 1, &count, NULL);
  return status == TP_OK && count == 0 ? TP_ERR_NOT_FOUND : status;
}

tp_status tp__memory_forget_all(tp__memory_store *store, const int64_t *ids, size_t count, size_t *ret_count) {
  assert(store && (ids || count == 0));
  size_t forgotten = 0;
  tp_status status = store->rows.erase(store->rows.ctx, NULL, ids, count, &forgotten, NULL);
  if (ret_count) *ret_count = forgotten;
  return status;
}

/* ---- reading ---- */

tp_status tp__memory_find(tp__memory_store *store, int64_t id, tp__memory_list *list) {
  tp__memory_gathering g = tp__memory_gather(list);
  tp_status status = store->rows.get(store->rows.ctx, 0, &id, 1, tp__memory_gather_entry, &g, NULL);
  status = tp__memory_gathered(&g, status);
  return status == TP_OK && list->count == g.before ? TP_ERR_NOT_FOUND : status;
}

tp_status tp__memory_get(tp__memory_store *store, const tp__memory_scope *scope, int64_t id, tp__memory_list *list) {
  const size_t before = list->count;
  tp_status status = tp__memory_find(store, id, list);
  if (status != TP_OK) return status;
  const tp__memory *memory = &list->items[before];
  if (tp__same(memory->tenant, scope->tenant) && tp__same(memory->kind, scope->kind) &&
      tp__same(memory->name, scope->name))
    return TP_OK;
  tp__memory_list_cut(list, before);
  return TP_ERR_NOT_FOUND;
}

tp_status tp__memory_newest(tp__memory_store *store, const tp__memory_scope *scope, int64_t before, size_t limit,
                            tp__memory_list *list) {
  const tp_memory_scope owner = tp__memory_owner_of(scope);
  const tp_memory_query query = {.struct_size = sizeof query, .beyond = before, .limit = (uint32_t)limit};
  tp__memory_gathering g = tp__memory_gather(list);
  assert(limit <= UINT32_MAX);
  return tp__memory_gathered(&g, store->rows.list(store->rows.ctx, &owner, &query, tp__memory_gather_entry, &g, NULL));
}

tp_status tp__memory_page(tp__memory_store *store, const tp__memory_filter *filter, int64_t beyond, bool oldest_first,
                          size_t limit, tp__memory_list *list) {
  const tp_memory_query query = {.struct_size = sizeof query,
                                 .tenant = filter->tenant,
                                 .scope = filter->kind,
                                 .name = filter->name,
                                 .beyond = beyond,
                                 .limit = (uint32_t)limit,
                                 .oldest_first = oldest_first};
  tp__memory_gathering g = tp__memory_gather(list);
  assert(limit <= UINT32_MAX);
  return tp__memory_gathered(&g, store->rows.list(store->rows.ctx, NULL, &query, tp__memory_gather_entry, &g, NULL));
}

static bool gather_scope(void *gathering, const tp_memory_scope *scope) {
  const tp_memory_entry entry = {
      .id = scope->memories, .tenant = scope->tenant, .scope = scope->scope, .name = scope->name};
  return tp__memory_gather_entry(gathering, &entry);
}

tp_status tp__memory_scopes(tp__memory_store *store, tp__memory_list *list) {
  tp__memory_gathering g = tp__memory_gather(list);
  return tp__memory_gathered(&g, store->rows.scopes(store->rows.ctx, gather_scope, &g, NULL));
}
