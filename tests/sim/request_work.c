/* SPDX-License-Identifier: Apache-2.0 */
#include "request_work.h"

#include <string.h>

/* ---- model.request ---- */

/* System messages stay, and so do all messages from the last one of a user on, because the workload recognizes its
 * request by these. */
static size_t first_that_stays(tp_text messages) {
  size_t index = 0, first = 0;
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk); index++)
    if (tp_text_is(tp_value_text(tp_value_get(walk.value, "role")), "user")) first = index;
  return first;
}

static bool stays(tp_text message) {
  return tp_text_is(tp_value_text(tp_value_get(message, "role")), "system") || !world_one_in(4);
}

/* Leaves some out, and has the others in another order, now and then. */
static tp_status leave_messages_out(tp_call *call, tp_writer *writer) {
  enum { MESSAGES_MAX = 128 };
  tp_text messages = tp_call_text(call, TP_FIELD_MESSAGES), kept[MESSAGES_MAX];
  size_t first = first_that_stays(messages), index = 0, left = 0, old = 0;
  tp_field field = {.id = TP_FIELD_MESSAGES, .kind = TP_FIELD_KIND_VALUE};
  if (tp_value_count(messages) > MESSAGES_MAX) return TP_OK;
  for (tp_value_walk walk = {0}; tp_value_next(messages, &walk); index++) {
    if (index == first) old = left;
    if (index >= first || stays(walk.value)) kept[left++] = walk.value;
  }
  bool is_turned = world_one_in(4);
  tp_write_array(writer, left);
  for (size_t i = 0; i < left; i++) tp_write_value(writer, kept[is_turned && i < old ? old - 1 - i : i]);
  tp_status status = tp_writer_finish(writer, &field.text);
  return status == TP_OK ? tp_call_replace(call, &field, 1, NULL) : status;
}

static tp_status leave_a_tool_out(tp_call *call, tp_writer *writer) {
  tp_field field = {.id = TP_FIELD_TOOLS, .kind = TP_FIELD_KIND_VALUE};
  tp_write_array(writer, 1);
  tp_write_string(writer, world_one_in(4) ? "unknown" : "t1");
  tp_status status = tp_writer_finish(writer, &field.text);
  return status == TP_OK ? tp_call_replace(call, &field, 1, NULL) : status;
}

static tp_status answer(tp_call *call, tp_writer *writer) {
  tp_field field = {.id = TP_FIELD_RESPONSE, .kind = TP_FIELD_KIND_VALUE};
  tp_write_map(writer, 1);
  tp_write_string(writer, "text");
  tp_write_string(writer, REQUEST_WORK_SAID);
  tp_status status = tp_writer_finish(writer, &field.text);
  return status == TP_OK ? tp_call_replace(call, &field, 1, NULL) : status;
}

tp_answer request_work_rewrite(turn_work *d, tp_call *call, int64_t delay_ns) {
  tp_writer *writer;
  uint64_t dice = tp__sim_random(20);
  tp__sim_sleep_ns(delay_ns);
  if (dice >= 12) return TP_ANSWER_DONE;
  if (dice == 0 && !world_is_fault_free(d->w)) return tp_call_deny(call, "as the rewriter says");
  if (dice == 1 && !world_is_fault_free(d->w)) return tp_call_fail(call, 1, "as the rewriter fails");
  if (tp_writer_new(NULL, &writer) != TP_OK) return tp_call_fail(call, 1, "no memory");
  tp_status status = dice < 8    ? leave_messages_out(call, writer)
                     : dice < 10 ? leave_a_tool_out(call, writer)
                                 : answer(call, writer);
  tp_writer_free(writer);
  if (status != TP_OK && status != TP_ERR_NO_MEMORY)
    world_fail(d->w, "a request is replaced by what is right", "it gave %s", tp_status_name(status));
  if (status == TP_OK && dice >= 10) d->requests++; /* it stands for one */
  return status == TP_OK ? TP_ANSWER_DONE : tp_call_fail(call, 1, "no memory");
}

void request_work_check(world *w, const tp_model_request *request) {
  for (size_t i = 0; i < request->message_count; i++) {
    const tp_message *message = request->messages[i];
    for (size_t k = 0; k < message->call_count; k++) {
      const tp_message *result = i + 1 + k < request->message_count ? request->messages[i + 1 + k] : NULL;
      if (!result || result->role != TP_ROLE_TOOL || !tp_text_equal(result->call_id, message->calls[k]->id))
        world_fail(w, "calls and results are sent in pairs", "call %zu of message %zu of %zu", k, i,
                   request->message_count);
    }
  }
}

/* ---- model.response ---- */

tp_answer request_work_filter(tp_call *call) {
  return tp_call_replace_text(call, TP_FIELD_RESPONSE_TEXT, REQUEST_WORK_LEFT, NULL) == TP_OK
             ? TP_ANSWER_DONE
             : tp_call_fail(call, 1, "no memory");
}

void request_work_check_event(world *w, const tp_event *event) {
  bool tells = event->kind == TP_EVENT_MODEL_DELTA || event->kind == TP_EVENT_MODEL_END;
  if (tells && event->text.size > 0 && !tp_text_is(event->text, REQUEST_WORK_LEFT))
    world_fail(w, "no delta passes a filter", "%s: %.*s", tp_event_name(event->kind), (int)event->text.size,
               event->text.data);
}
