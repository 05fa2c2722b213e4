/* SPDX-License-Identifier: Apache-2.0
 *
 * os: the seam. Threads, locks, parking, atomics, clock and randomness come only from here, so that the simulator
 * (sim.c, with -DTP_SIM) can replace the machine (posix.c). The simulator may switch threads only in functions of the
 * seam, such as an atomic operation or a lock. No callback runs under a lock. Locks are taken in the order of
 * lock.def. */
#ifndef TP__OS_H
#define TP__OS_H

#include <stdatomic.h>

#include "runtime/base/base.h"

/* ---- atomics: the name of the operation says the memory order ---- */

typedef struct tp__a32 {
  _Atomic uint32_t v;
} tp__a32;
typedef struct tp__a64 {
  _Atomic uint64_t v;
} tp__a64;
typedef struct tp__aptr {
  _Atomic(void *) v;
} tp__aptr;

#ifdef TP_SIM
void tp__sim_point(void); /* the scheduler may switch here */
#define TP__POINT() tp__sim_point()
#else
#define TP__POINT() ((void)0)
#endif

#define TP__ATOMIC_OPS(name, type, box)                                                            \
  static inline type tp__##name##_load_relaxed(const box *a) {                                     \
    TP__POINT();                                                                                   \
    return atomic_load_explicit(&((box *)(uintptr_t)a)->v, memory_order_relaxed);                  \
  }                                                                                                \
  static inline type tp__##name##_load_acquire(const box *a) {                                     \
    TP__POINT();                                                                                   \
    return atomic_load_explicit(&((box *)(uintptr_t)a)->v, memory_order_acquire);                  \
  }                                                                                                \
  static inline type tp__##name##_load_seq_cst(const box *a) {                                     \
    TP__POINT();                                                                                   \
    return atomic_load_explicit(&((box *)(uintptr_t)a)->v, memory_order_seq_cst);                  \
  }                                                                                                \
  static inline void tp__##name##_store_relaxed(box *a, type value) {                              \
    TP__POINT();                                                                                   \
    atomic_store_explicit(&a->v, value, memory_order_relaxed);                                     \
  }                                                                                                \
  static inline void tp__##name##_store_release(box *a, type value) {                              \
    TP__POINT();                                                                                   \
    atomic_store_explicit(&a->v, value, memory_order_release);                                     \
    TP__POINT(); /* another thread may own it at once */                                           \
  }                                                                                                \
  static inline type tp__##name##_exchange_acq_rel(box *a, type value) {                           \
    TP__POINT();                                                                                   \
    return atomic_exchange_explicit(&a->v, value, memory_order_acq_rel);                           \
  }                                                                                                \
  static inline type tp__##name##_exchange_seq_cst(box *a, type value) {                           \
    TP__POINT();                                                                                   \
    return atomic_exchange_explicit(&a->v, value, memory_order_seq_cst);                           \
  }                                                                                                \
  /* On failure *expected is what was found. */                                                    \
  static inline bool tp__##name##_cas_seq_cst(box *a, type *expected, type desired) {              \
    TP__POINT();                                                                                   \
    return atomic_compare_exchange_strong_explicit(&a->v, expected, desired, memory_order_seq_cst, \
                                                   memory_order_seq_cst);                          \
  }                                                                                                \
  static inline bool tp__##name##_cas_acq_rel(box *a, type *expected, type desired) {              \
    TP__POINT();                                                                                   \
    return atomic_compare_exchange_strong_explicit(&a->v, expected, desired, memory_order_acq_rel, \
                                                   memory_order_acquire);                          \
  }
#define TP__ATOMIC_MATH(name, type, box)                                  \
  /* Give the value before. */                                            \
  static inline type tp__##name##_add_relaxed(box *a, type value) {       \
    TP__POINT();                                                          \
    return atomic_fetch_add_explicit(&a->v, value, memory_order_relaxed); \
  }                                                                       \
  static inline type tp__##name##_add_acq_rel(box *a, type value) {       \
    TP__POINT();                                                          \
    return atomic_fetch_add_explicit(&a->v, value, memory_order_acq_rel); \
  }                                                                       \
  static inline type tp__##name##_sub_acq_rel(box *a, type value) {       \
    TP__POINT();                                                          \
    return atomic_fetch_sub_explicit(&a->v, value, memory_order_acq_rel); \
  }                                                                       \
  static inline type tp__##name##_or_acq_rel(box *a, type value) {        \
    TP__POINT();                                                          \
    return atomic_fetch_or_explicit(&a->v, value, memory_order_acq_rel);  \
  }
