/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime/sched without a runtime and without a turn: one owner, timers, attempts on handler threads, tokens, permits,
 * and the state after a stop. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "runtime/sched/attempt.h"
#include "runtime/sched/sched.h"

enum { WAITERS = 3, ROUNDS = 200, SECOND_MS = 1000 };

static int64_t in_ms(int64_t ms) { return tp__now_ns() + ms * TP__NS_PER_MS; }

/* ---- a sched and a strand of its own ---- */

typedef struct host {
  tp_allocator allocator;
  tp__sched sched;
  uint32_t exhausted; /* how many functions were abandoned when the threads were */
} host;

static void on_exhausted(const void *owner, uint32_t abandoned) { ((host *)(uintptr_t)owner)->exhausted = abandoned; }

static void open_host(host *h, const tp__sched_options *chosen) {
  *h = (host){.allocator = tp__allocator_of(NULL)};
  tp__sched_options options = {.handler_threads = 4, .abandoned_max = 4, .tokens_max = 8};
  if (chosen) options = *chosen;
  options.owner = h;
  options.allocator = &h->allocator;
  options.workers = 2;
  options.strands_max = 64;
  options.layer_threads = options.detached_threads = options.handler_threads;
  options.on_exhausted = on_exhausted;
  assert_int_equal(tp__sched_init(&h->sched, &options), TP_OK);
  assert_int_equal(tp__sched_start(&h->sched), TP_OK);
}

static void close_host(host *h) {
  tp__sched_stop(&h->sched);
  while (tp__pool_leaks(&h->sched.pool, NULL, NULL) > 0) sched_yield(); /* abandoned functions return */
  assert_int_equal(tp__pool_stop(&h->sched.pool), 0);
  tp__attempts_end_abandoned(&h->sched);
  assert_int_equal(tp__a32_load_acquire(&h->sched.tokens_open), 0);
  tp__sched_fini(&h->sched);
}

static tp__strand *new_strand(host *h) {
  tp__strand *strand = calloc(1, sizeof *strand);
  tp__strand_init(strand, &h->sched, true);
  return strand;
}

/* Its memory may be used by the worker that runs it until then. */
static void end_strand(tp__strand *strand) { free(strand); }

static void close_strand(tp__strand *strand) {
  strand->end = end_strand;
  tp__strand_run(strand);
}

/* ---- attempts ---- */

typedef struct work {
  tp__attempt base;
  sem_t called, may_return;
  bool blocks, defers, done;
  tp__attempt_end end;
  tp_answer answer;
  tp_reason refusal;
  tp_token token;
  int lates, releases, cancels;
  void *doing; /* what the thread of the function is inside of */
} work;

static work *work_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, work, base); }

static void note_cancel(void *ctx) { ((work *)ctx)->cancels++; }

static tp__answer call(tp__attempt *attempt) {
  work *w = work_of(attempt);
  w->doing = tp__inside_doing();
  if (w->defers) {
    tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = note_cancel, .ctx = w};
    assert_int_equal(tp__attempt_defer(attempt, &deferral, &w->token), TP_OK);
  }
  sem_post(&w->called);
  if (w->blocks) sem_wait(&w->may_return);
  return (tp__answer){.kind = w->defers ? TP_ANSWER_DEFERRED : TP_ANSWER_DONE};
}

static void settled(tp__attempt *attempt, tp__attempt_end end) {
  work *w = work_of(attempt);
  w->done = true;
  w->end = end;
  w->answer = attempt->answer.kind;
  w->refusal = attempt->refusal;
  tp__attempt_unref(attempt);
}

static void late(tp__attempt *attempt, int64_t now_ns) {
  (void)now_ns;
  work_of(attempt)->lates++;
}

static void release(tp__attempt *attempt) { work_of(attempt)->releases++; }

static const tp__attempt_class work_class = {
    .what = "work", .call = call, .settled = settled, .late = late, .release = release};

static void init_work(work *w, tp__strand *strand, tp__permits *permits, uint32_t permits_max) {
  sem_init(&w->called, 0, 0);
  sem_init(&w->may_return, 0, 0);
  assert_int_equal(tp__attempt_init(&w->base, &work_class, strand), TP_OK);
  w->base.pool_item.permits = permits;
  w->base.pool_item.permits_max = permits_max;
  w->base.pool_item.name = "work";
}

static void fini_work(work *w) {
  assert_int_equal(w->releases, 1);
  sem_destroy(&w->called);
  sem_destroy(&w->may_return);
}

