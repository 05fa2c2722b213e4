/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect/chosen.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/date.h"
#include "cli/common/exit_status.h"
#include "cli/common/map.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/run/event.h"

/* ---- the options ---- */

int cli_chosen_read(const cli_arguments *a, cli_erasure *choice) {
  *choice = (cli_erasure){.tenant = a->tenant, .session = a->session, .person = a->user, .matching = a->matching};
  choice->every_tenant = !a->tenant && !a->session && !a->user && !a->matching && (a->age || a->before);
  if (a->age && !cli_date_read_since(a->age, &choice->sessions_before_ms)) {
    cli_error("--age takes 12h, 30d or 2026-11-22, not '%s'", a->age);
    return CLI_USAGE;
  }
  if (a->before && !cli_date_read_since(a->before, &choice->turns_before_ms)) {
    cli_error("--before takes 2026-11-22, 12h or 30d, not '%s'", a->before);
    return CLI_USAGE;
  }
  if (a->matching && strlen(a->matching) < TP_KEPT_MATCHING_BYTES_MIN) {
    cli_error("--matching takes a text of %d bytes or more", TP_KEPT_MATCHING_BYTES_MIN);
    return CLI_USAGE;
  }
  return CLI_OK;
}

tp_kept_choice cli_chosen_rows(const cli_erasure *choice) {
  return (tp_kept_choice){.struct_size = sizeof(tp_kept_choice),
                          .tenant = choice->tenant,
                          .session = choice->session,
                          .before_unix_ms = choice->sessions_before_ms,
                          .matching = choice->matching,
                          .person = choice->person,
                          .turns_before_unix_ms = choice->turns_before_ms};
}

/* ---- the memories ---- */

/** A memory of the tenant, and the turn to which it belongs. */
typedef struct seen {
  int64_t id;
  uint64_t turn; /* a hash of its session and turn; 0: it belongs to no turn */
  bool is_chosen;
} seen;

typedef struct memories {
  const cli_erasure *request;
  seen *items;
  size_t count, capacity;
} memories;

static uint64_t chosen_hash_of(uint64_t hash, tp_text text) {
  for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.data[i]) * 1099511628211u;
  return (hash ^ 0xff) * 1099511628211u;
}

static bool has(tp_text text, const char *wanted) {
  return memmem(text.data, text.size, wanted, strlen(wanted)) != NULL;
}

static bool begins_with_name(tp_text text, const char *name) {
  size_t size = strlen(name);
  return text.size > size && strncmp(text.data, name, size) == 0 && text.data[size] == ':';
}

/* As in the store: the text, or an id. A person matches as the speaker, or as the scope with that id. */
static bool is_meant(const cli_erasure *r, const tp_memory_entry *e) {
  const bool is_persons = !r->person || cli_text_is(e->speaker, r->person) || cli_text_is(e->name, r->person) ||
                          (!e->part.size && begins_with_name(e->text, r->person));
  const bool matches = !r->matching || has(e->text, r->matching) || has(e->subject, r->matching) ||
                       has(e->session, r->matching) || has(e->turn, r->matching) || has(e->name, r->matching);
  return is_persons && matches;
}

static bool is_old_enough(const cli_erasure *r, const tp_memory_entry *e) {
  return (!r->sessions_before_ms || e->said_unix_ms < r->sessions_before_ms) &&
         (!r->turns_before_ms || e->said_unix_ms < r->turns_before_ms);
}

static bool see_memory(void *ctx, const tp_memory_entry *entry) {
  memories *m = ctx;
  if (m->request->session && !cli_text_is(entry->session, m->request->session)) return true;
  if (!is_old_enough(m->request, entry)) return true;
  m->items = cli_reserve(m->items, m->count, &m->capacity, sizeof *m->items);
  m->items[m->count++] = (seen){
      .id = entry->id,
      .turn = entry->turn.size ? chosen_hash_of(chosen_hash_of(14695981039346656037u, entry->session), entry->turn) : 0,
      .is_chosen = is_meant(m->request, entry)};
  return true;
}

static int by_turn(const void *a, const void *b) {
  const seen *x = a, *y = b;
  if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
  return y->is_chosen - x->is_chosen;
}

/* Memories of one turn are selected together, and so are the facts that a model made of them. */
static size_t choose_turns(memories *m, int64_t *ids) {
  size_t count = 0;
  if (m->count > 0) qsort(m->items, m->count, sizeof *m->items, by_turn);
  for (size_t i = 0; i < m->count; i++) {
    seen *s = &m->items[i];
    if (i > 0 && s->turn && s[-1].turn == s->turn && s[-1].is_chosen) s->is_chosen = true;
    if (s->is_chosen) ids[count++] = s->id;
  }
  return count;
}

static int by_id(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

tp_status cli_chosen_memories(tp_memory *memory, const cli_erasure *choice, int64_t **ret_ids, size_t *ret_count,
                              tp_fault *fault) {
  memories m = {.request = choice};
  const tp_memory_query query = {
      .struct_size = sizeof query, .tenant = choice->tenant, .limit = UINT32_MAX, .oldest_first = true};
  tp_status status = tp_memory_list(memory, &query, see_memory, &m, fault);
  *ret_ids = cli_alloc((m.count + 1) * sizeof **ret_ids);
  *ret_count = status == TP_OK ? choose_turns(&m, *ret_ids) : 0;
  if (*ret_count) qsort(*ret_ids, *ret_count, sizeof **ret_ids, by_id);
  free(m.items);
  return status;
}
