/* SPDX-License-Identifier: Apache-2.0
 *
 * settle.c: how a node ends: from its answer, or the reason why there is none, to its row in the record, to the effect
 * on the entry, and to the nodes that become ready. */
#include "runtime/exec/settle.h"

#include "runtime/exec/breaker.h"
#include "runtime/exec/records.h"
#include "runtime/exec/report.h"
#include "runtime/exec/share.h"

struct tp__retry {
  tp__timer_entry timer;
  tp__entry *entry;
  uint32_t index;
};

static const tp__node *node_of(const tp__entry *e, uint32_t index) {
  TP__ASSERT(index < e->plan->node_count);
  return &e->plan->nodes[index];
}

/* ---- exceptional runs ---- */

tp__run *tp__run_make(tp__entry *e, uint32_t index) {
  tp__run *run = &e->runs[index];
  if (!(e->marks[index] & TP__MARK_MORE)) *run = (tp__run){0};
  e->marks[index] |= TP__MARK_MORE;
  e->has_more = true;
  return run;
}

/* ---- what is ready ---- */

static void make_ready(tp__entry *e, uint32_t index) {
  if (!e->plan->inline_nodes[index].on_fast_path) {
    /* Deadlines and the wait in the record count from here. For a node on the fast path, the wait counts up to its
     * call. */
    tp__run *run = tp__run_make(e, index);
    if (run->row.attempts == 0) run->row.queued_ns = e->now_ns;
  }
  if (e->plan->inline_nodes[index].leaves) e->leaving[e->leaving_count++] = (uint16_t)index;
  else tp__ready_push(&e->ready, index);
  TP__ASSERT(e->counters[index] == 0 && e->leaving_count + e->ready.count <= e->unsettled);
}

/* The plan of a detached run has no edges, and no array of edges. */
static void propagate(tp__entry *e, const tp__node *node, bool passes) {
  for (uint32_t i = 0; i < node->edge_count; i++) {
    uint32_t edge = e->plan->edges[node->first_edge + i], target = edge >> 1;
    TP__ASSERT(target < e->plan->node_count && e->counters[target] > 0); /* it waits for this one */
    if (!passes && (edge & 1)) e->marks[target] |= TP__MARK_BLOCKED;
    if (--e->counters[target] == 0) make_ready(e, target);
  }
}

/* ---- deadlines ---- */

int64_t tp__entry_node_deadline(const tp__entry *e, uint32_t index, const tp__run *run) {
  return tp__node_deadline(node_of(e, index), e->end_ns, run->row.queued_ns);
}

/* ---- settling ---- */

static tp_answer answer_of(tp_verdict verdict) {
  switch (verdict) {
    case TP_VERDICT_DENY:
      return TP_ANSWER_DENY;
    case TP_VERDICT_ASK:
      return TP_ANSWER_ASK;
    case TP_VERDICT_ALLOW:
      return TP_ANSWER_ALLOW;
    default:
      return TP_ANSWER_DONE;
  }
}

static tp_verdict verdict_of(tp_answer kind) {
  switch (kind) {
    case TP_ANSWER_DENY:
      return TP_VERDICT_DENY;
    case TP_ANSWER_ASK:
      return TP_VERDICT_ASK;
    case TP_ANSWER_ALLOW:
      return TP_VERDICT_ALLOW;
    default:
      return TP_VERDICT_NONE;
  }
}

void tp__entry_set_state(tp__entry *e, tp__entry_state state) {
  TP__ASSERT(e->state == TP__ENTRY_OPEN && !e->ended); /* what will come of it is settled once */
  e->state = (uint8_t)state;
  if (e->share) tp__share_stop(e);
}

/* deny > ask > allow: the strictest verdict counts, of equal ones the first. A deny ends the chain. */
static void take_verdict(tp__entry *e, uint32_t index, tp_verdict verdict) {
  TP__ASSERT(e->marks[index] & TP__MARK_MORE);
  e->runs[index].row.verdict = (uint8_t)verdict;
  if (verdict <= e->verdict) return;
  e->verdict = (uint8_t)verdict;
  if (verdict == TP_VERDICT_DENY && e->state == TP__ENTRY_OPEN) tp__entry_set_state(e, TP__ENTRY_DENIED);
  if (verdict != TP_VERDICT_ALLOW) e->deciding_node = index;
}

bool tp__run_drop_retry(tp__run *run) {
  if (!run->retry) return false;
  tp__strand_timer_remove(&run->retry->timer);
  run->retry = NULL;
  return true;
}

