/* SPDX-License-Identifier: Apache-2.0
 *
 * A check of the checker: a correct program passes thousands of seeds, and wrong programs are found, each by its known
 * seed. Fibers take notes, the test judges after the run. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "runtime/os/queue.h"
#include "runtime/os/sim.h"

static const tp__sim_policy policies[] = {TP__SIM_RANDOM, TP__SIM_PCT};

static tp__sim_report run_once(uint64_t seed, tp__sim_policy policy, void (*main_of_run)(void *), void *arg) {
  tp__sim_options options = {.seed = seed, .policy = policy};
  return tp__sim_run(&options, main_of_run, arg);
}

/* Starts a thread, or records that it could not: only one test is about such a refusal. */
static tp__thread *start(const char *name, void (*run)(void *), void *arg) {
  tp_allocator allocator = tp__sim_allocator();
  tp__thread *thread = NULL;
  tp_status status = tp__thread_start(&allocator, name, run, arg, &thread);
  return status == TP_OK ? thread : NULL;
}

/* ---- a correct program: a bounded buffer between producers and consumers, with deadlines and an atomic count ---- */

enum { PRODUCERS = 3, CONSUMERS = 2, ITEMS = 6, CAPACITY = 2 };

typedef struct buffer {
  tp__mutex mutex;
  tp__cond changed;
  int in, out, closed; /* under mutex */
  int last[PRODUCERS]; /* likewise */
  bool wrong_order;    /* likewise */
  int slots[PRODUCERS * ITEMS];
  tp__a32 live;
  tp__parker done;
  struct buffer_actor {
    struct buffer *buffer;
    int index;
  } actors[PRODUCERS + CONSUMERS];
} buffer;

static void buffer_produce(void *arg) {
  struct buffer_actor *self = arg;
  buffer *b = self->buffer;
  for (int i = 1; i <= ITEMS; i++) {
    tp__mutex_lock(&b->mutex);
    while (b->in - b->out == CAPACITY) tp__cond_wait_until(&b->changed, &b->mutex, tp__now_ns() + TP__NS_PER_MS);
    b->slots[b->in++] = self->index * 100 + i;
    tp__cond_broadcast(&b->changed);
    tp__mutex_unlock(&b->mutex);
  }
  if (tp__a32_sub_acq_rel(&b->live, 1) == 1) tp__parker_unpark(&b->done);
}

static void buffer_consume(void *arg) {
  struct buffer_actor *self = arg;
  buffer *b = self->buffer;
  tp__mutex_lock(&b->mutex);
  for (;;) {
    while (b->in == b->out && !b->closed) tp__cond_wait(&b->changed, &b->mutex);
    if (b->in == b->out) break;
    int item = b->slots[b->out++];
    if (item % 100 != b->last[item / 100] + 1) b->wrong_order = true;
    b->last[item / 100] = item % 100;
    tp__cond_broadcast(&b->changed);
    tp__mutex_unlock(&b->mutex);
    tp__sim_sleep_ns((int64_t)tp__sim_random(3 * TP__NS_PER_MS));
    tp__mutex_lock(&b->mutex);
  }
  tp__mutex_unlock(&b->mutex);
}

static void buffer_main(void *arg) {
  buffer *b = arg;
  tp__thread *threads[PRODUCERS + CONSUMERS];
  *b = (buffer){.closed = 0};
  tp__mutex_init(&b->mutex, TP__RANK_NONE);
  tp__cond_init(&b->changed);
  tp__parker_init(&b->done);
  tp__a32_store_release(&b->live, PRODUCERS);
  for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
    b->actors[i] = (struct buffer_actor){b, i};
    threads[i] = start("actor", i < PRODUCERS ? buffer_produce : buffer_consume, &b->actors[i]);
  }
  tp__parker_park_until(&b->done, TP__NEVER);
  tp__mutex_lock(&b->mutex);
  b->closed = 1;
  tp__cond_broadcast(&b->changed);
  tp__mutex_unlock(&b->mutex);
  for (int i = 0; i < PRODUCERS + CONSUMERS; i++) tp__thread_join(threads[i]);
  tp__parker_fini(&b->done);
  tp__cond_fini(&b->changed);
  tp__mutex_fini(&b->mutex);
}

