/* SPDX-License-Identifier: Apache-2.0
 *
 * hdr: writes distributions in the log format of HdrHistogram (version 1.3, histograms in the compressed encoding V2),
 * which the readers of HdrHistogram for Java, C, JavaScript, Python and others, and its plotters, accept. A log has two
 * significant digits: a value is off by at most 1/128, as in cli_histogram; the greatest value is that of the
 * histogram. */
#ifndef CLI_HDR_H
#define CLI_HDR_H

#include "cli/bench/report.h"
#include "cli/common/pool.h"

enum { CLI_HDR_DIGITS = 2 };

/** Adds a histogram as the text of the last column of a log: base64. */
void cli_hdr_put_histogram(tp__bytes *bytes, const cli_histogram *histogram);
/** Writes the log of a bench: without a tag the turns (with a rate since they were due, and with the tag `turn` their
 *  own duration), with the tag PHASE the phases, with PHASE/SUBSCRIPTION their handlers; of whole turns with `model`
 *  and `tools` what they waited for, with tools/NAME the functions of a tool.
 *  @return CLI_OK, or CLI_IO after saying what is wrong. */
int cli_hdr_write(const char *path, const cli_report *report);

#endif
