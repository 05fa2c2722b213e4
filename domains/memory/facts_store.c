/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/memory/facts.h"
#include "domains/memory/line.h"
#include "domains/memory/recall.h"
#include "domains/memory/store_internal.h"
#include "stores/sqlite/database.h"
#include "stores/sqlite/statement.h"

/* ---- known ones ---- */

static void move(tp__memory_list *list, size_t to, size_t from) {
  tp__memory kept = list->items[to];
  list->items[to] = list->items[from];
  list->items[from] = kept;
}

/* Of what stands after `from` the facts, each once, at most max of them; the rest is freed. */
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

tp_status tp__memory_facts_known(tp__memory_store *store, const tp__memory_scope *scope, tp_text text,
                                 tp__memory_list *list) {
  enum { RECALLED_MAX = 64, SHARING_WORDS_MAX = TP__MEMORY_FACTS_KNOWN_MAX / 2 };
  size_t from = list->count;
  tp_status status = tp__memory_recall(store, scope, text, RECALLED_MAX, list);
  if (status != TP_OK) return status;
  keep_facts(list, from, SHARING_WORDS_MAX);
  status =
      tp__memory_list_scope(store, scope, TP__MEMORY_SQL_FACTS, (const int64_t[]){TP__MEMORY_FACTS_KNOWN_MAX}, 1, list);
  if (status == TP_OK) keep_facts(list, from, TP__MEMORY_FACTS_KNOWN_MAX);
  else tp__memory_list_cut(list, from);
  return status;
}

/* ---- keeping ---- */

/* @param ret_known  whether another turn's fact that holds says the same. */
static int is_known_locked(tp__memory_store *store, int64_t scope, const tp__memory *memory, bool *ret_known) {
  TP__LOCKED(&store->writer->mutex);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_SAME_FACT];
  int rc = sqlite3_bind_int64(s, 1, scope);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 2, memory->text);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 3, memory->session);
  if (rc == SQLITE_OK) rc = tp__sqlite_bind_text(s, 4, memory->turn);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *ret_known = rc == SQLITE_ROW;
  tp__sqlite_release(s);
  return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int replace_locked(tp__memory_store *store, int64_t scope, int64_t older, int64_t newer) {
  TP__LOCKED(&store->writer->mutex);
  assert(older > 0 && newer > 0 && older != newer);
  sqlite3_stmt *s = store->writer->statements[TP__MEMORY_SQL_REPLACE];
  return tp__sqlite_run(s, tp__sqlite_bind_ints(s, (const int64_t[]){older, newer, scope}, 3));
}

static int put_one_locked(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *said,
                          const tp__memory_fact *fact, size_t *kept) {
  TP__LOCKED(&store->writer->mutex);
  char part[TP__MEMORY_PART_SIZE];
  tp__memory_scope_row row = {0};
  bool known = false;
  int64_t id = 0;
  tp__memory_part_write("fact-", fact->statement, part);
  tp__memory memory = {.said_ms = said->said_ms,
                       .session = said->session,
                       .turn = said->turn,
                       .part = tp_text_of(part),
                       .text = fact->statement,
                       .subject = fact->subject};
  int rc = tp__memory_find_scope_locked(store->writer, scope, &row);
  if (rc == SQLITE_OK) rc = is_known_locked(store, row.id, &memory, &known);
  if ((rc != SQLITE_OK && rc != SQLITE_DONE) || known) return rc;
  rc = tp__memory_put_locked(store, scope, &memory, &id);
  if (rc == SQLITE_OK) ++*kept;
  /* a turn whose job runs again has its own fact among the known ones; none replaces itself */
  if (rc == SQLITE_OK && fact->replaces && fact->replaces != id) rc = replace_locked(store, row.id, fact->replaces, id);
  return rc;
}

typedef struct keeping {
  tp__memory_store *store;
  const tp__memory_scope *scope;
  const tp__memory *said;
  const tp__memory_facts *facts;
  size_t kept;
} keeping;

static int write_facts(void *ctx) {
  keeping *k = ctx;
  int rc = SQLITE_OK;
  k->kept = 0;
  for (size_t i = 0; rc == SQLITE_OK && i < k->facts->count; i++)
    rc = put_one_locked(k->store, k->scope, k->said, &k->facts->items[i], &k->kept);
  return rc;
}

tp_status tp__memory_facts_put(tp__memory_store *store, const tp__memory_scope *scope, const tp__memory *said,
                               const tp__memory_facts *facts, size_t *ret_kept) {
  keeping k = {store, scope, said, facts, 0};
  tp_status status = tp__memory_write(store, write_facts, &k);
  assert(k.kept <= facts->count);
  *ret_kept = status == TP_OK ? k.kept : 0;
  return status;
}

/* ---- history ---- */

tp_status tp__memory_facts_history(tp__memory_store *store, const tp__memory_scope *scope, int64_t id,
                                   tp__memory_list *list) {
  enum { HISTORY_MAX = 50 };
  return tp__memory_list_scope(store, scope, TP__MEMORY_SQL_HISTORY, (const int64_t[]){id, HISTORY_MAX}, 2, list);
}
