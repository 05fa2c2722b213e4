/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of memories for operators: the public functions over a store. Results are copied first, so that callbacks
 * run without a lock. */
#include <stdlib.h>
#include <string.h>

#include "domains/memory/memory.h"
#include "domains/memory/facts.h"
#include "domains/memory/line.h"
#include "domains/memory/recall.h"
#include "domains/memory/score.h"
#include "domains/memory/secrets.h"
#include "domains/memory/store_internal.h"
#include "domains/memory/terms.h"
#include "stores/sqlite/database.h"

enum { LIMIT_DEFAULT = 100, SEARCH_MAX = 1000 };

struct tp_memory {
  tp__memory_store *store;
  char *path;
};

static tp_status refuse_null(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_USAGE, NULL, "memory is NULL: the function needs an object");
}

tp_status tp_memory_open(const char *path, tp_memory **ret_memory, tp_fault *fault) {
  if (!path || !path[0]) return tp__refuse(fault, TP_ERR_USAGE, NULL, "the memory needs a path of a file");
  tp_memory *memory = sqlite3_malloc64(sizeof *memory);
  char *copy = sqlite3_mprintf("%s", path);
  tp_status status = TP_ERR_NO_MEMORY;
  if (memory && copy) {
    *memory = (tp_memory){.path = copy};
    status = tp__memory_store_open(path, &memory->store, fault);
    if (status == TP_ERR_STORE_READONLY) status = tp__memory_store_open_read_only(path, &memory->store, fault);
  } else {
    tp__refuse(fault, status, path, "no memory to open %s", path);
  }
  if (status == TP_OK) {
    *ret_memory = memory;
  } else {
    sqlite3_free(copy);
    sqlite3_free(memory);
  }
  return status;
}

tp_status tp_memory_open_store(const tp_memory_store *store, const char *name, tp_memory **ret_memory,
                               tp_fault *fault) {
  if (!store || !name || !ret_memory)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_memory_open_store: store, name and ret_memory are needed");
  tp_memory *memory = sqlite3_malloc64(sizeof *memory);
  char *copy = sqlite3_mprintf("%s", name);
  tp_status status = memory && copy ? TP_OK : tp__refuse(fault, TP_ERR_NO_MEMORY, name, "no memory to open %s", name);
  if (status == TP_OK) {
    *memory = (tp_memory){.path = copy};
    status = tp__memory_store_over(store, &memory->store, fault);
  }
  if (status == TP_OK) {
    tp__memory_store_own(memory->store, store);
    *ret_memory = memory;
    return TP_OK;
  }
  sqlite3_free(copy);
  sqlite3_free(memory);
  return status;
}

void tp_memory_close(tp_memory *memory) {
  if (!memory) return;
  tp__memory_store_close(memory->store);
  sqlite3_free(memory->path);
  sqlite3_free(memory);
}

/* ---- faults and structs ---- */

static tp_status wrap_store_fault(const tp_memory *memory, tp_status status, const char *doing, tp_fault *fault) {
  if (status == TP_OK) return status;
  return tp__refuse(fault, status, memory->path, "%s: %s: %s", memory->path, doing, tp_status_text(status));
}

static tp_status read_query(const tp_memory_query *theirs, tp_memory_query *ours, tp_fault *fault) {
  tp_status status = tp__struct_read(ours, sizeof *ours, theirs, "tp_memory_query", fault);
  if (status != TP_OK) return status;
  if (ours->reserved_[0] || ours->reserved_[1] || ours->reserved_[2])
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_memory_query.reserved_ must be zero");
  if (ours->beyond < 0)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_memory_query.beyond is negative; 0 is from the end");
  if (ours->limit == 0) ours->limit = LIMIT_DEFAULT;
  return TP_OK;
}

static tp__memory_filter filter_of(const tp_memory_query *query) {
  return (tp__memory_filter){query->tenant, query->scope, query->name};
}

static tp_memory_entry entry_of(const tp__memory *memory) {
  tp_memory_entry entry = tp__memory_entry_of(memory);
  entry.speaker = tp__memory_speaker(memory);
  return entry;
}

/* Passes the entries to each, and frees the list. */
static void show_entries(tp__memory_list *list, tp_memory_entry_fn each, void *ctx) {
  bool more = true;
  for (size_t i = 0; more && i < list->count; i++) {
    tp_memory_entry entry = entry_of(&list->items[i]);
    more = each(ctx, &entry);
  }
  tp__memory_list_fini(list);
}

/* ---- looking ---- */