/* Fails closed: no more nodes start; running nodes are cancelled, and waited for until their deadlines. */
static void fail_closed(tp__entry *e) {
  if (e->state != TP__ENTRY_OPEN) return;
  tp__entry_set_state(e, TP__ENTRY_FAILED);
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    if (!(e->marks[i] & TP__MARK_MORE)) continue;
    tp__run *run = &e->runs[i];
    if (run->attempt && !run->settled && !run->attempt->class->outlasts_cancel) tp__attempt_cancel(run->attempt);
    if (tp__run_drop_retry(run)) make_ready(e, i); /* the engine finds the entry decided */
  }
}

static void use_fallback(tp__entry *e, const tp__node *node, uint32_t index) {
  const tp_subscription *desc = &node->sub->desc;
  tp__run *run = &e->runs[index];
  run->row.fallback_used = true;
  run->row.contribution_count = (uint32_t)desc->fallback_count;
  if (desc->fallback_verdict != TP_VERDICT_NONE) take_verdict(e, index, desc->fallback_verdict);
}

void tp__entry_settle(tp__entry *e, uint32_t index, tp_state state, tp_reason reason) {
  const tp__node *node = node_of(e, index);
  tp__run *run = &e->runs[index];
  assert(!run->settled);
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(!e->ended && e->unsettled > 0 && (e->marks[index] & TP__MARK_MORE) && !run->retry);
  run->settled = true;
  run->row.state = (uint8_t)state;
  run->row.reason = (uint8_t)reason;
  run->row.execution = (uint8_t)node->execution;
  run->row.failure = (uint8_t)node->failure;
  if (run->row.attempts > 0 && !(node->flags & (TP__NODE_INLINE | TP__NODE_BACKGROUND)))
    run->row.limit_ms = (uint32_t)(node->timeout_ns / TP__NS_PER_MS);
  if (!run->row.verdict) run->row.verdict = TP_VERDICT_NONE;
  bool has_details = run->row.attempts > 1 || reason != TP_REASON_NONE || run->message;
  /* the attempt that was to follow the last one was never called */
  bool is_reported = run->row.attempts == run->reported;
  if (!is_reported && has_details) tp__entry_record_attempt(e, index, state, reason, run->message);
  if (!is_reported && state != TP_STATE_BACKGROUNDED) tp__breaker_count(e, index, reason);
  e->unsettled--;
  bool passes = reason == TP_REASON_NONE || reason == TP_REASON_KILL_SWITCH;
  switch (tp__decide(node->execution, node->failure, reason)) {
    case TP__DECIDE_GO_ON:
      break;
    case TP__DECIDE_DIAGNOSE:
      e->has_output = true;
      break; /* the diagnostic */
    case TP__DECIDE_FALLBACK:
      use_fallback(e, node, index);
      e->has_output = true;
      passes = true;
      break;
    case TP__DECIDE_FAIL:
      fail_closed(e);
      break;
  }
  if (run->row.contribution_count > 0) e->has_output = true;
  if (reason != TP_REASON_NONE || run->row.verdict == TP_VERDICT_DENY || tp__logs_attempts(e->turn->runtime))
    tp__report_run(e, index);
  if (e->on_run) e->on_run(e, index);
  propagate(e, node, passes);
  TP__CHECK(tp__entry_check(e));
}

bool tp__entry_settle_silent(tp__entry *e, uint32_t index, int64_t started_ns, int64_t ended_ns) {
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(!e->ended && e->unsettled > 0 && e->plan->inline_nodes[index].on_fast_path && !e->marks[index]);
  if (e->has_listener) return false;
  if (!tp__entry_put_row(e, &e->plan->inline_nodes[index], index, started_ns, ended_ns)) return false;
  e->unsettled--;
  propagate(e, node_of(e, index), true);
  TP__CHECK(tp__entry_check(e));
  return true;
}

/* ---- answers ---- */

static tp_reason reason_of_refusal(tp_status refused) {
  switch (refused) {
    case TP_ERR_CAPABILITY:
      return TP_REASON_CAPABILITY;
    case TP_ERR_NO_MEMORY:
      return TP_REASON_NO_MEMORY;
    default:
      return TP_REASON_MALFORMED;
  }
}

