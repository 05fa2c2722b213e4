/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_lock.c: mutex and condition on pthreads; conditions wait on the monotonic clock. A pthread call that fails on
 * an object of ours means a broken invariant (unlocked by a stranger, destroyed in use), so it is asserted.
 *
 * The parker is a word and the kernel's futex: a condition costs the woken thread a mutex that its waker may still
 * hold, and each hand-over of an attempt to a handler thread and back is two wake-ups. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/os/posix_clock.h"

static void must(int result) {
  (void)result;
  assert(result == 0);
}

static tp_status status_of(int error) {
  if (error == 0) return TP_OK;
  return error == ENOMEM ? TP_ERR_NO_MEMORY : TP_ERR_SYSTEM;
}

#ifdef TP_CHECK_LOCKS
static _Thread_local tp__held_locks held;
static void took(const tp__mutex *mutex) { tp__held_locks_add(&held, mutex->rank); }
static void gives(const tp__mutex *mutex) { tp__held_locks_remove(&held, mutex->rank); }
#else
static inline void took(const tp__mutex *mutex) { (void)mutex; }
static inline void gives(const tp__mutex *mutex) { (void)mutex; }
#endif

tp_status tp__mutex_init(tp__mutex *mutex, tp__lock_rank rank) {
#ifdef TP_CHECK_LOCKS
  mutex->rank = rank;
#endif
  (void)rank;
  return status_of(pthread_mutex_init(&mutex->m, NULL));
}
void tp__mutex_fini(tp__mutex *mutex) { must(pthread_mutex_destroy(&mutex->m)); }
void tp__mutex_lock(tp__mutex *mutex) {
  must(pthread_mutex_lock(&mutex->m));
  took(mutex);
}
void tp__mutex_unlock(tp__mutex *mutex) {
  gives(mutex);
  must(pthread_mutex_unlock(&mutex->m));
}

tp_status tp__cond_init(tp__cond *cond) {
  pthread_condattr_t attributes;
  int error = pthread_condattr_init(&attributes);
  if (error != 0) return status_of(error);
  error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  if (error == 0) error = pthread_cond_init(&cond->c, &attributes);
  pthread_condattr_destroy(&attributes);
  return status_of(error);
}

void tp__cond_fini(tp__cond *cond) { must(pthread_cond_destroy(&cond->c)); }
void tp__cond_wait(tp__cond *cond, tp__mutex *mutex) { must(pthread_cond_wait(&cond->c, &mutex->m)); }

/* Deadlines are our clock's, the wait is the kernel's. */
static struct timespec kernel_time(int64_t deadline_ns) {
  const int64_t second = INT64_C(1000) * TP__NS_PER_MS;
  int64_t kernel_now_ns = tp__kernel_now_ns();
  int64_t now_ns = tp__now_ns();
  int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  deadline_ns = left_ns > TP__NEVER - kernel_now_ns ? TP__NEVER : kernel_now_ns + left_ns;
  return (struct timespec){.tv_sec = (time_t)(deadline_ns / second), .tv_nsec = (long)(deadline_ns % second)};
}

bool tp__cond_wait_until(tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns) {
  if (deadline_ns == TP__NEVER) {
    tp__cond_wait(cond, mutex);
    return true;
  }
  struct timespec until = kernel_time(deadline_ns);
  int error = pthread_cond_timedwait(&cond->c, &mutex->m, &until);
  if (error == ETIMEDOUT) return false;
  must(error);
  return true;
}

void tp__cond_signal(tp__cond *cond) { must(pthread_cond_signal(&cond->c)); }
void tp__cond_broadcast(tp__cond *cond) { must(pthread_cond_broadcast(&cond->c)); }

/* ---- parker ---- */

enum { EMPTY = 0, TOKEN = 1, PARKED = 2 };

tp_status tp__parker_init(tp__parker *parker) {
  tp__a32_store_relaxed(&parker->word, EMPTY);
  return TP_OK;
}
void tp__parker_fini(tp__parker *parker) { assert(tp__a32_load_relaxed(&parker->word) != PARKED); }

static bool take_token(tp__parker *parker) {
  uint32_t expected = TOKEN;
  return tp__a32_cas_acq_rel(&parker->word, &expected, EMPTY); /* pairs with unpark */
}

/* @return false when the time was up. Wakes early now and then: the word says why. */
static bool wait_while_parked(tp__parker *parker, const struct timespec *until) {
  long result =
      syscall(SYS_futex, &parker->word.v, FUTEX_WAIT_BITSET_PRIVATE, PARKED, until, NULL, FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno != ETIMEDOUT;
}

bool tp__parker_park_until(tp__parker *parker, int64_t deadline_ns) {
  uint32_t expected = EMPTY;
  if (!tp__a32_cas_acq_rel(&parker->word, &expected, PARKED)) return take_token(parker);
  struct timespec until;
  if (deadline_ns != TP__NEVER) until = kernel_time(deadline_ns);
  while (!take_token(parker)) {
    if (wait_while_parked(parker, deadline_ns == TP__NEVER ? NULL : &until)) continue;
    expected = PARKED;
    if (tp__a32_cas_acq_rel(&parker->word, &expected, EMPTY)) return false; /* else the token came just now */
  }
  return true;
}

/* The parked one may see the token and be gone with its parker before the wake-up: then that wakes nobody, or somebody
 * else early, which every wait of the kernel's allows for. */
void tp__parker_unpark(tp__parker *parker) {
  if (tp__a32_exchange_acq_rel(&parker->word, TOKEN) == PARKED)
    syscall(SYS_futex, &parker->word.v, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
