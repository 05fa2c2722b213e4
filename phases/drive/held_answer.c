/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/drive/held_answer.h"

#include "runtime/base/bug.h"

/* ---- what is delivered ---- */

static void deliver_text(tp__drive *d, tp_event_kind kind, tp_text text) {
  if (text.size > 0)
    tp__event(d->turn, &(tp_event){.kind = kind, .visibility = TP_VISIBILITY_USER_VISIBLE, .text = text});
}

/* The token numbers are those of a response that was counted. */
static void deliver_end(tp__drive *d, tp_status status, bool counted, tp_text text, tp_text word, int64_t started_ns,
                        int64_t ended_ns) {
  tp__event(d->turn, &(tp_event){.kind = TP_EVENT_MODEL_END,
                                 .visibility = TP_VISIBILITY_USER_VISIBLE,
                                 .status = status,
                                 .input_tokens = counted ? d->last_input_tokens : 0,
                                 .output_tokens = counted ? d->last_output_tokens : 0,
                                 .cost_micros = counted ? d->last_cost_micros : 0,
                                 .text = text,
                                 .model = tp__drive_shown_model(d),
                                 .finish = d->finish,
                                 .finish_word = word,
                                 .started_ns = started_ns,
                                 .ended_ns = ended_ns});
}

/* ---- an answer that comes ---- */

/* By another text, or by none: a denial. */
static bool may_be_replaced(const tp__drive *d) {
  static const uint64_t changes = TP_CAPABILITY_REPLACE_PAYLOAD | TP_CAPABILITY_DECIDE;
  const tp__plan *plan = tp__turn_plan(&d->turn->core, TP_PHASE_MODEL_RESPONSE);
  if (TP__BUG(TP__BUG_DELTA_PASSES)) return false;
  for (uint32_t i = 0; plan && i < plan->node_count; i++)
    if (!(plan->nodes[i].flags & TP__NODE_DETACHED) && plan->nodes[i].capabilities & changes) return true;
  return false;
}

bool tp__held_begin(tp__drive *d) {
  d->held = NULL;
  return !may_be_replaced(d) || (d->held = tp__arena_zero(&d->arena, sizeof *d->held)) != NULL;
}

/* Without memory the piece is lost; then the text that people see is incomplete. */
static void add_thinking(tp__drive *d, tp_text text) {
  tp__held *held = d->held;
  if (held->thinking.size + text.size > held->thinking_capacity) {
    size_t capacity = 2 * (held->thinking.size + text.size);
    char *grown = tp__arena_alloc(&d->arena, capacity);
    if (!grown) return;
    if (held->thinking.size > 0) memcpy(grown, held->thinking.data, held->thinking.size);
    held->thinking.data = grown;
    held->thinking_capacity = capacity;
  }
  memcpy((char *)(uintptr_t)held->thinking.data + held->thinking.size, text.data, text.size); /* the arena's */
  held->thinking.size += text.size;
}

void tp__held_delta(tp__model_call *call, tp_text text, bool thinking) {
  tp__drive *d = call->ctx;
  if (!d->held) {
    deliver_text(d, thinking ? TP_EVENT_THINKING : TP_EVENT_MODEL_DELTA, text);
  } else if (thinking) {
    add_thinking(d, text);
  } else {
    d->held->any_text = true;
    call->any_delta = false; /* no listener has seen the answer, so a request that fails now may be repeated */
  }
}

void tp__held_end(tp__drive *d, tp_status status, const tp_model_response *response, tp_text word, int64_t started_ns,
                  int64_t ended_ns) {
  if (d->held && response) {
    d->held->started_ns = started_ns;
    d->held->ended_ns = ended_ns;
    return;
  }
  d->held = NULL;
  deliver_end(d, status, response != NULL, response ? response->text : (tp_text){NULL, 0}, word, started_ns, ended_ns);
}

/* ---- an answer that model.response has seen ---- */

tp_text tp__held_thinking(const tp__drive *d) {
  tp_text thinking = tp_value_text(tp_value_get(d->provider_data, "thinking"));
  return thinking.size == 0 && d->held ? d->held->thinking : thinking;
}

/* Takes the text that the phase left. If the text changed, the provider's other data is dropped, because it may contain
 * what was removed. */
static bool take_replaced(tp__drive *d, tp_text *thinking) {
  const tp_merged *merged = d->phase.result.merged;
  bool text = tp_merged_replaced(merged, TP_FIELD_RESPONSE_TEXT), other = tp_merged_replaced(merged, TP_FIELD_THINKING);
  if (!text && !other) return true;
  d->provider_data = (tp_text){NULL, 0};
  return (!text || tp__arena_text(&d->arena, tp_merged_text(merged, TP_FIELD_RESPONSE_TEXT), &d->response_text)) &&
         tp__arena_text(&d->arena, tp_merged_text(merged, TP_FIELD_THINKING), thinking);
}

void tp__held_drop(tp__drive *d, tp_status status) {
  const tp__held *held = d->held;
  TP__ASSERT(held);
  d->held = NULL;
  d->response_text = d->provider_data = (tp_text){NULL, 0};
  deliver_end(d, status, true, d->response_text, d->finish_word, held->started_ns, held->ended_ns);
}

bool tp__keep_response(tp__drive *d) {
  const tp__held *held = d->held;
  if (!held) return true;
  tp_text thinking = tp__held_thinking(d);
  tp_status status = d->phase.status != TP_OK ? d->phase.status : d->phase.result.outcome;
  if (status != TP_OK) {
    tp__held_drop(d, status);
    return true;
  }
  if (!take_replaced(d, &thinking)) return tp__drive_no_memory(d); /* what is held is dropped then */
  d->held = NULL;
  deliver_text(d, TP_EVENT_THINKING, held->thinking.size > 0 ? thinking : (tp_text){NULL, 0});
  deliver_text(d, TP_EVENT_MODEL_DELTA, held->any_text ? d->response_text : (tp_text){NULL, 0});
  deliver_end(d, TP_OK, true, d->response_text, d->finish_word, held->started_ns, held->ended_ns);
  d->asked_name = (tp_text){NULL, 0};
  return true;
}
