/* SPDX-License-Identifier: Apache-2.0
 *
 * life.c: opens, starts and frees a runtime, in the loop and on threads of libuv's pool. */
#include <stdlib.h>
#include <string.h>

#include "bindings/node/src/core.h"
#include "bindings/node/fields.h"

static void on_closed(uv_handle_t *handle) {
  tpn_runtime *runtime = handle->data;
  if (--runtime->handles) return;
  if (runtime->cleanup) (void)napi_remove_async_cleanup_hook(runtime->cleanup);
  runtime->cleanup = NULL;
  tpn_runtime_unref(runtime);
}

/* Ends the parts that belong to the environment. The rest ends with the last handle. */
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
    tpn_runtime_unref(runtime);
  }
}

/* Stops the polls, so that nothing but log records comes to the loop any more. */
static void stop_polls(tpn_runtime *runtime) {
  if (!runtime->is_polled) return;
  (void)uv_poll_stop(&runtime->poll);
  if (!runtime->is_pumped) return;
  (void)uv_poll_stop(&runtime->pump_poll);
  (void)uv_timer_stop(&runtime->pump_time);
}

static void free_inbox(tpn_runtime *runtime) {
  tpn_slots_abandon(runtime);
  tp_inbox_free(runtime->inbox);
  tpb_logs_free(runtime->logs);
  runtime->inbox = NULL;
  runtime->logs = NULL;
}

/* Called when the environment (a process or a worker) ends. Turns are cancelled, and nothing of the library keeps
 * running. */
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
  tpn_runtime_unref(runtime);
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
  tpn_runtime_unref(job->runtime);
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
  const void *database; /* NULL: no database */
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
  (void)uv_poll_start(&runtime->poll, UV_READABLE, tpn_on_ready);
  (void)uv_poll_start(&runtime->log_poll, UV_READABLE, tpn_on_log);
  uv_unref((uv_handle_t *)&runtime->poll); /* lib/ refs the poll while something is awaited */
  uv_unref((uv_handle_t *)&runtime->log_poll);
  return true;
}

static napi_value opened(napi_env env, tpn_job *job) {
  tpn_runtime *runtime = job->runtime;
  napi_value handle = NULL;
  if (runtime->is_ended) return NULL; /* when the environment ends, on_cleanup() frees it */
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
  if (type != napi_float64_array || count < (size_t)TPN_AT_ONCE * TPN_ROW_NUMBERS)
    return tpn_type_error(env, "a Float64Array of %d numbers is wanted", TPN_AT_ONCE * TPN_ROW_NUMBERS), NULL;
  tpn_runtime *runtime = calloc(1, sizeof *runtime);
  if (runtime) runtime->logs = tpb_logs_new();
  if (!runtime || !runtime->logs) {
    free(runtime);
    return tpn_throw(env, TP_ERR_NO_MEMORY, NULL), NULL;
  }
  runtime->env = env;
  runtime->rows = data;
  runtime->references = 1; /* the reference of the environment */
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

/* Starts a job that needs only the runtime. */
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

/* Called after the start: the loop pumps a runtime without threads from now on. */
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
  (void)uv_poll_start(&runtime->pump_poll, UV_READABLE, tpn_on_pump);
  uv_unref((uv_handle_t *)&runtime->pump_poll); /* the poll of the inbox keeps the loop alive */
  uv_unref((uv_handle_t *)&runtime->pump_time);
  return tpn_undefined(env);
}

/* start(runtime) -> promise */
static napi_value runtime_start(napi_env env, napi_callback_info info) {
  return simple_job(env, info, start_runtime, started);
}

static void free_runtime(tpn_job *job) { tp_runtime_free(job->runtime->runtime); }

/* Called after the end of the runtime: takes the last work from the inbox and passes it to lib/. */
static napi_value freed(napi_env env, tpn_job *job) {
  tpn_runtime *runtime = job->runtime;
  if (job->status != TP_OK)
    tp_runtime_free(runtime->runtime); /* when the environment ends and the pool did not free
                                                                  it */
  runtime->runtime = NULL;
  tpn_take_all(env, runtime);
  stop_polls(runtime);
  if (runtime->is_polled) (void)uv_poll_stop(&runtime->log_poll);
  free_inbox(runtime);
  close_polls(runtime);
  return tpn_undefined(env);
}

/* free(runtime) -> promise. Abandons open calls; after this no other function may use the runtime. */
static napi_value runtime_free(napi_env env, napi_callback_info info) {
  napi_value object;
  tpn_runtime *runtime = tpn_arguments(env, info, 1, &object) ? tpn_usable(env, object) : NULL;
  const tp_fault fault = {.code = TP_ERR_USAGE, .message = "the runtime is in use: await what was begun"};
  if (!runtime) return NULL;
  if (runtime->jobs) return tpn_throw(env, TP_ERR_USAGE, &fault);
  stop_polls(runtime);
  tpn_slots_abandon(runtime);
  napi_value promise = simple_job(env, info, free_runtime, freed);
  if (promise) runtime->is_ended = true;
  return promise;
}

/* ref(runtime, whether something is awaited): if so, the loop stays alive. */
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

const tpn_function tpn_life_functions[] = {
    {"open", runtime_open}, {"start", runtime_start}, {"free", runtime_free}, {"ref", runtime_ref}, {NULL, NULL},
};
