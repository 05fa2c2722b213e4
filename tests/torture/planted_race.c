/* SPDX-License-Identifier: Apache-2.0
 *
 * A planted race: the producer writes to an item after it has pushed it. The annotations of the queue for
 * ThreadSanitizer must not hide this race. planted_race.sh runs it and expects the report. */
#include <stdio.h>

#include "runtime/os/os.h"
#include "runtime/os/queue.h"

enum { ITEM_COUNT = 64 };

static tp__queue_mpmc *queue;
static struct item { uint64_t value; } items[ITEM_COUNT];
static uint64_t sum;

static void consume(void *arg) {
  (void)arg;
  for (int taken = 0; taken < ITEM_COUNT;) {
    struct item *item = tp__queue_mpmc_pop(queue);
    if (item == NULL) continue;
    sum += item->value;
    taken += 1;
  }
}

static void produce(void) {
  for (int i = 0; i < ITEM_COUNT; i++) {
    items[i].value = 1;
    while (!tp__queue_mpmc_push(queue, &items[i])) continue;
    items[i].value = 2; /* no longer ours */
  }
}

int main(void) {
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__thread *consumer = NULL;
  if (tp__queue_mpmc_new(&allocator, ITEM_COUNT, &queue) != TP_OK) return 2;
  if (tp__thread_start(&allocator, "consumer", consume, NULL, &consumer) != TP_OK) return 2;
  produce();
  tp__thread_join(consumer);
  tp__queue_mpmc_free(queue);
  printf("sum %llu\n", (unsigned long long)sum);
  return 0;
}
