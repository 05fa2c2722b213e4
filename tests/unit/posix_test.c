/* SPDX-License-Identifier: Apache-2.0
 *
 * The seam on a real machine. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "runtime/os/os.h"

static tp_allocator libc;

static int set_up(void **state) {
  (void)state;
  libc = tp__allocator_of(NULL);
  return 0;
}

FOR_ALL_TESTS(set_up, NULL);

/* ---- clocks ---- */

TEST(clock_never_goes_back) {
  int64_t last = tp__now_ns();
  assert_true(last > 0);
  for (int i = 0; i < 100000; i++) {
    int64_t now = tp__now_ns();
    assert_true(now >= last);
    last = now;
  }
}

TEST(wall_clock_is_past_2020) { assert_true(tp__unix_ms() > INT64_C(1577836800000)); }

TEST(deadline_saturates) {
  assert_int_equal(tp__deadline_after_ms(5, 0), 5);
  assert_int_equal(tp__deadline_after_ms(5, 3), 5 + 3 * TP__NS_PER_MS);
  assert_int_equal(tp__deadline_after_ms(5, UINT64_MAX), TP__NEVER);
  assert_int_equal(tp__deadline_after_ms(5, INT64_MAX), TP__NEVER);
  assert_int_equal(tp__deadline_after_ms(5, INT64_MAX / TP__NS_PER_MS + 1), TP__NEVER);
  assert_int_equal(tp__deadline_after_ms(INT64_MAX - 1, 1), TP__NEVER);
  assert_int_equal(tp__deadline_after_ms(0, INT64_MAX / TP__NS_PER_MS), INT64_MAX / TP__NS_PER_MS * TP__NS_PER_MS);
}

/* ---- locks and conditions ---- */

typedef struct counter {
  tp__mutex mutex;
  uint64_t value; /* under mutex, not atomic on purpose */
} counter;

static void add_often(void *arg) {
  counter *c = arg;
  for (int i = 0; i < 10000; i++) {
    tp__mutex_lock(&c->mutex);
    c->value++;
    tp__mutex_unlock(&c->mutex);
  }
}

TEST(mutex_lets_one_in_at_a_time) {
  counter c = {.value = 0};
  tp__thread *threads[4];
  assert_int_equal(tp__mutex_init(&c.mutex, TP__RANK_NONE), TP_OK);
  for (int i = 0; i < 4; i++) assert_int_equal(tp__thread_start(&libc, "adder", add_often, &c, &threads[i]), TP_OK);
  for (int i = 0; i < 4; i++) tp__thread_join(threads[i]);
  assert_int_equal(c.value, 40000);
  tp__mutex_fini(&c.mutex);
}

typedef struct waiting {
  tp__mutex mutex;
  tp__cond cond;
} waiting;

static void start_waiting(waiting *w) {
  assert_int_equal(tp__mutex_init(&w->mutex, TP__RANK_NONE), TP_OK);
  assert_int_equal(tp__cond_init(&w->cond), TP_OK);
}

static void end_waiting(waiting *w) {
  tp__cond_fini(&w->cond);
  tp__mutex_fini(&w->mutex);
}

TEST(wait_ends_at_its_deadline_and_not_before) {
  waiting w;
  start_waiting(&w);
  tp__mutex_lock(&w.mutex);
  int64_t deadline = tp__now_ns() + 20 * TP__NS_PER_MS;
  while (tp__cond_wait_until(&w.cond, &w.mutex, deadline)) {}
  assert_true(tp__now_ns() >= deadline);
  tp__mutex_unlock(&w.mutex);
  end_waiting(&w);
}

TEST(deadline_in_the_past_ends_at_once) {
  static const int64_t past[] = {INT64_MIN, -1, 0, 1};
  waiting w;
  start_waiting(&w);
  tp__mutex_lock(&w.mutex);
  for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
    while (tp__cond_wait_until(&w.cond, &w.mutex, past[i])) {}
    assert_false(tp__cond_wait_until(&w.cond, &w.mutex, past[i]));
  }
  tp__mutex_unlock(&w.mutex);
  end_waiting(&w);
}

typedef struct meeting {
  waiting w;
  int arrived, gone; /* under w.mutex */
  bool open;         /* likewise */
} meeting;

static void wait_for_lock(void *arg) {
  meeting *m = arg;
  tp__mutex_lock(&m->w.mutex);
  m->arrived++;
  tp__cond_broadcast(&m->w.cond);
  while (!m->open) tp__cond_wait_until(&m->w.cond, &m->w.mutex, TP__NEVER);
  m->gone++;
  tp__mutex_unlock(&m->w.mutex);
}

