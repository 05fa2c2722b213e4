/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/runtime.h"

enum { TURN_LIMIT_MS = 300, REQUESTS_MAX = 3, CALLS_MAX = 5, LOOK_MS = 50 };

/* An answer that is on its way. */
struct loop_answer {
  loop *l;
  loop_answer *next;
  tp_token token;
  tp_work_kind kind;
  loop_tool *tool; /* the tool of the call, until it is answered */
  bool over;       /* the token was completed or abandoned */
  bool cancelled;  /* the inbox has reported the cancel */
  int64_t delay_ns;
  uint32_t accepted;
};

static bool is_rough(const loop *l) { return !world_is_fault_free(l->w); }
/* The end may differ from the host's wish because of a drain, a full or freed inbox, or a lack of memory or time. */
static bool is_certain(const loop *l) { return world_is_fault_free(l->w) && !l->freed_early; }

static int64_t draw_delay(const loop *l) {
  uint64_t dice = tp__sim_random(100);
  if (dice < 40) return 0;
  if (dice < 85 || !is_rough(l)) return (int64_t)tp__sim_random(3 * TP__NS_PER_MS);
  return (int64_t)tp__sim_random((dice < 95 ? 1 : 20) * TURN_LIMIT_MS * (uint64_t)TP__NS_PER_MS);
}

/* ---- answers ---- */

static tp_status complete_model(const loop_answer *a) {
  static const tp_tool_call calls[] = {{.struct_size = sizeof *calls, .name = {"l-concurrent", 12}},
                                       {.struct_size = sizeof *calls, .name = {"l-single", 8}}};
  const tp_tool_call *list[CALLS_MAX];
  uint32_t count = a->l->requests < REQUESTS_MAX ? (uint32_t)tp__sim_random(CALLS_MAX + 1) : 0;
  for (uint32_t i = 0; i < count; i++) list[i] = &calls[tp__sim_random(2)];
  tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of("as the loop says"), .calls = list, .call_count = count};
  for (uint64_t pieces = tp__sim_random(4); pieces > 0; pieces--)
    (void)tp_model_delta(a->token, tp_text_of("as "), NULL);
  if (is_rough(a->l) && world_one_in(8))
    return tp_model_fail(a->token, TP_ERR_MODEL, "as it fails", world_one_in(2), NULL);
  return tp_model_complete(a->token, &response, NULL);
}

/* The token must have ended before the permit can go to another call, whose taker checks the count. */
static void permit_back(loop_answer *a) {
  if (!a->tool) return;
  if (a->tool->single) a->l->single_taken--;
  a->tool->open--;
  a->tool = NULL;
}

static void complete(loop_answer *a) {
  static const tp_outcome done = {.struct_size = sizeof done, .kind = TP_ANSWER_DONE};
  world *w = a->l->w;
  if (a->over && world_one_in(2)) return;
  permit_back(a);
  a->over = true;
  tp_status status = a->kind == TP_WORK_MODEL ? complete_model(a)
                     : a->kind == TP_WORK_HANDLER
                         ? tp_token_complete(a->token, &done, NULL)
                         : tp_tool_complete(a->token, world_one_in(8), tp_text_of("as the loop's tool says"), NULL);
  if (status != TP_OK && status != TP_ERR_STALE)
    world_fail(w, "a completion is taken or stale", "of the loop: it gave %s", tp_status_name(status));
  if (status == TP_OK && (++a->accepted > 1 || w->freed))
    world_fail(w, "a stale token is harmless", "of the loop: taken %u times", a->accepted);
}

static void complete_later(void *arg) {
  loop_answer *a = arg;
  tp__sim_sleep_ns(a->delay_ns);
  complete(a);
}

static void give_up(loop_answer *a) {
  permit_back(a);
  a->over = true;
  tp_status status = tp_token_abandon(a->token, NULL);
  if (status != TP_OK && status != TP_ERR_STALE)
    world_fail(a->l->w, "a token can be abandoned", "of the loop: it gave %s", tp_status_name(status));
}

