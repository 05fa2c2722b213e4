/* SPDX-License-Identifier: Apache-2.0 */
#include "turn_work.h"

#include <stdio.h>
#include <stdlib.h>

#include "history.h"
#include "request_work.h"
#include "tool_work.h"

enum { TURN_LIMIT_MS = 300, REQUESTS_MAX = 4, CALLS_MAX = 3, STOP_DENIALS_MAX = 8 };

/* Mostly short; if the fault level allows it, sometimes about as long as a turn, and sometimes far longer. */
static int64_t draw_delay(const turn_work *d) {
  uint64_t dice = tp__sim_random(100);
  if (dice < 40) return 0;
  if (dice < 85 || world_is_fault_free(d->w)) return (int64_t)tp__sim_random(3 * TP__NS_PER_MS);
  if (dice < 95) return (int64_t)tp__sim_random(TURN_LIMIT_MS * (uint64_t)TP__NS_PER_MS);
  return (int64_t)tp__sim_random(20) * TURN_LIMIT_MS * TP__NS_PER_MS;
}

static token_note *new_note(turn_work *d) {
  token_note *note = calloc(1, sizeof *note);
  if (!note) abort();
  note->d = d;
  note->delay_ns = draw_delay(d);
  note->next = d->tokens;
  d->tokens = note;
  return note;
}

/* Every handler gets the pointers that the host gave; the turn of session.end has none. */
static void check_data(turn_work *d, const char *who, tp_text turn_id, const void *session, const void *turn) {
  const void *wanted = turn_id.size == 2 ? &d->numbers[turn_id.data[1] - '0'] : NULL;
  if (session != d || turn != wanted)
    world_fail(d->w, "the host's pointers come back", "%s of turn workload %u in turn %.*s", who, d->index,
               (int)turn_id.size, turn_id.size ? turn_id.data : "");
}

/* ---- the model ---- */

/* Some at once, some a moment later, when the turn has no owner. */
static void emit_pieces(token_note *note) {
  for (uint64_t left = 1 + tp__sim_random(3); left > 0; left--) {
    tp_status status = tp_model_delta(note->token, tp_text_of("as "), NULL);
    if (status == TP_OK) note->pieces++;
    else if (status != TP_ERR_STALE && status != TP_ERR_NO_MEMORY)
      world_fail(note->d->w, "a completion is taken or stale", "a delta gave %s", tp_status_name(status));
    if (left > 1 && world_one_in(2)) tp__sim_sleep_ns((int64_t)tp__sim_random(TP__NS_PER_MS));
  }
}

static tp_status complete_model(token_note *note) {
  char ids[CALLS_MAX][8];
  tp_tool_call calls[CALLS_MAX];
  const tp_tool_call *list[CALLS_MAX];
  static const char *const names[] = {"t0", "t1", "t0", "t1", "unknown"};
  for (uint32_t i = 0; i < note->calls; i++) {
    snprintf(ids[i], sizeof ids[i], "c%u", i);
    list[i] = &calls[i];
    calls[i] = (tp_tool_call){.struct_size = sizeof calls[i],
                              .id = tp_text_of(ids[i]),
                              .name = tp_text_of(names[tp__sim_random(5)]),
                              .arguments = {"\x80", 1}};
  }
  tp_model_response response = {.struct_size = sizeof response,
                                .text = tp_text_of(REQUEST_WORK_SAID),
                                .calls = list,
                                .call_count = note->calls,
                                .stop_reason = tp_text_of(note->calls ? "tool_use" : "end_turn")};
  if (note->fails) return tp_model_fail(note->token, TP_ERR_MODEL, "as the model fails", note->retryable, NULL);
  emit_pieces(note);
  return tp_model_complete(note->token, &response, NULL);
}

static tp_status complete_tool(token_note *note) {
  return tp_tool_complete(note->token, note->fails, tp_text_of("as the tool says"), NULL);
}

