/* SPDX-License-Identifier: Apache-2.0
 *
 * task_list: the tasks that a session lists in session.end: those that it has created or run since it began, or since
 * its last session.end, in the order in which they were first mentioned. No lock: the session's. */
#ifndef TP__TASK_LIST_H
#define TP__TASK_LIST_H

#include "runtime/base/base.h"

enum { TP__TASK_LIST_MAX = 1000 };

/** How far a task has come. */
typedef enum tp__task_status {
  TP__TASK_PARTIAL = 0, /* created, and not run */
  TP__TASK_SUCCESS = 1,
  TP__TASK_FAILURE = 2 /* its last run was denied, or its tool failed */
} tp__task_status;

typedef struct tp__listed_task {
  tp_text key, ability;
  tp__task_status status;
} tp__listed_task;

typedef struct tp__task_list {
  const tp_allocator *allocator;
  tp__arena arena; /* of keys and names */
  tp__listed_task *items;
  size_t count, capacity;
  uint64_t dropped; /* tasks that found no space or no memory */
} tp__task_list;

void tp__task_list_init(tp__task_list *list, const tp_allocator *allocator);
void tp__task_list_fini(tp__task_list *list);
/** Adds a task, or updates the state of a listed one. */
void tp__task_list_put(tp__task_list *list, tp_text key, tp_text ability, tp__task_status status);
/** The tasks as an array of maps {task_key, ability_id, status}, in the arena; empty when there are none.
 *  @return false without memory. */
bool tp__task_list_write(const tp__task_list *list, tp__arena *arena, tp_text *ret_value);

#endif