/* Sanitizers make each step cost more; the seeds are the same, but fewer. */
static uint64_t seeds(uint64_t count) {
  const char *rounds = getenv("TURNPHASE_ROUNDS");
#if defined(__SANITIZE_THREAD__)
  count /= 10;
#elif defined(__SANITIZE_ADDRESS__)
  count /= 4;
#endif
  return count * (rounds ? strtoull(rounds, NULL, 10) : 1);
}

TEST(right_program_passes_every_seed) {
  for (int p = 0; p < 2; p++) {
    for (uint64_t seed = 1; seed <= seeds(4000); seed++) {
      buffer b;
      tp__sim_report report = run_once(seed, policies[p], buffer_main, &b);
      assert_string_equal(report.message, "");
      assert_int_equal(report.end, TP__SIM_DONE);
      assert_false(b.wrong_order);
      assert_int_equal(b.out, PRODUCERS * ITEMS);
    }
  }
  assert_int_equal(tp__sim_bytes_open(), 0);
}

TEST(same_seed_gives_the_same_run) {
  for (int p = 0; p < 2; p++) {
    for (uint64_t seed = 1; seed <= seeds(400); seed++) {
      buffer b;
      tp__sim_report first = run_once(seed, policies[p], buffer_main, &b);
      tp__sim_report other = run_once(seed + 1000000, policies[p], buffer_main, &b);
      tp__sim_report again = run_once(seed, policies[p], buffer_main, &b);
      assert_int_equal(first.trace_hash, again.trace_hash);
      assert_int_equal(first.steps, again.steps);
      assert_int_equal(first.virtual_ns, again.virtual_ns);
      assert_true(first.trace_hash != other.trace_hash);
    }
  }
}

/* ---- wrong programs ---- */

static uint64_t found(uint64_t count, tp__sim_policy policy, tp__sim_end end, void (*main_of_run)(void *), void *arg) {
  uint64_t hits = 0;
  for (uint64_t seed = 1; seed <= count; seed++) hits += run_once(seed, policy, main_of_run, arg).end == end;
  return hits;
}

/* Every flag is atomic and every order is right, but the wake-up can still be lost: the sleeper looks, then says that
 * it sleeps; the waker sets the flag, then looks for sleepers. Between the sleeper's two steps the wake-up is lost. */
typedef struct flags {
  tp__a32 ready, asleep;
  tp__parker parker;
  bool right;         /* the sleeper says that it sleeps before it looks */
  int64_t timeout_ns; /* how long it sleeps at most; 0: for ever */
  bool overslept;     /* the time ran out, but the flag was set */
} flags;

static void flags_wake(void *arg) {
  flags *f = arg;
  tp__a32_store_release(&f->ready, 1);
  if (tp__a32_add_acq_rel(&f->asleep, 0) == 1) tp__parker_unpark(&f->parker);
}

static void flags_main(void *arg) {
  flags *f = arg;
  tp__parker_init(&f->parker);
  tp__a32_store_release(&f->ready, 0);
  tp__a32_store_release(&f->asleep, 0);
  f->overslept = false;
  tp__thread *waker = start("waker", flags_wake, f);
  if (f->right) tp__a32_add_acq_rel(&f->asleep, 1);
  bool ready = tp__a32_load_acquire(&f->ready) == 1;
  if (!f->right) tp__a32_add_acq_rel(&f->asleep, 1);
  if (!ready) {
    int64_t deadline = f->timeout_ns > 0 ? tp__now_ns() + f->timeout_ns : TP__NEVER;
    if (!tp__parker_park_until(&f->parker, deadline)) f->overslept = tp__a32_load_acquire(&f->ready) == 1;
  }
  tp__thread_join(waker);
  tp__parker_fini(&f->parker);
}

TEST(lost_wakeup_of_atomic_flags_is_found) {
  for (int p = 0; p < 2; p++) {
    flags wrong = {.right = false}, right = {.right = true};
    assert_true(found(500, policies[p], TP__SIM_DEADLOCK, flags_main, &wrong) > 0);
    assert_int_equal(found(500, policies[p], TP__SIM_DONE, flags_main, &right), 500);
  }
}

/* With a deadline nothing hangs; the loss only shows as a sleep that was too long. */
TEST(lost_wakeup_behind_a_deadline_is_found_by_the_oversleep) {
  for (int p = 0; p < 2; p++) {
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
      flags wrong = {.timeout_ns = 10 * TP__NS_PER_MS};
      assert_int_equal(run_once(seed, policies[p], flags_main, &wrong).end, TP__SIM_DONE);
      hits += wrong.overslept;
    }
    assert_true(hits > 0);
  }
}

