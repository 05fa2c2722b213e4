/* SPDX-License-Identifier: Apache-2.0
 *
 * node_attempt.c: an attempt of a node, for a handler that leaves its owner's thread. It has a chunk of memory in which
 * the handler's answer grows, and a second chunk for an answer that comes through a token, because the handler and the
 * holder of the token may write at the same time. */
#include "runtime/exec/node_attempt.h"

#include "runtime/exec/exec.h"
#include "runtime/exec/blocks.h"
#include "runtime/exec/breadcrumb.h"
#include "runtime/exec/call.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/settle.h"

enum { BLOCK_BYTES = 1024 };

typedef struct node_attempt {
  tp__attempt base;
  tp__entry *entry; /* referenced */
  uint32_t index;
  bool pinned;      /* counted in abandoned_bytes */
  bool is_retained; /* its answer is the node's, and may be read as long as the entry exists */
  struct node_attempt *next_retained;
  tp_call call;
  tp__arena arena;
  tp__arena answer_arena;
  tp__output answer_output;
  bool answered_by_token;
  size_t block_size;
} node_attempt;

_Static_assert(sizeof(node_attempt) + 160 <= BLOCK_BYTES, "a small answer fits behind its attempt");

static node_attempt *node_attempt_of(tp__attempt *attempt) { return TP__CONTAINER(attempt, node_attempt, base); }

static tp__answer call_handler(tp__attempt *attempt) {
  node_attempt *a = node_attempt_of(attempt);
  const tp__node *node = &a->entry->plan->nodes[a->index];
  a->call.started_ns = (int64_t)tp__a64_load_relaxed(&attempt->started_ns); /* written by this thread */
  tp_breadcrumb *breadcrumb = tp__breadcrumb_of_node(a->entry, a->index, a->call.started_ns);
  tp_answer kind = node->run(node->ctx, &a->call);
  tp__breadcrumb_leave(breadcrumb);
  return tp__call_answer(&a->call, kind);
}

/* The token is completed even if its answer is refused, so the library has taken over all contributions of the answer.
 * From the first refused one on, they are discarded. */
static tp_status copy_contributions(node_attempt *a, const tp__answer *answer, tp_status status) {
  const tp__contribution_ops *ops = tp__runtime_layer_ops(tp__attempt_runtime(&a->base))->contributions;
  for (size_t i = 0; i < answer->contribution_count; i++) {
    const tp_contribution *contribution = answer->contributions[i];
    if (status == TP_OK)
      status = tp__output_emit(&a->answer_output, &a->answer_arena, a->entry, a->index, contribution, NULL);
    if (status != TP_OK && ops->discard) ops->discard(contribution);
  }
  return status;
}

/* Called on any thread that has won the attempt, so that only this thread uses the answer arena. */
static void accept_token_answer(tp__attempt *attempt, const tp__answer *answer, const void *extra) {
  (void)extra;
  node_attempt *a = node_attempt_of(attempt);
  a->answered_by_token = true;
  const char *reason = NULL;
  tp_status status = tp__arena_string(&a->answer_arena, answer->reason, &reason) ? TP_OK : TP_ERR_NO_MEMORY;
  status = copy_contributions(a, answer, status);
  if (status == TP_OK && answer->replacement_count > 0)
    status = tp__output_replace(&a->answer_output, &a->answer_arena, a->entry, a->index, answer->replacements,
                                answer->replacement_count, NULL);
  if (status != TP_OK) a->answer_output.refused = status;
  attempt->answer.reason = reason;
}

/* Contributions that were emitted before the deferral belong to the answer, and come first. */
static void join_outputs(node_attempt *a, tp__output *ret_output) {
  TP__ASSERT(a->answered_by_token);
  tp__output *before = &a->call.output, *after = &a->answer_output;
  *ret_output = *before;
  if (ret_output->refused == TP_OK) {
    ret_output->refused = after->refused;
    ret_output->refusal = after->refusal;
  }
  if (after->replacement_count > 0)
    (void)!tp__output_join(ret_output, &a->answer_arena, after->replacement, after->replacement_count);
  if (!after->first) return;
  if (ret_output->last) ret_output->last->next = after->first;
  else ret_output->first = after->first;
  ret_output->last = after->last;
  ret_output->count += after->count;
}

