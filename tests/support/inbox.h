/* SPDX-License-Identifier: Apache-2.0
 *
 * inbox: a host with one thread, which polls an inbox's descriptor and takes work from it; handlers without functions.
 * For cmocka tests. */
#ifndef TEST_INBOX_H
#define TEST_INBOX_H

#include <poll.h>

#include "tests/support/model.h"

enum { GATHER = TP_PHASE_TURN_PRE_PROMPT_CONTEXT, GUARD = TP_PHASE_TOOL_PRE, LONG_MS = 60000 };

/* ---- a host with one thread ---- */

static inline bool is_readable(const tp_inbox *inbox) {
  struct pollfd polled = {.fd = tp_inbox_fd(inbox), .events = POLLIN};
  return poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN);
}

static inline void wait_readable(const tp_inbox *inbox) {
  struct pollfd polled = {.fd = tp_inbox_fd(inbox), .events = POLLIN};
  assert_int_equal(poll(&polled, 1, LONG_MS), 1);
}

static inline tp_inbox *open_inbox(tp_runtime *runtime, uint32_t capacity) {
  tp_inbox *inbox;
  tp_inbox_options options = {.struct_size = sizeof options, .capacity = capacity};
  assert_int_equal(tp_inbox_new(runtime, &options, &inbox, NULL), TP_OK);
  return inbox;
}

static inline const tp_work *take(tp_inbox *inbox) {
  const tp_work *work = NULL;
  assert_int_equal(tp_inbox_next(inbox, &work), TP_OK);
  return work;
}

/* Waits until there is work, and takes it. */
static inline const tp_work *take_any(tp_inbox *inbox) {
  const tp_work *work;
  do wait_readable(inbox);
  while (!(work = take(inbox))); /* what has ended meanwhile is skipped */
  return work;
}

/* The same for a host that calls tp_token_open() instead of checking cancels. */
static inline const tp_work *take_next(tp_inbox *inbox) {
  for (;;) {
    const tp_work *work = take_any(inbox);
    if (work->kind != TP_WORK_CANCEL) return work;
    assert_int_equal(tp_work_release(work), TP_OK);
  }
}

/* Waits until the object with this ctx is no longer used, and calls its destroy. */
static inline void take_destroy(tp_inbox *inbox, const void *ctx) {
  const tp_work *work = take_next(inbox);
  assert_int_equal(work->kind, TP_WORK_DESTROY);
  assert_int_equal(work->token.bits, 0);
  assert_ptr_equal(work->ctx, ctx);
  assert_int_equal(tp_work_release(work), TP_OK);
}

static inline tp_status answer(const tp_work *work, tp_answer kind, const char *reason) {
  return tp_token_complete(work->token,
                           &(tp_outcome){.struct_size = sizeof(tp_outcome), .kind = kind, .reason = reason}, NULL);
}

/* A handler without a function, and one subscription of it. */
static inline tp_status add_status(tp_runtime *runtime, const char *id, uint32_t phase, tp_inbox *inbox,
                                   tp_handler handler, tp_subscription sub) {
  tp_edit *edit;
  static const tp_owner owner = {.struct_size = sizeof owner, .name = "test", .trust = TP_TRUST_BUILTIN};
  assert_int_equal(tp_edit_begin(runtime, &owner, &edit, NULL), TP_OK);
  handler.struct_size = sizeof handler;
  handler.id = id;
  handler.inbox = inbox;
  handler.phases = &phase;
  handler.phase_count = 1;
  tp_status status = tp_edit_add_handler(edit, &handler, NULL);
  sub.struct_size = sizeof sub;
  sub.id = sub.handler = id;
  sub.phase = phase;
  if (status == TP_OK) status = tp_edit_add_subscription(edit, &sub, NULL);
  if (status == TP_OK) status = tp_edit_commit(edit, NULL, NULL);
  if (status != TP_OK) tp_edit_discard(edit);
  return status;
}

static inline void add(tp_runtime *runtime, const char *id, uint32_t phase, tp_inbox *inbox, tp_subscription sub) {
  assert_int_equal(add_status(runtime, id, phase, inbox, (tp_handler){.ctx = "ctx"}, sub), TP_OK);
}

typedef struct ran {
  latch ended;
  tp_phase_result result;
} ran;

static inline void phase_ended(void *ctx, const tp_phase_result *result) {
  ran *r = ctx;
  r->result = *result;
  latch_hit(&r->ended);
}

static inline void submit(tp_turn *turn, uint32_t phase, const char *text, ran *r) {
  tp_field field = {
      .id = phase == GUARD ? TP_FIELD_TOOL : TP_FIELD_TEXT, .kind = TP_FIELD_KIND_TEXT, .text = tp_text_of(text)};
  tp_phase_input input = {
      .struct_size = sizeof input, .fields = &field, .field_count = text ? 1 : 0, .budget_ms = LONG_MS};
  *r = (ran){.ended = LATCH};
  assert_int_equal(tp_phase_submit(turn, phase, &input, phase_ended, r, NULL), TP_OK);
}

static inline uint64_t open_tokens(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats.tokens_open;
}

/* Waits until no token is open. A token whose function has answered by itself stays open until that function has
 * returned. */
static inline void expect_no_tokens(tp_runtime *runtime) {
  int64_t end_ns = now_ns() + (int64_t)LONG_MS * 1000000;
  while (open_tokens(runtime) > 0 && now_ns() < end_ns) sched_yield();
  assert_int_equal(open_tokens(runtime), 0);
}

static inline uint64_t handler_threads(tp_runtime *runtime) {
  tp_runtime_stats stats = {.struct_size = sizeof stats};
  tp_runtime_stats_get(runtime, &stats);
  return stats.handler_threads;
}

#endif
