/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/host_call.h"

static tp__host_call *of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__host_call, base); }

static tp__answer call(tp__attempt *attempt) {
  tp__host_call *c = of(attempt);
  c->status = c->work(c);
  return (tp__answer){.kind = TP_ANSWER_DONE};
}

static void settled(tp__attempt *attempt, tp__attempt_end end) {
  tp__host_call *c = of(attempt);
  if (end == TP__ANSWERED && c->status != TP_OK && c->fault.message[0]) c->story = c->fault.message;
  c->on_end(c, end == TP__ANSWERED ? c->status : end == TP__REFUSED ? TP_ERR_NO_THREAD : TP_ERR_TIMEOUT);
  tp__attempt_unref(attempt);
}

static void release(tp__attempt *attempt) {
  tp__host_call *c = of(attempt);
  tp_runtime *runtime = attempt->runtime;
  tp__turn *turn = c->turn;
  tp_session *session = c->session;
  tp__messages_fini(&c->messages);
  tp__arena_fini(&c->arena);
  tp__block_give(&runtime->blocks, c, c->block_size);
  tp__session_unref(session);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {.call = call, .settled = settled, .release = release};

/* Half of what histories may take in all: a tenant whose store is slow leaves threads to the others. */
static tp__permits *permits_of(tp_session *session) {
  uint32_t hash = 0;
  for (const char *at = session->tenant; at && *at; at++) hash = hash * 31 + (unsigned char)*at;
  return &session->upper->history_permits[hash % TP__HISTORY_PERMITS];
}

tp__host_call *tp__host_call_new(tp_turn *turn, tp_session *session, const char *name) {
  tp_runtime *runtime = turn->core.runtime;
  size_t block_size;
  tp__host_call *c = tp__block_take(&runtime->blocks, sizeof *c, &block_size);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  if (tp__attempt_init(&c->base, &class, &turn->core.strand) != TP_OK) {
    tp__block_give(&runtime->blocks, c, block_size);
    return NULL;
  }
  c->block_size = block_size;
  c->base.pool_item.lane = TP__LANE_HISTORY;
  c->base.pool_item.permits = permits_of(session);
  c->base.pool_item.permits_max = session->upper->history_permits_max;
  c->base.pool_item.name = name;
  c->turn = &turn->core;
  c->session = session;
  tp__turn_hold(c->turn);
  tp__session_hold(session);
  tp__arena_init(&c->arena, &runtime->allocator, NULL, 0, 0);
  tp__messages_init(&c->messages, &runtime->allocator);
  return c;
}

void tp__host_call_start(tp__host_call *c, int64_t end_ns) {
  int64_t hard_ns = tp__deadline_after_ms(tp__now_ns(), TP__HOST_CALL_LIMIT_MS);
  if (end_ns < hard_ns) hard_ns = end_ns;
  tp_reason refused = tp__attempt_start(&c->base, hard_ns, 0);
  if (!refused) return;
  c->on_end(c, refused == TP_REASON_SHUTDOWN ? TP_ERR_SHUTDOWN : TP_ERR_NO_THREAD);
  tp__attempt_unref(&c->base);
}

void tp__host_call_drop(tp__host_call *c) {
  tp__attempt_fini(&c->base);
  tp__attempt_unref(&c->base);
}
