/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.c: the handles of a runtime's objects, and the functions with which JavaScript registers and submits. */
#include <stdlib.h>
#include <string.h>

#include "bindings/node/src/core.h"
#include "bindings/node/fields.h"

/* ---- handles ---- */

void tpn_runtime_unref(tpn_runtime *runtime) {
  if (--runtime->references) return;
  free(runtime->slots);
  free(runtime->hashes);
  free(runtime);
}

static void handle_end(napi_env env, void *data, void *unused) {
  tpn_handle *handle = data;
  (void)env, (void)unused;
  if (handle->kind == TPN_SUBMISSION) tp_submission_unref(handle->pointer);
  if (handle->kind == TPN_MODEL) tp_model_free(handle->pointer);
  tpn_runtime_unref(handle->runtime);
  free(handle);
}

napi_value tpn_handle_new(napi_env env, tpn_runtime *runtime, tpn_kind kind, void *pointer) {
  napi_value external = NULL;
  tpn_handle *handle = malloc(sizeof *handle);
  const tpn_handle made = {kind, pointer, runtime};
  if (handle) {
    *handle = made;
    runtime->references++;
    if (napi_create_external(env, handle, handle_end, NULL, &external) == napi_ok) return external;
    handle_end(env, handle, NULL);
  } else {
    if (kind == TPN_SUBMISSION) tp_submission_unref(pointer);
    if (kind == TPN_MODEL) tp_model_free(pointer);
    tpn_throw(env, TP_ERR_NO_MEMORY, NULL);
  }
  return NULL;
}

static tpn_handle *handle_of(napi_env env, napi_value object) {
  napi_valuetype type = napi_undefined;
  void *data = NULL;
  (void)napi_typeof(env, object, &type);
  if (type == napi_external) (void)napi_get_value_external(env, object, &data);
  return data;
}

static bool is_usable(napi_env env, const tpn_runtime *runtime) {
  const tp_fault fault = {.code = TP_ERR_USAGE, .message = "the runtime was closed"};
  if (runtime->runtime && !runtime->is_ended) return true;
  tpn_throw(env, TP_ERR_USAGE, &fault);
  return false;
}

tpn_runtime *tpn_usable(napi_env env, napi_value object) {
  const tpn_handle *handle = handle_of(env, object);
  if (!handle || handle->kind != TPN_RUNTIME) return tpn_type_error(env, "a runtime is wanted"), NULL;
  return is_usable(env, handle->runtime) ? handle->runtime : NULL;
}

tpn_handle *tpn_handle_get(napi_env env, const tpn_runtime *runtime, napi_value object, tpn_kind kind) {
  static const char *const names[] = {"a runtime", "a session", "an agent", "a submission", "a model", "a turn"};
  const tp_fault closed = {.code = TP_ERR_USAGE,
                           .message = "it was closed, or belongs to another session or agent already"};
  const tp_fault other = {.code = TP_ERR_USAGE, .message = "it belongs to another runtime"};
  tpn_handle *handle = handle_of(env, object);
  if (!handle || handle->kind != kind) return tpn_type_error(env, "%s is wanted", names[kind]), NULL;
  if (handle->runtime != runtime) return tpn_throw(env, TP_ERR_USAGE, &other), NULL;
  if (!handle->pointer) return tpn_throw(env, TP_ERR_USAGE, &closed), NULL;
  return handle;
}

static void *key_of(uint64_t key) { return (void *)(uintptr_t)key; }

tp_end *tpn_end_new(napi_env env, tpn_runtime *runtime, uint64_t key) {
  tp_end *end = NULL;
  tp_fault fault = {0};
  const tp_status status = tp_end_new(runtime->inbox, key_of(key), &end, &fault);
  if (status != TP_OK) tpn_throw(env, status, &fault);
  return end;
}

/* A destroy function that does nothing: with it the library reports the end of what is registered. Threads: any. */
static void leave_destroyed(void *ctx) { (void)ctx; }

/* ---- submitting ---- */

