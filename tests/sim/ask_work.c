/* SPDX-License-Identifier: Apache-2.0 */
#include "ask_work.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum ask_way { ASK_ANSWERS, ASK_FAILS, ASK_TWICE, ASK_ABANDONS, ASK_NEVER, ASK_WAYS } ask_way;

/* One request of a handler. It stays until the run is over, because its token may be completed at any time. */
struct ask_note {
  world *w;
  ask_note *next;
  ask_way way;
  int64_t delay_ns;
  tp_token token;
  uint32_t starts, accepted, cancels;
  bool returned; /* the handler has its answer */
  tp_status status;
};

static void note_completion(ask_note *note, tp_status status) {
  if (status == TP_ERR_STALE || status == TP_ERR_NO_MEMORY) return;
  if (status != TP_OK)
    world_fail(note->w, "a completion is taken or stale", "of a handler's request: %s", tp_status_name(status));
  if (++note->accepted > 1)
    world_fail(note->w, "a handler's request is answered once", "%u answers were taken", note->accepted);
  if (note->w->freed) world_fail(note->w, "a stale token is harmless", "%s", "a request of a handler");
}

static void answer(ask_note *note) {
  const tp_model_response response = {
      .struct_size = sizeof response, .text = tp_text_of("as it was asked"), .stop_reason = tp_text_of("end_turn")};
  if (note->way == ASK_ABANDONS) (void)!tp_token_abandon(note->token, NULL);
  else if (note->way == ASK_FAILS)
    note_completion(note, tp_model_fail(note->token, TP_ERR_MODEL, "as the model fails", false, NULL));
  else note_completion(note, tp_model_complete(note->token, &response, NULL));
}

static void answer_later(void *arg) {
  ask_note *note = arg;
  tp__sim_sleep_ns(note->delay_ns);
  answer(note);
}

static void model_start(void *ctx, const tp_model_request *request, tp_token token) {
  ask_note *note = ctx;
  note->token = token;
  if (++note->starts > 1) world_fail(note->w, "a handler's request is made once", "%u times", note->starts);
  if (request->message_count != 1 || !tp_text_is(request->messages[0]->text, "who is right?"))
    world_fail(note->w, "a model reads what the handler asks", "%zu messages", request->message_count);
  if (note->way == ASK_NEVER) return;
  if (note->delay_ns == 0 || !world_start("asked model", answer_later, note)) answer(note);
  if (note->way == ASK_TWICE && !world_start("asked model", answer_later, note)) answer(note);
}

static void model_cancel(void *ctx, tp_token token) {
  ask_note *note = ctx;
  (void)token;
  if (++note->cancels > 1) world_fail(note->w, "cancel at most once", "%u of a handler's request", note->cancels);
}

static ask_note *new_note(world *w) {
  ask_note *note = calloc(1, sizeof *note);
  if (!note) abort();
  note->w = w;
  note->way = world_one_in(2) ? ASK_ANSWERS : (ask_way)tp__sim_random(ASK_WAYS);
  note->delay_ns = world_pause_ns(world_one_in(8) ? 400000 : 4000);
  note->next = w->asks;
  w->asks = note;
  return note;
}

/* An answer is the model's; every other end has a reason. */
static void check(ask_note *note, tp_status status, const tp_model_response *response) {
  const world *w = note->w;
  bool answers = note->way == ASK_ANSWERS || note->way == ASK_TWICE;
  bool ok = false;
  switch (status) {
    case TP_OK:
      ok = answers && tp_text_is(response->text, "as it was asked");
      break;
    case TP_ERR_MODEL:
      ok = note->way == ASK_FAILS || note->way == ASK_ABANDONS;
      break;
    case TP_ERR_TIMEOUT:
    case TP_ERR_CANCELLED:
    case TP_ERR_NO_MEMORY:
    case TP_ERR_FULL:
    case TP_ERR_NO_THREAD:
    case TP_ERR_SHUTDOWN:
      ok = true;
      break;
    default:
      break;
  }
  if (!ok) world_fail(note->w, "a handler gets what the model said", "%s (way %d)", tp_status_name(status), note->way);
  if (w->freed && w->abandoned == 0) world_fail(note->w, "no handler runs after the end", "%s", tp_status_name(status));
}

static tp_answer ask_a_model(void *ctx, tp_call *call) {
  ask_note *note = new_note(ctx);
  const tp_model model = {
      .struct_size = sizeof model, .name = "asked", .ctx = note, .start = model_start, .cancel = model_cancel};
  const tp_message message = {.struct_size = sizeof message, .role = TP_ROLE_USER, .text = tp_text_of("who is right?")};
  const tp_message *list[] = {&message};
  const tp_model_request request = {.struct_size = sizeof request, .messages = list, .message_count = 1};
  tp_model_response response = {.struct_size = sizeof response};
  note->status = tp_call_ask_model(call, &model, &request, &response, NULL, NULL);
  note->returned = true;
  check(note, note->status, &response);
  return TP_ANSWER_DONE;
}

tp_status ask_work_register(world *w, tp_edit *edit) {
  static const world_hook hook = {.id = "x.asks", .phase = TP_PHASE_TURN_PRE_POLICY, .run = ask_a_model};
  return world_subscribe(w, edit, &hook);
}

void ask_work_ended(world *w) {
  while (w->asks) {
    ask_note *note = w->asks;
    w->asks = note->next;
    if (!note->returned) world_fail(w, "every call returns", "a handler waits for its model (way %d)", note->way);
    if (note->status == TP_OK && note->accepted != 1)
      world_fail(w, "a handler gets what the model said", "%u answers were taken", note->accepted);
    free(note);
  }
}
