/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_pollable.c: a flag as a condition of the scheduler. The simulator has no file descriptors. */
#include "runtime/os/os.h"

tp_status tp__pollable_init(tp__pollable *pollable) {
  pollable->is_set = false;
  TP__TRY(tp__mutex_init(&pollable->mutex, TP__RANK_park));
  tp_status status = tp__cond_init(&pollable->cond);
  if (status != TP_OK) tp__mutex_fini(&pollable->mutex);
  return status;
}

void tp__pollable_fini(tp__pollable *pollable) {
  tp__cond_fini(&pollable->cond);
  tp__mutex_fini(&pollable->mutex);
}

void tp__pollable_set(tp__pollable *pollable) {
  tp__mutex_lock(&pollable->mutex);
  assert(!pollable->is_set); /* each change is one write, and no two writes happen at once */
  pollable->is_set = true;
  tp__cond_broadcast(&pollable->cond);
  tp__mutex_unlock(&pollable->mutex);
}

bool tp__pollable_clear(tp__pollable *pollable) {
  tp__mutex_lock(&pollable->mutex);
  bool was_set = pollable->is_set;
  pollable->is_set = false;
  tp__mutex_unlock(&pollable->mutex);
  return was_set;
}

bool tp__pollable_wait_until(tp__pollable *pollable, int64_t deadline_ns) {
  tp__mutex_lock(&pollable->mutex);
  while (!pollable->is_set && tp__cond_wait_until(&pollable->cond, &pollable->mutex, deadline_ns)) {}
  bool is_set = pollable->is_set;
  tp__mutex_unlock(&pollable->mutex);
  return is_set;
}

int tp__pollable_fd(const tp__pollable *pollable) {
  (void)pollable;
  return -1;
}
