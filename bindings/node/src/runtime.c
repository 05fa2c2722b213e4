/* SPDX-License-Identifier: Apache-2.0
 *
 * runtime.c: runtimes, their handles, what JavaScript registers and submits, and the work that it takes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/node/src/core.h"
#include "bindings/node/fields.h"

enum {
  AT_ONCE = 64,    /* pieces of work between two looks at the loop */
  PUMPS = 4,       /* likewise: as often what was answered at once goes on at once */
  ROW_NUMBERS = 4, /* kind, key of what it is of, key of the turn, id of the call or kind of the end */
  INDEX_BITS = 20, /* of an id: the rest is the generation */
  SLOTS_FIRST = 64
};

/* ---- handles ---- */

static void runtime_unref(tpn_runtime *runtime) {
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
  runtime_unref(handle->runtime);
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

/* For whom the library reports the end of what is registered. Threads: any. */
static void leave_destroyed(void *ctx) { (void)ctx; }

/* ---- calls that were taken ---- */

static uint32_t hash_of(const tpn_runtime *runtime, tp_token token) {
  return (uint32_t)((token.bits * 0x9e3779b97f4a7c15ULL) >> 40) & (runtime->slot_count - 1);
}

static void link_slot(tpn_runtime *runtime, uint32_t at) {
  uint32_t *first = &runtime->hashes[hash_of(runtime, runtime->slots[at].token)];
  runtime->slots[at].next = *first;
  *first = at + 1;
}

/* Twice as many; those that are open are found by their tokens again. */
static bool grow_slots(tpn_runtime *runtime) {
  const uint32_t count = runtime->slot_count ? 2 * runtime->slot_count : SLOTS_FIRST;
  if (count > 1U << INDEX_BITS) return false;
  tpn_slot *slots = realloc(runtime->slots, count * sizeof *slots);
  if (slots) runtime->slots = slots;
  uint32_t *hashes = realloc(runtime->hashes, count * sizeof *hashes);
  if (hashes) runtime->hashes = hashes;
  if (!slots || !hashes) return false;
  memset(slots + runtime->slot_count, 0, (count - runtime->slot_count) * sizeof *slots);
  memset(hashes, 0, count * sizeof *hashes);
  for (uint32_t i = runtime->slot_count; i < count; i++) slots[i].next = i + 1 < count ? i + 2 : 0;
  runtime->slot_free = runtime->slot_count + 1; /* there was no free one */
  const uint32_t open = runtime->slot_count;
  runtime->slot_count = count;
  for (uint32_t i = 0; i < open; i++) link_slot(runtime, i);
  return true;
}

static double id_of(const tpn_runtime *runtime, uint32_t at) {
  return (double)((uint64_t)runtime->slots[at].generation << INDEX_BITS | at);
}

double tpn_slot_new(tpn_runtime *runtime, const tp_work *work) {
  if (!runtime->slot_free && !grow_slots(runtime)) return -1;
  const uint32_t at = runtime->slot_free - 1;
  tpn_slot *slot = &runtime->slots[at];
  runtime->slot_free = slot->next;
  slot->work = work;
  slot->token = work->token;
  slot->generation++;
  link_slot(runtime, at);
  return id_of(runtime, at);
}

double tpn_slot_find(const tpn_runtime *runtime, tp_token token) {
  if (!runtime->slot_count) return -1;
  for (uint32_t at = runtime->hashes[hash_of(runtime, token)]; at; at = runtime->slots[at - 1].next)
    if (runtime->slots[at - 1].token.bits == token.bits) return id_of(runtime, at - 1);
  return -1;
}

tpn_slot *tpn_slot_get(tpn_runtime *runtime, napi_env env, napi_value id) {
  double number = -1;
  (void)napi_get_value_double(env, id, &number);
  if (!(number >= 0)) return NULL;
  const uint64_t bits = (uint64_t)number;
  const uint64_t at = bits & ((1U << INDEX_BITS) - 1);
  if (at >= runtime->slot_count) return NULL;
  tpn_slot *slot = &runtime->slots[at];
  return slot->work && slot->generation == bits >> INDEX_BITS ? slot : NULL;
}

void tpn_slot_end(tpn_runtime *runtime, tpn_slot *slot) {
  const uint32_t at = (uint32_t)(slot - runtime->slots);
  uint32_t *link = &runtime->hashes[hash_of(runtime, slot->token)];
  while (*link != at + 1) link = &runtime->slots[*link - 1].next;
  *link = slot->next;
  slot->work = NULL;
  slot->next = runtime->slot_free;
  runtime->slot_free = at + 1;
}

/* Calls that will have no answer: what waits for them ends now, and not at its limit. */
static void abandon_slots(tpn_runtime *runtime) {
  for (uint32_t i = 0; i < runtime->slot_count; i++) {
    if (!runtime->slots[i].work) continue;
    (void)tp_token_abandon(runtime->slots[i].token, NULL);
    tpn_slot_end(runtime, &runtime->slots[i]);
  }
}

/* ---- taking ---- */

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

/* Writes its row. @return its payload; NULL: none. */
static napi_value show_work(napi_env env, tpn_runtime *runtime, const tp_work *work, double *row) {
  void *turn = NULL;
  napi_value payload = NULL;
  row[0] = work->kind;
  row[1] = number_of_key(work->ctx);
  row[2] = 0;
  row[3] = -1;
  if (work->kind <= TP_WORK_MODEL && !runtime->runtime)
    return NULL; /* it is gone, and with it what the call points to */
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

/* Takes what waits, at most AT_ONCE pieces. @return how many are in rows; *ret_payloads gets an array, or undefined. */
static uint32_t take(napi_env env, tpn_runtime *runtime, napi_value *ret_payloads) {
  const tp_work *works[AT_ONCE];
  size_t count = 0;
  uint32_t used = 0;
  napi_value payloads = NULL;
  *ret_payloads = tpn_undefined(env);
  if (tp_inbox_take(runtime->inbox, works, AT_ONCE, &count) != TP_OK) return 0;
  for (size_t i = 0; i < count; i++) {
    double *row = runtime->rows + (size_t)ROW_NUMBERS * used;
    napi_value payload = show_work(env, runtime, works[i], row);
    const bool is_call = works[i]->kind <= TP_WORK_MODEL;
    if (is_call) row[3] = tpn_slot_new(runtime, works[i]);
    const bool is_kept = is_call ? row[3] >= 0 : !tpn_is_pending(env);
    if (is_call && !is_kept) (void)tp_token_abandon(works[i]->token, NULL); /* without memory: it fails at once */
    if (!is_call) (void)tp_work_release(works[i]);
    if (tpn_is_pending(env)) { /* what could not be shown is named, and the next ones are not lost */
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

/* ready(count, payloads): the function of lib/ for what is in rows; count -1: payloads are log records. */
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

static void on_ready(uv_poll_t *poll, int status, int events) {
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

/* Runs what is ready of a runtime without threads, and gives what comes of it to lib/. Functions that answer without
 * waiting have answered when call_ready() returns, so that the next step of their turns is ready. */
static void pump(tpn_runtime *runtime) {
  napi_env env = runtime->env;
  int wait_ms = 0;
  uint32_t count = 1;
  for (int i = 0; i < PUMPS && count && !runtime->is_ended; i++) {
    napi_handle_scope scope;
    napi_value payloads;
    /* It fails where a thread that frees or waits pumps: then the descriptor says when to come again. */
    if (tp_runtime_pump(runtime->runtime, AT_ONCE, &wait_ms, NULL) != TP_OK) return;
    if (napi_open_handle_scope(env, &scope) != napi_ok) return;
    count = take(env, runtime, &payloads);
    if (count) call_ready(env, runtime, count, payloads);
    (void)napi_close_handle_scope(env, scope);
  }
  if (runtime->is_ended || !runtime->is_pumped) return;
  /* While something is ready the descriptor is readable: a timer of 0 ms would keep libuv from all else. */
  if (wait_ms > 0) (void)uv_timer_start(&runtime->pump_time, on_pump_time, (uint64_t)wait_ms, 0);
  else (void)uv_timer_stop(&runtime->pump_time);
}

static void on_pump_time(uv_timer_t *timer) {
  tpn_runtime *runtime = timer->data;
  if (!runtime->is_ended) pump(runtime);
}

static void on_pump(uv_poll_t *poll, int status, int events) {
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

/* An array of what was logged since. */
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

static void on_log(uv_poll_t *poll, int status, int events) {
  tpn_runtime *runtime = poll->data;
  napi_handle_scope scope;
  (void)status, (void)events;
  if (runtime->is_ended || napi_open_handle_scope(runtime->env, &scope) != napi_ok) return;
  napi_value list = take_logs(runtime->env, runtime);
  if (list) call_ready(runtime->env, runtime, -1, list);
  (void)napi_close_handle_scope(runtime->env, scope);
}

/* ---- making and freeing ---- */

static void on_closed(uv_handle_t *handle) {
  tpn_runtime *runtime = handle->data;
  if (--runtime->handles) return;
  if (runtime->cleanup) (void)napi_remove_async_cleanup_hook(runtime->cleanup);
  runtime->cleanup = NULL;
  runtime_unref(runtime);
}

/* Ends what belongs to the environment. The rest ends with the last handle. */
static void close_polls(tpn_runtime *runtime) {
  napi_env env = runtime->env;
  runtime->is_ended = runtime->is_closed = true;
  if (runtime->ready) (void)napi_delete_reference(env, runtime->ready);
  if (runtime->rows_ref) (void)napi_delete_reference(env, runtime->rows_ref);
  if (runtime->context) (void)napi_async_destroy(env, runtime->context);
  runtime->ready = runtime->rows_ref = NULL;
  runtime->context = NULL;
  runtime->rows = NULL;
  if (runtime->is_polled) {
    runtime->is_polled = false;
    uv_close((uv_handle_t *)&runtime->poll, on_closed);
    uv_close((uv_handle_t *)&runtime->log_poll, on_closed);
    if (runtime->is_pumped) {
      uv_close((uv_handle_t *)&runtime->pump_poll, on_closed);
      uv_close((uv_handle_t *)&runtime->pump_time, on_closed);
    }
  } else if (runtime->cleanup) { /* it was never polled */
    (void)napi_remove_async_cleanup_hook(runtime->cleanup);
    runtime->cleanup = NULL;
    runtime_unref(runtime);
  }
}

/* It comes to nothing of the loop any more, except for log records. */
static void stop_polls(tpn_runtime *runtime) {
  if (!runtime->is_polled) return;
  (void)uv_poll_stop(&runtime->poll);
  if (!runtime->is_pumped) return;
  (void)uv_poll_stop(&runtime->pump_poll);
  (void)uv_timer_stop(&runtime->pump_time);
}

static void free_inbox(tpn_runtime *runtime) {
  abandon_slots(runtime);
  tp_inbox_free(runtime->inbox);
  tpb_logs_free(runtime->logs);
  runtime->inbox = NULL;
  runtime->logs = NULL;
}

/* The environment ends: the process, a worker. Turns are cancelled, and nothing of the library is left running. */
static void on_cleanup(napi_async_cleanup_hook_handle handle, void *data) {
  tpn_runtime *runtime = data;
  (void)handle;
  stop_polls(runtime);
  if (runtime->is_polled) (void)uv_poll_stop(&runtime->log_poll);
  runtime->is_ended = runtime->is_cleaned = true;
  if (runtime->jobs || runtime->is_closed) return; /* the last job closes it */
  tp_runtime_free(runtime->runtime);
  runtime->runtime = NULL;
  free_inbox(runtime);
  close_polls(runtime);
}

static void on_job(napi_env env, void *data) {
  tpn_job *job = data;
  (void)env;
  job->run(job);
}

static void on_job_end(napi_env env, napi_status state, void *data) {
  tpn_job *job = data;
  tpn_runtime *runtime = job->runtime;
  if (state == napi_cancelled) job->status = TP_ERR_CANCELLED;
  runtime->references++;
  napi_value value = job->end ? job->end(env, job) : tpn_undefined(env), error = NULL;
  if (tpn_is_pending(env)) (void)napi_get_and_clear_last_exception(env, &error);
  else if (job->status != TP_OK) error = tpn_error(env, job->status, &job->fault);
  if (error) (void)napi_reject_deferred(env, job->deferred, error);
  else if (value) (void)napi_resolve_deferred(env, job->deferred, value);
  runtime->jobs--;
  (void)napi_delete_async_work(env, job->work);
  tpn_job_free(job);
  if (!runtime->jobs && runtime->is_cleaned) on_cleanup(runtime->cleanup, runtime);
  runtime_unref(runtime);
}

tpn_job *tpn_job_new(napi_env env, tpn_runtime *runtime) {
  tpn_job *job = malloc(sizeof *job);
  if (!job) {
    tpn_throw(env, TP_ERR_NO_MEMORY, NULL);
    return NULL;
  }
  memset(job, 0, offsetof(tpn_job, arena));
  job->deferred = NULL;
  job->work = NULL;
  tpn_arena_begin(&job->arena);
  job->runtime = runtime;
  runtime->references++;
  return job;
}

void tpn_job_free(tpn_job *job) {
  tpn_arena_end(&job->arena);
  runtime_unref(job->runtime);
  free(job);
}

napi_value tpn_job_start(napi_env env, tpn_job *job) {
  napi_value promise = NULL;
  napi_value name = tpn_name(env, "turnphase", false);
  if (napi_create_promise(env, &job->deferred, &promise) == napi_ok &&
      napi_create_async_work(env, NULL, name, on_job, on_job_end, job, &job->work) == napi_ok &&
      napi_queue_async_work(env, job->work) == napi_ok) {
    job->runtime->jobs++;
    return promise;
  }
  tpn_job_free(job);
  if (!tpn_is_pending(env)) tpn_throw(env, TP_ERR_NO_MEMORY, NULL);
  return NULL;
}

/* A channel whose questions are read from their events (TP_EVENT_QUESTION). Threads: any. */
static void leave_question(void *ctx, const tp_question *question) { (void)ctx, (void)question; }

typedef struct opening {
  tp_runtime_options options;
  const void *database; /* NULL: none */
} opening;

static void open_runtime(tpn_job *job) {
  opening *to = job->data;
  tpn_runtime *runtime = job->runtime;
  tpn_database database = {0};
  to->options.log = tpb_logs_write;
  to->options.log_ctx = runtime->logs;
  if (to->database) job->status = tpn_database_open(to->database, &database, &job->fault);
  to->options.store = database.store;
  to->options.shared_history = database.history;
  if (job->status == TP_OK) job->status = tp_runtime_new(&to->options, &runtime->runtime, &job->fault);
  if (job->status != TP_OK) tp_store_free(database.store);
  tp_shared_history_unref(database.history);
  if (job->status == TP_OK) job->status = tp_inbox_new(runtime->runtime, NULL, &runtime->inbox, &job->fault);
  if (job->status == TP_OK || !runtime->runtime) return;
  tp_runtime_free(runtime->runtime);
  runtime->runtime = NULL;
}

static bool begin_polls(napi_env env, tpn_runtime *runtime) {
  uv_loop_t *loop = NULL;
  const tp_fault fault = {.code = TP_ERR_SYSTEM, .message = "the loop of Node cannot poll the inbox"};
  runtime->poll.data = runtime->log_poll.data = runtime;
  if (napi_get_uv_event_loop(env, &loop) != napi_ok ||
      uv_poll_init(loop, &runtime->poll, tp_inbox_fd(runtime->inbox)) != 0)
    return tpn_throw(env, TP_ERR_SYSTEM, &fault) != NULL;
  if (uv_poll_init(loop, &runtime->log_poll, tpb_logs_fd(runtime->logs)) != 0) {
    runtime->handles = 1;
    runtime->references++;
    uv_close((uv_handle_t *)&runtime->poll, on_closed);
    return tpn_throw(env, TP_ERR_SYSTEM, &fault) != NULL;
  }
  runtime->handles = 2;
  runtime->is_polled = true;
  (void)uv_poll_start(&runtime->poll, UV_READABLE, on_ready);
  (void)uv_poll_start(&runtime->log_poll, UV_READABLE, on_log);
  uv_unref((uv_handle_t *)&runtime->poll); /* lib/ refs it while something is awaited */
  uv_unref((uv_handle_t *)&runtime->log_poll);
  return true;
}

static napi_value opened(napi_env env, tpn_job *job) {
  tpn_runtime *runtime = job->runtime;
  napi_value handle = NULL;
  if (runtime->is_ended) return NULL; /* the environment ends: on_cleanup() frees it */
  if (job->status == TP_OK && begin_polls(env, runtime)) handle = tpn_handle_new(env, runtime, TPN_RUNTIME, NULL);
  if (handle) return handle;
  tp_runtime_free(runtime->runtime);
  runtime->runtime = NULL;
  free_inbox(runtime);
  close_polls(runtime);
  return NULL;
}

static tpn_runtime *make_runtime(napi_env env, napi_value ready, napi_value rows) {
  napi_typedarray_type type = napi_int8_array;
  size_t count = 0;
  void *data = NULL;
  napi_value name = tpn_name(env, "turnphase", false);
  (void)napi_get_typedarray_info(env, rows, &type, &count, &data, NULL, NULL);
  if (type != napi_float64_array || count < (size_t)AT_ONCE * ROW_NUMBERS)
    return tpn_type_error(env, "a Float64Array of %d numbers is wanted", AT_ONCE * ROW_NUMBERS), NULL;
  tpn_runtime *runtime = calloc(1, sizeof *runtime);
  if (runtime) runtime->logs = tpb_logs_new();
  if (!runtime || !runtime->logs) {
    free(runtime);
    return tpn_throw(env, TP_ERR_NO_MEMORY, NULL), NULL;
  }
  runtime->env = env;
  runtime->rows = data;
  runtime->references = 1; /* of the environment */
  (void)napi_create_reference(env, ready, 1, &runtime->ready);
  (void)napi_create_reference(env, rows, 1, &runtime->rows_ref);
  (void)napi_async_init(env, NULL, name, &runtime->context);
  (void)napi_add_async_cleanup_hook(env, on_cleanup, runtime, &runtime->cleanup);
  return runtime;
}

/* open(options, database or undefined, asks, ready, rows) -> promise of a handle */
static napi_value runtime_open(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  bool asks = false;
  if (!tpn_arguments(env, info, 5, arguments)) return NULL;
  (void)napi_get_value_bool(env, arguments[2], &asks);
  tpn_runtime *runtime = make_runtime(env, arguments[3], arguments[4]);
  tpn_job *job = runtime ? tpn_job_new(env, runtime) : NULL;
  opening *to = job ? tpn_alloc(env, &job->arena, sizeof *to) : NULL;
  if (to && tpn_read(env, arguments[0], &tpb_tp_runtime_options, &to->options, &job->arena)) {
    if (asks) to->options.ask = leave_question;
    if (!tpn_is_none(env, arguments[1])) to->database = tpn_database_read(env, arguments[1], &job->arena);
  }
  if (to && !tpn_is_pending(env)) {
    job->data = to;
    job->run = open_runtime;
    job->end = opened;
    return tpn_job_start(env, job);
  }
  if (job) tpn_job_free(job);
  if (runtime) {
    free_inbox(runtime);
    close_polls(runtime);
  }
  return NULL;
}

static void start_runtime(tpn_job *job) { job->status = tp_runtime_start(job->runtime->runtime, &job->fault); }

/* A job that needs the runtime only. */
static napi_value simple_job(napi_env env, napi_callback_info info, void (*run)(tpn_job *),
                             napi_value (*end)(napi_env, tpn_job *)) {
  napi_value object;
  tpn_runtime *runtime = tpn_arguments(env, info, 1, &object) ? tpn_usable(env, object) : NULL;
  tpn_job *job = runtime ? tpn_job_new(env, runtime) : NULL;
  if (!job) return NULL;
  job->run = run;
  job->end = end;
  return tpn_job_start(env, job);
}

/* The loop pumps a runtime without threads from now on. */
static napi_value started(napi_env env, tpn_job *job) {
  tpn_runtime *runtime = job->runtime;
  uv_loop_t *loop = NULL;
  const int fd = job->status == TP_OK ? tp_runtime_fd(runtime->runtime) : -1;
  if (fd < 0 || !runtime->is_polled || runtime->is_ended) return tpn_undefined(env);
  const tp_fault fault = {.code = TP_ERR_SYSTEM, .message = "the loop of Node cannot poll the runtime"};
  if (napi_get_uv_event_loop(env, &loop) != napi_ok || uv_poll_init(loop, &runtime->pump_poll, fd) != 0)
    return tpn_throw(env, TP_ERR_SYSTEM, &fault);
  (void)uv_timer_init(loop, &runtime->pump_time);
  runtime->pump_poll.data = runtime->pump_time.data = runtime;
  runtime->handles += 2;
  runtime->is_pumped = true;
  (void)uv_poll_start(&runtime->pump_poll, UV_READABLE, on_pump);
  uv_unref((uv_handle_t *)&runtime->pump_poll); /* that of the inbox keeps the loop alive */
  uv_unref((uv_handle_t *)&runtime->pump_time);
  return tpn_undefined(env);
}

/* start(runtime) -> promise */
static napi_value runtime_start(napi_env env, napi_callback_info info) {
  return simple_job(env, info, start_runtime, started);
}

static void free_runtime(tpn_job *job) { tp_runtime_free(job->runtime->runtime); }

/* What the end of the runtime has put into the inbox is taken, and given to lib/. */
static napi_value freed(napi_env env, tpn_job *job) {
  tpn_runtime *runtime = job->runtime;
  napi_value payloads;
  if (job->status != TP_OK) tp_runtime_free(runtime->runtime); /* the environment ends, and the pool did not do it */
  runtime->runtime = NULL;
  for (uint32_t count = 1; count && runtime->rows;) {
    count = take(env, runtime, &payloads);
    if (count) call_ready(env, runtime, count, payloads);
  }
  napi_value logs = runtime->rows ? take_logs(env, runtime) : NULL;
  if (logs) call_ready(env, runtime, -1, logs);
  stop_polls(runtime);
  if (runtime->is_polled) (void)uv_poll_stop(&runtime->log_poll);
  free_inbox(runtime);
  close_polls(runtime);
  return tpn_undefined(env);
}

/* free(runtime) -> promise. Calls that are open are abandoned: no other function may use it from now on. */
static napi_value runtime_free(napi_env env, napi_callback_info info) {
  napi_value object;
  tpn_runtime *runtime = tpn_arguments(env, info, 1, &object) ? tpn_usable(env, object) : NULL;
  const tp_fault fault = {.code = TP_ERR_USAGE, .message = "the runtime is in use: await what was begun"};
  if (!runtime) return NULL;
  if (runtime->jobs) return tpn_throw(env, TP_ERR_USAGE, &fault);
  stop_polls(runtime);
  abandon_slots(runtime);
  napi_value promise = simple_job(env, info, free_runtime, freed);
  if (promise) runtime->is_ended = true;
  return promise;
}

/* ref(runtime, whether something is awaited): then the loop stays alive. */
static napi_value runtime_ref(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  bool is_awaited = false;
  tpn_runtime *runtime = tpn_arguments(env, info, 2, arguments) ? tpn_usable(env, arguments[0]) : NULL;
  if (!runtime) return NULL;
  (void)napi_get_value_bool(env, arguments[1], &is_awaited);
  if (is_awaited) uv_ref((uv_handle_t *)&runtime->poll);
  else uv_unref((uv_handle_t *)&runtime->poll);
  return tpn_undefined(env);
}

/* ---- submitting ---- */

/* The runtime of the first argument and the end of a key. False with an exception. */
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

/* A model of an agent or a session: a handle, or a key, whose requests come to the inbox. */
typedef struct model_given {
  tp_model own;    /* of a key */
  tp_model *model; /* NULL: none */
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
    /* It is taken when the end comes with TP_OK; lib/ keeps the handle until then, and disowns it. */
  }
  tpn_arena_end(&arena);
  return submitted(env, end, status, &fault);
}

/* disown(runtime, model): of a handle whose object the library has taken. */
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
    if (session && given.handle) given.handle->pointer = NULL; /* taken */
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

/* Submits a turn, within the call of a slot where there is one. */
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

/* leave(runtime, submission): it is not needed any more. Its handle may be collected much later. */
static napi_value runtime_leave(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  tpn_handle *handle = tpn_arguments(env, info, 2, arguments) ? handle_of(env, arguments[1]) : NULL;
  if (handle && handle->kind == TPN_SUBMISSION) {
    tp_submission_unref(handle->pointer);
    handle->pointer = NULL;
  }
  return tpn_undefined(env);
}

/* turnBegin(runtime, session, options or undefined, key) -> handle: a turn that the host drives. Its tools come with
 * the end of the phase that is submitted here. */
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

/* toolsSubmit(runtime, turn, calls, key): after the end of what runs of the turn. */
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

/* turnEnd(runtime, turn): after the end of its calls was taken. */
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

/* answerQuestion(runtime, token, decision) -> whether it was still open */
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
    {"open", runtime_open},
    {"start", runtime_start},
    {"free", runtime_free},
    {"ref", runtime_ref},
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