tp_status tp_memory_list(tp_memory *memory, const tp_memory_query *theirs, tp_memory_entry_fn each, void *ctx,
                         tp_fault *fault) {
  if (!memory) return refuse_null(fault);
  tp_memory_query query;
  tp__memory_list list = {0};
  tp_status status = read_query(theirs, &query, fault);
  if (status != TP_OK) return status;
  tp__memory_filter filter = filter_of(&query);
  status = tp__memory_page(memory->store, &filter, query.beyond, query.oldest_first, query.limit, &list);
  show_entries(&list, each, ctx);
  return wrap_store_fault(memory, status, "list", fault);
}

/* Appends the history of the one memory in the list. */
static tp_status add_history(tp__memory_store *store, tp__memory_list *list) {
  const tp__memory fact = list->items[0]; /* the append moves the list, but not the texts */
  tp__memory_scope scope = {fact.tenant, fact.kind, fact.name};
  tp_status status = tp__memory_facts_history(store, &scope, fact.id, list);
  for (size_t i = 1; i < list->count; i++) {
    list->items[i].tenant = fact.tenant;
    list->items[i].kind = fact.kind;
    list->items[i].name = fact.name;
  }
  return status;
}

tp_status tp_memory_get(tp_memory *memory, int64_t id, tp_memory_entry_fn each, void *ctx, tp_fault *fault) {
  if (!memory) return refuse_null(fault);
  tp__memory_list list = {0};
  tp_status status = tp__memory_find(memory->store, id, &list);
  if (status == TP_OK) status = add_history(memory->store, &list);
  show_entries(&list, each, ctx);
  if (status == TP_ERR_NOT_FOUND)
    return tp__refuse(fault, status, memory->path, "%s: there is no memory of the id %lld", memory->path,
                      (long long)id);
  return wrap_store_fault(memory, status, "read", fault);
}

tp_status tp_memory_scopes(tp_memory *memory, tp_memory_scope_fn each, void *ctx, tp_fault *fault) {
  if (!memory) return refuse_null(fault);
  tp__memory_list list = {0};
  tp_status status = tp__memory_scopes(memory->store, &list);
  bool more = true;
  for (size_t i = 0; more && i < list.count; i++) {
    const tp__memory *row = &list.items[i];
    tp_memory_scope scope = {
        .struct_size = sizeof scope, .tenant = row->tenant, .scope = row->kind, .name = row->name, .memories = row->id};
    more = each(ctx, &scope);
  }
  tp__memory_list_fini(&list);
  return wrap_store_fault(memory, status, "read its scopes", fault);
}

/* ---- searching ---- */

static bool entry_matches(tp_text text, const char *wanted) { return !wanted || tp__is_word(text, wanted); }

/* Keeps the scopes that fit the query and have memories; frees the others. */
static void keep_fitting(tp__memory_list *scopes, const tp_memory_query *query) {
  size_t left = 0;
  for (size_t i = 0; i < scopes->count; i++) {
    tp__memory *scope = &scopes->items[i];
    bool wanted = scope->id > 0 && entry_matches(scope->tenant, query->tenant) &&
                  entry_matches(scope->kind, query->scope) && entry_matches(scope->name, query->name);
    if (wanted) scopes->items[left++] = *scope;
    else sqlite3_free((char *)scope->session.data);
  }
  scopes->count = left;
}

static tp_status refuse_several(const tp_memory *memory, const tp__memory_list *scopes, tp_fault *fault) {
  enum { NAMED_MAX = 4 };
  sqlite3_str *names = sqlite3_str_new(NULL);
  for (size_t i = 0; i < scopes->count && i < NAMED_MAX; i++) {
    const tp__memory *s = &scopes->items[i];
    sqlite3_str_appendf(names, "%stenant \"%.*s\" %.*s \"%.*s\"", i ? ", " : "", (int)s->tenant.size, s->tenant.data,
                        (int)s->kind.size, s->kind.data, (int)s->name.size, s->name.data);
  }
  char *words = sqlite3_str_finish(names);
  tp_status status =
      tp__refuse(fault, TP_ERR_USAGE, memory->path, "%s: %zu scopes fit, and a search is in one: say which of %s%s",
                 memory->path, scopes->count, words ? words : "", scopes->count > NAMED_MAX ? " …" : "");
  sqlite3_free(words);
  return status;
}

