/* SPDX-License-Identifier: Apache-2.0
 *
 * posix.c: processors, random bytes, forks and memory of a POSIX machine (Linux). Clocks are in posix_clock.c, locks
 * in posix_lock.c, threads in posix_thread.c. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/os/os.h"

/* ---- the machine ---- */

uint32_t tp__cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set); /* those that we may use */
  long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set has bits */
  return online > 0 ? (uint32_t)online : 1;
}

/* A machine can refuse getrandom (an old kernel, a strict seccomp filter). It still gets bytes that differ between
 * processes and calls, because a library may not end its host. These bytes are not secret, and the host must know
 * that. */
static void fill_from_clocks(unsigned char *bytes, size_t size) {
  uint64_t state = (uint64_t)tp__unix_ms() ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)bytes;
  for (size_t i = 0; i < size; i++) {
    state ^= (uint64_t)tp__now_ns();
    state *= UINT64_C(0x9E3779B97F4A7C15);
    bytes[i] = (unsigned char)(state >> 56);
  }
}

void tp__random(void *bytes, size_t size) {
  unsigned char *next = bytes;
  while (size > 0) {
    ssize_t got = getrandom(next, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fill_from_clocks(next, size);
      return;
    }
    next += got;
    size -= (size_t)got;
  }
}

_Atomic uint32_t tp__forks;

/* The child has one thread when the count changes: the thread that forked, perhaps inside a handler of the parent. */
static void count_fork(void) {
  atomic_fetch_add_explicit(&tp__forks, 1, memory_order_relaxed);
  tp__here_get()->inside = NULL;
}

/* Runs when the library is loaded. So the question whether the process is a fork costs one load, and every phase asks
 * it. */
__attribute__((constructor)) static void watch_forks(void) {
  if (pthread_atfork(NULL, NULL, count_fork) == 0) atomic_store_explicit(&tp__forks, 1, memory_order_relaxed);
}

bool tp__on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  return pthread_atfork(before, in_parent, in_child) == 0;
}

uint32_t tp__process_number(void) { return (uint32_t)getpid(); }

void *tp__os_alloc_forever(size_t size) {
  void *memory = NULL;
  if (size > SIZE_MAX / 2 || posix_memalign(&memory, 64, size ? size : 1) != 0) return NULL;
  return memset(memory, 0, size);
}