typedef struct two_locks {
  tp__mutex a, b;
} two_locks;

static void take_b_then_a(void *arg) {
  two_locks *t = arg;
  tp__mutex_lock(&t->b);
  tp__mutex_lock(&t->a);
  tp__mutex_unlock(&t->a);
  tp__mutex_unlock(&t->b);
}

static void two_locks_main(void *arg) {
  two_locks *t = arg;
  tp__mutex_init(&t->a, TP__RANK_NONE);
  tp__mutex_init(&t->b, TP__RANK_NONE);
  tp__thread *other = start("other", take_b_then_a, t);
  tp__mutex_lock(&t->a);
  tp__mutex_lock(&t->b);
  tp__mutex_unlock(&t->b);
  tp__mutex_unlock(&t->a);
  tp__thread_join(other);
}

TEST(lock_inversion_is_found_and_its_trace_names_both) {
  for (int p = 0; p < 2; p++) {
    two_locks t;
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
      tp__sim_report report = run_once(seed, policies[p], two_locks_main, &t);
      if (report.end == TP__SIM_DONE) continue;
      hits++;
      assert_int_equal(report.end, TP__SIM_DEADLOCK);
      assert_non_null(strstr(report.message, "deadlock"));
      assert_non_null(strstr(report.message, "main#0 waits for a lock that other#1 holds"));
      assert_non_null(strstr(report.message, "other#1 waits for a lock that main#0 holds"));
    }
    assert_true(hits > 0 && hits < 500);
  }
}

static void take_against_the_rank(void *arg) {
  two_locks *t = arg;
  tp__mutex_init(&t->a, TP__RANK_runtime);
  tp__mutex_init(&t->b, TP__RANK_pool);
  tp__mutex_lock(&t->b);
  tp__mutex_lock(&t->a);
}

TEST(lock_of_a_lower_rank_aborts_a_run) {
  pid_t child = fork();
  if (child == 0) {
    two_locks t;
    close(STDERR_FILENO); /* what assert() prints */
    run_once(1, TP__SIM_RANDOM, take_against_the_rank, &t);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A worker answers in a few steps, so with a real clock the deadline would never pass in between. Here the caller gives
 * up at the deadline and uses the slot for something else, and the late answer lands there. */
typedef struct slot {
  tp__a32 word;
  tp__parker parker;
  bool spoiled;
} slot;

static void answer_late(void *arg) {
  slot *s = arg;
  tp__a32_store_release(&s->word, 1); /* the bug: no compare-and-swap against the caller's deadline */
  tp__parker_unpark(&s->parker);
}

static void slot_main(void *arg) {
  slot *s = arg;
  tp__parker_init(&s->parker);
  tp__a32_store_release(&s->word, 0);
  tp__thread *worker = start("worker", answer_late, s);
  bool in_time = tp__parker_park_until(&s->parker, tp__now_ns() + 1000 * (int64_t)TP__NS_PER_MS);
  if (!in_time) tp__a32_store_release(&s->word, 2); /* used again */
  tp__thread_join(worker);
  s->spoiled = !in_time && tp__a32_load_acquire(&s->word) != 2;
  tp__parker_fini(&s->parker);
}

static uint64_t spoiled_slots(uint32_t clock_jump_inverse, tp__sim_policy policy) {
  uint64_t hits = 0;
  for (uint64_t seed = 1; seed <= 1000; seed++) {
    slot s;
    tp__sim_options options = {.seed = seed, .policy = policy, .clock_jump_inverse = clock_jump_inverse};
    assert_int_equal(tp__sim_run(&options, slot_main, &s).end, TP__SIM_DONE);
    hits += s.spoiled;
  }
  return hits;
}

TEST(late_answer_is_found_because_the_clock_jumps_while_work_is_runnable) {
  for (int p = 0; p < 2; p++) {
    assert_int_equal(spoiled_slots(UINT32_MAX, policies[p]), 0);
    assert_true(spoiled_slots(0, policies[p]) > 0);
  }
}

static void spin_for_nothing(void *arg) {
  tp__a32 *never = arg;
  while (tp__a32_load_acquire(never) == 0) {}
}

static void livelock_main(void *arg) {
  tp__a32_store_release(arg, 0);
  tp__thread_join(start("spinner", spin_for_nothing, arg));
}

TEST(endless_spinning_is_given_up) {
  for (int p = 0; p < 2; p++) {
    tp__a32 never;
    tp__sim_options options = {.seed = 1, .policy = policies[p], .steps_max = 10000};
    tp__sim_report report = tp__sim_run(&options, livelock_main, &never);
    assert_int_equal(report.end, TP__SIM_LIVELOCK);
    assert_non_null(strstr(report.message, "livelock"));
    assert_non_null(strstr(report.message, "spinner#1 can run"));
    assert_non_null(strstr(report.message, "main#0 joins a thread"));
  }
}

static void set_flag(void *arg) { tp__a32_store_release(arg, 1); }

static void spin_main(void *arg) {
  tp__a32_store_release(arg, 0);
  tp__thread *setter = start("setter", set_flag, arg);
  spin_for_nothing(arg);
  tp__thread_join(setter);
}

TEST(spinner_does_not_starve_the_one_it_waits_for) {
  for (int p = 0; p < 2; p++) {
    tp__a32 flag;
    assert_int_equal(found(200, policies[p], TP__SIM_DONE, spin_main, &flag), 200);
  }
}

/* ---- ends ---- */

static void wait_for_ever(void *arg) { tp__parker_park_until(arg, TP__NEVER); }

static void leaving_main(void *arg) {
  tp__parker_init(arg);
  tp__thread_detach(start("sleeper", wait_for_ever, arg));
}

TEST(thread_that_main_leaves_waiting_is_reported) {
  for (int p = 0; p < 2; p++) {
    tp__parker parker;
    tp__sim_report report = run_once(3, policies[p], leaving_main, &parker);
    assert_int_equal(report.end, TP__SIM_LEFT);
    assert_non_null(strstr(report.message, "sleeper#1 waits on a condition"));
  }
}

typedef struct helper {
  int rounds;
} helper;

static void work_a_while(void *arg) {
  helper *h = arg;
  for (int i = 0; i < 10; i++) {
    tp__sim_sleep_ns(TP__NS_PER_MS);
    h->rounds++;
  }
}

static void detaching_main(void *arg) { tp__thread_detach(start("helper", work_a_while, arg)); }

TEST(detached_thread_runs_to_its_end_after_main) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    helper h = {0};
    tp__sim_report report = run_once(seed, policies[seed % 2], detaching_main, &h);
    assert_int_equal(report.end, TP__SIM_DONE);
    assert_int_equal(h.rounds, 10);
  }
  assert_int_equal(tp__sim_bytes_open(), 0);
}

