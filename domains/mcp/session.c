/* SPDX-License-Identifier: Apache-2.0
 *
 * session: the states of a session, its timers, its begin and end, and the turns that wait for its tools. */

#include "domains/mcp/session.h"

#include <assert.h>
#include <stdio.h>

#include "domains/mcp/changed.h"
#include "domains/mcp/handshake.h"
#include "domains/mcp/io.h"
#include "domains/mcp/list.h"
#include "domains/mcp/request.h"
#include "support/clock.h"

enum {
  PAUSE_MS = 1000, /* the pause before the first start after an end; doubled each time */
  PAUSE_MS_MAX = 60000,
  CLOSE_MS = 1000 /* the time from end-of-file to a signal */
};

#ifdef TP_CHECKS
static void session_check_locked(const tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  /* Only a session that starts reads its first list, and a session that is ready has a list. */
  assert(s->state != TP__MCP_READY || (s->tools && s->is_connected));
  assert(s->state == TP__MCP_STARTING || s->start_deadline_ns == INT64_MAX);
  assert(s->state == TP__MCP_STARTING || (!s->is_probing && !s->awaits_delivery));
  assert(s->state == TP__MCP_PAUSED || s->restart_ns == INT64_MAX);
  /* Only while the session starts can its tools still come. */
  assert(s->state == TP__MCP_STARTING || !s->waiters);
  assert(s->state == TP__MCP_STARTING || s->state == TP__MCP_READY || !s->requests);
  assert(s->state == TP__MCP_READY || !s->alarms);
}
#endif

/* ---- what follows the lock ---- */

/* The owner of an alarm may free it as soon as the callback has begun. */
static void run_alarms(tp__mcp_alarm *alarms, const char *words) {
  while (alarms) {
    tp__mcp_alarm *alarm = alarms;
    alarms = alarm->next;
    alarm->on_due(alarm->ctx, words);
  }
}

static void run_after(const tp__mcp_session *s, tp__mcp_after *a) {
  const tp__mcp_answer none = {.words = a->words};
  run_alarms(a->due, NULL);
  run_alarms(a->lost, a->words);
  while (a->failed) {
    struct tp__mcp_request *request = a->failed;
    a->failed = request->next;
    request->asker.on_answer(request->asker.ctx, &none);
    tp__heap_free(request, sizeof *request);
  }
  while (a->waiters) {
    struct tp__mcp_waiter *waiter = a->waiters;
    a->waiters = waiter->next;
    waiter->on_ready(waiter->ctx, a->tools, a->tools ? "" : a->words);
    tp__heap_free(waiter, sizeof *waiter);
  }
  tp__mcp_tools_unref(a->tools);
  if (a->has_changed) tp__mcp_changed_notify(s->runtime);
}

void tp__mcp_session_release(tp__mcp_session *s, tp__mcp_after *a) {
  TP__CHECK(session_check_locked(s));
  tp__lock_release(&s->lock);
  run_after(s, a);
}

/* ---- states ---- */

static int64_t pause_ms(uint32_t failures) {
  assert(failures > 0);
  int64_t pause = (int64_t)PAUSE_MS << (failures < 8 ? failures - 1 : 7);
  return pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX;
}

static tp__mcp_alarm *pop_alarm(tp__mcp_alarm **list) {
  tp__mcp_alarm *first = *list;
  *list = first->next;
  return first;
}

static void push_alarm(tp__mcp_alarm **list, tp__mcp_alarm *alarm) {
  alarm->next = *list;
  *list = alarm;
}

/* Takes everything that waits, to be answered. */
static void take_waiting_locked(tp__mcp_session *s, tp__mcp_after *a, const char *words) {
  struct tp__mcp_request **failed = &a->failed;
  TP__LOCKED(&s->lock);
  assert(!a->waiters && !a->tools);
  snprintf(a->words, sizeof a->words, "%s", words);
  while (*failed) failed = &(*failed)->next;
  *failed = s->requests;
  a->waiters = s->waiters;
  tp__mcp_tools_unref(s->listing);
  while (s->alarms) push_alarm(&a->lost, pop_alarm(&s->alarms));
  s->requests = NULL;
  s->waiters = NULL;
  s->listing = NULL;
  s->is_probing = s->is_listing = s->list_again = s->awaits_delivery = false;
  s->start_deadline_ns = s->probe_deadline_ns = INT64_MAX;
}

