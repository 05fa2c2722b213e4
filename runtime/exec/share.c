/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/share.h"

#include "runtime/exec/blocks.h"
#include "runtime/exec/breaker.h"
#include "runtime/exec/inline.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/settle.h"

enum { LOOKS_MAX = 32 /* for a parallel node among ready ones */ };
enum { BATCHES = 8, BATCH_NODES_MAX = 8, HELPERS_MAX = 7, LINE_BYTES = 64 };

static void woken(tp__message *message);

enum batch_state { EMPTY = 0, OFFERED = 1, OPENED = 2, DONE = 3 };

typedef struct batch_time {
  int64_t started_ns, ended_ns;
} batch_time;

typedef struct batch {
  /* The owner writes it before the offer, the helper from opening to done */
  tp_call call;
  int64_t end_ns, fast_path_until_ns; /* those of the entry, which a cancel may move meanwhile */
  int64_t offered_ns;
  uint32_t count; /* of indexes */
  uint16_t indexes[BATCH_NODES_MAX];
  char line[LINE_BYTES]; /* what follows is looked at by both */
  /* atomic: acq_rel, publishes all the rest */
  tp__a32 state;
  /* The helper writes these; the owner reads them when the batch is done */
  uint32_t called; /* how many nodes were called; if the last answer is exceptional, it is in `kind` and `call` */
  bool exceptional;
  tp_answer kind;
  batch_time times[BATCH_NODES_MAX];
  tp__arena arena;
} batch;

typedef struct helper {
  tp__entry *entry;
  tp__strand strand; /* an engine worker is asked by a message to it, and owns it while it helps */
  tp__message ask;
  /* 1: from the request until the worker has left; acq_rel: then the strand belongs to the entry's owner again */
  tp__a32 asked;
} helper;

struct tp__share {
  /* never changes */
  size_t block_size;
  uint32_t helper_count;
  /* owner only */
  tp__entry *entry;
  uint32_t out;          /* batches that are not EMPTY */
  int64_t not_before_ns; /* no helper opened the last offer in time: nothing is offered until then */
  bool wake_is_coming;   /* the message below may be on its way, and holds the entry */
  tp__message wake;
  tp__a32 stopped; /* 1: no more nodes are to be called. Relaxed: a value that is a moment old is good enough */
  tp__a32 waiting; /* 1: the owner wants the message; acq_rel: see wait_for_message() */
  char line[LINE_BYTES];
  batch batches[BATCHES];
  helper helpers[HELPERS_MAX];
};

/* ---- the helper ---- */

/* Calls the nodes of a batch, up to the first whose answer is exceptional. */
static void open_batch(tp__share *share, batch *p) {
  const tp__node *nodes = share->entry->plan->nodes;
  tp_runtime *runtime = share->entry->turn->runtime;
  const tp__a32 *stopped_subscriptions = &tp__runtime_breaker_state(runtime)->stopped_subscriptions;
  tp_timestamps timestamps = tp__runtime_options(runtime)->timestamps;
  int64_t now_ns = tp__now_ns();
  p->exceptional = false;
  for (p->called = 0; p->called < p->count && !p->exceptional; p->called++) {
    uint32_t index = p->indexes[p->called];
    if (now_ns >= p->fast_path_until_ns || tp__a32_load_relaxed(&share->stopped)) break;
    if (tp__a32_load_relaxed(stopped_subscriptions)) break;
    p->call.index = index;
    p->call.started_ns = now_ns;
    p->call.deadline_ns = tp__node_deadline(&nodes[index], p->end_ns, now_ns);
    p->call.timeout_ns = tp__node_timeout(&nodes[index]);
    p->kind = nodes[index].run(nodes[index].ctx, &p->call);
    batch_time *time = &p->times[p->called];
    time->started_ns = now_ns;
    time->ended_ns = now_ns = tp__stamp(timestamps, now_ns);
    p->exceptional = p->kind != TP_ANSWER_DONE || p->call.touched;
  }
}

/* This and wait_for_message() may run at once. The later of the two sees the other's change. */
static void return_batch(tp__share *share, batch *p) {
  tp__a32_exchange_acq_rel(&p->state, DONE);
  if (tp__a32_exchange_acq_rel(&share->waiting, 0) == 0) return;
  tp__entry *e = share->entry;
  if (tp__strand_push(&e->turn->strand, &share->wake)) return;
  share->wake_is_coming = false; /* the turn has ended, so it has no owner to receive the message */
  tp__entry_unref(e);            /* the message's */
}