/* Begins a submit: gets the runtime of the first argument, and makes an end with the key. False with an exception. */
static bool begin_end(napi_env env, napi_value object, napi_value key, tpn_runtime **ret_runtime, tp_end **ret_end) {
  uint64_t number = 0;
  *ret_runtime = tpn_usable(env, object);
  if (!*ret_runtime || !tpn_key(env, key, &number)) return false;
  *ret_end = tpn_end_new(env, *ret_runtime, number);
  return *ret_end != NULL;
}

static napi_value submitted(napi_env env, tp_end *end, tp_status status, const tp_fault *fault) {
  if (status != TP_OK || tpn_is_pending(env)) tp_end_free(end);
  return tpn_is_pending(env) ? NULL : tpn_done(env, status, fault);
}

/* drain(runtime, limit_ms, key) */
static napi_value runtime_drain(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_runtime *runtime;
  tp_end *end;
  uint64_t limit_ms = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 3, arguments) || !begin_end(env, arguments[0], arguments[2], &runtime, &end))
    return NULL;
  if (tpn_key(env, arguments[1], &limit_ms))
    status = tp_runtime_drain_submit(runtime->runtime, limit_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)limit_ms,
                                     tp_end_of_drain, end, &fault);
  return submitted(env, end, status, &fault);
}

/* jobsWait(runtime, limit_ms, key) */
static napi_value runtime_jobs_wait(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_runtime *runtime;
  tp_end *end;
  uint64_t limit_ms = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 3, arguments) || !begin_end(env, arguments[0], arguments[2], &runtime, &end))
    return NULL;
  if (tpn_key(env, arguments[1], &limit_ms))
    status = tp_jobs_wait_submit(runtime->runtime, NULL, limit_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)limit_ms,
                                 tp_end_of_jobs, end, &fault);
  return submitted(env, end, status, &fault);
}

/* ---- registering ---- */

/* hookAdd(runtime, options, key) */
static napi_value runtime_hook_add(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_arena arena;
  uint64_t key = 0;
  tp_hook hook;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  tpn_runtime *runtime = tpn_arguments(env, info, 3, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime || !tpn_key(env, arguments[2], &key)) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, arguments[1], &tpb_tp_hook, &hook, &arena)) {
    hook.inbox = runtime->inbox;
    hook.ctx = key_of(key);
    hook.destroy = leave_destroyed;
    status = tp_hook_add(runtime->runtime, &hook, &fault);
  }
  tpn_arena_end(&arena);
  return tpn_is_pending(env) ? NULL : tpn_done(env, status, &fault);
}

/* toolAdd(runtime, options, key) */
static napi_value runtime_tool_add(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_arena arena;
  uint64_t key = 0;
  tp_tool tool;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  tpn_runtime *runtime = tpn_arguments(env, info, 3, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime || !tpn_key(env, arguments[2], &key)) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, arguments[1], &tpb_tp_tool, &tool, &arena)) {
    tool.inbox = runtime->inbox;
    tool.ctx = key_of(key);
    tool.destroy = leave_destroyed;
    status = tp_tool_add(runtime->runtime, &tool, &fault);
  }
  tpn_arena_end(&arena);
  return tpn_is_pending(env) ? NULL : tpn_done(env, status, &fault);
}

typedef tp_status (*remove_fn)(tp_runtime *runtime, const char *name, tp_fault *fault);

static napi_value remove_named(napi_env env, napi_callback_info info, remove_fn remove) {
  napi_value arguments[2];
  tpn_arena arena;
  tp_fault fault = {0};
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime) return NULL;
  tpn_arena_begin(&arena);
  const char *name = tpn_chars(env, arguments[1], &arena);
  const tp_status status = name ? remove(runtime->runtime, name, &fault) : TP_OK;
  tpn_arena_end(&arena);
  return name ? tpn_done(env, status, &fault) : NULL;
}

/* hookRemove(runtime, id), toolRemove(runtime, name) */
static napi_value runtime_hook_remove(napi_env env, napi_callback_info info) {
  return remove_named(env, info, tp_hook_remove);
}
static napi_value runtime_tool_remove(napi_env env, napi_callback_info info) {
  return remove_named(env, info, tp_tool_remove);
}

