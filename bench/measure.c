/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "bench/workload.h"

enum {
  BATCH_NS = 200000, /* the duration of a batch: so long that neither reading the clock nor cold caches matter */
  TIMES_MAX = 10000,
  LEAD_IN_NS = 3000000, /* a run that is longer than this warms its caches and wakes its threads by itself */
  LEAD_IN_RUNS = 4,     /* runs that warm the caches before a measurement, where one run fills a batch */
  WARM_UP_MIN = 3,
  BLOCKS = 20,
  REPETITIONS_MIN = 20
};

/* ---- clocks ---- */

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t bench_cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

bool bench_counter_steady(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

void bench_sleep_us(int64_t us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  while (nanosleep(&t, &t) != 0) {}
}

void bench_sleep_until(int64_t ns) {
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  if (bench_now_ns() >= ns) return;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {}
}

void bench_wake_exactly(bool exactly) {
  (void)prctl(PR_SET_TIMERSLACK, exactly ? 1ul : 0ul /* the default */, 0, 0, 0);
}

bool bench_settle(void) {
  enum { STEP_US = 200, STEPS_MAX = 50, IDLE_NS = 20000 };
  for (int step = 0; step < STEPS_MAX; step++) {
    int64_t others = bench_cpu_ns() - clock_ns(CLOCK_THREAD_CPUTIME_ID);
    bench_sleep_us(STEP_US);
    if (bench_cpu_ns() - clock_ns(CLOCK_THREAD_CPUTIME_ID) - others < IDLE_NS) return true;
  }
  return false;
}

/* ---- the load by other processes ---- */

typedef struct load {
  int64_t at_ns, ours_ns;
  double machine_s; /* of all processors together, everything that was not idle */
} load;

static load load_now(void) {
  load now = {.at_ns = bench_now_ns(), .ours_ns = bench_cpu_ns()};
  unsigned long long user, nice, system, idle, waiting, irq, soft, stolen;
  FILE *file = fopen("/proc/stat", "re");
  if (file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &waiting, &irq,
                     &soft, &stolen) == 8)
    now.machine_s = (double)(user + nice + system + irq + soft + stolen) / (double)sysconf(_SC_CLK_TCK);
  if (file) fclose(file);
  return now;
}

/* The machine counts in ticks of 10 ms, so for a short time the result is inaccurate. */
static double others_since(const load *then) {
  load now = load_now();
  double duration_s = (double)(now.at_ns - then->at_ns) / 1e9, ours_s = (double)(now.ours_ns - then->ours_ns) / 1e9;
  double others_s = now.machine_s - then->machine_s - ours_s;
  return duration_s > 0 && others_s > 0 ? others_s / duration_s : 0;
}

/* ---- how far the processors are ---- */

enum { SLICES = 9, TRIPS = 100, FAR_NS = 170 };

const char *bench_distance_name(bench_distance distance) {
  static const char *const names[] = {"alone", "near", "far", "mixed"};
  return names[distance];
}

bench_distance bench_distance_of(double round_trip_ns) {
  if (round_trip_ns == 0) return BENCH_ALONE;
  return round_trip_ns < FAR_NS ? BENCH_NEAR : BENCH_FAR;
}

typedef struct table { /* for the two threads that pass the ball */
  _Alignas(128) _Atomic uint32_t ball;
  int processor;
} table;

static void bind_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void bench_bind(uint32_t which) {
  cpu_set_t allowed;
  if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0) return;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &allowed) && which-- == 0) bind_to(i);
}

void bench_unbind(void) {
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  (void)pthread_setaffinity_np(pthread_self(), sizeof all, &all);
}

static void *play(void *arg) {
  table *t = arg;
  bind_to(t->processor);
  for (uint32_t turn = 0; turn <= SLICES * TRIPS; turn++) {
    while (atomic_load_explicit(&t->ball, memory_order_acquire) != 2 * turn + 1) {} /* pairs with release in serve() */
    atomic_store_explicit(&t->ball, 2 * turn + 2, memory_order_release);            /* pairs with acquire in serve() */
  }
  return NULL;
}

static void serve(table *t, uint32_t turn) {
  atomic_store_explicit(&t->ball, 2 * turn + 1, memory_order_release);            /* pairs with acquire in play() */
  while (atomic_load_explicit(&t->ball, memory_order_acquire) != 2 * turn + 2) {} /* pairs with release in play() */
}

