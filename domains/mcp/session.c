/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/asked.h"
#include "domains/mcp/changed.h"
#include "domains/mcp/io.h"
#include "domains/mcp/list.h"
#include "domains/mcp/sample.h"
#include "support/clock.h"

enum {
  PAUSE_MS = 1000, /* before the first start after an end; twice as long each time */
  PAUSE_MS_MAX = 60000,
  PROBE_MS_MAX = 5000, /* of silence at server/discover; the question stays open */
  REQUESTS_MAX = 4096,
  STRAYS_MAX = 1000, /* lines that are no messages: then the server is ended */
  ASKS_MAX = 16,     /* that wait for people and models */
  CLOSE_MS = 1000    /* from end-of-file to a signal */
};

/** A request without an answer. */
struct tp__mcp_request {
  struct tp__mcp_request *next;
  int64_t id;
  tp__mcp_asker asker;
};

struct tp__mcp_waiter {
  struct tp__mcp_waiter *next;
  tp__mcp_ready_fn on_ready;
  void *ctx;
};

/* What is done when the lock was released. Zero-filled is nothing. */
typedef struct after {
  struct tp__mcp_request *failed; /* are answered with words */
  struct tp__mcp_waiter *waiters; /* get the tools, or words */
  tp__mcp_alarm *due, *lost;      /* get NULL, or words */
  tp__mcp_tools *tools;           /* referenced; for the waiters */
  bool has_changed;               /* the tools that turns get */
  char words[TP_FAULT_MESSAGE_SIZE];
} after;

#ifdef TP_CHECKS
static void session_check_locked(const tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  /* Only a session that starts reads a first list, and one that is ready has
   * one. */
  assert(s->state != TP__MCP_READY || (s->tools && s->is_connected));
  assert(s->state == TP__MCP_STARTING || s->start_deadline_ns == INT64_MAX);
  assert(s->state == TP__MCP_STARTING || (!s->is_probing && !s->awaits_delivery));
  assert(s->state == TP__MCP_PAUSED || s->restart_ns == INT64_MAX);
  /* Nobody waits for what does not come. */
  assert(s->state == TP__MCP_STARTING || !s->waiters);
  assert(s->state == TP__MCP_STARTING || s->state == TP__MCP_READY || !s->requests);
  assert(s->state == TP__MCP_READY || !s->alarms);
}
#endif

/* ---- notes ---- */

static void put_note(tp__mcp_notes *notes, tp_text line) {
  if (notes->count == TP__MCP_NOTES_MAX || !tp__bytes_reserve(&notes->lines, line.size + 1)) {
    notes->left_out++;
    notes->lines.failed = false;
    return;
  }
  tp__bytes_put_text(&notes->lines, line);
  tp__bytes_put_string(&notes->lines, "\n");
  notes->count++;
}

bool tp__mcp_next_line(tp_text *left, tp_text *ret_line) {
  const char *end = left->size > 0 ? memchr(left->data, '\n', left->size) : NULL;
  if (!end) return false;
  *ret_line = (tp_text){left->data, (size_t)(end - left->data)};
  *left = (tp_text){end + 1, left->size - ret_line->size - 1};
  return true;
}

void tp__mcp_session_note_locked(tp__mcp_session *s, const char *format, ...) {
  char line[512];
  va_list args;
  TP__LOCKED(&s->lock);
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  tp__make_printable(line);
  put_note(&s->notes, tp_text_of(line));
}

void tp__mcp_session_notes_take(tp__mcp_session *s, tp__mcp_notes *ret_notes) {
  tp__lock_acquire(&s->lock);
  *ret_notes = s->notes;
  s->notes = (tp__mcp_notes){0};
  tp__lock_release(&s->lock);
}

void tp__mcp_session_notes_return(tp__mcp_session *s, tp__mcp_notes *notes) {
  tp__lock_acquire(&s->lock);
  tp__mcp_notes newer = s->notes;
  s->notes = *notes;
  tp_text left = tp__bytes_text(&newer.lines), line;
  while (tp__mcp_next_line(&left, &line)) put_note(&s->notes, line);
  s->notes.left_out += newer.left_out;
  tp__lock_release(&s->lock);
  tp__bytes_fini(&newer.lines);
  *notes = (tp__mcp_notes){0};
}

/* ---- what follows the lock ---- */

/* The owner of an alarm may free it as soon as it has come. */
static void run_alarms(tp__mcp_alarm *alarms, const char *words) {
  while (alarms) {
    tp__mcp_alarm *alarm = alarms;
    alarms = alarm->next;
    alarm->on_due(alarm->ctx, words);
  }
}