/* A model of an agent or a session: a handle, or a key, for which requests come to the inbox. */
typedef struct model_given {
  tp_model own;    /* the model of a key */
  tp_model *model; /* NULL: no model */
  tpn_handle *handle;
} model_given;

/* names: a Buffer of the model's name and provider, each with a NUL, which lib/ keeps until the model is destroyed. */
static bool give_names(napi_env env, napi_value names, tp_model *model) {
  void *data = NULL;
  size_t size = 0;
  const size_t first = model->name ? strlen(model->name) : 0;
  if (napi_get_buffer_info(env, names, &data, &size) != napi_ok ||
      size != first + (model->provider ? strlen(model->provider) : 0) + 2)
    return tpn_type_error(env, "the names of a model");
  if (model->name) model->name = data;
  if (model->provider) model->provider = (const char *)data + first + 1;
  return true;
}

static bool give_model(napi_env env, tpn_runtime *runtime, napi_value object, napi_value options, napi_value names,
                       tpn_arena *arena, model_given *given) {
  napi_valuetype type = napi_undefined;
  uint64_t key = 0;
  given->model = NULL;
  given->handle = NULL;
  if (tpn_is_none(env, object)) return true;
  (void)napi_typeof(env, object, &type);
  if (type == napi_external) {
    given->handle = tpn_handle_get(env, runtime, object, TPN_MODEL);
    if (given->handle) given->model = given->handle->pointer;
    return given->handle != NULL;
  }
  if (!tpn_key(env, object, &key) || !tpn_read(env, options, &tpb_tp_model, &given->own, arena) ||
      !give_names(env, names, &given->own))
    return false;
  given->own.inbox = runtime->inbox;
  given->own.ctx = key_of(key);
  given->own.destroy = leave_destroyed;
  given->model = &given->own;
  return true;
}

/* agentAdd(runtime, options, model, model options, names of the model, key) */
static napi_value runtime_agent_add(napi_env env, napi_callback_info info) {
  napi_value arguments[6];
  tpn_runtime *runtime;
  tp_end *end;
  tpn_arena arena;
  tp_agent_config config;
  model_given given;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 6, arguments) || !begin_end(env, arguments[0], arguments[5], &runtime, &end))
    return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, arguments[1], &tpb_tp_agent_config, &config, &arena) &&
      give_model(env, runtime, arguments[2], arguments[3], arguments[4], &arena, &given)) {
    config.model = given.model;
    status = tp_agent_add_submit(runtime->runtime, &config, tp_end_of_agent, end, &fault);
    /* The model is taken when the end comes with TP_OK; lib/ keeps the handle until then, and disowns it. */
  }
  tpn_arena_end(&arena);
  return submitted(env, end, status, &fault);
}

/* disown(runtime, model): clears a handle whose object the library has taken. */
static napi_value runtime_disown(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  tpn_handle *handle = runtime ? tpn_handle_get(env, runtime, arguments[1], TPN_MODEL) : NULL;
  if (!handle) return NULL;
  handle->pointer = NULL;
  return tpn_undefined(env);
}

/* agentRemove(runtime, agent, key) */
static napi_value runtime_agent_remove(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_runtime *runtime;
  tp_end *end;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 3, arguments) || !begin_end(env, arguments[0], arguments[2], &runtime, &end))
    return NULL;
  tpn_handle *handle = tpn_handle_get(env, runtime, arguments[1], TPN_AGENT);
  if (handle) status = tp_agent_remove_submit(handle->pointer, tp_end_of_agent, end, &fault);
  if (handle && status == TP_OK) handle->pointer = NULL;
  return submitted(env, end, status, &fault);
}

/* ---- sessions and turns ---- */

