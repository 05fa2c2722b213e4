/* SPDX-License-Identifier: Apache-2.0
 *
 * tool workload.c: the running tool workload: its host, its tools, and the threads that complete their tokens. */
#include "tool_work.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/runtime.h"

#define FAIL(call, property, format, ...)                                                                        \
  world_fail((call)->batch->e->w, (property), "call %u of batch %u of tool workload %u: " format, (call)->index, \
             (call)->batch->index, (call)->batch->e->index, __VA_ARGS__)

/* ---- completions ---- */

/* Through a function that is not a tool's: the token stays as it is. */
static void give_by_mistake(const tool_work_call *call) {
  tp_outcome outcome = {.struct_size = sizeof outcome, .kind = TP_ANSWER_DONE, .reason = "by mistake"};
  tp_status status = call->hand == HAND_MODEL ? tp_model_fail(call->token, TP_ERR_MODEL, "by mistake", false, NULL)
                                              : tp_token_complete(call->token, &outcome, NULL);
  if (status != TP_ERR_USAGE && status != TP_ERR_STALE)
    FAIL(call, "a tool's token is a tool's alone", "it gave %s", tp_status_name(status));
}

/* Before and, of a token that is over, after the answer. */
static void report(tool_work_call *call) {
  const tp_tool_progress progress = {
      .struct_size = sizeof progress, .done = (double)call->index, .message = tp_text_of(tool_work_progress_words)};
  bool was_over = call->accepted > 0;
  call->reported++; /* its event may come before this returns */
  tp_status status = tp_tool_report(call->token, &progress, NULL);
  if (status != TP_OK && status != TP_ERR_STALE && status != TP_ERR_NO_MEMORY)
    FAIL(call, "progress is taken or stale", "it gave %s", tp_status_name(status));
  if (was_over && status != TP_ERR_STALE)
    FAIL(call, "no progress after the answer", "it gave %s", tp_status_name(status));
}

static tp_status give(tool_work_call *call, tool_work_words words) {
  tp_text text = {call->text, call->text_size};
  if (words == WORDS_SECOND) return tp_tool_complete(call->token, false, tp_text_of(tool_work_second_words), NULL);
  if (call->hand != HAND_TOOL) give_by_mistake(call);
  if (call->later_ns % 3 == 1) report(call);
  return tp_tool_complete(call->token, call->fails, text, NULL);
}

static void complete(tool_work_call *call, tool_work_words words) {
  bool was_over = call->token_over;
  call->completing = true;
  tp_status status = give(call, words);
  call->token_over = true;
  if (status == TP_ERR_STALE) return;
  if (status != TP_OK) FAIL(call, "a completion is taken or stale", "it gave %s", tp_status_name(status));
  if (was_over || ++call->accepted > 1) FAIL(call, "a stale token is harmless", "taken %u times", call->accepted + 1);
  if (call->batch->e->w->freed) FAIL(call, "a stale token is harmless", "taken %s", "after tp_runtime_free()");
  call->taken = words;
}

static void complete_later(void *arg) {
  tool_work_call *call = arg;
  tp__sim_sleep_ns(call->later_ns);
  complete(call, WORDS_FIRST);
}

/* Where outcomes are to be known, the second one comes second. */
static void complete_second(void *arg) {
  tool_work_call *call = arg;
  bool fault_free = call->batch->e->w->s->fault_level == FAULTS_NONE;
  tp__sim_sleep_ns(call->later_ns + (fault_free ? TP__NS_PER_MS : 0));
  complete(call, WORDS_SECOND);
}

static void start(void (*run)(void *arg), tool_work_call *call) {
  if (!world_start("tool workload's tool", run, call)) run(call);
}

void tool_work_after_free(tool_work *e) {
  for (uint32_t i = 0; i < e->batch_count; i++)
    for (uint32_t k = 0; k < e->batches[i].count; k++) {
      tool_work_call *call = &e->batches[i].calls[k];
      if (call->deferred && (call->way == WAY_DEFER_AFTER_FREE || world_one_in(4))) complete(call, WORDS_FIRST);
    }
}

/* ---- deferrals ---- */

static void on_cancel(void *ctx) {
  tool_work_call *call = ctx;
  if (++call->cancels > 1) FAIL(call, "cancel at most once", "%u times", call->cancels);
  if (call->destroys) FAIL(call, "no cancel after destroy", "%u", call->destroys);
  call->in_cancel = true;
  if (call->way == WAY_DEFER_ON_CANCEL) complete(call, WORDS_FIRST);
  tp__sim_point();
  call->in_cancel = false;
}

