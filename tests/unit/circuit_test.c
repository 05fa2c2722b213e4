/* SPDX-License-Identifier: Apache-2.0
 *
 * When a breaker opens and closes, at times that the test sets. */
#include "tests/support/test.h"
#include "runtime/plan/circuit.h"

#define S ((int64_t)1000 * TP__NS_PER_MS)
#define FIRST ((int64_t)1000000 * S) /* a clock value like that of a machine that has run for some days */

/* Reports this many calls, one ms apart; the last `failures` of them fail. @return what the last call changed. */
static tp__circuit_report ended(tp__circuit *circuit, uint32_t calls, uint32_t failures, int64_t *now_ns) {
  tp__circuit_report report = {TP__CIRCUIT_SAME, 0, 0, 0};
  for (uint32_t i = 0; i < calls; i++) {
    assert_int_equal(report.change, TP__CIRCUIT_SAME);
    *now_ns += TP__NS_PER_MS;
    report = tp__circuit_ended(circuit, i + failures >= calls, *now_ns);
  }
  return report;
}

static void opened(tp__circuit *circuit, int64_t *now_ns) {
  assert_int_equal(ended(circuit, 20, 20, now_ns).change, TP__CIRCUIT_OPENED);
}

TEST(opens_at_the_twentieth_call_that_fails) {
  tp__circuit circuit = {0};
  int64_t now_ns = FIRST;
  assert_int_equal(tp__circuit_suspect_until_ns(&circuit, now_ns), 0);
  assert_int_equal(ended(&circuit, 19, 19, &now_ns).change, TP__CIRCUIT_SAME);
  assert_true(tp__circuit_admits(&circuit, now_ns));
  assert_int_equal(tp__circuit_suspect_until_ns(&circuit, now_ns), now_ns + 10 * S);
  tp__circuit_report report = ended(&circuit, 1, 1, &now_ns);
  assert_int_equal(report.change, TP__CIRCUIT_OPENED);
  assert_int_equal(report.calls, 20);
  assert_int_equal(report.failures, 20);
  assert_int_equal(report.interval_ns, 5 * S);
  assert_false(tp__circuit_would_admit(&circuit, now_ns));
  assert_false(tp__circuit_admits(&circuit, now_ns));
  assert_int_equal(tp__circuit_suspect_until_ns(&circuit, now_ns), now_ns + 15 * S);
}

TEST(half_of_the_calls_is_enough_and_less_is_not) {
  tp__circuit half = {0}, less = {0};
  int64_t now_ns = FIRST;
  tp__circuit_report report = {TP__CIRCUIT_SAME, 0, 0, 0};
  for (int i = 0; i < 21; i++) { /* counted from the first failure: the 21st is a failure, too */
    assert_int_equal(report.change, TP__CIRCUIT_SAME);
    report = tp__circuit_ended(&half, i % 2 == 0, now_ns += TP__NS_PER_MS);
  }
  assert_int_equal(report.change, TP__CIRCUIT_OPENED);
  assert_int_equal(report.calls, 21);
  assert_int_equal(report.failures, 11);
  half = (tp__circuit){0};
  /* exactly half of the calls fail, and the last is a failure: one, ten that succeed, nine */
  for (int i = 0; i < 20; i++) report = tp__circuit_ended(&half, i == 0 || i > 10, now_ns += TP__NS_PER_MS);
  assert_int_equal(report.change, TP__CIRCUIT_OPENED);
  assert_int_equal(report.calls, 20);
  assert_int_equal(report.failures, 10);
  for (int i = 0; i < 9000; i++)
    assert_int_equal(tp__circuit_ended(&less, i % 5 < 2, now_ns += TP__NS_PER_MS).change, TP__CIRCUIT_SAME);
}

TEST(success_without_a_failure_before_it_leaves_no_trace) {
  tp__circuit circuit = {0};
  int64_t now_ns = FIRST;
  (void)ended(&circuit, 1000, 0, &now_ns);
  assert_int_equal(tp__circuit_suspect_until_ns(&circuit, now_ns), 0);
  opened(&circuit, &now_ns); /* what came before the first failure is not counted */
}

TEST(what_failed_ten_seconds_ago_does_not_count) {
  tp__circuit circuit = {0}, other = {0};
  int64_t now_ns = FIRST;
  (void)ended(&circuit, 19, 19, &now_ns);
  assert_int_equal(tp__circuit_ended(&circuit, true, now_ns + 10 * S).change, TP__CIRCUIT_SAME);
  now_ns += 10 * S;
  assert_int_equal(ended(&circuit, 18, 18, &now_ns).change, TP__CIRCUIT_SAME);
  assert_int_equal(ended(&circuit, 1, 1, &now_ns).change, TP__CIRCUIT_OPENED);
  (void)ended(&other, 19, 19, &now_ns);
  now_ns += 10 * S;
  (void)ended(&other, 1, 0, &now_ns); /* a success ends the count, too */
  assert_int_equal(tp__circuit_suspect_until_ns(&other, now_ns), 0);
}

