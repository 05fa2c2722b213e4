/* SPDX-License-Identifier: Apache-2.0 */
#include "support/clock.h"

#include <assert.h>
#include <time.h>

static int64_t read_ns(clockid_t clock) {
  struct timespec now = {0};
  int result = clock_gettime(clock, &now);
  assert(result == 0);
  (void)result;
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t tp__monotonic_ns(void) { return read_ns(CLOCK_MONOTONIC); }
int64_t tp__monotonic_ms(void) { return read_ns(CLOCK_MONOTONIC) / TP__NS_IN_MS; }
int64_t tp__wall_ms(void) { return read_ns(CLOCK_REALTIME) / TP__NS_IN_MS; }
