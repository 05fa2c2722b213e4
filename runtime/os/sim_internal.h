/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_internal.h: what the simulator's files share. sim_fiber.c switches stacks, sim_scheduler.c decides which fiber
 * runs and what time it is, sim_lock.c, sim_thread.c and sim_memory.c put the seam on top, sim.c starts a run and
 * reports its end. All of it is used by one OS thread only and has no lock. */
#ifndef TP__SIM_INTERNAL_H
#define TP__SIM_INTERNAL_H

#include <setjmp.h>
#include <ucontext.h>

#include "runtime/os/sim.h"

/* ---- random numbers: splitmix64, one stream per purpose, so that a refusal does not change the schedule ---- */

typedef struct tp__stream {
  uint64_t state;
} tp__stream;

static inline uint64_t tp__stream_next(tp__stream *stream) {
  uint64_t z = (stream->state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}
/** True once in `inverse` draws on average; never for 0. */
static inline bool tp__stream_one_in(tp__stream *stream, uint32_t inverse) {
  return inverse > 0 && tp__stream_next(stream) % inverse == 0;
}

/* ---- fibers ---- */

enum { TP__SIM_FIBERS_MAX = 1024, TP__SIM_PCT_DEPTH_MAX = 16 };

typedef enum tp__fiber_state {
  TP__FIBER_RUNNABLE = 0,
  TP__FIBER_LOCKS = 1, /* waits for a mutex */
  TP__FIBER_WAITS = 2, /* the fiber waits on a condition */
  TP__FIBER_JOINS = 3, /* the fiber waits for the end of a thread */
  TP__FIBER_SLEEPS = 4,
  TP__FIBER_ENDED = 5
} tp__fiber_state;

typedef struct tp__fiber {
  /* sim_fiber.c's */
  ucontext_t context; /* where the fiber begins; under a sanitizer, where it is now */
  jmp_buf jump;       /* where the fiber is, once entered */
  bool entered;
  char *stack; /* NULL: none yet, or the host's own */
  const void *stack_bottom;
  size_t stack_size;
  void *fake_stack;     /* AddressSanitizer's, while switched away */
  void *thread_context; /* ThreadSanitizer's */
  struct tp__fiber *next_free;
  /* the program's */
  void (*run)(void *arg);
  void *arg;
  tp__here here;
  char name[16];
  /* the scheduler's */
  uint32_t number; /* in order of starts, main is 0 */
  tp__fiber_state state;
  const void *object;  /* what the fiber waits for */
  int64_t deadline_ns; /* TP__NEVER: none */
  bool timed_out;      /* how the last wait ended */
  tp__held_locks held;
  int64_t priority;            /* PCT */
  size_t live_at, runnable_at; /* places in the scheduler's lists */
  uint64_t ready_since;        /* the step at which it ran last, or was made ready */
} tp__fiber;

/** Makes a fiber that calls tp__sim_fiber_main() at the first switch to it. @return NULL when there is no stack for
 *  it. */
tp__fiber *tp__fiber_new(void);
/** Returns a fiber to the pool. When it is the running fiber, it must switch away at once. */
void tp__fiber_free(tp__fiber *fiber);
/** As tp__fiber_free(), for a fiber that has not ended. */
void tp__fiber_abandon(tp__fiber *fiber);
/** Where tp__sim_run was called. */
tp__fiber *tp__fiber_host(void);
void tp__fiber_switch(tp__fiber *from, tp__fiber *to);
/** Annotations for ThreadSanitizer: a release of an object is ordered before each later acquire of it. They do nothing
 *  in other builds. */
void tp__order_release(const void *object);
void tp__order_acquire(const void *object);
/** The function that each new fiber calls (sim_scheduler.c). Does not return. */
_Noreturn void tp__sim_fiber_main(void);

/* ---- the scheduler ---- */

typedef struct tp__sim {
  bool running;
  uint64_t run; /* counts the runs of this process */
  tp__sim_options options;
  tp__stream schedule, refusal, forever, bytes, program;
  bool refuses;
  tp__sim_end end;
  bool main_returned;
  uint64_t steps;
  uint64_t trace;
  int64_t now_ns, wall_offset_ms;
  int64_t next_deadline_ns; /* no waiting fiber's deadline is earlier */
  tp__fiber *current;
  tp__fiber *live[TP__SIM_FIBERS_MAX]; /* started and not ended */
  tp__fiber *runnable[TP__SIM_FIBERS_MAX];
  size_t live_count, runnable_count;
  uint32_t started;
  uint64_t change_steps[TP__SIM_PCT_DEPTH_MAX];
  int64_t lowest_priority;
  uint32_t streak; /* steps that the current fiber made in a row */
  tp__here here_outside;
} tp__sim;

extern tp__sim tp__sim_state;

/** Clears the state for a run and sets its streams. */
void tp__sim_begin(const tp__sim_options *options);
/** Makes a runnable fiber. @return NULL when the maximum number of fibers exists. */
tp__fiber *tp__sim_start_fiber(const char *name, void (*run)(void *arg), void *arg);
/** The current fiber waits for object until it is woken or the deadline passes. @return false at the deadline. Outside
 *  of a run no other fiber can wake it: with a deadline the clock moves to it, and without a deadline an assertion
 *  fails. */
bool tp__sim_wait(tp__fiber_state state, const void *object, int64_t deadline_ns);
/** Wakes one fiber (chosen by the seed), or all fibers, that wait in this state for object. */
void tp__sim_wake_one(tp__fiber_state state, const void *object);
void tp__sim_wake_all(tp__fiber_state state, const void *object);
/** Ends the run and returns to the host. Does not return to the caller. */
_Noreturn void tp__sim_finish(tp__sim_end end);

/** The steps of sim_memory.c when a run begins, and when a run ends broken. */
void tp__sim_memory_begin(void);
void tp__sim_memory_abandon(void);

#endif
