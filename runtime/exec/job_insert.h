/* SPDX-License-Identifier: Apache-2.0
 *
 * job_insert: lets the thread of the jobs store the job of an entry's node, together with jobs of other turns. So a
 * durable store needs only one transaction and one sync for all jobs that wait at the same time. The node is an attempt
 * without a function; the thread answers it when the store has answered. Meanwhile its owner runs other turns. A cancel
 * of the entry does not end the attempt, because a job that may be in the store must not be called cancelled. Lock:
 * `jobs`, for the list of waiting jobs. */
#ifndef TP__JOB_INSERT_H
#define TP__JOB_INSERT_H

#include "runtime/exec/jobs.h"

typedef struct tp__job_insert tp__job_insert;

enum { TP__JOB_INSERTS_MAX = 64 }; /* in one call of the store */

/** What the owner gives. */
typedef struct tp__job_insert_spec {
  const tp_job *job;  /* copied, with its texts and payload */
  uint32_t news_seen; /* tp__backlog_news() before */
  bool waits;         /* true: when the store has no space, the job is not refused yet */
} tp__job_insert_spec;

/** Owner: gives the job of a node to the thread. tp__entry_detached() is called when the job was stored or refused.
 *  @return false when there is no memory, no token or no thread: then the caller stores the job itself. */
bool tp__job_insert_later(struct tp__entry *entry, uint32_t index, const tp__job_insert_spec *spec);
/** Called by the thread of the jobs, under their lock, which is released meanwhile: stores the waiting jobs.
 *  @return whether there was one. */
bool tp__job_inserts_run_locked(tp__jobs *jobs);

#endif