static void stop_transport_locked(tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  if (!s->is_connected) return;
  if (!s->transport->stop_locked(s)) s->is_connected = false;
  else s->kill_ns = tp__monotonic_ns() + CLOSE_MS * TP__NS_IN_MS;
}

/* @param words  the reason of the end; a note about the next start is added. */
void tp__mcp_session_pause_locked(tp__mcp_session *s, tp__mcp_after *a, const char *words) {
  TP__LOCKED(&s->lock);
  assert(s->state == TP__MCP_STARTING || s->state == TP__MCP_READY);
  if (s->state == TP__MCP_READY && tp__monotonic_ns() - s->ready_ns > PAUSE_MS_MAX * TP__NS_IN_MS) s->failures = 0;
  s->failures++;
  a->has_changed = a->has_changed || s->state == TP__MCP_READY;
  s->was_ready = s->was_ready || s->state == TP__MCP_READY;
  snprintf(s->words, sizeof s->words, "%s", words);
  s->restart_ns = tp__monotonic_ns() + pause_ms(s->failures) * TP__NS_IN_MS;
  s->state = TP__MCP_PAUSED;
  tp__mcp_session_note_locked(s, "the server %s is not there: %s; it is started again in %lld s",
                              s->settings.options.name, words, (long long)pause_ms(s->failures) / 1000);
  take_waiting_locked(s, a, words);
  stop_transport_locked(s);
  tp__mcp_io_wake();
}

void tp__mcp_session_ready_locked(tp__mcp_session *s, tp__mcp_after *a) {
  TP__LOCKED(&s->lock);
  assert(s->listing && !a->waiters);
  tp__mcp_list_finish_locked(s, s->listing);
  tp__mcp_tools_unref(s->tools); /* this is never the last reference to the session, since the caller has one */
  s->tools = s->listing;
  s->listing = NULL;
  s->is_listing = false;
  a->has_changed = s->state == TP__MCP_READY || s->was_ready; /* at its first start there were no tools before */
  if (s->state != TP__MCP_STARTING) return;
  s->state = TP__MCP_READY;
  s->ready_ns = tp__monotonic_ns();
  s->start_deadline_ns = s->probe_deadline_ns = INT64_MAX;
  s->is_probing = false;
  a->waiters = s->waiters;
  a->tools = s->tools;
  s->waiters = NULL;
  tp__mcp_tools_ref(a->tools);
  if (s->has_list_changed && tp__mcp_version_has(s->version, TP__MCP_HAS_META)) tp__mcp_session_subscribe_locked(s);
}

void tp__mcp_session_renew(tp__mcp_session *s, int64_t id) {
  static const char words[] = "it has lost the session, which is begun again";
  const tp__mcp_answer answer = {.words = words};
  tp__mcp_after a = {0};
  tp_fault fault = {0};
  tp__lock_acquire(&s->lock);
  struct tp__mcp_request *request = tp__mcp_session_take_request_locked(s, id);
  if (s->state == TP__MCP_READY) {
    take_waiting_locked(s, &a, words);
    s->transport->kill_locked(s);
    s->state = TP__MCP_STARTING;
    s->was_ready = true;
    s->version = TP_MCP_VERSION_NONE;
    s->start_deadline_ns = tp__monotonic_ns() + s->settings.options.start_limit_ms * TP__NS_IN_MS;
    if (s->transport->start_locked(s, &fault) == TP_OK) tp__mcp_session_initialize_locked(s, &a);
    else tp__mcp_session_pause_locked(s, &a, fault.message);
    tp__mcp_io_wake();
  } else if (s->state == TP__MCP_STARTING) {
    tp__mcp_session_pause_locked(s, &a, "it loses sessions as soon as they begin");
  }
  tp__mcp_session_release(s, &a);
  if (!request) return;
  request->asker.on_answer(request->asker.ctx, &answer);
  tp__heap_free(request, sizeof *request);
}

