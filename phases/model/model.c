/* SPDX-License-Identifier: Apache-2.0 */
#include "phases/model/model.h"

#include <strings.h>

#include "phases/model/parts.h"
#include "runtime/inbox/destroy.h"

static tp_status read_model_struct(void *ours, size_t size, const void *theirs, const char *name, tp_fault *fault) {
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
  else if (model->resume)
    wrong = "resume and inbox are set, and no callback comes beside an inbox: ask tp_model_held() instead";
  else if (model->placement > TP_PLACEMENT_THREAD)
    wrong = "placement inline and inbox are set, and a request through an inbox waits for its host";
  else if (!tp__inbox_is_of(model->inbox, inbox_owner)) wrong = "its inbox is of another runtime";
  return wrong ? tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model: %s", wrong) : TP_OK;
}

static tp_status check_provider(const char *provider, tp_fault *fault) {
  size_t size = strlen(provider);
  if (size > 0 && size <= TP_ID_BYTES_MAX && tp_utf8_valid((tp_text){provider, size}, NULL)) return TP_OK;
  return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model.provider must have 1 to 128 bytes of UTF-8");
}

tp_status tp__model_read(const tp_model *theirs, const void *inbox_owner, tp_model *ret_model, tp_fault *fault) {
  tp_model model;
  TP__TRY(read_model_struct(&model, sizeof model, theirs, "tp_model", fault));
  if (!model.start && !model.inbox)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model.start is NULL: a model must have it, or an inbox");
  if ((unsigned)model.placement > TP_PLACEMENT_INLINE)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_model.placement is %d; it must be thread or inline",
                    (int)model.placement);
  if (model.provider) TP__TRY(check_provider(model.provider, fault));
  if (model.reserved_[0] | model.reserved_[1]) return refuse_reserved("tp_model", fault);
  TP__TRY(check_inbox(&model, inbox_owner, fault));
  *ret_model = model;
  return TP_OK;
}

/* ---- a model and its fallbacks ---- */

/* A model that is in the list twice would be destroyed twice. */
static bool is_twice(const tp_model *first, const tp_model *const *others, size_t index) {
  bool twice = others[index] == first;
  for (size_t i = 0; i < index && !twice; i++) twice = others[i] == others[index];
  return twice;
}

tp_status tp__models_check(const char *config, const tp_model *first, const tp_model *const *others, size_t count,
                           const void *inbox_owner, tp_fault *fault) {
  tp_model read;
  if (first) TP__TRY(tp__model_read(first, inbox_owner, &read, fault));
  const char *wrong = NULL;
  if (count > TP__FALLBACKS_MAX) wrong = "are more than 16";
  else if (count > 0 && !others) wrong = "are announced, and the list is NULL";
  else if (count > 0 && !first) wrong = "stand in for model, which is NULL";
  if (wrong) return tp__fail(fault, TP_ERR_USAGE, NULL, "%s: %zu fallbacks %s", config, count, wrong);
  for (size_t i = 0; i < count; i++) {
    if (others[i] && is_twice(first, others, i))
      return tp__fail(fault, TP_ERR_USAGE, NULL, "%s.fallbacks[%zu] is in the list already: make a model of its own",
                      config, i);
    TP__TRY(tp__model_read(others[i], inbox_owner, &read, fault));
  }
  return TP_OK;
}

/* @return false without memory: then its inbox is referenced, but its destroy is not taken over. */
static bool take_one_model(tp__models *models, const tp_allocator *allocator, const void *inside_of,
                           tp_inbox *of_session, size_t index, const tp_model *theirs) {
  tp_model *to = index == 0 ? &models->first : &models->others[index - 1];
  (void)!tp__options_read(to, sizeof *to, theirs, "tp_model", NULL); /* as it was when it was checked */
  if (of_session) to->inbox = tp__inbox_meant(to->inbox, of_session);
  tp__inbox_ref(to->inbox);
  if (!to->inbox || tp__inbox_is_of_session(to->inbox) || !to->destroy) return true;
  models->destroys[index] = tp__destroy_new(allocator, inside_of, to->inbox, to->ctx, to->destroy);
  return models->destroys[index] != NULL;
}

tp_status tp__models_take(tp__models *models, const tp_allocator *allocator, const void *inside_of,
                          tp_inbox *of_session, const tp_model *first, const tp_model *const *others, size_t count) {
  *models = (tp__models){.other_count = count};
  if (count > 0 && !(models->others = tp__alloc_zero(allocator, count * sizeof *models->others)))
    return TP_ERR_NO_MEMORY;
  bool taken = !first || take_one_model(models, allocator, inside_of, of_session, 0, first);
  for (size_t i = 0; i < count && taken; i++)
    taken = take_one_model(models, allocator, inside_of, of_session, i + 1, others[i]);
  if (taken) return TP_OK;
  tp__models_untake(models, allocator);
  return TP_ERR_NO_MEMORY;
}