/* sessionOpen(runtime, options, agent, model, model options, names of the model) -> handle */
static napi_value runtime_session_open(napi_env env, napi_callback_info info) {
  napi_value arguments[6];
  tpn_arena arena;
  tp_session_options options;
  tp_session *session = NULL;
  tpn_handle *agent = NULL;
  model_given given;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  tpn_runtime *runtime = tpn_arguments(env, info, 6, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, arguments[1], &tpb_tp_session_options, &options, &arena) &&
      give_model(env, runtime, arguments[3], arguments[4], arguments[5], &arena, &given)) {
    if (!tpn_is_none(env, arguments[2])) agent = tpn_handle_get(env, runtime, arguments[2], TPN_AGENT);
    if (agent) options.agent = agent->pointer;
    options.model = given.model;
    if (!tpn_is_pending(env)) status = tp_session_open(runtime->runtime, &options, &session, &fault);
    if (session && given.handle) given.handle->pointer = NULL; /* the library has taken the model */
  }
  tpn_arena_end(&arena);
  if (tpn_is_pending(env)) return NULL;
  return status == TP_OK ? tpn_handle_new(env, runtime, TPN_SESSION, session) : tpn_throw(env, status, &fault);
}

/* sessionClose(runtime, session, end or undefined, key) */
static napi_value runtime_session_close(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  tpn_runtime *runtime;
  tp_end *end;
  tpn_arena arena;
  tp_session_end last;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 4, arguments) || !begin_end(env, arguments[0], arguments[3], &runtime, &end))
    return NULL;
  tpn_handle *handle = tpn_handle_get(env, runtime, arguments[1], TPN_SESSION);
  tpn_arena_begin(&arena);
  if (handle && tpn_read(env, arguments[2], &tpb_tp_session_end, &last, &arena)) {
    status = tp_session_close_with(handle->pointer, &last, tp_end_of_session, end, &fault);
    if (status == TP_OK) handle->pointer = NULL;
  }
  tpn_arena_end(&arena);
  return submitted(env, end, status, &fault);
}

/* Submits a turn; with a slot as a nested turn of its call. */
static tp_status submit_turn(const tpn_slot *around, tp_session *session, const tp_turn_request *request, tp_end *end,
                             tp_submission **ret_submission, tp_fault *fault) {
  if (!around) return tp_turn_submit(session, request, tp_end_of_turn, end, ret_submission, fault);
  if (around->work->kind == TP_WORK_HANDLER)
    return tp_call_submit_turn(around->work->call, session, request, tp_end_of_turn, end, ret_submission, fault);
  if (around->work->kind == TP_WORK_TOOL)
    return tp_tool_submit_turn(around->work->run, session, request, tp_end_of_turn, end, ret_submission, fault);
  return TP_ERR_USAGE;
}

/* turnSubmit(runtime, session, id of the call around it or undefined, text, options or undefined, key) -> handle */
static napi_value runtime_turn_submit(napi_env env, napi_callback_info info) {
  napi_value arguments[6], handle = NULL;
  tpn_runtime *runtime;
  tp_end *end;
  tpn_arena arena;
  tp_turn_request request;
  tp_submission *submission = NULL;
  const tpn_slot *around = NULL;
  uint64_t key = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  const tp_fault over = {.code = TP_ERR_USAGE, .message = "the call around the turn was answered, or is over"};
  if (!tpn_arguments(env, info, 6, arguments) || !begin_end(env, arguments[0], arguments[5], &runtime, &end))
    return NULL;
  const tpn_handle *session = tpn_handle_get(env, runtime, arguments[1], TPN_SESSION);
  tpn_arena_begin(&arena);
  if (session && tpn_key(env, arguments[5], &key) &&
      tpn_read(env, arguments[4], &tpb_tp_turn_request, &request, &arena) &&
      tpn_text(env, arguments[3], &arena, &request.text)) {
    const bool is_nested = !tpn_is_none(env, arguments[2]);
    if (is_nested) around = tpn_slot_get(runtime, env, arguments[2]);
    request.data = key_of(key);
    if (is_nested && !around) tpn_throw(env, TP_ERR_USAGE, &over);
    else status = submit_turn(around, session->pointer, &request, end, &submission, &fault);
  }
  tpn_arena_end(&arena);
  if (status != TP_OK || tpn_is_pending(env)) return submitted(env, end, status, &fault);
  handle = tpn_handle_new(env, runtime, TPN_SUBMISSION, submission);
  return handle;
}

