/* SPDX-License-Identifier: Apache-2.0
 *
 * support/lock.h: an assertion fails in a thread that breaks a rule of the locks; conditions wait on the monotonic
 * clock; threads begin with every signal blocked. A child commits each breach, and its death is the result. */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/lock.h"

static tp__lock low, high, other;
static tp__lock_condition condition;

static int make_locks(void **state) {
  (void)state;
  tp__lock_init(&low, TP__LOCK_hooks_watch);
  tp__lock_init(&high, TP__LOCK_references);
  tp__lock_init(&other, TP__LOCK_hooks_watch);
  tp__lock_condition_init(&condition);
  return 0;
}

static int end_locks(void **state) {
  (void)state;
  tp__lock_condition_fini(&condition);
  tp__lock_fini(&other);
  tp__lock_fini(&high);
  tp__lock_fini(&low);
  return 0;
}

FOR_ALL_TESTS(make_locks, end_locks);

/* ---- what a child does ---- */

static void rise(void) {
  tp__lock_acquire(&low);
  TP__LOCKED(&low);
  tp__lock_acquire(&high);
  TP__LOCKED(&high);
  tp__lock_release(&high);
  tp__lock_release(&low);
}

static void release_the_lower_first(void) {
  tp__lock_acquire(&low);
  tp__lock_acquire(&high);
  tp__lock_release(&low);
  tp__lock_release(&high);
  tp__lock_acquire(&low);
  tp__lock_release(&low);
}

static void wait_with_one(void) {
  tp__lock_acquire(&low);
  if (tp__lock_condition_wait_until(&condition, &low, tp__monotonic_ns())) abort();
  TP__LOCKED(&low);
  tp__lock_release(&low);
}

#if defined(TP_CHECKS) && !defined(__SANITIZE_THREAD__)
static void fall(void) {
  tp__lock_acquire(&high);
  tp__lock_acquire(&low);
}

static void take_two_of_a_class(void) {
  tp__lock_acquire(&low);
  tp__lock_acquire(&other);
}

static void take_one_twice(void) {
  tp__lock_acquire(&low);
  tp__lock_acquire(&low);
}

static void release_what_is_free(void) { tp__lock_release(&low); }

static void *acquire_low(void *ctx) {
  tp__lock_acquire(&low);
  return ctx;
}

static void in_another_thread(void *(*run)(void *)) {
  pthread_t thread;
  if (tp__thread_spawn(&thread, run, NULL) != 0) abort();
  pthread_join(thread, NULL);
}

static void release_that_of_another(void) {
  in_another_thread(acquire_low);
  tp__lock_release(&low);
}

static void claim_that_of_another(void) {
  in_another_thread(acquire_low);
  TP__LOCKED(&low);
}

static void claim_what_is_free(void) { TP__LOCKED(&low); }

static void claim_what_was_released(void) {
  rise();
  TP__LOCKED(&low);
}

static void wait_without(void) { (void)tp__lock_condition_wait_until(&condition, &low, tp__monotonic_ns()); }

static void wait_with_two(void) {
  tp__lock_acquire(&low);
  tp__lock_acquire(&high);
  (void)tp__lock_condition_wait_until(&condition, &high, tp__monotonic_ns());
}

static void wait_with_the_wrong_one(void) {
  tp__lock_acquire(&low);
  (void)tp__lock_condition_wait_until(&condition, &high, tp__monotonic_ns());
}

#endif

/* @return the signal that ended the child; 0: none. */
static int end_of(void (*run)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    (void)!freopen("/dev/null", "w", stderr);
    signal(SIGABRT, SIG_DFL);
    run();
    _exit(0);
  }
  int status = 0;
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(what_keeps_the_rules_goes_on) {
  void (*const rows[])(void) = {rise, release_the_lower_first, wait_with_one};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_int_equal(end_of(rows[i]), 0);
}

#if defined(TP_CHECKS) && !defined(__SANITIZE_THREAD__)
TEST(what_breaks_a_rule_ends_at_an_assertion) {
  void (*const rows[])(void) = {
      fall,
      take_two_of_a_class,
      take_one_twice,
      release_what_is_free,
      release_that_of_another,
      claim_that_of_another,
      claim_what_is_free,
      claim_what_was_released,
      wait_without,
      wait_with_two,
      wait_with_the_wrong_one,
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int end = end_of(rows[i]);
    if (end != SIGABRT) print_error("row %zu: %d\n", i, end);
    assert_int_equal(end, SIGABRT);
  }
}
#endif

/* ---- conditions ---- */

static bool is_ready; /* under low */

static void *make_ready(void *ctx) {
  tp__lock_acquire(&low);
  is_ready = true;
  tp__lock_condition_broadcast(&condition);
  tp__lock_release(&low);
  return ctx;
}

TEST(a_signal_ends_a_wait) {
  pthread_t thread;
  tp__lock_acquire(&low);
  is_ready = false;
  assert_int_equal(tp__thread_spawn(&thread, make_ready, NULL), 0);
  while (!is_ready) tp__lock_condition_wait(&condition, &low);
  TP__LOCKED(&low);
  tp__lock_release(&low);
  pthread_join(thread, NULL);
}

TEST(a_wait_ends_at_its_deadline) {
  static const int64_t left_ns[] = {-1000000000, -1, 0, 1, 1000000, 20000000};
  tp__lock_acquire(&low);
  for (size_t i = 0; i < sizeof left_ns / sizeof *left_ns; i++) {
    int64_t deadline_ns = tp__monotonic_ns() + left_ns[i];
    while (tp__lock_condition_wait_until(&condition, &low, deadline_ns)) continue;
    assert_true(tp__monotonic_ns() >= deadline_ns);
  }
  assert_false(tp__lock_condition_wait_until(&condition, &low, INT64_MIN));
  tp__lock_release(&low);
}

/* ---- threads ---- */

static void *blocked_signals(void *ctx) {
  pthread_sigmask(SIG_SETMASK, NULL, ctx);
  return NULL;
}

TEST(a_thread_begins_with_every_signal_blocked) {
  sigset_t before, after, inside;
  pthread_t thread;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  assert_int_equal(tp__thread_spawn(&thread, blocked_signals, &inside), 0);
  pthread_join(thread, NULL);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  assert_true(sigismember(&inside, SIGTERM) && sigismember(&inside, SIGPIPE) && sigismember(&inside, SIGCHLD));
  for (int number = 1; number < 32; number++)
    assert_int_equal(sigismember(&before, number), sigismember(&after, number));
}