static void complete(token_note *note) {
  turn_work *d = note->d;
  tp_status status = note->is_model ? complete_model(note) : complete_tool(note);
  if (status != TP_OK && status != TP_ERR_STALE)
    world_fail(d->w, "a completion is taken or stale", "turn workload %u: it gave %s", d->index,
               tp_status_name(status));
  if (status != TP_OK) return;
  if (++note->accepted > 1)
    world_fail(d->w, "a stale token is harmless", "turn workload %u: it was taken twice", d->index);
  if (d->w->freed)
    world_fail(d->w, "a stale token is harmless", "turn workload %u: taken after tp_runtime_free()", d->index);
}

static void complete_later(void *arg) {
  token_note *note = arg;
  tp__sim_sleep_ns(note->delay_ns);
  complete(note);
}

/* A host that will never complete a token abandons it sooner or later; a later completion is late. */
static void abandon_later(void *arg) {
  token_note *note = arg;
  tp__sim_sleep_ns(note->delay_ns);
  tp_status status = tp_token_abandon(note->token, NULL);
  if (status != TP_OK && (status != TP_ERR_STALE || !note->d->w->draining))
    world_fail(note->d->w, "a token can be abandoned once", "turn workload %u: it gave %s", note->d->index,
               tp_status_name(status));
  if (status == TP_OK && note->d->w->freed)
    world_fail(note->d->w, "a stale token is harmless", "turn workload %u: abandoned after tp_runtime_free()",
               note->d->index);
  if (tp_token_open(note->token) || tp_token_abandon(note->token, NULL) != TP_ERR_STALE)
    world_fail(note->d->w, "an abandoned token is stale", "turn workload %u", note->d->index);
  complete(note);
  if (note->accepted) world_fail(note->d->w, "an abandoned token is stale", "turn workload %u: taken", note->d->index);
}

static void abandon_or_keep(token_note *note, const char *name) {
  if (world_one_in(2)) world_start(name, abandon_later, note);
}

/* The last message belongs to the turn that asks. */
static uint32_t turn_of(const tp_model_request *request) {
  tp_text id = request->message_count ? request->messages[request->message_count - 1]->turn_id : (tp_text){NULL, 0};
  return id.size == 2 ? (uint32_t)(id.data[1] - '0') : UINT32_MAX;
}

/* The messages of a turn are in its requests, and in those of no other turn. */
static void check_history(turn_work *d, uint32_t turn, const tp_model_request *request, bool is_fallback) {
  bool has_system = false;
  for (size_t i = 0; i < request->message_count; i++)
    has_system = has_system || request->messages[i]->role == TP_ROLE_SYSTEM;
  bool wanted = turn < TURN_WORK_TURNS_MAX && d->has_messages[turn];
  bool named = tp_text_is(request->model, "own");
  if (has_system != wanted || named != (wanted && !is_fallback))
    world_fail(d->w, "a turn's own messages are its history", "turn %u of turn workload %u: %zu messages", turn,
               d->index, request->message_count);
}

/* A turn that has asked the fallback asks no other model afterwards. */
static void check_model(turn_work *d, uint32_t turn, bool is_fallback) {
  if (turn != d->turn) return;
  if (d->fell_back && !is_fallback) world_fail(d->w, "a turn stays with its fallback", "turn workload %u", d->index);
  d->fell_back = is_fallback;
}

