/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/io.h"

#include <stdlib.h>
#include <string.h>

#include "providers/openai/call.h"
#include "support/clock.h"
#include "support/lock.h"

enum { CONNECTIONS_KEPT_MAX = 64, POLL_MS_MAX = 60000 };

typedef enum io_state { IO_IDLE, IO_RUNS, IO_STOPS } io_state;

static struct {
  tp__lock mutex;
  tp__lock_condition changed; /* state */
  /* under mutex */
  io_state state;
  bool ready; /* libcurl is ready; the child of a fork begins anew */
  size_t models;
  CURLM *multi; /* used only by the I/O thread, except for waking it */
  pthread_t thread;
  tp__openai_call *calls; /* all */
  tp__openai_call *first_new, *last_new;
  bool any_cancelled;
  uint64_t started, ended, connections;
  /* the I/O thread's */
  tp__openai_call *active;
  uint64_t connections_here;
} io = {.mutex = TP__LOCK_INITIALIZER(TP__LOCK_openai_io), .changed = TP__LOCK_CONDITION_INITIALIZER};

/* ---- fork ---- */

static void before_fork(void) { tp__lock_acquire(&io.mutex); }
static void parent_forked(void) { tp__lock_release(&io.mutex); }

/* The running requests and their connections belong to the parent. */
static void child_forked(void) {
  tp__lock_release(&io.mutex);
  tp__lock_init(&io.mutex, TP__LOCK_openai_io);
  tp__lock_condition_init(&io.changed);
  io.state = IO_IDLE;
  io.multi = NULL;
  io.calls = io.first_new = io.last_new = io.active = NULL;
  io.any_cancelled = false;
  io.started = io.ended = io.connections = io.connections_here = 0;
}

/* ---- lists ---- */

#ifdef TP_CHECKS
static void io_check_locked(void) {
  TP__LOCKED(&io.mutex);
  size_t looked = 0;
  /* When the thread does not run, there is no transfer and no handle. */
  assert(io.state != IO_IDLE || (!io.calls && !io.multi));
  /* The inbox has both ends or none. */
  assert(!io.first_new == !io.last_new);
  assert(!io.last_new || !io.last_new->next_new);
  assert(io.ended <= io.started);
  for (const tp__openai_call *call = io.calls; call && looked < TP__CHECK_ITEMS_MAX; call = call->next, looked++) {
    assert(!call->next || call->next->previous == call);
    assert(call->core->refs > 0 && call->token.bits != 0);
  }
}
#endif

static void wake_locked(void) {
  TP__LOCKED(&io.mutex);
  TP__CHECK(io_check_locked());
  if (io.multi) curl_multi_wakeup(io.multi);
}

static void link_locked(tp__openai_call *call) {
  TP__LOCKED(&io.mutex);
  assert(!call->previous && !call->next && !call->next_new);
  assert(io.state == IO_RUNS && !io.first_new == !io.last_new);
  call->next = io.calls;
  if (io.calls) io.calls->previous = call;
  io.calls = call;
  if (io.last_new) io.last_new->next_new = call;
  else io.first_new = call;
  io.last_new = call;
  io.started++;
}

static void unlink_locked(tp__openai_call *call) {
  TP__LOCKED(&io.mutex);
  assert(call->previous ? call->previous->next == call : io.calls == call);
  assert(io.ended < io.started);
  if (call->previous) call->previous->next = call->next;
  else io.calls = call->next;
  if (call->next) call->next->previous = call->previous;
  io.ended++;
}

/* @return the model if this was the last reference; the caller frees it without the mutex. */
static tp__openai_core *unref_locked(tp__openai_core *core) {
  TP__LOCKED(&io.mutex);
  assert(core->refs > 0);
  return --core->refs == 0 ? core : NULL;
}

static void free_core(tp__openai_core *core) {
  if (!core) return;
  tp__openai_config_fini(&core->config);
  tp__heap_free(core, sizeof *core);
}

