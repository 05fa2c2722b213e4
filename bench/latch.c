/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/latch.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLOSED, ASLEEP, OPEN };

void bench_futex_wait(_Atomic uint32_t *word, uint32_t while_value) {
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

void bench_futex_wake(_Atomic uint32_t *word) { (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

void bench_latch_set(bench_latch *latch, uint32_t count) {
  atomic_store_explicit(&latch->state, count ? CLOSED : OPEN, memory_order_relaxed);
  atomic_store_explicit(&latch->left, count, memory_order_release); /* pairs with the subtraction in hit */
}

void bench_latch_hit(bench_latch *latch, uint32_t count) {
  if (atomic_fetch_sub_explicit(&latch->left, count, memory_order_acq_rel) != count) return;
  /* Pairs with the loads in wait and spin. */
  if (atomic_exchange_explicit(&latch->state, OPEN, memory_order_acq_rel) == ASLEEP) bench_futex_wake(&latch->state);
}

void bench_latch_wait(bench_latch *latch) {
  uint32_t state = CLOSED;
  atomic_compare_exchange_strong_explicit(&latch->state, &state, ASLEEP, memory_order_acq_rel, memory_order_acquire);
  while (atomic_load_explicit(&latch->state, memory_order_acquire) != OPEN) bench_futex_wait(&latch->state, ASLEEP);
}

void bench_latch_spin(bench_latch *latch) {
  while (atomic_load_explicit(&latch->state, memory_order_acquire) != OPEN) {}
}