const tp_model *tp__models_need_inbox(const tp__models *models) {
  for (size_t i = 0; i <= models->other_count; i++)
    if (tp__inbox_is_of_session(tp__models_at(models, i)->inbox)) return tp__models_at(models, i);
  return NULL;
}

void tp__models_untake(tp__models *models, const tp_allocator *allocator) {
  for (size_t i = 0; i <= models->other_count; i++) {
    tp__inbox_unref(tp__models_at(models, i)->inbox);
    tp__destroy_cancel(models->destroys[i]);
  }
  tp__release(allocator, models->others, models->other_count * sizeof *models->others);
  *models = (tp__models){.others = NULL};
}

void tp__models_drop(tp__models *models, const tp_allocator *allocator) {
  for (size_t i = 0; i <= models->other_count; i++) {
    const tp_model *model = tp__models_at(models, i);
    if (models->destroys[i]) tp__destroy_now(models->destroys[i]);
    else if (model->destroy) model->destroy(model->ctx);
    models->destroys[i] = NULL;
  }
  tp__models_untake(models, allocator);
}

/* ---- messages and responses ---- */

/* A call without arguments has an empty map. */
static const tp_text no_arguments = {"\x80", 1};

tp_status tp__tool_call_read(const tp_tool_call *theirs, tp_tool_call *ret_call, tp_fault *fault) {
  tp_tool_call call;
  TP__TRY(read_model_struct(&call, sizeof call, theirs, "tp_tool_call", fault));
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

/* Must be a value and a map, because its readers search for keys. */
static tp_status check_provider_data(const char *name, tp_text data, tp_fault *fault) {
  if (data.size == 0 || (tp_value_check(data, NULL) == TP_OK && tp_value_kind_of(data) == TP_VALUE_MAP)) return TP_OK;
  return tp__fail(fault, TP_ERR_MALFORMED, NULL, "%s.provider_data is no well-formed map", name);
}

tp_status tp__message_read(const tp_message *theirs, tp_message *ret_message, tp_fault *fault) {
  tp_message message;
  TP__TRY(read_model_struct(&message, sizeof message, theirs, "tp_message", fault));
  if (message.role < TP_ROLE_USER || message.role > TP_ROLE_END)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%d is no tp_message.role of a history", (int)message.role);
  TP__TRY(tp__parts_check(message.parts, "tp_message.parts", fault));
  if (message.parts.size > 0 && message.role != TP_ROLE_USER && message.role != TP_ROLE_TOOL)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_message.parts: only messages of a user and a tool have some");
  if (message.value.size > 0 && message.role != TP_ROLE_TOOL)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_message.value: only a tool's result has one");
  if (message.value.size > 0 && tp_value_check(message.value, NULL) != TP_OK)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tp_message.value is no well-formed value");
  if (message.provider_data.size > 0 && message.role != TP_ROLE_ASSISTANT)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "tp_message.provider_data: only an assistant's message has some");
  TP__TRY(check_provider_data("tp_message", message.provider_data, fault));
  if (message.ending.size > 0 && tp_value_check(message.ending, NULL) != TP_OK)
    return tp__fail(fault, TP_ERR_MALFORMED, NULL, "tp_message.ending is no well-formed value");
  TP__TRY(check_calls(message.calls, message.call_count, fault));
  *ret_message = message;
  return TP_OK;
}

tp_status tp__response_read(const tp_model_response *theirs, tp_model_response *ret_response, tp_fault *fault) {
  tp_model_response response;
  TP__TRY(read_model_struct(&response, sizeof response, theirs, "tp_model_response", fault));
  TP__TRY(check_provider_data("tp_model_response", response.provider_data, fault));
  if (response.reserved_) return refuse_reserved("tp_model_response", fault);
  if (response.finish < TP_FINISH_UNKNOWN || response.finish > TP_FINISH_PAUSE)
    return tp__fail(fault, TP_ERR_USAGE, NULL, "%d is no tp_model_response.finish", (int)response.finish);
  TP__TRY(check_calls(response.calls, response.call_count, fault));
  *ret_response = response;
  return TP_OK;
}

/* ---- how an answer ends ---- */

