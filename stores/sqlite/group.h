/* SPDX-License-Identifier: Apache-2.0
 *
 * group: transactions of several threads that share one commit, and so one sync of the disk. A thread hands over a
 * work: a function that writes. All works that wait are written in one transaction, in the order in which they came;
 * those that come meanwhile go into the next one. No work waits for time to pass. Where the shared transaction fails,
 * each work of it is done again in a transaction of its own, so that one that cannot be written fails no other one.
 * Where no transaction can begin, since the file is locked, all fail.
 *
 * A group without a thread is led by one of the threads that wait in tp__group_run(), and one work at a time costs no
 * hand-over. A group with a thread takes works that nobody waits for, too; a work that finds it idle is done by the
 * thread that waits for it all the same. Like database.h it is compiled into each
 * library that keeps a SQLite file. Lock: the group's, which may be taken inside of the connection's. */
#ifndef TP__SQLITE_GROUP_H
#define TP__SQLITE_GROUP_H

#include "stores/sqlite/database.h"
#include "support/lock.h"

/** One work. Starts as {.write, .ctx, .doing, .end}. */
typedef struct tp__group_work {
  /** Writes, inside of a transaction, under the connection's lock. It is called again when that was undone: it sets all
   *  its results anew. @return SQLITE_OK, or the error for which it is undone. */
  int (*write)(void *ctx);
  void *ctx;
  const char *doing; /* for the fault: "append to a session" */
  /** Of tp__group_submit(): it has ended; on the group's thread, without a lock. The work is the caller's again. */
  void (*end)(struct tp__group_work *work);
  /* the result, at its end */
  tp_status status; /* TP_OK: it is on the disk; else nothing of it is in the file */
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
  void (*then)(void *ctx); /* in place of the join of a thread that ends its own group */
  void *then_ctx;
} tp__group;

/** @param connection   the lock under which db is used; path, too, stays until fini.
 *  @param with_thread  for tp__group_submit().
 *  @return TP_OK; TP_ERR_NO_THREAD. */
tp_status tp__group_init(tp__group *group, tp__lock *connection, sqlite3 *db, const char *path, bool with_thread,
                         tp_fault *fault);
/** Does what waits, and ends the thread. Accepts one that was not begun, if it is zero. */
void tp__group_fini(tp__group *group);
/** The end of a work may end the group's owner: then its thread cannot wait for itself, and calls `then` when it has
 *  done what waits, which calls tp__group_fini().   @return false on any other thread: nothing was done. */
bool tp__group_end_later(tp__group *group, void (*then)(void *ctx), void *ctx);
/** Does a work and waits for its end. Any thread, without a lock.
 *  @param fault  may be NULL.   @return the work's status. */
tp_status tp__group_run(tp__group *group, tp__group_work *work, tp_fault *fault);
/** Does a work, of which `end` is called later. Of a group with a thread. Any thread, without a lock. */
void tp__group_submit(tp__group *group, tp__group_work *work);
/** Waits until all that was handed over before has ended, whatever became of it. Any thread, without a lock.
 *  @return TP_OK; why no transaction can begin. */
tp_status tp__group_settle(tp__group *group, tp_fault *fault);

#endif