static bool help_once(tp__share *share) {
  bool any = false;
  for (int i = 0; i < BATCHES; i++) {
    batch *p = &share->batches[i];
    uint32_t offered = OFFERED;
    if (tp__a32_load_relaxed(&p->state) != OFFERED || !tp__a32_cas_acq_rel(&p->state, &offered, OPENED)) continue;
    open_batch(share, p);
    return_batch(share, p);
    any = true;
  }
  return any;
}

static void left(tp__strand *strand) {
  helper *h = TP__CONTAINER(strand, helper, strand);
  tp__entry *e = h->entry;
  tp__a32_sub_acq_rel(&tp__runtime_helpers(e->turn->runtime)->requested, 1);
  tp__a32_store_release(&h->asked, 0); /* pairs with ask_helpers() */
  tp__entry_unref(e);
}

static void help(tp__message *message) {
  helper *h = TP__CONTAINER(message, helper, ask);
  tp__share *share = h->entry->share;
  int64_t search_ns = tp__runtime_helpers(h->entry->turn->runtime)->search_ns, until_ns = tp__now_ns() + search_ns;
  while (!tp__a32_load_relaxed(&share->stopped)) {
    if (help_once(share)) until_ns = tp__now_ns() + search_ns;
    else if (tp__now_ns() >= until_ns) break;
    else tp__cpu_relax();
  }
  h->strand.end = left;
}

/* ---- the owner: giving ---- */

static tp__share *share_new(tp__entry *e) {
  tp__blocks *blocks = tp__runtime_blocks(e->turn->runtime);
  uint32_t helpers_max = tp__runtime_helpers(e->turn->runtime)->max;
  size_t block_size;
  tp__share *share = tp__block_take(blocks, sizeof *share, &block_size);
  if (!share) return NULL;
  memset(share, 0, sizeof *share);
  share->block_size = block_size;
  share->entry = e;
  share->helper_count = helpers_max < HELPERS_MAX ? helpers_max : HELPERS_MAX;
  share->wake.deliver = woken;
  for (int i = 0; i < BATCHES; i++) tp__arena_init(&share->batches[i].arena, &blocks->as_allocator, NULL, 0, 0);
  for (uint32_t i = 0; i < share->helper_count; i++) {
    share->helpers[i].entry = e;
    share->helpers[i].ask.deliver = help;
  }
  if (!e->holds_turn) tp__turn_hold(e->turn); /* a helper may use the entry longer than its owner does */
  e->holds_turn = true;
  return share;
}

void tp__share_free(tp__entry *e) {
  tp__share *share = e->share;
  TP__ASSERT(!share->wake_is_coming);
  for (int i = 0; i < BATCHES; i++) {
    batch *p = &share->batches[i];
    /* No helper has it. It may be DONE when its last node deferred and was answered before the helper returned the
     * batch: then the entry has ended without it. */
    TP__ASSERT(tp__a32_load_relaxed(&p->state) == EMPTY || tp__a32_load_relaxed(&p->state) == DONE);
    tp__arena_fini(&p->arena);
  }
  tp__block_give(tp__runtime_blocks(e->turn->runtime), share, share->block_size);
}

/* A worker that was woken and does not run yet still seems idle for some time. So the number of requests that are not
 * done is bounded: the workers' queue has capacity for this many. */
static bool may_ask(tp__helpers *helpers) {
  if (tp__a32_add_acq_rel(&helpers->requested, 1) < helpers->max) return true;
  tp__a32_sub_acq_rel(&helpers->requested, 1);
  return false;
}

static void ask_helpers(tp__share *share) {
  for (uint32_t i = 0; i < share->helper_count; i++) {
    helper *h = &share->helpers[i];
    if (tp__a32_load_acquire(&h->asked)) continue; /* pairs with left() */
    if (!may_ask(tp__runtime_helpers(share->entry->turn->runtime))) return;
    tp__a32_store_relaxed(&h->asked, 1);
    tp__a32_add_relaxed(&share->entry->refs, 1);
    tp__strand_init(&h->strand, tp__runtime_sched(share->entry->turn->runtime), false);
    tp__strand_push(&h->strand, &h->ask);
  }
}

static batch *empty_batch(tp__share *share) {
  for (int i = 0; i < BATCHES; i++)
    if (tp__a32_load_relaxed(&share->batches[i].state) == EMPTY) return &share->batches[i];
  return NULL;
}

