/* SPDX-License-Identifier: Apache-2.0 */
#include "compaction_work.h"

#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 10, LIMIT_MS = 300, TOKENS_MAX = 120, CALLS_MAX = 3, MANY_MESSAGES = 9 };

struct compaction_work {
  world *w;
  tp_session *session;
  tp__parker parker;
  tp_compaction compaction;
  uint32_t turn;   /* the number of the running turn */
  uint32_t oldest; /* the first turn that the last request had */
  bool may_shrink; /* a compaction may have succeeded since */
  uint32_t requests, begun, ended, shrinks;
  bool closed;
};
typedef struct compaction_work compaction_work;

static compaction_work *of(void *ctx) { return ((world *)ctx)->compaction; }

static uint32_t number_of(tp_text text) {
  uint32_t number = 0;
  for (size_t i = 0; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; i++)
    number = number * 10 + (uint32_t)(text.data[i] - '0');
  return number;
}

/* ---- requests ---- */

static bool answers(const tp_message *asked, tp_text call_id) {
  for (size_t i = 0; i < asked->call_count; i++)
    if (tp_text_equal(asked->calls[i]->id, call_id)) return true;
  return false;
}

static void check_pairs(compaction_work *c, const tp_model_request *request) {
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *asked = request->messages[i];
    if (asked->role == TP_ROLE_TOOL) {
      world_fail(c->w, "call and result stay together", "message %zu of %zu is a result without its call", i,
                 request->message_count);
      return;
    }
    for (size_t k = 0; k < asked->call_count; k++) {
      const tp_message *result = ++i < request->message_count ? request->messages[i] : NULL;
      if (!result || result->role != TP_ROLE_TOOL || !answers(asked, result->call_id)) {
        world_fail(c->w, "call and result stay together", "call %zu of message %zu has no result", k, i - k - 1);
        return;
      }
    }
  }
}

/* Turns are in their order, and those that are gone went by a compaction. */
static void check_turns(compaction_work *c, const tp_model_request *request) {
  uint32_t oldest = 0, newest = 0;
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *message = request->messages[i];
    uint32_t number = message->role == TP_ROLE_USER ? number_of(message->text) : 0;
    if (number == 0) continue; /* a summary */
    if (number <= newest) world_fail(c->w, "turns stay in their order", "%u behind %u", number, newest);
    newest = number;
    if (oldest == 0 && number < c->turn) oldest = number; /* a turn whose append fails leaves nothing */
  }
  if ((oldest > c->oldest || oldest == 0) && c->oldest > 0) {
    c->shrinks++;
    if (!c->may_shrink)
      world_fail(c->w, "a compaction that fails changes nothing", "turn %u is gone, the oldest is %u", c->oldest,
                 oldest);
  }
  c->oldest = oldest;
  c->may_shrink = false;
}

/* ---- the model ---- */

static void say(tp_token token, const char *text, uint32_t count) {
  static const char *const ids[CALLS_MAX] = {"c0", "c1", "c2"};
  tp_tool_call made[CALLS_MAX];
  const tp_tool_call *list[CALLS_MAX];
  for (uint32_t i = 0; i < CALLS_MAX; i++) {
    made[i] = (tp_tool_call){.struct_size = sizeof made[i],
                             .id = tp_text_of(ids[i]),
                             .name = tp_text_of("k.tool"),
                             .arguments = {"\x80", 1}};
    list[i] = &made[i];
  }
  const tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of(text), .calls = count ? list : NULL, .call_count = count};
  (void)!tp_model_complete(token, &response, NULL);
}