static void on_destroy(void *ctx) {
  tool_work_call *call = ctx;
  if (++call->destroys > 1) FAIL(call, "destroy exactly once", "%u times", call->destroys);
  if (call->in_cancel) FAIL(call, "no destroy during cancel", "%u", call->cancels);
}

/* A second deferral is refused, and changes nothing. */
static void defer_again(const tool_work_call *call, tp_tool_run *run) {
  tp_token none = {1};
  tp_answer answer = tp_tool_defer(run, NULL, &none);
  if (answer != TP_ANSWER_FAILED || none.bits) FAIL(call, "a run is deferred once", "%d", answer);
}

static tp_answer defer(tool_work_call *call, tp_tool_run *run) {
  tp_deferral deferral = {.struct_size = sizeof deferral, .cancel = on_cancel, .destroy = on_destroy, .ctx = call};
  call->deferred = true; /* before another thread can look */
  tp_answer outcome = tp_tool_defer(run, &deferral, &call->token);
  if (!call->token.bits) {
    call->deferred = false;
    call->refused = true;
    return outcome;
  }
  if (call->again) defer_again(call, run);
  bool raced = call->polite && call->batch->e->w->s->fault_level != FAULTS_NONE;
  if (call->way == WAY_DEFER || call->way == WAY_DEFER_TWICE) start(complete_later, call);
  if (call->way == WAY_DEFER_TWICE) start(complete_second, call);
  if (call->way == WAY_DEFER_INSIDE) complete(call, WORDS_FIRST);
  if (call->way != WAY_DEFER_AND_RETURN) return outcome;
  if (raced) start(complete_later, call);
  return tp_tool_ok(run, tp_text_of(tool_work_hasty_words));
}

/* ---- tools ---- */

static void look_at_run(const tool_work_call *call, const tp_tool_run *run) {
  char buffer[16];
  if (!tp_text_equal(tp_tool_run_call_id(run), tool_work_id(call, buffer)))
    FAIL(call, "a tool sees its own call", "another's id, %.*s", (int)tp_tool_run_call_id(run).size,
         tp_tool_run_call_id(run).data);
  if (!tool_work_arguments_are(call, tp_tool_run_arguments(run)))
    FAIL(call, "a tool sees its own call", "other arguments, of %zu bytes", tp_tool_run_arguments(run).size);
}

/* A function that was given up counts until it returns. A completed token means that the call is over. */
static bool may_be_running(const tool_work_call *call) {
  if (call->completing) return false;
  return !call->returned_ns || (call->deferred && call->way != WAY_DEFER_AND_RETURN);
}

/* No conflicting call of a lower index is running, and no conflicting call of a higher index has begun. */
static void look_at_others(const tool_work_call *call) {
  const tool_work_batch *batch = call->batch;
  for (uint32_t i = 0; i < batch->count; i++) {
    const tool_work_call *other = &batch->calls[i];
    if (other == call || !other->calls || !tool_work_conflict(call, other)) continue;
    if (i > call->index) FAIL(call, "conflicting calls run in call order", "%u has begun before it", i);
    else if (may_be_running(other)) FAIL(call, "conflicting calls never overlap", "%u is running", i);
  }
}

static void note_begin(tool_work_call *call, const tp_tool_run *run) {
  if (++call->calls > 1) FAIL(call, "a tool is called once a call", "%u times", call->calls);
  call->called_ns = tp__now_ns();
  int64_t left_ms = tp_tool_run_time_left_ms(run);
  call->deadline_ns = call->called_ns + left_ms * TP__NS_PER_MS;
  call->deadline_max_ns = tp__now_ns() + (left_ms + 1) * TP__NS_PER_MS;
  void *where = tool_work_is_threaded(call->tool) ? TP__THREAD_HANDLER : TP__THREAD_OWNER;
  if (tp__inside_doing() != where)
    FAIL(call, "placement is the tool's", "%s on the wrong kind of thread", tool_work_tool_name(call->tool));
  tool_work *e = call->batch->e;
  if (!tool_work_is_threaded(call->tool) && e->inside++ > 0)
    FAIL(call, "one owner", "%u inline tools run at once", e->inside);
  if (!tool_work_is_threaded(call->tool)) tool_work_called(call, left_ms);
  if (tool_work_has_key(call->tool)) look_at_others(call);
  if (call->tool == TOOL_SINGLE && e->w->single_running++ > 0)
    FAIL(call, "permits", "%u run at once", e->w->single_running);
}

static void note_return(tool_work_call *call) {
  call->returned_ns = tp__now_ns();
  if (!tool_work_is_threaded(call->tool)) call->batch->e->inside--;
  if (call->tool == TOOL_SINGLE) call->batch->e->w->single_running--;
}