/* cancel(runtime, submission) */
static napi_value runtime_cancel(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  const tpn_handle *handle = runtime ? tpn_handle_get(env, runtime, arguments[1], TPN_SUBMISSION) : NULL;
  if (!handle) return NULL;
  tp_submission_cancel(handle->pointer);
  return tpn_undefined(env);
}

/* leave(runtime, submission): ends the use of a submission, since its handle may be collected much later. */
static napi_value runtime_leave(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_handle *handle = tpn_arguments(env, info, 2, arguments) ? handle_of(env, arguments[1]) : NULL;
  if (handle && handle->kind == TPN_SUBMISSION) {
    tp_submission_unref(handle->pointer);
    handle->pointer = NULL;
  }
  return tpn_undefined(env);
}

/* turnBegin(runtime, session, options or undefined, key) -> handle: a turn that the host drives. It submits the phase
 * that contributes the tools; its end comes with the key. */
static napi_value runtime_turn_begin(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  tpn_runtime *runtime;
  tp_end *end;
  tpn_arena arena;
  tp_turn_request request;
  tp_turn *turn = NULL;
  uint64_t key = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 4, arguments) || !begin_end(env, arguments[0], arguments[3], &runtime, &end))
    return NULL;
  const tpn_handle *session = tpn_handle_get(env, runtime, arguments[1], TPN_SESSION);
  tpn_arena_begin(&arena);
  if (session && tpn_key(env, arguments[3], &key) &&
      tpn_read(env, arguments[2], &tpb_tp_turn_request, &request, &arena)) {
    request.data = key_of(key);
    status = tp_turn_begin(session->pointer, &request, &turn, &fault);
    if (status == TP_OK)
      status = tp_phase_submit(turn, TP_PHASE_TURN_PRE_TOOL_MATERIALIZATION, NULL, tp_end_of_phase, end, &fault);
    if (status != TP_OK) tp_turn_end(turn);
  }
  tpn_arena_end(&arena);
  if (status != TP_OK || tpn_is_pending(env)) return submitted(env, end, status, &fault);
  return tpn_handle_new(env, runtime, TPN_TURN, turn);
}

/* toolsSubmit(runtime, turn, calls, key): must follow the end of the turn's earlier operation. */
static napi_value runtime_tools_submit(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  tpn_runtime *runtime;
  tp_end *end;
  tpn_arena arena;
  const void *const *calls = NULL;
  size_t count = 0;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  if (!tpn_arguments(env, info, 4, arguments) || !begin_end(env, arguments[0], arguments[3], &runtime, &end))
    return NULL;
  const tpn_handle *turn = tpn_handle_get(env, runtime, arguments[1], TPN_TURN);
  tpn_arena_begin(&arena);
  if (turn && tpn_read_list(env, arguments[2], &tpb_tp_tool_call, &arena, &calls, &count))
    status = tp_tools_submit(turn->pointer, (const tp_tool_call *const *)calls, count, tp_end_of_tools, end, &fault);
  tpn_arena_end(&arena);
  return submitted(env, end, status, &fault);
}

static tpn_handle *turn_of(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  return runtime ? tpn_handle_get(env, runtime, arguments[1], TPN_TURN) : NULL;
}

/* turnCancel(runtime, turn) */
static napi_value runtime_turn_cancel(napi_env env, napi_callback_info info) {
  const tpn_handle *turn = turn_of(env, info);
  if (!turn) return NULL;
  tp_turn_cancel(turn->pointer);
  return tpn_undefined(env);
}

/* turnEnd(runtime, turn): must follow the end of its calls. */
static napi_value runtime_turn_end(napi_env env, napi_callback_info info) {
  tpn_handle *turn = turn_of(env, info);
  if (!turn) return NULL;
  tp_turn_end(turn->pointer);
  turn->pointer = NULL;
  return tpn_undefined(env);
}

