/* SPDX-License-Identifier: Apache-2.0
 *
 * task: tool calls without a conversation. A task is in the table of its runtime from its creation until its tool was
 * started, or until it is discarded. At most one run at a time has it. task_table.c owns the table, task.c runs tasks.
 * Lock: `tasks`. */
#ifndef TP__TASK_H
#define TP__TASK_H

#include "runtime/os/os.h"
#include "turnphase/task.h"

struct tp__nesting;

/** What is called. One block of memory. */
typedef struct tp__task {
  struct tp__task *next; /* in its bucket */
  bool running;          /* under the table's mutex: the task is being created or run */
  size_t size;
  tp_text arguments;
  const char *key, *tool, *agent; /* agent NULL: none */
} tp__task;

enum { TP__TASK_BUCKETS = 256 };

typedef struct tp__tasks {
  tp__mutex mutex;
  /* under mutex */
  tp__task *buckets[TP__TASK_BUCKETS];
  uint32_t count;
  uint64_t created; /* of generated keys */
} tp__tasks;

/** tp_task_submit(). For a nested task, it gets the call for which the task runs; NULL: it is not nested. A nested
 *  task's spec has no session. */
tp_status tp__task_submit(tp_runtime *runtime, const struct tp__nesting *nesting, tp_task_operation operation,
                          const tp_task_spec *spec, tp_task_fn on_end, void *ctx, tp_submission **ret_submission,
                          tp_fault *fault);

/** A task with copies of the spec's fields. @param key used instead of the spec's. @return NULL without memory. */
tp__task *tp__task_new(const tp_allocator *allocator, const tp_task_spec *spec, const char *key);
void tp__task_free(const tp_allocator *allocator, tp__task *task);

tp_status tp__tasks_init(tp__tasks *tasks);
void tp__tasks_fini(tp__tasks *tasks, const tp_allocator *allocator);
/** Those of a runtime (agent_layer.c). */
tp__tasks *tp__layer_tasks(const tp_runtime *runtime);
/** Makes a running task under the spec's key, or under a generated one. No two tasks get the same key.
 *  @param run_id  of the runtime: part of generated keys.
 *  @return TP_OK; TP_ERR_FULL, TP_ERR_DUPLICATE_ID, TP_ERR_NO_MEMORY. */
tp_status tp__tasks_reserve(tp__tasks *tasks, const tp_allocator *allocator, const tp_task_spec *spec, uint64_t run_id,
                            tp__task **ret_task, tp_fault *fault);
/** Marks a task as running. @return TP_OK; TP_ERR_NOT_FOUND, TP_ERR_BUSY. */
tp_status tp__tasks_take(tp__tasks *tasks, const char *key, tp__task **ret_task, tp_fault *fault);
/** The run that has the task returns it. @param stays false: the task is deleted. */
void tp__tasks_leave(tp__tasks *tasks, const tp_allocator *allocator, tp__task *task, bool stays);
/** Deletes a task that is not running. @return TP_OK; TP_ERR_NOT_FOUND, TP_ERR_BUSY. */
tp_status tp__tasks_discard(tp__tasks *tasks, const tp_allocator *allocator, const char *key, tp_fault *fault);

#endif
