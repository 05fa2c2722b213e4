/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison of bench, checked against an enumeration of all orders, published figures, and samples with a known
 * difference. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "cli/bench/comparison.h"

static double dice(uint64_t *state) { /* xorshift64*, 0 to 1 */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)(*state * 0x2545F4914F6CDD1Du >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += dice(state);
  return sum;
}

static void assert_close(double got, double truth) {
  if (fabs(got - truth) > 1e-9 * fabs(truth)) print_message("# %.12g instead of %.12g\n", got, truth);
  assert_true(fabs(got - truth) <= 1e-9 * fabs(truth));
}

/* ---- intervals against every order ---- */

/* All averages of these differences are different, so the interval shows which ones the comparison has chosen, and so
 * its cut. Without a difference, each of the 2^n signs is equally likely. The probability that the interval misses 0
 * must be at most error; with one average further inside, it must be above. */
static double chance_of_signs(size_t count, size_t below) {
  size_t hits = 0;
  for (size_t signs = 0; signs < (size_t)1 << count; signs++) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += signs >> i & 1 ? i + 1 : 0;
    hits += sum < below;
  }
  return (double)hits / (double)((size_t)1 << count);
}

static double chance_of_orders(size_t a, size_t b, size_t below) {
  size_t hits = 0, all = 0;
  for (size_t who = 0; who < (size_t)1 << (a + b); who++) {
    if ((size_t)__builtin_popcountll(who) != a) continue;
    size_t larger = 0, seen_b = 0; /* how often a sample of A is above one of B */
    for (size_t at = 0; at < a + b; at++) {
      if (who >> at & 1) larger += seen_b;
      else seen_b++;
    }
    hits += larger < below;
    all++;
  }
  return (double)hits / (double)all;
}

static int compare(const void *x, const void *y) {
  return (*(const double *)x > *(const double *)y) - (*(const double *)x < *(const double *)y);
}

/* @return the index from 1 of the value among the sorted ones. */
static size_t place_of(double *values, size_t count, double value) {
  qsort(values, count, sizeof *values, compare);
  for (size_t i = 0; i < count; i++)
    if (fabs(values[i] - value) < 1e-9) return i + 1;
  fail_msg("%.12g is none of the values", value);
  return 0;
}

TEST(the_interval_of_pairs_is_as_wide_as_the_error_demands) {
  static const double errors[] = {0.01, 0.05, 0.2, 0.5};
  for (size_t n = 3; n <= 12; n++)
    for (int e = 0; e < 4; e++) {
      double a[12], b[12], walsh[78];
      size_t used = 0;
      for (size_t i = 0; i < n; i++) {
        a[i] = 1;
        b[i] = exp(pow(1.7, (double)i) / 100);
      }
      for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) walsh[used++] = (log(b[i]) + log(b[j])) / 2;
      cli_comparison c = cli_compare_pairs(a, b, n, errors[e]);
      if (c.verdict == CLI_VERDICT_TOO_FEW) {
        assert_true(chance_of_signs(n, 1) > errors[e] / 2);
        assert_true(c.low == 0 && isinf(c.high));
        continue;
      }
      size_t low = place_of(walsh, used, log(c.low)), high = place_of(walsh, used, log(c.high));
      assert_int_equal(low + high, used + 1);
      assert_true(chance_of_signs(n, low) <= errors[e] / 2);
      assert_true(chance_of_signs(n, low + 1) > errors[e] / 2);
      assert_int_equal(c.verdict, CLI_VERDICT_A_FASTER);
    }
}

TEST(the_interval_of_two_series_is_as_wide_as_the_error_demands) {
  static const double errors[] = {0.01, 0.05, 0.2};
  for (size_t m = 2; m <= 7; m++)
    for (size_t n = 2; n <= 7; n++)
      for (int e = 0; e < 3; e++) {
        double a[7], b[7], all[49];
        size_t used = 0;
        for (size_t i = 0; i < m; i++) a[i] = exp(pow(1.9, (double)i) / 977);
        for (size_t i = 0; i < n; i++) b[i] = exp(pow(2.3, (double)i) / 1013 + 5);
        for (size_t i = 0; i < m; i++)
          for (size_t j = 0; j < n; j++) all[used++] = log(b[j] / a[i]);
        cli_comparison c = cli_compare_apart(a, m, b, n, errors[e]);
        if (c.verdict == CLI_VERDICT_TOO_FEW) {
          assert_true(chance_of_orders(m, n, 1) > errors[e] / 2);
          continue;
        }
        size_t low = place_of(all, used, log(c.low));
        assert_int_equal(low + place_of(all, used, log(c.high)), used + 1);
        assert_true(chance_of_orders(m, n, low) <= errors[e] / 2);
        assert_true(chance_of_orders(m, n, low + 1) > errors[e] / 2);
        assert_int_equal(c.verdict, CLI_VERDICT_A_FASTER);
      }
}

/* Above CLI_EXACT_MAX the normal distribution replaces the exact one: the intervals on both sides of the limit
 * agree. */
TEST(the_normal_distribution_continues_the_exact_one) {
  double a[CLI_EXACT_MAX + 1], b[CLI_EXACT_MAX + 1];
  uint64_t seed = 11;
  for (size_t i = 0; i <= CLI_EXACT_MAX; i++) {
    a[i] = 1;
    b[i] = exp(normal(&seed));
  }
  cli_comparison exact = cli_compare_pairs(a, b, CLI_EXACT_MAX, 0.01);
  cli_comparison approximate = cli_compare_pairs(a, b, CLI_EXACT_MAX + 1, 0.01);
  assert_true(fabs(log(exact.low) - log(approximate.low)) < 0.15);
  assert_true(fabs(log(exact.high) - log(approximate.high)) < 0.15);
}

