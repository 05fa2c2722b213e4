/* SPDX-License-Identifier: Apache-2.0
 *
 * ask workload: a handler of turn.pre_policy that asks a model of its own (tp_call_ask_model()) and waits. The model
 * answers at once, later, twice, with a failure, or never. Only in worlds with faults, because it occupies threads. */
#ifndef SIM_ASK_WORK_H
#define SIM_ASK_WORK_H

#include "world.h"

typedef struct ask_note ask_note;

static inline bool ask_work_applies(const world *w) { return w->s->turn_work_count > 0 && !world_is_fault_free(w); }
tp_status ask_work_register(world *w, tp_edit *edit);
/** Checks the notes at the end of the run, and frees them. */
void ask_work_ended(world *w);

#endif