/* The first two processors that this process may use. */
static bool two_processors(const cpu_set_t *allowed, int ret[2]) {
  int found = 0;
  for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
    if (CPU_ISSET(i, allowed)) ret[found++] = i;
  return found == 2;
}

double bench_round_trip_ns(void) {
  table t = {.ball = 0};
  int processors[2];
  double slices[SLICES];
  pthread_t partner;
  cpu_set_t allowed;
  if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0) return 0;
  if (!two_processors(&allowed, processors)) return 0;
  t.processor = processors[1];
  if (pthread_create(&partner, NULL, play, &t) != 0) return 0;
  bind_to(processors[0]);
  serve(&t, 0); /* now both threads run */
  for (uint32_t slice = 0; slice < SLICES; slice++) {
    int64_t began = bench_now_ns();
    for (uint32_t trip = 1; trip <= TRIPS; trip++) serve(&t, slice * TRIPS + trip);
    slices[slice] = (double)(bench_now_ns() - began) / TRIPS;
  }
  pthread_join(partner, NULL);
  (void)pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
  return bench_spread_of(slices, SLICES).median;
}

/* ---- work that needs time ---- */

/* A chain of multiplications: two threads on one core gain nothing, and the compiler can leave nothing out. */
static uint64_t compute(uint64_t steps) {
  uint64_t value = steps | 1;
  for (uint64_t i = 0; i < steps; i++) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    __asm__ volatile("" : "+r"(value));
  }
  return value;
}

void bench_work_do(void *work) {
  uint64_t value = compute(((const bench_work *)work)->steps);
  __asm__ volatile("" : : "r"(value));
}

bench_work bench_work_of(int64_t ns) {
  enum { TRIES = 100, STEPS = 20000 };
  int64_t least = INT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    bench_work work = {STEPS};
    int64_t began = bench_now_ns();
    bench_work_do(&work);
    int64_t duration_ns = bench_now_ns() - began;
    if (duration_ns < least) least = duration_ns;
  }
  return (bench_work){(uint64_t)ns * STEPS / (uint64_t)least};
}

/* ---- measuring ---- */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

bench_spread bench_spread_of(double *samples, uint32_t count) {
  if (count == 0) return (bench_spread){0};
  qsort(samples, count, sizeof *samples, compare);
  return (bench_spread){.least = samples[0],
                        .p25 = samples[count / 4],
                        .median = samples[count / 2],
                        .p75 = samples[(uint64_t)count * 3 / 4],
                        .p99 = samples[(uint64_t)count * 99 / 100],
                        .count = count};
}

/* Runs a contestant until it is warm. @return how many runs make a batch. */
static uint32_t warm_up(const bench_contestant *contestant, uint32_t ms) {
  int64_t until = bench_now_ns() + (int64_t)ms * 1000000, least = INT64_MAX, fresh;
  uint32_t times = 1;
  for (int i = 0; i < WARM_UP_MIN || bench_now_ns() < until; i++) {
    int64_t duration_ns = contestant->run(contestant->ctx, times) / times;
    if (duration_ns < least) least = duration_ns;
    fresh = BATCH_NS / (least > 0 ? least : 1);
    times = fresh < 1 ? 1 : fresh > TIMES_MAX ? TIMES_MAX : (uint32_t)fresh;
  }
  return times;
}

typedef struct series { /* a contestant that is being measured */
  const bench_contestant *contestant;
  double *samples;
  int64_t cpu_ns, duration_ns;
  uint32_t times, restless;
} series;

/* Warms up before a batch. After a pause for other threads, the processor was used by others: then it runs a whole
   batch, or several if a run is longer than a batch and uses many megabytes. Otherwise only the caches were used by the
   contestant before, and an eighth of a batch is enough. */
static void before(const bench_settings *settings, series *l, bool after_threads) {
  if (settings->pause_us) {
    int64_t until = bench_now_ns() + (int64_t)settings->pause_us * 1000;
    while (bench_now_ns() < until) {}
    return;
  }
  if (after_threads && !bench_settle()) l->restless++;
  if (l->duration_ns >= LEAD_IN_NS) return;
  uint32_t times = l->times > 1 ? l->times : LEAD_IN_RUNS;
  (void)l->contestant->run(l->contestant->ctx, after_threads ? times : times / 8 + 1);
}

