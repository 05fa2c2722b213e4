/* SPDX-License-Identifier: Apache-2.0
 *
 * work.c: a call of a hook, a tool or a model that was taken from an inbox, by its id. It can be read until it is
 * answered, once. After its limit or its cancel lib/ abandons it, so that a promise that never settles holds nothing
 * back. */
#include <string.h>

#include "bindings/node/src/core.h"
#include "bindings/node/fields.h"

enum { ARGUMENTS_MAX = 6 };

/* Discards a late answer, which is no error (false). */
static napi_value discard(napi_env env) { return tpn_is_pending(env) ? NULL : tpn_bool(env, false); }

/* The data that functions of a call begin with: its runtime, slot and work, and the arguments after the first two. */
typedef struct call {
  napi_env env;
  tpn_runtime *runtime;
  tpn_slot *slot;
  const tp_work *work;
  napi_value arguments[ARGUMENTS_MAX]; /* the arguments from index 2 on */
} call;

/* Begins a function of a call. False with an exception: the call is over, its runtime was closed, or it is of another
 * kind. kind 0: any. is_answer: no exception if the call is over. */
static bool begin_any(napi_env env, napi_callback_info info, tp_work_kind kind, bool is_answer, call *to) {
  const tp_fault over = {.code = TP_ERR_STALE,
                         .message = "the call was answered or cancelled, or its limit has passed: read it before that"};
  to->env = env;
  to->runtime = tpn_arguments(env, info, ARGUMENTS_MAX, to->arguments) ? tpn_usable(env, to->arguments[0]) : NULL;
  if (!to->runtime) return false;
  to->slot = tpn_slot_get(to->runtime, env, to->arguments[1]);
  if (!to->slot) return !is_answer && tpn_throw(env, TP_ERR_STALE, &over) != NULL;
  to->work = to->slot->work;
  return !kind || to->work->kind == kind || tpn_type_error(env, "this kind of call does not have that");
}

static bool begin(napi_env env, napi_callback_info info, tp_work_kind kind, call *to) {
  return begin_any(env, info, kind, false, to);
}

/* ---- of every kind ---- */

/* id(runtime, call, kind) */
static napi_value work_id(napi_env env, napi_callback_info info) {
  call to;
  uint64_t kind = 0;
  tp_text text = {0};
  if (!begin(env, info, 0, &to) || !tpn_key(env, to.arguments[2], &kind)) return NULL;
  if (to.work->kind == TP_WORK_HANDLER) text = tp_call_id(to.work->call, (tp_id_kind)kind);
  else if (to.work->kind == TP_WORK_TOOL) text = tp_tool_run_id(to.work->run, (tp_id_kind)kind);
  else if (kind < to.work->request->id_count) text = to.work->request->ids[kind];
  return tpn_string(env, text);
}

static napi_value work_time_left(napi_env env, napi_callback_info info) {
  call to;
  if (!begin(env, info, 0, &to)) return NULL;
  if (to.work->kind == TP_WORK_HANDLER) return tpn_int(env, tp_call_time_left_ms(to.work->call));
  if (to.work->kind == TP_WORK_TOOL) return tpn_int(env, tp_tool_run_time_left_ms(to.work->run));
  return tpn_int(env, to.work->request->time_left_ms);
}

static napi_value work_mode(napi_env env, napi_callback_info info) {
  call to;
  tp_text mode = {0};
  if (!begin(env, info, 0, &to)) return NULL;
  if (to.work->kind == TP_WORK_HANDLER) mode = tp_call_mode(to.work->call);
  if (to.work->kind == TP_WORK_TOOL) mode = tp_tool_run_mode(to.work->run);
  return tpn_string(env, mode);
}

static napi_value object_or_empty(napi_env env, tp_text value) {
  napi_value object = NULL;
  if (value.size) return tpn_object(env, value);
  (void)napi_create_object(env, &object);
  return object;
}

static napi_value work_agent_config(napi_env env, napi_callback_info info) {
  call to;
  tp_text config = {0};
  if (!begin(env, info, 0, &to)) return NULL;
  if (to.work->kind == TP_WORK_HANDLER) config = tp_call_agent_config(to.work->call);
  if (to.work->kind == TP_WORK_TOOL) config = tp_tool_run_agent_config(to.work->run);
  return object_or_empty(env, config);
}