void tp__mcp_session_broken(tp__mcp_session *s, const char *words) {
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  if (s->state == TP__MCP_STARTING || s->state == TP__MCP_READY) tp__mcp_session_pause_locked(s, &a, words);
  if (s->is_connected) s->transport->kill_locked(s);
  tp__mcp_session_release(s, &a);
}

void tp__mcp_session_lost(tp__mcp_session *s, const char *words) {
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  bool was_probe = s->state == TP__MCP_STARTING && s->is_probing;
  s->is_connected = false;
  s->kill_ns = INT64_MAX;
  if (was_probe) { /* some servers end when a request comes before initialize */
    struct tp__mcp_waiter *waiters = s->waiters;
    s->waiters = NULL;
    take_waiting_locked(s, &a, words);
    s->waiters = waiters;
    s->skips_probe = true;
    s->state = TP__MCP_IDLE;
    tp__mcp_session_start_locked(s, &a);
  } else if (s->state == TP__MCP_STARTING || s->state == TP__MCP_READY) {
    tp__mcp_session_pause_locked(s, &a, words);
  }
  tp__lock_condition_broadcast(&s->ended);
  bool leaves = s->leaves_at_end;
  tp__mcp_session_release(s, &a);
  if (leaves) tp__mcp_io_leave(s);
}

/* ---- what tools do ---- */

bool tp__mcp_session_want(tp__mcp_session *s, tp__mcp_ready_fn on_ready, void *ctx) {
  tp__mcp_after a = {0};
  struct tp__mcp_waiter *waiter = tp__heap_alloc(sizeof *waiter);
  if (!waiter) return false;
  *waiter = (struct tp__mcp_waiter){.on_ready = on_ready, .ctx = ctx};
  tp__lock_acquire(&s->lock);
  bool may_start = s->state == TP__MCP_IDLE || (s->state == TP__MCP_PAUSED && s->restart_ns <= tp__monotonic_ns());
  if (may_start && !s->is_connected) {
    s->waiters = waiter;
    tp__mcp_session_start_locked(s, &a);
  } else if (s->state == TP__MCP_STARTING) {
    waiter->next = s->waiters;
    s->waiters = waiter;
  } else {
    a.waiters = waiter;
    snprintf(a.words, sizeof a.words, "%s", s->state == TP__MCP_CLOSED ? "it is being closed" : s->words);
    if (s->state == TP__MCP_READY) a.tools = s->tools;
    if (a.tools) tp__mcp_tools_ref(a.tools);
  }
  tp__mcp_session_release(s, &a);
  return true;
}

bool tp__mcp_session_unwant(tp__mcp_session *s, const void *ctx) {
  tp__lock_acquire(&s->lock);
  struct tp__mcp_waiter **at = &s->waiters, *waiter;
  while ((waiter = *at) && waiter->ctx != ctx) at = &waiter->next;
  if (waiter) *at = waiter->next;
  tp__lock_release(&s->lock);
  tp__heap_free(waiter, sizeof *waiter);
  return waiter != NULL;
}

tp__mcp_tools *tp__mcp_session_tools(tp__mcp_session *s) {
  tp__lock_acquire(&s->lock);
  bool is_quiet = s->notes.count == 0 && s->notes.left_out == 0;
  tp__mcp_tools *tools = s->state == TP__MCP_READY && is_quiet && s->tools->is_audited ? s->tools : NULL;
  if (tools) tp__mcp_tools_ref(tools);
  tp__lock_release(&s->lock);
  return tools;
}

bool tp__mcp_session_has(tp__mcp_session *s, int has) {
  tp__lock_acquire(&s->lock);
  bool is_so = tp__mcp_version_has(s->version, has);
  tp__lock_release(&s->lock);
  return is_so;
}

tp_text tp__mcp_session_schema_locked(const tp__mcp_session *s, tp_text name) {
  TP__LOCKED(&s->lock);
  for (size_t i = 0; s->tools && i < s->tools->count; i++)
    if (tp__is_word(name, s->tools->items[i].name)) return s->tools->items[i].schema;
  return (tp_text){"", 0};
}