/* The first abandoned attempt of an entry pins the entry's block for all of them. */
static void pin(node_attempt *a) {
  TP__ASSERT(!a->pinned);
  bool first = tp__a32_add_acq_rel(&a->entry->pinned, 1) == 0;
  a->pinned = true;
  tp__a64_add_acq_rel(&tp__runtime_counters(tp__attempt_runtime(&a->base))->abandoned_bytes,
                      a->block_size + (first ? a->entry->block_size : 0));
}

/* and the last one unpins it. */
static void unpin(const node_attempt *a) {
  bool last = tp__a32_sub_acq_rel(&a->entry->pinned, 1) == 1;
  tp__a64_sub_acq_rel(&tp__runtime_counters(tp__attempt_runtime(&a->base))->abandoned_bytes,
                      a->block_size + (last ? a->entry->block_size : 0));
}

/* The limit counts from the arrival in the inbox, but the row's times begin when the host took the attempt. */
static bool is_late_in_inbox(const node_attempt *a) {
  return a->base.inbox_item.inbox && a->base.refusal == TP_REASON_NONE && a->base.ended_ns > a->call.deadline_ns;
}

/* Called when the attempt was refused, or its time was over while it waited for a thread, a permit or its inbox. It
 * does not count as an attempt. */
static void uncount(tp__entry *e, uint32_t index, tp__run *run) {
  TP__ASSERT(run->row.attempts > run->reported);
  run->row.attempts--;
  run->row.limit_ms = (uint32_t)(e->plan->nodes[index].timeout_ns / TP__NS_PER_MS);
}

/* On the owner. The answer of an attempt that succeeded stays in the attempt's memory until the entry's last reference
 * is dropped. */
static void settle_node_attempt(tp__attempt *attempt, tp__attempt_end end) {
  TP__OWNED(&node_attempt_of(attempt)->entry->turn->strand);
  TP__ASSERT(!node_attempt_of(attempt)->entry->ended);
  node_attempt *a = node_attempt_of(attempt);
  tp__entry *e = a->entry;
  tp__run *run = tp__run_make(e, a->index);
  e->now_ns = tp__now_ns();
  int64_t called_ns = tp__attempt_called_ns(attempt);
  if (called_ns || !run->reported) { /* else the row keeps the start of the attempt before this one */
    run->row.started_ns = called_ns;
    run->row.thread = called_ns ? attempt->pool_item.ran_on : 0;
  }
  run->attempt = NULL;
  if (run->row.attempts == 0) { /* a helper called it, and has not yet returned the batch in which it deferred */
    run->row.attempts = (uint16_t)a->call.attempt_number;
    run->row.queued_ns = run->row.started_ns;
  }
  if (end != TP__ANSWERED && !called_ns) uncount(e, a->index, run);
  switch (end) {
    case TP__ANSWERED: {
      if (is_late_in_inbox(a)) {
        run->row.late_ns = attempt->ended_ns;
        tp__entry_missed(e, a->index, e->cancelled ? TP_STATE_CANCELLED : TP_STATE_TIMED_OUT,
                         e->cancelled ? TP_REASON_CANCELLED : TP_REASON_TIMEOUT, attempt->ended_ns);
        break;
      }
      tp__output output = a->call.output;
      if (a->answered_by_token) join_outputs(a, &output);
      tp__entry_answered(e, a->index, &attempt->answer, &output, attempt->ended_ns);
      a->is_retained = run->settled; /* otherwise the node is tried again, and nothing of this answer is used */
      break;
    }
    case TP__REFUSED:
      tp__entry_missed(e, a->index, TP_STATE_FAILED, attempt->refusal, e->now_ns);
      break;
    case TP__EXPIRED:
      pin(a);
      tp__entry_missed(e, a->index, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT, e->now_ns);
      break;
    case TP__CANCELLED:
      pin(a);
      tp__entry_missed(e, a->index, TP_STATE_CANCELLED, TP_REASON_CANCELLED, e->now_ns);
      break;
  }
  tp__attempt_unref(attempt);
}

static void late(tp__attempt *attempt, int64_t now_ns) {
  node_attempt *a = node_attempt_of(attempt);
  const tp_store *store = tp__runtime_store(tp__attempt_runtime(attempt));
  if (!store->record_late) return;
  tp_late_record note = {.struct_size = sizeof note,
                         .process_run_id = tp__runtime_run_id(tp__attempt_runtime(attempt)),
                         .entry_id = a->entry->id,
                         .late_ns = now_ns,
                         .run_index = a->index};
  (void)!store->record_late(store->ctx, &note);
}