/* isOpen(runtime, call): whether an answer would still have an effect. */
static napi_value work_is_open(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime) return NULL;
  const tpn_slot *slot = tpn_slot_get(runtime, env, arguments[1]);
  return tpn_bool(env, slot && tp_token_open(slot->token));
}

/* abandon(runtime, call): notifies that the call will get no answer. */
static napi_value work_abandon(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime) return NULL;
  tpn_slot *slot = tpn_slot_get(runtime, env, arguments[1]);
  if (slot) {
    (void)tp_token_abandon(slot->token, NULL);
    tpn_slot_end(runtime, slot);
  }
  return tpn_undefined(env);
}

static napi_value answered(const call *to, tp_status status, const tp_fault *fault) {
  if (tpn_is_pending(to->env)) return NULL;
  if (status != TP_OK && status != TP_ERR_STALE) return tpn_throw(to->env, status, fault);
  tpn_slot_end(to->runtime, to->slot);
  return tpn_bool(to->env, status == TP_OK);
}

/* ---- of a hook ---- */

static napi_value work_phase(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_HANDLER, &to) ? tpn_word(env, &tpb_tp_phase_id, (int32_t)tp_call_phase(to.work->call))
                                                : NULL;
}

static napi_value work_subscription(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_HANDLER, &to) ? tpn_string(env, tp_text_of(tp_call_subscription(to.work->call)))
                                                : NULL;
}

static napi_value work_attempt(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_HANDLER, &to) ? tpn_uint(env, tp_call_attempt(to.work->call)) : NULL;
}

/* Finds a field by the library's name for it. */
static tp_field_id field_of(napi_env env, napi_value name) {
  char chars[64];
  size_t size = 0;
  tp_field_id field = TP_FIELD_NONE;
  if (napi_get_value_string_utf8(env, name, chars, sizeof chars, &size) == napi_ok) field = tp_field_find(chars);
  else chars[0] = '\0';
  if (field == TP_FIELD_NONE) tpn_range_error(env, "there is no field '%s' in any phase", chars);
  return field;
}

/* get(runtime, call, field) */
static napi_value work_get(napi_env env, napi_callback_info info) {
  call to;
  if (!begin(env, info, TP_WORK_HANDLER, &to)) return NULL;
  const tp_field_id field = field_of(env, to.arguments[2]);
  if (field == TP_FIELD_NONE) return NULL;
  if (!tp_call_has(to.work->call, field)) return tpn_undefined(env);
  if (tp_field_kind(field) == TP_FIELD_KIND_INT) return tpn_int(env, tp_call_int(to.work->call, field));
  const tp_text text = tp_call_text(to.work->call, field);
  bool is_text = tp_field_kind(field) != TP_FIELD_KIND_VALUE;
  if (field == TP_FIELD_ARGUMENTS) /* text, if the provider could not decode the arguments */
    is_text = tp_value_kind_of(text) != TP_VALUE_MAP || tp_value_check(text, NULL) != TP_OK;
  return is_text ? tpn_string(env, text) : tpn_object(env, text);
}

static napi_value work_payload(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_HANDLER, &to) ? object_or_empty(env, tp_call_payload(to.work->call)) : NULL;
}

/* policy(runtime, call, domain, key) */
static napi_value work_policy(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  napi_value policy = NULL;
  if (!begin(env, info, TP_WORK_HANDLER, &to)) return NULL;
  tpn_arena_begin(&arena);
  const char *domain = tpn_chars(env, to.arguments[2], &arena);
  const char *key = domain ? tpn_chars(env, to.arguments[3], &arena) : NULL;
  if (key) policy = tpn_string(env, tp_call_policy(to.work->call, domain, key));
  tpn_arena_end(&arena);
  return policy;
}

static bool read_field(napi_env env, napi_value key, napi_value value, tpn_arena *arena, tp_field *field) {
  double number = 0;
  memset(field, 0, sizeof *field);
  field->id = field_of(env, key);
  if (field->id == TP_FIELD_NONE) return false;
  field->kind = tp_field_kind(field->id);
  if (field->kind == TP_FIELD_KIND_TEXT) return tpn_text(env, value, arena, &field->text);
  if (field->kind != TP_FIELD_KIND_INT) return tpn_value(env, value, arena, &field->text);
  if (napi_get_value_double(env, value, &number) != napi_ok || number != (double)(int64_t)number)
    return tpn_type_error(env, "a whole number is wanted");
  field->number = (int64_t)number;
  return true;
}