static void empty_main(void *arg) { (void)arg; }

TEST(nothing_to_do_is_done_at_once) {
  tp__sim_report report = run_once(0, TP__SIM_RANDOM, empty_main, NULL);
  assert_int_equal(report.end, TP__SIM_DONE);
  assert_string_equal(report.message, "");
}

/* ---- what a broken run leaves behind ---- */

static tp__mutex lasting_lock; /* as a lock in static memory that outlives every run */

typedef struct heir {
  bool entered;
  void *memory;
} heir;

static void hold_and_hang(void *arg) {
  heir *h = arg;
  tp_allocator allocator = tp__sim_allocator();
  tp__parker parker;
  tp__parker_init(&parker);
  h->memory = tp__alloc(&allocator, 1000);
  tp__mutex_lock(&lasting_lock);
  tp__parker_park_until(&parker, TP__NEVER);
}

static void enter(void *arg) {
  heir *h = arg;
  tp__mutex_lock(&lasting_lock);
  h->entered = true;
  tp__mutex_unlock(&lasting_lock);
}

TEST(run_after_a_broken_one_starts_clean) {
  heir h = {false, NULL};
  assert_int_equal(tp__mutex_init(&lasting_lock, TP__RANK_NONE), TP_OK);
  assert_int_equal(run_once(1, TP__SIM_RANDOM, hold_and_hang, &h).end, TP__SIM_DEADLOCK);
  assert_non_null(h.memory);
  assert_int_equal(tp__sim_bytes_open(), 1000); /* until the next run */
  assert_int_equal(run_once(1, TP__SIM_RANDOM, enter, &h).end, TP__SIM_DONE);
  assert_true(h.entered);
  assert_int_equal(tp__sim_bytes_open(), 0);
  tp__mutex_fini(&lasting_lock);
}

static void *lasting_memory;
static int resets;

static void count_reset(void) {
  lasting_memory = NULL;
  resets++;
}

