/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.c: the general machine of an entry. The owner takes ready nodes, in plan order, from a set that only it uses. A
 * phase whose handlers are all inline takes no lock here. */
#include "runtime/exec/entry.h"

#include "runtime/exec/exec.h"
#include "runtime/base/bug.h"
#include "runtime/exec/backlog.h"
#include "runtime/exec/begin.h"
#include "runtime/exec/breaker.h"
#include "runtime/exec/breadcrumb.h"
#include "runtime/exec/call.h"
#include "runtime/exec/detached.h"
#include "runtime/exec/inline.h"
#include "runtime/exec/jobs.h"
#include "runtime/exec/node_attempt.h"
#include "runtime/exec/record_commit.h"
#include "runtime/exec/records.h"
#include "runtime/exec/settle.h"
#include "runtime/exec/share.h"

static void advance(tp__entry *e);

/* ---- what always holds ---- */

#ifdef TP_CHECKS
/* Whether the ready nodes and counters were laid out (begin.h). Before that, no state of a node is read. */
static bool is_laid_out(const tp__entry *e) { return e->marks != e->plan->no_marks; }

static bool is_in_ready(const tp__entry *e, uint32_t index) { return e->ready.bits[index / 64] >> index % 64 & 1; }

static void nodes_check(const tp__entry *e) {
  uint32_t ready = 0, open = 0, settled = 0, waits = 0;
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    const tp__run *run = tp__entry_more(e, i);
    /* A ready node waits for no other node, and has not ended. */
    assert(!is_in_ready(e, i) || (e->counters[i] == 0 && !(run && run->settled)));
    /* A node that has ended no longer waits for other nodes, and will not be tried again. */
    assert(!run || !run->settled || (e->counters[i] == 0 && !run->retry));
    /* A node waits for at most as many nodes as it has incoming edges. */
    assert(e->counters[i] <= e->plan->indegree[i]);
    ready += is_in_ready(e, i);
    settled += run && run->settled;
    open += run && !run->settled;
    waits += run && !run->settled && (run->attempt || run->retry);
  }
  /* Each ready node is counted, and none is before the word at which the search begins. */
  assert(ready == e->ready.count);
  for (uint32_t word = 0; word < e->ready.low; word++) assert(e->ready.bits[word] == 0);
  /* A node is settled once. Every node that is known to be open is counted in `unsettled`, and no node that is known to
   * be settled is. */
  assert(open <= e->unsettled && settled <= e->plan->node_count - e->unsettled);
  /* An entry that is idle before its end waits for an attempt, for the time of another try, or for other threads. */
  assert(e->running || e->unsettled == 0 || waits > 0 || ready + e->leaving_count > 0 || e->share);
}

void tp__entry_check(const tp__entry *e) {
  TP__OWNED(&e->turn->strand);
  /* The entry has a block, in which its rows follow it. */
  assert(e->taken && e->block_size >= tp__entry_bytes(e->plan) && e->rows == (const tp__row *)(e + 1));
  /* Time goes on. */
  assert(e->now_ns >= e->begin_ns && e->fast_path_until_ns <= e->begin_ns + UINT32_MAX);
  /* The first denial denies the entry, unless the entry had failed or was cancelled before. */
  assert(e->state <= TP__ENTRY_UNSTORED && (e->state != TP__ENTRY_DENIED || e->verdict == TP_VERDICT_DENY));
  /* A node of its own decides. */
  assert(e->deciding_node == UINT32_MAX || e->deciding_node < e->plan->node_count);
  /* The state CANCELLED requires a cancel. An entry that had failed or was denied before a cancel keeps that state. */
  assert(e->state != TP__ENTRY_CANCELLED || e->cancelled);
  if (!is_laid_out(e)) return;
  /* A ready or leaving node has not ended; so when all nodes have ended, none is ready or leaving. */
  assert(e->unsettled <= e->plan->node_count && e->leaving_count + e->ready.count <= e->unsettled);
  /* An entry ends when all of its nodes have ended, outside of the machine. */
  assert(!e->ended || (e->unsettled == 0 && !e->running));
  if (e->plan->node_count <= TP__CHECK_ITEMS_MAX) nodes_check(e);
}
#endif

