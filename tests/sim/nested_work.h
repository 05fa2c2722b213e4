/* SPDX-License-Identifier: Apache-2.0
 *
 * nested workload: a session whose turns call a tool that runs turns of other sessions, down to the deepest nesting: it
 * waits for them, or defers and submits them. The tool has few permits, which must never be exceeded, and the world may
 * have one handler thread: nothing may hang. */
#ifndef SIM_NESTED_WORK_H
#define SIM_NESTED_WORK_H

#include "world.h"

/** Subscribes its handlers. */
tp_status nested_work_register(world *w, tp_edit *edit);
/** A host. arg: the world. */
void nested_work_run(void *arg);
/** Checks it at the end of the run. */
void nested_work_ended(world *w);

#endif
