/* SPDX-License-Identifier: Apache-2.0
 *
 * os.c: what the machine and the simulator have in common. */
#include "runtime/os/os.h"

int64_t tp__deadline_after_ms(int64_t now_ns, uint64_t ms) {
  int64_t ns, deadline;
  if (ms > INT64_MAX || __builtin_mul_overflow((int64_t)ms, (int64_t)TP__NS_PER_MS, &ns)) return TP__NEVER;
  return __builtin_add_overflow(now_ns, ns, &deadline) ? TP__NEVER : deadline;
}
