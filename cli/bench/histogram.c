/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c: a value is shifted right until it is below twice 64. The number of its bucket consists of the shift and
 * the rest of the value. Octave 0 has the values below 64, octave n > 0 those from 2^(n+5) up to 2^(n+6). */
#include "cli/bench/histogram.h"

#include <stdlib.h>

#include "cli/common/pool.h"
#include "runtime/base/check.h"

enum { SLOT_BITS = CLI_HISTOGRAM_SLOT_BITS, SLOTS = CLI_HISTOGRAM_SLOTS, OCTAVES = CLI_HISTOGRAM_OCTAVES };

static uint32_t index_of(uint64_t value) {
  uint32_t shift = (uint32_t)(63 - SLOT_BITS - __builtin_clzll(value | SLOTS));
  return shift * SLOTS + (uint32_t)(value >> shift);
}

/* The end of the very last bucket would not fit into an int64_t. */
static cli_bucket bucket_at(uint32_t index, uint64_t count) {
  uint32_t shift = index < 2 * SLOTS ? 0 : index / SLOTS - 1;
  uint64_t from = (uint64_t)(index - shift * SLOTS) << shift, to = from + (UINT64_C(1) << shift);
  return (cli_bucket){
      .from = (int64_t)from, .to = to > INT64_MAX ? INT64_MAX : (int64_t)to, .count = count, .next = index + 1};
}

static uint64_t *octave_at(cli_histogram *histogram, uint32_t octave) {
  uint64_t **counts = &histogram->octaves[octave];
  if (!*counts) *counts = cli_alloc(SLOTS * sizeof **counts);
  return *counts;
}

static void widen(cli_histogram *histogram, int64_t least, int64_t greatest) {
  if (histogram->count == 0 || least < histogram->least) histogram->least = least;
  if (histogram->count == 0 || greatest > histogram->greatest) histogram->greatest = greatest;
}

void cli_histogram_add(cli_histogram *histogram, int64_t value) {
  assert(histogram->least <= histogram->greatest);
  if (value < 0) value = 0;
  uint32_t index = index_of((uint64_t)value);
  widen(histogram, value, value);
  octave_at(histogram, index / SLOTS)[index % SLOTS]++;
  histogram->count++;
  histogram->sum += (uint64_t)value;
}

void cli_histogram_merge(cli_histogram *into, const cli_histogram *from) {
  assert(into != from);
  if (from->count == 0) return;
  widen(into, from->least, from->greatest);
  for (uint32_t octave = 0; octave < OCTAVES; octave++) {
    if (!from->octaves[octave]) continue;
    uint64_t *counts = octave_at(into, octave);
    for (uint32_t slot = 0; slot < SLOTS; slot++) counts[slot] += from->octaves[octave][slot];
  }
  into->count += from->count;
  into->sum += from->sum;
}

bool cli_histogram_next(const cli_histogram *histogram, cli_bucket *bucket) {
  for (uint32_t at = bucket->next; at < OCTAVES * SLOTS; at++) {
    const uint64_t *counts = histogram->octaves[at / SLOTS];
    if (!counts || !counts[at % SLOTS]) continue;
    *bucket = bucket_at(at, counts[at % SLOTS]);
    return true;
  }
  return false;
}

/* ceil(count * per_mille / 1,000), at least 1. Whole thousands come first, so that the product does not overflow. */
static uint64_t rank_of(uint64_t count, uint32_t per_mille) {
  uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
  return rank ? rank : 1;
}

int64_t cli_histogram_at(const cli_histogram *histogram, uint32_t per_mille) {
  assert(per_mille >= 1 && per_mille <= 1000);
  if (histogram->count == 0) return 0;
  uint64_t rank = rank_of(histogram->count, per_mille), seen = 0;
  if (rank >= histogram->count) return histogram->greatest;
  cli_bucket bucket = {0};
  while (seen < rank && cli_histogram_next(histogram, &bucket)) seen += bucket.count;
  int64_t middle = bucket.from + (bucket.to - 1 - bucket.from) / 2;
  if (middle < histogram->least) return histogram->least;
  return middle < histogram->greatest ? middle : histogram->greatest;
}

void cli_histogram_free(cli_histogram *histogram) {
  for (uint32_t octave = 0; octave < OCTAVES; octave++) free(histogram->octaves[octave]);
  *histogram = (cli_histogram){0};
}