static void use_lasting_memory(void *arg) {
  bool *was_fresh = arg;
  *was_fresh = lasting_memory == NULL;
  if (!lasting_memory) lasting_memory = tp__os_alloc_forever(100);
}

TEST(static_memory_is_cleared_between_runs) {
  bool fresh = false;
  tp__sim_on_clear(count_reset);
  for (int i = 1; i <= 3; i++) {
    assert_int_equal(run_once(1, TP__SIM_RANDOM, use_lasting_memory, &fresh).end, TP__SIM_DONE);
    assert_true(fresh);
    assert_non_null(lasting_memory);
    assert_int_equal(resets, i);
  }
  assert_int_equal(run_once(1, TP__SIM_RANDOM, empty_main, NULL).end, TP__SIM_DONE); /* frees the last one */
  tp__sim_on_clear(NULL);
}

/* ---- time ---- */

typedef struct times {
  int64_t before, after, unix_before, unix_after;
  bool ran_out, went_back;
} times;

static void sleep_an_hour(void *arg) {
  times *t = arg;
  t->unix_before = tp__unix_ms();
  t->before = tp__now_ns();
  tp__sim_sleep_ns(INT64_C(3600) * 1000 * TP__NS_PER_MS);
  t->after = tp__now_ns();
  t->unix_after = tp__unix_ms();
}

TEST(an_hour_passes_in_a_few_steps) {
  times t;
  tp__sim_report report = run_once(1, TP__SIM_RANDOM, sleep_an_hour, &t);
  assert_int_equal(report.end, TP__SIM_DONE);
  assert_true(report.steps < 20);
  assert_in_range(t.after - t.before, INT64_C(3600) * 1000 * TP__NS_PER_MS, INT64_C(3601) * 1000 * TP__NS_PER_MS);
  assert_in_range(t.unix_after - t.unix_before, 3600 * 1000, 3601 * 1000);
  assert_true(report.virtual_ns >= INT64_C(3600) * 1000 * TP__NS_PER_MS);
}

static void read_clocks(void *arg) {
  times *t = arg;
  *t = (times){.before = tp__now_ns()};
  for (int i = 0; i < 1000; i++) {
    t->after = tp__now_ns();
    if (t->after <= t->before) t->went_back = true;
    t->before = t->after;
  }
}

TEST(each_reading_of_the_clock_is_later) {
  times t;
  assert_int_equal(run_once(1, TP__SIM_RANDOM, read_clocks, &t).end, TP__SIM_DONE);
  assert_false(t.went_back);
}

static void wait_on_nothing(void *arg) {
  times *t = arg;
  tp__mutex mutex;
  tp__cond cond;
  tp__mutex_init(&mutex, TP__RANK_NONE);
  tp__cond_init(&cond);
  tp__mutex_lock(&mutex);
  t->before = tp__now_ns() + 50 * TP__NS_PER_MS;
  while (tp__cond_wait_until(&cond, &mutex, t->before)) {}
  t->after = tp__now_ns();
  tp__mutex_unlock(&mutex);
  tp__cond_fini(&cond);
  tp__mutex_fini(&mutex);
}

TEST(timed_wait_ends_at_its_deadline_to_the_step) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    times t;
    assert_int_equal(run_once(seed, policies[seed % 2], wait_on_nothing, &t).end, TP__SIM_DONE);
    assert_in_range(t.after - t.before, 0, 1000);
  }
}

static void wait_past_the_end_of_time(void *arg) {
  tp__parker *parker = arg;
  tp__parker_init(parker);
  tp__parker_park_until(parker, TP__NEVER - 1);
}

TEST(deadline_at_the_end_of_time_is_never) {
  tp__parker parker;
  assert_int_equal(run_once(1, TP__SIM_RANDOM, wait_past_the_end_of_time, &parker).end, TP__SIM_DEADLOCK);
}

static void jump_the_wall(void *arg) {
  times *t = arg;
  const int64_t ten_years_ms = INT64_C(10) * 365 * 86400 * 1000;
  tp__parker parker;
  tp__parker_init(&parker);
  t->unix_before = tp__unix_ms();
  t->before = tp__now_ns();
  tp__sim_wall_jump_ms(ten_years_ms);
  t->unix_after = tp__unix_ms();
  tp__parker_park_until(&parker, t->before + TP__NS_PER_MS);
  t->after = tp__now_ns();
  tp__sim_wall_jump_ms(-2 * ten_years_ms);
  t->went_back = tp__unix_ms() < t->unix_before;
  tp__parker_fini(&parker);
}

