/* SPDX-License-Identifier: Apache-2.0
 *
 * handshake: how a session that starts becomes ready: server/discover, or initialize, then the pages of tools/list,
 * which are read again when the server notifies a change. */

#include "domains/mcp/handshake.h"

#include <assert.h>
#include <stdio.h>

#include "domains/mcp/io.h"
#include "domains/mcp/list.h"
#include "domains/mcp/request.h"
#include "support/clock.h"

enum {
  PROBE_MS_MAX = 5000
}; /* how long server/discover may be unanswered before initialize is sent; the request stays
                                 open */

/* ---- the server's own messages ---- */

static void subscription_ended(void *ctx, const tp__mcp_answer *answer) { /* until that moment the list is as it was
                                                                             read */
  (void)ctx, (void)answer;
}

void tp__mcp_session_subscribe_locked(tp__mcp_session *s) {
  TP__LOCKED(&s->lock);
  static const char wanted[] = "\x81\xB0toolsListChanged\xC3"; /* {"toolsListChanged": true} */
  const tp__mcp_pair pairs[] = {{"notifications", {wanted, sizeof wanted - 1}, true}};
  (void)!tp__mcp_session_request_locked(s, "subscriptions/listen", pairs, 1,
                                        &(tp__mcp_asker){.on_answer = subscription_ended, .ctx = s}, NULL, NULL);
}

/* ---- the handshake ---- */

static void list_locked(tp__mcp_session *s, tp_text cursor, tp__mcp_after *a);

/* Takes the server's name and its capabilities. */
static void take_server_locked(tp__mcp_session *s, tp_text info, tp_text capabilities) {
  TP__LOCKED(&s->lock);
  tp_text tools = tp_value_get(capabilities, "tools");
  tp__show(s->server_name, sizeof s->server_name, tp_value_text(tp_value_get(info, "name")));
  tp__show(s->server_version, sizeof s->server_version, tp_value_text(tp_value_get(info, "version")));
  s->has_tools = tools.size > 0;
  s->has_list_changed = tp_value_bool(tp_value_get(tools, "listChanged"), false);
}

static void speaks_locked(tp__mcp_session *s, tp_mcp_version version, tp__mcp_after *a) {
  TP__LOCKED(&s->lock);
  s->version = version;
  s->is_probing = s->awaits_delivery = false;
  s->probe_deadline_ns = INT64_MAX;
  if (s->transport->listen_locked && tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE))
    s->transport->listen_locked(s);
  list_locked(s, (tp_text){"", 0}, a);
}

/* Returns the newest version of the list that this side also speaks. */
static tp_mcp_version common_version(tp_text supported) {
  tp_mcp_version newest = TP_MCP_VERSION_NONE;
  for (tp_value_walk walk = {0}; tp_value_kind_of(supported) == TP_VALUE_ARRAY && tp_value_next(supported, &walk);) {
    tp_mcp_version version = tp__mcp_version_of(tp_value_text(walk.value));
    if (version > newest) newest = version;
  }
  return newest;
}

static void discovered_locked(tp__mcp_session *s, tp_text supported, tp_text result, tp__mcp_after *a) {
  TP__LOCKED(&s->lock);
  tp_mcp_version version = common_version(supported);
  if (version == TP_MCP_VERSION_NONE) {
    tp__mcp_session_pause_locked(s, a, "it supports no version of the protocol that turnphase has");
  } else if (tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE)) {
    if (s->is_probing) tp__mcp_session_initialize_locked(s, a); /* else the handshake goes on already */
  } else {
    tp_text info = tp_value_get(tp_value_get(result, "_meta"), "io.modelcontextprotocol/serverInfo");
    take_server_locked(s, info, tp_value_get(result, "capabilities"));
    if (result.size == 0) s->has_tools = true; /* the result only lists the server's versions */
    speaks_locked(s, version, a);
  }
}

static void discover_answered(void *ctx, const tp__mcp_answer *answer) {
  tp__mcp_session *s = ctx;
  tp__mcp_after a = {0};
  const tp__mcp_message *m = answer->message;
  if (!m) return; /* the session has ended, or goes on with initialize */
  tp__lock_acquire(&s->lock);
  tp_text versions = tp_value_get(m->kind == TP__MCP_RESULT ? m->result : m->data,
                                  m->kind == TP__MCP_RESULT ? "supportedVersions" : "supported");
  if (s->state != TP__MCP_STARTING || s->version != TP_MCP_VERSION_NONE ||
      (!s->is_probing && m->kind == TP__MCP_ERROR)) {
    /* the answer is too late: initialize is answered or under way. A slow server may read both requests, and then
     * speaks a version without sessions */
  } else if (m->kind == TP__MCP_RESULT && tp_value_kind_of(versions) == TP_VALUE_ARRAY) {
    discovered_locked(s, versions, m->result, &a);
  } else if (m->kind == TP__MCP_ERROR && m->code == TP__MCP_UNSUPPORTED_VERSION) {
    discovered_locked(s, versions, (tp_text){"", 0}, &a);
  } else {
    tp__mcp_session_initialize_locked(s, &a);
  }
  tp__mcp_session_release(s, &a);
}

