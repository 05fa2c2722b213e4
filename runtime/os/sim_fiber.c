/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_fiber.c: stacks, and the switch between them. Stacks are cached between runs, because a small run takes less time
 * than mapping its stacks would. A fiber is entered with ucontext. Later switches are jumps, because swapcontext makes
 * a system call each time (271 ns against 11 ns on the machine that measured it). The C library's check of jumps knows
 * only one stack, so it is off in this file.
 *
 * Under a sanitizer, every switch is a swapcontext, which the sanitizers know, and is annotated. AddressSanitizer
 * learns which stack is in use. ThreadSanitizer learns that a fiber is a thread and that a switch orders nothing. So it
 * sees the program's races in simulated schedules, too, where the seed repeats them. For this, the simulator's own
 * files are built with TP_SIM_TSAN instead of the sanitizer, which must not take the scheduler for a part of the
 * program. */
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/os/sim_internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TP_SIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_BYTES = 256 * 1024 }; /* handlers under test print and call libraries; unused pages stay unmapped */

static tp__fiber fibers[TP__SIM_FIBERS_MAX];
static tp__fiber *free_fibers;
static size_t fibers_used; /* of the array; the rest was never in use */
static tp__fiber host = {.entered = true};

tp__fiber *tp__fiber_host(void) { return &host; }

/* ---- annotations for the sanitizers ---- */

#ifdef TP_SIM_TSAN
void tp__order_release(const void *object) { __tsan_release((void *)(uintptr_t)object); }
void tp__order_acquire(const void *object) { __tsan_acquire((void *)(uintptr_t)object); }
#else
void tp__order_release(const void *object) { (void)object; }
void tp__order_acquire(const void *object) { (void)object; }
#endif

static void annotate_new(tp__fiber *fiber) {
#ifdef WITH_ASAN
  /* poisoned by an earlier use of the stack, which never returned from its frames */
  __asan_unpoison_memory_region(fiber->stack, STACK_BYTES);
#endif
#ifdef TP_SIM_TSAN
  if (!fiber->thread_context) fiber->thread_context = __tsan_create_fiber(0); /* else it goes on where the last ended */
#endif
  (void)fiber;
}

static void annotate_abandoned(tp__fiber *fiber) {
#ifdef TP_SIM_TSAN
  __tsan_destroy_fiber(fiber->thread_context);
#endif
  fiber->thread_context = NULL;
}

static tp__fiber *left; /* the one that switched last */

static void before_switch(tp__fiber *from, tp__fiber *to) {
#ifdef WITH_ASAN
  bool last = from->state == TP__FIBER_ENDED; /* then its fake frames go, too */
  __sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->stack_bottom, to->stack_size);
#endif
#ifdef TP_SIM_TSAN
  if (from == &host) host.thread_context = __tsan_get_current_fiber();
  else tp__order_release(&host); /* only for the host, which judges the work of the fibers */
  __tsan_switch_to_fiber(to->thread_context, __tsan_switch_to_fiber_no_sync);
#endif
  left = from;
  (void)to;
}

static void after_switch(tp__fiber *now) {
#ifdef WITH_ASAN
  __sanitizer_finish_switch_fiber(now->fake_stack, &left->stack_bottom, &left->stack_size);
#endif
  if (now == &host) tp__order_acquire(&host);
}

/* ---- stacks ---- */

/* The page below the stack has no access rights, so that an overflow faults instead of writing into a neighbour. */
static bool map_stack(tp__fiber *fiber) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char *memory = mmap(NULL, page + STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (mprotect(memory, page, PROT_NONE) != 0) {
    munmap(memory, page + STACK_BYTES);
    return false;
  }
  fiber->stack = memory + page;
  fiber->stack_bottom = fiber->stack;
  fiber->stack_size = STACK_BYTES;
  return true;
}

static void unmap_stack(tp__fiber *fiber) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  munmap(fiber->stack - page, page + STACK_BYTES);
  fiber->stack = NULL;
}

static void entry(void);

static void make_context(tp__fiber *fiber) {
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = STACK_BYTES;
  fiber->context.uc_link = NULL;
  makecontext(&fiber->context, entry, 0);
}

tp__fiber *tp__fiber_new(void) {
  tp__fiber *fiber = free_fibers;
  if (fiber) free_fibers = fiber->next_free;
  else fiber = fibers_used < TP__SIM_FIBERS_MAX ? &fibers[fibers_used++] : NULL;
  if (!fiber) return NULL;
  if (!fiber->stack && !map_stack(fiber)) {
    tp__fiber_free(fiber);
    return NULL;
  }
  fiber->entered = false;
  fiber->fake_stack = NULL;
  annotate_new(fiber);
  make_context(fiber);
  return fiber;
}

void tp__fiber_free(tp__fiber *fiber) {
  fiber->next_free = free_fibers;
  free_fibers = fiber;
}

void tp__fiber_abandon(tp__fiber *fiber) {
  annotate_abandoned(fiber);
  unmap_stack(fiber);
  tp__fiber_free(fiber);
}

/* ---- the switch ---- */

#if defined(WITH_ASAN) || defined(TP_SIM_TSAN)
static void change_stack(tp__fiber *from, tp__fiber *to) { swapcontext(&from->context, &to->context); }
#else
static void change_stack(tp__fiber *from, tp__fiber *to) {
  if (_setjmp(from->jump) != 0) return; /* another fiber jumped back */
  if (to->entered) _longjmp(to->jump, 1);
  setcontext(&to->context);
}
#endif

static void entry(void) {
  tp__fiber *self = tp__sim_state.current;
  self->entered = true;
  after_switch(self);
  tp__order_acquire(self); /* pairs with the start, and with the end of the fiber that used this stack before */
  tp__sim_fiber_main();
}

void tp__fiber_switch(tp__fiber *from, tp__fiber *to) {
  before_switch(from, to);
  change_stack(from, to);
  after_switch(from);
}
