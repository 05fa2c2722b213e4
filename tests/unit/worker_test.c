/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine workers that find little to do. */
#include <semaphore.h>
#include <time.h>

#include "tests/support/test.h"
#include "runtime/sched/sched.h"

enum { MESSAGES = 300, WORK_US = 5 };

typedef struct work {
  tp__message message;
  sem_t done;
} work;

static void delivered(tp__message *message) {
  int64_t until_ns = tp__now_ns() + WORK_US * TP__NS_PER_US;
  while (tp__now_ns() < until_ns) continue;
  sem_post(&TP__CONTAINER(message, work, message)->done);
}

/* Work of some microseconds comes about once a millisecond. Earlier versions searched for 30 us after each. */
TEST(looking_for_work_takes_less_time_than_the_work_that_is_found) {
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__sched_options options = {.owner = &allocator,
                               .allocator = &allocator,
                               .workers = 2,
                               .strands_max = 1,
                               .handler_threads = 1,
                               .layer_threads = 1,
                               .detached_threads = 1};
  tp__sched sched;
  tp__strand strand;
  work w = {.message.deliver = delivered};
  sem_init(&w.done, 0, 0);
  assert_int_equal(tp__sched_init(&sched, &options), TP_OK);
  assert_int_equal(tp__sched_start(&sched), TP_OK);
  tp__strand_init(&strand, &sched, true);
  tp__strand_leave(&strand);
  for (int i = 0; i < MESSAGES; i++) {
    assert_true(tp__strand_push(&strand, &w.message));
    sem_wait(&w.done);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  tp__strand_acquire(&strand);
  tp__sched_stop(&sched);
  uint64_t worked_ns = tp__a64_load_acquire(&sched.workers.worked_ns);
  uint64_t searched_ns = tp__a64_load_acquire(&sched.workers.searched_ns);
  assert_true(worked_ns > 0);
  assert_true(searched_ns < worked_ns); /* a tenth, but for a search that the system interrupts */
  assert_int_equal(tp__pool_stop(&sched.pool), 0);
  tp__sched_fini(&sched);
  sem_destroy(&w.done);
}
