/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_lock.c: mutex and condition on pthreads; conditions wait on the monotonic clock. A pthread call that fails on
 * an object of ours means a broken invariant (unlocked by a stranger, destroyed in use), so it is asserted. */
#include <errno.h>
#include <time.h>

#include "runtime/os/posix_clock.h"

static void must(int result) {
  (void)result;
  assert(result == 0);
}

static tp_status status_of(int error) {
  if (error == 0) return TP_OK;
  return error == ENOMEM ? TP_ERR_NO_MEMORY : TP_ERR_SYSTEM;
}

tp_status tp__mutex_init(tp__mutex *mutex) { return status_of(pthread_mutex_init(&mutex->m, NULL)); }
void tp__mutex_fini(tp__mutex *mutex) { must(pthread_mutex_destroy(&mutex->m)); }
void tp__mutex_lock(tp__mutex *mutex) { must(pthread_mutex_lock(&mutex->m)); }
void tp__mutex_unlock(tp__mutex *mutex) { must(pthread_mutex_unlock(&mutex->m)); }

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

bool tp__cond_wait_until(tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns) {
  if (deadline_ns == TP__NEVER) {
    tp__cond_wait(cond, mutex);
    return true;
  }
  int64_t kernel_now_ns = tp__kernel_now_ns(); /* deadlines are our clock's, the wait is the kernel's */
  int64_t now_ns = tp__now_ns();
  int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  deadline_ns = left_ns > TP__NEVER - kernel_now_ns ? TP__NEVER : kernel_now_ns + left_ns;
  const int64_t second = INT64_C(1000) * TP__NS_PER_MS;
  struct timespec until = {.tv_sec = (time_t)(deadline_ns / second), .tv_nsec = (long)(deadline_ns % second)};
  int error = pthread_cond_timedwait(&cond->c, &mutex->m, &until);
  if (error == ETIMEDOUT) return false;
  must(error);
  return true;
}

void tp__cond_signal(tp__cond *cond) { must(pthread_cond_signal(&cond->c)); }
void tp__cond_broadcast(tp__cond *cond) { must(pthread_cond_broadcast(&cond->c)); }
