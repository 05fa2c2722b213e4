/* SPDX-License-Identifier: Apache-2.0
 *
 * history_age: deletes the turns of a history that are too old. A step is one transaction. A round consists of steps
 * that go through all old messages once. */
#ifndef TP__SQLITE_HISTORY_AGE_H
#define TP__SQLITE_HISTORY_AGE_H

#include "stores/sqlite/sqlite.h"

/** A round. Zero-filled before its first step. */
typedef struct tp__aged {
  uint64_t messages, sessions; /* deleted; of so many sessions */
  uint64_t sessions_in_use;    /* that stay, since something works on them */
  int64_t looked_at;           /* the last message that was looked at */
  bool has_more;               /* after a step: there may be more */
} tp__aged;

/** @return SQLITE_OK; otherwise this step has deleted nothing. */
int tp__sqlite_age_history_locked(tp__sqlite_store *s, int64_t oldest_ms, tp__aged *aged);

#endif
