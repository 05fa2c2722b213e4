/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_lock.c: mutex, condition and parker. The mutex is the one of pthreads. Condition and parker consist of words
 * and the kernel's futex, and both wait on the monotonic clock. When a pthread call fails on one of our objects, an
 * invariant is broken (such as a mutex unlocked by another thread, or destroyed while in use), so success is asserted.
 *
 * A mutex is held only for some instructions, so a thread that finds it taken spins for a while before it sleeps. The
 * condition is not glibc's: glibc's signal sometimes sleeps until earlier waiters are gone, and a host's event loop
 * calls our signal. There is a parker as well as a condition, because a thread that a condition wakes needs a mutex,
 * which its waker may still hold. Each attempt on a handler thread causes two wake-ups: one for its start and one for
 * its answer. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/os/posix_clock.h"

static void must(int result) {
  (void)result;
  assert(result == 0);
}

static tp_status status_of_error(int error) {
  if (error == 0) return TP_OK;
  return error == ENOMEM ? TP_ERR_NO_MEMORY : TP_ERR_SYSTEM;
}

#ifdef TP_CHECKS
static _Thread_local tp__held_locks held; /* its address is the thread's name */

/* Only the holder writes `holder`, so a thread that is not the holder never reads its own name there. ThreadSanitizer
 * sees a race here when another thread holds the mutex. In that case the assertion fails, too. */
bool tp__mutex_is_mine(const tp__mutex *mutex) { return mutex->holder == &held; }
static void acquired(tp__mutex *mutex) {
  tp__held_locks_add(&held, mutex->rank);
  mutex->holder = &held;
}
static void note_unlock(tp__mutex *mutex) {
  assert(tp__mutex_is_mine(mutex));
  mutex->holder = NULL;
  tp__held_locks_remove(&held, mutex->rank);
}
/* The rank stays held during a wait, because the wait ends with the acquisition of the same lock. */
static void released_to_wait(tp__mutex *mutex) {
  assert(tp__mutex_is_mine(mutex));
  tp__held_locks_waits(&held, mutex->rank);
  mutex->holder = NULL;
}
static void acquired_after_wait(tp__mutex *mutex) { mutex->holder = &held; }
#else
static inline void acquired(const tp__mutex *mutex) { (void)mutex; }
static inline void note_unlock(const tp__mutex *mutex) { (void)mutex; }
static inline void released_to_wait(const tp__mutex *mutex) { (void)mutex; }
static inline void acquired_after_wait(const tp__mutex *mutex) { (void)mutex; }
#endif

tp_status tp__mutex_init(tp__mutex *mutex, tp__lock_rank rank) {
#ifdef TP_CHECKS
  mutex->rank = rank;
  mutex->holder = NULL;
#endif
  (void)rank;
  pthread_mutexattr_t attributes;
  int error = pthread_mutexattr_init(&attributes);
  if (error != 0) return status_of_error(error);
#ifdef __GLIBC__ /* musl's only kind looks for a while, too */
  error = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
  if (error == 0) error = pthread_mutex_init(&mutex->m, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return status_of_error(error);
}
void tp__mutex_fini(tp__mutex *mutex) { must(pthread_mutex_destroy(&mutex->m)); }
void tp__mutex_lock(tp__mutex *mutex) {
  must(pthread_mutex_lock(&mutex->m));
  acquired(mutex);
}
void tp__mutex_unlock(tp__mutex *mutex) {
  note_unlock(mutex);
  must(pthread_mutex_unlock(&mutex->m));
}

/* ---- conditions ---- */

tp_status tp__cond_init(tp__cond *cond) {
  tp__a32_store_relaxed(&cond->sequence, 0);
  tp__a32_store_relaxed(&cond->waiting, 0);
  return TP_OK;
}
void tp__cond_fini(tp__cond *cond) { assert(tp__a32_load_relaxed(&cond->waiting) == 0); }

/* Translates a deadline of our clock to the kernel's clock, on which the wait runs. */
static struct timespec kernel_time(int64_t deadline_ns) {
  const int64_t second = INT64_C(1000) * TP__NS_PER_MS;
  int64_t kernel_now_ns = tp__kernel_now_ns();
  int64_t now_ns = tp__now_ns();
  int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  deadline_ns = left_ns > TP__NEVER - kernel_now_ns ? TP__NEVER : kernel_now_ns + left_ns;
  return (struct timespec){.tv_sec = (time_t)(deadline_ns / second), .tv_nsec = (long)(deadline_ns % second)};
}

/* @return false when the time was up. Sometimes wakes early, so the caller checks the word again. */
static bool wait_while(tp__a32 *word, uint32_t value, int64_t deadline_ns) {
  struct timespec until;
  if (deadline_ns != TP__NEVER) until = kernel_time(deadline_ns);
  return syscall(SYS_futex, &word->v, FUTEX_WAIT_BITSET_PRIVATE, value, deadline_ns == TP__NEVER ? NULL : &until, NULL,
                 FUTEX_BITSET_MATCH_ANY) == 0 ||
         errno != ETIMEDOUT;
}

static void wake(tp__a32 *word, int count) { syscall(SYS_futex, &word->v, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0); }

bool tp__cond_wait_until(tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns) {
  tp__a32_add_relaxed(&cond->waiting, 1);
  uint32_t sequence = tp__a32_load_relaxed(&cond->sequence);
  released_to_wait(mutex);
  must(pthread_mutex_unlock(&mutex->m));
  bool in_time = wait_while(&cond->sequence, sequence, deadline_ns);
  must(pthread_mutex_lock(&mutex->m));
  acquired_after_wait(mutex);
  tp__a32_sub_acq_rel(&cond->waiting, 1);
  return in_time;
}
void tp__cond_wait(tp__cond *cond, tp__mutex *mutex) { (void)tp__cond_wait_until(cond, mutex, TP__NEVER); }

/* The caller changed its condition under the mutex. So each waiter either looked before the change, and is then counted
 * in `waiting`, or will look after it. A count of 0 means that nobody needs to be woken. */
static void advance(tp__cond *cond, int count) {
  if (tp__a32_load_relaxed(&cond->waiting) == 0) return;
  tp__a32_add_relaxed(&cond->sequence, 1);
  wake(&cond->sequence, count);
}
void tp__cond_signal(tp__cond *cond) { advance(cond, 1); }
void tp__cond_broadcast(tp__cond *cond) { advance(cond, INT_MAX); }

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

bool tp__parker_take(tp__parker *parker) { return tp__a32_load_relaxed(&parker->word) == TOKEN && take_token(parker); }

bool tp__parker_park_until(tp__parker *parker, int64_t deadline_ns) {
  uint32_t expected = EMPTY;
  if (!tp__a32_cas_acq_rel(&parker->word, &expected, PARKED)) return take_token(parker);
  while (!take_token(parker)) {
    if (wait_while(&parker->word, PARKED, deadline_ns)) continue;
    expected = PARKED;
    if (tp__a32_cas_acq_rel(&parker->word, &expected, EMPTY)) return false; /* else the token came just now */
  }
  return true;
}

/* The parked thread may see the token and free its parker before the wake-up. Then the wake-up wakes no thread, or
 * wakes another thread early, which every futex wait allows for. */
void tp__parker_unpark(tp__parker *parker) {
  if (tp__a32_exchange_acq_rel(&parker->word, TOKEN) == PARKED) wake(&parker->word, 1);
}
