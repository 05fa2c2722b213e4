/* SPDX-License-Identifier: Apache-2.0
 *
 * latch.h: how a bench waits for other threads: a count that goes down to zero, over one futex. It costs each thread
 * that hits it one atomic subtraction, and the last one a wake-up if a thread sleeps. */
#ifndef BENCH_LATCH_H
#define BENCH_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct bench_latch {
  _Alignas(128) _Atomic uint32_t left;
  _Alignas(128) _Atomic uint32_t state; /* one of: closed, a thread sleeps, open */
} bench_latch;

/** Sets the count. No thread may be waiting. */
void bench_latch_set(bench_latch *latch, uint32_t count);
void bench_latch_hit(bench_latch *latch, uint32_t count);
/** Sleeps until the count has come down to zero. */
void bench_latch_wait(bench_latch *latch);
/** Waits for zero without sleeping. */
void bench_latch_spin(bench_latch *latch);

void bench_futex_wait(_Atomic uint32_t *word, uint32_t while_value);
void bench_futex_wake(_Atomic uint32_t *word);

#endif
