/* SPDX-License-Identifier: Apache-2.0
 *
 * Real threads on one queue: every item is delivered once, each producer's items come in their order, and everything
 * written before a push is visible after the pop. The ring is small, so it is often full and often empty. */
#include <sched.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "runtime/os/queue.h"

enum { THREADS_MAX = 4, ITEMS_PER_PRODUCER = 5000, SOME_MAX = 4 };

typedef struct item {
  uint32_t producer, number;
  uint64_t check;      /* not atomic on purpose: the queue alone orders it */
  uint32_t deliveries; /* by the consumer that got it; read after the join */
} item;

typedef struct stage {
  tp__queue_mpmc *queue;
  uint32_t producers, consumers, items_each;
  item *items;
  tp__a32 consumed;
} stage;

typedef struct actor {
  stage *stage;
  uint32_t index;
  uint32_t last[THREADS_MAX]; /* consumer: the number after the last one seen, by producer */
  uint32_t wrong_order, wrong_payload;
} actor;

static uint64_t check_of(const item *i) {
  return ((uint64_t)i->producer << 32 | i->number) * UINT64_C(0x9E3779B97F4A7C15);
}

static void produce(void *arg) {
  actor *self = arg;
  stage *s = self->stage;
  for (uint32_t n = 0; n < s->items_each; n++) {
    item *i = &s->items[self->index * s->items_each + n];
    i->producer = self->index;
    i->number = n;
    i->check = check_of(i);
    while (!tp__queue_mpmc_push(s->queue, i)) sched_yield();
  }
}

static void take(actor *self, item *i) {
  if (i->check != check_of(i)) self->wrong_payload++;
  if (i->number < self->last[i->producer]) self->wrong_order++;
  self->last[i->producer] = i->number + 1;
  i->deliveries++;
}

static void consume(void *arg) {
  actor *self = arg;
  stage *s = self->stage;
  uint32_t all = s->producers * s->items_each;
  while (tp__a32_load_relaxed(&s->consumed) < all) { /* only ends the loop; the join orders the results */
    void *some[SOME_MAX];
    uint32_t count = tp__queue_mpmc_pop_some(s->queue, some, 1 + self->index % SOME_MAX);
    if (count == 0) sched_yield();
    for (uint32_t i = 0; i < count; i++) take(self, some[i]);
    tp__a32_add_relaxed(&s->consumed, count);
  }
}

static uint32_t rounds(void) {
  const char *text = getenv("TURNPHASE_ROUNDS");
  long count = text ? strtol(text, NULL, 10) : 1;
  return count > 0 ? (uint32_t)count : 1;
}

static void play(uint32_t producers, uint32_t consumers, size_t capacity) {
  tp_allocator allocator = tp__allocator_of(NULL);
  stage s = {.producers = producers, .consumers = consumers, .items_each = ITEMS_PER_PRODUCER};
  actor actors[2 * THREADS_MAX] = {{0}};
  tp__thread *threads[2 * THREADS_MAX];
  assert_int_equal(tp__queue_mpmc_new(&allocator, capacity, &s.queue), TP_OK);
  s.items = calloc((size_t)producers * s.items_each, sizeof *s.items);
  assert_non_null(s.items);
  for (uint32_t i = 0; i < producers + consumers; i++) {
    actors[i].stage = &s;
    actors[i].index = i;
    void (*act)(void *) = i < producers ? produce : consume;
    assert_int_equal(tp__thread_start(&allocator, "actor", act, &actors[i], &threads[i]), TP_OK);
  }
  for (uint32_t i = 0; i < producers + consumers; i++) tp__thread_join(threads[i]);
  for (uint32_t i = 0; i < producers + consumers; i++) {
    assert_int_equal(actors[i].wrong_payload, 0);
    assert_int_equal(actors[i].wrong_order, 0);
  }
  for (uint32_t i = 0; i < producers * s.items_each; i++) assert_int_equal(s.items[i].deliveries, 1);
  assert_true(tp__queue_mpmc_empty(s.queue));
  assert_null(tp__queue_mpmc_pop(s.queue));
  tp__queue_mpmc_free(s.queue);
  free(s.items);
}

TEST(one_producer_and_one_consumer) {
  for (uint32_t round = 0; round < rounds(); round++) play(1, 1, 3);
}

TEST(many_producers_and_one_consumer) {
  for (uint32_t round = 0; round < rounds(); round++) play(4, 1, 16);
}

TEST(one_producer_and_many_consumers) {
  for (uint32_t round = 0; round < rounds(); round++) play(1, 4, 16);
}

TEST(many_producers_and_many_consumers) {
  for (uint32_t round = 0; round < rounds(); round++) {
    play(4, 4, 1);
    play(4, 4, 64);
    play(3, 4, 4096);
  }
}

/* ---- the protocol of sleepers that queue.c describes ---- */

typedef struct sleepers {
  tp__queue_mpmc *queue;
  tp__mutex mutex;
  tp__cond work;
  tp__a32 asleep;
  bool stop; /* under mutex */
  tp__a32 taken;
} sleepers;

static bool sleep_for_work(sleepers *s) {
  tp__mutex_lock(&s->mutex);
  tp__a32_add_acq_rel(&s->asleep, 1); /* pairs with offer */
  bool empty = tp__queue_mpmc_empty(s->queue), stop = s->stop && empty;
  if (empty && !stop) tp__cond_wait(&s->work, &s->mutex);
  tp__a32_sub_acq_rel(&s->asleep, 1);
  tp__mutex_unlock(&s->mutex);
  return !stop;
}

static void work_and_sleep(void *arg) {
  sleepers *s = arg;
  do {
    while (tp__queue_mpmc_pop(s->queue)) tp__a32_add_acq_rel(&s->taken, 1); /* pairs with the wait for it */
  } while (sleep_for_work(s));
}

static void offer(sleepers *s, void *work) {
  while (!tp__queue_mpmc_push(s->queue, work)) sched_yield();
  if (tp__a32_add_acq_rel(&s->asleep, 0) == 0) return; /* pairs with sleep_for_work */
  tp__mutex_lock(&s->mutex);
  tp__cond_signal(&s->work);
  tp__mutex_unlock(&s->mutex);
}

/* Pushes one item at a time, and the next only when it was taken. So each push meets a worker that is about to sleep. A
 * lost wake-up would hang here, and the test's time limit would report it. */
TEST(no_wakeup_is_lost_on_the_way_to_sleep) {
  tp_allocator allocator = tp__allocator_of(NULL);
  sleepers s = {0};
  tp__thread *threads[2];
  uint32_t count = 20000 * rounds();
  assert_int_equal(tp__queue_mpmc_new(&allocator, 8, &s.queue), TP_OK);
  assert_int_equal(tp__mutex_init(&s.mutex, TP__RANK_NONE), TP_OK);
  assert_int_equal(tp__cond_init(&s.work), TP_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tp__thread_start(&allocator, "sleeper", work_and_sleep, &s, &threads[i]), TP_OK);
  }
  for (uint32_t n = 0; n < count; n++) {
    offer(&s, &s);
    while (tp__a32_load_acquire(&s.taken) <= n) sched_yield();
  }
  tp__mutex_lock(&s.mutex);
  s.stop = true;
  tp__cond_broadcast(&s.work);
  tp__mutex_unlock(&s.mutex);
  for (int i = 0; i < 2; i++) tp__thread_join(threads[i]);
  assert_int_equal(tp__a32_load_acquire(&s.taken), count);
  tp__cond_fini(&s.work);
  tp__mutex_fini(&s.mutex);
  tp__queue_mpmc_free(s.queue);
}
