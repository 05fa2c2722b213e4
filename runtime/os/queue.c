/* SPDX-License-Identifier: Apache-2.0
 *
 * queue.c: a ring in which each place says whose turn it is (after Vyukov's bounded queue, 2010).
 *
 * Positions count up for ever; the one at `pos` uses place pos % size for the (pos / size)-th time, its lap. A place's
 * word is 2 * lap while it waits for the item of that lap, 2 * lap + 1 while it holds it. A producer claims the
 * position at `tail` by compare-and-swap once the place is free for it, writes the item, and only then moves the word;
 * consumers claim one or some positions from `head` whose words say that they are full, read, and move each word on.
 * The words hand over the items, so tail and head need no order of their own; they never come back to a value, so a
 * compare-and-swap cannot mistake an old one for a new one. Memory of zeroes is an empty queue.
 *
 * Nobody waits: a producer that is preempted between its claim and its word holds back what comes after its position,
 * not who pushes it. (ck_ring, which was here before, lets producers publish in order only: four of them on two busy
 * processors spun a time slice for each item.)
 *
 * Order: a push releases and a pop acquires; there is no full barrier. Whoever looks for sleepers after a push does it
 * by read-modify-write on the word that a sleeper changed by read-modify-write before it looked whether the queue is
 * empty; whichever comes second then sees the other. A look that finds the place at head not yet full, though later
 * ones are, is right: the producer of that place has still to come and look for sleepers. A plain load in place of
 * either may pass the push in the store buffer, and the simulator, which knows none, cannot find that. */
#include "runtime/os/queue.h"

enum { PLACES_MIN = 4, PLACES_MAX = 1 << 28, APART = 128 };

typedef struct place {
  tp__a64 word; /* release by who moves it, acquire by who reads it: publishes item, or that it was read */
  void *item;
} place;

struct tp__queue_mpmc {
  tp_allocator allocator; /* this and all down to the line never change after init */
  size_t size;
  uint64_t mask;
  uint32_t lap_shift;
  char apart[APART]; /* producers and consumers each have lines of their own */
  tp__a64 tail;
  char apart_from_head[APART];
  tp__a64 head;
  char apart_from_places[APART];
  place places[];
};

tp_status tp__queue_mpmc_new(const tp_allocator *allocator, size_t capacity, tp__queue_mpmc **ret_queue) {
  if (capacity >= PLACES_MAX) return TP_ERR_TOO_LARGE;
  uint32_t lap_shift = 0;
  while (((size_t)1 << lap_shift) < capacity || ((size_t)1 << lap_shift) < PLACES_MIN) lap_shift++;
  size_t places = (size_t)1 << lap_shift, size = sizeof(tp__queue_mpmc) + places * sizeof(place);
  tp__queue_mpmc *queue = tp__alloc_zero(allocator, size);
  if (!queue) return TP_ERR_NO_MEMORY;
  queue->allocator = *allocator;
  queue->size = size;
  queue->mask = places - 1;
  queue->lap_shift = lap_shift;
  *ret_queue = queue;
  return TP_OK;
}

void tp__queue_mpmc_free(tp__queue_mpmc *queue) {
  if (!queue) return;
  tp_allocator allocator = queue->allocator;
  tp__release(&allocator, queue, queue->size);
}

static place *place_of(tp__queue_mpmc *queue, uint64_t pos) { return &queue->places[pos & queue->mask]; }
static uint64_t free_word(const tp__queue_mpmc *queue, uint64_t pos) { return (pos >> queue->lap_shift) * 2; }

bool tp__queue_mpmc_push(tp__queue_mpmc *queue, void *item) {
  assert(item); /* NULL is how pop says empty */
  uint64_t pos = tp__a64_load_relaxed(&queue->tail);
  for (;;) {
    place *p = place_of(queue, pos);
    uint64_t word = free_word(queue, pos);
    if (tp__a64_load_acquire(&p->word) != word) { /* full, or another producer was faster */
      uint64_t now = tp__a64_load_relaxed(&queue->tail);
      if (now == pos) return false;
      pos = now;
    } else if (tp__a64_cas_acq_rel(&queue->tail, &pos, pos + 1)) {
      p->item = item;
      tp__a64_store_release(&p->word, word + 1); /* pairs with count_full */
      return true;
    }
  }
}

static uint32_t count_full(tp__queue_mpmc *queue, uint64_t pos, uint32_t most) {
  uint32_t count = 0;
  while (count < most && tp__a64_load_acquire(&place_of(queue, pos + count)->word) == free_word(queue, pos + count) + 1)
    count++;
  return count;
}

uint32_t tp__queue_mpmc_pop_some(tp__queue_mpmc *queue, void **items, uint32_t most) {
  uint64_t pos = tp__a64_load_relaxed(&queue->head);
  uint32_t count;
  for (;;) {
    count = count_full(queue, pos, most);
    if (count == 0) { /* empty, or another consumer was faster */
      uint64_t now = tp__a64_load_relaxed(&queue->head);
      if (now == pos) return 0;
      pos = now;
    } else if (tp__a64_cas_acq_rel(&queue->head, &pos, pos + count)) {
      break;
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    place *p = place_of(queue, pos + i);
    items[i] = p->item;
    tp__a64_store_release(&p->word, free_word(queue, pos + i) + 2); /* pairs with push: the next lap's */
  }
  return count;
}

void *tp__queue_mpmc_pop(tp__queue_mpmc *queue) {
  void *item;
  return tp__queue_mpmc_pop_some(queue, &item, 1) ? item : NULL;
}

size_t tp__queue_mpmc_count(const tp__queue_mpmc *queue) {
  uint64_t head = tp__a64_load_relaxed(&queue->head), tail = tp__a64_load_relaxed(&queue->tail);
  return tail > head ? (size_t)(tail - head) : 0;
}

/* An old head is one whose place was moved on. */
bool tp__queue_mpmc_empty(const tp__queue_mpmc *queue) {
  uint64_t pos = tp__a64_load_acquire(&queue->head);
  return tp__a64_load_acquire(&queue->places[pos & queue->mask].word) == free_word(queue, pos);
}
