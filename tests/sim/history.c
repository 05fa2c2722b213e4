/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>

enum { APPEND_LIMIT_MS = 30000 };

/** A call of the history's. */
struct history_call {
  world *w;
  struct history_call *next;
  char session[24];
  bool running;  /* set also when the call was given up */
  bool answered; /* no answer follows any more */
  bool fails;
  bool loads; /* true: it loads; false: it appends */
  tp_token token;
  uint32_t accepted, cancels;
};
typedef struct history_call history_call;

static history_call *begin_call(world *w, tp_text session) {
  history_call *call = calloc(1, sizeof *call);
  if (!call) abort();
  call->w = w;
  call->next = w->history_calls;
  call->running = true;
  snprintf(call->session, sizeof call->session, "%.*s", (int)session.size, session.data);
  w->history_calls = call;
  if (w->history_destroys) world_fail(w, "no call after destroy", "of the shared history, for %s", call->session);
  return call;
}

/* Compares byte by byte: ThreadSanitizer would take strlen() and similar functions for accesses of the library, which
 * the library's actions order. The notes of the world are ordered only by the seam. */
static bool is_of(const history_call *call, const char *session, size_t size) {
  size_t i = 0;
  while (i < size && call->session[i] == session[i] && call->session[i]) i++;
  return i == size && !call->session[i];
}

/* A call that blocks: no other call of its session runs, even when no turn waits for it any more. */
static history_call *begin_blocking(world *w, tp_text session) {
  for (const history_call *call = w->history_calls; call; call = call->next)
    if (call->running && !call->token.bits && is_of(call, session.data, session.size))
      world_fail(w, "a history has one blocking call of a session at a time", "%s", call->session);
  return begin_call(w, session);
}

/* While an append hangs, a drain looks every millisecond. If no clock jumps, no append hangs for its whole limit. */
static bool may_hang(const world *w) { return w->s->fault_level >= FAULTS_CLOCK; }

/* Mostly short; where time jumps sometimes longer than any caller waits. */
static int64_t draw_delay(const world *w) {
  uint64_t dice = tp__sim_random(100);
  if (dice < 40) return 0;
  if (dice < 97 || !may_hang(w)) return (int64_t)tp__sim_random(3 * TP__NS_PER_MS);
  return (int64_t)tp__sim_random(2 * (uint64_t)APPEND_LIMIT_MS * TP__NS_PER_MS);
}

static tp_status load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  world *w = ctx;
  (void)fault;
  history_call *call = begin_blocking(w, request->session);
  tp__sim_sleep_ns(world_hang_ns(w, draw_delay(w)));
  call->running = false;
  call->answered = true;
  return TP_OK;
}

static void check_batch(world *w, const tp_history_append *batch) {
  for (size_t i = 0; i < batch->message_count; i++) {
    const tp_message *message = batch->messages[i];
    if (message->struct_size != sizeof *message || !message->turn_id.size)
      world_fail(w, "a batch is whole until it is completed", "message %zu", i);
  }
}

static tp_status append(void *ctx, const tp_history_append *request, tp_fault *fault) {
  world *w = ctx;
  (void)fault;
  history_call *call = begin_blocking(w, request->session);
  tp__sim_sleep_ns(world_hang_ns(w, draw_delay(w)));
  check_batch(w, request);
  call->running = false;
  call->answered = true;
  return !world_is_fault_free(w) && world_one_in(10) ? TP_ERR_STORE_FULL : TP_OK;
}

/* ---- later ---- */

static void complete(history_call *call) {
  world *w = call->w;
  static const tp_fault full = {.code = TP_ERR_STORE_FULL, .message = "as the history says"};
  call->running = false; /* before the completion is known */
  tp_status result = call->fails ? TP_ERR_STORE_FULL : TP_OK;
  const tp_fault *why = call->fails ? &full : NULL;
  tp_status status = call->loads ? tp_history_complete_load(call->token, result, NULL, 0, why, NULL)
                                 : tp_history_complete(call->token, result, why, NULL);
  call->answered = true;
  if (status != TP_OK && status != TP_ERR_STALE)
    world_fail(w, "a completion is taken or stale", "of the history: %s", tp_status_name(status));
  if (status != TP_OK) return;
  if (++call->accepted > 1) world_fail(w, "a stale token is harmless", "a call of the history was completed twice");
  if (w->freed)
    world_fail(w, "a stale token is harmless", "a call of the history was completed after tp_runtime_free()");
}