TEST(broadcast_wakes_all) {
  meeting m = {.open = false};
  tp__thread *threads[3];
  start_waiting(&m.w);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tp__thread_start(&libc, "guest", wait_for_lock, &m, &threads[i]), TP_OK);
  }
  tp__mutex_lock(&m.w.mutex);
  while (m.arrived < 3) tp__cond_wait(&m.w.cond, &m.w.mutex);
  m.open = true;
  tp__cond_broadcast(&m.w.cond);
  tp__mutex_unlock(&m.w.mutex);
  for (int i = 0; i < 3; i++) tp__thread_join(threads[i]);
  assert_int_equal(m.gone, 3);
  end_waiting(&m.w);
}

/* Two threads that hand a turn to each other and signal after the mutex is released: a signal between the other
 * thread's check and its sleep must not be lost. */
typedef struct match {
  waiting w;
  int turn; /* under w.mutex */
} match;
enum { HANDOVERS = 100000 };

static void play(match *m, int mine) {
  for (int i = 0; i < HANDOVERS; i++) {
    tp__mutex_lock(&m->w.mutex);
    while (m->turn != mine) tp__cond_wait(&m->w.cond, &m->w.mutex);
    m->turn = !mine;
    tp__mutex_unlock(&m->w.mutex);
    tp__cond_signal(&m->w.cond);
  }
}

static void play_second(void *arg) { play(arg, 1); }

TEST(no_signal_is_lost_before_the_sleep) {
  match m = {.turn = 0};
  tp__thread *second;
  start_waiting(&m.w);
  assert_int_equal(tp__thread_start(&libc, "second", play_second, &m, &second), TP_OK);
  play(&m, 0);
  tp__thread_join(second);
  end_waiting(&m.w);
}

/* ---- parker ---- */

TEST(wakeup_before_the_sleep_is_kept_once) {
  tp__parker parker;
  assert_int_equal(tp__parker_init(&parker), TP_OK);
  tp__parker_unpark(&parker);
  tp__parker_unpark(&parker);
  assert_true(tp__parker_park_until(&parker, TP__NEVER));
  assert_false(tp__parker_park_until(&parker, 0));
  tp__parker_unpark(&parker);
  assert_true(tp__parker_park_until(&parker, 0)); /* a token counts, also at a deadline long past */
  tp__parker_fini(&parker);
}

TEST(park_ends_at_its_deadline) {
  tp__parker parker;
  assert_int_equal(tp__parker_init(&parker), TP_OK);
  int64_t deadline = tp__now_ns() + 10 * TP__NS_PER_MS;
  assert_false(tp__parker_park_until(&parker, deadline));
  assert_true(tp__now_ns() >= deadline);
  tp__parker_fini(&parker);
}

typedef struct ping_pong {
  tp__parker ping, pong;
} ping_pong;

static void answer(void *arg) {
  ping_pong *p = arg;
  for (int i = 0; i < 2000; i++) {
    tp__parker_park_until(&p->ping, TP__NEVER);
    tp__parker_unpark(&p->pong);
  }
}

TEST(two_threads_wake_each_other) {
  ping_pong p;
  tp__thread *thread;
  assert_int_equal(tp__parker_init(&p.ping), TP_OK);
  assert_int_equal(tp__parker_init(&p.pong), TP_OK);
  assert_int_equal(tp__thread_start(&libc, "answer", answer, &p, &thread), TP_OK);
  int woken = 0;
  for (int i = 0; i < 2000; i++) {
    tp__parker_unpark(&p.ping);
    woken += tp__parker_park_until(&p.pong, TP__NEVER);
  }
  tp__thread_join(thread);
  assert_int_equal(woken, 2000);
  tp__parker_fini(&p.pong);
  tp__parker_fini(&p.ping);
}

/* ---- threads ---- */

typedef struct seen {
  char name[16];
  sigset_t mask;
  void *local_at_first, *local_then;
} seen;

static void look_around(void *arg) {
  seen *s = arg;
  pthread_getname_np(pthread_self(), s->name, sizeof s->name);
  pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
  s->local_at_first = tp__here_get()->home;
  tp__here_get()->home = s;
  s->local_then = tp__here_get()->home;
}

