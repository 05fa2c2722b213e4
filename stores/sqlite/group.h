/* SPDX-License-Identifier: Apache-2.0
 *
 * group: lets the writes of several threads share one commit, and so one sync of the disk. A thread hands over a work:
 * a function that writes. All waiting works are written in one transaction, in the order in which they came. Works that
 * come meanwhile go into the next transaction. No work waits for time to pass. If the shared transaction fails, each of
 * its works is done again in a transaction of its own, so that a work that cannot be written does not affect the
 * others. If no transaction can begin, because the file is locked, all works fail.
 *
 * In a group without a thread, one of the threads that wait in tp__group_run() leads, so a single work needs no
 * hand-over. A group with a thread also takes works for which no thread waits. If the group is idle, the thread that
 * waits for a work still does the work itself. Like database.h, it is compiled into each library that has a SQLite
 * file. Lock: the group's, which may be taken under the connection's. */
#ifndef TP__SQLITE_GROUP_H
#define TP__SQLITE_GROUP_H

#include "stores/sqlite/database.h"
#include "support/lock.h"

/** One work. Starts as {.write, .ctx, .doing, .end}. */
typedef struct tp__group_work {
  /** Writes, inside of a transaction, under the connection's lock. If the transaction is undone, the function is called
   *  again, and must set all its results anew. @return SQLITE_OK, or the error because of which the work is undone. */
  int (*write)(void *ctx);
  void *ctx;
  const char *doing; /* for the fault: "append to a session" */
  /** For tp__group_submit(): called when the work has ended, on the group's thread, without a lock. The caller owns the
   *  work again. */
  void (*end)(struct tp__group_work *work);
  /* the result, at its end */
  tp_status status; /* TP_OK: the work is on the disk; otherwise nothing of it is in the file */
  tp_fault fault;
  /* ---- under the group's lock */
  struct tp__group_work *next;
  tp__lock_condition changed; /* of one that a thread waits for */
  bool has_ended, leads;
} tp__group_work;

typedef struct tp__group {
  /* never changes after init */
  tp__lock *connection; /* the lock of db */
  sqlite3 *db;
  const char *path; /* NULL: in memory */
  pthread_t thread;
  bool has_thread;
  tp__lock mutex;
  tp__lock_condition wanted; /* of the thread: a work came, or it ends */
  /* ---- under mutex */
  tp__group_work *first, **last;
  uint64_t open; /* works that have not ended */
  bool is_led, ending;
  void (*then)(void *ctx); /* called instead of the join, when a thread ends its own group */
  void *then_ctx;
} tp__group;

/** @param connection   the lock under which db is used. It must stay until fini, and so must path.
 *  @param with_thread  for tp__group_submit().
 *  @return TP_OK; TP_ERR_NO_THREAD. */
tp_status tp__group_init(tp__group *group, tp__lock *connection, sqlite3 *db, const char *path, bool with_thread,
                         tp_fault *fault);
/** Does the waiting works, and ends the thread. Accepts a zero-filled group that was not begun. */
void tp__group_fini(tp__group *group);
/** For a work whose end ends the group's owner. The group's thread cannot wait for itself, so it does the waiting works
 *  and then calls `then`, which calls tp__group_fini(). @return false on any other thread: nothing was done. */
bool tp__group_end_later(tp__group *group, void (*then)(void *ctx), void *ctx);
/** Does a work and waits for its end. Any thread, without a lock.
 *  @param fault  may be NULL.   @return the work's status. */
tp_status tp__group_run(tp__group *group, tp__group_work *work, tp_fault *fault);
/** Does a work; its `end` is called later. For a group with a thread. Any thread, without a lock. */
void tp__group_submit(tp__group *group, tp__group_work *work);
/** Waits until all works that were handed over before have ended, successfully or not. Any thread, without a lock.
 *  @return TP_OK; or the reason why no transaction can begin. */
tp_status tp__group_settle(tp__group *group, tp_fault *fault);

#endif