static void start(turn_work *d, const tp_model_request *request, tp_token token, bool is_fallback) {
  token_note *note = new_note(d);
  if (request->message_count)
    check_data(d, "a model", request->messages[request->message_count - 1]->turn_id,
               tp_model_request_data(request, TP_ID_SESSION), tp_model_request_data(request, TP_ID_TURN));
  note->token = token;
  note->is_model = true;
  note->turn = turn_of(request);
  check_history(d, note->turn, request, is_fallback);
  request_work_check(d->w, request);
  check_model(d, note->turn, is_fallback);
  note->number =
      note->turn == d->turn ? d->requests++ : UINT32_MAX; /* the call of a turn that is over may begin late */
  if (note->number < REQUESTS_MAX && request->tool_count > 0) note->calls = (uint32_t)tp__sim_random(CALLS_MAX + 1);
  note->fails = !world_is_fault_free(d->w) && world_one_in(8);
  note->retryable = note->fails && world_one_in(2);
  if (!world_is_fault_free(d->w) && world_one_in(20)) { /* sometimes the answer never comes */
    abandon_or_keep(note, "model");
    return;
  }
  if (world_one_in(3)) complete(note);
  else {
    note->twice = world_one_in(4);
    world_start("model", complete_later, note);
    if (note->twice) world_start("model", complete_later, note);
  }
}

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  start(ctx, request, token, false);
}

static void fallback_start(void *ctx, const tp_model_request *request, tp_token token) {
  start(ctx, request, token, true);
}

static void model_cancel(void *ctx, tp_token token) {
  turn_work *d = ctx;
  for (token_note *note = d->tokens; note; note = note->next) {
    if (!note->is_model || note->token.bits != token.bits) continue;
    if (++note->cancels > 1) world_fail(d->w, "cancel at most once", "the model of turn workload %u", d->index);
    return;
  }
}

static void model_destroy(void *ctx) {
  turn_work *d = ctx;
  d->model_destroys++;
  world_destructor(d->w);
}

/* ---- tools ---- */

static void tool_cancel(void *ctx) {
  token_note *note = ctx;
  if (++note->cancels > 1) world_fail(note->d->w, "cancel at most once", "a tool of turn workload %u", note->d->index);
  if (note->destroys) world_fail(note->d->w, "no cancel after destroy", "a tool of turn workload %u", note->d->index);
}

static void tool_destroy(void *ctx) {
  token_note *note = ctx;
  if (++note->destroys > 1)
    world_fail(note->d->w, "destroy exactly once", "a tool of turn workload %u", note->d->index);
  world_destructor(note->d->w);
}

static turn_work *turn_work_of(world *w, tp_text session) {
  uint32_t index = session.size == 2 && session.data[0] == 'd' ? (uint32_t)(session.data[1] - '0') : 0;
  return &w->turn_works[index < SCRIPT_TURN_WORKS_MAX ? index : 0];
}

static tp_answer tool_defers(token_note *note, tp_tool_run *run) {
  tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = tool_cancel, .destroy = tool_destroy, .ctx = note};
  note->deferred = true;
  tp_answer outcome = tp_tool_defer(run, &deferral, &note->token);
  if (!note->token.bits) {
    note->deferred = false;
    return outcome;
  }
  if (!world_is_fault_free(note->d->w) && world_one_in(10)) { /* sometimes the tool never ends */
    abandon_or_keep(note, "tool");
    return outcome;
  }
  if (world_one_in(10)) return tp_tool_ok(run, tp_text_of("at once all the same"));
  world_start("tool", complete_later, note);
  if (world_one_in(4)) world_start("tool", complete_later, note);
  return outcome;
}

static tp_answer tool_run(void *ctx, tp_tool_run *run) {
  world *w = ctx;
  turn_work *d = turn_work_of(w, tp_tool_run_id(run, TP_ID_SESSION));
  check_data(d, "a tool", tp_tool_run_id(run, TP_ID_TURN), tp_tool_run_data(run, TP_ID_SESSION),
             tp_tool_run_data(run, TP_ID_TURN));
  token_note *note = new_note(d);
  note->fails = world_one_in(6);
  if (world_one_in(2)) return tool_defers(note, run);
  tp__sim_sleep_ns(note->delay_ns);
  tp_text text = tp_text_of("as the tool says");
  return note->fails ? tp_tool_error(run, text) : tp_tool_ok(run, text);
}

/* ---- subscriptions ---- */