/* ---- beginning ---- */

/* The block has no entry any more. */
static void leave_block(tp__entry *e) {
  tp__turn *turn = e->turn;
  TP__ASSERT(e->taken);
  if (tp__aptr_load_relaxed(&e->payloads)) tp__call_payloads_free(e);
  if (tp__aptr_load_relaxed(&e->closures)) tp__closures_unref(&e->closures);
  e->shown = NULL;
  if (e->arena.chunks) {
    tp__arena_fini(&e->arena);
    e->arena.end = (char *)e + e->block_size;
  }
  if (e == turn->cached_entry) e->taken = false;
  else tp__block_give(&turn->runtime->blocks, e, e->block_size);
}

bool tp__fields_copy(tp__arena *arena, const tp_field *fields, uint32_t count, tp_field **ret_copy) {
  tp_field *copy = tp__arena_alloc(arena, (count ? count : 1) * sizeof *copy);
  if (!copy) return false;
  for (uint32_t i = 0; i < count; i++) {
    copy[i] = fields[i];
    if (!tp__arena_text(arena, fields[i].text, &copy[i].text)) return false;
  }
  *ret_copy = copy;
  return true;
}

const tp_field *tp__fields_find(const tp_field *fields, uint32_t count, uint32_t id) {
  for (uint32_t i = 0; i < count; i++)
    if (fields[i].id == id) return &fields[i];
  return NULL;
}

/* Attempts that leave this thread may run longer than the caller's payload exists, so the payload is copied. */
static bool take_payload(tp__entry *e, const tp__entry_spec *spec) {
  tp_field *copy = NULL;
  e->payload_borrowed = e->plan->all_inline && e->plan->detached_count == 0;
  if (!e->payload_borrowed && !tp__fields_copy(&e->arena, spec->fields, spec->field_count, &copy)) return false;
  tp__entry_set_payload(e, e->payload_borrowed ? spec->fields : copy, spec->field_count);
  return true;
}

tp_status tp__entry_new(tp__turn *turn, const tp__entry_spec *spec, tp__entry **ret_entry) {
  tp__entry *e = tp__entry_begin(turn, spec->plan, spec->budget_ns, spec->ignores_cancel);
  if (!e) return TP_ERR_NO_MEMORY;
  e->on_end = spec->on_end;
  e->on_run = spec->on_run;
  e->has_listener = spec->on_run != NULL;
  e->ctx = spec->ctx;
  e->ignores_cancel = spec->ignores_cancel;
  e->detached_run = spec->detached_run;
  e->is_call_set = false;
  if (!take_payload(e, spec)) {
    leave_block(e);
    return TP_ERR_NO_MEMORY;
  }
  tp__entry_lay_out(e);
  TP__CHECK(tp__entry_check(e));
  *ret_entry = e;
  return TP_OK;
}

/* ---- a node's turn ---- */

tp_text tp_match_text(const tp_match_view *view, uint32_t field) {
  if (!view) return (tp_text){0};
  const tp_field *f = tp__fields_find(view->entry->begin_fields, view->entry->begin_field_count, field);
  return f ? f->text : (tp_text){NULL, 0};
}

int64_t tp_match_int(const tp_match_view *view, uint32_t field) {
  if (!view) return 0;
  const tp_field *f = tp__fields_find(view->entry->begin_fields, view->entry->begin_field_count, field);
  return f ? f->number : 0;
}

tp_text tp_match_id(const tp_match_view *view, uint32_t id) {
  if (!view) return (tp_text){0};
  return id < TP_ID_COUNT ? view->entry->turn->ids[id] : (tp_text){NULL, 0};
}

