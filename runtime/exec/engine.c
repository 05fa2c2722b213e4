/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine of an entry. Nothing here takes a lock or an atomic for a phase whose handlers are all quick: the owner
 * takes ready nodes from a set of its own, the first in plan order first. */
#include "runtime/exec/begin.h"
#include "runtime/exec/share.h"

struct tp__retry {
  tp__due due;
  tp__entry *entry;
  uint32_t index;
};

static const tp__node *node_of(const tp__entry *e, uint32_t index) { return &e->plan->nodes[index]; }
static void advance(tp__entry *e);

/* ---- beginning ---- */

/* A seat that is too small gives way. */
static tp__entry *new_block(tp__turn *turn, const tp__plan *plan) {
  tp__blocks *blocks = &turn->runtime->blocks;
  size_t size;
  tp__entry *e = tp__block_take(blocks, tp__entry_bytes(plan), &size);
  if (!e) return NULL;
  e->block_size = size;
  if (turn->seat && turn->seat->taken) return e;
  if (turn->seat) tp__block_give(blocks, turn->seat, turn->seat->block_size);
  turn->seat = e;
  return e;
}

tp__entry *tp__entry_take_block(tp__turn *turn, const tp__plan *plan) {
  tp__entry *e = turn->seat;
  if (!e || e->taken || e->block_size < tp__entry_bytes(plan)) e = new_block(turn, plan);
  if (e) tp__entry_set_block(e, turn);
  return e;
}

