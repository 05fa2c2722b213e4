/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime/sched/pump without a runtime: what the descriptor shows after a waiting thread has pumped. The step of the
 * owner simulates events that happen meanwhile. */
#include <poll.h>
#include <pthread.h>

#include "tests/support/test.h"
#include "runtime/sched/sched.h"

#define SECOND_NS INT64_C(1000000000)

typedef struct host {
  tp_allocator allocator;
  tp__sched sched;
  tp__parker parker;
  void (*happens)(struct host *h); /* while the waiting thread looks; once */
  uint32_t looks;                  /* of the waiting thread */
  int64_t next_ns;                 /* when the owner has something; TP__NEVER */
  bool was_readable;               /* right after that */
  tp_status host_status;           /* of a pump of the host's meanwhile */
} host;

static bool is_readable(const host *h) {
  struct pollfd polled = {.fd = tp__pollable_fd(&h->sched.pump.pollable), .events = POLLIN};
  return poll(&polled, 1, 0) == 1;
}

static bool step(const void *owner, int64_t *ret_next_ns) {
  host *h = (host *)(uintptr_t)owner;
  void (*happens)(host * h) = h->happens;
  h->happens = NULL;
  h->looks++;
  if (happens) happens(h);
  if (happens) h->was_readable = is_readable(h);
  if (h->next_ns != TP__NEVER) *ret_next_ns = h->next_ns;
  return false;
}

static void open_host(host *h) {
  *h = (host){.allocator = tp__allocator_of(NULL), .next_ns = TP__NEVER};
  const tp__sched_options options = {.owner = h,
                                     .allocator = &h->allocator,
                                     .workers = 1,
                                     .strands_max = 8,
                                     .handler_threads = 1,
                                     .layer_threads = 1,
                                     .detached_threads = 1,
                                     .tokens_max = 8,
                                     .pumped = true,
                                     .step = step};
  assert_int_equal(tp__parker_init(&h->parker), TP_OK);
  assert_int_equal(tp__sched_init(&h->sched, &options), TP_OK);
  assert_int_equal(tp__sched_start(&h->sched), TP_OK);
}

static void close_host(host *h) {
  tp__sched_stop(&h->sched);
  assert_int_equal(tp__pool_stop(&h->sched.pool), 0);
  tp__sched_fini(&h->sched);
  tp__parker_fini(&h->parker);
}

/* @return when the host pumps again. */
static int64_t pump(host *h) {
  int64_t next_ns = 17;
  assert_int_equal(tp__pump_run(&h->sched, 0, &next_ns), TP_OK);
  return next_ns;
}

/* What the thread waits for comes. */
static void come(host *h) {
  tp__parker_unpark(&h->parker);
  tp__pump_wake(&h->sched.pump);
}

/* Pumps like a waiting thread that finds nothing while something happens. @return whether its condition was set. */
static bool wait_while(host *h, void (*happens)(host *h)) {
  bool came = false;
  h->happens = happens;
  h->looks = 0;
  while (h->looks == 0) came = tp__sched_park(&h->sched, &h->parker, tp__now_ns() + TP__NS_PER_MS);
  return came || tp__parker_take(&h->parker);
}

TEST(pump_that_has_left_nothing_shows_nothing) {
  host h;
  open_host(&h);
  tp__pump_wake(&h.sched.pump);
  assert_true(is_readable(&h));
  assert_true(pump(&h) == TP__NEVER);
  assert_false(is_readable(&h));
  close_host(&h);
}

/* When the waiting thread stops pumping, events that came after its last look are left to the host. */
TEST(news_while_a_waiting_thread_looks_are_left_to_the_host) {
  host h;
  open_host(&h);
  (void)pump(&h);
  assert_true(wait_while(&h, come));
  assert_false(h.was_readable); /* a host that came then would find another thread pumping */
  assert_true(is_readable(&h));
  assert_true(pump(&h) == TP__NEVER);
  assert_false(is_readable(&h));
  close_host(&h);
}

static void *pump_too(void *ctx) {
  host *h = ctx;
  int64_t next_ns;
  h->host_status = tp__pump_run(&h->sched, 0, &next_ns);
  return NULL;
}

static void let_the_host_pump(host *h) {
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, pump_too, h), 0);
  pthread_join(other, NULL);
}

/* It may have come because something was due, which nothing else shows. */
TEST(host_that_found_another_thread_is_woken_when_that_leaves) {
  host h;
  open_host(&h);
  h.next_ns = tp__now_ns() + 3600 * SECOND_NS;
  assert_true(pump(&h) == h.next_ns);
  tp__pollable_set(&h.sched.pump.pollable); /* as by a wake-up from before */
  h.sched.pump.is_set = true;
  assert_false(wait_while(&h, let_the_host_pump));
  assert_int_equal(h.host_status, TP_ERR_BUSY);
  assert_false(h.was_readable);
  assert_true(is_readable(&h));
  close_host(&h);
}

TEST(thread_that_waited_wakes_the_host_for_what_is_due_before_it) {
  static const struct {
    int64_t host_s, found_s; /* seconds until what the host knows, and what the thread finds; 0: nothing */
    bool wakes;
  } rows[] = {{0, 0, false}, {100, 100, false}, {100, 200, false}, {200, 100, true}, {0, 100, true}, {100, 0, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    host h;
    int64_t now_ns = tp__now_ns();
    open_host(&h);
    if (rows[i].host_s) h.next_ns = now_ns + rows[i].host_s * SECOND_NS;
    (void)pump(&h);
    h.next_ns = rows[i].found_s ? now_ns + rows[i].found_s * SECOND_NS : TP__NEVER;
    assert_false(wait_while(&h, NULL));
    if (is_readable(&h) != rows[i].wakes) fail_msg("row %zu: %d", i, !rows[i].wakes);
    close_host(&h);
  }
}