static void answer(loop_answer *a) {
  uint64_t dice = is_rough(a->l) ? tp__sim_random(100) : tp__sim_random(80);
  if (dice < 50 || (dice < 80 && !world_start("loop's answer", complete_later, a))) complete(a);
  else if (dice >= 80 && dice < 88) give_up(a);
  else if (dice >= 88 && dice < 94) { /* twice */ complete(a);
    complete(a);
  } /* otherwise it is answered when the loop has ended, or when the runtime is gone */
}

static loop_answer *new_answer(loop *l, const tp_work *work) {
  loop_answer *a = calloc(1, sizeof *a);
  if (!a) abort();
  *a = (loop_answer){.l = l, .next = l->answers, .token = work->token, .kind = work->kind, .delay_ns = draw_delay(l)};
  return l->answers = a;
}

/* ---- work ---- */

static void destroy_tool(void *ctx) {
  loop_tool *tool = ctx;
  loop *l = tool->l;
  l->tools_destroyed++;
  if (++tool->destroys > 1) world_fail(l->w, "a tool is destroyed once", "%u times", tool->destroys);
  if (tool->open > 0 && !l->w->freed && tp__runtime_life(l->w->runtime) != TP__LIFE_FREED)
    world_fail(l->w, "a tool is destroyed behind its calls", "%u are open", tool->open);
  world_destructor_by_host(l->w);
}

static loop_tool *new_tool(loop *l, bool single) {
  loop_tool *tool = calloc(1, sizeof *tool);
  if (!tool) abort();
  *tool = (loop_tool){.l = l, .next = l->tools, .single = single};
  return l->tools = tool;
}

static loop *loop_of(world *w, tp_text session) {
  for (uint32_t i = 0; i < w->s->loop_count; i++)
    if (tp_text_is(session, w->loops[i].id)) return &w->loops[i];
  return NULL;
}

static tp_inbox *named_inbox(const loop *l) { return l->by_session ? TP_INBOX_OF_SESSION : l->inbox; }

static tp_answer emit_tools(void *ctx, tp_call *call) {
  loop *l = loop_of(ctx, tp_call_id(call, TP_ID_SESSION));
  if (!l) return TP_ANSWER_DONE;
  const tp_tool concurrent = {.struct_size = sizeof concurrent,
                              .name = "l-concurrent",
                              .ctx = new_tool(l, false),
                              .inbox = named_inbox(l),
                              .destroy = destroy_tool};
  tp_tool single = concurrent;
  single.name = "l-single";
  single.ctx = new_tool(l, true);
  single.max_concurrent = 1;
  if (is_rough(l) && world_one_in(2)) single.limit_ms = 1 + (uint32_t)tp__sim_random(50);
  const tp_tool *const tools[] = {&concurrent, &single};
  if (!l->inbox) return TP_ANSWER_DONE; /* freed: there is nothing to name */
  l->tools_taken += 2;                  /* one tool may be destroyed before the emit returns */
  if (tp_call_emit_tool_bundle(call, "loop", tools, 2, NULL) == TP_OK)
    return is_rough(l) && world_one_in(16) ? tp_call_fail(call, 1, "behind the emit") : TP_ANSWER_DONE;
  l->tools_taken -= 2;
  return tp_call_fail(call, 1, "no tools");
}

static int32_t is_of_loop(void *ctx, const tp_match_view *view) {
  return loop_of(ctx, tp_match_id(view, TP_ID_SESSION)) ? TP_MATCH_YES : TP_MATCH_NO;
}

/* One handler serves both loops: its calls come to the loop that has the session of the turn. */
static tp_status register_look(world *w, tp_edit *edit) {
  static const uint32_t phase = TP_PHASE_MODEL_PRE;
  const tp_handler handler = {
      .struct_size = sizeof handler, .id = "l.look", .inbox = TP_INBOX_OF_SESSION, .phases = &phase, .phase_count = 1};
  const tp_match match = {.struct_size = sizeof match, .description = "of a loop", .matches = is_of_loop, .ctx = w};
  const tp_subscription subscription = {
      .struct_size = sizeof subscription, .id = "l.look", .handler = "l.look", .phase = phase, .match = &match};
  TP__TRY(tp_edit_add_handler(edit, &handler, NULL));
  return tp_edit_add_subscription(edit, &subscription, NULL);
}