static tp_answer emit_tools(void *ctx, tp_call *call) {
  tp_tool tools[2];
  const tp_tool *list[] = {&tools[0], &tools[1]};
  for (int i = 0; i < 2; i++)
    tools[i] = (tp_tool){.struct_size = sizeof tools[i],
                         .name = i ? "t1" : "t0",
                         .description = "a tool",
                         .run = tool_run,
                         .ctx = ctx,
                         .limit_ms = i ? 60 : 0,
                         .max_concurrent = i ? 1 : 0};
  if (tp_call_emit_tool_bundle(call, "tools", list, 2, NULL) != TP_OK) return tp_call_fail(call, 1, "no tools");
  return TP_ANSWER_DONE;
}

/* Observers handle a turn workload's own phases; other sessions have an end, too. */
static turn_work *heard(void *ctx, tp_call *call) {
  tp_text session = tp_call_id(call, TP_ID_SESSION);
  if (session.size != 2 || session.data[0] != 'd') return NULL;
  turn_work *d = turn_work_of(ctx, session);
  check_data(d, "a handler", tp_call_id(call, TP_ID_TURN), tp_call_data(call, TP_ID_SESSION),
             tp_call_data(call, TP_ID_TURN));
  return d;
}
static tp_answer gate(void *ctx, tp_call *call) {
  turn_work *d = heard(ctx, call);
  if (!d) return tool_work_gate(call);
  tp__sim_sleep_ns(draw_delay(d));
  if (world_one_in(8)) return tp_call_deny(call, "as the gate says");
  return world_one_in(2) ? tp_call_allow(call) : TP_ANSWER_DONE;
}

/* Mostly lets the turn end; in some turns it never does. */
static tp_answer stop(void *ctx, tp_call *call) {
  turn_work *d = heard(ctx, call);
  if (!d) return TP_ANSWER_DONE;
  if (d->stops++ == 0) d->is_stubborn = world_one_in(8);
  if (tp_call_int(call, TP_FIELD_STOP_DENIALS) != d->stop_denials)
    world_fail(d->w, "turn.stop counts its denials", "turn workload %u: %u, reported %lld", d->index, d->stop_denials,
               (long long)tp_call_int(call, TP_FIELD_STOP_DENIALS));
  if (!d->is_stubborn && !world_one_in(4)) return world_one_in(2) ? tp_call_allow(call) : TP_ANSWER_DONE;
  if (d->stop_denials < STOP_DENIALS_MAX) d->stop_denials++;
  else d->overruled = true;
  d->denied_at = d->requests;
  return tp_call_deny(call, "as the stop says");
}

static tp_answer rewrite(void *ctx, tp_call *call) {
  turn_work *d = heard(ctx, call);
  int64_t delay_ns = d && world_one_in(4) ? world_hang_ns(d->w, draw_delay(d)) : 0;
  return d ? request_work_rewrite(d, call, delay_ns) : TP_ANSWER_DONE;
}
static tp_answer filter(void *ctx, tp_call *call) {
  return heard(ctx, call) ? request_work_filter(call) : TP_ANSWER_DONE;
}

static tp_answer hear_post(void *ctx, tp_call *call) {
  turn_work *d = heard(ctx, call);
  if (d) d->post_turns++;
  return TP_ANSWER_DONE;
}
static tp_answer hear_error(void *ctx, tp_call *call) {
  turn_work *d = heard(ctx, call);
  if (d) d->errors++;
  return TP_ANSWER_DONE;
}
static tp_answer hear_end(void *ctx, tp_call *call) {
  turn_work *d = heard(ctx, call);
  if (d) d->session_ends++;
  return TP_ANSWER_DONE;
}

