/* SPDX-License-Identifier: Apache-2.0
 *
 * handler.c: the behaviour of handlers, and the threads that complete their tokens. Contributions contain operation,
 * node and attempt, so that the oracle knows the origin of each merged entry. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/runtime.h"
#include "runtime/exec/share.h"
#include "world.h"

enum { PIECES_MAX = 8, TEXT_SIZE = 40 };

/* ---- answers ---- */

typedef struct pieces {
  tp_contribution items[PIECES_MAX];
  char texts[PIECES_MAX][TEXT_SIZE];
  char keys[PIECES_MAX][8];
  uint32_t count;
} pieces;

static void add_piece(pieces *p, const call_note *note, uint32_t kind) {
  uint32_t i = p->count++;
  snprintf(p->texts[i], sizeof p->texts[i], "o%u n%d a%u", note->op, note->node, note->attempt);
  snprintf(p->keys[i], sizeof p->keys[i], kind == TP_CONTRIBUTION_POLICY ? "p%d" : "c%d",
           kind == TP_CONTRIBUTION_POLICY ? note->node % 3 : note->node);
  p->items[i] = (tp_contribution){.struct_size = sizeof(tp_contribution),
                                  .kind = kind,
                                  .key = tp_text_of(p->keys[i]),
                                  .text = tp_text_of(p->texts[i])};
  if (kind == TP_CONTRIBUTION_POLICY) p->items[i].domain = tp_text_of("sim");
  if (kind == TP_CONTRIBUTION_POLICY || kind == TP_CONTRIBUTION_PROMPT_CONTEXT) p->items[i].weight = note->node % 2;
}

/* The contributions of an answer: the first half with the call; the second through the token, if there is one. */
static void make_pieces(pieces *p, const call_note *note, bool with_call, bool with_token) {
  const script_node *node = &note->w->s->nodes[note->node];
  p->count = 0;
  for (uint32_t i = 0; i < node->emits; i++) {
    if (i % 2 == 0 ? with_call : with_token) add_piece(p, note, TP_CONTRIBUTION_AUDIT);
  }
  if (with_call && note->move->answer == ANSWER_BAD_EMIT) add_piece(p, note, TP_CONTRIBUTION_TOOL_BUNDLE);
  if (node->detached || node->silent || !with_token) return;
  if (note->node % 2 == 0) add_piece(p, note, TP_CONTRIBUTION_REMINDER);
  if (node->phase == PHASE_OBSERVE) return;
  if (note->node % 3 == 0) add_piece(p, note, TP_CONTRIBUTION_PROMPT_CONTEXT);
  if (note->node % 3 == 1) add_piece(p, note, TP_CONTRIBUTION_POLICY);
}

static tp_outcome outcome_of(const call_note *note) {
  static const tp_answer kinds[SCRIPT_ANSWERS] = {[ANSWER_DONE] = TP_ANSWER_DONE,
                                                  [ANSWER_REPLACE] = TP_ANSWER_DONE,
                                                  [ANSWER_ALLOW] = TP_ANSWER_ALLOW,
                                                  [ANSWER_DENY] = TP_ANSWER_DENY,
                                                  [ANSWER_ASK] = TP_ANSWER_ASK,
                                                  [ANSWER_FAIL] = TP_ANSWER_FAILED,
                                                  [ANSWER_FAIL_RETRYABLE] = TP_ANSWER_FAILED,
                                                  [ANSWER_BAD_EMIT] = TP_ANSWER_DONE,
                                                  [ANSWER_NONE] = TP_ANSWER_NONE};
  script_answer answer = note->move->answer;
  return (tp_outcome){
      .struct_size = sizeof(tp_outcome),
      .kind = kinds[answer],
      .retryable = answer == ANSWER_FAIL_RETRYABLE,
      .code = 7,
      .reason = kinds[answer] == TP_ANSWER_DONE || kinds[answer] == TP_ANSWER_ALLOW ? NULL : "as the script says"};
}

static void note_answer(call_note *note) {
  int64_t now_ns = tp__now_ns(); /* other fibers may answer meanwhile */
  if (note->answered_ns == 0) note->answered_ns = now_ns;
}

