/* SPDX-License-Identifier: Apache-2.0
 *
 * posix_thread.c: threads on pthreads. The handle has two owners, the starter and the thread itself. The last of them
 * frees it, so a detached thread may run longer than its starter exists (but not longer than its allocator). */
#include <pthread.h>
#include <signal.h>

#include "runtime/os/os.h"

struct tp__thread {
  tp_allocator allocator; /* this and all below never change after the start */
  void (*run)(void *arg);
  void *arg;
  char name[16];
  pthread_t id;   /* written by the starter; only join and detach read it */
  tp__a32 owners; /* begins at 2; acq_rel: the last owner sees all writes of the other one before it frees the handle */
};

static void drop_thread_owner(tp__thread *thread) {
  if (tp__a32_sub_acq_rel(&thread->owners, 1) != 1) return;
  tp_allocator allocator = thread->allocator;
  tp__release(&allocator, thread, sizeof *thread);
}

static void *thread_main(void *arg) {
  tp__thread *thread = arg;
  pthread_setname_np(pthread_self(), thread->name); /* the name is only for people, so a refusal changes nothing */
  thread->run(thread->arg);
  drop_thread_owner(thread);
  return NULL;
}

/* A signal sent to the process must reach a thread of the host. So threads of the library block all signals except
 * those that a faulty instruction of the thread itself raises. A new thread inherits the mask. The mask is set around
 * the start, so that the thread never runs without it. */
static int create_masked(tp__thread *thread) {
  static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++) sigdelset(&blocked, synchronous[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  int error = pthread_create(&thread->id, NULL, thread_main, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

tp_status tp__thread_start(const tp_allocator *allocator, const char *name, void (*run)(void *arg), void *arg,
                           tp__thread **ret_thread) {
  tp__thread *thread = tp__alloc_zero(allocator, sizeof *thread);
  if (!thread) return TP_ERR_NO_MEMORY;
  thread->allocator = *allocator;
  thread->run = run;
  thread->arg = arg;
  memcpy(thread->name, name, strnlen(name, sizeof thread->name - 1));
  tp__a32_store_relaxed(&thread->owners, 2); /* pairs with nothing: pthread_create publishes it */
  if (create_masked(thread) != 0) {
    tp__release(allocator, thread, sizeof *thread);
    return TP_ERR_NO_THREAD;
  }
  *ret_thread = thread;
  return TP_OK;
}

void tp__thread_join(tp__thread *thread) {
  int error = pthread_join(thread->id, NULL);
  (void)error;
  assert(error == 0);
  drop_thread_owner(thread);
}

void tp__thread_detach(tp__thread *thread) {
  pthread_detach(thread->id);
  drop_thread_owner(thread);
}

_Thread_local tp__here tp__here_of_thread;

uint32_t tp__thread_number_take(void) {
  static _Atomic uint32_t taken; /* relaxed: they need only differ */
  return atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}
