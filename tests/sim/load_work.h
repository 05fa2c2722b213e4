/* SPDX-License-Identifier: Apache-2.0
 *
 * load workload: sessions of three tenants, one of which has most of them, that submit more turns than may run at once
 * (turns_running_max). The admission itself reports which turns begin, wait and end. */
#ifndef SIM_LOAD_WORK_H
#define SIM_LOAD_WORK_H

#include "world.h"

/** Hears the admission of worlds that have a limit. */
void load_work_watch(world *w);
/** A host. arg: the world. */
void load_work_run(void *arg);
/** Checks it at the end of the run. */
void load_work_ended(world *w);

#endif
