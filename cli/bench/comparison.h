/* SPDX-License-Identifier: Apache-2.0
 *
 * comparison: decides from samples of A and B whether B takes longer. It uses ranks, without an assumption about the
 * distribution of the samples, and without random numbers, so the same samples give the same answer:
 *
 *   paired   Wilcoxon's signed-rank test; the estimate is the median of the Walsh averages of the differences
 *   apart    the rank-sum test of Mann, Whitney and Wilcoxon; the estimate is the median of all differences
 *
 * each with the interval that belongs to the test (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, Nonparametric
 * Statistical Methods, 2014, sections 3.1 to 3.3 and 4.1 to 4.3). Samples are compared by their logarithms: a
 * difference is a ratio. The distribution of a rank statistic is exact for up to CLI_EXACT_MAX samples of a side, and
 * normal with a correction for continuity above. */
#ifndef CLI_COMPARISON_H
#define CLI_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>

enum { CLI_EXACT_MAX = 25 };

typedef enum cli_verdict {
  CLI_VERDICT_NONE = 0, /* the interval contains 1 */
  CLI_VERDICT_A_FASTER = 1,
  CLI_VERDICT_B_FASTER = 2,
  CLI_VERDICT_TOO_FEW = 3 /* even the most extreme order of so few samples would be no evidence */
} cli_verdict;

/** Ratios B / A. */
typedef struct cli_comparison {
  double ratio;     /* the estimate */
  double low, high; /* its interval; 0 and infinity when there are too few samples */
  cli_verdict verdict;
} cli_comparison;

/** Compares samples that belong together: a[i] and b[i] were taken directly after each other.
 *  @param a, b  above 0.  @param count  above 0.
 *  @param error  the highest rate of differences that are found although there are none, such as 0.01. Above 0, below
 *                1. */
cli_comparison cli_compare_pairs(const double *a, const double *b, size_t count, double error);
/** Samples of two series that were taken at different times. */
cli_comparison cli_compare_apart(const double *a, size_t a_count, const double *b, size_t b_count, double error);
/** The median. @param values  sorted by it. @param count  above 0. */
double cli_median_of(double *values, size_t count);

#endif
