/* SPDX-License-Identifier: Apache-2.0
 *
 * sim: the seam's second implementation (-DTP_SIM, libturnphase_sim.a, tests only). Threads are fibers on one OS
 * thread. At every point (atomic operation, lock, wait, thread start, clock read) a seeded scheduler picks the next
 * fiber. The clock is virtual, and sometimes jumps to the next timer although work is runnable. Threads and allocations
 * can be refused. The same seed and program give the same run, step for step: tp__sim_report.trace_hash is equal.
 * Atomics are sequentially consistent here. Errors of weaker orders show when the program is built with
 * ThreadSanitizer: it sees the orders that the operations name, not the orders that the simulator's switches create.
 * Outside of a run the seam works for one thread: points do nothing, locks are free, no thread starts, and a wait with
 * a deadline moves the clock to the deadline. */
#ifndef TP__SIM_H
#define TP__SIM_H

#include "runtime/os/os.h"

typedef enum tp__sim_policy {
  TP__SIM_RANDOM = 0, /* any runnable fiber, evenly */
  TP__SIM_PCT = 1     /* priorities with a few change points (Burckhardt et al., ASPLOS 2010) */
} tp__sim_policy;

typedef struct tp__sim_options {
  uint64_t seed;
  tp__sim_policy policy;
  uint32_t pct_depth;             /* change points; 0: 3 */
  uint32_t clock_jump_inverse;    /* jumps to the next timer at one of this many points while work is runnable; 0: 20 */
  uint32_t thread_refuse_inverse; /* refuses one thread start of this many; 0: never */
  uint32_t alloc_refuse_inverse;  /* refuses one allocation of this many; 0: never */
  uint64_t steps_max;             /* gives up (livelock) after this many points; 0: 5,000,000 */
} tp__sim_options;

typedef enum tp__sim_end {
  TP__SIM_DONE = 0,     /* main returned and every fiber ended */
  TP__SIM_DEADLOCK = 1, /* fibers wait, none can run, no timer is set */
  TP__SIM_LIVELOCK = 2, /* steps_max */
  TP__SIM_LEFT = 3      /* main returned, but fibers of threads that were neither joined nor detached still wait */
} tp__sim_end;

typedef struct tp__sim_report {
  tp__sim_end end;
  uint64_t steps;
  uint64_t trace_hash;
  int64_t virtual_ns; /* how far the clock went */
  char message[512];  /* for every end but DONE: which fibers wait, and where */
} tp__sim_report;

/** Runs main(arg) as the first fiber until every fiber has ended (detached ones included) or no fiber can go on. Fibers
 *  that still wait then are abandoned. Their memory of tp__sim_allocator() is freed when the next run begins, and their
 *  locks are free. A fiber must not jump out of the run, so it must not use assert_* of cmocka.
 *  @param options  borrowed. */
tp__sim_report tp__sim_run(const tp__sim_options *options, void (*main)(void *arg), void *arg);

/** From inside a fiber: lets virtual time pass; other fibers run. */
void tp__sim_sleep_ns(int64_t ns);
/** A number below bound (> 0) from the run's seed. */
uint64_t tp__sim_random(uint64_t bound);
/** An allocator that refuses by options and counts what is open. */
tp_allocator tp__sim_allocator(void);
size_t tp__sim_bytes_open(void);
/** Turns refusals on and off within a run. */
void tp__sim_refusals(bool on);
/** Moves the wall clock (tp__unix_ms). No deadline may change by it. */
void tp__sim_wall_jump_ms(int64_t ms);
/** Sets the function that clears the static pointers into memory of tp__os_alloc_forever(). Each run then begins with a
 *  call of it, outside of any fiber, and with the free of that memory. So a run depends on its seed and not on earlier
 *  runs. There is at most one such function; without it the memory is never freed. */
void tp__sim_on_clear(void (*clear)(void));

#endif
