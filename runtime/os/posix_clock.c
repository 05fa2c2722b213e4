/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_clock.c: the clocks of a POSIX machine. Time-stamps are the largest cost of an inline node. So the monotonic
 * clock reads the processor's time-stamp counter where the counter is invariant and the kernel itself trusts it: 8 ns
 * instead of 20.
 *
 * The counter is scaled by its rate over the first 20 ms in which the time was read. Until then, and on every other
 * machine, clock_gettime answers. Our clock may drift from the kernel's by some parts in 100,000. So no deadline is
 * computed from one clock and waited for on the other: posix_lock.c translates at each wait. */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/os/posix_clock.h"

#ifdef TP__HAS_COUNTER
#include <cpuid.h>
#endif

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t); /* cannot fail for the clocks below */
  return (int64_t)t.tv_sec * 1000 * TP__NS_PER_MS + t.tv_nsec;
}

int64_t tp__kernel_now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
int64_t tp__unix_ms(void) { return clock_ns(CLOCK_REALTIME) / TP__NS_PER_MS; }
int64_t tp__unix_offset_ns(void) { return clock_ns(CLOCK_REALTIME_COARSE) - tp__now_ns(); }

#ifdef TP__HAS_COUNTER

__extension__ typedef unsigned __int128 uint128;

enum { WINDOW_NS = 20 * TP__NS_PER_MS, FRACTION_BITS = 32 };
enum window { NOT_ASKED, OPENING, OPEN, CLOSING, NOT_USABLE };

tp__counter tp__counter_state;
static _Atomic uint32_t state; /* enum window; the thread that moves it to OPENING or CLOSING writes the fields below */

/* The kernel removes "tsc" from this file when it finds the counter unsteady, or out of step between processors. */
static bool kernel_trusts_it(void) {
  char name[8] = "";
  int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t size = read(file, name, sizeof name);
  close(file);
  return size >= 3 && memcmp(name, "tsc", 3) == 0;
}

static bool is_usable(void) {
  unsigned eax, ebx, ecx, edx;
  bool invariant = __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & 1u << 8);
  return invariant && kernel_trusts_it();
}

/* Reads the counter and the clock at nearly the same moment. */
static void read_both(uint64_t *ret_ticks, int64_t *ret_ns) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = __rdtsc();
    int64_t ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t duration = __rdtsc() - before;
    if (duration >= best) continue;
    best = duration;
    *ret_ticks = before + duration / 2;
    *ret_ns = ns;
  }
}

static void open_window(void) {
  if (!is_usable()) {
    atomic_store_explicit(&state, NOT_USABLE, memory_order_release);
    return;
  }
  read_both(&tp__counter_state.first_ticks, &tp__counter_state.first_ns);
  atomic_store_explicit(&state, OPEN, memory_order_release);
}

static void close_window(void) {
  tp__counter *counter = &tp__counter_state;
  uint64_t ticks = 0;
  int64_t ns = 0;
  read_both(&ticks, &ns);
  uint128 passed = (uint128)(uint64_t)(ns - counter->first_ns) << FRACTION_BITS;
  if (ticks <= counter->first_ticks) return;
  uint64_t rate = (uint64_t)(passed / (ticks - counter->first_ticks));
  atomic_store_explicit(&counter->rate, rate, memory_order_release);
}

static bool moves(uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong_explicit(&state, &from, to, memory_order_acq_rel, memory_order_acquire);
}

int64_t tp__now_asking_ns(void) {
  int64_t ns = clock_ns(CLOCK_MONOTONIC);
  uint32_t at = atomic_load_explicit(&state, memory_order_acquire);
  if (at == NOT_ASKED && moves(NOT_ASKED, OPENING)) open_window();
  else if (at == OPEN && ns - tp__counter_state.first_ns >= WINDOW_NS && moves(OPEN, CLOSING)) close_window();
  return ns;
}

#else

int64_t tp__now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

#endif