TP__ATOMIC_OPS(a32, uint32_t, tp__a32)
TP__ATOMIC_OPS(a64, uint64_t, tp__a64)
TP__ATOMIC_OPS(aptr, void *, tp__aptr)
TP__ATOMIC_MATH(a32, uint32_t, tp__a32)
TP__ATOMIC_MATH(a64, uint64_t, tp__a64)
#undef TP__ATOMIC_OPS
#undef TP__ATOMIC_MATH

/** For a loop that polls a word which another thread will write. */
static inline void tp__cpu_relax(void) {
  TP__POINT();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/** Fetches a cache line that will be written soon and may be in another processor's cache. */
static inline void tp__prefetch(const void *line) { __builtin_prefetch(line, 1); }

/* ---- clock ---- */

enum { TP__NS_PER_US = 1000, TP__NS_PER_MS = 1000000 };
#define TP__NEVER INT64_MAX

#if defined(__x86_64__) && !defined(TP_SIM)
#define TP__HAS_COUNTER 1
#include <x86intrin.h>

/** How the time follows from the processor's time-stamp counter (posix_clock.c): one moment at which both were read,
 *  and a rate. */
typedef struct tp__counter {
  /* ns a tick, 32 bits of fraction; 0: not known, or not to be trusted. Publishes the other fields */
  _Atomic uint64_t rate;
  uint64_t first_ticks;
  int64_t first_ns;
} tp__counter;
extern tp__counter tp__counter_state;
int64_t tp__now_asking_ns(void); /* tp__now_ns() when the counter cannot be used */

/** Monotonic nanoseconds; the wall clock never moves it. It is in the header because reading the time is the largest
 *  cost of an inline node. */
static inline int64_t tp__now_ns(void) {
  __extension__ typedef unsigned __int128 uint128;
  const tp__counter *counter = &tp__counter_state;
  uint64_t rate = atomic_load_explicit(&counter->rate, memory_order_acquire); /* pairs with posix_clock.c */
  if (__builtin_expect(rate == 0, 0)) return tp__now_asking_ns();
  return counter->first_ns + (int64_t)((uint128)(__rdtsc() - counter->first_ticks) * rate >> 32);
}
#else
/** Monotonic nanoseconds; the wall clock never moves it. */
int64_t tp__now_ns(void);
#endif
/** Wall clock, unix milliseconds. */
int64_t tp__unix_ms(void);
/** Identifies the process for a later process that asks whether it has ended: its number, and when it began, in a unit
 *  of the system (0: unknown). */
int64_t tp__process_id(void);
int64_t tp__process_started(void);
/** The name of this boot of the machine. @return its size; 0: it has no name. */
size_t tp__boot_id(char *buffer, size_t size);
/** What must be added to a monotonic time to get the wall clock's time, according to the wall clock of this moment.
 *  Exact to the kernel's tick (about 4 ms). */
int64_t tp__unix_offset_ns(void);
/** now + ms, saturating at TP__NEVER. */
int64_t tp__deadline_after_ms(int64_t now_ns, uint64_t ms);

/* ---- locks ---- */

/** A thread takes locks in rising rank only. */
typedef enum tp__lock_rank {
  TP__RANK_NONE = 0, /* not checked */
#define X(name, rank, guards) TP__RANK_##name = rank,
#include "runtime/os/lock.def"
#undef X
} tp__lock_rank;

/** The locks that a thread holds. Checked when TP_CHECKS is defined. */
enum { TP__HELD_LOCKS_MAX = 8 };
typedef struct tp__held_locks {
  uint8_t ranks[TP__HELD_LOCKS_MAX];
  uint8_t count;
} tp__held_locks;
static inline void tp__held_locks_add(tp__held_locks *held, tp__lock_rank rank) {
  for (uint8_t i = 0; i < held->count; i++) assert(rank == TP__RANK_NONE || held->ranks[i] <= rank);
  assert(held->count < TP__HELD_LOCKS_MAX);
  held->ranks[held->count++] = (uint8_t)rank;
}
static inline void tp__held_locks_remove(tp__held_locks *held, tp__lock_rank rank) {
  uint8_t at = held->count;
  while (at > 0 && held->ranks[at - 1] != rank) at--;
  assert(at > 0);
  held->count--;
  for (; at <= held->count; at++) held->ranks[at - 1] = held->ranks[at];
}
/** Asserts that the thread, which is about to wait with the lock of this rank, holds no other lock. */
static inline void tp__held_locks_waits(const tp__held_locks *held, tp__lock_rank rank) {
  assert(held->count > 0);
  for (uint8_t i = 0; i < held->count; i++) assert(held->ranks[i] == TP__RANK_NONE || held->ranks[i] == rank);
}

#ifdef TP_SIM
typedef struct tp__mutex {
  tp__lock_rank rank;
  void *holder;   /* a fiber; NULL: free */
  uint64_t run;   /* the run that `holder` belongs to: a lock that exists longer than its run is free in the next run */
  uint32_t magic; /* between init and fini */
} tp__mutex;
typedef struct tp__cond {
  uint32_t magic;
} tp__cond;
#else
#include <pthread.h>
typedef struct tp__mutex {
  pthread_mutex_t m;
#ifdef TP_CHECKS
  tp__lock_rank rank;
  const void *holder; /* written by the holder alone; NULL: free */
#endif
} tp__mutex;
typedef struct tp__cond {
  tp__a32 sequence; /* counts the signals; each wait ends when it changes */
  tp__a32 waiting;  /* changed under the mutex */
} tp__cond;
#endif

tp_status tp__mutex_init(tp__mutex *mutex, tp__lock_rank rank);
void tp__mutex_fini(tp__mutex *mutex);
void tp__mutex_lock(tp__mutex *mutex);
void tp__mutex_unlock(tp__mutex *mutex);
/** Whether the calling thread holds the mutex. Exists only with TP_CHECKS, for TP__LOCKED(). */
bool tp__mutex_is_mine(const tp__mutex *mutex);
/** The first assertion of a function whose name ends in _locked: its caller holds the lock. */
#define TP__LOCKED(mutex) TP__ASSERT(tp__mutex_is_mine(mutex))
tp_status tp__cond_init(tp__cond *cond); /* on the monotonic clock */
void tp__cond_fini(tp__cond *cond);
void tp__cond_wait(tp__cond *cond, tp__mutex *mutex);
/** @return false when deadline_ns (absolute; TP__NEVER: none) has passed. May wake early with true. */
bool tp__cond_wait_until(tp__cond *cond, tp__mutex *mutex, int64_t deadline_ns);
/** The caller has changed the condition under the mutex, and may have unlocked the mutex before this call. Never
 *  sleeps. */
void tp__cond_signal(tp__cond *cond);
void tp__cond_broadcast(tp__cond *cond);

/* ---- parker: one thread sleeps, any thread wakes it; a wake-up before the sleep is not lost ---- */

#ifdef TP_SIM
typedef struct tp__parker {
  tp__mutex mutex;
  tp__cond cond;
  bool token; /* under mutex */
} tp__parker;
#else
typedef struct tp__parker {
  tp__a32 word;
} tp__parker; /* posix_lock.c */
#endif

tp_status tp__parker_init(tp__parker *parker);
void tp__parker_fini(tp__parker *parker);
/** Sleeps until the thread is unparked or deadline_ns has passed; consumes the token. @return true when there was a
 *  token. */
bool tp__parker_park_until(tp__parker *parker, int64_t deadline_ns);
/** Consumes the token if there is one; never sleeps. */
bool tp__parker_take(tp__parker *parker);
/** Must not race with fini: before fini, the owner of the parker takes the token of the last unpark (see
 *  tp__strand). */
void tp__parker_unpark(tp__parker *parker);

/* ---- pollable: a flag that a descriptor shows to a host: readable while the flag is set ---- */

#ifdef TP_SIM
typedef struct tp__pollable {
  tp__mutex mutex;
  tp__cond cond;
  bool is_set; /* under mutex */
} tp__pollable;
/** The simulated poll(): waits until the flag is set. @return false when deadline_ns has passed before. */
bool tp__pollable_wait_until(tp__pollable *pollable, int64_t deadline_ns);
#else
typedef struct tp__pollable {
  int fd;
} tp__pollable; /* an eventfd, close-on-exec and non-blocking */
#endif

/** @return TP_OK, with the flag not set; TP_ERR_SYSTEM, with errno, when the process has no descriptor left. */
tp_status tp__pollable_init(tp__pollable *pollable);
void tp__pollable_fini(tp__pollable *pollable);
/** One system call, also when the flag is set already (in the simulator it must not be set). */
void tp__pollable_set(tp__pollable *pollable);
/** @return false when the flag was not set. */
bool tp__pollable_clear(tp__pollable *pollable);
/** The descriptor to poll; -1 in the simulator, which has no descriptors. */
int tp__pollable_fd(const tp__pollable *pollable);

/* ---- threads ---- */

typedef struct tp__thread tp__thread;
/** Starts a thread that blocks all signals except the synchronous ones. name: at most 15 bytes, for people.
 *  @return TP_OK; TP_ERR_NO_THREAD; TP_ERR_NO_MEMORY. */
tp_status tp__thread_start(const tp_allocator *allocator, const char *name, void (*run)(void *arg), void *arg,
                           tp__thread **ret_thread);
/** Waits for the thread's end and frees it. */
void tp__thread_join(tp__thread *thread);
/** Says that the thread is inside a function of the object `of`, for which the thread therefore must not wait. It lies
 *  in the frame of the entered function. The innermost is first in the list. */
void tp__thread_detach(tp__thread *thread);
/** That the thread is inside something of `of`, which it must not wait for. Lies in the frame of the function that
 *  enters; the innermost first. */
typedef struct tp__inside {
  const void *of; /* compared, never followed */
  void *doing;    /* a small pointer, not NULL: what the thread does there */
  struct tp__inside *outer;
} tp__inside;
#define TP__INSIDE_CALLBACK ((void *)(uintptr_t)1) /* calls a destructor, the store or a callback; others: exec */
/** What the runtime stores about the calling thread, so that one look-up finds all of it. In the child of a fork the
 *  thread is inside nothing, because its frames belonged to objects of the parent. */
typedef struct tp__here {
  tp__inside *inside;     /* NULL: of nothing */
  void *home;             /* NULL at first: data that only this thread uses */
  const void *running;    /* NULL at first: the strand that the thread runs now (sched/strand.h) */
  uint32_t number_from_1; /* 0: not yet taken */
  void *held;             /* NULL: ends are delivered at once (phases/turn/end.h) */
} tp__here;
#ifdef TP_SIM
tp__here *tp__here_get(void);
#else
extern _Thread_local tp__here tp__here_of_thread;
static inline tp__here *tp__here_get(void) { return &tp__here_of_thread; }
#endif
static inline void tp__inside_enter(tp__inside *frame, const void *of, void *doing) {
  tp__here *here = tp__here_get();
  frame->of = of;
  frame->doing = doing;
  frame->outer = here->inside;
  here->inside = frame;
}
static inline void tp__inside_leave(const tp__inside *frame) { tp__here_get()->inside = frame->outer; }
/** Whether the thread is inside of anything. */
static inline bool tp__inside_any(void) { return tp__here_get()->inside != NULL; }
/** Whether the thread is inside of this object. */
static inline bool tp__inside_is_of(const void *of) {
  const tp__inside *frame = tp__here_get()->inside;
  while (frame && frame->of != of) frame = frame->outer;
  return frame != NULL;
}
/** Whether the thread does that inside of this object. */
static inline bool tp__inside_does(const void *of, const void *doing) {
  const tp__inside *frame = tp__here_get()->inside;
  while (frame && !(frame->of == of && frame->doing == doing)) frame = frame->outer;
  return frame != NULL;
}
/** What the thread does in the innermost object; NULL: it is inside nothing. */
static inline void *tp__inside_doing(void) {
  const tp__inside *frame = tp__here_get()->inside;
  return frame ? frame->doing : NULL;
}

uint32_t tp__thread_number_take(void);
/** A number of the calling thread, counted from 0 in the order in which threads first ask. It selects one of several
 *  equal parts for the thread. */
static inline uint32_t tp__thread_number(void) {
  tp__here *here = tp__here_get();
  if (!here->number_from_1) here->number_from_1 = tp__thread_number_take() + 1;
  return here->number_from_1 - 1;
}
/* ---- the machine ---- */

uint32_t tp__cpu_count(void);
/** Unpredictable bytes (getrandom); in the simulator: from the seed. */
void tp__random(void *bytes, size_t size);
/** A value that changes in a forked child. A runtime compares it with the value at its start. */
#if !defined(TP_SIM)
/* 1, and one more in each child; 0: there was no memory to watch for forks. Relaxed */
extern _Atomic uint32_t tp__forks;
uint32_t tp__process_number(void); /* a system call */
static inline uint32_t tp__process_generation(void) {
  uint32_t forks = atomic_load_explicit(&tp__forks, memory_order_relaxed);
  return __builtin_expect(forks != 0, 1) ? forks : tp__process_number();
}
#else
uint32_t tp__process_generation(void);
#endif
/** Sets the functions that run around every later fork, for state that belongs to the process and not to a runtime: one
 *  before the fork, then one in the parent and one in the child. Called when the library is loaded. @return false
 *  without memory. */
bool tp__on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));
/** Memory for the life of the process (the slot slab), zeroed, aligned to 64; NULL when refused. */
void *tp__os_alloc_forever(size_t size);

#endif
