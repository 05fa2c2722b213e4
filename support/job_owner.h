/* SPDX-License-Identifier: Apache-2.0
 *
 * job_owner: tenant and session of a background job, for stores. It owns nothing and has no lock. Threads: any. */
#ifndef TP__SUPPORT_JOB_OWNER_H
#define TP__SUPPORT_JOB_OWNER_H

#include "turnphase/base.h"

/** Reads tenant and session from the payload of a job, which has the ids of its turn.
 *  @param ret_owner  views into the payload; unchanged when the payload does not have them. */
void tp__job_owner(tp_text payload, tp_text ret_owner[2]);

#endif
