/* SPDX-License-Identifier: Apache-2.0
 *
 * floor.h: the work that any engine must do, and nothing else: the baseline of the same run. A graph runs on the
 * calling thread from flat arrays: counters reset by one copy, a stack of ready nodes, a deadline test, a call through
 * a pointer, a 32-byte outcome and one time-stamp for each node, one time-stamp for the phase. It has no contributions,
 * permits, cancellation, policies or records that could be read later: it is a lower bound, and not a complete
 * engine. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "bench/flat.h"
#include "bench/measure.h"

/** The floor of W1 to W5. @param stamps  false: without time-stamps. */
bench_contestant bench_floor(const bench_workload *workload, bool stamps);

/** The floor of W7: a number of turns that are begun, and submitted to two workers in one batch each; a turn stays on
 *  its worker, and is queued anew for each of its phases. */
bench_contestant bench_floor_turns(const bench_workload *workload, uint32_t turns);

/** The floor of W8: a number of calls that are noted with their times, and ended at these times. */
bench_contestant bench_floor_timers(uint32_t calls);

/** The floor of W9: a number of calls, each with an event before and after it, a time-stamp and a 32-byte result. */
bench_contestant bench_floor_calls(uint32_t calls);

#endif