static void free_memory(tp_runtime *runtime, node_attempt *a) {
  tp__arena_fini(&a->arena);
  tp__arena_fini(&a->answer_arena);
  tp__block_give(tp__runtime_blocks(runtime), a, a->block_size);
}

/* Abandoned calls of other nodes may read the answer as long as they hold the entry, even after the entry's result was
 * released. */
static void retain(tp__entry *e, node_attempt *a) {
  TP__ASSERT(a->is_retained && !a->pinned);
  void *newest = tp__aptr_load_relaxed(&e->retained_attempts);
  do a->next_retained = newest;
  while (!tp__aptr_cas_acq_rel(&e->retained_attempts, &newest, a));
}

void tp__node_attempts_free(tp__entry *e) {
  node_attempt *a = tp__aptr_load_acquire(&e->retained_attempts);
  while (a) {
    node_attempt *next = a->next_retained;
    free_memory(e->turn->runtime, a);
    a = next;
  }
}

static void free_node_attempt(tp__attempt *attempt) {
  node_attempt *a = node_attempt_of(attempt);
  tp_runtime *runtime = tp__attempt_runtime(attempt);
  tp__entry *e = a->entry;
  if (a->pinned) unpin(a);
  if (a->is_retained) retain(e, a);
  else free_memory(runtime, a);
  tp__entry_unref(e);
}

const tp__attempt_class tp__node_attempt_class = {.what = "handler",
                                                  .complete_with = "tp_token_complete()",
                                                  .call = call_handler,
                                                  .accept = accept_token_answer,
                                                  .settled = settle_node_attempt,
                                                  .late = late,
                                                  .release = free_node_attempt};

static bool is_memory_pinned(tp_runtime *runtime) {
  const tp__counters *counters = tp__runtime_counters(runtime);
  return tp__a64_load_relaxed(&counters->abandoned_bytes) > tp__a64_load_relaxed(&counters->abandoned_bytes_max);
}

/* The attempt holds the entry. Once an attempt has left the owner's thread, the entry holds the turn. */
static node_attempt *new_attempt(tp__entry *e, uint32_t index) {
  tp_runtime *runtime = e->turn->runtime;
  if (is_memory_pinned(runtime)) return NULL;
  size_t block_size;
  node_attempt *a = tp__block_take(tp__runtime_blocks(runtime), BLOCK_BYTES, &block_size);
  if (!a) return NULL;
  memset(a, 0, sizeof *a);
  if (tp__attempt_init(&a->base, &tp__node_attempt_class, &e->turn->strand) != TP_OK) {
    tp__block_give(tp__runtime_blocks(runtime), a, block_size);
    return NULL;
  }
  a->entry = e;
  a->index = index;
  a->base.pool_item.name = e->plan->nodes[index].subscription_name;
  a->block_size = block_size;
  tp__arena_init(&a->arena, &tp__runtime_blocks(runtime)->as_allocator, a + 1, block_size - sizeof *a, 0);
  tp__arena_init(&a->answer_arena, &tp__runtime_blocks(runtime)->as_allocator, NULL, 0, 0);
  tp__a32_add_relaxed(&e->refs, 1);
  if (!e->holds_turn) {
    e->holds_turn = true;
    tp__turn_hold(e->turn);
  }
  return a;
}

/* A subscription that sets no number of permits must not be able to occupy a small pool by hanging. */
static uint32_t permits_of(tp_runtime *runtime, const tp__node *node) {
  uint32_t most = tp__runtime_sched(runtime)->pool.threads_max / 4;
  if (node->sub->desc.max_concurrent > 0 || node->permits <= most) return node->permits;
  return most > 0 ? most : 1;
}

/* Under load, detached runs are shed first, then nodes that an entry can do without. Required work is never shed, and
 * neither is the work that a turn must do at its end. @return the attempt is shed when this many wait for a thread; 0:
 * never. */
