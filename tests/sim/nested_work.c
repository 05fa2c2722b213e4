/* SPDX-License-Identifier: Apache-2.0 */
#include "nested_work.h"

#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 2, LIMIT_MS = 300, DEPTH_MAX = 4, CALLS_MAX = 3 };

struct nested_work {
  world *w;
  tp_session *session;
  tp__parker parker;
  uint32_t permits, inside;     /* functions of the tool that run and do not wait */
  uint32_t ids, opened, closed; /* sessions */
  uint32_t begun, ended;        /* turns that began and ended, those of the host and nested ones */
};

/* ---- sessions: each nested turn has its own ---- */

static void session_closed(void *ctx) {
  struct nested_work *n = ctx;
  n->closed++;
  tp__parker_unpark(&n->parker);
}

static void answer(tp_token token, bool calls, uint32_t count) {
  static const char *const ids[CALLS_MAX] = {"c0", "c1", "c2"};
  tp_tool_call made[CALLS_MAX];
  const tp_tool_call *list[CALLS_MAX];
  for (uint32_t i = 0; i < CALLS_MAX; i++) {
    made[i] = (tp_tool_call){
        .struct_size = sizeof made[i], .id = tp_text_of(ids[i]), .name = tp_text_of("nest"), .arguments = {"\x80", 1}};
    list[i] = &made[i];
  }
  const tp_model_response response = {.struct_size = sizeof response,
                                      .text = tp_text_of("nested"),
                                      .calls = calls ? list : NULL,
                                      .call_count = calls ? count : 0};
  (void)!tp_model_complete(token, &response, NULL);
}

/* A turn calls the tool once or several times, then ends. Some models never answer. */
static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  const struct nested_work *n = ctx;
  const tp_message *last = request->messages[request->message_count - 1];
  if (!world_is_fault_free(n->w) && world_one_in(20)) return;
  uint32_t count = world_one_in(3) ? 1 + (uint32_t)tp__sim_random(CALLS_MAX) : 1;
  answer(token, last->role == TP_ROLE_USER && request->tool_count > 0, count);
}

static tp_session *open_session(struct nested_work *n) {
  char id[16];
  snprintf(id, sizeof id, "n%u", n->ids++);
  const tp_model model = {.struct_size = sizeof model,
                          .name = "nested",
                          .ctx = n,
                          .start = model_start,
                          .placement = world_one_in(2) ? TP_PLACEMENT_INLINE : TP_PLACEMENT_THREAD};
  const tp_session_options options = {.struct_size = sizeof options, .id = id, .model = &model};
  tp_session *session = NULL;
  tp_status status = tp_session_open(n->w->runtime, &options, &session, NULL);
  world_check_status(n->w, "a session for a nested turn", status);
  if (status == TP_OK) n->opened++;
  return session;
}

static void close_session(struct nested_work *n, tp_session *session) {
  if (session) tp_session_close(session, session_closed, n);
}

static void turn_ended(struct nested_work *n, const tp_turn_result *result) {
  n->ended++;
  if (world_is_fault_free(n->w) && result->outcome != TP_TURN_COMPLETED)
    world_fail(n->w, "a turn without trouble is completed", "a nested one is %s",
               tp_turn_outcome_name(result->outcome));
}

/* ---- the tool ---- */

static void enter(struct nested_work *n) {
  if (++n->inside > n->permits)
    world_fail(n->w, "no more functions run than permits", "%u of a tool that runs nested turns", n->inside);
}

/* Turns may nest this deep; deeper ones are refused. In a world without trouble nothing else is refused. */
static void check_status(const struct nested_work *n, tp_status status) {
  if (status == TP_ERR_TOO_DEEP || status == TP_ERR_CANCELLED) return;
  world_check_status(n->w, "a nested turn", status);
}

typedef struct submitted {
  struct nested_work *n;
  tp_token token;
} submitted;

static void submitted_ended(void *ctx, const tp_turn_result *result) {
  submitted *s = ctx;
  turn_ended(s->n, result);
  (void)!tp_tool_complete(s->token, false, tp_text_of("submitted"), NULL);
  free(s);
}

static tp_answer submit(struct nested_work *n, tp_tool_run *run, tp_session *session) {
  const tp_turn_request request = {.struct_size = sizeof request, .text = tp_text_of("go")};
  submitted *s = malloc(sizeof *s);
  if (!s) abort();
  s->n = n;
  tp_answer deferred = tp_tool_defer(run, NULL, &s->token);
  if (deferred != TP_ANSWER_DEFERRED) {
    free(s);
    return deferred;
  }
  tp_token token = s->token;
  n->begun++;
  tp_status status = tp_tool_submit_turn(run, session, &request, submitted_ended, s, NULL, NULL);
  check_status(n, status);
  if (status == TP_OK) return deferred;
  n->begun--;
  free(s);
  (void)!tp_tool_complete(token, true, tp_text_of("refused"), NULL);
  return deferred;
}

