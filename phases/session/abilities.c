/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/abilities.h"

#include "runtime/value/value.h"

void tp__abilities_init(tp__abilities *abilities, const tp_allocator *allocator) {
  *abilities = (tp__abilities){.allocator = allocator};
  tp__arena_init(&abilities->arena, allocator, NULL, 0, 0);
}

void tp__abilities_fini(tp__abilities *abilities) {
  tp__arena_fini(&abilities->arena);
  tp__release(abilities->allocator, abilities->items, abilities->capacity * sizeof *abilities->items);
}

static bool has_ability(const tp__abilities *abilities, tp_text name) {
  for (size_t i = 0; i < abilities->count; i++)
    if (tp_text_equal(abilities->items[i], name)) return true;
  return false;
}

static bool add_ability(tp__abilities *abilities, tp_text name) {
  void *items = abilities->items;
  if (abilities->count == TP__ABILITIES_MAX) return false;
  if (tp__array_grow(abilities->allocator, &items, &abilities->capacity, abilities->count + 1,
                     sizeof *abilities->items) != TP_OK)
    return false;
  abilities->items = items;
  if (!tp__arena_text(&abilities->arena, name, &abilities->items[abilities->count])) return false;
  abilities->count++;
  return true;
}

void tp__abilities_add(tp__abilities *abilities, tp_text name) {
  if (!has_ability(abilities, name) && !add_ability(abilities, name)) abilities->dropped++;
}

bool tp__abilities_write(const tp__abilities *abilities, tp__arena *arena, tp_text *ret_value) {
  tp_writer writer;
  tp_text value;
  *ret_value = (tp_text){NULL, 0};
  if (abilities->count == 0) return true;
  tp__value_writer_init(&writer, abilities->allocator);
  tp_write_array(&writer, abilities->count);
  for (size_t i = 0; i < abilities->count; i++) tp_write_text(&writer, abilities->items[i]);
  bool ok = tp_writer_finish(&writer, &value) == TP_OK && tp__arena_text(arena, value, ret_value);
  tp__value_writer_fini(&writer);
  return ok;
}
