/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/task_list.h"

#include "runtime/value/value.h"

void tp__task_list_init(tp__task_list *list, const tp_allocator *allocator) {
  *list = (tp__task_list){.allocator = allocator};
  tp__arena_init(&list->arena, allocator, NULL, 0, 0);
}

void tp__task_list_fini(tp__task_list *list) {
  tp__arena_fini(&list->arena);
  tp__release(list->allocator, list->items, list->capacity * sizeof *list->items);
}

static tp__listed_task *find_listed_task(const tp__task_list *list, tp_text key) {
  for (size_t i = 0; i < list->count; i++)
    if (tp_text_equal(list->items[i].key, key)) return &list->items[i];
  return NULL;
}

/* @return NULL: there is no space or no memory. */
static tp__listed_task *add_listed_task(tp__task_list *list, tp_text key, tp_text ability) {
  void *items = list->items;
  if (list->count == TP__TASK_LIST_MAX) return NULL;
  if (tp__array_grow(list->allocator, &items, &list->capacity, list->count + 1, sizeof *list->items) != TP_OK)
    return NULL;
  list->items = items;
  tp__listed_task *task = &list->items[list->count];
  if (!tp__arena_text(&list->arena, key, &task->key)) return NULL;
  if (!tp__arena_text(&list->arena, ability, &task->ability)) return NULL;
  list->count++;
  return task;
}

void tp__task_list_put(tp__task_list *list, tp_text key, tp_text ability, tp__task_status status) {
  tp__listed_task *task = find_listed_task(list, key);
  if (!task) task = add_listed_task(list, key, ability);
  if (task) task->status = status;
  else list->dropped++;
}

static const char *status_name(tp__task_status status) {
  static const char *const names[] = {
      [TP__TASK_PARTIAL] = "partial", [TP__TASK_SUCCESS] = "success", [TP__TASK_FAILURE] = "failure"};
  return names[status];
}

bool tp__task_list_write(const tp__task_list *list, tp__arena *arena, tp_text *ret_value) {
  tp_writer writer;
  tp_text value;
  *ret_value = (tp_text){NULL, 0};
  if (list->count == 0) return true;
  tp__value_writer_init(&writer, list->allocator);
  tp_write_array(&writer, list->count);
  for (size_t i = 0; i < list->count; i++) {
    const tp__listed_task *task = &list->items[i];
    tp_write_map(&writer, 3);
    tp_write_string(&writer, "task_key");
    tp_write_text(&writer, task->key);
    tp_write_string(&writer, "ability_id");
    tp_write_text(&writer, task->ability);
    tp_write_string(&writer, "status");
    tp_write_string(&writer, status_name(task->status));
  }
  bool ok = tp_writer_finish(&writer, &value) == TP_OK && tp__arena_text(arena, value, ret_value);
  tp__value_writer_fini(&writer);
  return ok;
}