/* replace(runtime, call, fields) */
static napi_value work_replace(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  napi_value keys, key, value;
  uint32_t count = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin(env, info, TP_WORK_HANDLER, &to)) return NULL;
  if (napi_get_property_names(env, to.arguments[2], &keys) != napi_ok)
    return tpn_type_error(env, "an object of fields is wanted"), NULL;
  (void)napi_get_array_length(env, keys, &count);
  tpn_arena_begin(&arena);
  for (uint32_t i = 0; i < count && status == TP_OK && !tpn_is_pending(env); i++) {
    tp_field field;
    if (napi_get_element(env, keys, i, &key) == napi_ok &&
        napi_get_property(env, to.arguments[2], key, &value) == napi_ok && read_field(env, key, value, &arena, &field))
      status = tp_call_replace(to.work->call, &field, 1, &fault);
  }
  tpn_arena_end(&arena);
  return tpn_is_pending(env) ? NULL : tpn_done(env, status, &fault);
}

/* emit(runtime, call, contribution) */
static napi_value work_emit(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  tp_contribution contribution;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin(env, info, TP_WORK_HANDLER, &to)) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, to.arguments[2], &tpb_tp_contribution, &contribution, &arena))
    status = tp_call_emit(to.work->call, &contribution, &fault);
  tpn_arena_end(&arena);
  return tpn_is_pending(env) ? NULL : tpn_done(env, status, &fault);
}

typedef struct gathered {
  napi_env env;
  napi_value list;
  uint32_t count;
} gathered;

static bool gather_message(void *ctx, const tp_message *message) {
  gathered *to = ctx;
  napi_value shown = tpn_show(to->env, message, &tpb_tp_message);
  return shown && napi_set_element(to->env, to->list, to->count++, shown) == napi_ok;
}

static napi_value work_messages(napi_env env, napi_callback_info info) {
  call to;
  gathered list = {env, NULL, 0};
  if (!begin(env, info, TP_WORK_HANDLER, &to) || napi_create_array(env, &list.list) != napi_ok) return NULL;
  tp_call_messages(to.work->call, gather_message, &list);
  return tpn_is_pending(env) ? NULL : list.list;
}

/* allow(runtime, call), abstain(runtime, call): the answers without words. */
static napi_value complete_plain(napi_env env, napi_callback_info info, tp_answer answer) {
  call to;
  tp_fault fault = {0};
  if (!begin_any(env, info, TP_WORK_HANDLER, true, &to)) return discard(env);
  const tp_outcome outcome = {.struct_size = sizeof outcome, .kind = answer};
  return answered(&to, tp_token_complete(to.slot->token, &outcome, &fault), &fault);
}
static napi_value work_allow(napi_env env, napi_callback_info info) {
  return complete_plain(env, info, TP_ANSWER_ALLOW);
}
static napi_value work_abstain(napi_env env, napi_callback_info info) {
  return complete_plain(env, info, TP_ANSWER_DONE);
}

/* complete(runtime, call, outcome): tp_outcome. */
static napi_value work_complete(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  tp_outcome outcome;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin_any(env, info, TP_WORK_HANDLER, true, &to)) return discard(env);
  tpn_arena_begin(&arena);
  if (tpn_read(env, to.arguments[2], &tpb_tp_outcome, &outcome, &arena))
    status = tp_token_complete(to.slot->token, &outcome, &fault);
  tpn_arena_end(&arena);
  return answered(&to, status, &fault);
}

/* ---- of a tool ---- */

static napi_value work_arguments(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_TOOL, &to) ? object_or_empty(env, tp_tool_run_arguments(to.work->run)) : NULL;
}

static napi_value work_name(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_TOOL, &to) ? tpn_string(env, tp_tool_run_name(to.work->run)) : NULL;
}

static napi_value work_call_id(napi_env env, napi_callback_info info) {
  call to;
  return begin(env, info, TP_WORK_TOOL, &to) ? tpn_string(env, tp_tool_run_call_id(to.work->run)) : NULL;
}

/* answer(runtime, call, answer): a string, or tp_tool_answer. */
static napi_value work_answer(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  tp_tool_answer answer = {.struct_size = sizeof answer};
  napi_valuetype type = napi_undefined;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin_any(env, info, TP_WORK_TOOL, true, &to)) return discard(env);
  (void)napi_typeof(env, to.arguments[2], &type);
  tpn_arena_begin(&arena);
  if (type == napi_string ? tpn_text(env, to.arguments[2], &arena, &answer.text)
                          : tpn_read(env, to.arguments[2], &tpb_tp_tool_answer, &answer, &arena))
    status = tp_tool_complete_with(to.slot->token, &answer, &fault);
  tpn_arena_end(&arena);
  return answered(&to, status, &fault);
}

