/* SPDX-License-Identifier: Apache-2.0
 *
 * os.c: what the machine and the simulator have in common: deadlines and the parker. */
#include "runtime/os/os.h"

int64_t tp__deadline_after_ms(int64_t now_ns, uint64_t ms) {
  int64_t ns, deadline;
  if (ms > INT64_MAX || __builtin_mul_overflow((int64_t)ms, (int64_t)TP__NS_PER_MS, &ns)) return TP__NEVER;
  return __builtin_add_overflow(now_ns, ns, &deadline) ? TP__NEVER : deadline;
}

tp_status tp__parker_init(tp__parker *parker) {
  parker->token = false;
  TP__TRY(tp__mutex_init(&parker->mutex));
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
  bool woken = parker->token; /* also when it came together with the deadline */
  parker->token = false;
  tp__mutex_unlock(&parker->mutex);
  return woken;
}

void tp__parker_unpark(tp__parker *parker) {
  tp__mutex_lock(&parker->mutex);
  parker->token = true;
  tp__cond_signal(&parker->cond); /* under the lock: the sleeper may go on, but not past its own lock */
  tp__mutex_unlock(&parker->mutex);
}