TEST(answer_comes_to_the_owner) {
  host h;
  open_host(&h, NULL);
  tp__strand *strand = new_strand(&h);
  work w = {0};
  init_work(&w, strand, NULL, 0);
  assert_int_equal(tp__attempt_start(&w.base, in_ms(60 * SECOND_MS), 0), TP_REASON_NONE);
  tp__strand_wait(strand, &w.done);
  assert_int_equal(w.end, TP__ANSWERED);
  assert_int_equal(w.answer, TP_ANSWER_DONE);
  assert_ptr_equal(w.doing, TP__THREAD_HANDLER);
  close_strand(strand);
  close_host(&h);
  fini_work(&w);
}

TEST(attempt_that_hangs_expires_and_its_answer_is_late) {
  host h;
  open_host(&h, NULL);
  tp__strand *strand = new_strand(&h);
  work w = {.blocks = true};
  init_work(&w, strand, NULL, 0);
  assert_int_equal(tp__attempt_start(&w.base, in_ms(5), 0), TP_REASON_NONE);
  sem_wait(&w.called);
  tp__strand_wait(strand, &w.done);
  assert_int_equal(w.end, TP__EXPIRED);
  assert_int_equal(w.releases, 0); /* its function has it */
  assert_int_equal(tp__pool_leaks(&h.sched.pool, NULL, NULL), 1);
  sem_post(&w.may_return);
  close_strand(strand);
  close_host(&h);
  assert_int_equal(w.lates, 1);
  fini_work(&w);
}

TEST(token_is_completed_once) {
  host h;
  open_host(&h, NULL);
  tp__strand *strand = new_strand(&h);
  work w = {.defers = true};
  init_work(&w, strand, NULL, 0);
  assert_int_equal(tp__attempt_start(&w.base, in_ms(60 * SECOND_MS), 0), TP_REASON_NONE);
  sem_wait(&w.called);
  assert_true(tp_token_open(w.token));
  tp__answer answer = {.kind = TP_ANSWER_ALLOW};
  static const tp__attempt_class other = {.what = "other"};
  assert_int_equal(tp__token_answer(w.token, &other, &answer, NULL, NULL), TP_ERR_USAGE);
  assert_int_equal(tp__token_answer(w.token, &work_class, &answer, NULL, NULL), TP_OK);
  assert_int_equal(tp__token_answer(w.token, &work_class, &answer, NULL, NULL), TP_ERR_STALE);
  tp__strand_wait(strand, &w.done);
  assert_int_equal(w.end, TP__ANSWERED);
  assert_int_equal(w.answer, TP_ANSWER_ALLOW);
  assert_int_equal(w.cancels, 0);
  close_strand(strand);
  close_host(&h);
  fini_work(&w);
}

TEST(token_of_an_expired_attempt_is_stale_and_cancelled_once) {
  host h;
  open_host(&h, NULL);
  tp__strand *strand = new_strand(&h);
  work w = {.defers = true};
  init_work(&w, strand, NULL, 0);
  assert_int_equal(tp__attempt_start(&w.base, in_ms(5), 0), TP_REASON_NONE);
  sem_wait(&w.called);
  tp__strand_wait(strand, &w.done);
  assert_int_equal(w.end, TP__EXPIRED);
  assert_int_equal(w.cancels, 1);
  assert_int_equal(tp__a32_load_acquire(&h.sched.tokens_open), 1);
  assert_int_equal(tp__token_answer(w.token, &work_class, &(tp__answer){.kind = TP_ANSWER_DONE}, NULL, NULL),
                   TP_ERR_STALE);
  assert_int_equal(w.lates, 1);
  assert_int_equal(tp__a32_load_acquire(&h.sched.tokens_open), 0);
  close_strand(strand);
  close_host(&h);
  fini_work(&w);
}

TEST(permit_is_waited_for_in_line) {
  host h;
  open_host(&h, NULL);
  tp__strand *strand = new_strand(&h);
  tp__permits permits;
  tp__permits_init(&permits);
  work first = {.blocks = true}, second = {0};
  init_work(&first, strand, &permits, 1);
  init_work(&second, strand, &permits, 1);
  assert_int_equal(tp__attempt_start(&first.base, in_ms(60 * SECOND_MS), 0), TP_REASON_NONE);
  assert_int_equal(tp__attempt_start(&second.base, in_ms(60 * SECOND_MS), 0), TP_REASON_NONE);
  sem_wait(&first.called);
  assert_int_equal(tp__pool_waiting_count(&h.sched.pool), 1);
  sem_post(&first.may_return);
  tp__strand_wait(strand, &second.done);
  tp__strand_wait(strand, &first.done);
  assert_int_equal(sem_trywait(&second.called), 0);
  close_strand(strand);
  close_host(&h);
  fini_work(&first);
  fini_work(&second);
}