static void complete_later(void *arg) {
  tp__sim_sleep_ns(draw_delay(((history_call *)arg)->w));
  complete(arg);
}

/* Answers now, later, twice, or never. */
static void answer(history_call *call, tp_token token, const char *name) {
  world *w = call->w;
  call->token = token;
  call->fails = !world_is_fault_free(w) && world_one_in(10);
  if (may_hang(w) && world_one_in(20)) return; /* this call hangs for ever */
  if (world_one_in(3) || !world_start(name, complete_later, call)) complete(call);
  else if (world_one_in(4)) (void)!world_start(name, complete_later, call);
}

static void append_start(void *ctx, const tp_history_append *request, tp_token token) {
  world *w = ctx;
  history_call *call = begin_call(w, request->session);
  check_batch(w, request);
  answer(call, token, "append");
}

static void load_start(void *ctx, const tp_history_load *request, tp_token token) {
  world *w = ctx;
  history_call *call = begin_call(w, request->session);
  call->loads = true;
  answer(call, token, "load");
}

static void cancel(void *ctx, tp_token token) {
  world *w = ctx;
  for (history_call *call = w->history_calls; call; call = call->next) {
    if (call->token.bits != token.bits) continue;
    if (++call->cancels > 1) world_fail(w, "cancel at most once", "of the history");
    if (!call->loads && !may_hang(w))
      world_fail(w, "an append that answers in time is not given up", "of %s", call->session);
    return;
  }
}

/* ---- delete and the end ---- */

/* A token that no thread completes is abandoned with its runtime. */
static tp_status delete_session(void *ctx, const tp_history_delete *request, tp_fault *fault) {
  world *w = ctx;
  (void)fault;
  tp__sim_sleep_ns(world_pause_ns(500));
  for (const history_call *call = w->history_calls; call; call = call->next)
    if (call->running && is_of(call, request->session.data, request->session.size))
      world_fail(w, "no session is deleted while a call of it runs", "%s", call->session);
  return world_one_in(2) ? TP_OK : TP_ERR_NOT_FOUND;
}

static void destroy(void *ctx) {
  world *w = ctx;
  w->history_destroys++;
  world_destructor_by_host(w); /* the last reference may be ours */
}

static bool any_unanswered(const world *w, const char *session) {
  for (const history_call *call = w->history_calls; call; call = call->next)
    if (!call->answered && is_of(call, session, strlen(session))) return true;
  return false;
}

/* A call that has answered may not have returned yet. */
void history_delete(world *w, const char *session) {
  if (!w->history) return;
  tp_status status = tp_shared_history_delete(w->history, NULL, session, NULL);
  for (int i = 0; i < 1000 && status == TP_ERR_BUSY && !any_unanswered(w, session); i++) {
    tp__sim_sleep_ns(TP__NS_PER_US);
    status = tp_shared_history_delete(w->history, NULL, session, NULL);
  }
  if (status != TP_OK && status != TP_ERR_NOT_FOUND && !(status == TP_ERR_BUSY && any_unanswered(w, session)))
    world_fail(w, "a closed session can be deleted", "%s: %s", session, tp_status_name(status));
}

tp_status history_open(world *w) {
  tp_allocator allocator = tp__sim_allocator();
  tp_history history = {.struct_size = sizeof history,
                        .ctx = w,
                        .load = w->s->history_loads_later ? NULL : load,
                        .load_start = w->s->history_loads_later ? load_start : NULL,
                        .load_cancel = w->s->history_loads_later ? cancel : NULL,
                        .append = w->s->history == 1 ? append : NULL,
                        .append_start = w->s->history == 2 ? append_start : NULL,
                        .append_cancel = w->s->history == 2 ? cancel : NULL,
                        .delete_session = delete_session,
                        .destroy = destroy};
  if (!w->s->history) return TP_OK;
  tp_status status = tp_history_share(&allocator, &history, &w->history, NULL);
  w->history_taken = status == TP_OK;
  return status;
}

void history_after_free(world *w) {
  for (history_call *call = w->history_calls; call; call = call->next)
    if (call->token.bits && world_one_in(2)) complete(call);
}

void history_ended(world *w) {
  if (w->history_destroys != w->history_taken)
    world_fail(w, "a shared history is destroyed exactly once", "%u times", w->history_destroys);
}

void history_fini(world *w) {
  while (w->history_calls) {
    history_call *call = w->history_calls;
    w->history_calls = call->next;
    free(call);
  }
}
