/* SPDX-License-Identifier: Apache-2.0
 *
 * comparison.c: the interval consists of the sorted averages (or differences) x[1] to x[m] from x[c] to x[m + 1 - c],
 * where c is the greatest number with P(statistic < c) <= error / 2 if there is no difference. */
#include "cli/bench/comparison.h"

#include <math.h>
#include <stdlib.h>

#include "cli/common/pool.h"
#include "runtime/base/check.h"

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double cli_median_of(double *values, size_t count) {
  assert(count > 0);
  qsort(values, count, sizeof *values, compare_doubles);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- distributions of the statistics ---- */

/* The greatest c with P(statistic < c) <= error / 2. @param chances  of the values from 0 on. */
static size_t exact_cut(const double *chances, size_t count, double error) {
  double sum = 0;
  size_t cut = 0;
  while (cut < count && sum + chances[cut] <= error / 2) sum += chances[cut++];
  return cut;
}

/* Without a difference, each rank belongs to a positive difference with probability one half. */
static size_t signed_rank_cut(size_t count, double error) {
  size_t sums = count * (count + 1) / 2 + 1;
  double *chances = cli_alloc(sums * sizeof *chances);
  chances[0] = 1;
  for (size_t rank = 1; rank <= count; rank++)
    for (size_t sum = sums; sum-- > 0;) chances[sum] = (chances[sum] + (sum >= rank ? chances[sum - rank] : 0)) / 2;
  size_t cut = exact_cut(chances, sums, error);
  free(chances);
  return cut;
}

/* For a and b samples, the number of ways in which the statistic has each value is a coefficient of the Gaussian
 * binomial: the product of (1 - q^(b + i)) / (1 - q^i) for i from 1 to a. The numbers are below 2^53 up to
 * CLI_EXACT_MAX, so none is rounded. */
static size_t rank_sum_cut(size_t a, size_t b, double error) {
  size_t values = a * b + 1;
  double *ways = cli_alloc(values * sizeof *ways), all = 0;
  ways[0] = 1;
  for (size_t i = 1; i <= a; i++) {
    for (size_t at = values; at-- > b + i;) ways[at] -= ways[at - b - i];
    for (size_t at = i; at < values; at++) ways[at] += ways[at - i];
  }
  for (size_t at = 0; at < values; at++) all += ways[at];
  for (size_t at = 0; at < values; at++) ways[at] /= all;
  size_t cut = exact_cut(ways, values, error);
  free(ways);
  return cut;
}

/* The z with P(normal > z) = chance, by bisection. */
static double normal_above(double chance) {
  double low = 0, high = 40;
  for (int i = 0; i < 100; i++) {
    double middle = (low + high) / 2;
    if (erfc(middle / sqrt(2)) / 2 > chance) low = middle;
    else high = middle;
  }
  return high;
}

static size_t normal_cut(double mean, double variance, double error) {
  double cut = floor(mean - 0.5 - normal_above(error / 2) * sqrt(variance)) + 1;
  return cut > 0 ? (size_t)cut : 0;
}

/* ---- estimate and interval ---- */

/* @param values  logarithms of ratios, or their averages; freed. */
static cli_comparison interval_of(double *values, size_t count, size_t cut) {
  cli_comparison c = {.ratio = exp(cli_median_of(values, count)), .low = 0, .high = INFINITY};
  assert(cut <= count / 2 + 1);
  if (cut == 0) {
    c.verdict = CLI_VERDICT_TOO_FEW;
  } else {
    double low = values[cut - 1], high = values[count - cut];
    c.low = exp(low);
    c.high = exp(high);
    c.verdict = low > 0 ? CLI_VERDICT_A_FASTER : high < 0 ? CLI_VERDICT_B_FASTER : CLI_VERDICT_NONE;
  }
  free(values);
  return c;
}

cli_comparison cli_compare_pairs(const double *a, const double *b, size_t count, double error) {
  assert(count > 0 && error > 0 && error < 1);
  size_t averages = count * (count + 1) / 2, used = 0;
  double *values = cli_alloc(averages * sizeof *values), n = (double)count;
  for (size_t i = 0; i < count; i++)
    for (size_t j = i; j < count; j++) values[used++] = (log(b[i] / a[i]) + log(b[j] / a[j])) / 2;
  assert(used == averages);
  return interval_of(values, averages,
                     count <= CLI_EXACT_MAX ? signed_rank_cut(count, error)
                                            : normal_cut(n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24, error));
}

cli_comparison cli_compare_apart(const double *a, size_t a_count, const double *b, size_t b_count, double error) {
  assert(a_count > 0 && b_count > 0 && error > 0 && error < 1);
  size_t used = 0;
  double *values = cli_alloc(a_count * b_count * sizeof *values), m = (double)a_count, n = (double)b_count;
  for (size_t i = 0; i < a_count; i++)
    for (size_t j = 0; j < b_count; j++) values[used++] = log(b[j] / a[i]);
  return interval_of(values, used,
                     a_count <= CLI_EXACT_MAX && b_count <= CLI_EXACT_MAX
                         ? rank_sum_cut(a_count, b_count, error)
                         : normal_cut(m * n / 2, m * n * (m + n + 1) / 12, error));
}
