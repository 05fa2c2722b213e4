/* SPDX-License-Identifier: Apache-2.0
 *
 * compaction workload: a session whose history is longer than it may be, with turns that call tools. It is shortened by
 * dropping, by a summary of the model, or by a host's callback, which also fails, hangs, and loses results; the model
 * sometimes calls a context too long. In each request every call is followed directly by its result, and only a
 * successful compaction removes a turn from the history. */
#ifndef SIM_COMPACTION_WORK_H
#define SIM_COMPACTION_WORK_H

#include "world.h"

/** Subscribes its handlers. */
tp_status compaction_work_register(world *w, tp_edit *edit);
/** A host. arg: the world. */
void compaction_work_run(void *arg);
/** Checks it at the end of the run. */
void compaction_work_ended(world *w);

#endif