/* In a phase with verdicts: the strictest of the answer and of the verdicts among its contributions. */
static tp__answer strictest(tp__entry *e, const tp__answer *answer, const tp__output *output) {
  const tp__contribution_ops *ops = tp__runtime_layer_ops(e->turn->runtime)->contributions;
  tp__answer found = *answer;
  bool may_decide = answer->kind >= TP_ANSWER_DONE && answer->kind <= TP_ANSWER_ASK;
  if (!may_decide || !ops->verdict || !e->plan->row->stop) return found;
  for (const tp__emitted *emitted = output->first; emitted; emitted = emitted->next) {
    tp_text reason = {0};
    tp_verdict verdict = ops->verdict(&emitted->contribution, &reason);
    if (verdict <= verdict_of(found.kind)) continue;
    found.kind = answer_of(verdict);
    tp_text copy = {0};
    found.reason = reason.size && tp__arena_text(&e->arena, reason, &copy) ? copy.data : NULL;
  }
  return found;
}

/* NONE when the node may give this answer in this phase. */
static tp_reason judge_answer(const tp__entry *e, const tp__node *node, const tp__answer *answer,
                              const tp__output *output) {
  if (output->refused != TP_OK) return reason_of_refusal(output->refused);
  switch (answer->kind) {
    case TP_ANSWER_DONE:
      return TP_REASON_NONE;
    case TP_ANSWER_ASK:
    case TP_ANSWER_ALLOW:
    case TP_ANSWER_DENY:
      if (!(node->capabilities & TP_CAPABILITY_DECIDE)) return TP_REASON_CAPABILITY;
      if (!e->plan->row->stop || (answer->kind == TP_ANSWER_ASK && !e->plan->row->ask)) return TP_REASON_MALFORMED;
      return TP_REASON_NONE;
    case TP_ANSWER_FAILED:
      return answer->why != 0 ? (tp_reason)answer->why : TP_REASON_ERROR;
    case TP_ANSWER_DEFERRED:
      break;
  }
  return TP_REASON_MALFORMED;
}

static bool has_field(const tp__output *output, tp_field_id id) {
  for (uint32_t i = 0; i < output->replacement_count; i++)
    if (output->replacement[i].id == id) return true;
  return false;
}

/* A handler may have replaced a field, but not another field that belongs to it. That other field may no longer be
 * true, so it leaves the payload.
 * @return how many fields are left. */
static uint32_t drop_owned(const tp__entry *e, const tp__output *output, tp_field *fields, uint32_t count) {
  const tp__contribution_ops *ops = tp__runtime_layer_ops(e->turn->runtime)->contributions;
  uint32_t left = 0;
  for (uint32_t i = 0; i < count; i++) {
    tp_field_id owner = ops->field_owner ? ops->field_owner(fields[i].id) : TP_FIELD_NONE;
    if (owner && has_field(output, owner) && !has_field(output, fields[i].id)) continue;
    fields[left++] = fields[i];
  }
  TP__ASSERT(left > 0); /* what was replaced is there */
  return left;
}

/* Writes the replaced fields over the existing ones, in a new array, because calls that run may still read the old
 * array. */
static bool replace_fields(tp__entry *e, const tp__output *output) {
  TP__ASSERT(output->replacement_count > 0);
  tp_field *fields = tp__arena_alloc(&e->arena, (e->field_count + output->replacement_count) * sizeof *fields);
  if (!fields) return false;
  uint32_t count = e->field_count;
  if (count > 0) memcpy(fields, e->fields, count * sizeof *fields);
  for (uint32_t i = 0; i < output->replacement_count; i++) {
    uint32_t at = 0;
    while (at < count && fields[at].id != output->replacement[i].id) at++;
    fields[at] = output->replacement[i];
    if (at == count) count++;
  }
  e->fields = fields;
  e->field_count = drop_owned(e, output, fields, count);
  e->is_call_set = false; /* the next inline node's call must see the new fields */
  e->has_output = true;
  return true;
}

static void fire_retry(tp__timer_entry *timer, int64_t now_ns) {
  struct tp__retry *retry = TP__CONTAINER(timer, struct tp__retry, timer);
  tp__entry *e = retry->entry;
  TP__ASSERT(!e->ended && e->runs[retry->index].retry == retry);
  e->runs[retry->index].retry = NULL;
  /* a function that fired earlier in this round may have read the clock since */
  if (now_ns > e->now_ns) e->now_ns = now_ns;
  make_ready(e, retry->index);
  tp__entry_advance(e);
}

