/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: how often values of each size occurred, in little memory, with a known error. A value is counted in a
 * bucket whose width is at most a 64th of the value, and read back as the middle of the bucket. So the result is off by
 * at most 1/128 (0.8 %) of the value, and exact below 128. Count, sum, least and greatest are exact. Memory is
 * allocated as values come: 512 bytes for each power of two that occurs. One thread at a time. */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum {
  CLI_HISTOGRAM_SLOT_BITS = 6, /* a power of two is divided into 2 to this power buckets: 64 */
  CLI_HISTOGRAM_SLOTS = 1 << CLI_HISTOGRAM_SLOT_BITS,
  /* the first has all values below 64; int64_t has no more octaves */
  CLI_HISTOGRAM_OCTAVES = 63 - CLI_HISTOGRAM_SLOT_BITS + 1,
  /* a value is read back with an error of at most one part in this many */
  CLI_HISTOGRAM_ERROR = 2 * CLI_HISTOGRAM_SLOTS
};

/** Zero-filled means empty. */
typedef struct cli_histogram {
  uint64_t count, sum;
  int64_t least, greatest;                  /* of an empty one 0 */
  uint64_t *octaves[CLI_HISTOGRAM_OCTAVES]; /* CLI_HISTOGRAM_SLOTS counts each; NULL: no value came */
} cli_histogram;

/** Negative values count as 0. */
void cli_histogram_add(cli_histogram *histogram, int64_t value);
/** Adds what another has counted. */
void cli_histogram_merge(cli_histogram *into, const cli_histogram *from);
/** The smallest value v such that at least per_mille thousandths of all values are <= v (500: the median); 0 when
 *  empty.
 *  @param per_mille  1 to 1,000. */
int64_t cli_histogram_at(const cli_histogram *histogram, uint32_t per_mille);
void cli_histogram_free(cli_histogram *histogram);

/** A bucket: count values, each from ≤ value < to. */
typedef struct cli_bucket {
  int64_t from, to;
  uint64_t count;
  uint32_t next; /* internal */
} cli_bucket;
/** Iterates over the buckets that are not empty, from the least on. Start with a zero-filled bucket. */
bool cli_histogram_next(const cli_histogram *histogram, cli_bucket *bucket);

#endif
