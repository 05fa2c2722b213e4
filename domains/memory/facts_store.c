/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/facts.h"
#include "domains/memory/line.h"
#include "domains/memory/recall.h"
#include "domains/memory/store_internal.h"

/* ---- known ones ---- */

static void move(tp__memory_list *list, size_t to, size_t from) {
  tp__memory kept = list->items[to];
  list->items[to] = list->items[from];
  list->items[from] = kept;
}

/* Keeps, of the items after `from`, the facts, each once, at most max of them; frees the rest. */
static void keep_facts(tp__memory_list *list, size_t from, size_t max) {
  size_t kept = from;
  for (size_t i = from; i < list->count && kept - from < max; i++) {
    const tp__memory *m = &list->items[i];
    bool before = false;
    for (size_t k = from; k < kept; k++) before |= list->items[k].id == m->id;
    if (m->subject.size && !before) move(list, kept++, i);
  }
  tp__memory_list_cut(list, kept);
}

static tp_status list_facts(tp__memory_store *store, const tp__memory_scope *scope, int64_t id, size_t limit,
                            tp__memory_list *list) {
  const tp_memory_scope owner = tp__memory_owner_of(scope);
  tp__memory_gathering g = tp__memory_gather(list);
  return tp__memory_gathered(&g,
                             store->rows.facts(store->rows.ctx, &owner, id, limit, tp__memory_gather_entry, &g, NULL));
}

tp_status tp__memory_facts_known(tp__memory_store *store, const tp__memory_scope *scope, tp_text text,
                                 tp__memory_list *list) {
  enum { RECALLED_MAX = 64, SHARING_WORDS_MAX = TP__MEMORY_FACTS_KNOWN_MAX / 2 };
  size_t from = list->count;
  tp_status status = tp__memory_recall(store, scope, text, RECALLED_MAX, list);
  if (status != TP_OK) return status;
  keep_facts(list, from, SHARING_WORDS_MAX);
  status = list_facts(store, scope, 0, TP__MEMORY_FACTS_KNOWN_MAX, list);
  if (status == TP_OK) keep_facts(list, from, TP__MEMORY_FACTS_KNOWN_MAX);
  else tp__memory_list_cut(list, from);
  return status;
}

/* ---- keeping ---- */

tp_status tp__memory_facts_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *said,
                               const tp__memory_facts *facts, size_t *ret_kept) {
  tp_memory_entry entries[TP__MEMORY_FACTS_MAX];
  const tp_memory_entry *list[TP__MEMORY_FACTS_MAX];
  char parts[TP__MEMORY_FACTS_MAX][TP__MEMORY_PART_SIZE];
  int64_t replaces[TP__MEMORY_FACTS_MAX];
  assert(facts->count <= TP__MEMORY_FACTS_MAX);
  for (size_t i = 0; i < facts->count; i++) {
    const tp__memory_fact *fact = &facts->items[i];
    tp__memory_part_write("fact-", fact->statement, parts[i]);
    entries[i] = (tp_memory_entry){.struct_size = sizeof entries[i],
                                   .said_unix_ms = said->said_ms,
                                   .tenant = scope->tenant,
                                   .scope = scope->kind,
                                   .name = scope->name,
                                   .session = said->session,
                                   .turn = said->turn,
                                   .part = tp_text_of(parts[i]),
                                   .text = fact->statement,
                                   .subject = fact->subject};
    list[i] = &entries[i];
    replaces[i] = fact->replaces;
  }
  *ret_kept = 0;
  if (facts->count == 0) return TP_OK;
  return store->rows.put_facts(store->rows.ctx, list, replaces, facts->count, ret_kept, NULL);
}

/* ---- history ---- */

tp_status tp__memory_facts_history(tp__memory_store *store, const tp__memory_scope *scope, int64_t id,
                                   tp__memory_list *list) {
  enum { HISTORY_MAX = 50 };
  return list_facts(store, scope, id, HISTORY_MAX, list);
}
