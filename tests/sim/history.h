/* SPDX-License-Identifier: Apache-2.0
 *
 * history: a history that sessions share when they name none of their own: it appends at once, or later through a
 * token, twice, or never; it fails; and its closed sessions are deleted while others are used. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "world.h"

/** Makes it, where the script has one, for tp_runtime_options.shared_history. */
tp_status history_open(world *w);
/** Deletes a session that its host has closed. */
void history_delete(world *w, const char *session);
/** Completes some of the remaining calls after the end of the runtime. */
void history_after_free(world *w);
/** Checks the calls at the end of the run. */
void history_ended(world *w);
void history_fini(world *w);

#endif