tp_status loop_register(world *w, tp_edit *edit) {
  static const world_hook tools = {.id = "l.tools",
                                   .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
                                   .run = emit_tools,
                                   .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                                   .is_inline = true};
  TP__TRY(register_look(w, edit));
  return world_subscribe(w, edit, &tools);
}

static void look_at_tool(loop *l, const tp_work *work) {
  const loop_tool *tool = work->ctx;
  bool whole = tool->l == l && !tool->destroys && work->run && !work->call && !work->request && !work->event;
  if (!whole || !tp_text_is(tp_tool_run_id(work->run, TP_ID_SESSION), l->id) ||
      tp_tool_run_arguments(work->run).size != 1)
    world_fail(l->w, "work says what it is", "a tool's call of the loop is %s", whole ? "another's" : "not whole");
  tp_token token;
  if (tp_tool_defer(work->run, NULL, &token) != TP_ANSWER_FAILED || token.bits)
    world_fail(l->w, "work is deferred from the start", "%llu", (unsigned long long)token.bits);
}

static void look_at_request(loop *l, const tp_work *work) {
  const tp_model_request *request = work->request;
  bool whole = work->ctx == l && request && !work->call && !work->run && !work->event;
  if (!whole || !request->message_count || !tp_text_is(request->ids[TP_ID_SESSION], l->id))
    world_fail(l->w, "work says what it is", "a request of the loop is %s", whole ? "another's" : "not whole");
  for (size_t i = 0; whole && i < request->tool_count; i++)
    if (request->tools[i]->destroy || !*request->tools[i]->name)
      world_fail(l->w, "a request shows the turn's tools", "it shows `%s`", request->tools[i]->name);
}

static void look_at_call(loop *l, const tp_work *work) {
  bool whole = !work->ctx && work->call && !work->run && !work->request && !work->event;
  if (!whole || !tp_text_is(tp_call_id(work->call, TP_ID_SESSION), l->id))
    world_fail(l->w, "work says what it is", "a handler's call of the loop is %s", whole ? "another's" : "not whole");
}

static void look_at(loop *l, const tp_work *work) {
  if (work->kind == TP_WORK_MODEL) look_at_request(l, work);
  else if (work->kind == TP_WORK_TOOL) look_at_tool(l, work);
  else look_at_call(l, work);
}

/* From before the answer on the work may be freed at any moment. */
static void take_work(loop *l, const tp_work *work) {
  loop_answer *a = new_answer(l, work);
  look_at(l, work);
  if (work->kind == TP_WORK_MODEL) {
    l->requests++;
  } else if (work->kind == TP_WORK_TOOL) {
    a->tool = work->ctx;
    a->tool->open++;
    if (a->tool->single && ++l->single_taken > 1) world_fail(l->w, "permits", "%u are taken at once", l->single_taken);
  }
  if (is_rough(l) && world_one_in(6)) tp__sim_sleep_ns(draw_delay(l)); /* meanwhile the inbox fills up */
  look_at(l, work);
  answer(a);
}

/* ---- events ---- */

static loop_heard *heard_of(loop *l, tp_text turn) {
  for (uint32_t i = 0; i < l->heard_count; i++)
    if (tp_text_is(turn, l->heard[i].turn)) return &l->heard[i];
  if (l->heard_count == LOOP_KNOWN_MAX) return NULL;
  loop_heard *heard = &l->heard[l->heard_count++];
  snprintf(heard->turn, sizeof heard->turn, "%.*s", (int)turn.size, turn.data);
  return heard;
}

