/* SPDX-License-Identifier: Apache-2.0
 *
 * What the seam to the machine costs, and the queue that stands on it. Nobody else wants the locks and lines here:
 * contention shows in the turns. */
#include "bench/rooms/room.h"
#include "runtime/os/queue.h"

typedef struct os_room {
  tp_allocator allocator;
  tp__mutex mutex;
  tp__parker parker;
  tp__queue_mpmc *queue;
  tp__a64 word;
} os_room;

static int64_t now(void *ctx, uint32_t times) {
  (void)ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp__now_ns()));
}

static int64_t now_coarse(void *ctx, uint32_t times) {
  (void)ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp__now_coarse_ns()));
}

static int64_t unix_ms(void *ctx, uint32_t times) {
  (void)ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp__unix_ms()));
}

static int64_t mutex(void *ctx, uint32_t times) {
  os_room *room = ctx;
  ROOM_TIMED(times, tp__mutex_lock(&room->mutex); tp__mutex_unlock(&room->mutex));
}

static int64_t parker(void *ctx, uint32_t times) {
  os_room *room = ctx;
  ROOM_TIMED(times, tp__parker_unpark(&room->parker); ROOM_KEEP(tp__parker_park_until(&room->parker, TP__NEVER)));
}

static int64_t add(void *ctx, uint32_t times) {
  os_room *room = ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp__a64_add_acq_rel(&room->word, 1)));
}

static int64_t queue(void *ctx, uint32_t times) {
  os_room *room = ctx;
  ROOM_TIMED(times, ROOM_KEEP(tp__queue_mpmc_push(room->queue, room)); ROOM_KEEP(tp__queue_mpmc_pop(room->queue)));
}

int main(int argc, char **argv) {
  static os_room room;
  bench_program program;
  bench_row row = {.name = "os", .what = "clock, locks and queue, uncontended"};
  bench_open(&program, "os", "What the seam to the machine costs.", "os ", argc, argv);
  room.allocator = tp__allocator_of(NULL);
  bench_must(tp__mutex_init(&room.mutex), NULL);
  bench_must(tp__parker_init(&room.parker), NULL);
  bench_must(tp__queue_mpmc_new(&room.allocator, 64, &room.queue), NULL);
  room_add(&row, "now", now, &room);
  room_add(&row, "now, coarse", now_coarse, &room);
  room_add(&row, "unix time", unix_ms, &room);
  room_add(&row, "lock and unlock", mutex, &room);
  room_add(&row, "unpark, then park", parker, &room);
  room_add(&row, "atomic addition", add, &room);
  room_add(&row, "push to and pop from a queue", queue, &room);
  bench_row_run(&program, &row, NULL);
  tp__queue_mpmc_free(room.queue);
  tp__parker_fini(&room.parker);
  tp__mutex_fini(&room.mutex);
  return bench_close(&program);
}