TEST(wall_clock_jumps_move_no_deadline) {
  times t;
  assert_int_equal(run_once(1, TP__SIM_RANDOM, jump_the_wall, &t).end, TP__SIM_DONE);
  assert_true(t.unix_after - t.unix_before > INT64_C(9) * 365 * 86400 * 1000);
  assert_in_range(t.after - t.before, TP__NS_PER_MS, 2 * TP__NS_PER_MS);
  assert_true(t.went_back);
}

/* ---- waking ---- */

typedef struct session_work {
  tp__mutex mutex;
  tp__cond cond;
  int waiting, woken; /* under mutex */
  int early;          /* spurious returns of wait; likewise */
  int order[4];       /* who woke first, second, …; likewise */
  bool go;            /* likewise */
  struct member {
    struct session_work *session_work;
    int index;
  } members[4];
} session_work;

static void join_the_session_work(void *arg) {
  struct member *self = arg;
  session_work *c = self->session_work;
  tp__mutex_lock(&c->mutex);
  c->waiting++;
  tp__cond_broadcast(&c->cond);
  for (;;) {
    tp__cond_wait(&c->cond, &c->mutex);
    if (c->go) break;
    c->early++;
  }
  c->order[c->woken++] = self->index;
  tp__mutex_unlock(&c->mutex);
}

static void session_work_main(void *arg) {
  session_work *c = arg;
  *c = (session_work){.go = false};
  tp__mutex_init(&c->mutex, TP__RANK_NONE);
  tp__cond_init(&c->cond);
  tp__thread *threads[4];
  for (int i = 0; i < 4; i++) {
    c->members[i] = (struct member){c, i};
    threads[i] = start("member", join_the_session_work, &c->members[i]);
  }
  tp__mutex_lock(&c->mutex);
  while (c->waiting < 4) tp__cond_wait(&c->cond, &c->mutex);
  c->go = true;
  tp__cond_broadcast(&c->cond);
  tp__mutex_unlock(&c->mutex);
  for (int i = 0; i < 4; i++) tp__thread_join(threads[i]);
  tp__cond_fini(&c->cond);
  tp__mutex_fini(&c->mutex);
}

TEST(broadcast_wakes_all_in_every_order) {
  for (int p = 0; p < 2; p++) {
    bool first[4] = {false};
    for (uint64_t seed = 1; seed <= 300; seed++) {
      session_work c;
      assert_int_equal(run_once(seed, policies[p], session_work_main, &c).end, TP__SIM_DONE);
      assert_int_equal(c.woken, 4);
      first[c.order[0]] = true;
    }
    for (int i = 0; i < 4; i++) assert_true(first[i]);
  }
}

typedef struct early {
  tp__mutex mutex;
  tp__cond cond;
  bool set; /* under mutex */
  int early_returns;
} early;

static void set_late(void *arg) {
  early *e = arg;
  tp__sim_sleep_ns(TP__NS_PER_MS);
  tp__mutex_lock(&e->mutex);
  e->set = true;
  tp__cond_signal(&e->cond);
  tp__mutex_unlock(&e->mutex);
}

static void early_main(void *arg) {
  early *e = arg;
  e->set = false;
  tp__mutex_init(&e->mutex, TP__RANK_NONE);
  tp__cond_init(&e->cond);
  tp__thread *setter = start("setter", set_late, e);
  tp__mutex_lock(&e->mutex);
  while (!e->set) {
    tp__cond_wait(&e->cond, &e->mutex);
    e->early_returns += !e->set;
  }
  tp__mutex_unlock(&e->mutex);
  tp__thread_join(setter);
  tp__cond_fini(&e->cond);
  tp__mutex_fini(&e->mutex);
}

TEST(waits_return_early_now_and_then) {
  early e = {.early_returns = 0};
  assert_int_equal(found(1000, TP__SIM_RANDOM, TP__SIM_DONE, early_main, &e), 1000);
  assert_in_range(e.early_returns, 5, 100);
}

/* ---- threads ---- */

typedef struct locals {
  void *seen[2];
  void *of_main;
} locals;

static void set_local(void *arg) {
  void **place = arg;
  tp__here_get()->home = place;
  tp__sim_sleep_ns(TP__NS_PER_MS);
  *place = tp__here_get()->home;
}

