/* SPDX-License-Identifier: Apache-2.0
 *
 * The histogram of the command against exact percentiles of the same values. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "cli/bench/histogram.h"

enum { VALUES = 20000 };

static uint64_t dice(uint64_t *state) { /* xorshift64* */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1Du;
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The smallest value v such that at least per_mille thousandths of all values are <= v. */
static int64_t exact(const int64_t *sorted, size_t count, uint32_t per_mille) {
  size_t rank = (count * per_mille + 999) / 1000;
  return sorted[rank ? rank - 1 : 0];
}

static void assert_near(int64_t got, int64_t truth) {
  int64_t off = got > truth ? got - truth : truth - got;
  if (off > truth / CLI_HISTOGRAM_ERROR) print_message("# %lld instead of %lld\n", (long long)got, (long long)truth);
  assert_true(off <= truth / CLI_HISTOGRAM_ERROR);
}

static void assert_percentiles(int64_t *values, size_t count) {
  static const uint32_t per_mille[] = {1, 10, 100, 250, 500, 501, 750, 900, 990, 999, 1000};
  cli_histogram h = {0};
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    cli_histogram_add(&h, values[i]);
    sum += (uint64_t)values[i];
  }
  qsort(values, count, sizeof *values, compare);
  for (size_t i = 0; i < sizeof per_mille / sizeof per_mille[0]; i++)
    assert_near(cli_histogram_at(&h, per_mille[i]), exact(values, count, per_mille[i]));
  assert_int_equal(h.count, count);
  assert_int_equal(h.sum, sum);
  assert_int_equal(h.least, values[0]);
  assert_int_equal(h.greatest, values[count - 1]);
  cli_histogram_free(&h);
}

TEST(percentiles_are_within_the_stated_error) {
  static int64_t values[VALUES];
  uint64_t seed = 88172645463325252u;
  for (int shape = 0; shape < 4; shape++) {
    for (size_t i = 0; i < VALUES; i++) {
      uint64_t d = dice(&seed);
      switch (shape) {
        case 0: /* even */
          values[i] = (int64_t)(d % 1000000);
          break;
        case 1: /* every power of two alike */
          values[i] = (int64_t)(d >> (1 + dice(&seed) % 63));
          break;
        case 2: /* two humps far apart */
          values[i] = (int64_t)(d % 100) + (d & 1024 ? 3000000 : 250);
          break;
        default: /* a few large values among many small ones */
          values[i] = d % 1000 == 0 ? (int64_t)(d >> 20) : (int64_t)(d >> 54);
          break;
      }
    }
    assert_percentiles(values, VALUES);
  }
}

TEST(percentiles_of_few_values_are_those_values) {
  for (size_t count = 1; count < 40; count++) {
    int64_t values[40];
    for (size_t i = 0; i < count; i++) values[i] = (int64_t)(7 * i * i * i);
    assert_percentiles(values, count);
  }
}

TEST(small_values_are_exact) {
  cli_histogram h = {0};
  for (int64_t value = 0; value < 128; value++) cli_histogram_add(&h, value);
  for (uint32_t per_mille = 1; per_mille <= 1000; per_mille++)
    assert_int_equal(cli_histogram_at(&h, per_mille), (128 * per_mille + 999) / 1000 - 1);
  cli_histogram_free(&h);
}

TEST(an_empty_one_says_nothing) {
  cli_histogram h = {0};
  cli_bucket bucket = {0};
  assert_int_equal(h.count, 0);
  assert_int_equal(cli_histogram_at(&h, 500), 0);
  assert_false(cli_histogram_next(&h, &bucket));
  cli_histogram_free(&h);
}

TEST(the_least_and_the_greatest_int_are_counted) {
  cli_histogram h = {0};
  cli_histogram_add(&h, INT64_MAX);
  cli_histogram_add(&h, -5);
  cli_histogram_add(&h, INT64_MIN);
  assert_int_equal(h.count, 3);
  assert_int_equal(h.least, 0);
  assert_true(h.greatest == INT64_MAX);
  assert_int_equal(cli_histogram_at(&h, 500), 0);
  assert_true(cli_histogram_at(&h, 1000) == INT64_MAX);
  cli_histogram_free(&h);
}

/* Buckets rise, do not overlap, hold every value once, and have at most the documented width. */
TEST(the_walk_gives_every_value_once) {
  cli_histogram h = {0};
  uint64_t seed = 4711, count = 0;
  int64_t end = 0;
  for (int i = 0; i < VALUES; i++) cli_histogram_add(&h, (int64_t)(dice(&seed) >> (1 + dice(&seed) % 63)));
  for (cli_bucket bucket = {0}; cli_histogram_next(&h, &bucket);) {
    assert_true(bucket.from >= end && bucket.to > bucket.from);
    assert_true(bucket.to - bucket.from == 1 || bucket.to - bucket.from <= bucket.from / CLI_HISTOGRAM_SLOTS);
    end = bucket.to;
    count += bucket.count;
  }
  assert_int_equal(count, VALUES);
  cli_histogram_free(&h);
}

TEST(a_value_is_within_its_bucket) {
  uint64_t seed = 99;
  for (int i = 0; i < 2000; i++) {
    cli_histogram h = {0};
    cli_bucket bucket = {0};
    int64_t value = (int64_t)(dice(&seed) >> (1 + dice(&seed) % 63));
    cli_histogram_add(&h, value);
    assert_true(cli_histogram_next(&h, &bucket));
    assert_true(bucket.from <= value && value < bucket.to && bucket.count == 1);
    cli_histogram_free(&h);
  }
}

TEST(merged_parts_are_the_whole) {
  cli_histogram whole = {0}, sum = {0}, parts[3] = {{0}};
  uint64_t seed = 1;
  for (int i = 0; i < VALUES; i++) {
    int64_t value = (int64_t)(dice(&seed) >> (20 + dice(&seed) % 40));
    cli_histogram_add(&whole, value);
    cli_histogram_add(&parts[i % 2], value); /* the third stays empty */
  }
  for (int i = 0; i < 3; i++) cli_histogram_merge(&sum, &parts[i]);
  for (uint32_t per_mille = 1; per_mille <= 1000; per_mille++)
    assert_int_equal(cli_histogram_at(&sum, per_mille), cli_histogram_at(&whole, per_mille));
  assert_int_equal(sum.count, whole.count);
  assert_int_equal(sum.sum, whole.sum);
  assert_int_equal(sum.least, whole.least);
  assert_int_equal(sum.greatest, whole.greatest);
  cli_histogram_free(&whole);
  cli_histogram_free(&sum);
  for (int i = 0; i < 3; i++) cli_histogram_free(&parts[i]);
}