tp_caller tp_match_caller(const tp_match_view *view) {
  if (!view) return TP_CALLER_AI_SESSION;
  return view->entry->turn->caller;
}

tp_text tp_match_environment(const tp_match_view *view) {
  if (!view) return (tp_text){0};
  return view->entry->turn->environment;
}
tp_text tp_match_mode(const tp_match_view *view) {
  if (!view) return (tp_text){0};
  return view->entry->turn->mode;
}

static bool is_killed(const tp__entry *e, const tp__node *node) {
  return tp__a32_load_relaxed(&e->turn->runtime->breaker_state.stopped_subscriptions) &&
         tp__a32_load_relaxed(&node->sub->killed);
}

/* Why the node has no duty, or NONE; MALFORMED when its match returned no valid answer. */
static tp_reason skip_reason(const tp__entry *e, const tp__node *node, uint32_t index) {
  if (is_killed(e, node)) return TP_REASON_KILL_SWITCH;
  if (e->state != TP__ENTRY_OPEN) return TP_REASON_PHASE_FAILED;
  int32_t matches = TP_MATCH_YES;
  if (node->flags & TP__NODE_MATCH) matches = tp__match(&node->sub->match, &(tp_match_view){e});
  if (matches == TP_MATCH_NO || (e->marks[index] & TP__MARK_SKIPPED)) return TP_REASON_MATCH;
  if (e->marks[index] & TP__MARK_BLOCKED) return TP_REASON_DEPENDENCY;
  if (matches != TP_MATCH_YES) return TP_REASON_MALFORMED;
  if (!(node->flags & (TP__NODE_REQUIRED | TP__NODE_DETACHED)) && e->now_ns >= tp__node_end(node, e->end_ns))
    return TP_REASON_NO_SLACK;
  return TP_REASON_NONE;
}

static const tp__output nothing;

/* Takes the answer of an inline call that did not defer. */
static void take_inline_answer(tp__entry *e, uint32_t index, tp_call *call, tp_answer kind) {
  if (!call->attempt) {
    tp__answer answer = tp__call_answer(call, kind);
    tp__entry_take_answer(e, index, &answer, call->touched ? &call->output : &nothing);
  } else if (kind == TP_ANSWER_DEFERRED || !tp__attempt_revoke(call->attempt)) {
    tp__run_make(e, index)->attempt = call->attempt;
    tp__attempt_await(call->attempt, tp__call_deadline(call));
  } else {
    tp__attempt_unref(call->attempt);
    tp__entry_take_answer(e, index, &(tp__answer){.kind = TP_ANSWER_DEFERRED}, &call->output); /* which is no answer */
  }
}

static int64_t stamp(const tp__entry *e) { return tp__stamp(e->turn->runtime->options.timestamps, e->now_ns); }

static void call_here(tp__entry *e, const tp__node *node, uint32_t index, tp__run *run) {
  tp__inline_call_set(e, &e->call, &e->arena, index);
  e->call.attempt_number = run->row.attempts;
  e->call.started_ns = run->row.started_ns = e->now_ns;
  tp_breadcrumb *breadcrumb = tp__breadcrumb_of_node(e, index, e->now_ns);
  tp_answer kind = node->run(node->ctx, &e->call);
  tp__breadcrumb_leave(breadcrumb);
  run->row.ended_ns = e->now_ns = stamp(e);
  e->is_call_set = false;
  take_inline_answer(e, index, &e->call, kind);
}

void tp__entry_called(tp__entry *e, uint32_t index, tp_call *call, tp_answer kind, int64_t ended_ns) {
  TP__ASSERT(e->running && index < e->plan->node_count && call->entry == e);
  tp__run *run = tp__run_make(e, index);
  run->row.attempts = 1;
  run->row.queued_ns = run->row.started_ns = call->started_ns;
  run->row.ended_ns = ended_ns;
  take_inline_answer(e, index, call, kind);
}