static void hear(loop *l, const tp_event *event) {
  if (event->kind == TP_EVENT_LOST) {
    if (!event->lost || event->sequence)
      world_fail(l->w, "an event is whole", "%llu were lost", (unsigned long long)event->lost);
    l->lost += event->lost;
    return;
  }
  loop_heard *heard = heard_of(l, event->ids[TP_ID_TURN]);
  if (!heard) {
    world_fail(l->w, "events are of the session's turns", "one of %.*s", (int)event->ids[TP_ID_TURN].size,
               event->ids[TP_ID_TURN].data);
    return;
  }
  if (event->sequence <= heard->sequence || heard->ended)
    world_fail(l->w, "events come in order", "%llu of turn %s behind %llu", (unsigned long long)event->sequence,
               heard->turn, (unsigned long long)heard->sequence);
  if (event->kind == TP_EVENT_TURN_END) l->lost += event->lost;
  l->gaps += event->sequence - heard->sequence - 1;
  if (l->gaps > l->lost)
    world_fail(l->w, "what was lost is counted in its place", "%llu are missing, %llu counted",
               (unsigned long long)l->gaps, (unsigned long long)l->lost);
  heard->sequence = event->sequence;
  heard->ended = event->kind == TP_EVENT_TURN_END;
  l->ends_heard += heard->ended;
}

static void give_back(loop *l, uint32_t index) {
  const tp_work *work = l->events[index];
  l->events[index] = l->events[--l->event_count];
  if (l->listener_destroys) world_fail(l->w, "events hold their listener", "%u", l->listener_destroys);
  if (tp_work_release(work) != TP_OK) world_fail(l->w, "an event is returned", "%u", index);
}

static void take_event(loop *l, const tp_work *work) {
  if (work->token.bits || !work->event || work->ctx != l)
    world_fail(l->w, "work says what it is", "an event has token %llu", (unsigned long long)work->token.bits);
  hear(l, work->event);
  l->events[l->event_count++] = work;
  while (l->event_count == LOOP_EVENTS_MAX || (l->event_count > 0 && world_one_in(2)))
    give_back(l, (uint32_t)tp__sim_random(l->event_count));
}

/* ---- the host ---- */

static void free_inbox(loop *l) {
  tp_inbox *inbox = l->inbox;
  l->inbox = NULL; /* no object names the inbox any more */
  tp_inbox_free(inbox);
}

static void take_cancel(loop *l, const tp_work *work) {
  loop_answer *a = l->answers;
  while (a && a->token.bits != work->token.bits) a = a->next;
  if (!a || a->cancelled)
    world_fail(l->w, "the cancel of taken work comes once", "of the loop: %s", a ? "again" : "for nothing");
  if (a) a->cancelled = true;
}

static void ended(loop_turn *turn, const tp_turn_result *result) {
  loop *l = turn->l;
  if (turn->ended) world_fail(l->w, "a turn ends once", "of the loop");
  turn->ended = true;
  l->ended++;
  if (is_certain(l) && !l->w->draining && result->outcome != TP_TURN_COMPLETED)
    world_fail(l->w, "what is answered completes", "a turn of the loop is %s: %.*s",
               tp_turn_outcome_name(result->outcome), (int)result->reason.size, result->reason.data);
}

static void take_end(loop *l, const tp_work *work) {
  const tp_turn_result *result;
  if (work->ctx == l && work->end->kind == TP_END_SESSION) {
    l->closed = true;
    return;
  }
  loop_turn *turn = work->ctx;
  if (work->token.bits || work->end->kind != TP_END_TURN || !turn->by_inbox)
    world_fail(l->w, "work says what it is", "an end is of kind %d", (int)work->end->kind);
  if (tp_submission_wait(turn->submission, 0, &result, NULL) != TP_OK)
    world_fail(l->w, "no end before its submission has ended", "of the loop");
  ended(turn, work->end->turn);
}

