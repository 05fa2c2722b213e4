/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/turn/store_call.h"

#include "runtime/exec/blocks.h"

static tp__store_call *store_call_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__store_call, base); }

static void work(tp__store_call *c) {
  tp__inside frame;
  void *store = tp__store_enter(&frame, tp__attempt_runtime(&c->base));
  c->status = tp__store_left(&frame, c->work(c, store, &c->fault));
}

static tp__answer do_store_work(tp__attempt *attempt) {
  work(store_call_of(attempt));
  return (tp__answer){.kind = TP_ANSWER_DONE};
}

static void settle_store_call(tp__attempt *attempt, tp__attempt_end end) {
  tp__store_call *c = store_call_of(attempt);
  if (end == TP__REFUSED) work(c); /* the pool has stopped, or has no thread */
  c->on_end(c, end == TP__ANSWERED || end == TP__REFUSED ? c->status : TP_ERR_TIMEOUT);
  tp__attempt_unref(attempt);
}

static void free_store_call(tp__attempt *attempt) {
  tp__store_call *c = store_call_of(attempt);
  tp__turn *turn = c->turn;
  tp__arena_fini(&c->arena);
  tp__block_give(tp__runtime_blocks(tp__attempt_runtime(attempt)), c, c->block_size);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {
    .what = "commit", .call = do_store_work, .settled = settle_store_call, .release = free_store_call};

tp__store_call *tp__store_call_new(tp_turn *turn, size_t size, const char *name) {
  TP__OWNED(&turn->core.strand);
  tp_runtime *runtime = turn->core.runtime;
  size_t block_size;
  tp__store_call *c = tp__block_take(tp__runtime_blocks(runtime), size, &block_size);
  if (!c) return NULL;
  memset(c, 0, size);
  if (tp__attempt_init(&c->base, &class, &turn->core.strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), c, block_size);
    return NULL;
  }
  c->block_size = block_size;
  c->base.pool_item.lane = TP__LANE_HISTORY;
  c->base.pool_item.name = name;
  c->turn = &turn->core;
  tp__turn_hold(c->turn);
  tp__arena_init(&c->arena, tp__runtime_allocator(runtime), NULL, 0, 0);
  return c;
}

void tp__store_call_start(tp__store_call *c, int64_t end_ns) {
  TP__ASSERT(c->work && c->on_end && end_ns > 0);
  if (!tp__attempt_start(&c->base, end_ns, 0)) return;
  settle_store_call(&c->base, TP__REFUSED);
}

void tp__store_call_drop(tp__store_call *c) {
  TP__ASSERT(tp__attempt_is_alone(&c->base));
  tp__attempt_fini(&c->base);
  tp__attempt_unref(&c->base);
}