static void locals_main(void *arg) {
  locals *l = arg;
  int mine;
  tp__here_get()->home = &mine;
  tp__thread *a = start("a", set_local, &l->seen[0]), *b = start("b", set_local, &l->seen[1]);
  tp__thread_join(a);
  tp__thread_join(b);
  l->of_main = tp__here_get()->home == &mine ? l : NULL;
}

TEST(each_fiber_has_its_own_local_pointer) {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    locals l;
    assert_int_equal(run_once(seed, policies[seed % 2], locals_main, &l).end, TP__SIM_DONE);
    assert_ptr_equal(l.seen[0], &l.seen[0]);
    assert_ptr_equal(l.seen[1], &l.seen[1]);
    assert_ptr_equal(l.of_main, &l);
  }
}

typedef struct refusals {
  int refused, started, refused_off, no_memory;
} refusals;

static void start_many(void *arg) {
  refusals *r = arg;
  tp_allocator allocator = tp__sim_allocator();
  for (int i = 0; i < 100; i++) {
    tp__thread *thread;
    tp__sim_refusals(i < 50);
    tp_status status = tp__thread_start(&allocator, "maybe", empty_main, NULL, &thread);
    if (status == TP_OK) tp__thread_join(thread);
    r->started += status == TP_OK;
    r->refused += status == TP_ERR_NO_THREAD;
    r->no_memory += status == TP_ERR_NO_MEMORY;
    r->refused_off += i >= 50 && status != TP_OK;
  }
}

TEST(thread_starts_are_refused_as_asked) {
  refusals r = {0};
  tp__sim_options options = {.seed = 1, .thread_refuse_inverse = 5, .alloc_refuse_inverse = 5};
  assert_int_equal(tp__sim_run(&options, start_many, &r).end, TP__SIM_DONE);
  assert_true(r.refused > 0);
  assert_true(r.no_memory > 0);
  assert_int_equal(r.refused_off, 0);
  assert_int_equal(r.started + r.refused + r.no_memory, 100);
  assert_int_equal(tp__sim_bytes_open(), 0);
}

static void gather(void *arg) {
  tp__parker *parker = arg;
  tp__parker_park_until(parker, TP__NEVER);
  tp__parker_unpark(parker);
}

typedef struct horde {
  tp__parker parker;
  uint32_t started;
} horde;

static void horde_main(void *arg) {
  horde *h = arg;
  tp_allocator allocator = tp__sim_allocator();
  tp__thread *thread;
  tp__parker_init(&h->parker);
  h->started = 0;
  while (tp__thread_start(&allocator, "one of many", gather, &h->parker, &thread) == TP_OK) {
    tp__thread_detach(thread);
    h->started++;
  }
  tp__parker_unpark(&h->parker); /* each passes it on */
}

TEST(too_many_threads_are_refused_and_the_others_end) {
  horde h;
  tp__sim_report report = run_once(1, TP__SIM_RANDOM, horde_main, &h);
  assert_string_equal(report.message, "");
  assert_int_equal(report.end, TP__SIM_DONE);
  assert_int_equal(h.started, 1023); /* and main */
  assert_int_equal(tp__sim_bytes_open(), 0);
}

static uint32_t fill_stack(uint32_t depth) {
  volatile char frame[1000];
  frame[depth % sizeof frame] = (char)depth;
  return depth == 0 ? 0 : fill_stack(depth - 1) + (uint32_t)(frame[depth % sizeof frame] == (char)depth);
}

static void go_deep(void *arg) { *(uint32_t *)arg = fill_stack(60); }

TEST(fiber_has_room_for_real_work) {
  uint32_t depth = 0;
  assert_int_equal(run_once(1, TP__SIM_RANDOM, go_deep, &depth).end, TP__SIM_DONE);
  assert_int_equal(depth, 60);
}

/* ---- memory, randomness, queue ---- */

typedef struct requests {
  int given, refused;
  unsigned char bytes[32];
  uint64_t numbers[4];
} requests;

static void ask_for_memory(void *arg) {
  requests *r = arg;
  tp_allocator allocator = tp__sim_allocator();
  for (size_t i = 0; i < 1000; i++) {
    void *memory = tp__alloc(&allocator, i % 100);
    if (memory) r->given++;
    else r->refused++;
    tp__release(&allocator, memory, i % 100);
  }
  tp__random(r->bytes, sizeof r->bytes);
  for (int i = 0; i < 4; i++) r->numbers[i] = tp__sim_random(1000);
}

