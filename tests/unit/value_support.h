/* SPDX-License-Identifier: Apache-2.0
 *
 * value_support: shared by the tests of values, JSON and YAML: an allocator that counts and refuses, bytes in blocks of
 * exactly their size (so that AddressSanitizer notices a read after them), and random values from a seed. */
#ifndef TP_TESTS_VALUE_SUPPORT_H
#define TP_TESTS_VALUE_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turnphase/value.h"

/* ---- memory ---- */

typedef struct counting {
  size_t requests, refuse_at; /* the request to refuse, from 1; 0: none */
  size_t open, open_bytes, peak_bytes;
  bool wrong_size;
} counting;

static inline void *counting_alloc(void *ctx, size_t size) {
  counting *c = ctx;
  if (++c->requests == c->refuse_at) return NULL;
  size_t *memory = malloc(16 + size);
  if (!memory) return NULL;
  *memory = size;
  c->open++;
  c->open_bytes += size;
  if (c->open_bytes > c->peak_bytes) c->peak_bytes = c->open_bytes;
  return (char *)memory + 16;
}

static inline void counting_release(void *ctx, void *memory, size_t size) {
  counting *c = ctx;
  size_t *real = (size_t *)((char *)memory - 16);
  if (*real != size) c->wrong_size = true;
  c->open--;
  c->open_bytes -= *real;
  free(real);
}

static inline tp_allocator allocator_over(counting *c) { return (tp_allocator){counting_alloc, counting_release, c}; }

/* A copy that ends where its memory ends. */
static inline tp_text exact_copy(tp_text text) {
  char *copy = malloc(text.size > 0 ? text.size : 1);
  if (!copy) abort();
  if (text.size > 0) memcpy(copy, text.data, text.size);
  return (tp_text){copy, text.size};
}

static inline void exact_free(tp_text text) { free((void *)text.data); }

static inline bool same_bytes(tp_text a, tp_text b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* A unit of text so many times. */
static inline tp_text repeated(const char *unit, size_t count) {
  size_t size = strlen(unit);
  char *text = malloc(size * count + 1);
  if (!text) abort();
  for (size_t i = 0; i < count; i++) memcpy(text + i * size, unit, size);
  return (tp_text){text, size * count};
}

/* Processor time: what the machine does besides does not count. */
static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- random values ---- */

typedef struct random_values {
  uint64_t state;
  bool bytes;      /* bytes may occur */
  bool not_finite; /* NaN may occur */
} random_values;

static inline uint64_t random_bits(random_values *r) {
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static inline size_t random_below(random_values *r, size_t limit) { return (size_t)(random_bits(r) % limit); }

/* Appends a code point; the sorts that trouble encoders come often. */
static inline size_t random_code_point(random_values *r, bool nul, char *at) {
  static const char *const hard[] = {"\"",
                                     "\\",
                                     "\n",
                                     "\t",
                                     "\r",
                                     "\x01",
                                     "\x1f",
                                     "/",
                                     "\xc2\xa0",
                                     "\xed\x9f\xbf",
                                     "\xee\x80\x80",
                                     "\xf0\x90\x80\x80",
                                     "\xf4\x8f\xbf\xbf",
                                     "\x7f",
                                     "\xc2\x80",
                                     "\xc2\x85",
                                     "\xe2\x80\xa8",
                                     "\xef\xbf\xbf",
                                     "\xef\xbb\xbf",
                                     "\xef\xbf\xbe"};
  size_t choices = sizeof hard / sizeof hard[0];
  if (nul && random_below(r, 24) == 0) {
    *at = '\0';
    return 1;
  }
  if (random_below(r, 3) == 0) {
    const char *text = hard[random_below(r, choices)];
    memcpy(at, text, strlen(text));
    return strlen(text);
  }
  *at = (char)(' ' + random_below(r, 95));
  return 1;
}

static inline tp_text random_text(random_values *r, bool nul, char *buffer, size_t code_points) {
  size_t size = 0;
  for (size_t i = 0; i < code_points; i++) size += random_code_point(r, nul, buffer + size);
  return (tp_text){buffer, size};
}

static inline int64_t random_int(random_values *r) {
  int64_t number = (int64_t)(random_bits(r) >> random_below(r, 64));
  return random_below(r, 2) ? number : (number == INT64_MIN ? number : -number);
}

static inline double random_double(random_values *r) {
  static const double hard[] = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.1,
                                1e15,
                                1e16,
                                1e17,
                                1e21,
                                123456789012345678.0,
                                1e-7,
                                0.5,
                                5e-324,
                                2.2250738585072014e-308,
                                1.7976931348623157e308,
                                1.0 / 3};
  if (random_below(r, 2)) return hard[random_below(r, sizeof hard / sizeof hard[0])];
  for (;;) {
    uint64_t bits = random_bits(r);
    double number;
    memcpy(&number, &bits, sizeof number);
    if (number - number == 0) return number; /* finite */
  }
}

static inline void write_random_value(random_values *r, tp_writer *writer, size_t depth);

static inline void write_random_map(random_values *r, tp_writer *writer, size_t depth) {
  size_t count = random_below(r, depth == 0 && random_below(r, 4) == 0 ? 100 : 6);
  tp_write_map(writer, count);
  for (size_t i = 0; i < count; i++) {
    char key[256], text[128];
    tp_text start = random_text(r, false, text, random_below(r, 6));
    int size = snprintf(key, sizeof key, "%.*s#%zu", (int)start.size, start.data, i); /* the end makes it unique */
    tp_write_text(writer, (tp_text){key, (size_t)size});
    write_random_value(r, writer, depth + 1);
  }
}

static inline void write_random_scalar(random_values *r, tp_writer *writer) {
  char text[512];
  switch (random_below(r, 8)) {
    case 0:
      tp_write_null(writer);
      break;
    case 1:
      tp_write_bool(writer, random_below(r, 2));
      break;
    case 2:
    case 3:
      tp_write_int(writer, random_int(r));
      break;
    case 4:
      tp_write_double(writer, r->not_finite && random_below(r, 8) == 0 ? strtod("nan", NULL) : random_double(r));
      break;
    case 5:
      if (r->bytes) {
        tp_write_bytes(writer, random_text(r, true, text, random_below(r, 100)));
        break;
      }
      /* fall through */
    default:
      tp_write_text(writer, random_text(r, true, text, random_below(r, random_below(r, 8) ? 12 : 100)));
      break;
  }
}

static inline void write_random_value(random_values *r, tp_writer *writer, size_t depth) {
  size_t chance = random_below(r, 10);
  if (depth < 6 && chance < (depth == 0 ? 6 : 3)) {
    size_t count = random_below(r, 8);
    tp_write_array(writer, count);
    for (size_t i = 0; i < count; i++) write_random_value(r, writer, depth + 1);
  } else if (depth < 6 && chance < (depth == 0 ? 10 : 5)) {
    write_random_map(r, writer, depth);
  } else {
    write_random_scalar(r, writer);
  }
}

#endif