static void summarize(compaction_work *c, tp_token token) {
  bool fault_free = world_is_fault_free(c->w);
  if (!fault_free && world_one_in(8)) return; /* never */
  if (!fault_free && world_one_in(6)) {
    (void)!tp_model_fail(token, TP_ERR_MODEL, "no summary", false, NULL);
    return;
  }
  c->may_shrink = true;
  say(token, "what was said", 0);
}

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  compaction_work *c = ctx;
  if (request->system.size > 0) { /* its agent has no system text, so this is a request for a summary */
    summarize(c, token);
    return;
  }
  c->requests++;
  check_pairs(c, request);
  /* A call that began just before its turn was given up may come after the compaction of the next turn. */
  if (number_of(request->ids[TP_ID_TURN]) == c->turn) check_turns(c, request);
  bool fault_free = world_is_fault_free(c->w);
  bool too_long = request->attempt == 1 && request->message_count > MANY_MESSAGES && world_one_in(3);
  const tp_message *last = request->messages[request->message_count - 1];
  if (!fault_free && world_one_in(30)) return;
  if (too_long && last->role == TP_ROLE_USER && (!fault_free || c->compaction == TP_COMPACTION_DROP_OLDEST)) {
    (void)!tp_model_fail(token, TP_ERR_CONTEXT_LENGTH, "too long", false, NULL);
    return;
  }
  bool calls = last->role == TP_ROLE_USER && request->tool_count > 0 && world_one_in(2);
  say(token, "some words that take space", calls ? 1 + (uint32_t)tp__sim_random(CALLS_MAX) : 0);
}

/* ---- a host's own compaction ---- */

static size_t second_turn(const tp_compaction_request *compaction, size_t from) {
  size_t i = from + 1;
  while (i < compaction->message_count && compaction->messages[i]->role != TP_ROLE_USER) i++;
  return i;
}

static tp_status compact_here(void *ctx, const tp_compaction_request *compaction, tp_fault *fault) {
  compaction_work *c = ctx;
  bool fault_free = world_is_fault_free(c->w);
  size_t from = second_turn(compaction, 0);
  int64_t dice = fault_free ? 0 : (int64_t)tp__sim_random(10);
  (void)fault;
  tp__sim_sleep_ns(world_pause_ns(1000));
  if (dice == 1) return TP_ERR_IO;
  if (dice == 2) tp__sim_sleep_ns(world_hang_ns(c->w, (int64_t)40000 * TP__NS_PER_MS)); /* no caller waits then */
  if (dice == 3) from = 0;                                                              /* not shorter than before */
  if (dice == 4 && compaction->message_count > 1) from = 1;                             /* whatever comes first then */
  bool loses = dice == 5, lost = false;
  for (size_t i = from; i < compaction->message_count; i++) {
    const tp_message *message = compaction->messages[i];
    if (loses && !lost && message->role == TP_ROLE_TOOL) {
      lost = true;
      continue;
    }
    tp_status status = compaction->each(compaction->each_ctx, message);
    if (status != TP_OK) return status;
  }
  /* The library accepts none of these, whatever else they have. */
  if (dice != 3 && !lost) c->may_shrink = true;
  return TP_OK;
}

static tp_answer before_compaction(void *ctx, tp_call *call) {
  compaction_work *c = of(ctx);
  if (!c || !tp_text_is(tp_call_id(call, TP_ID_SESSION), "k")) return TP_ANSWER_DONE;
  if (!world_is_fault_free(c->w) && world_one_in(6)) return tp_call_deny(call, "not now");
  if (c->compaction == TP_COMPACTION_DROP_OLDEST) c->may_shrink = true;
  return TP_ANSWER_DONE;
}

/* ---- tools ---- */