static void run_after(const tp__mcp_session *s, after *a) {
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

static void release(tp__mcp_session *s, after *a) {
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

/* Everything that waits is answered. */
static void take_waiting_locked(tp__mcp_session *s, after *a, const char *words) {
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

/* @param words  of the end; that it is started again is added. */
static void pause_locked(tp__mcp_session *s, after *a, const char *words) {
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

static void subscribe_locked(tp__mcp_session *s);

static void ready_locked(tp__mcp_session *s, after *a) {
  TP__LOCKED(&s->lock);
  assert(s->listing && !a->waiters);
  tp__mcp_list_finish_locked(s, s->listing);
  tp__mcp_tools_unref(s->tools); /* never the last reference to the session: the
                                    caller has one */
  s->tools = s->listing;
  s->listing = NULL;
  s->is_listing = false;
  a->has_changed = s->state == TP__MCP_READY || s->was_ready; /* at its first start there were no others */
  if (s->state != TP__MCP_STARTING) return;
  s->state = TP__MCP_READY;
  s->ready_ns = tp__monotonic_ns();
  s->start_deadline_ns = s->probe_deadline_ns = INT64_MAX;
  s->is_probing = false;
  a->waiters = s->waiters;
  a->tools = s->tools;
  s->waiters = NULL;
  tp__mcp_tools_ref(a->tools);
  if (s->has_list_changed && tp__mcp_version_has(s->version, TP__MCP_HAS_META)) subscribe_locked(s);
}

/* ---- sending ---- */

/* @param asker  of a request; NULL: of a notification. */
static void write_params_locked(tp__mcp_session *s, const char *method, int64_t id, const tp__mcp_pair *pairs,
                                size_t count, const tp__mcp_asker *asker) {
  TP__LOCKED(&s->lock);
  tp_text constants = {"", 0};
  char token[9];
  tp__mcp_meta meta = {0};
  if (s->is_probing || tp__mcp_version_has(s->version, TP__MCP_HAS_META)) {
    (void)!tp_writer_finish(s->constants, &constants); /* it was finished once */
    meta.version = s->is_probing ? TP__MCP_VERSION_NEWEST : s->version;
    meta.client_info = tp_value_at(constants, 0);
    meta.capabilities = tp_value_at(constants, 2);
  }
  if (asker) meta.traceparent = asker->traceparent;
  if (asker) meta.tracestate = asker->tracestate;
  if (strcmp(method, "tools/call") == 0) meta.progress_token = tp__mcp_number_value(id, token);
  size_t has_meta = tp__mcp_meta_count(&meta) > 0;
  tp_write_map(s->writer, count + has_meta);
  for (size_t i = 0; i < count; i++) {
    tp_write_string(s->writer, pairs[i].key);
    if (pairs[i].is_value) tp_write_value(s->writer, pairs[i].content);
    else tp_write_text(s->writer, pairs[i].content);
  }
  if (!has_meta) return;
  tp_write_string(s->writer, "_meta");
  tp__mcp_meta_write(s->writer, &meta);
}

/* The message that is in the writer. */
static tp_status send_locked(tp__mcp_session *s, int64_t id, const char *method, tp_fault *fault) {
  TP__LOCKED(&s->lock);
  tp_text json, value;
  tp_status status = tp__mcp_encode(s->writer, &json, fault);
  if (status != TP_OK) return status;
  (void)!tp_writer_finish(s->writer, &value);
  return s->transport->send_locked(s, id, method, tp_value_get(value, "params"), json, fault);
}

static tp_status request_locked(tp__mcp_session *s, const char *method, const tp__mcp_pair *pairs, size_t count,
                                const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault) {
  TP__LOCKED(&s->lock);
  struct tp__mcp_request *request = tp__heap_alloc(sizeof *request);
  if (!request) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a request");
  *request = (struct tp__mcp_request){.next = s->requests, .id = ++s->last_id, .asker = *asker};
  if (ret_id) *ret_id = request->id;
  tp__mcp_begin_request(s->writer, request->id, method);
  write_params_locked(s, method, request->id, pairs, count, asker);
  s->requests = request;
  tp_status status = send_locked(s, request->id, method, fault);
  if (status == TP_OK) return TP_OK;
  assert(s->requests == request);
  s->requests = request->next;
  tp__heap_free(request, sizeof *request);
  return status;
}

static tp_status notify_locked(tp__mcp_session *s, const char *method, const tp__mcp_pair *pairs, size_t count) {
  TP__LOCKED(&s->lock);
  tp__mcp_begin_notification(s->writer, method);
  write_params_locked(s, method, 0, pairs, count, NULL);
  return send_locked(s, -1, method, NULL);
}

/* ---- the server's own messages ---- */

static void subscription_ended(void *ctx, const tp__mcp_answer *answer) { /* the list is as it was read until then */
  (void)ctx, (void)answer;
}

static void subscribe_locked(tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  static const char wanted[] = "\x81\xB0toolsListChanged\xC3"; /* {"toolsListChanged": true} */
  const tp__mcp_pair pairs[] = {{"notifications", {wanted, sizeof wanted - 1}, true}};
  (void)!request_locked(s, "subscriptions/listen", pairs, 1,
                        &(tp__mcp_asker){.on_answer = subscription_ended, .ctx = s}, NULL, NULL);
}

/* ---- the handshake ---- */

static void list_locked(tp__mcp_session *s, tp_text cursor, after *a);
static void initialize_locked(tp__mcp_session *s, after *a);

/* Takes the name of the server, and what it has. */
static void take_server_locked(tp__mcp_session *s, tp_text info, tp_text capabilities) {
  TP__LOCKED(&s->lock);
  tp_text tools = tp_value_get(capabilities, "tools");
  tp__show(s->server_name, sizeof s->server_name, tp_value_text(tp_value_get(info, "name")));
  tp__show(s->server_version, sizeof s->server_version, tp_value_text(tp_value_get(info, "version")));
  s->has_tools = tools.size > 0;
  s->has_list_changed = tp_value_bool(tp_value_get(tools, "listChanged"), false);
}

static void speaks_locked(tp__mcp_session *s, tp_mcp_version version, after *a) {
  TP__LOCKED(&s->lock);
  s->version = version;
  s->is_probing = s->awaits_delivery = false;
  s->probe_deadline_ns = INT64_MAX;
  if (s->transport->listen_locked && tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE))
    s->transport->listen_locked(s);
  list_locked(s, (tp_text){"", 0}, a);
}

/* The newest version of a list that this side has, too. */
static tp_mcp_version common_version(tp_text supported) {
  tp_mcp_version newest = TP_MCP_VERSION_NONE;
  for (tp_value_walk walk = {0}; tp_value_kind_of(supported) == TP_VALUE_ARRAY && tp_value_next(supported, &walk);) {
    tp_mcp_version version = tp__mcp_version_of(tp_value_text(walk.value));
    if (version > newest) newest = version;
  }
  return newest;
}

static void discovered_locked(tp__mcp_session *s, tp_text supported, tp_text result, after *a) {
  TP__LOCKED(&s->lock);
  tp_mcp_version version = common_version(supported);
  if (version == TP_MCP_VERSION_NONE) {
    pause_locked(s, a, "it supports no version of the protocol that turnphase has");
  } else if (tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE)) {
    if (s->is_probing) initialize_locked(s, a); /* else it is under way */
  } else {
    tp_text info = tp_value_get(tp_value_get(result, "_meta"), "io.modelcontextprotocol/serverInfo");
    take_server_locked(s, info, tp_value_get(result, "capabilities"));
    if (result.size == 0) s->has_tools = true; /* it only said its versions */
    speaks_locked(s, version, a);
  }
}

static void discover_answered(void *ctx, const tp__mcp_answer *answer) {
  tp__mcp_session *s = ctx;
  after a = {0};
  const tp__mcp_message *m = answer->message;
  if (!m) return; /* the session has ended, or goes on with initialize */
  tp__lock_acquire(&s->lock);
  tp_text versions = tp_value_get(m->kind == TP__MCP_RESULT ? m->result : m->data,
                                  m->kind == TP__MCP_RESULT ? "supportedVersions" : "supported");
  if (s->state != TP__MCP_STARTING || s->version != TP_MCP_VERSION_NONE ||
      (!s->is_probing && m->kind == TP__MCP_ERROR)) {
    /* too late: initialize is answered, or under way; a server that begins
     * slowly may read both, and speak as here */
  } else if (m->kind == TP__MCP_RESULT && tp_value_kind_of(versions) == TP_VALUE_ARRAY) {
    discovered_locked(s, versions, m->result, &a);
  } else if (m->kind == TP__MCP_ERROR && m->code == TP__MCP_UNSUPPORTED_VERSION) {
    discovered_locked(s, versions, (tp_text){"", 0}, &a);
  } else {
    initialize_locked(s, &a);
  }
  release(s, &a);
}

static void initialize_answered(void *ctx, const tp__mcp_answer *answer) {
  tp__mcp_session *s = ctx;
  after a = {0};
  char words[TP_FAULT_MESSAGE_SIZE], shown[160];
  const tp__mcp_message *m = answer->message;
  if (!m) return;
  tp__lock_acquire(&s->lock);
  if (s->state != TP__MCP_STARTING || s->version != TP_MCP_VERSION_NONE) { /* server/discover was answered after all */
    release(s, &a);
    return;
  }
  tp_text text = tp_value_text(tp_value_get(m->result, "protocolVersion"));
  tp_mcp_version version = m->kind == TP__MCP_RESULT ? tp__mcp_version_of(text) : TP_MCP_VERSION_NONE;
  tp__show(shown, sizeof shown, m->kind == TP__MCP_ERROR ? m->words : text);
  if (m->kind == TP__MCP_ERROR) {
    snprintf(words, sizeof words, "it refuses initialize: %s", shown);
    pause_locked(s, &a, words);
  } else if (!tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE)) {
    snprintf(words, sizeof words,
             "it wants version \"%s\" of the protocol, which turnphase does "
             "not have",
             shown);
    pause_locked(s, &a, words);
  } else {
    take_server_locked(s, tp_value_get(m->result, "serverInfo"), tp_value_get(m->result, "capabilities"));
    s->version = version;
    s->awaits_delivery = s->transport->confirms;
    tp_status sent = notify_locked(s, "notifications/initialized", NULL, 0); /* its end is another event */
    if (!s->awaits_delivery || sent != TP_OK) speaks_locked(s, version, &a);
  }
  release(s, &a);
}

static void initialize_locked(tp__mcp_session *s, after *a) {
  TP__LOCKED(&s->lock);
  tp_text constants, version = tp_text_of(tp_mcp_version_name(TP__MCP_VERSION_HANDSHAKE));
  tp_fault fault = {0};
  s->is_probing = false;
  s->skips_probe = true;
  s->probe_deadline_ns = INT64_MAX;
  (void)!tp_writer_finish(s->constants, &constants);
  const tp__mcp_pair pairs[] = {{"protocolVersion", version, false},
                                {"capabilities", tp_value_at(constants, 1), true},
                                {"clientInfo", tp_value_at(constants, 0), true}};
  if (request_locked(s, "initialize", pairs, 3, &(tp__mcp_asker){.on_answer = initialize_answered, .ctx = s}, NULL,
                     &fault) != TP_OK)
    pause_locked(s, a, fault.message);
}

static void start_locked(tp__mcp_session *s, after *a) {
  TP__LOCKED(&s->lock);
  assert(!s->is_connected && (s->state == TP__MCP_IDLE || s->state == TP__MCP_PAUSED));
  tp_fault fault = {0};
  int64_t now_ns = tp__monotonic_ns(), limit_ns = s->settings.options.start_limit_ms * TP__NS_IN_MS;
  s->state = TP__MCP_STARTING;
  s->restart_ns = INT64_MAX;
  s->version = TP_MCP_VERSION_NONE;
  s->starts++;
  s->strays = 0;
  s->has_bad_progress = false;
  s->start_deadline_ns = now_ns + limit_ns;
  s->is_connected = true;
  if (s->transport->start_locked(s, &fault) != TP_OK) {
    s->is_connected = false;
    pause_locked(s, a, fault.message);
  } else if (s->skips_probe) {
    initialize_locked(s, a);
  } else {
    s->is_probing = true;
    s->probe_deadline_ns =
        now_ns + (limit_ns / 4 < PROBE_MS_MAX * TP__NS_IN_MS ? limit_ns / 4 : PROBE_MS_MAX * TP__NS_IN_MS);
    if (request_locked(s, "server/discover", NULL, 0, &(tp__mcp_asker){.on_answer = discover_answered, .ctx = s}, NULL,
                       &fault) != TP_OK)
      pause_locked(s, a, fault.message);
  }
  tp__mcp_io_wake();
}

/* ---- the list of tools ---- */

static void drop_listing_locked(tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  tp__mcp_tools_unref(s->listing);
  s->listing = NULL;
  s->is_listing = false;
}

static void list_answered(void *ctx, const tp__mcp_answer *answer) {
  tp__mcp_session *s = ctx;
  after a = {0};
  tp_text cursor = {"", 0};
  char words[TP_FAULT_MESSAGE_SIZE], shown[160];
  const tp__mcp_message *m = answer->message;
  tp__lock_acquire(&s->lock);
  if (!s->listing || (!m && s->state == TP__MCP_STARTING)) { /* it has ended meanwhile, perhaps
                                                 to be started again */
    release(s, &a);
    return;
  }
  if (!m) {
    tp__mcp_session_note_locked(s,
                                "the server %s does not answer tools/list: %s; "
                                "its tools stay as they were",
                                s->settings.options.name, answer->words);
    drop_listing_locked(s);
  } else if (m->kind == TP__MCP_ERROR) {
    tp__show(shown, sizeof shown, m->words);
    snprintf(words, sizeof words, "it refuses tools/list: %s", shown);
    if (s->state == TP__MCP_STARTING) {
      pause_locked(s, &a, words);
    } else {
      tp__mcp_session_note_locked(s, "the server %s: %s; its tools stay as they were", s->settings.options.name, words);
      drop_listing_locked(s);
    }
  } else if (tp__mcp_list_add_locked(s, s->listing, m->result, &cursor)) {
    list_locked(s, cursor, &a);
  } else {
    ready_locked(s, &a);
    if (s->list_again) list_locked(s, (tp_text){"", 0}, &a);
  }
  release(s, &a);
}

/* @param cursor  of the next page; empty: the first. */
static void list_locked(tp__mcp_session *s, tp_text cursor, after *a) {
  TP__LOCKED(&s->lock);
  const tp__mcp_pair pairs[] = {{"cursor", cursor, false}};
  tp_fault fault = {0};
  if (cursor.size == 0) {
    s->pages = 0;
    s->list_again = false;
    s->listing = tp__mcp_list_new(s);
    if (!s->listing) {
      if (s->state == TP__MCP_STARTING) pause_locked(s, a, "no memory for its tools");
      return;
    }
    s->is_listing = true;
    if (!s->has_tools) {
      tp__mcp_session_note_locked(s, "the server %s offers no tools", s->settings.options.name);
      ready_locked(s, a);
      return;
    }
  }
  if (request_locked(s, "tools/list", pairs, cursor.size > 0, &(tp__mcp_asker){.on_answer = list_answered, .ctx = s},
                     NULL, &fault) != TP_OK &&
      s->state == TP__MCP_STARTING)
    pause_locked(s, a, fault.message);
}

static void list_changed_locked(tp__mcp_session *s, after *a) {
  TP__LOCKED(&s->lock);
  if (s->state == TP__MCP_READY && !s->is_listing) list_locked(s, (tp_text){"", 0}, a);
  else s->list_again = s->is_listing;
}

/* ---- reading ---- */

static struct tp__mcp_request *take_request_locked(tp__mcp_session *s, int64_t id) {
  TP__LOCKED(&s->lock);
  for (struct tp__mcp_request **at = &s->requests; *at; at = &(*at)->next) {
    struct tp__mcp_request *request = *at;
    if (request->id != id) continue;
    *at = request->next;
    return request;
  }
  return NULL;
}

/* A request of the handshake will have no answer: to the probe there is another
 * way. */
static void fail_handshake_locked(tp__mcp_session *s, after *a, const char *words) {
  TP__LOCKED(&s->lock);
  if (s->state != TP__MCP_STARTING) return;
  if (s->is_probing) initialize_locked(s, a);
  else pause_locked(s, a, words);
}

static void answer_request(tp__mcp_session *s, const tp__mcp_message *m, const char *words) {
  int64_t id = tp__mcp_id_number(m->id);
  const tp__mcp_answer answer = {.message = m->kind == TP__MCP_BROKEN ? NULL : m, .words = words};
  after a = {0};
  tp__lock_acquire(&s->lock);
  struct tp__mcp_request *request = id > 0 ? take_request_locked(s, id) : NULL;
  if (request && !answer.message) fail_handshake_locked(s, &a, words);
  bool is_unknown = !request && (id <= 0 || id > s->last_id); /* else it was given up, or is answered twice */
  if (is_unknown && m->kind != TP__MCP_ERROR)
    tp__mcp_session_note_locked(s, "the server %s answers a request that was never made", s->settings.options.name);
  else if (!request && m->kind == TP__MCP_ERROR && m->id.size == 0 && s->state == TP__MCP_READY)
    tp__mcp_session_note_locked(s, "the server %s reports: %.*s", s->settings.options.name, tp__cut(m->words, 200),
                                m->words.size ? m->words.data : "");
  release(s, &a);
  if (!request) return;
  request->asker.on_answer(request->asker.ctx, &answer);
  tp__heap_free(request, sizeof *request);
}

bool tp__mcp_session_write_input(const tp__mcp_session *s, tp_text method, tp_writer *writer) {
  if (tp__is_word(method, "ping")) {
    tp_write_map(writer, 0);
  } else if (tp__is_word(method, "roots/list") && s->settings.options.workspace) {
    tp__mcp_list_write_roots(s, writer);
  } else {
    return false;
  }
  return true;
}

/* A request of the server's that a person or a model answers. */
typedef struct server_asks {
  tp__mcp_session *session; /* referenced */
  tp__bytes id;             /* value */
  uint64_t start;           /* of the session in which it was made */
} server_asks;

/* @param words  with an empty result: why there is none. */
static void answer_asks(void *ctx, tp_text result, const char *words) {
  enum { REFUSED = -1 }; /* as the protocol has it for what a user rejects */
  server_asks *asks = ctx;
  tp__mcp_session *s = asks->session;
  tp__lock_acquire(&s->lock);
  assert(s->asks > 0);
  s->asks--;
  if (s->starts == asks->start && (s->state == TP__MCP_READY || s->state == TP__MCP_STARTING)) {
    if (result.size > 0) {
      tp__mcp_begin_result(s->writer, tp__bytes_text(&asks->id));
      tp_write_value(s->writer, result);
    } else {
      tp__mcp_write_error(s->writer, tp__bytes_text(&asks->id), words ? REFUSED : TP__MCP_INTERNAL_ERROR,
                          tp_text_of(words ? words : "no memory"), (tp_text){"", 0});
    }
    (void)!send_locked(s, -1, "", NULL); /* a server that is gone wants no answer */
  }
  tp__lock_release(&s->lock);
  tp__bytes_fini(&asks->id);
  tp__heap_free(asks, sizeof *asks);
  tp__mcp_session_unref(s);
}

static void person_answered(void *ctx, tp_text result) { answer_asks(ctx, result, NULL); }

/* A server does not say which call it asks about: it is the newest. @return
 * NULL: none is under way. */
static tp__mcp_origin *newest_call_locked(const tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  const struct tp__mcp_request *newest = s->requests;
  while (newest && !newest->asker.origin) newest = newest->next;
  return newest ? newest->asker.origin : NULL;
}

/* @return false: there is no memory, or too much is asked at once. */
static bool ask(tp__mcp_session *s, const tp__mcp_message *m, bool is_for_person) {
  server_asks *asks = tp__heap_alloc(sizeof *asks);
  if (!asks) return false;
  tp__bytes_put_text(&asks->id, m->id);
  tp__lock_acquire(&s->lock);
  asks->start = s->starts;
  bool is_asked = !asks->id.failed && s->asks < ASKS_MAX;
  s->asks += is_asked;
  tp__mcp_origin *origin = newest_call_locked(s);
  if (origin) origin->ref(origin->owner);
  tp__lock_release(&s->lock);
  if (is_asked) {
    tp__mcp_session_ref(s);
    asks->session = s;
  } else {
    tp__bytes_fini(&asks->id);
    tp__heap_free(asks, sizeof *asks);
  }
  if (is_asked && !is_for_person) {
    tp__mcp_sample_begin(s, m->params, origin, answer_asks, asks);
    return true;
  }
  if (is_asked) tp__mcp_asked_begin(s, m->params, origin, person_answered, asks);
  if (origin) origin->unref(origin->owner);
  return is_asked;
}

/* What a server asks of its client. */
static void answer_server(tp__mcp_session *s, const tp__mcp_message *m) {
  bool is_for_person = tp__is_word(m->method, "elicitation/create");
  bool is_for_model = s->settings.has_sampling && tp__is_word(m->method, "sampling/createMessage");
  if ((is_for_person || is_for_model) && ask(s, m, is_for_person)) return;
  tp__lock_acquire(&s->lock);
  tp_fault fault = {0};
  tp__mcp_begin_result(s->writer, m->id);
  if (is_for_person || is_for_model) {
    tp__mcp_write_error(s->writer, m->id, TP__MCP_INTERNAL_ERROR,
                        tp_text_of("too many questions wait for an answer, or there is no memory"), (tp_text){"", 0});
  } else if (!tp__mcp_session_write_input(s, m->method, s->writer)) {
    tp__mcp_write_error(s->writer, m->id, TP__MCP_METHOD_NOT_FOUND, tp_text_of("this client does not have the method"),
                        (tp_text){"", 0});
  }
  (void)!send_locked(s, -1, "", &fault);
  tp__lock_release(&s->lock);
}

/* Of a request that has its answer, or that was given up, it is too late. */
static void progress_locked(tp__mcp_session *s, tp_text params) {
  TP__LOCKED(&s->lock);
  int64_t id = tp__mcp_id_number(tp_value_get(params, "progressToken"));
  const struct tp__mcp_request *request = s->requests;
  while (request && request->id != id) request = request->next;
  if (!request || !request->asker.on_progress) return;
  double done = tp_value_double(tp_value_get(params, "progress"), -1);
  double total = tp_value_double(tp_value_get(params, "total"), 0);
  tp_text message = tp_value_text(tp_value_get(params, "message"));
  if (request->asker.on_progress(request->asker.ctx, done, total, message) || s->has_bad_progress) return;
  s->has_bad_progress = true;
  tp__mcp_session_note_locked(s, "the server %s reports progress that is no number from 0", s->settings.options.name);
}

static void take_notification(tp__mcp_session *s, const tp__mcp_message *m) {
  after a = {0};
  tp__lock_acquire(&s->lock);
  if (tp__is_word(m->method, "notifications/tools/list_changed")) list_changed_locked(s, &a);
  else if (tp__is_word(m->method, "notifications/progress")) progress_locked(s, m->params);
  release(s, &a);
}

static void take_stray(tp__mcp_session *s, tp_text line, const char *why) {
  after a = {0};
  char shown[128], words[TP_FAULT_MESSAGE_SIZE];
  tp__show(shown, sizeof shown, line);
  tp__lock_acquire(&s->lock);
  s->strays++;
  if (s->strays == 1)
    tp__mcp_session_note_locked(s, "the server %s wrote what is no message (%s): %s", s->settings.options.name, why,
                                shown);
  if (s->strays > STRAYS_MAX && (s->state == TP__MCP_STARTING || s->state == TP__MCP_READY)) {
    snprintf(words, sizeof words, "it wrote more than %d lines that are no messages", STRAYS_MAX);
    pause_locked(s, &a, words);
  }
  release(s, &a);
}

/* What waits for an answer that cannot be read, or stands where none may, does
 * not wait for its limit.
 * @return whether there was such a request. */
static bool fail_unread(tp__mcp_session *s, tp_text json, const char *why) {
  char words[TP_FAULT_MESSAGE_SIZE + 32];
  tp__mcp_unread unread;
  bool is_found = false;
  snprintf(words, sizeof words, "its answer cannot be read: %s", why);
  for (size_t at = 0; tp__mcp_next_unread(json, &at, &unread);) {
    if (!unread.is_answer || !tp__mcp_session_waits(s, unread.id)) continue;
    is_found = true;
    tp__mcp_session_fail_request(s, unread.id, words);
  }
  return is_found;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void tp__mcp_session_take(tp__mcp_session *s, tp_text json) {
  tp__mcp_packet packet;
  tp__mcp_message m;
  tp_fault fault = {0};
  size_t blanks = 0;
  while (blanks < json.size && is_space(json.data[blanks])) blanks++;
  if (blanks == json.size) return;
  tp__lock_acquire(&s->lock);
  tp_mcp_version version = s->version;
  tp__lock_release(&s->lock);
  if (!tp__mcp_decode(json, s->settings.options.message_bytes_max, version, s->reader, &packet, &m, &fault)) {
    if (!fail_unread(s, json, fault.message)) take_stray(s, json, fault.message);
    return;
  }
  while (tp__mcp_next(&packet, &m, &fault)) {
    if (m.kind == TP__MCP_REQUEST) answer_server(s, &m);
    else if (m.kind == TP__MCP_NOTIFICATION) take_notification(s, &m);
    else if (m.kind == TP__MCP_BROKEN && m.id.size == 0) take_stray(s, json, fault.message);
    else answer_request(s, &m, fault.message);
  }
}

void tp__mcp_session_delivered(tp__mcp_session *s) {
  after a = {0};
  tp__lock_acquire(&s->lock);
  if (s->awaits_delivery) speaks_locked(s, s->version, &a);
  release(s, &a);
}

bool tp__mcp_session_waits(tp__mcp_session *s, int64_t id) {
  tp__lock_acquire(&s->lock);
  const struct tp__mcp_request *each = s->requests;
  while (each && each->id != id) each = each->next;
  tp__lock_release(&s->lock);
  return each != NULL;
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

void tp__mcp_session_renew(tp__mcp_session *s, int64_t id) {
  static const char words[] = "it has lost the session, which is begun again";
  const tp__mcp_answer answer = {.words = words};
  after a = {0};
  tp_fault fault = {0};
  tp__lock_acquire(&s->lock);
  struct tp__mcp_request *request = take_request_locked(s, id);
  if (s->state == TP__MCP_READY) {
    take_waiting_locked(s, &a, words);
    s->transport->kill_locked(s);
    s->state = TP__MCP_STARTING;
    s->was_ready = true;
    s->version = TP_MCP_VERSION_NONE;
    s->start_deadline_ns = tp__monotonic_ns() + s->settings.options.start_limit_ms * TP__NS_IN_MS;
    if (s->transport->start_locked(s, &fault) == TP_OK) initialize_locked(s, &a);
    else pause_locked(s, &a, fault.message);
    tp__mcp_io_wake();
  } else if (s->state == TP__MCP_STARTING) {
    pause_locked(s, &a, "it loses sessions as soon as they begin");
  }
  release(s, &a);
  if (!request) return;
  request->asker.on_answer(request->asker.ctx, &answer);
  tp__heap_free(request, sizeof *request);
}

void tp__mcp_session_fail_request(tp__mcp_session *s, int64_t id, const char *words) {
  const tp__mcp_answer answer = {.words = words};
  after a = {0};
  tp__lock_acquire(&s->lock);
  struct tp__mcp_request *request = take_request_locked(s, id);
  if (request) fail_handshake_locked(s, &a, words);
  release(s, &a);
  if (!request) return;
  request->asker.on_answer(request->asker.ctx, &answer);
  tp__heap_free(request, sizeof *request);
}

void tp__mcp_session_broken(tp__mcp_session *s, const char *words) {
  after a = {0};
  tp__lock_acquire(&s->lock);
  if (s->state == TP__MCP_STARTING || s->state == TP__MCP_READY) pause_locked(s, &a, words);
  if (s->is_connected) s->transport->kill_locked(s);
  release(s, &a);
}

void tp__mcp_session_lost(tp__mcp_session *s, const char *words) {
  after a = {0};
  tp__lock_acquire(&s->lock);
  bool was_probe = s->state == TP__MCP_STARTING && s->is_probing;
  s->is_connected = false;
  s->kill_ns = INT64_MAX;
  if (was_probe) { /* some end at a request before initialize */
    struct tp__mcp_waiter *waiters = s->waiters;
    s->waiters = NULL;
    take_waiting_locked(s, &a, words);
    s->waiters = waiters;
    s->skips_probe = true;
    s->state = TP__MCP_IDLE;
    start_locked(s, &a);
  } else if (s->state == TP__MCP_STARTING || s->state == TP__MCP_READY) {
    pause_locked(s, &a, words);
  }
  tp__lock_condition_broadcast(&s->ended);
  bool leaves = s->leaves_at_end;
  release(s, &a);
  if (leaves) tp__mcp_io_leave(s);
}

/* ---- what tools do ---- */

tp_status tp__mcp_session_request(tp__mcp_session *s, const char *method, const tp__mcp_pair *pairs, size_t pair_count,
                                  const tp__mcp_asker *asker, int64_t *ret_id, tp_fault *fault) {
  tp_status status;
  size_t open = 0;
  tp__lock_acquire(&s->lock);
  for (const struct tp__mcp_request *each = s->requests; each; each = each->next) open++;
  if (s->state != TP__MCP_READY)
    status = tp__refuse(fault, TP_ERR_STALE, NULL, "The server %s is not there: %s. The call was not sent.",
                        s->settings.options.name, s->state == TP__MCP_PAUSED ? s->words : "it is being started");
  else if (open >= REQUESTS_MAX)
    status = tp__refuse(fault, TP_ERR_FULL, NULL, "The server %s has not answered %d requests. The call was not sent.",
                        s->settings.options.name, REQUESTS_MAX);
  else status = request_locked(s, method, pairs, pair_count, asker, ret_id, fault);
  tp__lock_release(&s->lock);
  return status;
}

bool tp__mcp_session_give_up(tp__mcp_session *s, const int64_t *ret_id, const char *reason) {
  char bytes[9];
  tp__lock_acquire(&s->lock);
  int64_t id = *ret_id;
  const tp__mcp_pair pairs[] = {{"requestId", tp__mcp_number_value(id, bytes), true},
                                {"reason", tp_text_of(reason), false}};
  struct tp__mcp_request *request = take_request_locked(s, id);
  if (request && s->transport->give_up_locked) s->transport->give_up_locked(s, id);
  if (request && (!s->transport->give_up_locked || tp__mcp_version_has(s->version, TP__MCP_HAS_INITIALIZE)))
    (void)!notify_locked(s, "notifications/cancelled", pairs, 2);
  tp__lock_release(&s->lock);
  if (request) tp__heap_free(request, sizeof *request);
  return request != NULL;
}

bool tp__mcp_session_want(tp__mcp_session *s, tp__mcp_ready_fn on_ready, void *ctx) {
  after a = {0};
  struct tp__mcp_waiter *waiter = tp__heap_alloc(sizeof *waiter);
  if (!waiter) return false;
  *waiter = (struct tp__mcp_waiter){.on_ready = on_ready, .ctx = ctx};
  tp__lock_acquire(&s->lock);
  bool may_start = s->state == TP__MCP_IDLE || (s->state == TP__MCP_PAUSED && s->restart_ns <= tp__monotonic_ns());
  if (may_start && !s->is_connected) {
    s->waiters = waiter;
    start_locked(s, &a);
  } else if (s->state == TP__MCP_STARTING) {
    waiter->next = s->waiters;
    s->waiters = waiter;
  } else {
    a.waiters = waiter;
    snprintf(a.words, sizeof a.words, "%s", s->state == TP__MCP_CLOSED ? "it is being closed" : s->words);
    if (s->state == TP__MCP_READY) a.tools = s->tools;
    if (a.tools) tp__mcp_tools_ref(a.tools);
  }
  release(s, &a);
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

/* @return when the next one is due. */
static int64_t take_due_locked(tp__mcp_session *s, after *a, int64_t now_ns) {
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
  after a = {0};
  tp__lock_acquire(&s->lock);
  if (s->start_deadline_ns <= now_ns) {
    char words[192];
    snprintf(words, sizeof words,
             "it was not ready after %u ms (start_limit_ms); if it is "
             "downloaded first, run its command once by hand",
             (unsigned)s->settings.options.start_limit_ms);
    pause_locked(s, &a, words);
  }
  if (s->probe_deadline_ns <= now_ns) initialize_locked(s, &a);
  if (s->kill_ns <= now_ns) {
    s->kill_ns = INT64_MAX;
    if (s->is_connected) s->transport->kill_locked(s);
  }
  if (s->restart_ns <= now_ns && s->was_ready && !s->is_connected) start_locked(s, &a);
  int64_t alarm_ns = take_due_locked(s, &a, now_ns);
  int64_t next_ns = least(least(s->start_deadline_ns, s->probe_deadline_ns), s->kill_ns);
  if (s->was_ready && !s->is_connected) next_ns = least(next_ns, s->restart_ns);
  release(s, &a);
  return least(next_ns, alarm_ns);
}

/* ---- begin and end ---- */

/* @param has_tasks  a server may answer a call with a task: in versions without
 * a handshake. */
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

/* [clientInfo, clientCapabilities of initialize, those of _meta] */
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
  after a = {0};
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
  release(s, &a);
  tp__mcp_tools_unref(tools);
  if (leaves) tp__mcp_io_leave(s);
}
