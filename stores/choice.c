/* SPDX-License-Identifier: Apache-2.0 */
#include "stores/choice.h"

#include <assert.h>
#include <string.h>

#include "support/fault.h"
#include "turnphase/handler.h"
#include "turnphase/value.h"

/* ---- the request ---- */

tp_status tp__choice_read(tp_kept_choice *request, const tp_kept_choice *theirs, tp_fault *fault) {
  tp_status status = tp__struct_read(request, sizeof *request, theirs, "tp_kept_choice", fault);
  if (status != TP_OK) return status;
  if (request->with_others > 1 || request->only_counts > 1)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_choice.with_others and only_counts are 0 or 1");
  if (request->matching && strlen(request->matching) < TP_KEPT_MATCHING_BYTES_MIN)
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_choice.matching must have %d bytes or more",
                      TP_KEPT_MATCHING_BYTES_MIN);
  if (request->person && !request->person[0])
    return tp__refuse(fault, TP_ERR_USAGE, NULL, "tp_kept_choice.person is empty");
  return TP_OK;
}

bool tp__choice_is_by_turn(const tp_kept_choice *request) {
  return request->matching || request->person || request->turns_before_unix_ms;
}

tp_kept_query tp__choice_query(const tp_kept_choice *request) {
  return (tp_kept_query){.struct_size = sizeof(tp_kept_query),
                         .tenant = request->tenant,
                         .session = request->session,
                         .before_unix_ms = request->before_unix_ms};
}

tp_status tp__choice_show(tp_kept_erased *theirs, const tp_kept_erased *report) {
  enum { SIZE_MOST = 4096 };
  size_t size = theirs->struct_size;
  if (size < sizeof size || size > SIZE_MOST) return TP_ERR_VERSION;
  if (size > sizeof *report) size = sizeof *report;
  memcpy(theirs, report, size);
  theirs->struct_size = size;
  return TP_OK;
}

/* ---- what a row says ---- */

static bool is_text(tp_text value, const char *wanted) { return tp__is_word(tp_value_text(value), wanted); }

/* Columns that are filled by the library or by the host's code, and the tenant, which the request names. */
static bool is_of_code(tp_text key) { return tp__is_one_of(key, "tenant role subscription handler owner action kind"); }

static bool row_has(tp_text row, const char *text) {
  for (tp_value_walk walk = {0}; tp_value_next(row, &walk);) {
    tp_value_kind kind = tp_value_kind_of(walk.value);
    bool is_number = kind == TP_VALUE_NULL || kind == TP_VALUE_INT || kind == TP_VALUE_DOUBLE || kind == TP_VALUE_BOOL;
    if (!is_number && !is_of_code(walk.key) && memmem(walk.value.data, walk.value.size, text, strlen(text)))
      return true;
  }
  return false;
}

static int64_t newest_of(tp_text row) {
  static const char *const keys[] = {"unix_ms",     "ended_unix_ms",   "started_unix_ms", "asked_ms",
                                     "answered_ms", "created_unix_ms", "inserted_ms",     "ended_ms"};
  int64_t newest = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    int64_t time = tp_value_int(tp_value_get(row, keys[i]), 0);
    if (time > newest) newest = time;
  }
  return newest;
}

/* "NAME: " begins a message when several persons speak in a session. */
static bool is_said_by(tp_text row, const char *person) {
  tp_text text = tp_value_text(tp_value_get(row, "text"));
  size_t size = strlen(person);
  return is_text(tp_value_get(row, "role"), "user") && tp__begins(text, person) && text.size > size &&
         text.data[size] == ':';
}

/* @return 1: the row belongs to a turn of the person, by its workspace or thread; 0: to another person's turn; -1: it
 *   has no such columns. */
static int whose(tp_text row, const char *person) {
  tp_text workspace = tp_value_get(row, "workspace"), thread = tp_value_get(row, "thread");
  if (!workspace.size && !thread.size) return -1;
  return is_text(workspace, person) || is_text(thread, person);
}

/* A job has the ids of its turn in its payload until it has ended. */
static tp_text turn_of_row(const char *kind, tp_text row) {
  if (strcmp(kind, "job") != 0) return tp_value_text(tp_value_get(row, "turn"));
  tp_text ids = tp_value_get(tp_value_get(row, "payload"), "ids");
  int at = 0;
  for (tp_value_walk walk = {0}; tp_value_next(ids, &walk); at++)
    if (at == TP_ID_TURN) return tp_value_text(walk.value);
  return (tp_text){NULL, 0};
}

