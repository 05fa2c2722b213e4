/* SPDX-License-Identifier: Apache-2.0
 *
 * job_insert: a node of an entry whose job is stored by the thread of the jobs, together with those of other turns: one
 * transaction of a durable store, and one sync, for all that wait at the same time. The node is an attempt without a
 * function, which the thread answers when the store has; meanwhile its owner has other turns. A cancel of the entry
 * does not end it: what may be in the store is not called cancelled. Lock: `jobs`, for the list of those that wait. */
#ifndef TP__JOB_INSERT_H
#define TP__JOB_INSERT_H

#include "runtime/exec/jobs.h"

typedef struct tp__job_insert tp__job_insert;

enum { TP__JOB_INSERTS_MAX = 64 }; /* in one call of the store */

/** What the owner gives. */
typedef struct tp__job_insert_spec {
  const tp_job *job;  /* copied, with its key, its order key and its payload */
  uint32_t news_seen; /* tp__backlog_news() before */
  bool waits;         /* where there is no space it is not refused yet */
} tp__job_insert_spec;

/** Owner: gives the job of a node to the thread. tp__entry_detached() comes when it is stored, or was not.
 *  @return false without memory, a token, or the thread: the caller stores it. */
bool tp__job_insert_later(struct tp__entry *entry, uint32_t index, const tp__job_insert_spec *spec);
/** The thread of the jobs, under their lock, which is free meanwhile: stores those that wait.
 *  @return whether there was one. */
bool tp__job_inserts_run_locked(tp__jobs *jobs);

#endif
