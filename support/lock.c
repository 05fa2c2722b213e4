/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.c: when a pthread call fails on one of our objects, an invariant is broken (released by another thread,
 * destroyed while in use), so success is asserted. */
#include "support/lock.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

static void must(int result) {
  (void)result;
  assert(result == 0);
}

#ifdef TP_CHECKS
enum { HELD_MAX = 8 };
/* The locks of a thread, by class. The address of this struct identifies the thread. */
static _Thread_local struct held {
  uint8_t classes[HELD_MAX];
  uint8_t count;
} held;

/* Only the owner writes `owner`, so another thread never reads its own name there. A thread only asks about a lock that
 * it must hold. So ThreadSanitizer sees a race only in cases in which the assertion fails, too. */
bool tp__lock_is_mine(const tp__lock *lock) { return lock->owner == &held; }

/* Checked before the thread may wait for the lock, so that a deadlock also fails here. */
static void check_order(const tp__lock *lock) {
  /* Ranks rise. */
  for (uint8_t i = 0; i < held.count; i++) assert(held.classes[i] < lock->class);
  assert(held.count < HELD_MAX);
}

static void acquired(tp__lock *lock) {
  held.classes[held.count++] = (uint8_t)lock->class;
  lock->owner = &held;
}

static void note_lock_release(tp__lock *lock) {
  assert(tp__lock_is_mine(lock));
  uint8_t at = held.count;
  while (at > 0 && held.classes[at - 1] != lock->class) at--;
  assert(at > 0);
  held.count--;
  for (; at <= held.count; at++) held.classes[at - 1] = held.classes[at];
  lock->owner = NULL;
}

/* The class stays held during a wait, because the wait ends with the acquisition of the same lock. */
static void released_to_wait(tp__lock *lock) {
  assert(tp__lock_is_mine(lock));
  assert(held.count == 1);
  lock->owner = NULL;
}
static void acquired_after_wait(tp__lock *lock) { lock->owner = &held; }
#else
static inline void check_order(const tp__lock *lock) { (void)lock; }
static inline void acquired(const tp__lock *lock) { (void)lock; }
static inline void note_lock_release(const tp__lock *lock) { (void)lock; }
static inline void released_to_wait(const tp__lock *lock) { (void)lock; }
static inline void acquired_after_wait(const tp__lock *lock) { (void)lock; }
#endif

void tp__lock_init(tp__lock *lock, tp__lock_class class) {
  *lock = (tp__lock)TP__LOCK_INITIALIZER(class);
  (void)class;
  must(pthread_mutex_init(&lock->mutex, NULL));
}
void tp__lock_fini(tp__lock *lock) { must(pthread_mutex_destroy(&lock->mutex)); }
void tp__lock_acquire(tp__lock *lock) {
  check_order(lock);
  must(pthread_mutex_lock(&lock->mutex));
  acquired(lock);
}
void tp__lock_release(tp__lock *lock) {
  note_lock_release(lock);
  must(pthread_mutex_unlock(&lock->mutex));
}

/* ---- conditions ---- */

void tp__lock_condition_init(tp__lock_condition *condition) {
  pthread_condattr_t attributes;
  must(pthread_condattr_init(&attributes));
  must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
  must(pthread_cond_init(&condition->cond, &attributes));
  must(pthread_condattr_destroy(&attributes));
}
void tp__lock_condition_fini(tp__lock_condition *condition) { must(pthread_cond_destroy(&condition->cond)); }
void tp__lock_condition_wait(tp__lock_condition *condition, tp__lock *lock) {
  released_to_wait(lock);
  must(pthread_cond_wait(&condition->cond, &lock->mutex));
  acquired_after_wait(lock);
}
bool tp__lock_condition_wait_until(tp__lock_condition *condition, tp__lock *lock, int64_t deadline_ns) {
  const int64_t second = INT64_C(1000000000);
  if (deadline_ns < 0) deadline_ns = 0;
  const struct timespec until = {.tv_sec = (time_t)(deadline_ns / second), .tv_nsec = (long)(deadline_ns % second)};
  released_to_wait(lock);
  int error = pthread_cond_timedwait(&condition->cond, &lock->mutex, &until);
  acquired_after_wait(lock);
  assert(error == 0 || error == ETIMEDOUT);
  return error == 0;
}
void tp__lock_condition_signal(tp__lock_condition *condition) { must(pthread_cond_signal(&condition->cond)); }
void tp__lock_condition_broadcast(tp__lock_condition *condition) { must(pthread_cond_broadcast(&condition->cond)); }

/* ---- threads ---- */

int tp__thread_spawn(pthread_t *ret_thread, void *(*run)(void *), void *ctx) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(ret_thread, NULL, run, ctx);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}
