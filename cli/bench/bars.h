/* SPDX-License-Identifier: Apache-2.0
 *
 * bars: draws a histogram: a bar for each row, with rows on a logarithmic scale. */
#ifndef CLI_BARS_H
#define CLI_BARS_H

#include "cli/bench/histogram.h"
#include "cli/common/output.h"

/** Prints a line for each row between the least and the greatest value: the beginning of the row, its bar, its count.
 *  The rows up to the 99th percentile are as narrow as possible; the tail after them has a row for each power of
 *  two. */
void cli_bars_print(cli_output *output, const cli_histogram *histogram);

#endif
