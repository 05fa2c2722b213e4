/* SPDX-License-Identifier: Apache-2.0
 *
 * receive: handles everything that a server sends: answers, requests to its client, notifications, and lines that are
 * no messages. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/asked.h"
#include "domains/mcp/handshake.h"
#include "domains/mcp/list.h"
#include "domains/mcp/request.h"
#include "domains/mcp/sample.h"
#include "domains/mcp/session.h"

enum {
  STRAYS_MAX = 1000, /* how many lines that are no messages a server may send; after that it is ended */
  ASKS_MAX = 16      /* the most requests of the server that wait for people and models */
};

/* Handles a request of the handshake that will have no answer. After the probe the handshake goes on in another way. */
static void fail_handshake_locked(tp__mcp_session *s, tp__mcp_after *a, const char *words) {
  TP__LOCKED(&s->lock);
  if (s->state != TP__MCP_STARTING) return;
  if (s->is_probing) tp__mcp_session_initialize_locked(s, a);
  else tp__mcp_session_pause_locked(s, a, words);
}

static void answer_request(tp__mcp_session *s, const tp__mcp_message *m, const char *words) {
  int64_t id = tp__mcp_id_number(m->id);
  const tp__mcp_answer answer = {.message = m->kind == TP__MCP_BROKEN ? NULL : m, .words = words};
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  struct tp__mcp_request *request = id > 0 ? tp__mcp_session_take_request_locked(s, id) : NULL;
  if (request && !answer.message) fail_handshake_locked(s, &a, words);
  bool is_unknown = !request && (id <= 0 || id > s->last_id); /* else the request was given up, or is answered twice */
  if (is_unknown && m->kind != TP__MCP_ERROR)
    tp__mcp_session_note_locked(s, "the server %s answers a request that was never made", s->settings.options.name);
  else if (!request && m->kind == TP__MCP_ERROR && m->id.size == 0 && s->state == TP__MCP_READY)
    tp__mcp_session_note_locked(s, "the server %s reports: %.*s", s->settings.options.name, tp__cut(m->words, 200),
                                m->words.size ? m->words.data : "");
  tp__mcp_session_release(s, &a);
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
  tp__mcp_session *session; /* holds a reference */
  tp__bytes id;             /* value: the id of the request */
  uint64_t start;           /* which start of the session it belongs to */
} server_asks;

/* @param words  the reason, when the result is empty. */
static void answer_asks(void *ctx, tp_text result, const char *words) {
  enum { REFUSED = -1 }; /* the code that the protocol has for a user's refusal */
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
    (void)!tp__mcp_session_send_locked(s, -1, "", NULL); /* an answer that cannot be sent is dropped: the server is
                                                            gone */
  }
  tp__lock_release(&s->lock);
  tp__bytes_fini(&asks->id);
  tp__heap_free(asks, sizeof *asks);
  tp__mcp_session_unref(s);
}

static void person_answered(void *ctx, tp_text result) { answer_asks(ctx, result, NULL); }

/* Returns the call to which a request of the server counts: the newest one, since a server does not name it. @return
 * NULL: no call is under way. */
static tp__mcp_origin *newest_call_locked(const tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  const struct tp__mcp_request *newest = s->requests;
  while (newest && !newest->asker.origin) newest = newest->next;
  return newest ? newest->asker.origin : NULL;
}

/* @return false: there is no memory, or too many requests wait. */
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

/* Answers a request of the server. */
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
  (void)!tp__mcp_session_send_locked(s, -1, "", &fault);
  tp__lock_release(&s->lock);
}

/* Handles a progress notification; one for a request that was answered or given up is ignored. */
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
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  if (tp__is_word(m->method, "notifications/tools/list_changed")) tp__mcp_session_list_changed_locked(s, &a);
  else if (tp__is_word(m->method, "notifications/progress")) progress_locked(s, m->params);
  tp__mcp_session_release(s, &a);
}

static void take_stray(tp__mcp_session *s, tp_text line, const char *why) {
  tp__mcp_after a = {0};
  char shown[128], words[TP_FAULT_MESSAGE_SIZE];
  tp__show(shown, sizeof shown, line);
  tp__lock_acquire(&s->lock);
  s->strays++;
  if (s->strays == 1)
    tp__mcp_session_note_locked(s, "the server %s wrote what is no message (%s): %s", s->settings.options.name, why,
                                shown);
  if (s->strays > STRAYS_MAX && (s->state == TP__MCP_STARTING || s->state == TP__MCP_READY)) {
    snprintf(words, sizeof words, "it wrote more than %d lines that are no messages", STRAYS_MAX);
    tp__mcp_session_pause_locked(s, &a, words);
  }
  tp__mcp_session_release(s, &a);
}

/* Fails the request whose answer cannot be read, or comes where no answer may come, so that it does not wait for its
 * limit.
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

void tp__mcp_session_fail_request(tp__mcp_session *s, int64_t id, const char *words) {
  const tp__mcp_answer answer = {.words = words};
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  struct tp__mcp_request *request = tp__mcp_session_take_request_locked(s, id);
  if (request) fail_handshake_locked(s, &a, words);
  tp__mcp_session_release(s, &a);
  if (!request) return;
  request->asker.on_answer(request->asker.ctx, &answer);
  tp__heap_free(request, sizeof *request);
}