tp_status handler_complete(call_note *note) {
  pieces p;
  make_pieces(&p, note, false, true);
  tp_outcome outcome = outcome_of(note);
  const tp_contribution *items[PIECES_MAX];
  for (size_t i = 0; i < p.count; i++) items[i] = &p.items[i];
  outcome.contributions = items;
  outcome.contribution_count = p.count;
  note_answer(note);
  bool was_over = note->token_over;
  tp_status status = tp_token_complete(note->token, &outcome, NULL);
  if (!was_over) note->over_at = note->w->looks;
  note->token_over = true;
  if (status == TP_OK) {
    note->accepted++;
    if (was_over || note->accepted > 1)
      world_fail(note->w, "a stale token is harmless", "node %d, attempt %u: a second completion was taken", note->node,
                 note->attempt);
    if (note->w->freed) world_fail(note->w, "a stale token is harmless", "it was taken after tp_runtime_free()");
  } else if (status != TP_ERR_STALE) {
    world_fail(note->w, "a completion is taken or stale", "it gave %s", tp_status_name(status));
  }
  return status;
}

/* ---- deferrals ---- */

static void on_cancel(void *ctx) {
  call_note *note = ctx;
  note->cancels++;
  if (note->cancels > 1) world_fail(note->w, "cancel at most once", "node %d", note->node);
  if (note->destroys > 0) world_fail(note->w, "no cancel after destroy", "node %d", note->node);
  note->in_cancel = true;
  if (note->move->way == WAY_DEFER_ON_CANCEL) (void)!handler_complete(note);
  tp__sim_point();
  note->in_cancel = false;
}

static void on_destroy(void *ctx) {
  call_note *note = ctx;
  note->destroys++;
  if (note->destroys > 1) world_fail(note->w, "destroy exactly once", "node %d: %u times", note->node, note->destroys);
  if (note->in_cancel) world_fail(note->w, "no destroy during cancel", "node %d", note->node);
  world_destructor(note->w);
}

static void complete_later(void *arg) {
  call_note *note = arg;
  tp__sim_sleep_ns(note->move->later_ns);
  (void)!handler_complete(note);
}

void handler_complete_later(call_note *note) { world_start("completer", complete_later, note); }

static tp_answer defer(call_note *note, tp_call *call) {
  tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = on_cancel, .destroy = on_destroy, .ctx = note};
  note->deferred =
      true; /* set before another thread can look: its cancel may be called, and complete it, before this returns */
  tp_answer outcome = tp_call_defer(call, &deferral, &note->token);
  if (!note->token.bits) {
    note->deferred = false;
    note_answer(note);
    return outcome;
  }
  switch (note->move->way) {
    case WAY_DEFER_TWICE:
      handler_complete_later(note); /* fall through */
    case WAY_DEFER:
      handler_complete_later(note);
      break;
    case WAY_DEFER_INSIDE:
      (void)!handler_complete(note);
      break;
    case WAY_DEFER_AND_RETURN:
      note_answer(note);
      return TP_ANSWER_DONE;
    default:
      break;
  }
  return outcome;
}

/* ---- a call ---- */

static uint64_t bit(int node) { return UINT64_C(1) << node; }

static int node_of_subscription(const world *w, const char *id) {
  for (uint32_t i = 0; i < w->s->node_count; i++)
    if (strcmp(w->s->nodes[i].id, id) == 0) return (int)i;
  return -1;
}

/* The contributions of a dependency are those of its own attempt in this operation. */
static void look_at_contributions(call_note *note, const tp_call *call, size_t dep, const tp_dependency *d, int node) {
  for (size_t i = 0; i < d->contribution_count; i++) {
    const tp_contribution *c = tp_call_dependency_contribution(call, dep, i);
    unsigned op = UINT32_MAX, attempt;
    int from = -1;
    char text[TEXT_SIZE] = "";
    if (c && c->text.size < sizeof text) memcpy(text, c->text.data, c->text.size);
    bool is_fallback = strncmp(text, "fallback", 8) == 0;
    bool own = is_fallback ? d->fallback_used
                           : sscanf(text, "o%u n%d a%u", &op, &from, &attempt) == 3 && op == note->op && from == node;
    if (!own)
      world_fail(note->w, "a handler sees the sealed contributions of its dependencies", "node %d sees '%s' of node %d",
                 note->node, text, node);
  }
}

static void look_at_dependencies(call_note *note, const tp_call *call) {
  size_t count = tp_call_dependency_count(call);
  for (size_t i = 0; i < count; i++) {
    tp_dependency d = {.struct_size = sizeof d};
    if (!tp_call_dependency(call, i, &d)) world_fail(note->w, "a dependency can be read", "%zu of %zu", i, count);
    int node = node_of_subscription(note->w, d.subscription);
    if (node < 0) continue;
    note->deps_seen |= bit(node);
    if (d.succeeded) note->deps_good |= bit(node);
    if (d.fallback_used) note->deps_fallback |= bit(node);
    look_at_contributions(note, call, i, &d, node);
  }
}

