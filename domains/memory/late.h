/* SPDX-License-Identifier: Apache-2.0
 *
 * late: results that active_recall found after its deadline, kept for the session's next turn. They are in memory, for
 * a bounded number of sessions: the oldest are dropped first. Only ids are kept, so that a memory that is deleted
 * meanwhile is not recalled. It has a
 * mutex of its own, under which nothing is called. */
#ifndef TP__MEMORY_LATE_H
#define TP__MEMORY_LATE_H

#include "domains/memory/store.h"
#include "support/lock.h"

enum {
  TP__MEMORY_LATE_SESSIONS_MAX = 64,
  TP__MEMORY_LATE_ENTRIES_MAX = 8,
  TP__MEMORY_LATE_QUESTION_MAX = 1024, /* the most bytes of the searched text that are kept; the rest is not compared */
  TP__MEMORY_LATE_BYTES_MAX = 2000,    /* the most bytes of late entries in a turn's recall */
  TP__MEMORY_LATE_AGE_MS_MAX = 10 * 60 * 1000
};

/** The results for one turn. */
typedef struct tp__memory_late_find {
  int64_t asked_ms;                         /* when the search was made, monotonic */
  int64_t ids[TP__MEMORY_LATE_ENTRIES_MAX]; /* best first */
  size_t count;
  size_t question_size;
  char question[TP__MEMORY_LATE_QUESTION_MAX];
} tp__memory_late_find;

typedef struct tp__memory_late {
  tp__lock mutex;
  /* ---- under mutex */
  struct {
    char *key; /* of scope and session; NULL: the slot is free */
    size_t key_size;
    tp__memory_late_find find;
  } slots[TP__MEMORY_LATE_SESSIONS_MAX];
} tp__memory_late;

/** Makes a new one; NULL without memory. */
tp__memory_late *tp__memory_late_new(void);
/** Accepts NULL. */
void tp__memory_late_free(tp__memory_late *late);

/** Keeps results for the session, in place of earlier ones. @return false without memory: nothing is kept. */
bool tp__memory_late_put(tp__memory_late *late, const tp__memory_scope *scope, tp_text session,
                         const tp__memory_late_find *find);
/** Takes the results that are kept for the session. @return false when there are none, or they are too old. */
bool tp__memory_late_take(tp__memory_late *late, const tp__memory_scope *scope, tp_text session, int64_t now_ms,
                          tp__memory_late_find *ret_find);

#endif