static void initialize_answered(void *ctx, const tp__mcp_answer *answer) {
  tp__mcp_session *s = ctx;
  tp__mcp_after a = {0};
  char words[TP_FAULT_MESSAGE_SIZE], shown[160];
  const tp__mcp_message *m = answer->message;
  if (!m) return;
  tp__lock_acquire(&s->lock);
  if (s->state != TP__MCP_STARTING || s->version != TP_MCP_VERSION_NONE) { /* server/discover was answered after all */
    tp__mcp_session_release(s, &a);
    return;
  }
  tp_text text = tp_value_text(tp_value_get(m->result, "protocolVersion"));
  tp_mcp_version version = m->kind == TP__MCP_RESULT ? tp__mcp_version_of(text) : TP_MCP_VERSION_NONE;
  tp__show(shown, sizeof shown, m->kind == TP__MCP_ERROR ? m->words : text);
  if (m->kind == TP__MCP_ERROR) {
    snprintf(words, sizeof words, "it refuses initialize: %s", shown);
    tp__mcp_session_pause_locked(s, &a, words);
  } else if (!tp__mcp_version_has(version, TP__MCP_HAS_INITIALIZE)) {
    snprintf(words, sizeof words,
             "it wants version \"%s\" of the protocol, which turnphase does "
             "not have",
             shown);
    tp__mcp_session_pause_locked(s, &a, words);
  } else {
    take_server_locked(s, tp_value_get(m->result, "serverInfo"), tp_value_get(m->result, "capabilities"));
    s->version = version;
    s->awaits_delivery = s->transport->confirms;
    tp_status sent =
        tp__mcp_session_notify_locked(s, "notifications/initialized", NULL, 0); /* if this fails, the transport reports
                                                                                   its end */
    if (!s->awaits_delivery || sent != TP_OK) speaks_locked(s, version, &a);
  }
  tp__mcp_session_release(s, &a);
}

void tp__mcp_session_initialize_locked(tp__mcp_session *s, tp__mcp_after *a) {
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
  if (tp__mcp_session_request_locked(s, "initialize", pairs, 3,
                                     &(tp__mcp_asker){.on_answer = initialize_answered, .ctx = s}, NULL,
                                     &fault) != TP_OK)
    tp__mcp_session_pause_locked(s, a, fault.message);
}

void tp__mcp_session_start_locked(tp__mcp_session *s, tp__mcp_after *a) {
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
    tp__mcp_session_pause_locked(s, a, fault.message);
  } else if (s->skips_probe) {
    tp__mcp_session_initialize_locked(s, a);
  } else {
    s->is_probing = true;
    s->probe_deadline_ns =
        now_ns + (limit_ns / 4 < PROBE_MS_MAX * TP__NS_IN_MS ? limit_ns / 4 : PROBE_MS_MAX * TP__NS_IN_MS);
    if (tp__mcp_session_request_locked(s, "server/discover", NULL, 0,
                                       &(tp__mcp_asker){.on_answer = discover_answered, .ctx = s}, NULL,
                                       &fault) != TP_OK)
      tp__mcp_session_pause_locked(s, a, fault.message);
  }
  tp__mcp_io_wake();
}

void tp__mcp_session_delivered(tp__mcp_session *s) {
  tp__mcp_after a = {0};
  tp__lock_acquire(&s->lock);
  if (s->awaits_delivery) speaks_locked(s, s->version, &a);
  tp__mcp_session_release(s, &a);
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
  tp__mcp_after a = {0};
  tp_text cursor = {"", 0};
  char words[TP_FAULT_MESSAGE_SIZE], shown[160];
  const tp__mcp_message *m = answer->message;
  tp__lock_acquire(&s->lock);
  if (!s->listing || (!m && s->state == TP__MCP_STARTING)) { /* the session has ended meanwhile, and may be starting
                                                                again */
    tp__mcp_session_release(s, &a);
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
      tp__mcp_session_pause_locked(s, &a, words);
    } else {
      tp__mcp_session_note_locked(s, "the server %s: %s; its tools stay as they were", s->settings.options.name, words);
      drop_listing_locked(s);
    }
  } else if (tp__mcp_list_add_locked(s, s->listing, m->result, &cursor)) {
    list_locked(s, cursor, &a);
  } else {
    tp__mcp_session_ready_locked(s, &a);
    if (s->list_again) list_locked(s, (tp_text){"", 0}, &a);
  }
  tp__mcp_session_release(s, &a);
}

/* @param cursor  that of the next page; empty: the first page. */
static void list_locked(tp__mcp_session *s, tp_text cursor, tp__mcp_after *a) {
  TP__LOCKED(&s->lock);
  const tp__mcp_pair pairs[] = {{"cursor", cursor, false}};
  tp_fault fault = {0};
  if (cursor.size == 0) {
    s->pages = 0;
    s->list_again = false;
    s->listing = tp__mcp_list_new(s);
    if (!s->listing) {
      if (s->state == TP__MCP_STARTING) tp__mcp_session_pause_locked(s, a, "no memory for its tools");
      return;
    }
    s->is_listing = true;
    if (!s->has_tools) {
      tp__mcp_session_note_locked(s, "the server %s offers no tools", s->settings.options.name);
      tp__mcp_session_ready_locked(s, a);
      return;
    }
  }
  if (tp__mcp_session_request_locked(s, "tools/list", pairs, cursor.size > 0,
                                     &(tp__mcp_asker){.on_answer = list_answered, .ctx = s}, NULL, &fault) != TP_OK &&
      s->state == TP__MCP_STARTING)
    tp__mcp_session_pause_locked(s, a, fault.message);
}

void tp__mcp_session_list_changed_locked(tp__mcp_session *s, tp__mcp_after *a) {
  TP__LOCKED(&s->lock);
  if (s->state == TP__MCP_READY && !s->is_listing) list_locked(s, (tp_text){"", 0}, a);
  else s->list_again = s->is_listing;
}