/* Whether the node has a duty and may be called, without anything to be recorded before the call. */
static bool may_call_at_once(const tp__entry *e, uint32_t index) {
  const tp__breaker_state *breakers = &e->turn->runtime->breaker_state;
  return e->plan->inline_nodes[index].on_fast_path && !e->marks[index] && e->state == TP__ENTRY_OPEN &&
         e->now_ns < e->fast_path_until_ns && !tp__a32_load_relaxed(&breakers->stopped_subscriptions) &&
         !tp__breaker_suspects(breakers, e->plan->phase, e->now_ns);
}

static void call_at_once(tp__entry *e, uint32_t index) {
  const tp__node *node = &e->plan->nodes[index];
  int64_t started_ns = e->now_ns;
  if (!e->is_call_set) tp__inline_call_set(e, &e->call, &e->arena, index);
  e->is_call_set = true;
  e->call.index = index;
  e->call.started_ns = started_ns;
  tp_breadcrumb *breadcrumb = tp__breadcrumb_of_node(e, index, started_ns);
  tp_answer kind = node->run(node->ctx, &e->call);
  tp__breadcrumb_leave(breadcrumb);
  e->now_ns = stamp(e);
  if (kind == TP_ANSWER_DONE && !e->call.touched && tp__entry_settle_silent(e, index, started_ns, e->now_ns)) return;
  e->is_call_set = false;
  tp__entry_called(e, index, &e->call, kind, e->now_ns);
}

/* When the calling thread is a handler thread, the last ready node may wait for it: the thread runs the node after it
 * has left the turn. */
static void submit_node(tp__entry *e, const tp__node *node, uint32_t index, tp__run *run) {
  bool *begins_more = &e->turn->strand.begins_more, began_more = *begins_more;
  if (e->leaving_count + e->ready.count > 0) *begins_more = true;
  tp_reason refused = tp__node_submit(e, index, tp__entry_node_deadline(e, index, run), tp__node_timeout(node));
  *begins_more = began_more;
  if (refused) tp__entry_settle(e, index, TP_STATE_FAILED, refused);
  e->now_ns = stamp(e); /* the time of the submit does not count for the next handler */
}

/* By its policy, the node has failed or is left out. */
static void refuse_detached(tp__entry *e, uint32_t index, tp__run *run) {
  const tp__node *node = &e->plan->nodes[index];
  bool is_job = node->flags & TP__NODE_BACKGROUND;
  run->message = is_job ? "the backlog of jobs is full (jobs_max)" : "too many calls wait for a handler thread";
  if (tp__backlog_of(node) == TP_BACKLOG_SHED) {
    tp__jobs_shed(tp__runtime_jobs(e->turn->runtime));
    run->row.attempts = 0;
    tp__entry_settle(e, index, TP_STATE_SKIPPED, TP_REASON_BACKLOG);
    return;
  }
  if (is_job && tp__backlog_of(node) == TP_BACKLOG_WAIT) tp__jobs_refuse(e->turn->runtime, node, run->message);
  tp__entry_settle(e, index, TP_STATE_FAILED, TP_REASON_SHED);
}

/* @param where its until_ns is 0 for a node that has not waited for space yet. */
static void detached(tp__entry *e, uint32_t index, tp__backlog_place where, tp_reason refused) {
  const tp__node *node = &e->plan->nodes[index];
  tp__run *run = tp__run_make(e, index);
  bool has_waited = where.at_head;
  if (refused == TP_REASON_SHED && tp__backlog_waits(e, node)) {
    uint64_t wait_ms = tp__runtime_options(e->turn->runtime)->backlog_wait_ms;
    if (!has_waited) where.until_ns = tp__deadline_after_ms(tp__now_ns(), wait_ms);
    if (tp__backlog_wait(e, index, &where)) return;
  }
  if (has_waited) e->now_ns = stamp(e);
  run->row.started_ns = run->row.ended_ns = e->now_ns;
  if (refused == TP_REASON_FENCED) e->turn->is_fenced = true;
  if (refused == TP_REASON_SHED) {
    refuse_detached(e, index, run);
  } else if (refused == TP_REASON_KILL_SWITCH) { /* switched off since this entry looked */
    run->row.attempts = 0;
    tp__entry_settle(e, index, TP_STATE_SKIPPED, refused);
  } else {
    tp__entry_settle(e, index, refused ? TP_STATE_FAILED : TP_STATE_BACKGROUNDED, refused);
    e->now_ns = stamp(e); /* the time of storing a job or starting a run does not count for the next handler */
  }
}