static uint32_t shed_above(const tp__entry *e, const tp__node *node) {
  uint32_t most = tp__runtime_options(e->turn->runtime)->handler_queue_max;
  if (e->detached_run) return most > 1 ? most / 2 : 1;
  if (e->ignores_cancel || node->failure != TP_FAILURE_BEST_EFFORT) return 0;
  return most - most / 4;
}

/* The limit counts from here on, so that an entry does not wait for an inbox that the host never empties. */
static tp_reason offer(node_attempt *a, const tp__node *node, tp__run *run) {
  int64_t limit_end_ns = a->call.timeout_ns ? tp__now_ns() + a->call.timeout_ns : TP__NEVER;
  if (limit_end_ns < a->call.deadline_ns) a->call.deadline_ns = limit_end_ns;
  a->call.timeout_ns = 0;
  a->base.inbox_item.work =
      (tp_work){.struct_size = sizeof(tp_work), .kind = TP_WORK_HANDLER, .ctx = node->ctx, .call = &a->call};
  tp_inbox *inbox = tp__inbox_meant(node->handler->desc.inbox, a->entry->turn->inbox);
  tp_reason refused = tp__attempt_offer(&a->base, inbox, a->call.deadline_ns);
  if (refused) tp__attempt_unref(&a->base);
  else run->attempt = &a->base;
  return refused;
}

/* If functions that do not return hold all threads as well as all permits, the missing thing is a thread. */
static tp_reason why_none(tp_runtime *runtime, const tp__node *node) {
  bool no_thread = !node->handler->desc.inbox && is_memory_pinned(runtime) &&
                   tp__pool_is_exhausted(&tp__runtime_sched(runtime)->pool);
  return no_thread ? TP_REASON_NO_WORKER : TP_REASON_NO_MEMORY;
}

tp_reason tp__node_submit(tp__entry *e, uint32_t index, int64_t deadline_ns, int64_t timeout_ns) {
  const tp__node *node = &e->plan->nodes[index];
  tp__run *run = tp__run_make(e, index);
  if (tp__inbox_is_of_session(node->handler->desc.inbox) && !e->turn->inbox) return TP_REASON_NO_INBOX;
  node_attempt *a = new_attempt(e, index);
  if (!a) return why_none(e->turn->runtime, node);
  a->call = (tp_call){.entry = e,
                      .index = index,
                      .attempt_number = run->row.attempts,
                      .fields = e->fields,
                      .field_count = e->field_count,
                      .deadline_ns = deadline_ns,
                      .timeout_ns = timeout_ns,
                      .arena = &a->arena,
                      .attempt = &a->base};
  if (node->handler->desc.inbox) return offer(a, node, run);
  a->base.pool_item.lane = e->detached_run ? TP__LANE_DETACHED : TP__LANE_AWAITED;
  a->base.pool_item.permits = node->permits ? &node->sub->permits : NULL;
  a->base.pool_item.permits_max = permits_of(e->turn->runtime, node);
  a->base.pool_item.keeps_permit = node->sub->desc.max_concurrent > 0;
  a->base.pool_item.queue_max = shed_above(e, node);
  a->base.pool_item.phase = e->plan->phase;
  tp_reason refused = tp__attempt_start(&a->base, deadline_ns, timeout_ns);
  if (refused == TP_REASON_SHED) tp__a64_add_relaxed(&tp__runtime_counters(e->turn->runtime)->attempts_shed, 1);
  if (refused) tp__attempt_unref(&a->base);
  else run->attempt = &a->base;
  return refused;
}

tp_status tp__node_defer_inline(tp_call *inline_call, const tp_deferral *deferral, tp_token *ret_token) {
  tp__entry *e = inline_call->entry;
  node_attempt *a = new_attempt(e, inline_call->index);
  if (!a) return TP_ERR_NO_MEMORY;
  a->call = *inline_call; /* contributions emitted so far are in the entry's arena, and the attempt holds the entry */
  a->call.deadline_ns = tp__call_deadline(inline_call);
  a->call.timeout_ns = 0;
  tp__a64_store_relaxed(&a->base.started_ns, (uint64_t)inline_call->started_ns); /* no other thread knows it yet */
  tp_status status = tp__attempt_defer(&a->base, deferral, ret_token);
  if (status == TP_OK) {
    inline_call->attempt = &a->base;
    return TP_OK;
  }
  tp__attempt_fini(&a->base);
  tp__attempt_unref(&a->base);
  return status;
}