/* addMessage(runtime, submission, options) */
static napi_value runtime_add_message(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_arena arena;
  tp_added_message message;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  tpn_runtime *runtime = tpn_arguments(env, info, 3, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  const tpn_handle *handle = runtime ? tpn_handle_get(env, runtime, arguments[1], TPN_SUBMISSION) : NULL;
  if (!handle) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, arguments[2], &tpb_tp_added_message, &message, &arena))
    status = tp_submission_add_message(handle->pointer, &message, &fault);
  tpn_arena_end(&arena);
  return tpn_is_pending(env) ? NULL : tpn_done(env, status, &fault);
}

/* listen(runtime, session or undefined, kinds, key) -> id. kinds: bits 1 << tp_event_kind. */
static napi_value runtime_listen(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  tpn_handle *session = NULL;
  uint64_t key = 0, kinds = 0, id = 0;
  tp_listener listener = {.struct_size = sizeof listener};
  tp_fault fault = {0};
  tpn_runtime *runtime = tpn_arguments(env, info, 4, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime || !tpn_key(env, arguments[2], &kinds) || !tpn_key(env, arguments[3], &key)) return NULL;
  if (!tpn_is_none(env, arguments[1])) session = tpn_handle_get(env, runtime, arguments[1], TPN_SESSION);
  if (tpn_is_pending(env)) return NULL;
  listener.inbox = runtime->inbox;
  listener.ctx = key_of(key);
  listener.kinds = kinds;
  const tp_status status = session ? tp_session_listen(session->pointer, &listener, &id, &fault)
                                   : tp_runtime_listen(runtime->runtime, &listener, &id, &fault);
  return status == TP_OK ? tpn_uint(env, id) : tpn_throw(env, status, &fault);
}

/* unlisten(runtime, session, id) */
static napi_value runtime_unlisten(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  uint64_t id = 0;
  tp_fault fault = {0};
  tpn_runtime *runtime = tpn_arguments(env, info, 3, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  const tpn_handle *session = runtime ? tpn_handle_get(env, runtime, arguments[1], TPN_SESSION) : NULL;
  if (!session || !tpn_key(env, arguments[2], &id)) return NULL;
  return tpn_done(env, tp_session_unlisten(session->pointer, id, &fault), &fault);
}

/* answerQuestion(runtime, token, decision) -> whether the question was still open */
static napi_value runtime_answer_question(napi_env env, napi_callback_info info) {
  napi_value arguments[3];
  tpn_arena arena;
  uint64_t bits = 0;
  tp_decision decision;
  tp_fault fault = {0};
  tp_status status = TP_OK;
  tpn_runtime *runtime = tpn_arguments(env, info, 3, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime || !tpn_key(env, arguments[1], &bits)) return NULL;
  tpn_arena_begin(&arena);
  if (tpn_read(env, arguments[2], &tpb_tp_decision, &decision, &arena))
    status = tp_question_answer((tp_token){bits}, &decision, &fault);
  tpn_arena_end(&arena);
  if (tpn_is_pending(env)) return NULL;
  return status == TP_OK || status == TP_ERR_STALE ? tpn_bool(env, status == TP_OK) : tpn_throw(env, status, &fault);
}

const tpn_function tpn_runtime_functions[] = {
    {"drain", runtime_drain},
    {"jobsWait", runtime_jobs_wait},
    {"hookAdd", runtime_hook_add},
    {"hookRemove", runtime_hook_remove},
    {"toolAdd", runtime_tool_add},
    {"toolRemove", runtime_tool_remove},
    {"agentAdd", runtime_agent_add},
    {"agentRemove", runtime_agent_remove},
    {"disown", runtime_disown},
    {"sessionOpen", runtime_session_open},
    {"sessionClose", runtime_session_close},
    {"turnSubmit", runtime_turn_submit},
    {"cancel", runtime_cancel},
    {"leave", runtime_leave},
    {"turnBegin", runtime_turn_begin},
    {"toolsSubmit", runtime_tools_submit},
    {"turnCancel", runtime_turn_cancel},
    {"turnEnd", runtime_turn_end},
    {"addMessage", runtime_add_message},
    {"listen", runtime_listen},
    {"unlisten", runtime_unlisten},
    {"answerQuestion", runtime_answer_question},
    {NULL, NULL},
};