static tp_answer run_tool(void *ctx, tp_tool_run *run) {
  const compaction_work *c = ctx;
  if (!world_is_fault_free(c->w)) tp__sim_sleep_ns(world_pause_ns(2000));
  return tp_tool_ok(run, tp_text_of("a result of some words"));
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  compaction_work *c = of(ctx);
  if (!c || !tp_text_is(tp_call_id(call, TP_ID_SESSION), "k")) return TP_ANSWER_DONE;
  const tp_tool tool = {.struct_size = sizeof tool,
                        .name = "k.tool",
                        .run = run_tool,
                        .ctx = c,
                        .placement = world_one_in(2) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  const tp_tool *list[] = {&tool};
  if (tp_call_emit_tool_bundle(call, "k", list, 1, NULL) != TP_OK) return tp_call_fail(call, 1, "no tools");
  return TP_ANSWER_DONE;
}

tp_status compaction_work_register(world *w, tp_edit *edit) {
  static const world_hook tools = {.id = "z.compaction.tools",
                                   .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
                                   .run = emit_tools,
                                   .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                                   .is_inline = true};
  static const world_hook guard = {.id = "z.compaction",
                                   .phase = TP_PHASE_TURN_PRE_COMPACTION,
                                   .run = before_compaction,
                                   .capabilities = TP_CAPABILITY_DECIDE,
                                   .is_inline = true};
  w->compaction = calloc(1, sizeof *w->compaction);
  if (!w->compaction) abort();
  w->compaction->w = w;
  tp_status status = world_subscribe(w, edit, &tools);
  return status == TP_OK ? world_subscribe(w, edit, &guard) : status;
}

/* ---- the host ---- */

static tp_session *open_session(compaction_work *c) {
  c->compaction = (tp_compaction)(TP_COMPACTION_DROP_OLDEST + tp__sim_random(3));
  bool is_hosts = c->compaction == TP_COMPACTION_HOST;
  const tp_model model = {.struct_size = sizeof model,
                          .name = "k",
                          .ctx = c,
                          .start = model_start,
                          .placement = world_one_in(2) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  const tp_session_options options = {.struct_size = sizeof options,
                                      .id = "k",
                                      .model = &model,
                                      .history_tokens_max = TOKENS_MAX,
                                      .compaction = c->compaction,
                                      .compact = is_hosts ? compact_here : NULL,
                                      .compact_ctx = is_hosts ? c : NULL};
  tp_session *session = NULL;
  world_check_status(c->w, "a session whose history is compacted",
                     tp_session_open(c->w->runtime, &options, &session, NULL));
  return session;
}

static void run_turn(compaction_work *c, uint32_t number) {
  char text[32], id[16];
  bool fault_free = world_is_fault_free(c->w);
  snprintf(text, sizeof text, "%u is what I say", number);
  snprintf(id, sizeof id, "%u.k", number);
  c->turn = number;
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request,
                                   .id = id,
                                   .text = tp_text_of(text),
                                   .limit_ms = fault_free        ? 0
                                               : world_one_in(4) ? 5
                                                                 : LIMIT_MS};
  tp_status status = tp_turn_run(c->session, &request, &result, NULL);
  world_check_status(c->w, "a turn of a session whose history is compacted", status);
  if (status != TP_OK) return;
  if (fault_free && result->outcome != TP_TURN_COMPLETED)
    world_fail(c->w, "a turn without trouble is completed", "turn %u with compaction is %s: %.*s", number,
               tp_turn_outcome_name(result->outcome), (int)result->reason.size, result->reason.data);
  tp_turn_result_free(result);
}

static void session_closed(void *ctx) {
  compaction_work *c = ctx;
  c->closed = true;
  tp__parker_unpark(&c->parker);
}

void compaction_work_run(void *arg) {
  compaction_work *c = ((world *)arg)->compaction;
  if (!c || tp__parker_init(&c->parker) != TP_OK) return;
  c->session = open_session(c);
  if (!c->session) return;
  for (uint32_t i = 1; i <= TURNS; i++) run_turn(c, i);
  tp_session_close(c->session, session_closed, c);
  while (!c->closed) tp__parker_park_until(&c->parker, TP__NEVER);
}

void compaction_work_ended(world *w) {
  const compaction_work *c = w->compaction;
  if (c && world_is_fault_free(w) && c->requests > 0 && c->shrinks == 0)
    world_fail(w, "a history that is too long is made shorter", "in %u requests", c->requests);
}