/* ---- the I/O thread ---- */

/* Handles cancelled requests first, which free their share of the rates, then new ones. @return whether to go on. */
static bool take_orders(CURLM *multi, int64_t now_ns) {
  tp__lock_acquire(&io.mutex);
  tp__openai_call *call = io.first_new;
  io.first_new = io.last_new = NULL;
  bool goes_on = io.state == IO_RUNS;
  TP__CHECK(io_check_locked());
  io.connections = io.connections_here;
  for (tp__openai_call *each = io.any_cancelled ? io.calls : NULL; each; each = each->next)
    each->gone = each->cancelled;
  io.any_cancelled = false;
  tp__lock_release(&io.mutex);
  for (tp__openai_call *each = io.active; each; each = each->next_active)
    if (each->gone) tp__openai_call_abort(each, multi);
  while (call) {
    tp__openai_call *next = call->next_new;
    call->connections = &io.connections_here;
    call->next_active = io.active;
    io.active = call;
    if (call->gone) tp__openai_call_abort(call, multi); /* it takes nothing from the rates */
    else tp__openai_call_plan(call, now_ns);
    call = next;
  }
  return goes_on;
}

/* @return when the next step must be taken. */
static int64_t step_all(CURLM *multi, int64_t now_ns) {
  int64_t next_ns = INT64_MAX;
  for (tp__openai_call **at = &io.active; *at;) {
    tp__openai_call *call = *at;
    tp__openai_call_step(call, multi, now_ns);
    if (call->state == TP__OPENAI_OVER) {
      *at = call->next_active;
      tp__openai_core *core = call->core;
      tp__lock_acquire(&io.mutex);
      unlink_locked(call);
      core = unref_locked(core);
      TP__CHECK(io_check_locked());
      tp__lock_release(&io.mutex);
      tp__openai_call_free(call);
      free_core(core);
      continue;
    }
    int64_t own_ns = tp__openai_call_next_ns(call);
    if (own_ns < next_ns) next_ns = own_ns;
    at = &call->next_active;
  }
  return next_ns;
}

static void work(CURLM *multi) {
  int running;
  while (take_orders(multi, tp__monotonic_ns())) {
    curl_multi_perform(multi, &running);
    int64_t now_ns = tp__monotonic_ns();
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
      char *call = NULL;
      CURLcode code = message->data.result;
      if (message->msg != CURLMSG_DONE) continue;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
      tp__openai_call_ended((tp__openai_call *)(void *)call, multi, code, now_ns);
    }
    int64_t next_ns = step_all(multi, now_ns), left_ms = POLL_MS_MAX;
    if (next_ns - now_ns < left_ms * 1000000) left_ms = next_ns <= now_ns ? 0 : (next_ns - now_ns + 999999) / 1000000;
    curl_multi_poll(multi, NULL, 0, (int)left_ms, NULL);
  }
}

static void *run_io(void *multi) {
  pthread_setname_np(pthread_self(), "tp-openai");
  work(multi);
  /* What is left has no reader any more. */
  for (tp__openai_call *call = io.active; call; call = call->next_active) tp__openai_call_abort(call, multi);
  (void)step_all(multi, tp__monotonic_ns());
  assert(!io.active);
  tp__lock_acquire(&io.mutex);
  io.multi = NULL;
  tp__lock_release(&io.mutex);
  curl_multi_cleanup(multi);
  tp__lock_acquire(&io.mutex);
  io.state = IO_IDLE;
  TP__CHECK(io_check_locked());
  tp__lock_condition_broadcast(&io.changed);
  tp__lock_release(&io.mutex);
  return NULL;
}

