/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/past.h"

#include "phases/model/compaction.h"
#include "phases/model/parts.h"
#include "phases/merge/render.h"
#include "runtime/base/hash_table.h"

struct tp__pointers {
  tp__a32 refs;
  size_t capacity;
  const tp_message *items[];
};

enum { POINTERS_MIN = 14 }; /* with the head, 128 bytes */

static size_t pointers_size(size_t capacity) { return sizeof(tp__pointers) + capacity * sizeof(tp_message *); }

static tp__pointers *pointers_new(const tp_allocator *allocator, size_t capacity) {
  tp__pointers *pointers = tp__alloc(allocator, pointers_size(capacity));
  if (!pointers) return NULL;
  atomic_init(&pointers->refs.v, 1);
  pointers->capacity = capacity;
  return pointers;
}

static void pointers_unref(const tp_allocator *allocator, tp__pointers *pointers) {
  if (pointers && tp__a32_sub_acq_rel(&pointers->refs, 1) == 1)
    tp__release(allocator, pointers, pointers_size(pointers->capacity));
}

/* ---- life ---- */

tp__past *tp__past_new(const tp_allocator *allocator) {
  static tp__a64 last_number; /* relaxed: nothing is handed over by it */
  tp__past *past = tp__alloc_zero(allocator, sizeof *past);
  if (!past) return NULL;
  atomic_init(&past->refs.v, 1);
  past->number = tp__a64_add_relaxed(&last_number, 1) + 1;
  past->allocator = allocator;
  tp__arena_init(&past->arena, allocator, NULL, 0, 0);
  past->list.arena = &past->arena;
  return past;
}

tp__past *tp__past_ref(tp__past *past) {
  tp__a32_add_relaxed(&past->refs, 1);
  return past;
}

void tp__past_unref(tp__past *past) {
  if (!past || tp__a32_sub_acq_rel(&past->refs, 1) != 1) return;
  const tp_allocator *allocator = past->allocator;
  pointers_unref(allocator, past->unescaped.pointers);
  pointers_unref(allocator, past->escaped.pointers);
  tp__release(allocator, past->turns, past->turn_capacity * sizeof *past->turns);
  tp__arena_fini(&past->arena);
  tp__release(allocator, past, sizeof *past);
}

/* ---- sizes ---- */

static void measure_past(tp__past *past) {
  assert(past->measured <= past->list.count);
  for (; past->measured < past->list.count; past->measured++) {
    const tp_message *message = past->list.items[past->measured];
    past->bytes += message->text.size;
    past->tokens += tp_message_tokens(message);
  }
}

size_t tp__past_bytes(tp__past *past) {
  measure_past(past);
  return past->bytes;
}

int64_t tp__past_tokens(tp__past *past) {
  measure_past(past);
  return past->tokens;
}

/* ---- the turns that it knows ---- */

enum { TURNS_MIN = 32 };

static uint64_t turn_hash(tp_text id) {
  uint64_t hash = tp__hash_text(id, 0);
  return hash ? hash : 1;
}

/* The place of a hash, or the free place where it belongs. */
static size_t turn_place(const tp__past *past, uint64_t hash) {
  TP__ASSERT(past->turn_count < past->turn_capacity);
  size_t at = (size_t)hash & (past->turn_capacity - 1);
  while (past->turns[at] && past->turns[at] != hash) at = (at + 1) & (past->turn_capacity - 1);
  return at;
}

static tp_status reserve_turn(tp__past *past) {
  if (2 * (past->turn_count + 1) <= past->turn_capacity) return TP_OK;
  size_t old_capacity = past->turn_capacity, capacity = old_capacity ? 2 * old_capacity : TURNS_MIN;
  uint64_t *old = past->turns, *turns = tp__alloc_zero(past->allocator, capacity * sizeof *turns);
  if (!turns) return TP_ERR_NO_MEMORY;
  past->turns = turns;
  past->turn_capacity = capacity;
  for (size_t i = 0; i < old_capacity; i++)
    if (old[i]) turns[turn_place(past, old[i])] = old[i];
  tp__release(past->allocator, old, old_capacity * sizeof *old);
  return TP_OK;
}

static tp_status note_turns(tp__past *past) {
  assert(past->noted <= past->list.count);
  for (; past->noted < past->list.count; past->noted++) {
    tp_text id = past->list.items[past->noted]->turn_id;
    if (id.size == 0 || (past->noted > 0 && tp_text_equal(past->list.items[past->noted - 1]->turn_id, id))) continue;
    TP__TRY(reserve_turn(past));
    uint64_t hash = turn_hash(id), *place = &past->turns[turn_place(past, hash)];
    past->turn_count += *place == 0;
    *place = hash;
  }
  return TP_OK;
}

tp_status tp__past_has_turn(tp__past *past, tp_text id, bool *ret_has) {
  TP__TRY(note_turns(past));
  *ret_has = past->turn_count > 0 && past->turns[turn_place(past, turn_hash(id))] != 0;
  return TP_OK;
}

/* Without memory, turns that the replaced past has not noted yet are lost: a repeated request for one of them runs
 * again. */
void tp__past_take_turns(tp__past *past, tp__past *replaced) {
  TP__ASSERT(!past->turns && past->noted == 0);
  (void)note_turns(replaced);
  past->turns = replaced->turns;
  past->turn_count = replaced->turn_count;
  past->turn_capacity = replaced->turn_capacity;
  replaced->turns = NULL;
  replaced->turn_count = replaced->turn_capacity = 0;
  replaced->noted = replaced->list.count;
}

/* ---- what a model is shown ---- */

/* When a handler denied a turn before any request, the history keeps it as the user's message with an end mark directly
 * after it. No model ever reads it. */