/* @param until_ns for a node that has waited for space and is the first in line; 0: the node has not waited. */
static void detach(tp__entry *e, uint32_t index, int64_t until_ns) {
  const tp__node *node = &e->plan->nodes[index];
  bool has_waited = until_ns > 0, waits_behind = !has_waited && tp__backlog_has_line(e, node);
  const tp__backlog_place where = {until_ns, tp__backlog_news(e->turn->runtime), has_waited};
  bool skips = has_waited && TP__BUG(TP__BUG_LINE_SKIPPED);
  tp_reason refused = TP_REASON_NONE;
  if (waits_behind) refused = TP_REASON_SHED;
  else if (!skips && !tp__detached_start(e, index, &where, &refused)) return;
  detached(e, index, where, refused);
}

void tp__entry_detached(tp__entry *e, uint32_t index, uint32_t news_seen, tp_reason refused) {
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(!e->ended);
  e->now_ns = tp__now_ns();
  detached(e, index, (tp__backlog_place){0, news_seen, false}, refused);
  tp__entry_advance(e);
}

bool tp__entry_detach_again(tp__entry *e, uint32_t index, int64_t until_ns) {
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(!e->ended && until_ns > 0);
  tp__run *run = tp__run_make(e, index);
  if (e->state == TP__ENTRY_OPEN) {
    detach(e, index, until_ns);
  } else {
    run->row.attempts = 0; /* it never began */
    tp__entry_settle(e, index, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
  }
  return !run->settled;
}

/* For a node that waited to be tried again, the match is not called again. */
static void step_node(tp__entry *e, uint32_t index) {
  TP__ASSERT(index < e->plan->node_count && e->counters[index] == 0);
  if (may_call_at_once(e, index)) {
    call_at_once(e, index);
    return;
  }
  const tp__node *node = &e->plan->nodes[index];
  /* otherwise it was ready from the beginning, or is on the fast path */
  bool is_noted = e->marks[index] & TP__MARK_MORE;
  tp__run *run = tp__run_make(e, index);
  if (run->row.attempts == 0) {
    if (!is_noted) run->row.queued_ns = e->plan->inline_nodes[index].on_fast_path ? e->now_ns : e->begin_ns;
    tp_reason skip = skip_reason(e, node, index);
    if (skip == TP_REASON_MALFORMED) {
      run->message = "its match gave no answer";
      tp__entry_settle(e, index, TP_STATE_FAILED, skip);
      return;
    }
    if (skip) {
      tp__entry_settle(e, index, TP_STATE_SKIPPED, skip);
      return;
    }
  } else if (e->state != TP__ENTRY_OPEN) {
    tp__entry_settle(e, index, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
    return;
  }
  const char *refusal = tp__breaker_refusal(e, node);
  if (refusal) { /* it has a duty, and does not answer */
    run->row.ended_ns = e->now_ns;
    run->message = refusal;
    tp__entry_settle(e, index, TP_STATE_FAILED, TP_REASON_BREAKER_OPEN);
  } else if (node->flags & TP__NODE_DETACHED) {
    run->row.attempts++;
    detach(e, index, 0);
  } else if (e->now_ns >= tp__entry_node_deadline(e, index, run)) { /* required, or tried again: no time is left */
    run->row.ended_ns = e->now_ns;
    tp__entry_settle(e, index, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  } else {
    run->row.attempts++;
    if (node->flags & TP__NODE_INLINE) call_here(e, node, index, run);
    else submit_node(e, node, index, run);
  }
}

/* ---- the end ---- */

tp_run_record tp__entry_run(const tp__entry *e, uint32_t index) {
  TP__ASSERT(index < e->plan->node_count);
  const tp__run *run = tp__entry_more(e, index);
  const tp__run_name *name = tp__run_name_of(e->plan->run_names, e->plan->inline_nodes[index].run_name);
  return run ? tp__run_shown(&run->row, name) : tp__row_shown(&e->rows[index], e->begin_ns, name);
}

const tp_run_record *tp__entry_runs(tp__entry *e) {
  uint32_t count = e->plan->node_count;
  if (e->shown) return e->shown;
  tp_run_record *rows = tp__arena_alloc(&e->arena, count * sizeof *rows);
  if (!rows) return NULL;
  for (uint32_t i = 0; i < count; i++) rows[i] = tp__entry_run(e, i);
  return e->shown = rows;
}

/* The first failure in plan order is the one that is reported. */
static uint32_t first_failure(const tp__entry *e) {
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    const tp__node *node = &e->plan->nodes[i];
    const tp__run *run = tp__entry_more(e, i);
    if (run && run->settled && tp__decide(node->execution, node->failure, run->row.reason) == TP__DECIDE_FAIL) return i;
  }
  return UINT32_MAX;
}

static bool has_required(const tp__entry *e) {
  for (uint32_t i = 0; i < e->plan->node_count; i++)
    if (e->plan->nodes[i].failure == TP_FAILURE_REQUIRED) return true;
  return false;
}

/* For the durability SYNC. When the commit failed, the record of the failed entry replaces the uncommitted record once
 * the store can be written again. */
static void committed(tp__entry *e, tp_status status, const tp_fault *fault) {
  if (status != TP_OK) {
    tp__log_subject subject = {.status = status, .phase = e->plan->phase, .ids = e->turn->ids};
    bool fails = e->state == TP__ENTRY_OPEN && has_required(e);
    tp__log(e->turn->runtime, TP_LOG_ERROR, &subject, "the record of an entry was not committed%s: %s",
            fails ? ", which fails it, since it has a required subscription" : "",
            fault->message[0] ? fault->message : tp_status_text(status));
    if (fails) {
      e->state = TP__ENTRY_UNSTORED;
      e->deciding_node = UINT32_MAX;
      tp__entry_record(e);
      tp__turn_flush_records(e->turn);
    }
  }
  e->on_end(e);
}

/* The outcome of a detached run is not reported. Only a job's is: its finish is a commit of its own. */
static void end_entry(tp__entry *e) {
  if (e->share) tp__share_stop(e);
  e->ended = true;
  e->ended_ns = e->now_ns;
  TP__CHECK(tp__entry_check(e));
  if (e->state == TP__ENTRY_FAILED) e->deciding_node = first_failure(e);
  if (e->turn->runtime->options.durability == TP_DURABILITY_SYNC && !e->detached_run) {
    tp__turn *turn = e->turn;
    turn->record_refusal = TP_OK;
    tp__entry_record(e);
    tp__turn_flush_records(turn);
    if (turn->record_refusal == TP_OK) tp__entry_commit(e, committed);
    else committed(e, turn->record_refusal, &(tp_fault){.code = turn->record_refusal});
    return;
  }
  tp__entry_record(e);
  e->on_end(e);
}

/* Nodes that leave this thread go first, so that they run while the inline nodes run here. */
static uint32_t next_ready(tp__entry *e) {
  TP__ASSERT(e->leaving_count + e->ready.count <= e->unsettled);
  if (e->leaving_count > 0) return e->leaving[--e->leaving_count];
  tp__share_offer(e);
  return tp__ready_pop(&e->ready);
}

static void run_ready(tp__entry *e) {
  while (e->leaving_count + e->ready.count > 0) {
    step_node(e, next_ready(e));
    if (e->share) tp__share_collect(e);
  }
}

static void advance(tp__entry *e) {
  TP__OWNED(&e->turn->strand);
  TP__ASSERT(!e->ended); /* only this code ends an entry, and it does so only once */
  if (e->running) return;
  e->running = true;
  do run_ready(e);
  while (e->share && tp__share_wait(e));
  e->running = false;
  TP__CHECK(tp__entry_check(e));
  if (e->unsettled == 0 && !e->ended) end_entry(e);
}

void tp__entry_advance(tp__entry *e) { advance(e); }

/* On a cancelled turn, only entries that ignore the cancel start. */
void tp__entry_go(tp__entry *e) {
  TP__ASSERT(!e->ended && !e->running && e->on_end);
  if (e->turn->is_cancelled && !e->ignores_cancel) {
    e->cancelled = true;
    e->state = TP__ENTRY_CANCELLED;
  }
  advance(e);
}

void tp__entry_cancel(tp__entry *e) {
  TP__OWNED(&e->turn->strand);
  if (e->ended) return;
  e->cancelled = true;
  e->now_ns = tp__now_ns();
  if (e->end_ns > e->now_ns) e->end_ns = e->now_ns;
  if (e->fast_path_until_ns > e->end_ns) e->fast_path_until_ns = e->end_ns;
  if (e->state == TP__ENTRY_OPEN) tp__entry_set_state(e, TP__ENTRY_CANCELLED);
  bool was_running = e->running;
  e->running = true; /* code that settles nodes below only pushes; the entry must not end during this walk */
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    if (!(e->marks[i] & TP__MARK_MORE)) continue;
    tp__run *run = &e->runs[i];
    if (run->settled) continue;
    if (run->attempt && !run->attempt->class->outlasts_cancel) tp__attempt_expire(run->attempt, TP__CANCELLED);
    if (tp__run_drop_retry(run)) tp__entry_settle(e, i, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
  }
  e->running = was_running;
  TP__CHECK(tp__entry_check(e));
  advance(e);
}

tp_status tp__entry_outcome(const tp__entry *e) {
  switch ((tp__entry_state)e->state) {
    case TP__ENTRY_OPEN:
      return TP_OK;
    case TP__ENTRY_DENIED:
      return TP_ERR_DENIED;
    case TP__ENTRY_UNSTORED:
    case TP__ENTRY_FAILED:
      return e->plan->row->stop ? TP_ERR_DENIED : TP_ERR_HOOK;
    case TP__ENTRY_CANCELLED:
      return TP_ERR_CANCELLED;
  }
  return TP_ERR_INTERNAL;
}

/* ---- the last reference ---- */

void tp__entry_unref(tp__entry *e) {
  uint32_t before = tp__a32_sub_acq_rel(&e->refs, 1);
  TP__ASSERT(before > 0); /* the caller had one */
  if (before != 1) return;
  tp__turn *turn = e->turn;
  TP__ASSERT(e->ended);
  bool holds_turn = e->holds_turn;
  tp__node_attempts_free(e);
  tp__call_payloads_free(e);
  tp__closures_unref(&e->closures);
  if (e->share) tp__share_free(e);
  tp__arena_fini(&e->arena);
  tp__block_give(&turn->runtime->blocks, e, e->block_size);
  if (holds_turn) tp__turn_unref(turn);
}

void tp__entry_release(tp__entry *e) {
  assert(e->ended);
  TP__CHECK(tp__entry_check(e));
  if (e->link.next != &e->link) tp__list_remove(&e->link);
  if (!e->holds_turn) {
    leave_block(e);
    return;
  }
  if (e == e->turn->cached_entry) e->turn->cached_entry = NULL; /* other threads may still see the entry */
  tp__entry_unref(e);
}