TEST(thread_has_its_name_cut_to_fifteen_bytes) {
  static const char *const names[][2] = {{"tp-engine", "tp-engine"}, {"a name of more than 15", "a name of more "}};
  for (int i = 0; i < 2; i++) {
    seen s = {.local_then = NULL};
    tp__thread *thread;
    assert_int_equal(tp__thread_start(&libc, names[i][0], look_around, &s, &thread), TP_OK);
    tp__thread_join(thread);
    assert_string_equal(s.name, names[i][1]);
  }
}

TEST(thread_blocks_all_signals_but_the_synchronous_ones) {
  static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  static const int blocked[] = {SIGINT,  SIGTERM, SIGHUP,  SIGCHLD, SIGPIPE,
                                SIGALRM, SIGUSR1, SIGUSR2, SIGPROF, SIGWINCH};
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, NULL, &before);
  seen s;
  tp__thread *thread;
  assert_int_equal(tp__thread_start(&libc, "masked", look_around, &s, &thread), TP_OK);
  tp__thread_join(thread);
  for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) assert_int_equal(sigismember(&s.mask, open[i]), 0);
  for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) assert_int_equal(sigismember(&s.mask, blocked[i]), 1);
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int signal_number = 1; signal_number < 32; signal_number++) { /* the starter's own mask is as before */
    assert_int_equal(sigismember(&after, signal_number), sigismember(&before, signal_number));
  }
}

TEST(thread_local_pointer_is_one_per_thread) {
  int mine;
  tp__here_get()->home = &mine;
  seen s;
  tp__thread *thread;
  assert_int_equal(tp__thread_start(&libc, "local", look_around, &s, &thread), TP_OK);
  tp__thread_join(thread);
  assert_null(s.local_at_first);
  assert_ptr_equal(s.local_then, &s);
  assert_ptr_equal(tp__here_get()->home, &mine);
  tp__here_get()->home = NULL;
}

/* An allocator whose count says when a detached thread has freed everything. */
static tp__a32 open_blocks;

static void *block_alloc(void *ctx, size_t size) {
  (void)ctx;
  tp__a32_add_acq_rel(&open_blocks, 1); /* pairs with the load in the test */
  return malloc(size);
}

static void block_release(void *ctx, void *memory, size_t size) {
  (void)ctx;
  (void)size;
  free(memory);
  tp__a32_sub_acq_rel(&open_blocks, 1); /* pairs with the load in the test */
}

static void wait_for_the_word(void *arg) { tp__parker_park_until(arg, TP__NEVER); }

TEST(detached_thread_frees_its_part_when_it_ends) {
  tp_allocator counting = {block_alloc, block_release, NULL};
  for (int late = 0; late < 2; late++) { /* detached while it runs, and (most likely) after its end */
    tp__parker parker;
    tp__thread *thread;
    assert_int_equal(tp__parker_init(&parker), TP_OK);
    assert_int_equal(tp__thread_start(&counting, "detached", wait_for_the_word, &parker, &thread), TP_OK);
    assert_int_equal(tp__a32_load_acquire(&open_blocks), 1);
    if (late) tp__parker_unpark(&parker);
    tp__thread_detach(thread);
    if (!late) tp__parker_unpark(&parker);
    while (tp__a32_load_acquire(&open_blocks) > 0) sched_yield(); /* pairs with block_release: it has ended */
    tp__parker_fini(&parker);
  }
}

static void *refusing_alloc(void *ctx, size_t size) {
  (void)ctx;
  (void)size;
  return NULL;
}

TEST(thread_that_gets_no_memory_is_a_clean_error) {
  tp_allocator refusing = {refusing_alloc, block_release, NULL};
  tp__thread *thread = NULL;
  assert_int_equal(tp__thread_start(&refusing, "none", wait_for_the_word, NULL, &thread), TP_ERR_NO_MEMORY);
  assert_null(thread);
}

/* ---- the machine ---- */

TEST(there_is_a_processor) { assert_true(tp__cpu_count() >= 1); }

TEST(random_bytes_fill_the_buffer_and_differ) {
  unsigned char a[1000] = {0}, b[1000] = {0};
  tp__random(a, sizeof a);
  tp__random(b, sizeof b);
  assert_memory_not_equal(a, b, sizeof a);
  size_t zeroes = 0;
  for (size_t i = 0; i < sizeof a; i++) zeroes += a[i] == 0;
  assert_true(zeroes < 50); /* 4 are expected; 50 would not come by chance */
  unsigned char guard[3] = {7, 7, 7};
  tp__random(guard + 1, 0);
  tp__random(guard + 1, 1);
  assert_int_equal(guard[0], 7);
  assert_int_equal(guard[2], 7);
}

