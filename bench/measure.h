/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h: how time is measured. Contestants for the same work run in turns, batch by batch, so that what the machine
 * does meanwhile happens to all of them; between them threads that still run are waited for. Every block of
 * repetitions stands between two probes of how far the two processors are from each other, because that changes under
 * way on virtual machines and moves everything that crosses threads. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clocks ---- */

static inline int64_t bench_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/** CPU time of all threads of the process. */
int64_t bench_cpu_ns(void);

/** Whether bench_counter() goes at one speed whatever the processor does; else it is no clock. */
bool bench_counter_steady(void);

/** The processor's time-stamp counter. */
static inline uint64_t bench_counter(void) {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return (uint64_t)bench_now_ns();
#endif
}

void bench_sleep_us(int64_t us);
/** Sleeps until bench_now_ns() has come so far, if it has not. */
void bench_sleep_until(int64_t ns);
/** Whether the kernel wakes this thread when its time has come, or some 50 µs later together with others. */
void bench_wake_exactly(bool exactly);

/* ---- how far the processors are ---- */

typedef enum bench_distance {
  BENCH_ALONE, /* one processor only */
  BENCH_NEAR,
  BENCH_FAR,
  BENCH_MIXED /* it changed */
} bench_distance;

const char *bench_distance_name(bench_distance distance);

/** How long a cache line takes to another processor and back, in ns: the median of some hundred round trips between two
 *  threads that are bound to the first two processors of this process. 0: there is but one. Takes a millisecond. */
double bench_round_trip_ns(void);
bench_distance bench_distance_of(double round_trip_ns);

/** Binds the calling thread to one of the processors that it may use, counted from 0; if it has so many. */
void bench_bind(uint32_t which);
/** Lets the calling thread go wherever the process may. */
void bench_unbind(void);

/* ---- work that takes time ---- */

/** An amount of computing, not of waiting: a thread that the machine takes away does not get on with it. */
typedef struct bench_work {
  uint64_t steps;
} bench_work;

bench_work bench_work_of(int64_t ns);
void bench_work_do(void *work);

/* ---- contestants ---- */

/** An engine that does the work of a row. */
typedef struct bench_contestant {
  const char *name;
  const char *form; /* in which way it does it, for people; may be NULL */
  /** Does it so many times. @return the duration of all of it, in ns. */
  int64_t (*run)(void *ctx, uint32_t times);
  void (*close)(void *ctx); /* may be NULL */
  void *ctx;
  bool threads; /* has threads, which may be busy for a while after a run */
} bench_contestant;

typedef struct bench_spread {
  double least, p25, median, p75, p99;
  uint32_t count; /* of repetitions */
} bench_spread;

typedef struct bench_result {
  bench_spread all, near, far;    /* near and far: of the repetitions in blocks that were so from beginning to end */
  double cpu_ns;                  /* CPU time of a run, of all threads */
  double probe_first, probe_last; /* ns */
  double others; /* processors that other processes, and the host by taking them away, used meanwhile */
  bench_distance distance;
  uint32_t times;    /* runs in a batch */
  uint32_t restless; /* repetitions that began while a thread of another contestant was still at work */
} bench_result;

typedef struct bench_settings {
  uint32_t repetitions;
  uint32_t warm_up_ms;  /* of each contestant */
  uint32_t seconds_max; /* of a row; a slow row has fewer repetitions then, and says how many */
  uint32_t pause_us;    /* before each batch, in which threads that wait for work come to rest. A batch is one run then.
                           The caller is busy meanwhile: its processor does not sleep, only those of the others do */
  bool single;          /* a batch is one run */
} bench_settings;

enum { BENCH_CONTESTANTS_MAX = 16 };

/** Measures them in turns. results[i] is that of contestants[i]. */
void bench_measure(const bench_settings *settings, const bench_contestant *contestants, size_t count,
                   bench_result *results);

/** Sorts the samples and reads the spread from them. */
bench_spread bench_spread_of(double *samples, uint32_t count);

/** Waits until no other thread of the process uses a processor, at most for some milliseconds. @return whether it came
 *  to that. */
bool bench_settle(void);

#ifdef __cplusplus
}
#endif
#endif