static bool is_denied(const tp__messages *list, size_t i) {
  const tp_message *message = list->items[i];
  if (message->role == TP_ROLE_END) return i > 0 && list->items[i - 1]->role == TP_ROLE_USER && is_denied(list, i - 1);
  const tp_message *next = i + 1 < list->count ? list->items[i + 1] : NULL;
  return message->role == TP_ROLE_USER && next && next->role == TP_ROLE_END && tp_text_is(next->name, "denied");
}

/* The text of an end mark, without the reason, which may be only for the host. */
static tp_text words_of_mark(tp_text outcome, bool has_calls) {
  static const struct {
    const char *outcome, *without, *with;
  } rows[] = {
#define ROW(outcome, words)                                                        \
  {outcome, "[The turn " words " before it was complete.]",                        \
   "[The turn " words                                                              \
   " before it was complete. What its calls did is done: do not repeat it unless " \
   "the user asks for it.]"}
      ROW("cancelled", "was cancelled"), ROW("timed_out", "ran out of time"), ROW("denied", "was stopped by a rule"),
      ROW("failed", "failed")};
#undef ROW
  enum { FAILED = sizeof rows / sizeof *rows - 1 };
  size_t i = 0;
  while (i < FAILED && !tp_text_is(outcome, rows[i].outcome)) i++;
  return tp_text_of(has_calls ? rows[i].with : rows[i].without);
}

/* Whether the turn of the mark has calls. */
static bool has_calls(const tp__messages *list, size_t mark) {
  const tp_message *end = list->items[mark];
  for (size_t i = mark; i > 0 && tp_text_equal(list->items[i - 1]->turn_id, end->turn_id); i--) {
    if (list->items[i - 1]->role == TP_ROLE_TOOL) return true;
    if (list->items[i - 1]->role == TP_ROLE_END && !is_denied(list, i - 1)) break;
  }
  return false;
}

/* A model sees an end mark as a line of the user, because the model has not said it. */
static tp_status show_mark(tp__past *past, size_t mark, const tp_message **ret_shown) {
  const tp_message *end = past->list.items[mark];
  tp_message *line = tp__arena_alloc(&past->arena, sizeof *line);
  if (!line) return TP_ERR_NO_MEMORY;
  *line = (tp_message){.struct_size = sizeof *line,
                       .role = TP_ROLE_USER,
                       .turn_id = end->turn_id,
                       .text = words_of_mark(end->name, has_calls(&past->list, mark))};
  *ret_shown = line;
  return TP_OK;
}

/* The message itself when nothing in it looks like a block of the library. */
static tp_status escape(tp__arena *arena, const tp_message *message, const tp_message **ret_escaped) {
  tp_message copy = *message;
  *ret_escaped = message;
  if (message->role != TP_ROLE_ASSISTANT) TP__TRY(tp__render_escaped(arena, message->text, &copy.text));
  if (message->parts.size > 0) TP__TRY(tp__parts_escaped(arena, message->parts, &copy.parts));
  if (copy.text.data == message->text.data && copy.parts.data == message->parts.data) return TP_OK;
  tp_message *kept = tp__arena_alloc(arena, sizeof *kept);
  if (!kept) return TP_ERR_NO_MEMORY;
  *kept = copy;
  *ret_escaped = kept;
  return TP_OK;
}

/* Reserves space for this many pointers, in a list that no other view reads. */
static tp_status reserve_pointers(tp__past *past, tp__shown *shown, size_t count) {
  tp__pointers *old = shown->pointers;
  if (old && old->capacity >= count && tp__a32_load_acquire(&old->refs) == 1) return TP_OK; /* pairs with the unref */
  size_t capacity = old ? old->capacity : POINTERS_MIN;
  while (capacity < count) capacity *= 2;
  tp__pointers *pointers = pointers_new(past->allocator, capacity);
  if (!pointers) return TP_ERR_NO_MEMORY;
  if (shown->count > 0) memcpy(pointers->items, old->items, shown->count * sizeof *old->items);
  pointers_unref(past->allocator, old);
  shown->pointers = pointers;
  return TP_OK;
}

static tp_status show_new(tp__past *past, tp__shown *shown, bool escaped) {
  assert(shown->seen <= past->list.count);
  for (; shown->seen < past->list.count; shown->seen++) {
    const tp_message *message = past->list.items[shown->seen];
    if (is_denied(&past->list, shown->seen)) continue;
    if (message->role == TP_ROLE_END) TP__TRY(show_mark(past, shown->seen, &message));
    else if (escaped) TP__TRY(escape(&past->arena, message, &message));
    shown->pointers->items[shown->count++] = message;
  }
  return TP_OK;
}

tp_status tp__past_view_init(tp__past *past, bool escaped, const tp_message *const *own, size_t own_count,
                             tp__past_view *ret_view, const tp_message *const **ret_messages, size_t *ret_count) {
  tp__shown *shown = escaped ? &past->escaped : &past->unescaped;
  TP__TRY(reserve_pointers(past, shown, shown->count + (past->list.count - shown->seen) + own_count));
  TP__TRY(show_new(past, shown, escaped));
  tp__pointers *pointers = shown->pointers;
  for (size_t i = 0; i < own_count; i++) pointers->items[shown->count + i] = own[i];
  tp__a32_add_relaxed(&pointers->refs, 1);
  *ret_view = (tp__past_view){.past = tp__past_ref(past), .pointers = pointers};
  *ret_messages = pointers->items;
  *ret_count = shown->count + own_count;
  return TP_OK;
}

void tp__past_view_fini(tp__past_view *view) {
  if (!view->past) return;
  pointers_unref(view->past->allocator, view->pointers);
  tp__past_unref(view->past);
  *view = (tp__past_view){NULL, NULL};
}