tp_status turn_work_register(world *w, tp_edit *edit) {
  static const world_hook hooks[] = {
      {.id = "x.tools",
       .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
       .run = emit_tools,
       .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
       .is_inline = true},
      {.id = "x.gate", .phase = TP_PHASE_TOOL_PRE, .run = gate, .capabilities = TP_CAPABILITY_DECIDE},
      {.id = "x.stop",
       .phase = TP_PHASE_TURN_STOP,
       .run = stop,
       .capabilities = TP_CAPABILITY_DECIDE,
       .is_inline = true},
      {.id = "x.request",
       .phase = TP_PHASE_MODEL_REQUEST,
       .run = rewrite,
       .capabilities = TP_CAPABILITY_REPLACE_PAYLOAD | TP_CAPABILITY_DECIDE},
      {.id = "x.filter",
       .phase = TP_PHASE_MODEL_RESPONSE,
       .run = filter,
       .capabilities = TP_CAPABILITY_REPLACE_PAYLOAD,
       .is_inline = true,
       .failure = TP_FAILURE_REQUIRED},
      {.id = "x.post", .phase = TP_PHASE_TURN_POST_TURN, .run = hear_post, .is_inline = true},
      {.id = "x.error", .phase = TP_PHASE_RUNTIME_ERROR, .run = hear_error, .is_inline = true},
      {.id = "x.end", .phase = TP_PHASE_SESSION_END, .run = hear_end, .is_inline = true}};
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
    if (w->s->filters || hooks[i].phase != TP_PHASE_MODEL_RESPONSE) TP__TRY(world_subscribe(w, edit, &hooks[i]));
  return TP_OK;
}

/* ---- the history: a call never comes without its result ---- */

static tp_status history_load(void *ctx, const tp_history_load *request, tp_fault *fault) {
  (void)request, (void)fault;
  turn_work *d = ctx;
  tp__sim_sleep_ns(draw_delay(d));
  return TP_OK;
}

static bool has_result(const tp_history_append *batch, size_t from, tp_text id) {
  for (size_t i = from; i < batch->message_count && batch->messages[i]->role == TP_ROLE_TOOL; i++)
    if (tp_text_equal(batch->messages[i]->call_id, id)) return true;
  return false;
}

static tp_status history_append(void *ctx, const tp_history_append *batch, tp_fault *fault) {
  (void)fault;
  turn_work *d = ctx;
  tp__sim_sleep_ns(draw_delay(d));
  for (size_t i = 0; i < batch->message_count; i++)
    for (size_t k = 0; k < batch->messages[i]->call_count; k++)
      if (!has_result(batch, i + 1, batch->messages[i]->calls[k]->id))
        world_fail(d->w, "never a call without its result", "turn workload %u, message %zu", d->index, i);
  return TP_OK;
}

static void history_destroy(void *ctx) {
  turn_work *d = ctx;
  d->history_destroys++;
  world_destructor(d->w);
}

/* ---- events ---- */

/* An entry lasts at most as long as the longest path through its plan, here the limit of one handler. The session
 * workload's job is stored before x.post is called, and a jump of the clock meanwhile may use up all of that time.
 * Nothing else skips x.post. */
static void hear_skipped_post(turn_work *d, const tp_event *event) {
  if (event->phase != TP_PHASE_TURN_POST_TURN) return;
  bool awaited = event->kind == TP_EVENT_RUN && event->run->execution <= TP_EXECUTION_DEADLINE;
  if (awaited && event->run->reason == TP_REASON_SHED)
    world_fail(d->w, "what a turn owes at its end is not shed", "`%s` was", event->run->subscription);
  if (event->kind == TP_EVENT_RUN && strcmp(event->run->subscription, "x.post") == 0)
    d->post_queued_ns = event->run->reason == TP_REASON_NO_SLACK ? event->run->queued_ns : 0;
  if (event->kind != TP_EVENT_PHASE_END || !d->post_queued_ns) return;
  int64_t timeout_ns = tp_phase_get(d->w->runtime, event->phase)->limit_ms * TP__NS_PER_MS;
  d->post_skipped = d->w->session_work && d->post_queued_ns - event->started_ns >= timeout_ns;
  if (!d->post_skipped)
    world_fail(d->w, "post_turn exactly once", "skipped %lld ns after its entry began",
               (long long)(d->post_queued_ns - event->started_ns));
}

