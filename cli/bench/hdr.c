/* SPDX-License-Identifier: Apache-2.0
 *
 * hdr.c: the encoding V2, as HdrHistogram's AbstractHistogram.java and hdr_histogram_log.c read it: a header of
 * big-endian numbers, then the counts of all buckets up to the greatest value, each a ZigZag number in LEB128 of at
 * most nine bytes; a negative number stands for that many empty buckets. This is inside of a header and a zlib stream
 * (RFC 1950), here with stored blocks (RFC 1951, 3.2.4): a log has few histograms, so it needs no compressor. */
#include "cli/bench/hdr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "runtime/base/check.h"
#include "support/base64.h"

enum {
  COOKIE = 0x1c849303,
  COOKIE_COMPRESSED = 0x1c849304,
  COOKIE_WORD = 0x10,  /* added to both: words of variable size */
  SUB_BUCKET_BITS = 8, /* two digits: 200 values, rounded up to a power of two */
  SUB_BUCKETS_HALF = 1 << (SUB_BUCKET_BITS - 1),
  BUCKETS = (64 - SUB_BUCKET_BITS + 1) * SUB_BUCKETS_HALF,
  STORED_MAX = 65535, /* bytes of a stored block */
  ADLER_BASE = 65521
};

/* ---- numbers ---- */

static void put_byte(tp__bytes *bytes, uint64_t byte) {
  char c = (char)(byte & 255);
  cli_buffer_add(bytes, &c, 1);
}

static void put_big_endian(tp__bytes *bytes, uint64_t number, unsigned size) {
  while (size-- > 0) put_byte(bytes, number >> (8 * size));
}

static void put_zigzag(tp__bytes *bytes, int64_t number) {
  uint64_t rest = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
  for (int i = 0; i < 8 && rest > 127; i++, rest >>= 7) put_byte(bytes, rest | 128);
  put_byte(bytes, rest);
}

/* ---- a histogram ---- */

static uint32_t index_of(int64_t value) {
  unsigned bits = 64 - (unsigned)__builtin_clzll((uint64_t)value | (2 * SUB_BUCKETS_HALF - 1));
  unsigned shift = bits - SUB_BUCKET_BITS;
  return shift * SUB_BUCKETS_HALF + (uint32_t)((uint64_t)value >> shift);
}

/* The bucket with the greatest value gets that value, the others the middle of theirs. */
static uint32_t count_all(const cli_histogram *histogram, uint64_t counts[BUCKETS]) {
  uint32_t last = 0;
  for (cli_bucket bucket = {0}; cli_histogram_next(histogram, &bucket);) {
    bool has_greatest = bucket.from <= histogram->greatest && histogram->greatest < bucket.to;
    int64_t value = has_greatest ? histogram->greatest : bucket.from + (bucket.to - 1 - bucket.from) / 2;
    last = index_of(value);
    assert(last < BUCKETS);
    counts[last] += bucket.count;
  }
  return last;
}

static void put_counts(tp__bytes *bytes, const cli_histogram *histogram) {
  uint64_t *counts = cli_alloc(BUCKETS * sizeof *counts);
  uint32_t last = count_all(histogram, counts);
  int64_t empty = 0;
  for (uint32_t i = 0; i <= last; i++) {
    if (counts[i] == 0) {
      empty++;
      continue;
    }
    if (empty > 0) put_zigzag(bytes, -empty);
    put_zigzag(bytes, (int64_t)counts[i]);
    empty = 0;
  }
  free(counts);
}

static void put_encoded(tp__bytes *bytes, const cli_histogram *histogram) {
  double ratio = 1; /* of the numbers to the values */
  uint64_t ratio_bits;
  tp__bytes counts = {.data = NULL};
  memcpy(&ratio_bits, &ratio, sizeof ratio_bits);
  put_counts(&counts, histogram);
  put_big_endian(bytes, COOKIE | COOKIE_WORD, 4);
  put_big_endian(bytes, counts.size, 4);
  put_big_endian(bytes, 0, 4); /* no value was shifted */
  put_big_endian(bytes, CLI_HDR_DIGITS, 4);
  put_big_endian(bytes, 1, 8); /* the least value that is told from 0 */
  put_big_endian(bytes, (uint64_t)(histogram->greatest > 2 ? histogram->greatest : 2), 8);
  put_big_endian(bytes, ratio_bits, 8);
  cli_buffer_add(bytes, counts.data, counts.size);
  tp__bytes_fini(&counts);
}

