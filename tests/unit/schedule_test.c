/* SPDX-License-Identifier: Apache-2.0
 *
 * The open loop of bench, on a clock that only the calls and the waits of the test advance. */
#include "tests/support/test.h"
#include "cli/bench/histogram.h"
#include "cli/bench/schedule.h"

enum { RATE = 1000, CALLS = 5000, EACH = 500, CALL_NS = 3000, STALL_NS = 100000000, LATE_NS = 60000 };

/** Each reading takes read_ns; a sleep ends late_ns too late, or too early. */
typedef struct planted {
  int64_t now_ns, read_ns, late_ns;
  uint64_t sleeps;
} planted;

static int64_t planted_now(void *ctx) {
  planted *p = ctx;
  return p->now_ns += p->read_ns;
}

static void planted_sleep(void *ctx, int64_t at_ns) {
  planted *p = ctx;
  p->sleeps++;
  assert_true(at_ns > p->now_ns);
  p->now_ns = at_ns + p->late_ns;
}

static cli_schedule start(planted *p, uint32_t rate) {
  return cli_schedule_start_on((cli_schedule_clock){planted_now, planted_sleep, p}, rate);
}

/* The handler of the issue: each 500th call stalls for 100 ms. */
static int64_t call_ns(uint32_t index) { return index % EACH == EACH - 1 ? STALL_NS : CALL_NS; }

TEST(a_stall_of_each_500th_call_is_in_p99_from_the_due_time_only) {
  planted p = {.now_ns = 1, .read_ns = 20};
  cli_schedule schedule = start(&p, RATE);
  cli_histogram response = {0}, service = {0};
  for (uint32_t i = 0; i < CALLS; i++) {
    int64_t due_ns = cli_schedule_wait(&schedule, i), began_ns = p.now_ns;
    p.now_ns += call_ns(i);
    cli_histogram_add(&response, p.now_ns - due_ns);
    cli_histogram_add(&service, p.now_ns - began_ns);
  }
  assert_int_equal(cli_histogram_at(&service, 990) / 1000, CALL_NS / 1000);
  assert_true(cli_histogram_at(&response, 990) > 90000000);
  assert_true(cli_histogram_at(&response, 500) < 2 * CALL_NS);
  uint64_t waited = 0; /* each stall makes about a hundred calls of 500 wait: one in five */
  for (cli_bucket bucket = {0}; cli_histogram_next(&response, &bucket);)
    if (bucket.from > 1000000) waited += bucket.count;
  assert_true(waited > CALLS / 6 && waited < CALLS / 4);
  cli_histogram_free(&response);
  cli_histogram_free(&service);
}

TEST(no_call_begins_before_it_is_due_and_none_waits_that_is_overdue) {
  static const int64_t late[] = {0, LATE_NS, -LATE_NS, 3000000};
  for (int row = 0; row < 4; row++) {
    planted p = {.now_ns = 77, .read_ns = 25, .late_ns = late[row]};
    cli_schedule schedule = start(&p, RATE);
    for (uint32_t i = 0; i < 100; i++) {
      int64_t before_ns = p.now_ns, due_ns = cli_schedule_wait(&schedule, i);
      assert_int_equal(due_ns, schedule.began_ns + i * INT64_C(1000000));
      assert_true(p.now_ns >= due_ns);
      if (before_ns >= due_ns) assert_true(p.now_ns - before_ns <= p.read_ns);
      else if (late[row] <= 100000 - LATE_NS) assert_true(p.now_ns - due_ns <= p.read_ns);
    }
    assert_true(p.sleeps > 0);
  }
}

TEST(due_times_neither_drift_nor_overflow) {
  static const uint32_t rates[] = {1, 3, 7, 999, 1000, 1001, 1000000, UINT32_MAX};
  for (int row = 0; row < 8; row++) {
    planted p = {.now_ns = 5};
    cli_schedule schedule = start(&p, rates[row]);
    assert_int_equal(cli_schedule_due_ns(&schedule, 0), 5);
    assert_int_equal(cli_schedule_due_ns(&schedule, rates[row]), 5 + INT64_C(1000000000));
    assert_int_equal(cli_schedule_due_ns(&schedule, UINT64_C(3600) * rates[row]), 5 + INT64_C(3600000000000));
    for (uint64_t i = 1; i < 1000; i++) {
      int64_t step_ns = cli_schedule_due_ns(&schedule, i) - cli_schedule_due_ns(&schedule, i - 1);
      assert_in_range(step_ns, 1000000000 / rates[row], 1000000000 / rates[row] + 1);
    }
  }
}

TEST(the_real_clock_is_waited_for) {
  cli_schedule schedule = cli_schedule_start(1000);
  for (uint32_t i = 0; i < 5; i++) {
    int64_t due_ns = cli_schedule_wait(&schedule, i);
    assert_true(schedule.clock.now_ns(schedule.clock.ctx) >= due_ns);
  }
}
