/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/io.h"

#include <assert.h>
#include <curl/curl.h>
#include <unistd.h>

#include "domains/mcp/http.h"
#include "support/clock.h"

enum { POLL_MS_MAX = 60000 };

static struct {
  tp__lock lock;
  /* under lock */
  pid_t process; /* the process that the thread belongs to */
  bool runs, stops, ready;
  bool is_ending;             /* the thread was detached, and has not ended yet */
  tp__mcp_session **sessions; /* each holds a reference */
  size_t count, capacity;
  pthread_t thread, loop_thread;
  bool has_loop_thread;
  CURLM *multi; /* used by the I/O thread only, except to wake it; it exists while there is a session */
  tp_process_loop *loop;
  tp__lock_condition ended; /* signalled when is_ending becomes false */
} io = {.lock = TP__LOCK_INITIALIZER(TP__LOCK_mcp_io), .ended = TP__LOCK_CONDITION_INITIALIZER};

/* ---- the thread ---- */

/* Copies the list of sessions, with a reference to each. @return NULL without memory: then the sessions get their ticks
 * later. */
static tp__mcp_session **copy_sessions(size_t *ret_count) {
  tp__lock_acquire(&io.lock);
  tp__mcp_session **copy = tp__heap_alloc((io.count + 1) * sizeof(tp__mcp_session *));
  *ret_count = copy ? io.count : 0;
  for (size_t i = 0; i < *ret_count; i++) {
    copy[i] = io.sessions[i];
    tp__mcp_session_ref(copy[i]);
  }
  tp__lock_release(&io.lock);
  return copy;
}

static int64_t tick_all(void) {
  size_t count;
  int64_t next_ns = INT64_MAX;
  tp__mcp_session **sessions = copy_sessions(&count);
  if (!sessions) return tp__monotonic_ns() + 100 * TP__NS_IN_MS;
  for (size_t i = 0; i < count; i++) {
    int64_t own_ns = tp__mcp_session_tick(sessions[i], tp__monotonic_ns());
    if (own_ns < next_ns) next_ns = own_ns;
    tp__mcp_session_unref(sessions[i]);
  }
  tp__heap_free(sessions, (count + 1) * sizeof(tp__mcp_session *));
  return next_ns;
}

static bool goes_on(void) {
  tp__lock_acquire(&io.lock);
  bool stops = io.stops;
  tp__lock_release(&io.lock);
  return !stops;
}

static void *run_mcp_io(void *multi) {
  pthread_setname_np(pthread_self(), "tp-mcp");
  while (goes_on()) {
    int64_t next_ns = tick_all(), now_ns = tp__monotonic_ns(), left_ms = POLL_MS_MAX;
    int64_t http_ns = tp__mcp_http_step(multi, now_ns);
    if (http_ns < next_ns) next_ns = http_ns;
    if (next_ns - now_ns < left_ms * TP__NS_IN_MS)
      left_ms = next_ns <= now_ns ? 0 : (next_ns - now_ns + TP__NS_IN_MS - 1) / TP__NS_IN_MS;
    curl_multi_poll(multi, NULL, 0, (int)left_ms, NULL);
  }
  tp__mcp_http_end(multi);
  curl_multi_cleanup(multi);
  tp__lock_acquire(&io.lock);
  io.is_ending = false;
  tp__lock_condition_broadcast(&io.ended);
  tp__lock_release(&io.lock);
  return NULL;
}

/* ---- sessions ---- */

static tp_status start_locked(tp_fault *fault) {
  TP__LOCKED(&io.lock);
  assert(!io.runs && !io.loop && io.count == 0);
  while (io.is_ending) tp__lock_condition_wait(&io.ended, &io.lock);
  if (!io.ready) io.ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (!io.ready) return tp__refuse(fault, TP_ERR_SYSTEM, NULL, "libcurl cannot be used");
  tp_status status = tp_process_loop_new(NULL, &io.loop, fault);
  if (status != TP_OK) return status;
  io.multi = curl_multi_init();
  io.stops = false;
  int error = io.multi ? tp__thread_spawn(&io.thread, run_mcp_io, io.multi) : 0;
  if (io.multi && error == 0) {
    io.runs = true;
    io.process = getpid();
    return TP_OK;
  }
  if (io.multi) curl_multi_cleanup(io.multi);
  tp_process_loop_free(io.loop);
  io.loop = NULL;
  status = io.multi ? TP_ERR_NO_THREAD : TP_ERR_NO_MEMORY;
  io.multi = NULL;
  return tp__refuse(fault, status, NULL, "the thread of MCP could not be started");
}

tp_status tp__mcp_io_join(tp__mcp_session *session, tp_fault *fault) {
  tp__lock_acquire(&io.lock);
  tp_status status = io.runs ? TP_OK : start_locked(fault);
  if (status == TP_OK && !tp__grow(tp__heap, (void **)&io.sessions, &io.capacity, io.count + 1, sizeof *io.sessions))
    status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a server");
  if (status == TP_OK) {
    tp__mcp_session_ref(session);
    io.sessions[io.count++] = session;
  }
  tp__lock_release(&io.lock);
  return status;
}

void tp__mcp_io_leave(tp__mcp_session *session) {
  size_t index = 0;
  tp__lock_acquire(&io.lock);
  while (index < io.count && io.sessions[index] != session) index++;
  assert(index < io.count);
  io.sessions[index] = io.sessions[--io.count];
  bool stops = io.count == 0, is_own = io.process == getpid();
  bool is_thread = pthread_equal(io.thread, pthread_self());
  pthread_t thread = io.thread;
  tp_process_loop *loop = io.loop;
  if (stops) {
    io.stops = true;
    io.is_ending = is_own;
    curl_multi_wakeup(io.multi);
    tp__heap_free(io.sessions, io.capacity * sizeof *io.sessions);
    io.sessions = NULL;
    io.capacity = 0;
    io.runs = io.has_loop_thread = false;
    io.multi = NULL;
    io.loop = NULL;
  }
  tp__lock_release(&io.lock);
  tp__mcp_session_unref(session);
  if (!stops) return;
  if (is_own && is_thread) pthread_detach(thread); /* the thread cannot join itself; it ends soon */
  else if (is_own) pthread_join(thread, NULL);
  tp_process_loop_free(loop);
}

tp_process_loop *tp__mcp_io_loop(void) {
  tp__lock_acquire(&io.lock);
  tp_process_loop *loop = io.loop;
  tp__lock_release(&io.lock);
  return loop;
}

void tp__mcp_io_wake(void) {
  tp__lock_acquire(&io.lock);
  if (io.multi) curl_multi_wakeup(io.multi);
  tp__lock_release(&io.lock);
}

void tp__mcp_io_note_loop(void) {
  tp__lock_acquire(&io.lock);
  io.loop_thread = pthread_self();
  io.has_loop_thread = true;
  tp__lock_release(&io.lock);
}

bool tp__mcp_io_is_inside(void) {
  pthread_t self = pthread_self();
  tp__lock_acquire(&io.lock);
  bool is_inside =
      (io.runs && pthread_equal(io.thread, self)) || (io.has_loop_thread && pthread_equal(io.loop_thread, self));
  tp__lock_release(&io.lock);
  return is_inside;
}