TEST(generation_changes_in_a_forked_child_only) {
  uint32_t before = tp__process_generation();
  assert_int_equal(tp__process_generation(), before);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    uint32_t now = tp__process_generation();
    _exit(now != before && tp__process_generation() == now ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(tp__process_generation(), before);
}

TEST(memory_for_ever_is_zeroed_and_aligned) {
  static unsigned char *for_ever;
  for_ever = tp__os_alloc_forever(10000);
  assert_non_null(for_ever);
  assert_int_equal((uintptr_t)for_ever % 64, 0);
  for (size_t i = 0; i < 10000; i++) assert_int_equal(for_ever[i], 0);
  assert_null(tp__os_alloc_forever(SIZE_MAX));
}

/* ---- the order of locks ---- */

TEST(locks_taken_in_rising_rank_are_fine_and_released_in_any_order) {
  tp__held_locks held = {.count = 0};
  tp__held_locks_add(&held, TP__RANK_runtime);
  tp__held_locks_add(&held, TP__RANK_pool);
  tp__held_locks_add(&held, TP__RANK_NONE);
  tp__held_locks_remove(&held, TP__RANK_runtime);
  tp__held_locks_add(&held, TP__RANK_slots);
  tp__held_locks_remove(&held, TP__RANK_pool);
  tp__held_locks_remove(&held, TP__RANK_NONE);
  assert_int_equal(held.count, 1);
  assert_int_equal(held.ranks[0], TP__RANK_slots);
}

TEST(lock_of_a_lower_rank_aborts) {
  pid_t child = fork();
  if (child == 0) {
    tp__held_locks held = {.count = 0};
    close(STDERR_FILENO); /* what assert() prints */
    tp__held_locks_add(&held, TP__RANK_pool);
    tp__held_locks_add(&held, TP__RANK_runtime);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#ifdef TP_CHECKS
typedef struct some_locks {
  tp__mutex runtime, pool;
  tp__cond cond;
} some_locks;

static void take_against_the_rank(some_locks *locks) {
  tp__mutex_lock(&locks->pool);
  tp__mutex_lock(&locks->runtime);
}

static void wait_with_another_lock(some_locks *locks) {
  tp__mutex_lock(&locks->runtime);
  tp__mutex_lock(&locks->pool);
  tp__cond_wait_until(&locks->cond, &locks->pool, 0);
}

static void unlock_in_another_thread(void *arg) { tp__mutex_unlock(&((some_locks *)arg)->pool); }

static void unlock_what_another_thread_holds(some_locks *locks) {
  tp_allocator allocator = tp__allocator_of(NULL);
  tp__thread *thread;
  tp__mutex_lock(&locks->pool);
  if (tp__thread_start(&allocator, "stranger", unlock_in_another_thread, locks, &thread) == TP_OK)
    tp__thread_join(thread);
}

static void call_a_locked_function_without_the_lock(some_locks *locks) { TP__LOCKED(&locks->pool); }

static void take_in_rising_rank(some_locks *locks) {
  tp__mutex_lock(&locks->runtime);
  TP__LOCKED(&locks->runtime);
  tp__mutex_lock(&locks->pool);
  TP__LOCKED(&locks->pool);
  tp__mutex_unlock(&locks->runtime);
  tp__cond_wait_until(&locks->cond, &locks->pool, 0);
  TP__LOCKED(&locks->pool);
  tp__mutex_unlock(&locks->pool);
}

/* @return whether the process was ended by an assertion. */
static bool is_aborted(void (*take)(some_locks *locks)) {
  pid_t child = fork();
  if (child == 0) {
    some_locks locks;
    close(STDERR_FILENO); /* what assert() prints */
    if (tp__mutex_init(&locks.runtime, TP__RANK_runtime) != TP_OK) _exit(1);
    if (tp__mutex_init(&locks.pool, TP__RANK_pool) != TP_OK || tp__cond_init(&locks.cond) != TP_OK) _exit(1);
    take(&locks);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST(mutexes_assert_who_holds_them_and_in_which_order) {
  assert_false(is_aborted(take_in_rising_rank));
  assert_true(is_aborted(take_against_the_rank));
  assert_true(is_aborted(wait_with_another_lock));
  assert_true(is_aborted(unlock_what_another_thread_holds));
  assert_true(is_aborted(call_a_locked_function_without_the_lock));
}
#endif