/* A node that may be tried again is not given to a helper. Its second attempt might begin before a first attempt that
 * deferred has returned. */
static bool may_give(const tp__entry *e, uint32_t index) {
  uint32_t flags = e->plan->nodes[index].flags & (TP__NODE_PARALLEL | TP__NODE_RETRY);
  if (tp__breaker_suspects(tp__runtime_breaker_state(e->turn->runtime), e->plan->phase, e->now_ns)) return false;
  return e->plan->inline_nodes[index].on_fast_path && !e->marks[index] && flags == TP__NODE_PARALLEL;
}

/* A batch is smaller when fewer nodes are left, so that all threads end at about the same time. */
static uint32_t how_many(const tp__entry *e) {
  uint32_t fair = e->ready.count / (2 * (e->share->helper_count + 1));
  return fair < 1 ? 1 : fair > BATCH_NODES_MAX ? BATCH_NODES_MAX : fair;
}

/* The owner keeps the first node, so that it does not wait for a helper. */
static bool offer_one(tp__entry *e) {
  batch *p = empty_batch(e->share);
  uint32_t most = how_many(e), node_count = e->plan->node_count;
  if (!p) return false;
  p->count = 0;
  uint32_t index = tp__ready_behind(&e->ready, tp__ready_first(&e->ready), node_count);
  for (int looks = 0; looks < LOOKS_MAX && p->count < most && index != UINT32_MAX; looks++) {
    uint32_t next = tp__ready_behind(&e->ready, index, node_count);
    if (may_give(e, index)) {
      tp__ready_take(&e->ready, index);
      p->indexes[p->count++] = (uint16_t)index;
    }
    index = next;
  }
  if (p->count == 0) return false;
  tp__inline_call_set(e, &p->call, &p->arena, 0);
  p->end_ns = e->end_ns;
  p->fast_path_until_ns = e->fast_path_until_ns;
  p->offered_ns = e->now_ns;
  e->share->out++;
  TP__ASSERT(e->share->out <= BATCHES && p->count <= BATCH_NODES_MAX);
  tp__a32_store_release(&p->state, OFFERED); /* pairs with help_once() */
  return true;
}

/* Whether it may pay to offer ready nodes of this entry now. */
static bool pays(const tp__entry *e) {
  if (!e->plan->has_parallel || e->ready.count < 2) return false;
  if (e->has_listener || e->detached_run || e->state != TP__ENTRY_OPEN) return false;
  if (e->share) return e->now_ns >= e->share->not_before_ns;
  tp_runtime *runtime = e->turn->runtime;
  return tp__runtime_helpers(runtime)->max > 0 && tp__workers_idle(&tp__runtime_sched(runtime)->workers);
}

void tp__share_offer(tp__entry *e) {
  bool any = false;
  if (!pays(e)) return;
  if (!e->share) e->share = share_new(e);
  if (!e->share) return;
  while (e->ready.count > 1 && e->share->out < 2 * e->share->helper_count && offer_one(e)) any = true;
  if (!any) return;
  ask_helpers(e->share);
  /* The time of a wake-up does not count for the next node. */
  e->now_ns = tp__stamp(tp__runtime_options(e->turn->runtime)->timestamps, e->now_ns);
}

/* ---- the owner: taking ---- */

static void put_back(tp__entry *e, const batch *p, uint32_t from) {
  TP__OWNED(&e->turn->strand);
  for (uint32_t i = from; i < p->count; i++) tp__ready_push(&e->ready, p->indexes[i]);
}

/* The call of a node whose answer is not exceptional. The call stored in the batch may be another node's. */
static tp_call silent_call(const batch *p, int64_t started_ns) {
  tp_call call = p->call;
  call.started_ns = started_ns;
  call.touched = call.sealed = false;
  call.attempt = NULL;
  return call;
}

/* A node that deferred and was answered at once has settled already. */
static void settle_call(tp__entry *e, tp_call *call, uint32_t index, tp_answer kind, int64_t ended_ns) {
  const tp__run *run = tp__entry_more(e, index);
  if (!run || !run->settled) tp__entry_called(e, index, call, kind, ended_ns);
}