/* Some handlers read the payload as one value, while others run: it agrees with the fields, or there is no memory. */
static void look_at_payload(const call_note *note, const tp_call *call) {
  if (note->node % 3 != 1 || !tp_call_has(call, SCRIPT_FIELD_OP)) return;
  char name[24];
  tp_text value = tp_call_payload(call);
  if (value.size == 0) return;
  snprintf(name, sizeof name, "field_%d", SCRIPT_FIELD_TEXT);
  tp_text text = tp_value_text(tp_value_get(value, name)), want = tp_call_text(call, SCRIPT_FIELD_TEXT);
  snprintf(name, sizeof name, "field_%d", SCRIPT_FIELD_OP);
  if (tp_value_int(tp_value_get(value, name), -1) != tp_call_int(call, SCRIPT_FIELD_OP) || text.size != want.size ||
      (text.size > 0 && memcmp(text.data, want.data, text.size) != 0))
    world_fail(note->w, "the payload as one value is that of the call", "node %d", note->node);
}

static void look_at_text(call_note *note, const tp_call *call) {
  tp_text text = tp_call_text(call, SCRIPT_FIELD_TEXT);
  char copy[TEXT_SIZE] = "";
  if (text.size < sizeof copy && text.size > 0) memcpy(copy, text.data, text.size);
  unsigned op, attempt;
  note->text_of = -1;
  if (sscanf(copy, "o%u n%d a%u", &op, &note->text_of, &attempt) == 3 && op != note->op)
    world_fail(note->w, "a chain's payload is its own", "node %d of operation %u found '%s'", note->node, note->op,
               copy);
}

static call_note *begin_note(node_actor *actor, const tp_call *call) {
  world *w = actor->w;
  call_note *note = calloc(1, sizeof *note);
  if (!note) abort();
  note->w = w;
  note->node = actor->index;
  note->op = (uint32_t)tp_call_int(call, SCRIPT_FIELD_OP) % WORLD_OPS;
  note->attempt = tp_call_attempt(call);
  note->move = script_move_of(&w->s->nodes[actor->index], note->attempt);
  for (const call_note *other = w->calls; other; other = other->next) {
    /* Through its token, perhaps before its function returned. */
    bool answered = (other->deferred || other->in_inbox) && other->answered_ns;
    if (other->op == note->op && !other->finished_ns && !answered) note->running_before |= bit(other->node);
  }
  note->next = w->calls;
  w->calls = note;
  w->call_count++;
  look_at_dependencies(note, call);
  look_at_text(note, call);
  look_at_payload(note, call);
  note->started_ns = tp__now_ns();
  int64_t left_ms = tp_call_time_left_ms(call);
  bool ends = left_ms < INT64_C(1000000000);
  note->deadline_ns = ends ? note->started_ns + left_ms * TP__NS_PER_MS : INT64_MAX;
  note->deadline_max_ns = ends ? tp__now_ns() + (left_ms + 1) * TP__NS_PER_MS : INT64_MAX;
  return note;
}

/* However late it is, a call sees the same data as before. */
static void look_again(const call_note *note, const tp_call *call) {
  call_note again = *note;
  again.deps_seen = again.deps_good = again.deps_fallback = 0;
  look_at_dependencies(&again, call);
  look_at_text(&again, call);
  look_at_payload(&again, call);
  if (again.deps_seen != note->deps_seen || again.deps_good != note->deps_good ||
      again.deps_fallback != note->deps_fallback || again.text_of != note->text_of)
    world_fail(note->w, "what a call sees does not change", "node %d", note->node);
}

/* Inline handlers run on a thread that owns the turn or helps it; the others on a handler thread, under their
 * permits. */
static bool enter(node_actor *actor, const call_note *note) {
  world *w = actor->w;
  const script_node *node = &w->s->nodes[actor->index];
  turn_actor *turn = &w->turns[note->op / SCRIPT_OPS_MAX];
  bool here = node->is_inline && !node->detached;
  if (tp__inside_doing() != (here ? TP__THREAD_OWNER : TP__THREAD_HANDLER))
    world_fail(w, "placement is the handler's", "node %d (%s) runs on the wrong kind of thread", actor->index,
               here ? "inline" : "not inline");
  if (here && turn->inside++ > tp__runtime_helpers(w->runtime)->max)
    world_fail(w, "one owner, and its helpers", "%u inline handlers of turn %u run at once", turn->inside, turn->index);
  if (!here) {
    uint32_t permits = node->max_concurrent ? node->max_concurrent : node->is_inline ? UINT32_MAX : 16;
    uint32_t threads = w->s->options.handler_threads ? w->s->options.handler_threads : 64;
    if (++actor->running > permits)
      world_fail(w, "permits", "node %d runs %u times at once", actor->index, actor->running);
    if (++w->handlers_running > 2 * threads)
      world_fail(w, "handler threads", "%u functions run at once", w->handlers_running);
  }
  return here;
}

