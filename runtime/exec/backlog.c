/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/exec/backlog.h"

#include "runtime/base/bug.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/jobs.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/settle.h"

typedef struct line_place {
  tp__attempt base;
  tp__turn *turn;   /* referenced */
  tp__entry *entry; /* the owner's entry, which does not end before this attempt */
  uint32_t index;
  tp__link link;    /* under the lock of the jobs: in the line, or linked to itself */
  bool is_notified; /* under the lock: it was notified that there may be space; only for the first in line */
  size_t block_size;
} line_place;

static line_place *line_place_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, line_place, base); }
static tp__jobs *jobs_of(const tp__entry *e) { return tp__runtime_jobs(e->turn->runtime); }

/* ---- policies ---- */

tp_backlog tp__backlog_of(const tp__node *node) {
  TP__ASSERT(node->flags & TP__NODE_DETACHED);
  tp_backlog given = node->sub->desc.backlog;
  if (given != TP_BACKLOG_DEFAULT) return given;
  return node->flags & TP__NODE_BACKGROUND ? TP_BACKLOG_WAIT : TP_BACKLOG_REFUSE;
}

bool tp__backlog_waits(const tp__entry *e, const tp__node *node) {
  return (node->flags & TP__NODE_BACKGROUND) && tp__backlog_of(node) == TP_BACKLOG_WAIT && e->turn->depth == 0 &&
         e->state == TP__ENTRY_OPEN;
}

bool tp__backlog_has_line(const tp__entry *e, const tp__node *node) {
  return tp__backlog_waits(e, node) && tp__a32_load_relaxed(&jobs_of(e)->line_count) > 0;
}

/* ---- the line ---- */

static const tp__attempt_class class;

/* @return whether space became free between the answer of the store and the moment when the place was in line. */
static bool join_line(tp__jobs *jobs, line_place *place, bool at_head, uint32_t news_seen) {
  tp__mutex_lock(&jobs->mutex);
  tp__list_push(at_head ? jobs->line.next : &jobs->line, &place->link); /* before it */
  tp__a32_add_relaxed(&jobs->line_count, 1);
  bool missed = tp__a32_load_relaxed(&jobs->space_news) != news_seen;
  tp__mutex_unlock(&jobs->mutex);
  return missed;
}

static void leave_line_locked(tp__jobs *jobs, line_place *place) {
  TP__LOCKED(&jobs->mutex);
  if (tp__list_empty(&place->link)) return;
  tp__list_remove(&place->link);
  tp__list_init(&place->link);
  uint32_t before = tp__a32_sub_acq_rel(&jobs->line_count, 1);
  TP__ASSERT(before > 0);
}

/* @return true when it was notified of space that it leaves to the next one. */
static bool leave_line(tp__jobs *jobs, line_place *place) {
  tp__mutex_lock(&jobs->mutex);
  leave_line_locked(jobs, place);
  bool was_notified = place->is_notified;
  tp__mutex_unlock(&jobs->mutex);
  return was_notified;
}

/* A notified node stays the first until its job is stored or it has left the line. It then notices the space that
 * became free meanwhile.
 * @param is_news  space has become free now; otherwise it became free before the first node was in line. */
static void notify_first(tp__jobs *jobs, bool is_news) {
  const tp__answer answer = {.kind = TP_ANSWER_DONE};
  tp_token token = {0};
  tp__mutex_lock(&jobs->mutex);
  if (is_news) tp__a32_add_relaxed(&jobs->space_news, 1);
  line_place *first = tp__list_empty(&jobs->line) ? NULL : TP__CONTAINER(jobs->line.next, line_place, link);
  if (first && !first->is_notified) {
    first->is_notified = true;
    token = first->base.token;
  }
  tp__mutex_unlock(&jobs->mutex);
  if (token.bits != 0) /* stale: that node is about to leave, and notifies the next one */
    (void)!tp__token_answer(token, &class, &answer, NULL, NULL);
}

void tp__backlog_offer(tp_runtime *runtime) {
  if (!TP__BUG(TP__BUG_SPACE_UNNOTICED)) notify_first(tp__runtime_jobs(runtime), true);
}