/* Pieces come between the beginning and the end of their request. If one thread answers, they include everything that
 * it emitted before. A held text comes as one piece, and is checked elsewhere. */
static void hear_piece(turn_work *d, const tp_event *event) {
  bool is_delta = event->kind == TP_EVENT_MODEL_DELTA, is_end = event->kind == TP_EVENT_MODEL_END;
  if (event->kind == TP_EVENT_MODEL_BEGIN) {
    d->is_asked = true;
    d->piece_bytes = 0;
  }
  if ((is_delta || is_end) && !d->is_asked)
    world_fail(d->w, "a piece comes between begin and end", "%s of turn workload %u", tp_event_name(event->kind),
               d->index);
  if (is_delta) d->piece_bytes += (uint32_t)event->text.size;
  if (!is_end) return;
  d->is_asked = false;
  const token_note *note = d->tokens;
  while (note && !note->is_model) note = note->next;
  if (d->w->s->filters || event->status != TP_OK || event->started_ns == 0 || !note || note->twice) return;
  if (d->piece_bytes != 3 * note->pieces)
    world_fail(d->w, "each piece is delivered before the end", "%u were taken, and %u bytes came", note->pieces,
               d->piece_bytes);
}

static void on_event(void *ctx, const tp_event *event) {
  turn_work *d = ctx;
  hear_skipped_post(d, event);
  if (d->w->s->filters) request_work_check_event(d->w, event);
  hear_piece(d, event);
  check_data(d, "a listener", event->ids[TP_ID_TURN], tp_event_data(event, TP_ID_SESSION),
             tp_event_data(event, TP_ID_TURN));
  if (event->sequence == 1) d->last_event = 0;
  if (event->sequence != d->last_event + 1)
    world_fail(d->w, "events in order", "event %llu follows %llu", (unsigned long long)event->sequence,
               (unsigned long long)d->last_event);
  d->last_event = event->sequence;
  if (event->kind == TP_EVENT_MODEL_END) d->batch = 0;
  if (event->kind != TP_EVENT_TOOL_END) return;
  d->tool_ends++;
  if (d->batch & 1u << event->call_index)
    world_fail(d->w, "each call gets exactly one result", "turn workload %u: call %u has ended twice", d->index,
               event->call_index);
  d->batch |= 1u << event->call_index;
}

/* ---- the host ---- */

static void judge(turn_work *d, tp_turn_outcome outcome) {
  world *w = d->w;
  d->outcome = outcome;
  if (++d->turn_ends > 1) world_fail(w, "a turn ends once", "turn %u of turn workload %u", d->turn, d->index);
  if (world_is_fault_free(d->w) && outcome != TP_TURN_COMPLETED)
    world_fail(w, "a turn without trouble is completed", "turn %u of turn workload %u is %s", d->turn, d->index,
               tp_turn_outcome_name(outcome));
  if (w->s->fault_level == FAULTS_REFUSALS) return;
  if (d->unbegun) {
    if (d->post_turns + d->errors > 0)
      world_fail(w, "a turn that ends in the queue fires nothing", "turn %u of turn workload %u", d->turn, d->index);
    return;
  }
  if (d->post_turns != !d->post_skipped)
    world_fail(w, "post_turn exactly once", "turn %u of turn workload %u, %s: %u times", d->turn, d->index,
               tp_turn_outcome_name(outcome), d->post_turns);
  bool is_owed = d->stop_denials > 0 && !d->overruled && d->requests <= d->denied_at;
  if (outcome == TP_TURN_COMPLETED && (d->stops == 0 || is_owed))
    world_fail(w, "a denied turn.stop leads to another request",
               "turn %u of turn workload %u: %u requests, denied at %u", d->turn, d->index, d->requests, d->denied_at);
  uint32_t errors = outcome == TP_TURN_FAILED || outcome == TP_TURN_TIMED_OUT;
  if (d->errors != errors)
    world_fail(w, "runtime.error exactly once", "turn %u of turn workload %u, %s: %u times", d->turn, d->index,
               tp_turn_outcome_name(outcome), d->errors);
  if (outcome == TP_TURN_COMPLETED && d->tool_ends != d->calls_wanted)
    world_fail(w, "each call gets exactly one result", "turn workload %u: %u calls, %u results", d->index,
               d->calls_wanted, d->tool_ends);
}

