/* SPDX-License-Identifier: Apache-2.0
 *
 * tsan_ck_pr.h: ck's atomic primitives in a form that ThreadSanitizer understands. ck writes its own in assembly, or as
 * volatile accesses, and the sanitizer sees races in right programs through both; __atomic builtins it knows. Only what
 * ck_ring and ck_stack use is here. queue.c includes it first in builds with that sanitizer; it may as well be given
 * on the compiler's command line (-include). It changes nothing in other builds, and it hides nothing: the hand-over of
 * an item is seen through ck's own counters, so a payload that is touched after its push is still reported. */
#ifndef TP__TSAN_CK_PR_H
#define TP__TSAN_CK_PR_H

#undef CK_USE_CC_BUILTINS
#define CK_USE_CC_BUILTINS 1 /* no assembly */
#define CK_PR_GCC_H          /* and none of the volatile accesses of <gcc/ck_pr.h> either */
#define CK_F_PR

#include <ck_cc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

CK_CC_INLINE static void ck_pr_barrier(void) { __asm__ __volatile__("" ::: "memory"); }
/* The time between a producer's claim and its publication is long here, and more producers than processors would burn
 * whole time slices while they wait for the one that was preempted in it. */
CK_CC_INLINE static void ck_pr_stall(void) { sched_yield(); }

/* The sequentially consistent operations below need no fences; a full fence stays a full one where it is used. */
#define TP__CK_FENCE(kind) \
  CK_CC_INLINE static void ck_pr_fence_strict_##kind(void) { ck_pr_barrier(); }
TP__CK_FENCE(atomic)
TP__CK_FENCE(atomic_load)
TP__CK_FENCE(atomic_store)
TP__CK_FENCE(store_atomic)
TP__CK_FENCE(load_atomic)
TP__CK_FENCE(load)
TP__CK_FENCE(load_store)
TP__CK_FENCE(store)
TP__CK_FENCE(acquire)
TP__CK_FENCE(release)
TP__CK_FENCE(acqrel)
TP__CK_FENCE(lock)
TP__CK_FENCE(unlock)
#undef TP__CK_FENCE
CK_CC_INLINE static void ck_pr_fence_strict_memory(void) { __sync_synchronize(); }
CK_CC_INLINE static void ck_pr_fence_strict_store_load(void) { __sync_synchronize(); }

/* name: ck's suffix; memory: the type that ck's callers point to; type: what stands there. */
#define TP__CK_OPS(name, memory, type)                                                                                 \
  CK_CC_INLINE static type ck_pr_md_load_##name(const memory *target) {                                                \
    return __atomic_load_n((type *)(uintptr_t)target, __ATOMIC_SEQ_CST);                                               \
  }                                                                                                                    \
  CK_CC_INLINE static void ck_pr_md_store_##name(memory *target, type value) {                                         \
    __atomic_store_n((type *)target, value, __ATOMIC_SEQ_CST);                                                         \
  }                                                                                                                    \
  CK_CC_INLINE static bool ck_pr_cas_##name##_value(memory *target, type compare, type set, memory *found) {           \
    bool done = __atomic_compare_exchange_n((type *)target, &compare, set, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    *(type *)found = compare;                                                                                          \
    return done;                                                                                                       \
  }                                                                                                                    \
  CK_CC_INLINE static bool ck_pr_cas_##name(memory *target, type compare, type set) {                                  \
    return __atomic_compare_exchange_n((type *)target, &compare, set, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
  }
TP__CK_OPS(ptr, void, void *)
TP__CK_OPS(uint, unsigned int, unsigned int)
#undef TP__CK_OPS

/* ck_ring copies a place by memcpy() before it claims it: a consumer that loses the claim has read what a producer may
 * be writing, and throws it away. */
static inline void *tp__ck_copy(void *to, const void *from, size_t size) {
  if (size != sizeof(void *)) return memcpy(to, from, size);
  __atomic_store_n((void **)to, __atomic_load_n((void *const *)from, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  return to;
}

#endif
