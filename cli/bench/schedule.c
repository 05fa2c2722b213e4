/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c: a sleep may wake up to about 100 µs late, which would count as a latency although no call caused it. So
 * the last part of a wait polls the clock. */
#include "cli/bench/schedule.h"

#include <errno.h>
#include <time.h>

#include "runtime/base/check.h"
#include "support/clock.h"

enum { SECOND_NS = 1000000000, SPIN_NS = 100000 };

static int64_t monotonic_ns(void *ctx) {
  (void)ctx;
  return tp__monotonic_ns();
}

static void sleep_until(void *ctx, int64_t at_ns) {
  (void)ctx;
  struct timespec at = {.tv_sec = at_ns / SECOND_NS, .tv_nsec = at_ns % SECOND_NS};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
    ;
}

cli_schedule cli_schedule_start_on(cli_schedule_clock clock, uint32_t rate) {
  assert(rate > 0);
  return (cli_schedule){.clock = clock, .rate = rate, .began_ns = clock.now_ns(clock.ctx)};
}

cli_schedule cli_schedule_start(uint32_t rate) {
  return cli_schedule_start_on((cli_schedule_clock){.now_ns = monotonic_ns, .sleep_until = sleep_until}, rate);
}

int64_t cli_schedule_due_ns(const cli_schedule *schedule, uint64_t index) {
  uint64_t seconds = index / schedule->rate, rest = index % schedule->rate; /* rest * 10^9 < 2^62 */
  return schedule->began_ns + (int64_t)(seconds * SECOND_NS + rest * SECOND_NS / schedule->rate);
}

int64_t cli_schedule_wait(const cli_schedule *schedule, uint64_t index) {
  const cli_schedule_clock *clock = &schedule->clock;
  int64_t due_ns = cli_schedule_due_ns(schedule, index), now_ns = clock->now_ns(clock->ctx);
  if (due_ns - now_ns > SPIN_NS) clock->sleep_until(clock->ctx, due_ns - SPIN_NS);
  while (now_ns < due_ns) now_ns = clock->now_ns(clock->ctx);
  return due_ns;
}
