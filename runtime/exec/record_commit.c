/* SPDX-License-Identifier: Apache-2.0
 *
 * record_commit.c: the commit for which the end of an entry waits when the durability is SYNC. It is an attempt on a
 * handler thread, because a commit blocks on the disk. The store commits entries that end at the same time on other
 * threads together. */
#include "runtime/exec/record_commit.h"

#include "runtime/exec/blocks.h"
#include "runtime/exec/runtime.h"

enum { COMMIT_LIMIT_MS = 30000 };

typedef struct record_commit {
  tp__attempt base;
  tp__turn *turn;   /* referenced */
  tp__entry *entry; /* the owner's entry, which does not end before this attempt */
  void (*on_end)(tp__entry *entry, tp_status status, const tp_fault *fault);
  tp_status status; /* the store's */
  tp_fault fault;
  size_t block_size;
} record_commit;

static record_commit *record_commit_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, record_commit, base); }

tp_status tp__store_commit(tp_runtime *runtime, tp_fault *fault) {
  const tp_store *store = tp__runtime_store(runtime);
  tp__inside frame;
  return store->commit ? tp__store_left(&frame, store->commit(tp__store_enter(&frame, runtime), fault)) : TP_OK;
}

static tp__answer write_records(tp__attempt *attempt) {
  record_commit *c = record_commit_of(attempt);
  c->status = tp__store_commit(tp__attempt_runtime(attempt), &c->fault);
  return (tp__answer){.kind = TP_ANSWER_DONE};
}

/* A commit that was given up still runs, so its output is not read. */
static void settle_record_commit(tp__attempt *attempt, tp__attempt_end end) {
  record_commit *c = record_commit_of(attempt);
  static const tp_fault late = {.code = TP_ERR_TIMEOUT, .message = "the store did not commit within 30 s"};
  if (end == TP__ANSWERED) {
    c->on_end(c->entry, c->status, &c->fault);
  } else if (end == TP__REFUSED) { /* the pool has stopped, or has no thread: the owner itself waits for the commit */
    c->status = tp__store_commit(tp__attempt_runtime(attempt), &c->fault);
    c->on_end(c->entry, c->status, &c->fault);
  } else {
    c->on_end(c->entry, TP_ERR_TIMEOUT, &late);
  }
  tp__attempt_unref(attempt);
}

static void free_record_commit(tp__attempt *attempt) {
  record_commit *c = record_commit_of(attempt);
  tp__turn *turn = c->turn;
  tp__block_give(tp__runtime_blocks(tp__attempt_runtime(attempt)), c, c->block_size);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {
    .what = "commit", .call = write_records, .settled = settle_record_commit, .release = free_record_commit};

static record_commit *commit_new(tp__turn *turn) {
  size_t block_size;
  record_commit *c = tp__block_take(tp__runtime_blocks(turn->runtime), sizeof *c, &block_size);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  if (tp__attempt_init(&c->base, &class, &turn->strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(turn->runtime), c, block_size);
    return NULL;
  }
  c->block_size = block_size;
  c->base.pool_item.lane = TP__LANE_HISTORY;
  c->base.pool_item.name = "records";
  c->turn = turn;
  tp__turn_hold(turn);
  return c;
}

void tp__entry_commit(tp__entry *e, void (*on_end)(tp__entry *entry, tp_status status, const tp_fault *fault)) {
  record_commit *c = commit_new(e->turn);
  if (c) {
    c->entry = e;
    c->on_end = on_end;
    if (!tp__attempt_start(&c->base, tp__deadline_after_ms(tp__now_ns(), COMMIT_LIMIT_MS), 0)) return;
    tp__attempt_unref(&c->base);
  }
  tp_fault fault = {0}; /* no memory or no thread for an attempt: the owner itself waits for the commit */
  tp_status status = tp__store_commit(e->turn->runtime, &fault);
  on_end(e, status, &fault);
}