bool tp__mcp_session_is_changed(tp__mcp_session *s, tp_text full_name) {
  bool is_changed = false;
  tp__lock_acquire(&s->lock);
  for (size_t i = 0; s->tools && i < s->tools->count; i++)
    if (tp__is_word(full_name, s->tools->items[i].full_name)) is_changed = s->tools->items[i].is_changed;
  tp__lock_release(&s->lock);
  return is_changed;
}

bool tp__mcp_session_take_changed(tp__mcp_session *s, tp__mcp_tools *tools) {
  tp__lock_acquire(&s->lock);
  bool has_changed = false;
  for (size_t i = 0; !tools->is_audited && i < tools->count; i++)
    has_changed = has_changed || tools->items[i].is_changed;
  tools->is_audited = true;
  tp__lock_release(&s->lock);
  return has_changed;
}

/* ---- timers ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

bool tp__mcp_session_set_alarm(tp__mcp_session *s, tp__mcp_alarm *alarm, uint32_t limit_ms) {
  tp__lock_acquire(&s->lock);
  bool is_set = s->state == TP__MCP_READY;
  alarm->due_ns = tp__monotonic_ns() + limit_ms * TP__NS_IN_MS;
  if (is_set) push_alarm(&s->alarms, alarm);
  tp__lock_release(&s->lock);
  if (is_set) tp__mcp_io_wake();
  return is_set;
}

bool tp__mcp_session_unset_alarm(tp__mcp_session *s, const tp__mcp_alarm *alarm) {
  tp__lock_acquire(&s->lock);
  tp__mcp_alarm **at = &s->alarms;
  while (*at && *at != alarm) at = &(*at)->next;
  bool is_found = *at != NULL;
  if (is_found) (void)pop_alarm(at);
  tp__lock_release(&s->lock);
  return is_found;
}

/* @return when the next timer expires. */
static int64_t take_due_locked(tp__mcp_session *s, tp__mcp_after *a, int64_t now_ns) {
  TP__LOCKED(&s->lock);
  int64_t next_ns = INT64_MAX;
  for (tp__mcp_alarm **at = &s->alarms; *at;) {
    if ((*at)->due_ns <= now_ns) {
      push_alarm(&a->due, pop_alarm(at));
    } else {
      next_ns = least(next_ns, (*at)->due_ns);
      at = &(*at)->next;
    }
  }
  return next_ns;
}

int64_t tp__mcp_session_tick(tp__mcp_session *s, int64_t now_ns) {
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  if (s->start_deadline_ns <= now_ns) {
    char words[192];
    snprintf(words, sizeof words,
             "it was not ready after %u ms (start_limit_ms); if it is "
             "downloaded first, run its command once by hand",
             (unsigned)s->settings.options.start_limit_ms);
    tp__mcp_session_pause_locked(s, &a, words);
  }
  if (s->probe_deadline_ns <= now_ns) tp__mcp_session_initialize_locked(s, &a);
  if (s->kill_ns <= now_ns) {
    s->kill_ns = INT64_MAX;
    if (s->is_connected) s->transport->kill_locked(s);
  }
  if (s->restart_ns <= now_ns && s->was_ready && !s->is_connected) tp__mcp_session_start_locked(s, &a);
  int64_t alarm_ns = take_due_locked(s, &a, now_ns);
  int64_t next_ns = least(least(s->start_deadline_ns, s->probe_deadline_ns), s->kill_ns);
  if (s->was_ready && !s->is_connected) next_ns = least(next_ns, s->restart_ns);
  tp__mcp_session_release(s, &a);
  return least(next_ns, alarm_ns);
}

/* ---- begin and end ---- */

