/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/session/host_call.h"

#include "phases/session/history_permits.h"
#include "runtime/base/bug.h"
#include "runtime/exec/blocks.h"

enum { LIST_BYTES = 256 }; /* In the block, after the call: space for the list of messages of a usual batch. */

static tp__host_call *host_call_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, tp__host_call, base); }

/* Whether the call blocks the history. A compaction is the host's own function and does not. */
static bool blocks(const tp__host_call *c) { return c->work && (c->load.struct_size || c->request.struct_size); }

/* A call that runs, or may still begin, prevents the deletion of its session, even after its caller has stopped
 * waiting. */
static void begin_to_count(tp__host_call *c) {
  c->counts = true;
  if (blocks(c)) {
    TP__ASSERT(!tp__session_history_is_called(c->session));
    tp__a32_add_relaxed(&c->session->blocking, 1);
  }
  tp__shared_history_call_begins(c->session->shared, &c->session->history_user);
}

static void end_to_count(tp__host_call *c) {
  if (!c->counts) return;
  c->counts = false;
  if (blocks(c)) (void)tp__a32_sub_acq_rel(&c->session->blocking, 1);
  tp__shared_history_call_ends(c->session->shared, &c->session->history_user);
}

static tp__answer do_host_work(tp__attempt *attempt) {
  tp__host_call *c = host_call_of(attempt);
  c->status = c->work(c);
  end_to_count(c);
  return (tp__answer){.kind = TP_ANSWER_DONE};
}

/** The arguments of tp_history_complete() and tp_history_complete_load(). */
typedef struct completion {
  tp_status status;
  const tp_fault *fault;
  const tp_message *const *messages; /* of a load */
  size_t message_count;
} completion;

static tp_status keep_messages(tp__host_call *c, const completion *theirs) {
  for (size_t i = 0; i < theirs->message_count; i++) {
    tp_message message;
    TP__TRY(tp__message_read(theirs->messages[i], &message, &c->fault));
    TP__TRY(tp__messages_add(&c->made->list, &message));
  }
  return TP_OK;
}

/* extra: a completion. */
static void accept_completion(tp__attempt *attempt, const tp__answer *answer, const void *extra) {
  tp__host_call *c = host_call_of(attempt);
  const completion *theirs = extra;
  c->status = theirs->status == TP_OK ? keep_messages(c, theirs) : theirs->status;
  tp_text message = {theirs->fault ? theirs->fault->message : "", 0};
  while (theirs->fault && message.size < TP_FAULT_MESSAGE_SIZE && message.data[message.size]) message.size++;
  if (message.size > 0 && tp_utf8_valid(message, NULL))
    (void)tp__fail(&c->fault, c->status, NULL, "%.*s", (int)message.size, message.data);
  attempt->answer = (tp__answer){.kind = answer->kind};
  end_to_count(c);
}

static void late(tp__attempt *attempt, int64_t now_ns) {
  (void)now_ns;
  end_to_count(host_call_of(attempt)); /* without effect if the function has returned */
}

static void note_work_abandoned(tp__attempt *attempt) {
  tp__host_call *c = host_call_of(attempt);
  c->status = tp__fail(&c->fault, TP_ERR_STORE, NULL, TP__ABANDONED_REASON);
  end_to_count(c);
}

static void settle_host_call(tp__attempt *attempt, tp__attempt_end end) {
  TP__OWNED(&host_call_of(attempt)->turn->strand);
  TP__ASSERT(host_call_of(attempt)->on_end);
  tp__host_call *c = host_call_of(attempt);
  if (end == TP__ANSWERED && c->status != TP_OK && c->fault.message[0]) c->message = c->fault.message;
  c->on_end(c, end == TP__ANSWERED ? c->status : end == TP__REFUSED ? TP_ERR_NO_THREAD : TP_ERR_TIMEOUT);
  tp__attempt_unref(attempt);
}

static void release_claim(tp_session *session, const tp_history_claim *claim) {
  const tp_history_release request = {.struct_size = sizeof request,
                                      .tenant = tp_text_of(session->tenant),
                                      .session = tp_text_of(session->id),
                                      .claim = claim};
  assert(claim->fence && session->history.release);
  session->history.release(session->history.ctx, &request);
}

