/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c: octave 0 holds the values below 64, a bucket each; octave n > 0 those from 2^(n+5) up to 2^(n+6), in 64
 * buckets of equal width. */
#include "cli/bench/histogram.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/pool.h"

enum { SLOT_BITS = CLI_HISTOGRAM_SLOT_BITS, SLOTS = CLI_HISTOGRAM_SLOTS, OCTAVES = CLI_HISTOGRAM_OCTAVES };

static uint32_t octave_of(uint64_t value) {
  return value < SLOTS ? 0 : (uint32_t)(63 - __builtin_clzll(value)) - SLOT_BITS + 1;
}

/* Every value of an octave above the first has its highest bit set, which the slot leaves out. */
static uint32_t slot_of(uint64_t value, uint32_t octave) {
  return octave == 0 ? (uint32_t)value : (uint32_t)(value >> (octave - 1)) & (SLOTS - 1);
}

static int64_t begin_of(uint32_t octave, uint32_t slot) {
  return octave == 0 ? slot : (int64_t)((uint64_t)(SLOTS + slot) << (octave - 1));
}

/* The last bucket of all would end past what an int64_t holds. */
static int64_t end_of(uint32_t octave, uint32_t slot) {
  uint64_t end = (uint64_t)begin_of(octave, slot) + (octave == 0 ? 1 : UINT64_C(1) << (octave - 1));
  return end > INT64_MAX ? INT64_MAX : (int64_t)end;
}

static uint64_t *octave_at(cli_histogram *histogram, uint32_t octave) {
  uint64_t **counts = &histogram->octaves[octave];
  if (!*counts) {
    *counts = cli_alloc(SLOTS * sizeof **counts);
    memset(*counts, 0, SLOTS * sizeof **counts);
  }
  return *counts;
}

static void widen(cli_histogram *histogram, int64_t least, int64_t greatest) {
  if (histogram->count == 0 || least < histogram->least) histogram->least = least;
  if (histogram->count == 0 || greatest > histogram->greatest) histogram->greatest = greatest;
}

void cli_histogram_add(cli_histogram *histogram, int64_t value) {
  if (value < 0) value = 0;
  uint32_t octave = octave_of((uint64_t)value);
  widen(histogram, value, value);
  octave_at(histogram, octave)[slot_of((uint64_t)value, octave)]++;
  histogram->count++;
  histogram->sum += (uint64_t)value;
}

void cli_histogram_merge(cli_histogram *into, const cli_histogram *from) {
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
    uint32_t octave = at / SLOTS, slot = at % SLOTS;
    if (!histogram->octaves[octave] || !histogram->octaves[octave][slot]) continue;
    *bucket = (cli_bucket){.from = begin_of(octave, slot),
                           .to = end_of(octave, slot),
                           .count = histogram->octaves[octave][slot],
                           .next = at + 1};
    return true;
  }
  return false;
}

/* ceil(count * per_mille / 1,000), from 1; whole thousands first, lest the product overflow. */
static uint64_t rank_of(uint64_t count, uint32_t per_mille) {
  uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
  return rank ? rank : 1;
}

int64_t cli_histogram_at(const cli_histogram *histogram, uint32_t per_mille) {
  if (histogram->count == 0) return 0;
  uint64_t rank = rank_of(histogram->count, per_mille), seen = 0;
  if (rank >= histogram->count) return histogram->greatest;
  cli_bucket bucket = {0};
  while (seen < rank && cli_histogram_next(histogram, &bucket)) seen += bucket.count;
  int64_t middle = bucket.from + (bucket.to - 1 - bucket.from) / 2;
  if (middle < histogram->least) return histogram->least;
  return middle < histogram->greatest ? middle : histogram->greatest;
}

cli_figures cli_histogram_figures(const cli_histogram *histogram) {
  return (cli_figures){.count = histogram->count,
                       .mean = histogram->count ? (double)histogram->sum / (double)histogram->count : 0,
                       .least = histogram->least,
                       .median = cli_histogram_at(histogram, 500),
                       .p90 = cli_histogram_at(histogram, 900),
                       .p99 = cli_histogram_at(histogram, 990),
                       .p999 = cli_histogram_at(histogram, 999),
                       .greatest = histogram->greatest};
}

void cli_histogram_free(cli_histogram *histogram) {
  for (uint32_t octave = 0; octave < OCTAVES; octave++) free(histogram->octaves[octave]);
  *histogram = (cli_histogram){0};
}