static void leave(node_actor *actor, call_note *note, bool here) {
  world *w = actor->w;
  note->finished_ns = tp__now_ns();
  if (here) {
    w->turns[note->op / SCRIPT_OPS_MAX].inside--;
    return;
  }
  actor->running--;
  w->handlers_running--;
}

static void play_work(const call_note *note, const tp_call *call) {
  int64_t left_ns = world_hang_ns(note->w, note->move->before_ns);
  while (left_ns > 0) {
    int64_t nap_ns = note->move->polite && left_ns > TP__NS_PER_MS ? TP__NS_PER_MS : left_ns;
    tp__sim_sleep_ns(nap_ns);
    left_ns -= nap_ns;
    if (note->move->polite && tp_call_cancelled(call)) return;
  }
}

/* Answers the call with a reason or a message. */
static void say(call_note *note, tp_call *call, bool defers) {
  pieces p;
  make_pieces(&p, note, true, !defers);
  for (uint32_t i = 0; i < p.count; i++) (void)!tp_call_emit(call, &p.items[i], NULL);
  if (note->move->answer == ANSWER_REPLACE) {
    char text[TEXT_SIZE];
    snprintf(text, sizeof text, "o%u n%d a%u", note->op, note->node, note->attempt);
    (void)!tp_call_replace_text(call, SCRIPT_FIELD_TEXT, text, NULL);
  }
}

static tp_answer answer(call_note *note, tp_call *call) {
  bool defers = note->move->way != WAY_RETURN;
  say(note, call, defers);
  if (defers) return defer(note, call);
  note_answer(note);
  tp_outcome outcome = outcome_of(note);
  switch (outcome.kind) {
    case TP_ANSWER_DENY:
      return tp_call_deny(call, outcome.reason);
    case TP_ANSWER_ASK:
      return tp_call_ask(call, outcome.reason);
    case TP_ANSWER_FAILED:
      return outcome.retryable ? tp_call_fail_retryable(call, outcome.code, outcome.reason)
                               : tp_call_fail(call, outcome.code, outcome.reason);
    default:
      return outcome.kind;
  }
}

tp_answer handler_run(void *ctx, tp_call *call) {
  node_actor *actor = ctx;
  if (actor->destroys > 0)
    world_fail(actor->w, "destroy after the last attempt", "node %d is called afterwards", actor->index);
  call_note *note = begin_note(actor, call);
  bool here = enter(actor, note);
  play_work(note, call);
  look_again(note, call);
  tp_answer outcome = answer(note, call);
  if (actor->destroys > 0) world_fail(actor->w, "destroy after the last attempt", "node %d still runs", actor->index);
  leave(actor, note, here);
  return outcome;
}

/* After the answer the attempt may be freed at any moment, so everything that is needed of it is read before. */
call_note *handler_take(const tp_work *work) {
  node_actor *actor = work->ctx;
  if (actor->destroys > 0)
    world_fail(actor->w, "destroy after the last attempt", "a call of node %d is taken afterwards", actor->index);
  call_note *note = begin_note(actor, work->call);
  note->in_inbox = true;
  note->token = work->token;
  play_work(note, work->call);
  look_again(note, work->call);
  say(note, work->call, true);
  if (actor->destroys > 0) world_fail(actor->w, "destroy after the last attempt", "node %d is taken", actor->index);
  note->finished_ns = tp__now_ns();
  return note;
}

static call_note *note_of(const world *w, tp_token token) {
  call_note *note = w->calls;
  while (note && !(note->in_inbox && note->token.bits == token.bits)) note = note->next;
  return note;
}

/* Another taker may have the work but not have noted it, or may still read it: then that taker answers. */
void handler_cancel(world *w, const tp_work *work, uint64_t looks) {
  call_note *note;
  for (int i = 0; !(note = note_of(w, work->token)) && i < 1000; i++) tp__sim_sleep_ns(TP__NS_PER_US);
  if (!note || note->cancels > 0) {
    world_fail(w, "the cancel of taken work comes once", "%s", note ? "it came again" : "for nothing that was taken");
    return;
  }
  if (note->token_over && note->over_at < looks)
    world_fail(w, "a host that has answered hears of no cancel", "node %d", note->node);
  note->cancels++;
  if (note->move->way == WAY_DEFER_ON_CANCEL && note->finished_ns) (void)!handler_complete(note);
}
