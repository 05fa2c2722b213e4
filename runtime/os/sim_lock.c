/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_lock.c: mutex and condition on the scheduler, and the parker on both. A mutex has no queue of waiters: the fiber
 * that the scheduler runs first takes it. Conditions sometimes wake early, as the contract allows, and a deadline may
 * pass at any step. */
#include "runtime/os/sim_internal.h"

enum { MUTEX_MAGIC = 0x6d757478, COND_MAGIC = 0x636f6e64, SPURIOUS_INVERSE = 50 };

#define sim tp__sim_state

/* Stands for the only thread outside of a run. */
static tp__fiber outside = {.name = "outside"};

static tp__fiber *self(void) { return sim.running ? sim.current : &outside; }

tp_status tp__mutex_init(tp__mutex *mutex, tp__lock_rank rank) {
  *mutex = (tp__mutex){.rank = rank, .run = sim.run, .magic = MUTEX_MAGIC};
  return TP_OK;
}

static bool is_held(const tp__mutex *mutex) { return mutex->holder && mutex->run == sim.run; }

void tp__mutex_fini(tp__mutex *mutex) {
  assert(mutex->magic == MUTEX_MAGIC && !is_held(mutex));
  mutex->magic = 0;
}

static void acquire(tp__mutex *mutex) {
  while (is_held(mutex)) tp__sim_wait(TP__FIBER_LOCKS, mutex, TP__NEVER);
  mutex->holder = self();
  mutex->run = sim.run;
  tp__held_locks_add(&self()->held, mutex->rank);
  tp__order_acquire(mutex);
}

static void unlock_mutex(tp__mutex *mutex) {
  assert(mutex->magic == MUTEX_MAGIC && is_held(mutex) && mutex->holder == self());
  tp__order_release(mutex);
  mutex->holder = NULL;
  tp__held_locks_remove(&self()->held, mutex->rank);
  tp__sim_wake_all(TP__FIBER_LOCKS, mutex);
}

bool tp__mutex_is_mine(const tp__mutex *mutex) { return is_held(mutex) && mutex->holder == self(); }

void tp__mutex_lock(tp__mutex *mutex) {
  assert(mutex->magic == MUTEX_MAGIC);
  tp__sim_point();
  acquire(mutex);
}

void tp__mutex_unlock(tp__mutex *mutex) {
  tp__sim_point();
  unlock_mutex(mutex);
}

tp_status tp__cond_init(tp__cond *cond) {
  *cond = (tp__cond){.magic = COND_MAGIC};
  return TP_OK;
}

void tp__cond_fini(tp__cond *cond) {
  assert(cond->magic == COND_MAGIC);
  for (size_t i = 0; i < sim.live_count; i++) assert(sim.live[i]->object != cond);
  cond->magic = 0;
}

void tp__cond_wait(tp__cond *cond, tp__mutex *mutex) { tp__cond_wait_until(cond, mutex, TP__NEVER); }

bool tp__cond_wait_until(tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns) {
  assert(cond->magic == COND_MAGIC);
  tp__held_locks_waits(&self()->held, mutex->rank);
  tp__sim_point();
  unlock_mutex(mutex);
  bool woken = true;
  if (sim.running && tp__stream_one_in(&sim.schedule, SPURIOUS_INVERSE)) tp__sim_point();
  else woken = tp__sim_wait(TP__FIBER_WAITS, cond, deadline_ns);
  acquire(mutex);
  return woken;
}

void tp__cond_signal(tp__cond *cond) {
  assert(cond->magic == COND_MAGIC);
  tp__sim_point();
  tp__sim_wake_one(TP__FIBER_WAITS, cond);
}

void tp__cond_broadcast(tp__cond *cond) {
  assert(cond->magic == COND_MAGIC);
  tp__sim_point();
  tp__sim_wake_all(TP__FIBER_WAITS, cond);
}

/* ---- parker ---- */

tp_status tp__parker_init(tp__parker *parker) {
  parker->token = false;
  TP__TRY(tp__mutex_init(&parker->mutex, TP__RANK_park));
  tp_status status = tp__cond_init(&parker->cond);
  if (status != TP_OK) tp__mutex_fini(&parker->mutex);
  return status;
}

void tp__parker_fini(tp__parker *parker) {
  tp__cond_fini(&parker->cond);
  tp__mutex_fini(&parker->mutex);
}

bool tp__parker_park_until(tp__parker *parker, int64_t deadline_ns) {
  tp__mutex_lock(&parker->mutex);
  while (!parker->token) {
    if (!tp__cond_wait_until(&parker->cond, &parker->mutex, deadline_ns)) break;
  }
  bool woken = parker->token; /* true also when the token came together with the deadline */
  parker->token = false;
  tp__mutex_unlock(&parker->mutex);
  return woken;
}

bool tp__parker_take(tp__parker *parker) {
  tp__mutex_lock(&parker->mutex);
  bool taken = parker->token;
  parker->token = false;
  tp__mutex_unlock(&parker->mutex);
  return taken;
}

void tp__parker_unpark(tp__parker *parker) {
  tp__mutex_lock(&parker->mutex);
  parker->token = true;
  tp__cond_signal(&parker->cond); /* under the lock: the sleeper may go on, but must first acquire the same lock */
  tp__mutex_unlock(&parker->mutex);
}