/* @return whether there was work. */
static bool take_one(loop *l) {
  const tp_work *work = NULL;
  tp_status status = tp_inbox_next(l->inbox, &work);
  if (status != TP_OK) world_fail(l->w, "an inbox gives what it has", "it gave %s", tp_status_name(status));
  if (!work) return false;
  if (work->struct_size != sizeof *work) world_fail(l->w, "work says what it is", "%zu bytes", work->struct_size);
  switch (work->kind) {
    case TP_WORK_EVENT:
      take_event(l, work);
      return true;
    case TP_WORK_END:
      take_end(l, work);
      break;
    case TP_WORK_CANCEL:
      take_cancel(l, work);
      break;
    case TP_WORK_DESTROY:
      break;
    default:
      take_work(l, work);
      return true;
  }
  if (tp_work_release(work) != TP_OK) world_fail(l->w, "work without an answer is released", "%d", (int)work->kind);
  return true;
}

static void turn_ended(void *ctx, const tp_turn_result *result) {
  loop_turn *turn = ctx;
  ended(turn, result);
  tp__parker_unpark(&turn->l->parker);
}

/* Waits after the inbox is gone, with all that would have come there. */
static void wait_without_inbox(loop *l) {
  const tp_turn_result *result;
  for (loop_turn *turn = l->turns; turn; turn = turn->next) {
    if (turn->ended || !turn->by_inbox) continue;
    while (tp_submission_wait(turn->submission, UINT32_MAX, &result, NULL) != TP_OK) {} /* the clock jumped */
    ended(turn, result);
  }
}

/* @return NULL: it was refused. */
static loop_turn *submit_turn(loop *l) {
  tp_turn_request request = {.struct_size = sizeof request,
                             .text = tp_text_of("hello"),
                             .limit_ms = is_rough(l) ? TURN_LIMIT_MS : 0,
                             .each_delta = world_one_in(2)};
  loop_turn *turn = calloc(1, sizeof *turn);
  tp_end *end = NULL;
  if (!turn) abort();
  *turn = (loop_turn){.l = l, .next = l->turns};
  if (l->inbox && world_one_in(2))
    world_check_status(l->w, "an end of the loop", tp_end_new(l->inbox, turn, &end, NULL));
  turn->by_inbox = end != NULL;
  l->begun++; /* the turn may end before the submit returns */
  tp_status status = tp_turn_submit(l->session, &request, end ? tp_end_of_turn : turn_ended, end ? (void *)end : turn,
                                    &turn->submission, NULL);
  world_check_status(l->w, "a turn of the loop", status);
  if (status != TP_OK) {
    l->begun--;
    tp_end_free(end);
    free(turn);
    return NULL;
  }
  return l->turns = turn;
}

static void run_turn(loop *l, int64_t close_ns) {
  l->requests = 0;
  const loop_turn *first = submit_turn(l), *second = first && world_one_in(3) ? submit_turn(l) : NULL;
  if (first && is_rough(l) && world_one_in(6)) tp_submission_cancel(first->submission);
  if (second && is_rough(l) && world_one_in(2))
    tp_submission_cancel(second->submission); /* the turn may wait in the
                                                                                             queue */
  while (l->ended < l->begun) {
    int64_t now_ns = tp__now_ns(), look_ns = tp__deadline_after_ms(now_ns, LOOK_MS);
    if (l->inbox && now_ns >= close_ns) {
      l->freed_early = true;
      free_inbox(l);
      wait_without_inbox(l);
      continue;
    }
    if (!l->inbox) tp__parker_park_until(&l->parker, TP__NEVER);
    else if (tp__inbox_wait_until(l->inbox, look_ns < close_ns ? look_ns : close_ns)) (void)take_one(l);
  }
}

static void destroy_model(void *ctx) { ((loop *)ctx)->model_destroys++; }

static void destroy_listener(void *ctx) {
  loop *l = ctx;
  l->listener_destroys++;
  if (l->event_count) world_fail(l->w, "events hold their listener", "%u are taken", l->event_count);
}

static void session_closed(void *ctx) {
  loop *l = ctx;
  l->closed = true;
  tp__parker_unpark(&l->parker);
}

