/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.h: how time is measured. Contestants for the same work alternate, batch by batch, so that disturbances of the
 * machine affect all of them; between two batches the bench waits for threads that still run. Each block of repetitions
 * is between two probes of the distance of the two processors, because on virtual machines this distance changes at run
 * time, and with it the cost of everything that crosses threads. */
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

/** Whether bench_counter() has a constant speed; otherwise it cannot be used as a clock. */
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
/** Sleeps until bench_now_ns() has reached ns. */
void bench_sleep_until(int64_t ns);
/** Sets whether the kernel wakes this thread at its exact time, or up to some 50 µs later together with others. */
void bench_wake_exactly(bool exactly);

/* ---- how far the processors are ---- */

typedef enum bench_distance {
  BENCH_ALONE, /* there is only one processor */
  BENCH_NEAR,
  BENCH_FAR,
  BENCH_MIXED /* it changed within the block */
} bench_distance;

const char *bench_distance_name(bench_distance distance);

/** The time in ns of a cache line to another processor and back: the median of some hundred round trips between two
 *  threads that are bound to the first two processors of this process. 0: there is only one processor. The call lasts a
 *  millisecond. */
double bench_round_trip_ns(void);
bench_distance bench_distance_of(double round_trip_ns);

/** Binds the calling thread to one of the processors that it may use, counted from 0, if there are so many. */
void bench_bind(uint32_t which);
/** Lets the calling thread run on all processors of the process again. */
void bench_unbind(void);

/* ---- work that needs time ---- */

/** An amount of computing, not of waiting: a thread that does not run makes no progress with it. */
typedef struct bench_work {
  uint64_t steps;
} bench_work;

bench_work bench_work_of(int64_t ns);
void bench_work_do(void *work);

/* ---- contestants ---- */

/** An engine that does the work of a row. */
typedef struct bench_contestant {
  const char *name;
  const char *form; /* for people: in which form it does the work; may be NULL */
  /** Does the work `times` times. @return the duration of all of it, in ns. */
  int64_t (*run)(void *ctx, uint32_t times);
  void (*close)(void *ctx); /* may be NULL */
  void *ctx;
  bool threads; /* set when it has threads, which may be busy for a while after a run */
} bench_contestant;

typedef struct bench_spread {
  double least, p25, median, p75, p99;
  uint32_t count; /* number of repetitions */
} bench_spread;

typedef struct bench_result {
  bench_spread all, near, far;    /* near and far: only of repetitions in blocks whose distance was so at both ends */
  double cpu_ns;                  /* CPU time of a run, of all threads */
  double probe_first, probe_last; /* distance in ns, before the first and after the last block */
  double others; /* processors that other processes used meanwhile, or that the host of a virtual machine took away */
  bench_distance distance;
  uint32_t times;    /* runs in each batch */
  uint32_t restless; /* repetitions that began while a thread of another contestant still worked */
} bench_result;

typedef struct bench_settings {
  uint32_t repetitions;
  uint32_t warm_up_ms;  /* for each contestant */
  uint32_t seconds_max; /* for a row; a slow row then has fewer repetitions, and reports how many */
  uint32_t pause_us;    /* a pause before each batch, in which threads that wait for work go to sleep; then a batch is
                           one run. The caller is busy in the pause, so that only the processors of the other threads
                           sleep */
  bool single;          /* set when a batch is one run */
} bench_settings;

enum { BENCH_CONTESTANTS_MAX = 16 };

/** Measures the contestants alternately. results[i] is that of contestants[i]. */
void bench_measure(const bench_settings *settings, const bench_contestant *contestants, size_t count,
                   bench_result *results);

/** Sorts the samples and reads the spread from them. */
bench_spread bench_spread_of(double *samples, uint32_t count);

/** Waits until no other thread of the process uses a processor, for at most some milliseconds. @return whether that was
 *  reached. */
bool bench_settle(void);

#ifdef __cplusplus
}
#endif
#endif
