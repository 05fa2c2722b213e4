/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor of many turns at once. Two workers each have a private queue, and an inbox that one exchange empties
 * completely. The host links the turns of a worker into one list, and submits the list by one exchange. A turn is one
 * block of memory: its outcomes follow its head, and its worker writes to no other block. When a phase has ended, its
 * turn goes to the end of the worker's queue, as with a host that submits the next phase. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/floor.h"
#include "bench/latch.h"

enum { WORKERS = 2, NODES_MAX = 4, SPINS = 2000 };

typedef struct outcome {
  uint64_t ended;
  uint64_t rest[3];
} outcome;

typedef struct turn {
  _Alignas(64) struct turn *next;
  uint64_t began, deadline;
  uint32_t phase;
  uint16_t counters[NODES_MAX];
  outcome outcomes[BENCH_PHASES_MAX][NODES_MAX];
} turn;

typedef struct worker {
  _Alignas(128) _Atomic(turn *) inbox;
  _Atomic uint32_t asleep;
  _Alignas(128) struct floor_turns *all;
  turn *first, **last; /* the worker's queue */
  pthread_t thread;
} worker;

typedef struct floor_turns {
  uint32_t count, phase_count;
  bool counter;
  bench_flat flats[BENCH_PHASES_MAX];
  outcome (*run)(void *ctx);
  turn *turns;
  turn stop; /* when it comes through an inbox, the worker ends */
  worker workers[WORKERS];
  bench_latch ended;
} floor_turns;

static outcome nothing(void *ctx) {
  (void)ctx;
  return (outcome){0};
}

static uint64_t stamp(const floor_turns *all) { return all->counter ? bench_counter() : (uint64_t)bench_now_ns(); }

static void run_phase(const floor_turns *all, turn *t) {
  const bench_flat *flat = &all->flats[t->phase];
  uint32_t stack[NODES_MAX], ready = flat->root_count;
  uint64_t now = stamp(all);
  memcpy(t->counters, flat->indegree, flat->node_count * sizeof *t->counters);
  memcpy(stack, flat->roots, ready * sizeof *stack);
  while (ready > 0) {
    uint32_t n = stack[--ready];
    if (now > t->deadline) break;
    t->outcomes[t->phase][n] = all->run(NULL);
    t->outcomes[t->phase][n].ended = now = stamp(all);
    for (uint32_t e = flat->first_edge[n]; e < flat->first_edge[n + 1]; e++)
      if (--t->counters[flat->edges[e]] == 0) stack[ready++] = flat->edges[e];
  }
  t->phase++;
}

/* ---- workers ---- */

static void enqueue(worker *w, turn *t) {
  t->next = NULL;
  *w->last = t;
  w->last = &t->next;
}

/* @return the contents of the inbox; sleeps while it is empty. */
static turn *drain(worker *w) {
  for (;;) {
    for (int i = 0; i < SPINS; i++) {
      /* Both pair with the exchange in submit(). */
      if (!atomic_load_explicit(&w->inbox, memory_order_relaxed)) continue;
      return atomic_exchange_explicit(&w->inbox, NULL, memory_order_acquire);
    }
    atomic_store_explicit(&w->asleep, 1, memory_order_seq_cst); /* set before the inbox is read once more */
    if (!atomic_load_explicit(&w->inbox, memory_order_seq_cst)) bench_futex_wait(&w->asleep, 1);
    atomic_store_explicit(&w->asleep, 0, memory_order_relaxed);
  }
}

static void *work(void *arg) {
  worker *w = arg;
  for (;;) {
    uint32_t ended = 0;
    for (turn *t = drain(w), *next; t; t = next) {
      next = t->next;
      if (t == &w->all->stop) return NULL;
      enqueue(w, t);
    }
    for (turn *t; (t = w->first);) {
      w->first = t->next;
      if (!w->first) w->last = &w->first;
      run_phase(w->all, t);
      if (t->phase < w->all->phase_count) enqueue(w, t);
      else ended++;
    }
    if (ended > 0) bench_latch_hit(&w->all->ended, ended);
  }
}

static void submit(worker *w, turn *list) {
  (void)atomic_exchange_explicit(&w->inbox, list, memory_order_seq_cst); /* pairs with drain() */
  if (!atomic_load_explicit(&w->asleep, memory_order_seq_cst)) return;
  atomic_store_explicit(&w->asleep, 0, memory_order_seq_cst); /* keeps a worker that is about to sleep awake */
  bench_futex_wake(&w->asleep);
}

/* ---- the host ---- */

static int64_t run(void *ctx, uint32_t times) {
  floor_turns *all = ctx;
  int64_t began = bench_now_ns();
  for (uint32_t i = 0; i < times; i++) {
    turn *lists[WORKERS] = {NULL};
    bench_latch_set(&all->ended, all->count);
    for (uint32_t n = 0; n < all->count; n++) {
      turn *t = &all->turns[n];
      t->phase = 0;
      t->deadline = UINT64_MAX;
      t->next = lists[n * WORKERS / all->count];
      lists[n * WORKERS / all->count] = t;
    }
    for (int w = 0; w < WORKERS; w++)
      if (lists[w]) submit(&all->workers[w], lists[w]);
    bench_latch_wait(&all->ended);
  }
  return bench_now_ns() - began;
}

static void close_all(void *ctx) {
  floor_turns *all = ctx;
  for (int w = 0; w < WORKERS; w++) {
    all->stop.next = NULL;
    submit(&all->workers[w], &all->stop);
    pthread_join(all->workers[w].thread, NULL);
  }
  for (uint32_t p = 0; p < all->phase_count; p++) bench_flat_fini(&all->flats[p]);
  free(all->turns);
  free(all);
}

static void *alloc_aligned(size_t size) {
  void *memory = aligned_alloc(128, (size + 127) / 128 * 128);
  if (!memory) exit(70);
  memset(memory, 0, size);
  return memory;
}

bench_contestant bench_floor_turns(const bench_workload *workload, uint32_t turns) {
  floor_turns *all = alloc_aligned(sizeof *all);
  all->count = turns;
  all->phase_count = workload->phase_count;
  all->counter = bench_counter_steady();
  all->run = nothing;
  all->turns = alloc_aligned(turns * sizeof *all->turns);
  for (uint32_t p = 0; p < workload->phase_count; p++) {
    if (workload->graphs[p].node_count > NODES_MAX) exit(70);
    bench_flat_init(&all->flats[p], &workload->graphs[p]);
  }
  for (int i = 0; i < WORKERS; i++) {
    worker *w = &all->workers[i];
    w->all = all;
    w->last = &w->first;
    if (pthread_create(&w->thread, NULL, work, w) != 0) exit(70);
  }
  return (bench_contestant){.name = "floor",
                            .form = "two workers, a batch of turns each",
                            .run = run,
                            .close = close_all,
                            .ctx = all,
                            .threads = true};
}