/* ---- of a model ---- */

/* request(runtime, call, member): one member of tp_model_request, by its name there; undefined if it is empty. */
static napi_value work_request(napi_env env, napi_callback_info info) {
  call to;
  char name[32];
  size_t size = 0;
  if (!begin(env, info, TP_WORK_MODEL, &to)) return NULL;
  if (napi_get_value_string_utf8(env, to.arguments[2], name, sizeof name, &size) != napi_ok) return NULL;
  for (const tpb_field *field = tpb_tp_model_request_fields; field->name; field++)
    if (strcmp(field->name, name) == 0) return tpn_show_member(env, to.work->request, field);
  return tpn_undefined(env);
}

typedef tp_status (*piece_fn)(tp_token token, tp_text piece, tp_fault *fault);

static napi_value emit_piece(napi_env env, napi_callback_info info, piece_fn emit) {
  call to;
  tpn_arena arena;
  tp_text text;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin_any(env, info, TP_WORK_MODEL, true, &to)) return discard(env);
  tpn_arena_begin(&arena);
  if (tpn_text(env, to.arguments[2], &arena, &text)) status = emit(to.slot->token, text, &fault);
  tpn_arena_end(&arena);
  if (tpn_is_pending(env)) return NULL;
  return status == TP_OK || status == TP_ERR_STALE ? tpn_bool(env, status == TP_OK) : tpn_throw(env, status, &fault);
}

static napi_value work_delta(napi_env env, napi_callback_info info) { return emit_piece(env, info, tp_model_delta); }
static napi_value work_thinking(napi_env env, napi_callback_info info) {
  return emit_piece(env, info, tp_model_thinking);
}

/* respond(runtime, call, response): a string, or tp_model_response. */
static napi_value work_respond(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  tp_model_response response = {.struct_size = sizeof response};
  napi_valuetype type = napi_undefined;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin_any(env, info, TP_WORK_MODEL, true, &to)) return discard(env);
  (void)napi_typeof(env, to.arguments[2], &type);
  tpn_arena_begin(&arena);
  if (type == napi_string ? tpn_text(env, to.arguments[2], &arena, &response.text)
                          : tpn_read(env, to.arguments[2], &tpb_tp_model_response, &response, &arena))
    status = tp_model_complete(to.slot->token, &response, &fault);
  tpn_arena_end(&arena);
  return answered(&to, status, &fault);
}

/* fail(runtime, call, code, message, retryable) */
static napi_value work_fail(napi_env env, napi_callback_info info) {
  call to;
  tpn_arena arena;
  uint64_t code = 0;
  bool retryable = false;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!begin_any(env, info, TP_WORK_MODEL, true, &to)) return discard(env);
  if (!tpn_key(env, to.arguments[2], &code)) return NULL;
  (void)napi_get_value_bool(env, to.arguments[4], &retryable);
  tpn_arena_begin(&arena);
  const char *message = tpn_chars(env, to.arguments[3], &arena);
  if (message) status = tp_model_fail(to.slot->token, (tp_status)code, message, retryable, &fault);
  tpn_arena_end(&arena);
  return answered(&to, status, &fault);
}

const tpn_function tpn_work_functions[] = {
    {"id", work_id},
    {"timeLeft", work_time_left},
    {"mode", work_mode},
    {"agentConfig", work_agent_config},
    {"isOpen", work_is_open},
    {"abandon", work_abandon},
    {"phase", work_phase},
    {"subscription", work_subscription},
    {"attempt", work_attempt},
    {"get", work_get},
    {"payload", work_payload},
    {"policy", work_policy},
    {"replace", work_replace},
    {"emit", work_emit},
    {"messages", work_messages},
    {"allow", work_allow},
    {"abstain", work_abstain},
    {"complete", work_complete},
    {"arguments", work_arguments},
    {"name", work_name},
    {"callId", work_call_id},
    {"answer", work_answer},
    {"request", work_request},
    {"delta", work_delta},
    {"thinking", work_thinking},
    {"respond", work_respond},
    {"fail", work_fail},
    {NULL, NULL},
};
