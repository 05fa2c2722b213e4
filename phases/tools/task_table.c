/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "phases/tools/task.h"
#include "runtime/base/hash_table.h"

/* ---- one task ---- */

static size_t string_size(const char *string) { return string ? strlen(string) + 1 : 0; }

static const char *put_task_string(char **space, const char *string) {
  size_t size = string_size(string);
  if (size == 0) return NULL;
  char *copy = memcpy(*space, string, size);
  *space += size;
  return copy;
}

tp__task *tp__task_new(const tp_allocator *allocator, const tp_task_spec *spec, const char *key) {
  size_t size =
      sizeof(tp__task) + string_size(key) + string_size(spec->tool) + string_size(spec->agent) + spec->arguments.size;
  tp__task *task = tp__alloc_zero(allocator, size);
  if (!task) return NULL;
  char *space = (char *)(task + 1);
  task->key = put_task_string(&space, key);
  task->tool = put_task_string(&space, spec->tool);
  task->agent = put_task_string(&space, spec->agent);
  if (spec->arguments.size) memcpy(space, spec->arguments.data, spec->arguments.size);
  task->arguments = (tp_text){space, spec->arguments.size};
  task->size = size;
  return task;
}

void tp__task_free(const tp_allocator *allocator, tp__task *task) {
  if (task) tp__release(allocator, task, task->size);
}

/* ---- the table ---- */

tp_status tp__tasks_init(tp__tasks *tasks) {
  *tasks = (tp__tasks){0};
  return tp__mutex_init(&tasks->mutex, TP__RANK_tasks);
}

void tp__tasks_fini(tp__tasks *tasks, const tp_allocator *allocator) {
  for (size_t i = 0; i < TP__TASK_BUCKETS; i++) {
    for (tp__task *task = tasks->buckets[i], *next; task; task = next) {
      next = task->next;
      tp__task_free(allocator, task);
    }
  }
  tp__mutex_fini(&tasks->mutex);
}

/* Where the task is, or would be. */
static tp__task **place_of(tp__tasks *tasks, const char *key) {
  tp__task **place = &tasks->buckets[tp__hash_text(tp_text_of(key), 0) % TP__TASK_BUCKETS];
  while (*place && strcmp((*place)->key, key) != 0) place = &(*place)->next;
  return place;
}

static tp_status add_task_locked(tp__tasks *tasks, tp__task *task, tp_fault *fault) {
  TP__LOCKED(&tasks->mutex);
  if (tasks->count >= TP_TASKS_MAX)
    return tp__fail(fault, TP_ERR_FULL, NULL, "there are %d tasks: run or discard some", TP_TASKS_MAX);
  tp__task **place = place_of(tasks, task->key);
  if (*place) return tp__fail(fault, TP_ERR_DUPLICATE_ID, task->key, "there is a task of this key");
  task->running = true;
  *place = task;
  tasks->count++;
  return TP_OK;
}

static tp_status find_task_locked(tp__tasks *tasks, const char *key, tp__task ***ret_place, tp_fault *fault) {
  TP__LOCKED(&tasks->mutex);
  *ret_place = place_of(tasks, key);
  if (!**ret_place)
    return tp__fail(fault, TP_ERR_NOT_FOUND, key, "there is no task of this key: it was run, or never created");
  if ((**ret_place)->running) return tp__fail(fault, TP_ERR_BUSY, key, "the task is being created or run");
  return TP_OK;
}

static void remove_task_locked(tp__tasks *tasks, const tp_allocator *allocator, const char *key) {
  TP__LOCKED(&tasks->mutex);
  tp__task **place = place_of(tasks, key), *task = *place;
  TP__ASSERT(task && tasks->count > 0);
  *place = task->next;
  tasks->count--;
  tp__task_free(allocator, task);
}

tp_status tp__tasks_reserve(tp__tasks *tasks, const tp_allocator *allocator, const tp_task_spec *spec, uint64_t run_id,
                            tp__task **ret_task, tp_fault *fault) {
  char generated[40];
  tp__mutex_lock(&tasks->mutex);
  if (!spec->key)
    snprintf(generated, sizeof generated, "task-%016llx-%llu", (unsigned long long)run_id,
             (unsigned long long)++tasks->created);
  tp__task *task = tp__task_new(allocator, spec, spec->key ? spec->key : generated);
  tp_status status = task ? add_task_locked(tasks, task, fault) : TP_ERR_NO_MEMORY;
  tp__mutex_unlock(&tasks->mutex);
  if (!task) return tp__fail(fault, status, NULL, "no memory for the task");
  if (status == TP_OK) *ret_task = task;
  else tp__task_free(allocator, task);
  return status;
}

tp_status tp__tasks_take(tp__tasks *tasks, const char *key, tp__task **ret_task, tp_fault *fault) {
  tp__task **place;
  tp__mutex_lock(&tasks->mutex);
  tp_status status = find_task_locked(tasks, key, &place, fault);
  if (status == TP_OK) {
    (*place)->running = true;
    *ret_task = *place;
  }
  tp__mutex_unlock(&tasks->mutex);
  return status;
}

void tp__tasks_leave(tp__tasks *tasks, const tp_allocator *allocator, tp__task *task, bool stays) {
  tp__mutex_lock(&tasks->mutex);
  TP__ASSERT(task->running);
  if (stays) task->running = false;
  else remove_task_locked(tasks, allocator, task->key);
  tp__mutex_unlock(&tasks->mutex);
}

tp_status tp__tasks_discard(tp__tasks *tasks, const tp_allocator *allocator, const char *key, tp_fault *fault) {
  tp__task **place;
  tp__mutex_lock(&tasks->mutex);
  tp_status status = find_task_locked(tasks, key, &place, fault);
  if (status == TP_OK) remove_task_locked(tasks, allocator, key);
  tp__mutex_unlock(&tasks->mutex);
  return status;
}