TEST(the_estimate_is_the_median_of_averages) {
  const double a[] = {1, 1, 1}, b[] = {exp(1), exp(2), exp(6)}; /* averages 1 1.5 2 3.5 4 6 */
  assert_close(log(cli_compare_pairs(a, b, 3, 0.3).ratio), 2.75);
  const double c[] = {exp(1), exp(3)}, d[] = {exp(4), exp(9)}; /* differences 1 3 6 8 */
  assert_close(log(cli_compare_apart(c, 2, d, 2, 0.4).ratio), 4.5);
  double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
  assert_close(cli_median_of(odd, 3), 2);
  assert_close(cli_median_of(even, 4), 2.5);
}

TEST(equal_samples_are_no_difference_and_sides_are_symmetric) {
  double a[20], b[20];
  uint64_t seed = 5;
  for (int i = 0; i < 20; i++) {
    a[i] = 100 + dice(&seed);
    b[i] = a[i] * (1.2 + 0.1 * dice(&seed));
  }
  cli_comparison same = cli_compare_pairs(a, a, 20, 0.01);
  assert_int_equal(same.verdict, CLI_VERDICT_NONE);
  assert_close(same.ratio, 1);
  cli_comparison there = cli_compare_pairs(a, b, 20, 0.01), back = cli_compare_pairs(b, a, 20, 0.01);
  assert_int_equal(there.verdict, CLI_VERDICT_A_FASTER);
  assert_int_equal(back.verdict, CLI_VERDICT_B_FASTER);
  assert_close(there.ratio * back.ratio, 1);
  assert_close(there.low * back.high, 1);
  assert_close(there.high * back.low, 1);
  cli_comparison apart = cli_compare_apart(a, 20, b, 20, 0.01), apart_back = cli_compare_apart(b, 20, a, 20, 0.01);
  assert_close(apart.low * apart_back.high, 1);
  assert_int_equal(cli_compare_pairs(a, b, 7, 0.01).verdict, CLI_VERDICT_TOO_FEW);
  assert_int_equal(cli_compare_pairs(a, b, 8, 0.01).verdict, CLI_VERDICT_A_FASTER);
}

/* ---- how often it is right ---- */

enum { TRIES = 2000, ROUNDS = 20 };

/* Draws from a machine that becomes slower and faster (equally for both of a pair), with noise of some per cent, and
 * sometimes a round that takes half as long again. */
static void draw(uint64_t *state, double *a, double *b, size_t count, double ratio) {
  double speed = 1;
  for (size_t i = 0; i < count; i++) {
    speed *= 1 + 0.05 * normal(state);
    a[i] = 1000 * speed * (1 + 0.03 * normal(state)) * (dice(state) < 0.01 ? 1.5 : 1);
    b[i] = 1000 * speed * ratio * (1 + 0.03 * normal(state)) * (dice(state) < 0.01 ? 1.5 : 1);
  }
}

TEST(a_against_a_is_no_difference) {
  uint64_t seed = 77;
  size_t found = 0, runs_of_twenty = 0;
  for (size_t i = 0, in_this = 0; i < TRIES; i++) {
    double a[ROUNDS], b[ROUNDS];
    draw(&seed, a, b, ROUNDS, 1);
    in_this += cli_compare_pairs(a, b, ROUNDS, 0.01).verdict != CLI_VERDICT_NONE;
    if (i % 20 < 19) continue;
    runs_of_twenty += in_this <= 1; /* 19 of 20 */
    found += in_this;
    in_this = 0;
  }
  assert_in_range(found, TRIES / 500, TRIES / 60); /* an error of 0.01 is 20 of them */
  assert_true(runs_of_twenty >= TRIES / 20 - 4);
}

TEST(ten_per_cent_are_found_and_are_in_the_interval) {
  uint64_t seed = 78;
  size_t found = 0, covered = 0;
  for (size_t i = 0; i < TRIES; i++) {
    double a[ROUNDS], b[ROUNDS];
    draw(&seed, a, b, ROUNDS, 1.1);
    cli_comparison c = cli_compare_pairs(a, b, ROUNDS, 0.01);
    found += c.verdict == CLI_VERDICT_A_FASTER;
    covered += c.low <= 1.1 && 1.1 <= c.high;
  }
  assert_true(found >= TRIES * 95 / 100);
  assert_true(covered >= TRIES * 98 / 100);
}

TEST(two_series_of_a_steady_machine_are_told_apart) {
  uint64_t seed = 79;
  size_t false_ones = 0, found = 0;
  for (size_t i = 0; i < TRIES; i++) {
    double a[ROUNDS], b[ROUNDS], slower[ROUNDS];
    for (int j = 0; j < ROUNDS; j++) {
      a[j] = 500 * (1 + 0.03 * normal(&seed));
      b[j] = 500 * (1 + 0.03 * normal(&seed));
      slower[j] = 550 * (1 + 0.03 * normal(&seed));
    }
    false_ones += cli_compare_apart(a, ROUNDS, b, ROUNDS, 0.01).verdict != CLI_VERDICT_NONE;
    found += cli_compare_apart(a, ROUNDS, slower, ROUNDS, 0.01).verdict == CLI_VERDICT_A_FASTER;
  }
  assert_in_range(false_ones, TRIES / 500, TRIES / 60);
  assert_true(found >= TRIES * 99 / 100);
}