static void work(const tool_work_call *call, const tp_tool_run *run) {
  int64_t left_ns = world_hang_ns(call->batch->e->w, call->before_ns);
  while (left_ns > 0) {
    int64_t nap_ns = call->polite && left_ns > TP__NS_PER_MS ? TP__NS_PER_MS : left_ns;
    tp__sim_sleep_ns(nap_ns);
    left_ns -= nap_ns;
    if (call->polite && tp_tool_run_cancelled(run)) return;
  }
}

static tp_answer answer(tool_work_call *call, tp_tool_run *run) {
  if (call->way != WAY_RETURN) return defer(call, run);
  if (call->silent) return call->fails ? TP_ANSWER_FAILED : TP_ANSWER_DONE;
  tp_text text = {call->text, call->text_size};
  return call->fails ? tp_tool_error(run, text) : tp_tool_ok(run, text);
}

static tp_answer tool_run(void *ctx, tp_tool_run *run) {
  tool_work *e = ctx;
  tool_work_call *call = tool_work_find(e, run);
  if (!call) {
    world_fail(e->w, "a tool sees its own call", "tool workload %u: it is of no call", e->index);
    return tp_tool_error(run, tp_text_of("of no call"));
  }
  note_begin(call, run);
  look_at_run(call, run);
  work(call, run);
  look_at_run(call, run);
  tp_answer outcome = answer(call, run);
  note_return(call);
  return outcome;
}

static tp_status read_key(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  (void)ctx;
  return tp_tool_keys_add(keys, TP_TOOL_READ, tp_text_of(tool_work_key(arguments)), NULL);
}

static tp_status write_key(void *ctx, tp_text arguments, tp_tool_keys *keys) {
  (void)ctx;
  return tp_tool_keys_add(keys, TP_TOOL_WRITE, tp_text_of(tool_work_key(arguments)), NULL);
}

/* {"properties": {"n": {"type": "integer"}}, "required": ["n"]} */
static const char schema[] =
    "\x82\xAA"
    "properties\x81\xA1n\x81\xA4type\xA7integer\xA8required\x91\xA1n";

