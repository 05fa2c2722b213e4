/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model.h"

static tp_status read_struct(void *ours, size_t size, const void *theirs, const char *name, tp_fault *fault) {
  if (!theirs) return tp__fail(fault, TP_ERR_USAGE, NULL, "a pointer to %s is NULL", name);
  return tp__options_read(ours, size, theirs, name, fault);
}

static tp_status refuse_reserved(const char *name, tp_fault *fault) {
  return tp__fail(fault, TP_ERR_USAGE, NULL, "%s.reserved_ must be 0: zero-fill the struct", name);
}

static tp_status check_inbox(const tp_model *model, const void *inbox_owner, tp_fault *fault) {
  const char *wrong = NULL;
  if (!model->inbox) return TP_OK;
  if (model->start) wrong = "start and inbox are set: set one of the two";
  else if (model->cancel)
    wrong = "cancel and inbox are set, and no callback comes beside an inbox: ask tp_token_open() instead";
  else if (model->placement > TP_PLACEMENT_THREAD)
    wrong = "placement inline and inbox are set, and a request through an inbox waits for its host";
  else if (!tp__inbox_is_of(model->inbox, inbox_owner)) wrong = "its inbox is of another runtime";
  return wrong ? tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model: %s", wrong) : TP_OK;
}

void tp__model_take(const tp_model *model) {
  if (model->inbox) tp__inbox_ref(model->inbox);
}

void tp__model_drop(const tp_model *model) {
  tp_inbox *inbox = model->inbox; /* destroy may free the struct */
  if (model->destroy) model->destroy(model->self);
  tp__inbox_unref(inbox);
}

tp_status tp__model_read(const tp_model *theirs, const void *inbox_owner, tp_model *ret_model, tp_fault *fault) {
  tp_model model;
  TP__TRY(read_struct(&model, sizeof model, theirs, "tp_model", fault));
  if (!model.start && !model.inbox)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model.start is NULL: a model must have it, or an inbox");
  if ((unsigned)model.placement > TP_PLACEMENT_INLINE)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model.placement is %d; it must be thread or inline",
                    (int)model.placement);
  if (model.reserved_[0] | model.reserved_[1] | model.reserved_[2]) return refuse_reserved("tp_model", fault);
  TP__TRY(check_inbox(&model, inbox_owner, fault));
  *ret_model = model;
  return TP_OK;
}

/* A call without arguments has an empty map of them. */
static const tp_text no_arguments = {"\x80", 1};

tp_status tp__tool_call_read(const tp_tool_call *theirs, tp_tool_call *ret_call, tp_fault *fault) {
  tp_tool_call call;
  TP__TRY(read_struct(&call, sizeof call, theirs, "tp_tool_call", fault));
  if (call.reserved_) return refuse_reserved("tp_tool_call", fault);
  if (call.arguments.size == 0 && !call.malformed) call.arguments = no_arguments;
  *ret_call = call;
  return TP_OK;
}

static tp_status check_calls(const tp_tool_call *const *calls, size_t count, tp_fault *fault) {
  tp_tool_call call;
  if (count > 0 && !calls)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%zu tool calls are announced, and the list is NULL", count);
  for (size_t i = 0; i < count; i++) TP__TRY(tp__tool_call_read(calls[i], &call, fault));
  return TP_OK;
}

tp_status tp__message_read(const tp_message *theirs, tp_message *ret_message, tp_fault *fault) {
  tp_message message;
  TP__TRY(read_struct(&message, sizeof message, theirs, "tp_message", fault));
  if (message.role < TP_ROLE_USER || message.role > TP_ROLE_END)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%d is no tp_message.role of a history", (int)message.role);
  if (message.parts.size > 0)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_message.parts are not yet used; leave them empty");
  TP__TRY(check_calls(message.calls, message.call_count, fault));
  *ret_message = message;
  return TP_OK;
}

tp_status tp__response_read(const tp_model_response *theirs, tp_model_response *ret_response, tp_fault *fault) {
  tp_model_response response;
  TP__TRY(read_struct(&response, sizeof response, theirs, "tp_model_response", fault));
  TP__TRY(check_calls(response.calls, response.call_count, fault));
  *ret_response = response;
  return TP_OK;
}

void tp_model_free(tp_model *model) {
  if (model && model->destroy) model->destroy(model->self);
}