/* ---- the units ---- */

static bool is_same(const tp__unit *a, const tp__unit *b) {
  return a->kind == b->kind && a->id == b->id && tp__same(a->turn, b->turn) && tp__same(a->key, b->key);
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
  return hash;
}

static uint64_t hash_of(const tp__unit *unit) {
  uint64_t hash = hash_bytes(14695981039346656037u + (uint64_t)unit->kind, unit->turn.data, unit->turn.size);
  hash = hash_bytes(hash, unit->key.data, unit->key.size);
  return hash_bytes(hash, &unit->id, sizeof unit->id);
}

/* Where it is, or where it would be. */
static uint32_t *place_of(const tp__choice *c, const tp__unit *unit) {
  assert(c->count < c->place_count);
  for (size_t at = (size_t)hash_of(unit);; at++) {
    uint32_t *place = &c->places[at & (c->place_count - 1)];
    if (*place == 0 || is_same(&c->units[*place - 1], unit)) return place;
  }
}

static bool grow_places(tp__choice *c) {
  enum { FIRST = 64 };
  if (2 * (c->count + 1) <= c->place_count) return true;
  size_t count = c->place_count ? 2 * c->place_count : FIRST;
  uint32_t *places = tp__heap_alloc(count * sizeof *places);
  if (!places) return false;
  tp__heap_free(c->places, c->place_count * sizeof *places);
  c->places = places;
  c->place_count = count;
  for (size_t i = 0; i < c->count; i++) *place_of(c, &c->units[i]) = (uint32_t)i + 1;
  return true;
}

static bool copy_text(tp_text *text) {
  char *copy = tp__heap_copy(*text);
  if (!copy) return false;
  text->data = copy;
  return true;
}

static void free_text(tp_text text) { tp__heap_free((void *)(uintptr_t)text.data, text.size + 1); }

static tp__unit *add_unit(tp__choice *c, const tp__unit *seen) {
  tp__unit unit = *seen;
  if (!grow_places(c) || !tp__grow(tp__heap, (void **)&c->units, &c->capacity, c->count + 1, sizeof unit)) return NULL;
  if (!copy_text(&unit.turn)) return NULL;
  if (!copy_text(&unit.key)) {
    free_text(unit.turn);
    return NULL;
  }
  *place_of(c, &unit) = (uint32_t)c->count + 1;
  c->units[c->count] = unit;
  return &c->units[c->count++];
}

static tp__unit *find_unit(const tp__choice *c, const tp__unit *wanted) {
  uint32_t place = c->place_count ? *place_of(c, wanted) : 0;
  return place ? &c->units[place - 1] : NULL;
}

static bool put(tp__choice *c, const tp__unit *seen) {
  tp__unit *unit = find_unit(c, seen);
  if (!unit) {
    c->failed = !add_unit(c, seen);
    return !c->failed;
  }
  if (seen->last_ms > unit->last_ms) unit->last_ms = seen->last_ms;
  unit->matches |= seen->matches;
  unit->is_persons |= seen->is_persons;
  unit->is_known |= seen->is_known;
  return true;
}

void tp__choice_clear(tp__choice *c) {
  for (size_t i = 0; i < c->count; i++) {
    free_text(c->units[i].turn);
    free_text(c->units[i].key);
  }
  if (c->places) memset(c->places, 0, c->place_count * sizeof *c->places);
  c->count = 0;
  c->persons_rows = c->others_rows = c->chosen = c->turns = c->unknown = 0;
  c->failed = false;
}

void tp__choice_fini(tp__choice *c) {
  tp__choice_clear(c);
  tp__heap_free(c->units, c->capacity * sizeof *c->units);
  tp__heap_free(c->places, c->place_count * sizeof *c->places);
  *c = (tp__choice){.request = c->request};
}

/* The unit of a row: a job or a task is one of its own, and else its turn is. */
static tp__unit unit_of(const char *kind, tp_text row) {
  tp__unit unit = {.kind = strcmp(kind, "job") == 0    ? TP__UNIT_JOB
                           : strcmp(kind, "task") == 0 ? TP__UNIT_TASK
                                                       : TP__UNIT_TURN,
                   .turn = turn_of_row(kind, row)};
  if (unit.kind == TP__UNIT_JOB) unit.id = tp_value_int(tp_value_get(row, "id"), 0);
  if (unit.kind == TP__UNIT_TASK) unit.key = tp_value_text(tp_value_get(row, "key"));
  return unit;
}

