/* SPDX-License-Identifier: Apache-2.0
 *
 * bars: a histogram to look at: a bar for each row, rows on a logarithmic scale. */
#ifndef CLI_BARS_H
#define CLI_BARS_H

#include "cli/bench/histogram.h"
#include "cli/common/output.h"

/** Prints a line for each row between the least and the greatest value: where the row begins, its bar, its count. The
 *  rows up to the 99th percentile are as fine as fits; the tail after it has a row for each power of two. */
void cli_bars_print(cli_output *output, const cli_histogram *histogram);

#endif