static tp_status search_in(tp_memory *memory, const tp__memory *in, size_t limit, tp_text text, tp_memory_entry_fn each,
                           void *ctx) {
  tp__memory_scope scope = {in->tenant, in->kind, in->name};
  tp__memory_list list = {0};
  double *parts = sqlite3_malloc64(limit * TP__MEMORY_PART_COUNT * sizeof *parts);
  tp_status status = TP_ERR_NO_MEMORY;
  const tp__memory_question asked = {.text = text, .asked_ms = tp__wall_ms()};
  if (parts) status = tp__memory_recall_explained(memory->store, &scope, &asked, limit, &list, parts);
  bool more = status == TP_OK;
  for (size_t i = 0; more && i < list.count; i++) {
    tp_memory_entry entry = entry_of(&list.items[i]);
    entry.tenant = in->tenant;
    entry.scope = in->kind;
    entry.name = in->name;
    entry.parts = parts + i * TP__MEMORY_PART_COUNT;
    entry.part_count = TP__MEMORY_PART_COUNT;
    for (size_t k = 0; k < entry.part_count; k++) entry.score += entry.parts[k];
    more = each(ctx, &entry);
  }
  tp__memory_list_fini(&list);
  sqlite3_free(parts);
  return status;
}

tp_status tp_memory_search(tp_memory *memory, const tp_memory_query *theirs, tp_text text, tp_memory_entry_fn each,
                           void *ctx, tp_fault *fault) {
  if (!memory) return refuse_null(fault);
  tp_memory_query query;
  tp__memory_list scopes = {0};
  tp_status status = read_query(theirs, &query, fault);
  if (status != TP_OK) return status;
  if (query.oldest_first || query.beyond || query.limit > SEARCH_MAX)
    return tp__refuse(fault, TP_ERR_USAGE, memory->path,
                      "a search is in the order of relevance and has at most %d entries: leave beyond and "
                      "oldest_first zero, and lower limit",
                      SEARCH_MAX);
  status = wrap_store_fault(memory, tp__memory_scopes(memory->store, &scopes), "read its scopes", fault);
  if (status != TP_OK) return status;
  keep_fitting(&scopes, &query);
  if (scopes.count == 1)
    status =
        wrap_store_fault(memory, search_in(memory, &scopes.items[0], query.limit, text, each, ctx), "search", fault);
  else if (scopes.count == 0)
    status = tp__refuse(fault, TP_ERR_NOT_FOUND, memory->path, "%s: no scope that holds memories fits", memory->path);
  else status = refuse_several(memory, &scopes, fault);
  tp__memory_list_fini(&scopes);
  return status;
}

const char *tp_memory_part_name(size_t index) {
  return index < TP__MEMORY_PART_COUNT ? tp__memory_part_rows[index].name : NULL;
}

const char *tp_memory_part_summary(size_t index) {
  return index < TP__MEMORY_PART_COUNT ? tp__memory_part_rows[index].words : NULL;
}

/* ---- changing ---- */

tp_status tp_memory_forget(tp_memory *memory, int64_t id, tp_fault *fault) {
  if (!memory) return refuse_null(fault);
  tp__memory_list list = {0};
  tp__memory_scope scope = {0};
  tp_status status = tp__memory_find(memory->store, id, &list);
  if (status == TP_OK) scope = (tp__memory_scope){list.items[0].tenant, list.items[0].kind, list.items[0].name};
  bool gone = status == TP_ERR_NOT_FOUND;
  if (status == TP_OK || gone) status = tp__memory_forget(memory->store, &scope, id);
  tp__memory_list_fini(&list);
  if (status == TP_ERR_NOT_FOUND)
    return tp__refuse(fault, status, memory->path, "%s: there is no memory of the id %lld", memory->path,
                      (long long)id);
  return wrap_store_fault(memory, status, "forget", fault);
}

tp_status tp_memory_forget_all(tp_memory *memory, const int64_t *ids, size_t count, size_t *ret_count,
                               tp_fault *fault) {
  if (!memory) return refuse_null(fault);
  if (!ids && count > 0) return tp__refuse(fault, TP_ERR_USAGE, NULL, "ids is NULL, but count is not 0");
  return wrap_store_fault(memory, tp__memory_forget_all(memory->store, ids, count, ret_count), "forget", fault);
}

static tp_status wrong_entry(size_t index, tp_status status, const char *what, tp_fault *fault) {
  return tp__refuse(fault, status, NULL, "entries[%zu]: %s", index, what);
}