static tp_status open_all(loop *l) {
  const tp_inbox_options options = {.struct_size = sizeof options,
                                    .capacity = l->w->s->loop_capacity,
                                    .event_capacity = l->w->s->loop_event_capacity};
  tp_status status = tp_inbox_new(l->w->runtime, &options, &l->inbox, NULL);
  if (status != TP_OK) return status;
  l->by_session = world_one_in(2);
  const tp_model model = {
      .struct_size = sizeof model, .name = "loop", .ctx = l, .inbox = named_inbox(l), .destroy = destroy_model};
  tp_session_options opens = {.struct_size = sizeof opens, .id = l->id, .model = &model, .inbox = l->inbox};
  status = tp_session_open(l->w->runtime, &opens, &l->session, NULL);
  if (status != TP_OK) return status;
  l->session_taken = true;
  const tp_listener listener = {
      .struct_size = sizeof listener, .inbox = named_inbox(l), .ctx = l, .destroy = destroy_listener};
  status = tp_session_listen(l->session, &listener, NULL, NULL);
  l->listener_taken = status == TP_OK;
  return status;
}

void loop_run(void *arg) {
  loop *l = arg;
  tp__sim_sleep_ns(draw_delay(l));
  int64_t close_ns = l->w->s->loop_close_ns ? tp__now_ns() + l->w->s->loop_close_ns : TP__NEVER;
  world_check_status(l->w, "what the loop opens", open_all(l));
  uint32_t turns = 1 + (uint32_t)tp__sim_random(LOOP_TURNS_MAX);
  for (uint32_t i = 0; l->listener_taken && i < turns; i++) run_turn(l, close_ns);
  if (!l->session) return;
  tp_end *end = NULL;
  if (l->inbox && world_one_in(2)) world_check_status(l->w, "an end of the loop", tp_end_new(l->inbox, l, &end, NULL));
  tp_session_close(l->session, end ? tp_end_of_session : session_closed, end ? (void *)end : l);
  while (!l->closed) {
    if (!end) tp__parker_park_until(&l->parker, TP__NEVER);
    else if (tp__inbox_wait_until(l->inbox, tp__deadline_after_ms(tp__now_ns(), LOOK_MS))) (void)take_one(l);
  }
}

/* ---- the end ---- */

void loop_after_free(loop *l) {
  while (l->inbox && take_one(l)) {} /* events outlive the runtime, and work does not */
  if (l->inbox) free_inbox(l);
  while (l->event_count > 0) give_back(l, 0);
  for (loop_answer *a = l->answers; a; a = a->next)
    if (!a->over) complete(a);
  while (l->turns) {
    loop_turn *turn = l->turns;
    l->turns = turn->next;
    tp_submission_unref(turn->submission);
    free(turn);
  }
}

void loop_ended(loop *l) {
  world *w = l->w;
  bool faults = w->s->fault_level == FAULTS_REFUSALS;
  if (l->ended != l->begun) world_fail(w, "a turn ends once", "of the loop %u of %u", l->ended, l->begun);
  if (l->ends_heard > l->begun || (!faults && !l->freed_early && !w->drain_ns && l->ends_heard != l->begun))
    world_fail(w, "ends of turns are not lost", "of the loop %u of %u", l->ends_heard, l->begun);
  if (l->tools_destroyed != l->tools_taken || l->model_destroys != l->session_taken ||
      l->listener_destroys != l->listener_taken)
    world_fail(w, "what was taken is destroyed once", "tools %u of %u, model %u of %d, listener %u of %d",
               l->tools_destroyed, l->tools_taken, l->model_destroys, l->session_taken, l->listener_destroys,
               l->listener_taken);
}

void loop_fini(loop *l) {
  while (l->answers) {
    loop_answer *a = l->answers;
    l->answers = a->next;
    free(a);
  }
  while (l->tools) {
    loop_tool *tool = l->tools;
    l->tools = tool->next;
    free(tool);
  }
}
