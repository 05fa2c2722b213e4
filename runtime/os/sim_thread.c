/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_thread.c: threads as fibers. The handle comes from the caller's allocator, as on a real machine. So a thread that
 * was never joined shows in the count of allocated bytes. */
#include "runtime/os/sim_internal.h"

#define sim tp__sim_state

struct tp__thread {
  tp_allocator allocator;
  void (*run)(void *arg);
  void *arg;
  bool ended, detached;
};

static void free_thread(tp__thread *thread) {
  tp_allocator allocator = thread->allocator;
  tp__release(&allocator, thread, sizeof *thread);
}

static void thread_main(void *arg) {
  tp__thread *thread = arg;
  thread->run(thread->arg);
  tp__sim_point(); /* the function has returned, but the thread still exists */
  thread->ended = true;
  tp__order_release(thread); /* pairs with the join */
  tp__sim_wake_all(TP__FIBER_JOINS, thread);
  tp__order_acquire(thread);
  if (thread->detached) free_thread(thread);
}

tp_status tp__thread_start(const tp_allocator *allocator, const char *name, void (*run)(void *arg), void *arg,
                           tp__thread **ret_thread) {
  tp__sim_point();
  if (!sim.running) return TP_ERR_NO_THREAD;
  if (sim.refuses && tp__stream_one_in(&sim.refusal, sim.options.thread_refuse_inverse)) return TP_ERR_NO_THREAD;
  tp__thread *thread = tp__alloc_zero(allocator, sizeof *thread);
  if (!thread) return TP_ERR_NO_MEMORY;
  *thread = (tp__thread){.allocator = *allocator, .run = run, .arg = arg};
  if (!tp__sim_start_fiber(name, thread_main, thread)) {
    free_thread(thread);
    return TP_ERR_NO_THREAD;
  }
  *ret_thread = thread;
  return TP_OK;
}

void tp__thread_join(tp__thread *thread) {
  tp__sim_point();
  while (!thread->ended) tp__sim_wait(TP__FIBER_JOINS, thread, TP__NEVER);
  tp__order_acquire(thread);
  free_thread(thread);
}

void tp__thread_detach(tp__thread *thread) {
  tp__sim_point();
  tp__order_acquire(thread);
  if (thread->ended) free_thread(thread);
  else {
    thread->detached = true;
    tp__order_release(thread);
  }
}

tp__here *tp__here_get(void) { return sim.running ? &sim.current->here : &sim.here_outside; }
uint32_t tp__thread_number_take(void) { return sim.running ? sim.current->number : 0; }

void tp__sim_sleep_ns(int64_t ns) {
  int64_t until;
  if (__builtin_add_overflow(sim.now_ns, ns, &until)) until = TP__NEVER;
  tp__sim_wait(TP__FIBER_SLEEPS, NULL, until);
}