/* @param has_tasks  whether a server may answer a call with a task: in versions without a handshake. */
static void write_capabilities(const tp__mcp_session *s, tp_writer *writer, bool has_tasks) {
  tp_write_map(writer, 1U + (s->settings.options.workspace != NULL) + s->settings.has_sampling + has_tasks);
  tp_write_string(writer, "elicitation");
  tp_write_map(writer, 0);
  if (s->settings.has_sampling) {
    tp_write_string(writer, "sampling");
    tp_write_map(writer, 0);
  }
  if (s->settings.options.workspace) {
    tp_write_string(writer, "roots");
    tp_write_map(writer, 0);
  }
  if (!has_tasks) return;
  tp_write_string(writer, "extensions");
  tp_write_map(writer, 1);
  tp_write_string(writer, "io.modelcontextprotocol/tasks");
  tp_write_map(writer, 0);
}

/* Writes [clientInfo, clientCapabilities of initialize, clientCapabilities of _meta]. */
static tp_status write_constants(const tp__mcp_session *s) {
  tp_writer *writer = s->constants;
  tp_text value;
  tp_write_array(writer, 3);
  tp_write_map(writer, 2);
  tp_write_string(writer, "name");
  tp_write_string(writer, "turnphase");
  tp_write_string(writer, "version");
  tp_write_string(writer, tp_version());
  write_capabilities(s, writer, false);
  write_capabilities(s, writer, true);
  return tp_writer_finish(writer, &value);
}

tp_status tp__mcp_session_new(tp_runtime *runtime, tp__mcp_settings *settings, const tp__mcp_transport *transport,
                              tp__mcp_session **ret_session, tp_fault *fault) {
  tp__mcp_session *s = tp__heap_alloc(sizeof *s);
  if (!s) {
    tp__mcp_settings_fini(settings);
    return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a server");
  }
  s->settings = *settings;
  *settings = (tp__mcp_settings){0};
  s->runtime = runtime;
  s->transport = transport;
  s->start_deadline_ns = s->probe_deadline_ns = s->restart_ns = s->kill_ns = INT64_MAX;
  tp__references_init(&s->refs);
  tp__lock_init(&s->lock, TP__LOCK_mcp);
  tp__lock_condition_init(&s->ended);
  tp_status status = tp_writer_new(NULL, &s->writer);
  if (status == TP_OK) status = tp_writer_new(NULL, &s->reader);
  if (status == TP_OK) status = tp_writer_new(NULL, &s->constants);
  if (status == TP_OK) status = write_constants(s);
  if (status != TP_OK) (void)tp__refuse(fault, status, NULL, "no memory for a server");
  if (status == TP_OK) status = tp__mcp_io_join(s, fault);
  if (status == TP_OK) *ret_session = s;
  else tp__mcp_session_unref(s);
  return status;
}

void tp__mcp_session_ref(tp__mcp_session *s) { tp__references_ref(&s->refs); }

void tp__mcp_session_unref(tp__mcp_session *s) {
  if (!tp__references_unref(&s->refs)) return;
  assert(!s->requests && !s->waiters && !s->is_connected);
  if (s->transport->free) s->transport->free(s);
  tp__mcp_settings_fini(&s->settings);
  tp__bytes_fini(&s->notes.lines);
  tp_writer_free(s->writer);
  tp_writer_free(s->reader);
  tp_writer_free(s->constants);
  tp__lock_condition_fini(&s->ended);
  tp__lock_fini(&s->lock);
  tp__heap_free(s, sizeof *s);
}

void tp__mcp_session_close(tp__mcp_session *s) {
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  assert(s->state != TP__MCP_CLOSED);
  take_waiting_locked(s, &a, "it is being closed");
  a.has_changed = s->tools != NULL;
  s->state = TP__MCP_CLOSED;
  s->restart_ns = INT64_MAX;
  tp__mcp_tools *tools = s->tools;
  s->tools = NULL;
  stop_transport_locked(s);
  tp__mcp_io_wake();
  if (!tp__mcp_io_is_inside())
    while (s->is_connected) tp__lock_condition_wait(&s->ended, &s->lock);
  s->leaves_at_end = s->is_connected;
  bool leaves = !s->is_connected;
  tp__mcp_session_release(s, &a);
  tp__mcp_tools_unref(tools);
  if (leaves) tp__mcp_io_leave(s);
}