static tp_status read_entry(const tp_memory_entry *theirs, size_t index, tp__memory *ret_memory, tp_fault *fault) {
  tp_memory_entry e;
  if (!theirs) return wrong_entry(index, TP_ERR_USAGE, "is NULL", fault);
  tp_status status = tp__struct_read(&e, sizeof e, theirs, "tp_memory_entry", fault);
  if (status != TP_OK) return status;
  enum { TEXT = 6 };
  const tp_text texts[] = {e.tenant, e.scope, e.name, e.session, e.turn, e.part, e.text, e.subject};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    if (!tp_utf8_valid(texts[i], NULL)) return wrong_entry(index, TP_ERR_UTF8, "a text is not UTF-8", fault);
    if (i != TEXT && texts[i].size > TP__MEMORY_NOTE_BYTES_MAX)
      return wrong_entry(index, TP_ERR_TOO_LARGE, "what names it has more than 4096 bytes", fault);
  }
  if (e.text.size > TP__MEMORY_TEXT_BYTES_MAX)
    return wrong_entry(index, TP_ERR_TOO_LARGE, "its text has more than 131072 bytes", fault);
  if (e.said_unix_ms <= 0) return wrong_entry(index, TP_ERR_USAGE, "said_unix_ms must be above 0", fault);
  if (e.subject.size > TP__MEMORY_SUBJECT_MAX)
    return wrong_entry(index, TP_ERR_TOO_LARGE, "its subject has more than 128 bytes", fault);
  if (e.replaced_unix_ms < 0 || (e.replaced_unix_ms > 0 && e.subject.size == 0))
    return wrong_entry(index, TP_ERR_USAGE, "replaced_unix_ms is for facts, which have a subject", fault);
  if (tp__memory_is_blank(e.text)) return wrong_entry(index, TP_ERR_USAGE, "its text is blank", fault);
  if (!tp__memory_is_scope_kind(e.scope))
    return wrong_entry(index, TP_ERR_USAGE, "its scope must be user, workspace, thread, agent or task", fault);
  *ret_memory = (tp__memory){.said_ms = e.said_unix_ms,
                             .session = e.session,
                             .turn = e.turn,
                             .part = e.part,
                             .text = e.text,
                             .subject = e.subject,
                             .replaced_ms = e.replaced_unix_ms,
                             .tenant = e.tenant,
                             .kind = e.scope,
                             .name = e.name};
  return TP_OK;
}

/* Redacts the texts of an entry. The caller frees the blocks after the entry is kept. */
static tp_status redact_entry(tp__memory *memory, char *blocks[2], size_t *secrets) {
  tp_text *const texts[] = {&memory->text, &memory->subject};
  tp_status status = TP_OK;
  for (size_t i = 0; i < 2 && status == TP_OK; i++) {
    size_t count = 0;
    status = tp__memory_redact_secrets(*texts[i], texts[i], &blocks[i], &count);
    *secrets += count;
  }
  return status;
}

tp_status tp_memory_import_with(tp_memory *memory, const tp_memory_import_options *theirs,
                                const tp_memory_entry *const *entries, size_t count, size_t *ret_secrets,
                                tp_fault *fault) {
  tp_memory_import_options options;
  size_t secrets = 0;
  if (!memory) return refuse_null(fault);
  tp_status status = tp__struct_read(&options, sizeof options, theirs, "tp_memory_import_options", fault);
  if (status != TP_OK) return status;
  for (size_t i = 0; i < sizeof options.reserved_; i++)
    if (options.reserved_[i])
      return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_memory_import_options.reserved_ must be zero");
  if (count > 0 && !entries) return tp__refuse(fault, TP_ERR_USAGE, NULL, "entries is NULL, and count is %zu", count);
  tp__memory *memories = sqlite3_malloc64((count + 1) * sizeof *memories);
  char *(*blocks)[2] = sqlite3_malloc64((count + 1) * sizeof *blocks);
  if (!memories || !blocks) status = wrap_store_fault(memory, TP_ERR_NO_MEMORY, "import", fault);
  if (blocks) memset(blocks, 0, (count + 1) * sizeof *blocks);
  for (size_t i = 0; status == TP_OK && i < count; i++) {
    status = read_entry(entries[i], i, &memories[i], fault);
    if (status == TP_OK && !options.keep_secrets)
      status = wrap_store_fault(memory, redact_entry(&memories[i], blocks[i], &secrets), "import", fault);
  }
  if (status == TP_OK && count)
    status = wrap_store_fault(memory, tp__memory_put_all(memory->store, memories, count), "import", fault);
  for (size_t i = 0; blocks && i < count; i++) {
    sqlite3_free(blocks[i][0]);
    sqlite3_free(blocks[i][1]);
  }
  sqlite3_free(blocks);
  sqlite3_free(memories);
  if (status == TP_OK && ret_secrets) *ret_secrets = secrets;
  return status;
}

tp_status tp_memory_import(tp_memory *memory, const tp_memory_entry *const *entries, size_t count, tp_fault *fault) {
  return tp_memory_import_with(memory, NULL, entries, count, NULL, fault);
}