uint32_t tp__backlog_news(tp_runtime *runtime) { return tp__a32_load_acquire(&tp__runtime_jobs(runtime)->space_news); }

/* ---- the attempt ---- */

static const char no_space[] =
    "the backlog of jobs stayed full (jobs_max) for backlog_wait_ms; run more workers, or raise one of the two";

static void settle_line_place(tp__attempt *attempt, tp__attempt_end end) {
  line_place *place = line_place_of(attempt);
  tp__entry *e = place->entry;
  tp__jobs *jobs = jobs_of(e);
  uint32_t index = place->index;
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(end != TP__REFUSED && e->runs[index].attempt == attempt); /* the node's call was never given to the pool */
  e->runs[index].attempt = NULL;
  e->now_ns = tp__now_ns();
  bool waits = end == TP__ANSWERED && tp__entry_detach_again(e, index, attempt->deadline_ns);
  bool was_notified = leave_line(jobs, place);
  if (was_notified && !waits) notify_first(jobs, true);
  if (end == TP__ANSWERED) {
    tp__entry_advance(e);
  } else if (end == TP__CANCELLED) {
    e->runs[index].row.attempts = 0;
    tp__entry_missed(e, index, TP_STATE_CANCELLED, TP_REASON_CANCELLED, e->now_ns);
  } else {
    tp__jobs_refuse(e->turn->runtime, &e->plan->nodes[index], no_space);
    e->runs[index].message = no_space;
    tp__entry_missed(e, index, TP_STATE_FAILED, TP_REASON_SHED, e->now_ns);
  }
  tp__attempt_unref(attempt);
}

static void free_line_place(tp__attempt *attempt) {
  line_place *place = line_place_of(attempt);
  tp__turn *turn = place->turn;
  TP__ASSERT(tp__list_empty(&place->link));
  tp__block_give(tp__runtime_blocks(turn->runtime), place, place->block_size);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {.what = "job", .settled = settle_line_place, .release = free_line_place};

/* The entry has failed meanwhile, so the node does not wait. */
static void give_up(void *ctx) {
  const line_place *place = ctx;
  const tp__answer answer = {.kind = TP_ANSWER_DONE};
  (void)!tp__token_answer(place->base.token, &class, &answer, NULL, NULL); /* stale: it is settled already */
}

static line_place *place_new(tp__entry *e, uint32_t index) {
  tp__turn *turn = e->turn;
  size_t block_size;
  line_place *place = tp__block_take(tp__runtime_blocks(turn->runtime), sizeof *place, &block_size);
  if (!place) return NULL;
  *place = (line_place){.turn = turn, .entry = e, .index = index, .block_size = block_size};
  tp__list_init(&place->link);
  if (tp__attempt_init(&place->base, &class, &turn->strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(turn->runtime), place, block_size);
    return NULL;
  }
  place->base.ends_with_turn = true;
  place->base.pool_item.name = e->plan->nodes[index].subscription_name;
  tp__turn_hold(turn);
  return place;
}

bool tp__backlog_wait(tp__entry *e, uint32_t index, const tp__backlog_place *where) {
  TP__OWNED(&e->turn->strand);
  line_place *place = place_new(e, index);
  const tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = give_up, .ctx = place};
  tp_token token;
  if (!place) return false;
  if (tp__attempt_defer(&place->base, &deferral, &token) != TP_OK) {
    tp__attempt_fini(&place->base);
    tp__attempt_unref(&place->base);
    return false;
  }
  tp__a64_store_relaxed(&place->base.started_ns, (uint64_t)tp__now_ns()); /* no other thread knows it yet */
  tp__run_make(e, index)->attempt = &place->base;
  /* before any thread has the token; the attempt has no function that could still run */
  tp__attempt_returned(&place->base);
  tp__attempt_await(&place->base, where->until_ns);
  bool missed = join_line(jobs_of(e), place, where->at_head, where->news_seen);
  if (missed) notify_first(jobs_of(e), false);
  return true;
}
