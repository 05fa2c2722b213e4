/* SPDX-License-Identifier: Apache-2.0
 *
 * take.c: passes the work of the inbox and log records from a runtime to the loop, and runs the work of a runtime
 * without threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/node/src/core.h"
#include "bindings/node/fields.h"

enum {
  PUMPS = 4 /* how often it pumps before the loop runs again: each time, calls that were answered at once go on at
                    once */
};

static napi_value phase_error(napi_env env, const tp_phase_result *phase) {
  tp_fault fault = {.code = phase->outcome};
  (void)snprintf(fault.message, sizeof fault.message, "%.*s", (int)phase->reason.size, phase->reason.data);
  return tpn_error(env, phase->outcome, &fault);
}

static napi_value show_end(napi_env env, tpn_runtime *runtime, const tp_work_end *end) {
  switch (end->kind) {
    case TP_END_TURN:
      return tpn_show(env, end->turn, &tpb_tp_turn_result);
    case TP_END_DRAIN:
      return tpn_show(env, end->drain, &tpb_tp_drain_report);
    case TP_END_AGENT:
      if (end->agent->agent) return tpn_handle_new(env, runtime, TPN_AGENT, end->agent->agent);
      return end->agent->status == TP_OK ? tpn_undefined(env) : tpn_error(env, end->agent->status, end->agent->fault);
    case TP_END_PHASE:
      return end->phase->outcome == TP_OK ? tpn_undefined(env) : phase_error(env, end->phase);
    case TP_END_TOOLS:
      return tpn_show_list(env, (const void *const *)end->results, end->result_count, &tpb_tp_tool_result);
    case TP_END_JOBS:
      return tpn_int(env, end->jobs->status);
    default:
      return tpn_undefined(env);
  }
}

static bool set_id(napi_env env, napi_value object, const char *name, tp_text id) {
  return !id.size || napi_set_property(env, object, tpn_name(env, name, true), tpn_string(env, id)) == napi_ok;
}

static napi_value show_event(napi_env env, const tp_event *event) {
  static const char *const names[] = {"tenant_id", "agent_id", "workspace_id", "session_id", "thread_id", "turn_id"};
  napi_value shown = tpn_show(env, event, &tpb_tp_event);
  if (shown && event->question &&
      napi_set_property(env, shown, tpn_name(env, "question_token", true),
                        tpn_uint(env, event->question->token.bits)) != napi_ok)
    return NULL;
  for (uint32_t i = 0; shown && i < event->id_count && i < sizeof names / sizeof *names; i++)
    if (!set_id(env, shown, names[i], event->ids[i])) return NULL;
  return shown;
}

static double number_of_key(const void *key) { return (double)(uintptr_t)key; }

/* Writes the row of a work. @return its payload; NULL: none. */
static napi_value show_work(napi_env env, tpn_runtime *runtime, const tp_work *work, double *row) {
  void *turn = NULL;
  napi_value payload = NULL;
  row[0] = work->kind;
  row[1] = number_of_key(work->ctx);
  row[2] = 0;
  row[3] = -1;
  if (work->kind <= TP_WORK_MODEL && !runtime->runtime)
    return NULL; /* the object is gone, and with it everything that the call points to */
  switch (work->kind) {
    case TP_WORK_HANDLER:
      turn = tp_call_data(work->call, TP_ID_TURN);
      break;
    case TP_WORK_TOOL:
      turn = tp_tool_run_data(work->run, TP_ID_TURN);
      break;
    case TP_WORK_MODEL:
      turn = tp_model_request_data(work->request, TP_ID_TURN);
      break;
    case TP_WORK_EVENT:
      turn = tp_event_data(work->event, TP_ID_TURN);
      payload = show_event(env, work->event);
      break;
    case TP_WORK_END:
      row[3] = work->end->kind;
      payload = show_end(env, runtime, work->end);
      break;
    case TP_WORK_CANCEL:
      row[3] = tpn_slot_find(runtime, work->token);
      break;
    default:
      break;
  }
  row[2] = number_of_key(turn);
  return payload;
}

/* Takes waiting work, at most TPN_AT_ONCE pieces.
 * @return how many are in rows; *ret_payloads gets an array, or undefined. */
static uint32_t take(napi_env env, tpn_runtime *runtime, napi_value *ret_payloads) {
  const tp_work *works[TPN_AT_ONCE];
  size_t count = 0;
  uint32_t used = 0;
  napi_value payloads = NULL;
  *ret_payloads = tpn_undefined(env);
  if (tp_inbox_take(runtime->inbox, works, TPN_AT_ONCE, &count) != TP_OK) return 0;
  for (size_t i = 0; i < count; i++) {
    double *row = runtime->rows + (size_t)TPN_ROW_NUMBERS * used;
    napi_value payload = show_work(env, runtime, works[i], row);
    const bool is_call = works[i]->kind <= TP_WORK_MODEL;
    if (is_call) row[3] = tpn_slot_new(runtime, works[i]);
    const bool is_kept = is_call ? row[3] >= 0 : !tpn_is_pending(env);
    if (is_call && !is_kept) (void)tp_token_abandon(works[i]->token, NULL); /* without memory the call fails at once */
    if (!is_call) (void)tp_work_release(works[i]);
    if (tpn_is_pending(env)) { /* an exception while showing a work is reported, and the following works are not lost */
      napi_value error;
      if (napi_get_and_clear_last_exception(env, &error) == napi_ok) payload = error;
    } else if (!is_kept) {
      continue;
    }
    if (payload && !payloads && napi_create_array(env, &payloads) == napi_ok) *ret_payloads = payloads;
    if (payload && payloads) (void)napi_set_element(env, payloads, used, payload);
    used++;
  }
  return used;
}

