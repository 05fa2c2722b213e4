/* SPDX-License-Identifier: Apache-2.0
 *
 * must.h: shared by the fuzz targets of values. A broken promise ends the process, with its line; libFuzzer and the
 * replay both notice that. */
#ifndef TP_TESTS_FUZZ_MUST_H
#define TP_TESTS_FUZZ_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "turnphase/value.h"

#define MUST(condition)                                                          \
  do {                                                                           \
    if (!(condition)) {                                                          \
      fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                   \
    }                                                                            \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline bool same_bytes(tp_text a, tp_text b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Text, gathered. */
typedef struct gathered {
  char *text;
  size_t size, capacity;
} gathered;

static inline void gather(void *ctx, const char *text, size_t size) {
  gathered *g = ctx;
  if (g->size + size > g->capacity) {
    g->capacity = 2 * (g->size + size);
    g->text = realloc(g->text, g->capacity);
    MUST(g->text);
  }
  if (size > 0) memcpy(g->text + g->size, text, size);
  g->size += size;
}

#endif