static void settle_batch(tp__entry *e, batch *p) {
  for (uint32_t i = 0; i < p->called; i++) {
    TP__ASSERT(p->times[i].ended_ns >= p->times[i].started_ns);
    const batch_time *time = &p->times[i];
    bool exceptional = p->exceptional && i + 1 == p->called;
    if (time->ended_ns > e->now_ns) e->now_ns = time->ended_ns; /* what waited for it begins then */
    if (!exceptional && tp__entry_settle_silent(e, p->indexes[i], time->started_ns, time->ended_ns)) continue;
    tp_call silent = silent_call(p, time->started_ns);
    settle_call(e, exceptional ? &p->call : &silent, p->indexes[i], exceptional ? p->kind : TP_ANSWER_DONE,
                time->ended_ns);
  }
  TP__ASSERT(e->share->out > 0 && p->called <= p->count);
  put_back(e, p, p->called);
  tp__a32_store_relaxed(&p->state, EMPTY); /* only the owner looks at what is empty */
  e->share->out--;
}

static bool take_done(tp__entry *e) {
  bool any = false;
  for (int i = 0; i < BATCHES && e->share->out > 0; i++) {
    batch *p = &e->share->batches[i];
    if (tp__a32_load_acquire(&p->state) != DONE) continue; /* pairs with return_batch() */
    settle_batch(e, p);
    any = true;
  }
  return any;
}

static bool take_back_one(tp__entry *e, batch *p) {
  uint32_t offered = OFFERED;
  if (!tp__a32_cas_acq_rel(&p->state, &offered, EMPTY)) return false;
  TP__ASSERT(e->share->out > 0);
  put_back(e, p, 0);
  e->share->out--;
  return true;
}

static bool take_back(tp__entry *e) {
  bool any = false;
  for (int i = 0; i < BATCHES && e->share->out > 0; i++) any |= take_back_one(e, &e->share->batches[i]);
  return any;
}

static bool is_any_opened(const tp__share *share) {
  for (int i = 0; i < BATCHES; i++)
    if (tp__a32_load_relaxed(&share->batches[i].state) == OPENED) return true;
  return false;
}

/* If no helper has come for as long as that takes, the owner takes the offered nodes back, at their places in the plan.
 * A helper that is calling a batch will come for the next one. */
static void take_back_late(tp__entry *e) {
  if (is_any_opened(e->share)) return;
  int64_t patience_ns = 2 * tp__runtime_helpers(e->turn->runtime)->search_ns;
  for (int i = 0; i < BATCHES && e->share->out > 0; i++) {
    batch *p = &e->share->batches[i];
    if (tp__a32_load_relaxed(&p->state) != OFFERED || e->now_ns - p->offered_ns < patience_ns) continue;
    if (take_back_one(e, p)) e->share->not_before_ns = e->now_ns + patience_ns;
  }
}

void tp__share_collect(tp__entry *e) {
  if (e->share->out == 0) return;
  (void)take_done(e);
  take_back_late(e);
}

/* ---- the owner: waiting ---- */

static bool search_done(tp__entry *e) {
  int64_t until_ns = tp__now_ns() + tp__runtime_helpers(e->turn->runtime)->search_ns;
  do {
    if (take_done(e)) return true;
    tp__cpu_relax();
  } while (tp__now_ns() < until_ns);
  return false;
}

/* A helper writes DONE and then reads whether the owner waits. The owner writes that it waits and then reads DONE. All
 * of these are read-modify-write, so the later thread sees the other's change. @return as tp__share_wait(). */
static bool wait_for_message(tp__entry *e) {
  tp__share *share = e->share;
  uint32_t waiting = 1;
  if (!share->wake_is_coming) {
    tp__a32_add_relaxed(&e->refs, 1); /* the message's */
    share->wake_is_coming = true;
    tp__a32_exchange_acq_rel(&share->waiting, 1);
  }
  if (!take_done(e)) return false;
  if (tp__a32_cas_acq_rel(&share->waiting, &waiting, 0)) { /* else it is under way */
    share->wake_is_coming = false;
    tp__a32_sub_acq_rel(&e->refs, 1); /* never the last: the owner has one */
  }
  return true;
}

static void woken(tp__message *message) {
  tp__share *share = TP__CONTAINER(message, tp__share, wake);
  tp__entry *e = share->entry;
  share->wake_is_coming = false;
  e->now_ns = tp__now_ns();
  if (!e->ended) tp__entry_advance(e);
  tp__entry_unref(e);
}

bool tp__share_wait(tp__entry *e) {
  if (e->share->out == 0 || e->ended) return false;
  if (take_back(e) || search_done(e)) return true;
  return wait_for_message(e);
}

void tp__share_stop(tp__entry *e) { tp__a32_store_relaxed(&e->share->stopped, 1); }