bool tp__choice_see(tp__choice *c, const char *kind, tp_text row) {
  assert(c->request && !c->failed);
  const tp_kept_choice *r = c->request;
  tp__unit unit = unit_of(kind, row);
  const int is_persons = r->person ? whose(row, r->person) : -1;
  if (is_persons >= 0) ++*(is_persons ? &c->persons_rows : &c->others_rows);
  unit.is_known = is_persons >= 0;
  unit.is_persons = is_persons == 1 || (r->person && strcmp(kind, "message") == 0 && is_said_by(row, r->person));
  unit.last_ms = newest_of(row);
  unit.matches = r->matching && row_has(row, r->matching);
  if (!put(c, &unit)) return false;
  if (unit.kind != TP__UNIT_JOB || !unit.turn.size) return true;
  const tp__unit turn = {.turn = unit.turn,
                         .last_ms = unit.last_ms,
                         .matches = unit.matches,
                         .is_persons = unit.is_persons,
                         .is_known = unit.is_known};
  return put(c, &turn);
}

/* ---- selecting ---- */

static tp__unit *turn_named(const tp__choice *c, tp_text turn) {
  return find_unit(c, &(tp__unit){.kind = TP__UNIT_TURN, .turn = turn});
}

static bool fits(const tp__choice *c, const tp__unit *u, bool is_whole) {
  const tp_kept_choice *r = c->request;
  const bool is_old = !r->turns_before_unix_ms || (u->last_ms > 0 && u->last_ms < r->turns_before_unix_ms);
  return is_old && (!r->matching || u->matches) && (!r->person || is_whole || u->is_persons);
}

/* Jobs go with their turn. Ended jobs name no turn any more, and have no content: they go with the last unit of their
 * session. */
static void choose_jobs(tp__choice *c) {
  bool some = false, all = true;
  for (size_t i = 0; i < c->count; i++) {
    tp__unit *u = &c->units[i];
    const tp__unit *turn = u->kind == TP__UNIT_JOB && u->turn.size ? turn_named(c, u->turn) : NULL;
    if (turn && turn->is_chosen) u->is_chosen = true;
    some = some || u->is_chosen;
    all = all && (u->is_chosen || u->kind == TP__UNIT_JOB);
  }
  for (size_t i = 0; i < c->count && some && all; i++)
    if (c->units[i].kind == TP__UNIT_JOB && !c->units[i].turn.size) c->units[i].is_chosen = true;
}

/* Those that stay and of which no row says whose they are, unless something of the same turn goes. */
static void count_unknown(tp__choice *c) {
  bool without_turn = false; /* one without a turn is chosen */
  for (size_t i = 0; i < c->count; i++) {
    if (!c->units[i].is_chosen) continue;
    tp__unit *turn = turn_named(c, c->units[i].turn);
    if (turn) turn->is_near = true;
    without_turn = without_turn || !c->units[i].turn.size;
  }
  for (size_t i = 0; i < c->count; i++) {
    const tp__unit *u = &c->units[i];
    const bool is_near = u->turn.size ? u->is_near : without_turn;
    if (u->kind != TP__UNIT_JOB && !u->is_chosen && !u->is_persons && !u->is_known && !is_near) c->unknown++;
  }
}

void tp__choice_decide(tp__choice *c) {
  assert(!c->failed && c->chosen == 0);
  const bool is_whole = c->request->person && c->persons_rows && !c->others_rows;
  for (size_t i = 0; i < c->count; i++) c->units[i].is_chosen = fits(c, &c->units[i], is_whole);
  choose_jobs(c);
  for (size_t i = 0; i < c->count; i++) {
    c->chosen += c->units[i].is_chosen;
    c->turns += c->units[i].is_chosen && c->units[i].kind == TP__UNIT_TURN;
  }
  if (c->request->person) count_unknown(c);
}

bool tp__choice_has(const tp__choice *c, const char *kind, tp_text row) {
  const tp__unit wanted = unit_of(kind, row), *unit = find_unit(c, &wanted);
  return unit && unit->is_chosen;
}
