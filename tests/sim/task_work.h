/* SPDX-License-Identifier: Apache-2.0
 *
 * task workload: a host that submits tasks: direct calls, and creations whose end submits the run of the created task,
 * sometimes twice. The policy of a task allows its tool, denies it, or asks. The person who is asked allows, denies,
 * answers twice, abandons the question or does not answer. Some tasks are cancelled, at any time. */
#ifndef SIM_TASK_WORK_H
#define SIM_TASK_WORK_H

#include "world.h"

enum { TASK_WORK_ASK_MS = 40 };

tp_status task_work_register(world *w, tp_edit *edit);
/** A host. arg: the world. */
void task_work_run(void *arg);
/** Called when the run is over: checks what was noted, and frees it. */
void task_work_ended(world *w);

#endif
