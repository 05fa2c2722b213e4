/* SPDX-License-Identifier: Apache-2.0
 *
 * task_tools: the functions of the tools. A run of task_create or task_run defers, and is answered from the end of its
 * task. Locks: `task` of each run, for its submission and its cancel; `task_keys` of the domain. */
#ifndef TP__TASKS_TASK_TOOLS_H
#define TP__TASKS_TASK_TOOLS_H

#include "support/lock.h"
#include "turnphase/tool.h"

/** The state that the runs share. */
typedef struct tp__tasks_domain {
  tp__lock lock;
  uint64_t number; /* how many keys were made; under lock */
} tp__tasks_domain;

/** Whether this is a tool of this domain, by either of its names. */
bool tp__tasks_is_own(const char *name);
/** The function of task_create; ctx is the domain. */
tp_answer tp__task_create(void *ctx, tp_tool_run *run);
tp_answer tp__task_run(void *ctx, tp_tool_run *run);
tp_answer tp__abilities_list(void *ctx, tp_tool_run *run);
/** Adds the key of the task, so that calls which name one task run in their order. */
tp_status tp__task_keys(void *ctx, tp_text arguments, tp_tool_keys *keys);

#endif