void tp__host_call_take_claim(tp__host_call *call) {
  TP__OWNED(&call->turn->strand);
  assert(call->claim.fence && !call->session->has_claim);
  call->session->claim = call->claim;
  call->session->has_claim = true;
  call->turn->fence = call->claim.fence;
  call->turn->fence_origin = call->claim.origin;
  call->claim.fence = 0;
}

void tp__session_release_claim(tp_session *session) {
  if (!session->has_claim) return;
  session->has_claim = false;
  if (!TP__BUG(TP__BUG_KEPT_CLAIM)) release_claim(session, &session->claim);
}

static void free_host_call(tp__attempt *attempt) {
  tp__host_call *c = host_call_of(attempt);
  tp_runtime *runtime = tp__attempt_runtime(attempt);
  tp__turn *turn = c->turn;
  tp_session *session = c->session;
  if (c->claim.fence && !TP__BUG(TP__BUG_KEPT_LATE_CLAIM))
    release_claim(session, &c->claim); /* the turn did not wait for it */
  end_to_count(c);                     /* it never ran, or its token was not completed */
  tp__past_unref(c->past);
  tp__past_unref(c->made);
  tp__arena_fini(&c->arena);
  tp__block_give(tp__runtime_blocks(runtime), c, c->block_size);
  tp__session_unref(session);
  tp__turn_unref(turn);
}

static const tp__attempt_class class = {.what = "history",
                                        .complete_with = "tp_history_complete()",
                                        .call = do_host_work,
                                        .accept = accept_completion,
                                        .abandoned = note_work_abandoned,
                                        .late = late,
                                        .settled = settle_host_call,
                                        .release = free_host_call};

static const tp__attempt_class load_class = {.what = "history",
                                             .complete_with = "tp_history_complete_load()",
                                             .accept = accept_completion,
                                             .abandoned = note_work_abandoned,
                                             .late = late,
                                             .settled = settle_host_call,
                                             .release = free_host_call};

static tp__host_call *new_call(tp_turn *turn, tp_session *session, const char *name, const tp__attempt_class *of_call) {
  TP__OWNED(&turn->core.strand);
  tp_runtime *runtime = turn->core.runtime;
  size_t block_size;
  tp__host_call *c = tp__block_take(tp__runtime_blocks(runtime), sizeof *c + LIST_BYTES, &block_size);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  if (tp__attempt_init(&c->base, of_call, &turn->core.strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), c, block_size);
    return NULL;
  }
  c->block_size = block_size;
  c->base.pool_item.lane = TP__LANE_HISTORY;
  tp__history_permits *permits = tp__layer_history_permits(runtime);
  c->base.pool_item.permits = tp__history_permits_of(permits, session->tenant);
  c->base.pool_item.permits_max = permits->most;
  c->base.pool_item.is_patient = true; /* a slow store delays its turns, but no turn is refused for it */
  c->base.pool_item.name = name;
  c->turn = &turn->core;
  c->session = session;
  tp__turn_hold(c->turn);
  tp__session_hold(session);
  tp__arena_init(&c->arena, &tp__runtime_blocks(runtime)->as_allocator, c + 1, block_size - sizeof *c, 0);
  return c;
}

tp__host_call *tp__host_call_new(tp_turn *turn, tp_session *session, const char *name) {
  return new_call(turn, session, name, &class);
}

tp__host_call *tp__host_call_new_load(tp_turn *turn, tp_session *session, const char *name, bool claims) {
  tp__host_call *c = new_call(turn, session, name, session->history.load_start ? &load_class : &class);
  if (!c) return NULL;
  c->load = (tp_history_load){
      .struct_size = sizeof c->load, .tenant = tp_text_of(session->tenant), .session = tp_text_of(session->id)};
  c->claim.struct_size = sizeof c->claim;
  if (claims) {
    assert(session->history.shared && !session->has_claim);
    c->load.owner = tp__runtime_owner(turn->core.runtime);
    c->load.number = session->claim.number;
    c->load.after = session->claim.position + (TP__BUG(TP__BUG_OLD_PAST) ? 2 : 0);
    c->load.claim = &c->claim;
  }
  c->made = tp__past_new(tp__runtime_allocator(turn->core.runtime));
  if (c->made) return c;
  tp__host_call_drop(c);
  return NULL;
}