/* Nobody lives here any more. */
static void leave_block(tp__entry *e) {
  tp__turn *turn = e->turn;
  if (e->arena.chunks) {
    tp__arena_fini(&e->arena);
    e->arena.end = (char *)e + e->block_size;
  }
  if (e == turn->seat) e->taken = false;
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

/* Attempts that leave this thread may outlive the caller's payload. */
static bool take_payload(tp__entry *e, const tp__entry_spec *spec) {
  tp_field *copy = NULL;
  e->payload_borrowed = e->plan->all_quick && e->plan->detached_count == 0;
  if (!e->payload_borrowed && !tp__fields_copy(&e->arena, spec->fields, spec->field_count, &copy)) return false;
  tp__entry_set_payload(e, e->payload_borrowed ? spec->fields : copy, spec->field_count);
  return true;
}

tp_status tp__entry_new(tp__turn *turn, const tp__entry_spec *spec, tp__entry **ret_entry) {
  tp__entry *e = tp__entry_take_block(turn, spec->plan);
  if (!e) return TP_ERR_NO_MEMORY;
  e->on_end = spec->on_end;
  e->on_run = spec->on_run;
  e->watched = spec->on_run != NULL;
  e->ctx = spec->ctx;
  e->sheltered = spec->sheltered;
  e->detached_run = spec->detached_run;
  tp__entry_set_plan(e, spec->plan);
  tp__entry_set_birth(e, spec->budget_ns, spec->sheltered);
  if (!take_payload(e, spec)) {
    leave_block(e);
    return TP_ERR_NO_MEMORY;
  }
  tp__entry_lay_out(e);
  *ret_entry = e;
  return TP_OK;
}

/* ---- runs that are out of the ordinary ---- */

tp__run *tp__run_make(tp__entry *e, uint32_t index) {
  tp__run *run = &e->runs[index];
  if (!(e->marks[index] & TP__MARK_MORE)) *run = (tp__run){0};
  e->marks[index] |= TP__MARK_MORE;
  e->has_more = true;
  return run;
}

/* ---- what is ready ---- */

/* Deadlines count from here, and so does the wait in the record. */
void tp__entry_note_ready(tp__entry *e, uint32_t index, int64_t now_ns) {
  tp__run *run = tp__run_make(e, index);
  if (run->row.attempts == 0) run->row.queued_ns = now_ns;
}

static void make_ready(tp__entry *e, uint32_t index) {
  if (!e->plan->quick[index].plain) tp__entry_note_ready(e, index, e->now_ns);
  if (e->plan->quick[index].leaves) e->leaving[e->leaving_count++] = (uint16_t)index;
  else tp__ready_push(&e->ready, index);
}

/* Nodes that leave this thread go first, so that they run while the quick ones run here. */
static bool next_leaving(tp__entry *e, uint32_t *ret_index) {
  if (e->leaving_count == 0) return false;
  *ret_index = e->leaving[--e->leaving_count];
  return true;
}

static void propagate(tp__entry *e, const tp__node *node, bool passes) {
  const uint32_t *edge = &e->plan->edges[node->first_edge];
  for (const uint32_t *end = edge + node->edge_count; edge < end; edge++) {
    uint32_t target = *edge >> 1;
    if (!passes && (*edge & 1)) e->marks[target] |= TP__MARK_BLOCKED;
    if (--e->counters[target] == 0) make_ready(e, target);
  }
}

/* ---- deadlines ---- */

static int64_t hard_of(const tp__entry *e, uint32_t index, const tp__run *run) {
  return tp__node_hard(node_of(e, index), e->end_ns, run->row.queued_ns);
}

/* ---- settling ---- */

static int strictness(uint8_t verdict) {
  switch (verdict) {
    case TP_OUTCOME_DENY:
      return 3;
    case TP_OUTCOME_ASK:
      return 2;
    case TP_OUTCOME_ALLOW:
      return 1;
    default:
      return 0;
  }
}

static void set_fate(tp__entry *e, tp__fate fate) {
  e->fate = (uint8_t)fate;
  if (e->share) tp__share_stop(e);
}

/* deny > ask > allow: the strictest stands, of equals the first; a deny ends the chain. */
static void take_verdict(tp__entry *e, uint32_t index, uint8_t verdict) {
  e->runs[index].row.verdict = verdict;
  if (strictness(verdict) <= strictness(e->verdict)) return;
  e->verdict = verdict;
  if (verdict == TP_OUTCOME_DENY && e->fate == TP__FATE_OPEN) set_fate(e, TP__FATE_DENIED);
  if (verdict != TP_OUTCOME_ALLOW) e->decider = index;
}

/* Fails closed: nothing more starts; what runs is cancelled and waited for within its deadline. */
static void fail_closed(tp__entry *e) {
  if (e->fate != TP__FATE_OPEN) return;
  set_fate(e, TP__FATE_FAILED);
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    if (!(e->marks[i] & TP__MARK_MORE)) continue;
    tp__run *run = &e->runs[i];
    if (run->attempt && !run->settled) tp__attempt_cancel(run->attempt);
    if (run->retry) { /* its pause ends now, and step() finds the entry decided */
      tp__strand_undue(&run->retry->due);
      run->retry = NULL;
      make_ready(e, i);
    }
  }
}

static void use_fallback(tp__entry *e, const tp__node *node, uint32_t index) {
  const tp_subscription *desc = &node->sub->desc;
  tp__run *run = &e->runs[index];
  run->row.fallback_used = true;
  run->row.contribution_count = (uint32_t)desc->fallback_count;
  if (desc->fallback_verdict != TP_OUTCOME_DONE) take_verdict(e, index, (uint8_t)desc->fallback_verdict);
}