static void describe(tool_work *e, tp_tool *tool, tool_work_tool which) {
  bool fault_free = e->w->s->fault_level == FAULTS_NONE;
  *tool = (tp_tool){.struct_size = sizeof *tool,
                    .name = tool_work_tool_name(which),
                    .description = "runs a tool workload",
                    .run = tool_run,
                    .ctx = e,
                    .placement = !tool_work_is_threaded(which) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  if (which == TOOL_BRIEF) tool->limit_ms = TOOL_WORK_BRIEF_MS;
  if (which == TOOL_TERSE) tool->result_bytes_max = TOOL_WORK_TERSE_BYTES;
  if (which == TOOL_STRICT) tool->schema = (tp_text){schema, sizeof schema - 1};
  if (which == TOOL_READER) tool->keys = read_key;
  if (which == TOOL_WRITER) tool->keys = write_key;
  if (which == TOOL_SINGLE) tool->max_concurrent = 1;
  if (which == TOOL_SINGLE && !fault_free) tool->limit_ms = TOOL_WORK_SINGLE_MS;
}

static tool_work *tool_work_of(world *w, const tp_call *call) {
  tp_text turn = tp_call_id(call, TP_ID_TURN);
  uint32_t index = turn.size == 2 && turn.data[0] == 'e' ? (uint32_t)(turn.data[1] - '0') : UINT32_MAX;
  return index < w->s->tool_work_count ? &w->tool_works[index] : NULL;
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  tool_work *e = tool_work_of(ctx, call);
  tp_tool tools[TOOL_WORK_TOOLS];
  const tp_tool *list[TOOL_WORK_TOOLS];
  if (!e) return TP_ANSWER_DONE;
  for (int i = 0; i < TOOL_WORK_TOOLS; i++) {
    describe(e, &tools[i], (tool_work_tool)i);
    list[i] = &tools[i];
  }
  if (tp_call_emit_tool_bundle(call, "workload", list, TOOL_WORK_TOOLS, NULL) != TP_OK)
    return tp_call_fail(call, 1, "no tools");
  return TP_ANSWER_DONE;
}

tp_status tool_work_register(world *w, tp_edit *edit) {
  static const world_hook tools = {.id = "e.tools",
                                   .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
                                   .run = emit_tools,
                                   .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                                   .is_inline = true};
  return world_subscribe(w, edit, &tools);
}

tp_answer tool_work_gate(tp_call *call) {
  bool barred = tp_text_is(tp_call_text(call, TP_FIELD_TOOL), tool_work_tool_name(TOOL_BARRED));
  if (world_one_in(3)) tp__sim_sleep_ns((int64_t)tp__sim_random(2 * TP__NS_PER_MS));
  return barred ? tp_call_deny(call, "it is barred") : TP_ANSWER_DONE;
}

/* ---- the host ---- */

static void on_event(void *ctx, const tp_event *event) { tool_work_heard(ctx, event); }

static void end_turn(tool_work *e) {
  tool_work_again(e);
  e->over = true;
  tp_turn_end(e->turn);
}

static bool has_our_tools(const tp_merged *merged) {
  for (size_t i = 0; merged && i < tp_merged_count(merged, TP_CONTRIBUTION_TOOL_BUNDLE); i++)
    if (strcmp(tp_merged_get(merged, TP_CONTRIBUTION_TOOL_BUNDLE, i)->subscription, "e.tools") == 0) return true;
  return false;
}

static void materialize(tool_work *e) {
  tp_phase_result result = {.struct_size = sizeof result};
  tp_status status = tp_phase_run(e->turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, &result, NULL);
  world_check_status(e->w, "to contribute tools", status);
  bool has_ours = status == TP_OK && result.outcome == TP_OK && has_our_tools(result.merged);
  if (has_ours || status != TP_OK || result.merged) e->has_tools = has_ours;
}

static tool_work_batch *begin_batch(tool_work *e, uint32_t index) {
  tool_work_batch *batch = &e->batches[index];
  e->now = index;
  batch->begun = true;
  batch->sure = e->has_tools;
  batch->begun_ns = tp__now_ns();
  return batch;
}

static const tp_tool_call **pointers_to(const tp_tool_call *calls, size_t count) {
  const tp_tool_call **pointers = malloc((count + 1) * sizeof *pointers);
  if (!pointers) abort();
  for (size_t i = 0; i < count; i++) pointers[i] = &calls[i];
  return pointers;
}

/* What it was given is the host's again, whatever becomes of the batch. */
static void spoil(const tool_work_batch *batch, tp_tool_call *letter, const tp_tool_call **pointers) {
  memset(letter, 0xA5, batch->count * sizeof *letter);
  memset((void *)pointers, 0xA5, batch->count * sizeof *pointers);
  free(letter);
  free((void *)pointers);
}

static void run_here(tool_work *e, uint32_t index) {
  tool_work_batch *batch = begin_batch(e, index);
  tp_tool_call *letter = tool_work_letter(batch);
  const tp_tool_call **pointers = pointers_to(letter, batch->count);
  const tp_tool_result *const *results;
  tp_status status = tp_tools_run(e->turn, pointers, batch->count, &results, NULL);
  spoil(batch, letter, pointers);
  world_check_status(e->w, "tp_tools_run", status);
  if (status == TP_OK) tool_work_batch_ended(batch, results, batch->count);
  else batch->begun = false;
}

static void submitted_ended(void *ctx, const tp_tool_result *const *results, size_t count);

/* Borrowed calls belong to the host again when their end is reported, the others at once. */
static tp_status submit(tool_work *e, uint32_t index) {
  tool_work_batch *batch = begin_batch(e, index);
  tp_tool_call *letter = tool_work_letter(batch);
  const tp_tool_call **pointers = pointers_to(letter, batch->count);
  bool borrows = world_one_in(2);
  e->borrowed = borrows ? letter : NULL; /* its end may be notified before the submit returns */
  e->borrowed_pointers = borrows ? pointers : NULL;
  tp_status status = borrows ? tp_tools_submit_borrowed(e->turn, pointers, batch->count, submitted_ended, e, NULL)
                             : tp_tools_submit(e->turn, pointers, batch->count, submitted_ended, e, NULL);
  if (!borrows || status != TP_OK) spoil(batch, letter, pointers);
  world_check_status(e->w, "tp_tools_submit", status);
  if (status != TP_OK) batch->begun = false;
  return status;
}

/* @return false: there is no more, or no more is taken. */
static bool submit_next(tool_work *e) {
  while (e->next < e->batch_count)
    if (submit(e, e->next++) == TP_OK) return true;
  return false;
}

static void submitted_ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  tool_work *e = ctx;
  if (e->borrowed) spoil(&e->batches[e->now], e->borrowed, e->borrowed_pointers);
  e->borrowed = NULL;
  tool_work_batch_ended(&e->batches[e->now], results, count);
  if (e->chained && submit_next(e)) return;
  if (e->ends_inside) end_turn(e);
  e->rests = true;
  tp__parker_unpark(&e->parker);
}

