/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/pool.h"

/** A turn of the id. */
typedef struct found {
  int64_t unix_ms, started_ns;
  uint64_t process_run_id;
  bool is_running;
} found;

typedef struct found_list {
  found *items;
  size_t count, capacity;
  bool are_running; /* those that are read */
} found_list;

static bool add_found(void *ctx, const tp_turn_record *turn) {
  found_list *list = ctx;
  list->items = cli_reserve(list->items, list->count, &list->capacity, sizeof *list->items);
  list->items[list->count++] = (found){.unix_ms = turn->started_unix_ms ? turn->started_unix_ms : turn->ended_unix_ms,
                                       .started_ns = turn->started_ns,
                                       .process_run_id = turn->process_run_id,
                                       .is_running = list->are_running};
  return true;
}

/* Sorts by the beginning. Of two turns that began in the same millisecond, the one that has not ended is the later
 * one. */
static int oldest_first(const void *a, const void *b) {
  const found *x = a, *y = b;
  if (x->unix_ms != y->unix_ms) return x->unix_ms < y->unix_ms ? -1 : 1;
  if (x->is_running != y->is_running) return x->is_running ? 1 : -1;
  if (x->process_run_id != y->process_run_id) return x->process_run_id < y->process_run_id ? -1 : 1;
  return (x->started_ns > y->started_ns) - (x->started_ns < y->started_ns);
}

static tp_status find_all(const cli_data *data, const char *id, const char *session, found_list *list,
                          tp_fault *fault) {
  const tp_store *store = data->store;
  tp_text ids[TP_ID_COUNT] = {[TP_ID_TURN] = tp_text_of(id), [TP_ID_SESSION] = tp_text_of(session)};
  tp_turn_query query = {.struct_size = sizeof query, .ids = ids, .id_count = TP_ID_COUNT};
  list->count = 0;
  list->are_running = false;
  tp_status status = store->turns(store->ctx, &query, add_found, list, fault);
  list->are_running = true;
  if (status == TP_OK) status = store->turns_running(store->ctx, &query, add_found, list, fault);
  if (list->count > 0) qsort(list->items, list->count, sizeof *list->items, oldest_first);
  return status;
}

/* "monday-1#2": gives 2, and the place of the #; 0: there is no number. */
static size_t number_in(const char *word, size_t *ret_size) {
  const char *mark = strrchr(word, '#');
  size_t digits = mark ? strlen(mark + 1) : 0;
  if (!mark || mark == word || digits == 0 || digits > 9 || strspn(mark + 1, "0123456789") != digits) return 0;
  *ret_size = (size_t)(mark - word);
  return strtoul(mark + 1, NULL, 10);
}

static void take(cli_pick *pick, const found_list *list) {
  const found *it = &list->items[pick->number - 1];
  pick->is_running = it->is_running;
  pick->process_run_id = it->process_run_id;
  pick->started_ns = it->started_ns;
  for (size_t i = 0; i < list->count; i++) {
    const found *other = &list->items[i];
    if (other->process_run_id == it->process_run_id && other->started_ns > it->started_ns &&
        other->started_ns < pick->until_ns)
      pick->until_ns = other->started_ns;
  }
}

tp_status cli_pick_read(const cli_data *data, const char *word, const char *session, cli_pick *ret_pick,
                        tp_fault *fault) {
  found_list list = {.items = NULL};
  cli_pick pick = {.until_ns = INT64_MAX};
  size_t size = strlen(word), number = number_in(word, &size);
  tp_status status = find_all(data, word, session, &list, fault);
  bool is_chosen = status == TP_OK && list.count == 0 && number > 0;
  snprintf(pick.id, sizeof pick.id, "%.*s", (int)(is_chosen ? size : strlen(word)), word);
  if (is_chosen) status = find_all(data, pick.id, session, &list, fault);
  pick.is_chosen = is_chosen;
  pick.count = list.count;
  pick.number = is_chosen ? number : list.count;
  if (pick.number > 0 && pick.number <= list.count) take(&pick, &list);
  free(list.items);
  if (status == TP_OK) *ret_pick = pick;
  return status;
}

bool cli_pick_is(const cli_pick *pick, const tp_turn_record *turn, bool is_running) {
  return pick->number > 0 && is_running == pick->is_running && turn->process_run_id == pick->process_run_id &&
         turn->started_ns == pick->started_ns;
}

bool cli_pick_has(const cli_pick *pick, const tp_entry_record *entry) {
  if (pick->count < 2) return true;
  return entry->process_run_id == pick->process_run_id && entry->started_ns >= pick->started_ns &&
         entry->started_ns < pick->until_ns;
}