static void settle(tp__entry *e, uint32_t index, tp_state state, tp_reason reason) {
  const tp__node *node = node_of(e, index);
  tp__run *run = &e->runs[index];
  assert(!run->settled);
  run->settled = true;
  run->row.state = (uint8_t)state;
  run->row.reason = (uint8_t)reason;
  run->row.subscription = node->subscription_name;
  run->row.handler = node->handler_name;
  run->row.owner = node->owner_name;
  run->row.execution = (uint8_t)node->execution;
  run->row.failure = (uint8_t)node->failure;
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
  if (e->on_run) e->on_run(e, index);
  propagate(e, node, passes);
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

/* NONE when the outcome is an answer that this node may give here. */
static tp_reason judge(const tp__entry *e, const tp__node *node, const tp_outcome *outcome, const tp__output *output) {
  if (output->refused != TP_OK) return reason_of_refusal(output->refused);
  switch (outcome->kind) {
    case TP_OUTCOME_DONE:
      return TP_REASON_NONE;
    case TP_OUTCOME_ASK:
    case TP_OUTCOME_ALLOW:
    case TP_OUTCOME_DENY:
      if (!(node->capabilities & TP_CAPABILITY_DECIDE)) return TP_REASON_CAPABILITY;
      if (!e->plan->row->stop || (outcome->kind == TP_OUTCOME_ASK && !e->plan->row->ask)) return TP_REASON_MALFORMED;
      return TP_REASON_NONE;
    case TP_OUTCOME_FAILED:
      return TP_REASON_ERROR;
    case TP_OUTCOME_DEFERRED:
      break;
  }
  return TP_REASON_MALFORMED;
}

/* The fields of a replacement over those there were: a new array, since calls that run may still read the old one. */
static bool replace_fields(tp__entry *e, const tp__output *output) {
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
  e->field_count = count;
  e->has_output = true;
  return true;
}

static void fire_retry(tp__due *due, int64_t now_ns) {
  struct tp__retry *retry = TP__CONTAINER(due, struct tp__retry, due);
  tp__entry *e = retry->entry;
  e->runs[retry->index].retry = NULL;
  if (now_ns > e->now_ns) e->now_ns = now_ns; /* what fired before it in this round has looked at the clock since */
  make_ready(e, retry->index);
  advance(e);
}

/* @return true when the node will be tried again. */
static bool try_again(tp__entry *e, const tp__node *node, uint32_t index, const tp_outcome *outcome) {
  tp__run *run = &e->runs[index];
  const tp_subscription *desc = &node->sub->desc;
  if (!(node->flags & TP__NODE_RETRY) || !outcome->retryable || e->fate != TP__FATE_OPEN) return false;
  if (run->row.attempts >= desc->attempts) return false;
  int64_t pause = tp__retry_pause_ns(desc, run->row.attempts);
  if (e->now_ns + pause >= hard_of(e, index, run)) return false;
  struct tp__retry *retry = pause > 0 ? tp__arena_zero(&e->arena, sizeof *retry) : NULL;
  if (pause > 0 && !retry) return false;
  if (pause == 0) {
    make_ready(e, index);
    return true;
  }
  *retry = (struct tp__retry){.due = {.fire = fire_retry}, .entry = e, .index = index};
  run->retry = retry;
  tp__strand_due(&e->turn->strand, &retry->due, e->now_ns + pause);
  return true;
}

/* Reasons go into requests, histories and records. */
static const char *safe_reason(const char *reason) {
  return !reason || tp_utf8_valid(tp_text_of(reason), NULL) ? reason : "(its reason was not UTF-8)";
}

static void succeed(tp__entry *e, uint32_t index, const tp_outcome *outcome, const tp__output *output) {
  tp__run *run = &e->runs[index];
  run->first = output->first;
  run->row.contribution_count = output->count;
  if (!e->detached_run) {
    if (output->replacement && !replace_fields(e, output)) {
      run->row.contribution_count = 0;
      settle(e, index, TP_STATE_FAILED, TP_REASON_NO_MEMORY);
      return;
    }
    if (outcome->kind != TP_OUTCOME_DONE) {
      run->message = safe_reason(outcome->reason);
      take_verdict(e, index, (uint8_t)outcome->kind);
    }
  }
  settle(e, index, TP_STATE_SUCCEEDED, TP_REASON_NONE);
}

static bool in_time(const tp__entry *e, uint32_t index, const tp__run *run) {
  int64_t limit_ns = tp__node_limit(node_of(e, index));
  return run->row.ended_ns <= hard_of(e, index, run) &&
         (!limit_ns || run->row.ended_ns - run->row.started_ns <= limit_ns);
}

static void take_answer(tp__entry *e, uint32_t index, const tp_outcome *outcome, const tp__output *output) {
  const tp__node *node = node_of(e, index);
  tp__run *run = &e->runs[index];
  if (!in_time(e, index, run)) {
    run->row.late_ns = run->row.ended_ns;
    settle(e, index, e->cancelled ? TP_STATE_CANCELLED : TP_STATE_TIMED_OUT,
           e->cancelled ? TP_REASON_CANCELLED : TP_REASON_TIMEOUT);
    return;
  }
  tp_reason reason = e->detached_run && outcome->kind <= TP_OUTCOME_ASK && output->refused == TP_OK
                         ? TP_REASON_NONE
                         : judge(e, node, outcome, output);
  if (reason == TP_REASON_NONE) {
    succeed(e, index, outcome, output);
    return;
  }
  run->row.code = outcome->code;
  if (reason == TP_REASON_ERROR && try_again(e, node, index, outcome)) return;
  run->message = safe_reason(outcome->reason);
  settle(e, index, TP_STATE_FAILED, reason);
}

void tp__entry_answered(tp__entry *e, uint32_t index, const tp_outcome *outcome, const tp__output *output,
                        int64_t ended_ns) {
  e->runs[index].row.ended_ns = ended_ns;
  take_answer(e, index, outcome, output);
  advance(e);
}

void tp__entry_missed(tp__entry *e, uint32_t index, tp_state state, tp_reason reason, int64_t ended_ns) {
  e->runs[index].row.ended_ns = ended_ns;
  settle(e, index, state, reason);
  advance(e);
}

/* ---- a node's turn ---- */

struct tp_match_view {
  const tp__entry *entry;
};

tp_text tp_match_text(const tp_match_view *view, uint32_t field) {
  const tp_field *f = tp__fields_find(view->entry->begin_fields, view->entry->begin_field_count, field);
  return f ? f->text : (tp_text){NULL, 0};
}

int64_t tp_match_int(const tp_match_view *view, uint32_t field) {
  const tp_field *f = tp__fields_find(view->entry->begin_fields, view->entry->begin_field_count, field);
  return f ? f->number : 0;
}

tp_text tp_match_id(const tp_match_view *view, uint32_t id) {
  return id < TP_ID_COUNT ? view->entry->turn->ids[id] : (tp_text){NULL, 0};
}

tp_text tp_match_mode(const tp_match_view *view) { return view->entry->turn->mode; }

static bool is_killed(const tp__entry *e, const tp__node *node) {
  return tp__a32_load_relaxed(&e->turn->runtime->kills) && tp__a32_load_relaxed(&node->sub->killed);
}

/* Why the node has no duty, or NONE. */
static tp_reason skip_reason(const tp__entry *e, const tp__node *node, uint32_t index) {
  if (is_killed(e, node)) return TP_REASON_KILL_SWITCH;
  if (e->fate != TP__FATE_OPEN) return TP_REASON_PHASE_FAILED;
  if (node->flags & TP__NODE_MATCH) {
    const tp_match *match = &node->sub->desc.match;
    if (!match->matches(match->ctx, &(tp_match_view){e})) return TP_REASON_MATCH;
  }
  if (e->marks[index] & TP__MARK_BLOCKED) return TP_REASON_DEPENDENCY;
  if (!(node->flags & (TP__NODE_REQUIRED | TP__NODE_DETACHED)) && e->now_ns >= tp__node_end(node, e->end_ns))
    return TP_REASON_NO_SLACK;
  return TP_REASON_NONE;
}

static const tp__output nothing;

/* The answer of a quick call, unless it deferred. */
static void take_call(tp__entry *e, uint32_t index, tp_call *call, const tp_outcome *outcome) {
  if (!call->attempt) {
    take_answer(e, index, outcome, call->touched ? &call->output : &nothing);
  } else if (outcome->kind == TP_OUTCOME_DEFERRED || !tp__attempt_revoke(call->attempt)) {
    tp__run_make(e, index)->attempt = call->attempt;
    tp__attempt_await(call->attempt, tp__call_deadline(call));
  } else {
    tp__attempt_unref(call->attempt);
    take_answer(e, index, &(tp_outcome){.kind = TP_OUTCOME_DEFERRED}, &call->output); /* which is no answer */
  }
}

static void call_here(tp__entry *e, const tp__node *node, uint32_t index, tp__run *run) {
  tp__quick_call_set(e, &e->call, &e->arena, index);
  e->call.attempt_number = run->row.attempts;
  e->call.started_ns = run->row.started_ns = e->now_ns;
  tp_outcome outcome = node->run(node->self, &e->call);
  run->row.ended_ns = e->now_ns = tp__stamp(e->turn->runtime, e->now_ns);
  e->is_call_set = false;
  take_call(e, index, &e->call, &outcome);
}

void tp__entry_called(tp__entry *e, uint32_t index, tp_call *call, const tp_outcome *outcome, int64_t ended_ns) {
  tp__run *run = tp__run_make(e, index);
  run->row.attempts = 1;
  run->row.queued_ns = run->row.started_ns = call->started_ns;
  run->row.ended_ns = ended_ns;
  take_call(e, index, call, outcome);
}

static void hand_over(tp__entry *e, const tp__node *node, uint32_t index, tp__run *run) {
  tp_reason refused = tp__node_hand_over(e, index, hard_of(e, index, run), tp__node_limit(node));
  if (refused) settle(e, index, TP_STATE_FAILED, refused);
}

static void detach(tp__entry *e, uint32_t index, tp__run *run) {
  tp_reason refused = tp__detached_start(e, index);
  run->row.started_ns = run->row.ended_ns = e->now_ns;
  if (refused == TP_REASON_KILL_SWITCH) { /* switched off since this entry looked */
    run->row.attempts = 0;
    settle(e, index, TP_STATE_SKIPPED, refused);
    return;
  }
  settle(e, index, refused ? TP_STATE_FAILED : TP_STATE_BACKGROUNDED, refused);
}

/* A node that waited to be tried again does not ask for its duty again. */
static void step(tp__entry *e, uint32_t index) {
  const tp__node *node = node_of(e, index);
  bool is_noted = e->marks[index] & TP__MARK_MORE; /* else it was ready from the begin, or it is plain */
  tp__run *run = tp__run_make(e, index);
  if (run->row.attempts == 0) {
    if (!is_noted) run->row.queued_ns = e->plan->quick[index].plain ? e->now_ns : e->begin_ns;
    tp_reason skip = skip_reason(e, node, index);
    if (skip) {
      settle(e, index, TP_STATE_SKIPPED, skip);
      return;
    }
  } else if (e->fate != TP__FATE_OPEN) {
    settle(e, index, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
    return;
  }
  if (node->flags & TP__NODE_DETACHED) {
    run->row.attempts++;
    detach(e, index, run);
  } else if (e->now_ns >= hard_of(e, index, run)) { /* required, or tried again: there is no time left */
    run->row.ended_ns = e->now_ns;
    settle(e, index, TP_STATE_TIMED_OUT, TP_REASON_TIMEOUT);
  } else {
    run->row.attempts++;
    if (node->flags & TP__NODE_QUICK) call_here(e, node, index, run);
    else hand_over(e, node, index, run);
  }
}

/* ---- the end ---- */

tp_run_record tp__entry_run(const tp__entry *e, uint32_t index) {
  const tp__run *run = tp__entry_more(e, index);
  return run ? run->row : tp__row_wide(&e->rows[index], e->begin_ns, e->plan->run_names);
}

/* The first failure in plan order is the one that is reported. */
static uint32_t first_failure(const tp__entry *e) {
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    const tp__node *node = node_of(e, i);
    const tp__run *run = tp__entry_more(e, i);
    if (run && run->settled && tp__decide(node->execution, node->failure, run->row.reason) == TP__DECIDE_FAIL) return i;
  }
  return UINT32_MAX;
}

static void end(tp__entry *e) {
  if (e->share) tp__share_stop(e);
  e->ended = true;
  e->ended_ns = e->now_ns;
  if (e->fate == TP__FATE_FAILED) e->decider = first_failure(e);
  tp__entry_record(e);
  e->on_end(e);
}

static void run_ready(tp__entry *e) {
  uint32_t index;
  while (e->leaving_count + e->ready.count > 0) {
    bool all_run =
        !next_leaving(e, &index) && (tp__share_pays(e) ? tp__share_run(e, &index) : tp__quick_run(e, &index));
    if (!all_run) step(e, index);
  }
}

static void advance(tp__entry *e) {
  if (e->running) return;
  e->running = true;
  do run_ready(e);
  while (e->share && tp__share_wait(e));
  e->running = false;
  if (e->unsettled == 0 && !e->ended) end(e);
}

void tp__entry_advance(tp__entry *e) { advance(e); }

/* On a turn that was cancelled nothing starts, but for what is sheltered. */
void tp__entry_go(tp__entry *e) {
  if (e->turn->is_cancelled && !e->sheltered) {
    e->cancelled = true;
    e->fate = TP__FATE_CANCELLED;
  }
  advance(e);
}

void tp__entry_cancel(tp__entry *e) {
  if (e->ended) return;
  e->cancelled = true;
  e->now_ns = tp__now_ns();
  if (e->end_ns > e->now_ns) e->end_ns = e->now_ns;
  if (e->easy_ns > e->end_ns) e->easy_ns = e->end_ns;
  if (e->fate == TP__FATE_OPEN) set_fate(e, TP__FATE_CANCELLED);
  bool was_running = e->running;
  e->running = true; /* what settles below only pushes; the entry must not end while it is walked */
  for (uint32_t i = 0; i < e->plan->node_count; i++) {
    if (!(e->marks[i] & TP__MARK_MORE)) continue;
    tp__run *run = &e->runs[i];
    if (run->settled) continue;
    if (run->attempt) tp__attempt_expire(run->attempt, TP__CANCELLED);
    if (run->retry) {
      tp__strand_undue(&run->retry->due);
      run->retry = NULL;
      settle(e, i, TP_STATE_CANCELLED, TP_REASON_CANCELLED);
    }
  }
  e->running = was_running;
  advance(e);
}

tp_status tp__entry_outcome(const tp__entry *e) {
  switch ((tp__fate)e->fate) {
    case TP__FATE_OPEN:
      return TP_OK;
    case TP__FATE_DENIED:
      return TP_ERR_DENIED;
    case TP__FATE_FAILED:
      return e->plan->row->stop ? TP_ERR_DENIED : TP_ERR_HOOK;
    case TP__FATE_CANCELLED:
      return TP_ERR_CANCELLED;
  }
  return TP_ERR_INTERNAL;
}

/* ---- letting go ---- */

void tp__entry_unref(tp__entry *e) {
  if (tp__a32_sub_acq_rel(&e->refs, 1) != 1) return;
  tp__turn *turn = e->turn;
  bool holds_turn = e->holds_turn;
  tp__node_attempts_free(e);
  if (e->share) tp__share_free(e);
  tp__arena_fini(&e->arena);
  tp__block_give(&turn->runtime->blocks, e, e->block_size);
  if (holds_turn) tp__turn_unref(turn);
}

void tp__entry_release(tp__entry *e) {
  assert(e->ended);
  if (e->link.next != &e->link) tp__list_remove(&e->link);
  if (!e->holds_turn) {
    leave_block(e);
    return;
  }
  if (e == e->turn->seat) e->turn->seat = NULL; /* others may still see it */
  tp__entry_unref(e);
}