static void repeat(const bench_settings *settings, series *l, uint32_t repetition, bool after_threads) {
  before(settings, l, after_threads);
  int64_t cpu = bench_cpu_ns();
  l->duration_ns = l->contestant->run(l->contestant->ctx, l->times);
  l->cpu_ns += bench_cpu_ns() - cpu;
  l->samples[repetition] = (double)l->duration_ns / l->times;
}

/* Shuffles the order each time, so that no contestant always follows the same one. */
static void shuffle(size_t *order, size_t count, uint64_t *state) {
  for (size_t i = 0; i < count; i++) order[i] = i;
  for (size_t i = count; i > 1; i--) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    size_t j = (size_t)(*state >> 33) % i, moved = order[i - 1];
    order[i - 1] = order[j];
    order[j] = moved;
  }
}

/* One block of repetitions, each with all contestants. @return how many repetitions there were within the time. */
static uint32_t run_block(const bench_settings *settings, series *all, size_t count, uint32_t from, uint32_t to,
                          int64_t until_ns) {
  const series *last = NULL;
  size_t order[BENCH_CONTESTANTS_MAX];
  uint64_t state = from;
  for (uint32_t repetition = from; repetition < to; repetition++) {
    if (repetition >= REPETITIONS_MIN && bench_now_ns() > until_ns) return repetition;
    shuffle(order, count, &state);
    for (size_t i = 0; i < count; i++) {
      series *l = &all[order[i]];
      repeat(settings, l, repetition, last && last != l && last->contestant->threads);
      last = l;
    }
  }
  return to;
}

static bench_spread spread_where(const double *samples, const bench_distance *were, uint32_t count,
                                 bench_distance distance) {
  double *some = bench_alloc(count, sizeof *some);
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i++)
    if (were[i] == distance) some[found++] = samples[i];
  bench_spread spread = bench_spread_of(some, found);
  free(some);
  return spread;
}

static void summarize(const series *l, const bench_distance *were, uint32_t count, bench_result *result) {
  result->near = spread_where(l->samples, were, count, BENCH_NEAR);
  result->far = spread_where(l->samples, were, count, BENCH_FAR);
  result->all = bench_spread_of(l->samples, count);
  result->times = l->times;
  result->restless = l->restless;
  result->cpu_ns = (double)l->cpu_ns / ((double)count * l->times);
  result->distance = BENCH_MIXED;
  if (result->near.count == count) result->distance = BENCH_NEAR;
  if (result->far.count == count) result->distance = BENCH_FAR;
  if (bench_distance_of(result->probe_first) == BENCH_ALONE) result->distance = BENCH_ALONE;
}

static double probe_settled(void) {
  (void)bench_settle();
  return bench_round_trip_ns();
}

void bench_measure(const bench_settings *settings, const bench_contestant *contestants, size_t count,
                   bench_result *results) {
  series all[BENCH_CONTESTANTS_MAX] = {{0}};
  bench_distance *were = bench_alloc(settings->repetitions, sizeof *were);
  uint32_t done = 0, block = (settings->repetitions + BLOCKS - 1) / BLOCKS;
  for (size_t i = 0; i < count; i++) {
    all[i] = (series){.contestant = &contestants[i],
                      .samples = bench_alloc(settings->repetitions, sizeof *all[i].samples),
                      .times = warm_up(&contestants[i], settings->warm_up_ms)};
    if (settings->single || settings->pause_us) all[i].times = 1;
  }
  load began = load_now();
  double first = probe_settled(), last = first;
  int64_t until_ns = bench_now_ns() + (int64_t)settings->seconds_max * 1000000000;
  for (uint32_t from = 0; from < settings->repetitions && done == from; from += block) {
    uint32_t to = from + block < settings->repetitions ? from + block : settings->repetitions;
    bench_distance distance = bench_distance_of(last);
    done = run_block(settings, all, count, from, to, until_ns);
    last = probe_settled();
    if (bench_distance_of(last) != distance) distance = BENCH_MIXED;
    for (uint32_t i = from; i < done; i++) were[i] = distance;
    if (done < to) break;
  }
  double others = others_since(&began);
  for (size_t i = 0; i < count; i++) {
    results[i] = (bench_result){.probe_first = first, .probe_last = last, .others = others};
    summarize(&all[i], were, done, &results[i]);
    free(all[i].samples);
  }
  free(were);
}