/* Of a completed turn, whose every request that did not fail was answered. */
static void count_calls(turn_work *d) {
  d->calls_wanted = 0;
  for (const token_note *note = d->tokens; note; note = note->next)
    if (note->is_model && !note->fails && note->turn == d->turn) d->calls_wanted += note->calls;
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  turn_work *d = ctx;
  d->outcome = result->outcome;
  d->unbegun = result->started_ns == 0;
  d->events_of_end++;
  tp__parker_unpark(&d->parker);
}

static void cancel_turn(void *arg) {
  tp_submission *submission = arg;
  tp__sim_sleep_ns((int64_t)tp__sim_random(60 * TP__NS_PER_MS));
  tp_submission_cancel(submission);
}

/* Waits in several short waits until the submission has ended; by then on_end has returned. */
static void wait_for(turn_work *d, tp_submission *submission) {
  const tp_turn_result *result = NULL;
  tp_status status;
  while ((status = tp_submission_wait(submission, (uint32_t)tp__sim_random(50), &result, NULL)) == TP_ERR_TIMEOUT)
    tp__sim_sleep_ns(TP__NS_PER_MS);
  if (status != TP_OK || d->events_of_end != 1 || result->outcome != d->outcome)
    world_fail(d->w, "a submission's wait comes behind its end", "%s, notified %u times", tp_status_name(status),
               d->events_of_end);
}

static void clear_turn(turn_work *d) {
  d->post_skipped = d->fell_back = d->is_stubborn = d->overruled = false;
  d->stops = d->stop_denials = d->denied_at = 0;
  d->post_queued_ns = 0;
  d->requests = d->calls_wanted = d->tool_ends = d->turn_ends = d->post_turns = d->errors = d->events_of_end = 0;
}

static tp_status submit_turn(turn_work *d, const tp_turn_request *request) {
  tp_submission *submission = NULL;
  tp_status status = tp_turn_submit(d->session, request, turn_ended, d, &submission, NULL);
  if (status != TP_OK) return status;
  tp__thread *canceller =
      world_is_fault_free(d->w) || world_one_in(2) ? NULL : world_start_joined("canceller", cancel_turn, submission);
  if (world_one_in(2)) wait_for(d, submission);
  while (d->events_of_end == 0) tp__parker_park_until(&d->parker, TP__NEVER);
  if (canceller) tp__thread_join(canceller);
  tp_submission_unref(submission);
  return TP_OK;
}

static void add_messages(turn_work *d, tp_turn_request *request) {
  static const tp_tool_call call = {.struct_size = sizeof call, .id = {"c", 1}, .name = {"t", 1}};
  static const tp_tool_call *const calls[] = {&call};
  static const tp_message messages[] = {
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_SYSTEM, .text = {"be brief", 8}},
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_USER, .text = {"before", 6}},
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_ASSISTANT, .calls = calls, .call_count = 1},
      {.struct_size = sizeof(tp_message), .role = TP_ROLE_TOOL, .text = {"so", 2}, .call_id = {"c", 1}}};
  static const tp_message *const list[] = {&messages[0], &messages[1], &messages[2], &messages[3]};
  d->has_messages[d->turn] = true;
  request->messages = list;
  request->message_count = sizeof list / sizeof *list;
  request->model_name = "own";
  request->parameters = tp_text_of("\x81\xa1n\x01");
}

