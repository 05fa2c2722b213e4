/* SPDX-License-Identifier: Apache-2.0
 *
 * module.h: what the programs of the modules share: a table of operations of one module, each alone on a warm cache.
 * They are for developers of the module; the programs in bench/ measure the costs that a user sees. */
#ifndef BENCH_MODULE_H
#define BENCH_MODULE_H

#include "bench/report.h"

/** Times the statements in its arguments. i counts the runs. */
#define MODULE_TIMED(times, ...)           \
  int64_t module_began = bench_now_ns();   \
  for (uint32_t i = 0; i < (times); i++) { \
    __VA_ARGS__;                           \
  }                                        \
  return bench_now_ns() - module_began

/** Makes the compiler believe that the value is used. */
#define MODULE_KEEP(value) __asm__ volatile("" : : "g"(value) : "memory")

static inline void module_add(bench_row *row, const char *name, int64_t (*run)(void *ctx, uint32_t times), void *ctx) {
  (void)bench_row_add(row, (bench_contestant){.name = name, .run = run, .ctx = ctx},
                      (bench_bound){.against = row->count});
}

#endif
