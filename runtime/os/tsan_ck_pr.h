/* SPDX-License-Identifier: Apache-2.0
 *
 * tsan_ck_pr.h: ck's atomic primitives in a form that ThreadSanitizer understands. ck writes them in assembly, or as
 * volatile accesses, and with both the sanitizer reports races in correct programs. It understands the __atomic
 * builtins. Only the primitives of ck_ring and ck_stack are here. queue.c includes this file first in builds with that
 * sanitizer; the compiler's command line may include it, too (-include). It changes nothing in other builds, and it
 * hides no race: the sanitizer sees the hand-over of an item through ck's own counters, so it still reports a payload
 * that is touched after its push. */
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
/* Under the sanitizer the time between a producer's claim and its publication is long. When more producers than
 * processors run, they would burn whole time slices while they wait for a producer that was preempted in that time. */
CK_CC_INLINE static void ck_pr_stall(void) { sched_yield(); }

/* The sequentially consistent operations below need no fences. A fence in ck's code becomes a full fence. */
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

/* name: ck's suffix; memory: the type to which ck's callers point; type: the type of the value there. */
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

/* ck_ring copies a place by memcpy() before it claims the place. A consumer that loses the claim may have read while a
 * producer wrote; it discards the copy. */
static inline void *tp__ck_copy(void *to, const void *from, size_t size) {
  if (size != sizeof(void *)) return memcpy(to, from, size);
  __atomic_store_n((void **)to, __atomic_load_n((void *const *)from, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  return to;
}

#endif