static bool is_load(const tp__host_call *c) { return c->base.class == &load_class; }

static void cancel_here(void *ctx) {
  tp__host_call *c = ctx;
  const tp_history *history = &c->session->history;
  void (*cancel)(void *, tp_token) = is_load(c) ? history->load_cancel : history->append_cancel;
  if (cancel) cancel(history->ctx, c->base.token);
}

/* Called here, on the owner's thread. The completion comes as a message, even when the function itself makes it. */
static void start_here(tp__host_call *c, int64_t deadline_ns) {
  TP__ASSERT(is_load(c) ? c->session->history.load_start != NULL : c->session->history.append_start != NULL);
  tp__attempt *attempt = &c->base;
  const tp_history *history = &c->session->history;
  tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = cancel_here, .ctx = c};
  tp_token token;
  tp__a64_store_relaxed(&attempt->started_ns, (uint64_t)tp__now_ns()); /* no other thread knows it yet */
  if (tp__attempt_defer(attempt, &deferral, &token) != TP_OK) {
    c->status = tp__tokens_full(attempt->sched, &c->fault);
    tp__attempt_fini(attempt);
    settle_host_call(attempt, TP__ANSWERED);
    return;
  }
  if (is_load(c)) history->load_start(history->ctx, &c->load, token);
  else history->append_start(history->ctx, &c->request, token);
  tp__attempt_await(attempt, TP__BUG(TP__BUG_LOAD_ENDLESS) && is_load(c) ? TP__NEVER : deadline_ns);
}

void tp__host_call_start(tp__host_call *c, int64_t end_ns) {
  TP__ASSERT(c->on_end && end_ns > 0);
  int64_t deadline_ns = tp__deadline_after_ms(tp__now_ns(), TP__HOST_CALL_LIMIT_MS);
  if (end_ns < deadline_ns) deadline_ns = end_ns;
  begin_to_count(c);
  if (!c->work) {
    start_here(c, deadline_ns);
    return;
  }
  tp_reason refused = tp__attempt_start(&c->base, deadline_ns, 0);
  if (!refused) return;
  c->on_end(c, refused == TP_REASON_SHUTDOWN ? TP_ERR_SHUTDOWN : TP_ERR_NO_THREAD);
  tp__attempt_unref(&c->base);
}

bool tp__session_history_is_called(const tp_session *session) { return tp__a32_load_acquire(&session->blocking) > 0; }

void tp__host_call_drop(tp__host_call *c) {
  TP__ASSERT(tp__attempt_is_alone(&c->base));
  tp__attempt_fini(&c->base);
  tp__attempt_unref(&c->base);
}

static tp_status complete_host_call(tp_token token, const tp__attempt_class *of_token, const completion *theirs,
                                    tp_fault *fault) {
  if (!tp__status_is_known(theirs->status))
    return tp__fail(fault, TP_ERR_USAGE, NULL, "status %d is no tp_status: the token stays open", (int)theirs->status);
  return tp__token_answer(token, of_token, &(tp__answer){.kind = TP_ANSWER_DONE}, theirs, fault);
}

tp_status tp_history_complete(tp_token token, tp_status status, const tp_fault *why, tp_fault *fault) {
  const completion theirs = {.status = status, .fault = why};
  return complete_host_call(token, &class, &theirs, fault);
}

tp_status tp_history_complete_load(tp_token token, tp_status status, const tp_message *const *messages,
                                   size_t message_count, const tp_fault *why, tp_fault *fault) {
  const completion theirs = {.status = status, .fault = why, .messages = messages, .message_count = message_count};
  if (message_count > 0 && !messages)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "messages is NULL, and message_count is %zu: the token stays open",
                    message_count);
  if (message_count > 0 && status != TP_OK)
    return tp__fail(fault, TP_ERR_USAGE, NULL,
                    "a load that failed (%s) has no messages, and %zu were given: the token stays open",
                    tp_status_name(status), message_count);
  return complete_host_call(token, &load_class, &theirs, fault);
}