static tp_answer wait_for_turn(struct nested_work *n, tp_tool_run *run, tp_session *session) {
  const tp_turn_result *result = NULL;
  const tp_turn_request request = {.struct_size = sizeof request,
                                   .text = tp_text_of("go"),
                                   .limit_ms = world_one_in(4) && !world_is_fault_free(n->w) ? 20 : 0};
  n->inside--;
  tp_status status = tp_tool_run_turn(run, session, &request, &result, NULL);
  enter(n);
  check_status(n, status);
  if (status != TP_OK) return tp_tool_error(run, tp_text_of("refused"));
  n->begun++;
  turn_ended(n, result);
  tp_turn_result_free(result);
  return tp_tool_ok(run, tp_text_of("waited"));
}

static tp_answer nest(void *ctx, tp_tool_run *run) {
  struct nested_work *n = ctx;
  enter(n);
  tp_session *session = open_session(n);
  /* A call that waits on the stack of a pump returns after those above it, which may wait for its turn. */
  bool is_calm_pump = n->w->s->options.pump && world_is_fault_free(n->w);
  bool submits = (world_one_in(3) || is_calm_pump) && !n->w->s->options.no_engine_workers;
  tp__sim_sleep_ns(world_pause_ns(500));
  tp_answer said = !session  ? tp_tool_error(run, tp_text_of("no session"))
                   : submits ? submit(n, run, session)
                             : wait_for_turn(n, run, session);
  close_session(n, session);
  n->inside--;
  return said;
}

static tp_answer emit_tools(void *ctx, tp_call *call) {
  struct nested_work *n = ((world *)ctx)->nested;
  tp_text session = tp_call_id(call, TP_ID_SESSION);
  if (session.size < 2 || session.data[0] != 'n') return TP_ANSWER_DONE;
  const tp_tool tool = {
      .struct_size = sizeof tool, .name = "nest", .run = nest, .ctx = n, .max_concurrent = n->permits};
  const tp_tool *list[] = {&tool};
  if (tp_call_emit_tool_bundle(call, "nested", list, 1, NULL) != TP_OK) return tp_call_fail(call, 1, "no tools");
  return TP_ANSWER_DONE;
}

tp_status nested_work_register(world *w, tp_edit *edit) {
  static const world_hook hook = {.id = "z.nested",
                                  .phase = TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION,
                                  .run = emit_tools,
                                  .capabilities = TP_CAPABILITY_CONTRIBUTE_TOOL_BUNDLE,
                                  .is_inline = true};
  w->nested = calloc(1, sizeof *w->nested);
  if (!w->nested) abort();
  w->nested->w = w;
  w->nested->permits = 1 + (uint32_t)(w->s->tool_work_stream >> 40) % 2;
  return world_subscribe(w, edit, &hook);
}

/* ---- the host ---- */

static void run_turns(struct nested_work *n) {
  for (int i = 0; i < TURNS; i++) {
    const tp_turn_result *result = NULL;
    const tp_turn_request request = {
        .struct_size = sizeof request, .text = tp_text_of("go"), .limit_ms = world_is_fault_free(n->w) ? 0 : LIMIT_MS};
    tp_status status = tp_turn_run(n->session, &request, &result, NULL);
    world_check_status(n->w, "a turn with nested ones", status);
    if (status != TP_OK) continue;
    n->begun++;
    turn_ended(n, result);
    tp_turn_result_free(result);
  }
}

void nested_work_run(void *arg) {
  struct nested_work *n = ((world *)arg)->nested;
  if (!n || tp__parker_init(&n->parker) != TP_OK) return;
  n->session = open_session(n);
  if (n->session) run_turns(n);
  close_session(n, n->session);
  while (n->closed < n->opened) tp__parker_park_until(&n->parker, TP__NEVER);
}

void nested_work_ended(world *w) {
  const struct nested_work *n = w->nested;
  if (!n) return;
  if (n->begun != n->ended) world_fail(w, "a turn ends once", "%u of %u nested ones", n->ended, n->begun);
  if (n->inside) world_fail(w, "no more functions run than permits", "%u never returned", n->inside);
}