/* ---- a zlib stream that stores ---- */

static uint32_t adler_of(const unsigned char *data, size_t size) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < size; i++) {
    a = (a + data[i]) % ADLER_BASE;
    b = (b + a) % ADLER_BASE;
  }
  return b << 16 | a;
}

void cli_hdr_put_histogram(tp__bytes *bytes, const cli_histogram *histogram) {
  tp__bytes encoded = {.data = NULL}, stream = {.data = NULL}, whole = {.data = NULL};
  put_encoded(&encoded, histogram);
  put_big_endian(&stream, 0x7801, 2);
  for (size_t at = 0; at < encoded.size || at == 0;) {
    size_t left = encoded.size - at, size = left < STORED_MAX ? left : STORED_MAX;
    put_byte(&stream, at + size == encoded.size); /* the last block */
    put_byte(&stream, size);
    put_byte(&stream, size >> 8);
    put_byte(&stream, ~size);
    put_byte(&stream, ~size >> 8);
    cli_buffer_add(&stream, encoded.data + at, size);
    at += size ? size : 1;
  }
  put_big_endian(&stream, adler_of((const unsigned char *)encoded.data, encoded.size), 4);
  put_big_endian(&whole, COOKIE_COMPRESSED | COOKIE_WORD, 4);
  put_big_endian(&whole, stream.size, 4);
  cli_buffer_add(&whole, stream.data, stream.size);
  tp__bytes_put_base64(bytes, tp__bytes_text(&whole));
  tp__bytes_fini(&encoded);
  tp__bytes_fini(&stream);
  tp__bytes_fini(&whole);
}

/* ---- a log ---- */

/* A comma would end the tag. The greatest value of an interval is in milliseconds, because the readers expect that. */
static void put_line(tp__bytes *bytes, const cli_report *report, const char *tag, const char *part,
                     const cli_histogram *histogram) {
  if (histogram->count == 0) return;
  if (tag) tp__bytes_printf(bytes, "Tag=%s%s%s,", tag, part ? "/" : "", part ? part : "");
  tp__bytes_printf(bytes, "0.000,%.3f,%.6f,", (double)report->round->elapsed_ns / 1e9,
                   (double)histogram->greatest / 1e6);
  cli_hdr_put_histogram(bytes, histogram);
  tp__bytes_put_string(bytes, "\n");
}

static void put_log(tp__bytes *bytes, const cli_report *report) {
  const cli_round *round = report->round;
  const cli_statistics *statistics = round->statistics;
  tp__bytes_printf(bytes, "#[turnphase %s bench; values in nanoseconds]\n", tp_version());
  tp__bytes_put_string(bytes, "#[Histogram log format version 1.3]\n");
  tp__bytes_printf(bytes, "#[StartTime: %lld.%03d (seconds since epoch)]\n", (long long)(round->began_ms / 1000),
                   (int)(round->began_ms % 1000));
  tp__bytes_put_string(bytes,
                       "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n");
  put_line(bytes, report, NULL, NULL, round->rate ? &statistics->response : &statistics->turn);
  if (round->rate) put_line(bytes, report, "turn", NULL, &statistics->turn);
  for (size_t i = 0; i < statistics->phase_count; i++) {
    const cli_statistics_phase *phase = &statistics->phases[i];
    const char *name = tp_phase_get(round->runtime, round->phases[i].phase)->name;
    put_line(bytes, report, name, NULL, &phase->duration);
    for (uint32_t j = 0; j < phase->run_count; j++)
      put_line(bytes, report, name, phase->runs[j].row.subscription, &phase->runs[j].own);
  }
  put_line(bytes, report, "model", NULL, &statistics->whole.model);
  put_line(bytes, report, "tools", NULL, &statistics->whole.tools);
  for (size_t i = 0; i < statistics->whole.tool_count; i++)
    put_line(bytes, report, "tools", statistics->whole.by_tool[i].name, &statistics->whole.by_tool[i].own);
}

int cli_hdr_write(const char *path, const cli_report *report) {
  tp__bytes bytes = {.data = NULL};
  put_log(&bytes, report);
  if (bytes.failed) cli_need(TP_ERR_NO_MEMORY);
  FILE *file = fopen(path, "w");
  bool written = file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size;
  if (file && fclose(file) != 0) written = false;
  if (!written) cli_error("--hdr %s: %s", path, strerror(errno));
  tp__bytes_fini(&bytes);
  return written ? CLI_OK : CLI_IO;
}
