/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks.h: the library turnphase-tasks: tools with which a model creates tasks, runs them later, and lists the tools
 * that it may call. A task is a call that was allowed and is kept (task.h): in this runtime, or in a store that keeps
 * tasks, so that it also outlives the process. It uses public headers only.
 *
 * Each of these calls passes two sets of gates: those of the tool itself, as any call, and inside it those of the
 * ability, which is the tool that the task calls. task_create asks tool.create about the ability; where a guard denies,
 * nothing is kept, and the model reads why, with the guards' signals. task_run asks tool.pre about the ability and,
 * when it is allowed, runs it; then comes tool.post. The turn of a task has the ids, caller, agent, environment and
 * people of the turn that asks for it, so that an agent cannot call through a task a tool that it may not call, and
 * session.end lists the task.
 * Threads: the one that uses the edit calls tp_tasks_register(). */
#ifndef TURNPHASE_TASKS_H
#define TURNPHASE_TASKS_H

#include "turnphase/task.h"

TP_BEGIN_DECLS

/** The names of the tools. */
typedef enum tp_tasks_names {
  TP_TASKS_NAMES_TOOLS = 0,   /* task_create, task_run, abilities_list */
  TP_TASKS_NAMES_ACTIONS = 1, /* CREATE_TASK, RUN_TASK, LIST_ABILITIES */
  TP_TASKS_NAMES_BOTH = 2,    /* each tool by two names */
  TP_TASKS_NAMES_FORCE_32 = 0x7fffffff
} tp_tasks_names;

/** Zero means default. */
typedef struct tp_tasks_options {
  size_t struct_size;
  tp_tasks_names names;
  /** Must be zero. */
  uint32_t reserved_;
} tp_tasks_options;

/** Adds to the edit:
 *    tasks.tool_bundle    turn.pre_tool_materialization: the three tools
 *
 *  task_create {ability_id, arguments, task_key}: keeps a call of the ability, and answers with a line of JSON,
 *  {"task_key": …, "ability_id": …}, then what the gates said. task_key: 1 to 64 letters, digits, `.`, `_` and `-`, not
 *  beginning with `tenant-`; without it one is made. task_run {task_key}: runs it, once, and answers as the ability
 *  does; a task whose run was denied stays. Calls of one response that name the same task run in their order.
 *  abilities_list {ability_id}: JSON: an array of {ability_id, kind, description} of all tools of the turn but these
 *  three; of one, given its name, with the schema of its arguments, too. kind is ability_id or operation_key
 *  (tp_tool.is_operation).
 *
 *  A task of a session that has a tenant is kept under `tenant-DIGITS.KEY`, where the digits are of a hash of the
 *  tenant: its model reads and names KEY, and no session of another tenant can run it. Any other task is kept under its
 *  key, as by tp_task_create(), so that a model may run what a command has created, and a command what a model has.
 *  @param options  NULL: the defaults.
 *  @return TP_OK; what tp_edit_add_…() returns; TP_ERR_USAGE, TP_ERR_VERSION for wrong options; TP_ERR_NO_MEMORY.
 *  Threads: the one that uses the edit. */
TP_API tp_status tp_tasks_register(tp_edit *edit, const tp_tasks_options *options, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
