/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule: when each call of an open loop is due: at a fixed rate, however long the earlier calls take. A latency that
 * counts from the time when the call is due includes the wait that a slow call causes for later ones. A latency that
 * counts from the beginning of the call omits that wait (coordinated omission). No state outside of the struct. */
#ifndef CLI_SCHEDULE_H
#define CLI_SCHEDULE_H

#include <stdint.h>

/** A clock, and a wait on it. */
typedef struct cli_schedule_clock {
  int64_t (*now_ns)(void *ctx);
  void (*sleep_until)(void *ctx, int64_t at_ns); /* may return later than at_ns, and earlier */
  void *ctx;
} cli_schedule_clock;

typedef struct cli_schedule {
  cli_schedule_clock clock;
  uint32_t rate; /* calls in a second; above 0 */
  int64_t began_ns;
} cli_schedule;

/** A schedule on the monotonic clock, whose first call is due now. */
cli_schedule cli_schedule_start(uint32_t rate);
/** The same on another clock. */
cli_schedule cli_schedule_start_on(cli_schedule_clock clock, uint32_t rate);
/** When a call is due: began_ns + index / rate seconds, rounded down to a nanosecond. @param index  from 0. */
int64_t cli_schedule_due_ns(const cli_schedule *schedule, uint64_t index);
/** Waits until a call is due; for an overdue call it does not wait.
 *  @return the time when it is due; the function returns at or after this time. */
int64_t cli_schedule_wait(const cli_schedule *schedule, uint64_t index);

#endif