/* @return true when the node will be tried again. */
static bool try_again(tp__entry *e, const tp__node *node, uint32_t index, const tp__answer *answer) {
  tp__run *run = &e->runs[index];
  const tp_subscription *desc = &node->sub->desc;
  if (!(node->flags & TP__NODE_RETRY) || !answer->retryable || e->state != TP__ENTRY_OPEN) return false;
  if (run->row.attempts >= desc->attempts) return false;
  int64_t pause = tp__retry_pause_ns(desc, run->row.attempts);
  if (e->now_ns + pause >= tp__entry_node_deadline(e, index, run)) return false;
  struct tp__retry *retry = pause > 0 ? tp__arena_zero(&e->arena, sizeof *retry) : NULL;
  if (pause > 0 && !retry) return false;
  if (pause == 0) {
    make_ready(e, index);
    return true;
  }
  TP__ASSERT(!run->retry && !run->settled);
  *retry = (struct tp__retry){.timer = {.fire = fire_retry}, .entry = e, .index = index};
  run->retry = retry;
  tp__strand_timer_add(&e->turn->strand, &retry->timer, e->now_ns + pause);
  return true;
}

/* Reasons go into requests, histories and records. */
static const char *safe_reason(const char *reason) {
  return !reason || tp_utf8_valid(tp_text_of(reason), NULL) ? reason : "(its reason was not UTF-8)";
}

static void succeed(tp__entry *e, uint32_t index, const tp__answer *answer, const tp__output *output) {
  tp__run *run = &e->runs[index];
  run->first = output->first;
  run->row.contribution_count = output->count;
  if (!e->detached_run) {
    if (output->replacement && !replace_fields(e, output)) {
      run->row.contribution_count = 0;
      tp__entry_settle(e, index, TP_STATE_FAILED, TP_REASON_NO_MEMORY);
      return;
    }
    if (answer->kind != TP_ANSWER_DONE) {
      run->message = safe_reason(answer->reason);
      take_verdict(e, index, verdict_of(answer->kind));
    }
  }
  tp__entry_settle(e, index, TP_STATE_SUCCEEDED, TP_REASON_NONE);
}

static bool in_time(const tp__entry *e, uint32_t index, const tp__run *run) {
  int64_t timeout_ns = tp__node_timeout(node_of(e, index));
  return run->row.ended_ns <= tp__entry_node_deadline(e, index, run) &&
         (!timeout_ns || run->row.ended_ns - run->row.started_ns <= timeout_ns);
}

void tp__entry_take_answer(tp__entry *e, uint32_t index, const tp__answer *given, const tp__output *output) {
  const tp__node *node = node_of(e, index);
  tp__run *run = &e->runs[index];
  TP__ASSERT(!run->settled && run->row.attempts > 0); /* what was called answers, once */
  tp__answer with_verdicts;
  const tp__answer *answer = given;
  if (output->count > 0) {
    with_verdicts = strictest(e, given, output);
    answer = &with_verdicts;
  }
  if (!in_time(e, index, run)) {
    run->row.late_ns = run->row.ended_ns;
    tp__entry_settle(e, index, e->cancelled ? TP_STATE_CANCELLED : TP_STATE_TIMED_OUT,
                     e->cancelled ? TP_REASON_CANCELLED : TP_REASON_TIMEOUT);
    return;
  }
  tp_reason reason =
      e->detached_run && answer->kind >= TP_ANSWER_DONE && answer->kind <= TP_ANSWER_ASK && output->refused == TP_OK
          ? TP_REASON_NONE
          : judge_answer(e, node, answer, output);
  if (reason == TP_REASON_NONE) {
    succeed(e, index, answer, output);
    return;
  }
  run->row.code = answer->code;
  bool has_failed = answer->kind == TP_ANSWER_FAILED && output->refused == TP_OK;
  run->retryable = has_failed && answer->retryable;
  if (has_failed && try_again(e, node, index, answer)) {
    tp__breaker_count(e, index, reason);
    tp__entry_record_attempt(e, index, TP_STATE_FAILED, reason, safe_reason(answer->reason));
    run->reported = run->row.attempts;
    tp__report_retry(e, index);
    return;
  }
  run->message = output->refusal ? output->refusal : safe_reason(answer->reason);
  tp__entry_settle(e, index, TP_STATE_FAILED, reason);
}

void tp__entry_answered(tp__entry *e, uint32_t index, const tp__answer *answer, const tp__output *output,
                        int64_t ended_ns) {
  e->runs[index].row.ended_ns = ended_ns;
  tp__entry_take_answer(e, index, answer, output);
  tp__entry_advance(e);
}

void tp__entry_missed(tp__entry *e, uint32_t index, tp_state state, tp_reason reason, int64_t ended_ns) {
  e->runs[index].row.ended_ns = ended_ns;
  tp__entry_settle(e, index, state, reason);
  tp__entry_advance(e);
}