/* Calls ready(count, payloads), the function of lib/ for the works in rows; count -1: payloads are log records. */
static void call_ready(napi_env env, tpn_runtime *runtime, double count, napi_value payloads) {
  napi_value function, receiver, result, arguments[2] = {NULL, payloads};
  if (napi_get_reference_value(env, runtime->ready, &function) != napi_ok || !function ||
      napi_get_global(env, &receiver) != napi_ok || napi_create_double(env, count, &arguments[0]) != napi_ok)
    return;
  if (napi_make_callback(env, runtime->context, receiver, function, 2, arguments, &result) != napi_pending_exception)
    return;
  napi_value error;
  if (napi_get_and_clear_last_exception(env, &error) == napi_ok) (void)napi_fatal_exception(env, error);
}

void tpn_on_ready(uv_poll_t *poll, int status, int events) {
  tpn_runtime *runtime = poll->data;
  napi_env env = runtime->env;
  napi_handle_scope scope;
  napi_value payloads;
  (void)status, (void)events;
  if (runtime->is_ended || napi_open_handle_scope(env, &scope) != napi_ok) return;
  const uint32_t count = take(env, runtime, &payloads);
  if (count) call_ready(env, runtime, count, payloads);
  (void)napi_close_handle_scope(env, scope);
}

static void on_pump_time(uv_timer_t *timer);

/* Runs what is ready of a runtime without threads, and passes the resulting work to lib/. Functions that answer without
 * waiting have answered when call_ready() returns, so that the next step of their turns is ready. */
static void pump(tpn_runtime *runtime) {
  napi_env env = runtime->env;
  int wait_ms = 0;
  uint32_t count = 1;
  for (int i = 0; i < PUMPS && count && !runtime->is_ended; i++) {
    napi_handle_scope scope;
    napi_value payloads;
    /* It fails while another thread pumps, to free the runtime or to wait: then the descriptor becomes readable
     * later. */
    if (tp_runtime_pump(runtime->runtime, TPN_AT_ONCE, &wait_ms, NULL) != TP_OK) return;
    if (napi_open_handle_scope(env, &scope) != napi_ok) return;
    count = take(env, runtime, &payloads);
    if (count) call_ready(env, runtime, count, payloads);
    (void)napi_close_handle_scope(env, scope);
  }
  if (runtime->is_ended || !runtime->is_pumped) return;
  /* While something is ready the descriptor is readable; a timer of 0 ms would keep libuv from all other work. */
  if (wait_ms > 0) (void)uv_timer_start(&runtime->pump_time, on_pump_time, (uint64_t)wait_ms, 0);
  else (void)uv_timer_stop(&runtime->pump_time);
}

static void on_pump_time(uv_timer_t *timer) {
  tpn_runtime *runtime = timer->data;
  if (!runtime->is_ended) pump(runtime);
}

void tpn_on_pump(uv_poll_t *poll, int status, int events) {
  tpn_runtime *runtime = poll->data;
  (void)status, (void)events;
  if (!runtime->is_ended) pump(runtime);
}

static napi_value log_object(napi_env env, const tpb_log_row *row, unsigned long lost) {
  napi_value object = NULL, number = NULL;
  const char *const names[] = {"message", "subscription", "turn_id", "session_id"};
  const char *const texts[] = {row ? row->message : "log records were lost: too many at once",
                               row ? row->subscription : "", row ? row->turn : "", row ? row->session : ""};
  if (napi_create_object(env, &object) != napi_ok) return NULL;
  napi_value level = tpn_word(env, &tpb_tp_log_level, row ? row->level : TP_LOG_WARNING);
  (void)napi_set_property(env, object, tpn_name(env, "level", false), level);
  (void)napi_create_int64(env, row ? row->unix_ms : 0, &number);
  (void)napi_set_property(env, object, tpn_name(env, "unix_ms", true), number);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) (void)set_id(env, object, names[i], tp_text_of(texts[i]));
  (void)napi_create_int64(env, (int64_t)lost, &number);
  if (!row) (void)napi_set_property(env, object, tpn_name(env, "lost", false), number);
  return object;
}

/* Takes an array of the records that were logged meanwhile. */
static napi_value take_logs(napi_env env, tpn_runtime *runtime) {
  napi_value list = NULL, item;
  uint32_t at = 0;
  unsigned long lost = 0;
  tpb_log_row *row = malloc(sizeof *row);
  if (!row || napi_create_array(env, &list) != napi_ok) {
    free(row);
    return NULL;
  }
  while (tpb_logs_next(runtime->logs, row, &lost)) {
    item = log_object(env, row, 0);
    if (item) (void)napi_set_element(env, list, at++, item);
  }
  item = lost ? log_object(env, NULL, lost) : NULL;
  if (item) (void)napi_set_element(env, list, at++, item);
  free(row);
  return list;
}

void tpn_on_log(uv_poll_t *poll, int status, int events) {
  tpn_runtime *runtime = poll->data;
  napi_handle_scope scope;
  (void)status, (void)events;
  if (runtime->is_ended || napi_open_handle_scope(runtime->env, &scope) != napi_ok) return;
  napi_value list = take_logs(runtime->env, runtime);
  if (list) call_ready(runtime->env, runtime, -1, list);
  (void)napi_close_handle_scope(runtime->env, scope);
}

void tpn_take_all(napi_env env, tpn_runtime *runtime) {
  napi_value payloads;
  for (uint32_t count = 1; count && runtime->rows;) {
    count = take(env, runtime, &payloads);
    if (count) call_ready(env, runtime, count, payloads);
  }
  napi_value logs = runtime->rows ? take_logs(env, runtime) : NULL;
  if (logs) call_ready(env, runtime, -1, logs);
}