TEST(counts_do_not_run_over) {
  tp__circuit circuit = {0};
  int64_t now_ns = FIRST;
  assert_int_equal(tp__circuit_ended(&circuit, true, now_ns).change, TP__CIRCUIT_SAME);
  for (int i = 0; i < 200000; i++)
    assert_int_equal(tp__circuit_ended(&circuit, i % 3 == 0, now_ns += 100).change, TP__CIRCUIT_SAME);
  uint32_t failures = 0;
  tp__circuit_report report = {TP__CIRCUIT_SAME, 0, 0, 0};
  while (report.change == TP__CIRCUIT_SAME && failures++ < 100000)
    report = tp__circuit_ended(&circuit, true, now_ns += 100);
  assert_int_equal(report.change, TP__CIRCUIT_OPENED);
  assert_true(2 * report.failures >= report.calls && report.calls <= UINT16_MAX);
  assert_true(failures > 5000); /* so many failures are needed to outweigh the successes before, which were not lost */
}

TEST(one_probe_per_interval_and_a_success_closes) {
  tp__circuit circuit = {0};
  int64_t now_ns = FIRST;
  opened(&circuit, &now_ns);
  assert_false(tp__circuit_admits(&circuit, now_ns + 5 * S - TP__NS_PER_MS));
  now_ns += 5 * S;
  assert_true(tp__circuit_would_admit(&circuit, now_ns)); /* the question alone admits no call */
  assert_true(tp__circuit_admits(&circuit, now_ns));
  assert_false(tp__circuit_admits(&circuit, now_ns));        /* the probe is under way */
  assert_true(tp__circuit_admits(&circuit, now_ns + 5 * S)); /* the probe was lost, so another one is admitted */
  assert_int_equal(tp__circuit_ended(&circuit, false, now_ns + 5 * S).change, TP__CIRCUIT_CLOSED);
  assert_true(tp__circuit_admits(&circuit, now_ns + 5 * S));
  assert_int_equal(tp__circuit_suspect_until_ns(&circuit, now_ns + 5 * S), 0);
  now_ns += 6 * S;
  opened(&circuit, &now_ns); /* twenty calls are needed again */
}

TEST(probe_that_fails_doubles_the_interval_up_to_five_minutes) {
  static const int seconds[] = {10, 20, 40, 80, 160, 300, 300};
  tp__circuit circuit = {0};
  int64_t now_ns = FIRST, interval_ns = 5 * S;
  opened(&circuit, &now_ns);
  for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
    assert_false(tp__circuit_admits(&circuit, now_ns + interval_ns - TP__NS_PER_MS));
    now_ns += interval_ns;
    assert_true(tp__circuit_admits(&circuit, now_ns));
    tp__circuit_report report = tp__circuit_ended(&circuit, true, now_ns);
    assert_int_equal(report.change, TP__CIRCUIT_REOPENED);
    assert_int_equal(report.interval_ns, seconds[i] * S);
    interval_ns = seconds[i] * S;
  }
  tp__circuit_reset(&circuit);
  assert_true(tp__circuit_admits(&circuit, now_ns));
  opened(&circuit, &now_ns);
  assert_true(tp__circuit_admits(&circuit, now_ns + 5 * S)); /* and not five minutes */
}

TEST(call_that_began_before_says_nothing_while_it_is_open) {
  tp__circuit circuit = {0};
  int64_t now_ns = FIRST;
  opened(&circuit, &now_ns);
  assert_int_equal(tp__circuit_ended(&circuit, false, now_ns).change, TP__CIRCUIT_SAME);
  assert_int_equal(tp__circuit_ended(&circuit, true, now_ns).change, TP__CIRCUIT_SAME);
  assert_false(tp__circuit_admits(&circuit, now_ns));
  assert_true(tp__circuit_admits(&circuit, now_ns + 5 * S));
}

TEST(breaker_that_was_never_asked_is_closed) {
  tp__circuit circuit = {0}, other = {0};
  int64_t now_ns = FIRST;
  opened(&circuit, &now_ns);
  int64_t later_ns = now_ns + 15 * S;
  assert_true(tp__circuit_admits(&circuit, later_ns));
  assert_true(tp__circuit_admits(&circuit, later_ns)); /* the breaker needs no probe now and admits all calls */
  assert_int_equal(tp__circuit_suspect_until_ns(&circuit, later_ns), 0);
  opened(&other, &now_ns);
  assert_int_equal(tp__circuit_ended(&other, true, now_ns + 15 * S).change, TP__CIRCUIT_SAME); /* the first */
  now_ns += 15 * S;
  assert_int_equal(ended(&other, 19, 19, &now_ns).change, TP__CIRCUIT_OPENED);
}