static requests ask(uint64_t seed, uint32_t inverse) {
  requests r = {.given = 0};
  tp__sim_options options = {.seed = seed, .alloc_refuse_inverse = inverse};
  tp__sim_report report = tp__sim_run(&options, ask_for_memory, &r);
  assert_int_equal(report.end, TP__SIM_DONE);
  return r;
}

TEST(memory_is_refused_as_asked_and_counted) {
  assert_int_equal(ask(1, 0).refused, 0);
  requests r = ask(1, 10);
  assert_in_range(r.refused, 50, 200);
  assert_int_equal(r.given + r.refused, 1000);
  assert_int_equal(tp__sim_bytes_open(), 0);
  tp_allocator allocator = tp__sim_allocator();
  void *memory = tp__alloc(&allocator, 77);
  assert_int_equal(tp__sim_bytes_open(), 77);
  tp__release(&allocator, memory, 77);
}

TEST(randomness_comes_from_the_seed) {
  requests a = ask(1, 10), b = ask(1, 10), c = ask(2, 10);
  assert_memory_equal(&a, &b, sizeof a);
  assert_memory_not_equal(a.bytes, c.bytes, sizeof a.bytes);
  for (int i = 0; i < 4; i++) assert_true(a.numbers[i] < 1000);
}

typedef struct line {
  tp__queue_mpmc *queue;
  int items[20];
  int seen[20];
  tp__a32 taken;
} line;

static void line_up(void *arg) {
  line *l = arg;
  for (int i = 0; i < 20; i++) {
    while (!tp__queue_mpmc_push(l->queue, &l->items[i])) tp__sim_sleep_ns(1);
  }
}

static void serve(void *arg) {
  line *l = arg;
  while (tp__a32_load_acquire(&l->taken) < 20) {
    int *item = tp__queue_mpmc_pop(l->queue);
    if (!item) {
      tp__sim_sleep_ns(1);
      continue;
    }
    l->seen[item - l->items]++;
    tp__a32_add_acq_rel(&l->taken, 1);
  }
}

static void line_main(void *arg) {
  line *l = arg;
  tp_allocator allocator = tp__sim_allocator();
  *l = (line){.queue = NULL};
  if (tp__queue_mpmc_new(&allocator, 3, &l->queue) != TP_OK) return;
  tp__thread *a = start("producer", line_up, l), *b = start("one", serve, l), *c = start("two", serve, l);
  tp__thread_join(a);
  tp__thread_join(b);
  tp__thread_join(c);
  tp__queue_mpmc_free(l->queue);
}

TEST(queue_delivers_each_item_once) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    line l;
    assert_int_equal(run_once(seed, policies[seed % 2], line_main, &l).end, TP__SIM_DONE);
    for (int i = 0; i < 20; i++) assert_int_equal(l.seen[i], 1);
  }
}

/* ---- outside of a run ---- */

TEST(seam_works_uncontended_outside_of_a_run) {
  tp__mutex mutex;
  tp__cond cond;
  tp__parker parker;
  assert_int_equal(tp__mutex_init(&mutex, TP__RANK_NONE), TP_OK);
  assert_int_equal(tp__cond_init(&cond), TP_OK);
  assert_int_equal(tp__parker_init(&parker), TP_OK);
  tp__sim_point();
  tp__mutex_lock(&mutex);
  tp__cond_signal(&cond);
  int64_t deadline = tp__now_ns() + TP__NS_PER_MS;
  assert_false(tp__cond_wait_until(&cond, &mutex, deadline));
  assert_true(tp__now_ns() >= deadline);
  tp__mutex_unlock(&mutex);
  tp__parker_unpark(&parker);
  assert_true(tp__parker_park_until(&parker, TP__NEVER));
  assert_false(tp__parker_park_until(&parker, tp__now_ns() + 1));
  tp__parker_fini(&parker);
  tp__cond_fini(&cond);
  tp__mutex_fini(&mutex);
}

TEST(no_thread_starts_outside_of_a_run) {
  assert_null(start("none", empty_main, NULL));
  assert_int_equal(tp__sim_bytes_open(), 0);
  tp__here_get()->home = &lasting_lock;
  assert_ptr_equal(tp__here_get()->home, &lasting_lock);
  tp__here_get()->home = NULL;
  assert_int_equal(tp__process_generation(), tp__process_generation());
}
