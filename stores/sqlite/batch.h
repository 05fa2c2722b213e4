/* SPDX-License-Identifier: Apache-2.0
 *
 * batch: a copy of the messages that a turn appends to its session, which waits for the thread that writes it. */
#ifndef TP__SQLITE_BATCH_H
#define TP__SQLITE_BATCH_H

#include "stores/sqlite/group.h"
#include "stores/sqlite/writer.h"
#include "turnphase/store.h"

/** One block of sqlite3_malloc64(). The writer frees it when it was queued there, work.end when it was submitted to the
 *  group. */
typedef struct tp__batch {
  tp__queued queued;
  struct tp__batch *before, *after; /* the owner's list */
  tp__group_work work;              /* where a turn waits for it */
  tp_token token;                   /* of that turn */
  bool is_fenced;                   /* the session was taken over, so nothing of the batch was written */
  void *owner;
  tp_history_append request; /* all that it points to lies in the block */
} tp__batch;

/** @return NULL without memory. */
tp__batch *tp__batch_new(const tp_history_append *request);

#endif