static const char *const finish_names[] = {
    [TP_FINISH_STOP] = "stop",       [TP_FINISH_LENGTH] = "length",         [TP_FINISH_FILTER] = "filter",
    [TP_FINISH_REFUSAL] = "refusal", [TP_FINISH_TOOL_CALLS] = "tool_calls", [TP_FINISH_ERROR] = "error",
    [TP_FINISH_PAUSE] = "pause"};

const char *tp_finish_name(tp_finish finish) { return TP__NAME_AT(finish_names, finish, "unknown"); }

/* The words of the providers, in small letters. The words with which most answers end come first. */
static const struct {
  const char *word;
  tp_finish finish;
} finish_words[] = {
    {"stop", TP_FINISH_STOP},
    {"end_turn", TP_FINISH_STOP},
    {"tool_calls", TP_FINISH_TOOL_CALLS},
    {"tool_use", TP_FINISH_TOOL_CALLS},
    {"length", TP_FINISH_LENGTH},
    {"max_tokens", TP_FINISH_LENGTH},
    {"stop_sequence", TP_FINISH_STOP},
    {"eos", TP_FINISH_STOP},
    {"eos_token", TP_FINISH_STOP},
    {"complete", TP_FINISH_STOP},
    {"completed", TP_FINISH_STOP},
    {"finished", TP_FINISH_STOP},
    {"max_output_tokens", TP_FINISH_LENGTH},
    {"max_completion_tokens", TP_FINISH_LENGTH},
    {"max_length", TP_FINISH_LENGTH},
    {"model_length", TP_FINISH_LENGTH},
    {"token_limit", TP_FINISH_LENGTH},
    {"model_context_window_exceeded", TP_FINISH_LENGTH},
    {"filter", TP_FINISH_FILTER},
    {"content_filter", TP_FINISH_FILTER},
    {"content_filtered", TP_FINISH_FILTER},
    {"guardrail_intervened", TP_FINISH_FILTER},
    {"guardrails", TP_FINISH_FILTER},
    {"safety", TP_FINISH_FILTER},
    {"image_safety", TP_FINISH_FILTER},
    {"recitation", TP_FINISH_FILTER},
    {"blocklist", TP_FINISH_FILTER},
    {"prohibited_content", TP_FINISH_FILTER},
    {"spii", TP_FINISH_FILTER},
    {"sensitive", TP_FINISH_FILTER},
    {"refusal", TP_FINISH_REFUSAL},
    {"refused", TP_FINISH_REFUSAL},
    {"tool_call", TP_FINISH_TOOL_CALLS},
    {"function_call", TP_FINISH_TOOL_CALLS},
    {"error", TP_FINISH_ERROR},
    {"failed", TP_FINISH_ERROR},
    {"network_error", TP_FINISH_ERROR},
    {"engine_error", TP_FINISH_ERROR},
    {"server_error", TP_FINISH_ERROR},
    {"internal_error", TP_FINISH_ERROR},
    {"insufficient_system_resource", TP_FINISH_ERROR},
    {"malformed_function_call", TP_FINISH_ERROR},
    {"abort", TP_FINISH_ERROR},
    {"aborted", TP_FINISH_ERROR},
    {"cancelled", TP_FINISH_ERROR},
    {"canceled", TP_FINISH_ERROR},
    {"pause", TP_FINISH_PAUSE},
    {"pause_turn", TP_FINISH_PAUSE},
};

tp_finish tp_finish_of(tp_text word) {
  char first = word.size > 0 ? (char)(word.data[0] | 0x20) : '\0'; /* a small letter, as in the table */
  for (size_t i = 0; i < sizeof finish_words / sizeof *finish_words; i++) {
    const char *known = finish_words[i].word;
    if (known[0] != first || word.size != strlen(known)) continue;
    if (strncasecmp(word.data, known, word.size) == 0) return finish_words[i].finish;
  }
  return TP_FINISH_UNKNOWN;
}

void tp__response_finish(tp_model_response *response) {
  TP__ASSERT(response->finish <= TP_FINISH_PAUSE);
  if (response->finish_word.size == 0) response->finish_word = response->stop_reason;
  if (response->finish == TP_FINISH_UNKNOWN) response->finish = tp_finish_of(response->stop_reason);
  bool goes_on = response->finish == TP_FINISH_UNKNOWN || response->finish == TP_FINISH_STOP;
  if (goes_on) response->finish = response->call_count > 0 ? TP_FINISH_TOOL_CALLS : TP_FINISH_STOP;
}

void tp_model_free(tp_model *model) {
  if (model && model->destroy) model->destroy(model->ctx);
}