static void wait_for_rest(tool_work *e) {
  while (!e->rests || e->beside) tp__parker_park_until(&e->parker, TP__NEVER);
}

static void beside_ended(void *ctx, const tp_tool_result *const *results, size_t count) {
  tool_work *e = ctx;
  (void)results;
  (void)count;
  e->beside = false;
  tp__parker_unpark(&e->parker);
}

/* A second operation during a submitted one is refused, unless the first one is over; its end may not be reported
 * yet. */
static bool try_beside(tool_work *e, bool submits) {
  tp_status status;
  if (submits) {
    e->beside = true;
    status = tp_tools_submit(e->turn, NULL, 0, beside_ended, e, NULL);
    if (status != TP_OK) e->beside = false;
  } else {
    status = tp_tools_run(e->turn, NULL, 0, NULL, NULL);
  }
  if (status == TP_ERR_BUSY) return false;
  world_check_status(e->w, "an operation beside a batch", status);
  return true;
}

/* As a host does that asks again and again until it is taken. */
static void run_beside(tool_work *e) {
  enum { TRIES = 200 };
  bool submits = world_one_in(2);
  for (uint32_t tries = world_one_in(2) ? 1 : TRIES; tries > 0 && !try_beside(e, submits); tries--)
    if (world_one_in(4)) tp__sim_sleep_ns((int64_t)tp__sim_random(200 * TP__NS_PER_US));
}

static void run_chain(tool_work *e) {
  if (e->batches[0].materialize) materialize(e);
  if (submit_next(e)) wait_for_rest(e);
  else if (e->ends_inside) end_turn(e);
}

static void run_batches(tool_work *e) {
  for (uint32_t i = 0; i < e->batch_count; i++) {
    if (e->batches[i].materialize) materialize(e);
    if (!e->batches[i].submitted) {
      run_here(e, i);
      continue;
    }
    e->rests = false;
    if (submit(e, i) != TP_OK) continue;
    if (world_one_in(4)) run_beside(e);
    wait_for_rest(e);
  }
}

static void cancel_later(void *arg) {
  tool_work *e = arg;
  tp__sim_sleep_ns(e->cancel_ns);
  e->cancelled_ns = tp__now_ns();
  tp_turn_cancel(e->turn);
  e->is_cancelled = true;
  tp_turn_cancel(e->turn);
}

/* A call of another batch may have the same id, and none may be under way. */
static void cancel_calls_later(void *arg) {
  tool_work *e = arg;
  char buffer[16];
  tp__sim_sleep_ns(e->calls_cancel_ns);
  e->calls_cancelled = true;
  tp_text id = e->to_cancel ? tool_work_id(e->to_cancel, buffer) : (tp_text){NULL, 0};
  world_check_status(e->w, "tp_turn_cancel_calls", tp_turn_cancel_calls(e->turn, id, NULL));
}

static tp__thread *start_canceller(tool_work *e) {
  if (e->cancel_ns) return world_start_joined("canceller", cancel_later, e);
  return e->calls_cancel_ns ? world_start_joined("canceller", cancel_calls_later, e) : NULL;
}

static tp_status begin_turn(tool_work *e) {
  char id[] = {'e', (char)('0' + e->index), '\0'};
  tp_turn_request request = {.struct_size = sizeof request, .id = id, .limit_ms = e->limit_ms};
  e->limit_begin_ns = tp__now_ns();
  if (!e->in_session) return tp_turn_begin_bare(e->w->runtime, &request, &e->turn, NULL);
  tp_session_options options = {.struct_size = sizeof options, .id = id, .on_event = on_event, .event_ctx = e};
  TP__TRY(tp_session_open(e->w->runtime, &options, &e->session, NULL));
  return tp_turn_begin(e->session, &request, &e->turn, NULL);
}

static void session_closed(void *ctx) {
  tool_work *e = ctx;
  e->closed = true;
  tp__parker_unpark(&e->parker);
}

void tool_work_run(void *arg) {
  tool_work *e = arg;
  tp__sim_sleep_ns(e->begin_ns);
  tp_status status = begin_turn(e);
  world_check_status(e->w, "a tool workload's turn", status);
  if (status == TP_OK) {
    e->limit_end_ns = tp__now_ns() + tool_work_turn_limit_ns(e);
    tp__thread *canceller = start_canceller(e);
    if (e->chained) run_chain(e);
    else run_batches(e);
    if (canceller) tp__thread_join(canceller);
    if (!e->ends_inside) end_turn(e);
  }
  if (!e->session) return;
  tp_session_close(e->session, session_closed, e);
  while (!e->closed) tp__parker_park_until(&e->parker, TP__NEVER);
}