/* The thread blocks every signal, so a connection that breaks while TLS writes raises none. */
static tp_status start_thread_locked(void) {
  TP__LOCKED(&io.mutex);
  assert(io.state == IO_IDLE && !io.multi && !io.calls);
  CURLM *multi = curl_multi_init();
  if (!multi) return TP_ERR_NO_MEMORY;
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT_MAX);
  io.multi = multi;
  io.state = IO_RUNS;
  io.started = io.ended = io.connections = io.connections_here = 0;
  int error = tp__thread_spawn(&io.thread, run_io, multi);
  if (error == 0) return TP_OK;
  io.multi = NULL;
  io.state = IO_IDLE;
  curl_multi_cleanup(multi);
  return TP_ERR_NO_THREAD;
}

/* ---- what other threads call ---- */

static bool be_ready_locked(void) {
  TP__LOCKED(&io.mutex);
  if (!io.ready)
    io.ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK &&
               pthread_atfork(before_fork, parent_forked, child_forked) == 0;
  return io.ready;
}

tp_status tp__openai_io_ready(void) {
  tp__lock_acquire(&io.mutex);
  bool ready = be_ready_locked();
  tp__lock_release(&io.mutex);
  return ready ? TP_OK : TP_ERR_SYSTEM;
}

tp_status tp__openai_io_join(void) {
  tp__lock_acquire(&io.mutex);
  bool ready = be_ready_locked();
  if (ready) io.models++;
  TP__CHECK(io_check_locked());
  tp__lock_release(&io.mutex);
  return ready ? TP_OK : TP_ERR_SYSTEM;
}

void tp__openai_io_leave(tp__openai_core *core) {
  tp__lock_acquire(&io.mutex);
  for (tp__openai_call *call = io.calls; call; call = call->next)
    if (call->core == core) call->cancelled = io.any_cancelled = true;
  assert(io.models > 0);
  bool stops = --io.models == 0 && io.state == IO_RUNS;
  if (stops) io.state = IO_STOPS;
  pthread_t thread = io.thread;
  wake_locked();
  core = unref_locked(core);
  tp__lock_release(&io.mutex);
  free_core(core);
  if (!stops) return;
  if (pthread_equal(thread, pthread_self())) pthread_detach(thread); /* it cannot wait for itself, and ends soon */
  else pthread_join(thread, NULL);
}

tp_status tp__openai_io_submit(tp__openai_core *core, const tp_model_request *request, tp_token token, tp__bytes *body,
                               tp__openai_names *names) {
  tp__openai_call *call = tp__openai_call_new(core, request, token, body, names);
  tp__bytes_fini(body);
  tp__openai_names_fini(names);
  if (!call) return TP_ERR_NO_MEMORY;
  tp__lock_acquire(&io.mutex);
  while (io.state == IO_STOPS) tp__lock_condition_wait(&io.changed, &io.mutex);
  tp_status status = io.state == IO_IDLE ? start_thread_locked() : TP_OK;
  if (status == TP_OK) {
    core->refs++;
    link_locked(call);
    wake_locked();
  }
  tp__lock_release(&io.mutex);
  if (status != TP_OK) tp__openai_call_free(call);
  return status;
}

void tp__openai_io_cancel(tp_token token) {
  tp__lock_acquire(&io.mutex);
  for (tp__openai_call *call = io.calls; call; call = call->next) {
    if (call->token.bits != token.bits) continue;
    call->cancelled = io.any_cancelled = true;
    wake_locked();
    break;
  }
  tp__lock_release(&io.mutex);
}

void tp__openai_io_wake(void) {
  tp__lock_acquire(&io.mutex);
  wake_locked();
  tp__lock_release(&io.mutex);
}

void tp__openai_io_stats(tp_openai_stats *ret_stats) {
  tp__lock_acquire(&io.mutex);
  *ret_stats = (tp_openai_stats){.struct_size = sizeof *ret_stats, .models = (uint32_t)io.models};
  if (io.state != IO_IDLE) {
    ret_stats->requests_started = io.started;
    ret_stats->requests_ended = io.ended;
    ret_stats->connections_opened = io.connections;
    ret_stats->threads = 1;
  }
  tp__lock_release(&io.mutex);
}