static void run_turn(turn_work *d) {
  char id[] = {'t', (char)('0' + d->turn), '\0'};
  tp_turn_request request = {.struct_size = sizeof request,
                             .id = id,
                             .text = tp_text_of("hello"),
                             .limit_ms = world_is_fault_free(d->w) ? 0 : TURN_LIMIT_MS,
                             .data = &d->numbers[d->turn]};
  tp_status status;
  if (world_one_in(3)) add_messages(d, &request);
  if (world_one_in(2) && !d->w->s->options.no_engine_workers) {
    status = submit_turn(d, &request);
  } else {
    const tp_turn_result *result;
    status = tp_turn_run(d->session, &request, &result, NULL);
    if (status == TP_OK) {
      d->outcome = result->outcome;
      d->unbegun = result->started_ns == 0;
      tp_turn_result_free(result);
    }
  }
  world_check_status(d->w, "a driven turn", status);
  if (status != TP_OK) return;
  count_calls(d);
  judge(d, d->outcome);
}

static void session_closed(void *ctx) {
  turn_work *d = ctx;
  d->closed = true;
  tp__parker_unpark(&d->parker);
}

void turn_work_run(void *arg) {
  turn_work *d = arg;
  char id[] = {'d', (char)('0' + d->index), '\0'};
  tp__sim_sleep_ns(draw_delay(d));
  tp_session_options options = {
      .struct_size = sizeof options, .id = id, .on_event = on_event, .event_ctx = d, .data = d};
  const tp_model model = {.struct_size = sizeof model,
                          .name = "sim",
                          .ctx = d,
                          .start = model_start,
                          .cancel = model_cancel,
                          .destroy = model_destroy,
                          .placement = world_one_in(2) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD,
                          .delivers = world_one_in(2)};
  tp_model fallback = model;
  const tp_model *const fallbacks[] = {&fallback};
  fallback.name = "sim2";
  fallback.start = fallback_start;
  fallback.placement = world_one_in(2) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD;
  bool has_fallback = world_one_in(2);
  options.model = &model;
  options.fallbacks = fallbacks;
  options.fallback_count = has_fallback;
  const tp_history history = {.struct_size = sizeof history,
                              .ctx = d,
                              .load = history_load,
                              .append = history_append,
                              .destroy = history_destroy};
  d->shares = d->w->history && world_one_in(2); /* the session uses the history of the runtime, by default or by name */
  if (!d->shares) options.history = &history;
  else if (world_one_in(2)) options.shared_history = d->w->history;
  tp_status status = tp_session_open(d->w->runtime, &options, &d->session, NULL);
  world_check_status(d->w, "tp_session_open", status);
  if (status != TP_OK) return;
  d->model_taken = true;
  d->models_taken = 1 + has_fallback;
  uint32_t turns = 1 + (uint32_t)tp__sim_random(TURN_WORK_TURNS_MAX);
  for (d->turn = 0; d->turn < turns; d->turn++) {
    clear_turn(d);
    run_turn(d);
  }
  tp_session_close(d->session, session_closed, d);
  while (!d->closed) tp__parker_park_until(&d->parker, TP__NEVER);
  if (d->shares && world_one_in(2)) history_delete(d->w, id);
}

/* ---- the end ---- */

void turn_work_ended(turn_work *d) {
  world *w = d->w;
  for (const token_note *note = d->tokens; note; note = note->next)
    if (note->destroys != note->deferred)
      world_fail(w, "destroy exactly once", "a tool of turn workload %u: %u times", d->index, note->destroys);
  if (d->model_destroys != d->models_taken || d->history_destroys != (d->model_taken && !d->shares))
    world_fail(w, "model and history are destroyed exactly once", "turn workload %u: %u and %u times", d->index,
               d->model_destroys, d->history_destroys);
  bool may_be_full = w->s->options.turns_max > 0; /* then a closing turn may find no place */
  if (w->s->fault_level < FAULTS_REFUSALS && !may_be_full && d->model_taken && d->session_ends != 1)
    world_fail(w, "session.end exactly once", "turn workload %u: %u times", d->index, d->session_ends);
}

void turn_work_fini(turn_work *d) {
  while (d->tokens) {
    token_note *note = d->tokens;
    d->tokens = note->next;
    free(note);
  }
}