TEST(work_is_refused_when_every_thread_is_held_by_abandoned_functions) {
  host h;
  open_host(&h, &(tp__sched_options){.handler_threads = 1, .abandoned_max = 0, .tokens_max = 8});
  tp__pool_set_abandoned_max(&h.sched.pool, 0);
  tp__strand *strand = new_strand(&h);
  work hung = {.blocks = true}, next = {0};
  init_work(&hung, strand, NULL, 0);
  init_work(&next, strand, NULL, 0);
  assert_int_equal(tp__attempt_start(&hung.base, in_ms(5), 0), TP_REASON_NONE);
  sem_wait(&hung.called);
  tp__strand_wait(strand, &hung.done);
  assert_int_equal(tp__attempt_start(&next.base, in_ms(60 * SECOND_MS), 0), TP_REASON_NO_WORKER);
  assert_int_equal(h.exhausted, 1);
  assert_true(tp__pool_is_exhausted(&h.sched.pool));
  tp__attempt_unref(&next.base); /* nothing more comes of it: the owner's reference */
  sem_post(&hung.may_return);
  close_strand(strand);
  close_host(&h);
  fini_work(&hung);
  fini_work(&next);
}

/* ---- one owner ---- */

typedef struct wanted {
  tp__strand strand;
  int owners; /* so many threads were the owner, one after the other */
} wanted;

static void *own_for_a_moment(void *arg) {
  wanted *w = arg;
  tp__strand_acquire(&w->strand);
  w->owners++;
  tp__strand_leave_to_workers(&w->strand);
  return NULL;
}

static int waiting(wanted *w) {
  int count = 0;
  for (tp__message *m = tp__aptr_load_acquire(&w->strand.inbox); m; m = m->next) count++;
  return count;
}

TEST(every_thread_that_waits_becomes_the_owner) {
  host h;
  open_host(&h, NULL);
  for (int round = 0; round < ROUNDS; round++) {
    wanted w = {.owners = 0};
    pthread_t threads[WAITERS];
    tp__strand_init(&w.strand, &h.sched, true);
    for (int i = 0; i < WAITERS; i++) pthread_create(&threads[i], NULL, own_for_a_moment, &w);
    while (waiting(&w) < WAITERS) sched_yield();
    tp__strand_leave(&w.strand);
    for (int i = 0; i < WAITERS; i++) pthread_join(threads[i], NULL);
    tp__strand_acquire(&w.strand); /* so that no worker has it any more */
    assert_int_equal(w.owners, WAITERS);
  }
  close_host(&h);
}

/* ---- what has expired, and what comes at the end ---- */

typedef struct alarm_clock {
  tp__timer_entry timer;
  sem_t fired;
  void *doing;
} alarm_clock;

static void ring(tp__timer_entry *timer, int64_t now_ns) {
  alarm_clock *a = TP__CONTAINER(timer, alarm_clock, timer);
  assert_true(now_ns >= timer->at_ns);
  a->doing = tp__inside_doing();
  sem_post(&a->fired);
}

TEST(timer_of_a_strand_without_owner_fires_on_a_worker) {
  host h;
  open_host(&h, NULL);
  tp__strand *strand = new_strand(&h);
  alarm_clock early = {.timer = {.fire = ring}}, later = {.timer = {.fire = ring}};
  sem_init(&early.fired, 0, 0);
  sem_init(&later.fired, 0, 0);
  tp__strand_timer_add(strand, &later.timer, in_ms(8));
  tp__strand_timer_add(strand, &early.timer, in_ms(2));
  tp__strand_leave(strand);
  sem_wait(&early.fired);
  sem_wait(&later.fired);
  assert_ptr_equal(early.doing, TP__THREAD_OWNER);
  tp__strand_acquire(strand);
  assert_true(tp__list_empty(&strand->timers));
  close_strand(strand);
  close_host(&h);
  sem_destroy(&early.fired);
  sem_destroy(&later.fired);
}

typedef struct note {
  tp__message message;
  tp__strand *strand;
  bool delivered;
} note;

static void note_delivered(tp__message *message) {
  note *n = TP__CONTAINER(message, note, message);
  n->delivered = true;
  n->strand->end = end_strand;
}

/* Timer and workers are stopped. A message still finds an owner: the thread that pushes it. */
TEST(message_behind_the_stop_is_delivered) {
  host h;
  open_host(&h, NULL);
  note n = {.message = {NULL, note_delivered}, .strand = new_strand(&h)};
  tp__strand_leave(n.strand);
  tp__sched_stop(&h.sched);
  assert_true(tp__strand_push(n.strand, &n.message));
  assert_true(n.delivered);
  close_host(&h);
}

TEST(ended_strand_takes_no_message) {
  host h;
  open_host(&h, NULL);
  tp__strand strand;
  note n = {.message = {NULL, note_delivered}, .strand = &strand};
  tp__strand_init(&strand, &h.sched, true);
  strand.end = tp__strand_reset;
  tp__strand_run(&strand);
  assert_false(tp__strand_push(&strand, &n.message));
  assert_false(n.delivered);
  close_host(&h);
}
