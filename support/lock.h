/* SPDX-License-Identifier: Apache-2.0
 *
 * lock: a mutex that knows its class, and a condition on the monotonic clock. With TP_CHECKS a lock knows its owner. An
 * assertion fails when a thread takes locks against their ranks (lock.def), releases a lock of another thread, or waits
 * on a condition with a second lock held. Each library has its own list of the locks that a thread holds, so ranks are
 * compared within a library and, in tests that link archives, across all of them. */
#ifndef TP__SUPPORT_LOCK_H
#define TP__SUPPORT_LOCK_H

#include <pthread.h>

#include "runtime/base/check.h"
#include "turnphase/base.h"

typedef enum tp__lock_class {
#define X(name, rank, guards) TP__LOCK_##name = rank,
#include "support/lock.def"
#undef X
} tp__lock_class;

typedef struct tp__lock {
  pthread_mutex_t mutex;
#ifdef TP_CHECKS
  tp__lock_class class;
  const void *owner; /* written by the owner only; NULL: free */
#endif
} tp__lock;

/** For a lock that exists as long as the process. */
#ifdef TP_CHECKS
#define TP__LOCK_INITIALIZER(class) \
  { PTHREAD_MUTEX_INITIALIZER, class, NULL }
#else
#define TP__LOCK_INITIALIZER(class) \
  { PTHREAD_MUTEX_INITIALIZER }
#endif

/** Cannot fail: a mutex with default attributes needs no memory. */
void tp__lock_init(tp__lock *lock, tp__lock_class class);
/** The lock is free. */
void tp__lock_fini(tp__lock *lock);
void tp__lock_acquire(tp__lock *lock);
void tp__lock_release(tp__lock *lock);
#ifdef TP_CHECKS
/** Whether the calling thread holds the lock. */
bool tp__lock_is_mine(const tp__lock *lock);
#endif
/** The first statement of a function whose name ends in _locked: its caller must hold the lock. */
#define TP__LOCKED(lock) TP__CHECK(assert(tp__lock_is_mine(lock)))

/** A condition variable. The condition itself is changed and checked under a lock. */
typedef struct tp__lock_condition {
  pthread_cond_t cond;
} tp__lock_condition;

/** For a condition that exists as long as the process, on which no thread waits with a deadline. */
#define TP__LOCK_CONDITION_INITIALIZER \
  { PTHREAD_COND_INITIALIZER }

void tp__lock_condition_init(tp__lock_condition *condition);
void tp__lock_condition_fini(tp__lock_condition *condition);
/** Waits until a signal; may also return without one, so the caller checks in a loop. The thread must hold no other
 *  lock. */
void tp__lock_condition_wait(tp__lock_condition *condition, tp__lock *lock);
/** @param deadline_ns  on the clock of tp__monotonic_ns().   @return false when it has passed. */
bool tp__lock_condition_wait_until(tp__lock_condition *condition, tp__lock *lock, int64_t deadline_ns);
void tp__lock_condition_signal(tp__lock_condition *condition);
void tp__lock_condition_broadcast(tp__lock_condition *condition);

/** Starts a thread that blocks every signal from its first moment on, because the signals of a host are for the threads
 *  of the host. @return 0 or an errno. */
int tp__thread_spawn(pthread_t *ret_thread, void *(*run)(void *), void *ctx);

#endif
