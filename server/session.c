/* SPDX-License-Identifier: Apache-2.0
 *
 * session: the sessions of clients. A session that a client has named is kept after its turn, since its history and the
 * state of its handlers are loaded; when a new one needs space, the session that was not used for the longest time is
 * closed. Any other session lives as long as its turn, and its history keeps nothing. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/server.h"
#include "turnphase/store.h"

/* ---- a history that keeps nothing ---- */

static void load_nothing(void *ctx, const tp_history_load *request, tp_token token) {
  (void)ctx, (void)request;
  (void)!tp_history_complete_load(token, TP_OK, NULL, 0, NULL, NULL);
}

static void append_nothing(void *ctx, const tp_history_append *request, tp_token token) {
  (void)ctx, (void)request;
  (void)!tp_history_complete(token, TP_OK, NULL, NULL);
}

static const tp_history no_history = {
    .struct_size = sizeof no_history, .load_start = load_nothing, .append_start = append_nothing};

/* ---- the lists ---- */

bool tp__server_random(char *ret_text, size_t digits) {
  unsigned char bytes[32];
  assert(digits <= 2 * sizeof bytes && digits % 2 == 0);
  if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2)) return false;
  for (size_t i = 0; i < digits / 2; i++) snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

static tp__server_session **bucket_of(tp_server *server, const char *tenant, tp_text id) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (const char *at = tenant; *at; at++) hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
  for (size_t i = 0; i < id.size; i++) hash = (hash ^ (unsigned char)id.data[i]) * UINT64_C(1099511628211);
  return &server->buckets[(hash ^ hash >> 32) % TP__SESSION_BUCKETS];
}

static tp__server_session *find_locked(tp_server *server, const char *tenant, tp_text id) {
  TP__LOCKED(&server->lock);
  tp__server_session *s = *bucket_of(server, tenant, id);
  while (s && !(tp__is_word(id, s->id) && strcmp(s->tenant, tenant) == 0)) s = s->bucket_next;
  return s;
}

static void unlist_idle_locked(tp_server *server, tp__server_session *s) {
  TP__LOCKED(&server->lock);
  if (s->older) s->older->newer = s->newer;
  else if (server->oldest == s) server->oldest = s->newer;
  if (s->newer) s->newer->older = s->older;
  else if (server->newest == s) server->newest = s->older;
  s->older = s->newer = NULL;
}

static void list_idle_locked(tp_server *server, tp__server_session *s) {
  TP__LOCKED(&server->lock);
  assert(s->users == 0 && !s->older && !s->newer);
  s->older = server->newest;
  if (s->older) s->older->newer = s;
  else server->oldest = s;
  server->newest = s;
}

static void remove_locked(tp_server *server, tp__server_session *s) {
  TP__LOCKED(&server->lock);
  tp__server_session **at = bucket_of(server, s->tenant, tp_text_of(s->id));
  while (*at != s) at = &(*at)->bucket_next;
  *at = s->bucket_next;
  server->session_count--;
}

/* ---- the life of a session ---- */

static void session_free(tp__server_session *s) {
  tp__heap_string_free(s->tenant);
  tp__heap_string_free(s->id);
  tp__heap_string_free(s->agent_id);
  tp__heap_free(s, sizeof *s);
}

static void on_closed(void *ctx) {
  tp__server_session *s = ctx;
  tp_server *server = s->server;
  tp__lock_acquire(&server->lock);
  if (s->is_kept) remove_locked(server, s);
  assert(server->open_count > 0);
  server->open_count--;
  tp__lock_condition_broadcast(&server->changed);
  tp__lock_release(&server->lock);
  session_free(s);
}

/* Closes a session that has no user and is not in the list of idle ones. */
static void close_session(tp__server_session *s) { tp_session_close(s->session, on_closed, s); }

static tp__server_session *session_new(tp_server *server, const char *tenant, tp_text id, tp_agent *agent) {
  char made[40] = "request-";
  bool is_kept = id.size > 0;
  if (!is_kept && !tp__server_random(made + 8, 24)) return NULL;
  tp__server_session *s = tp__heap_alloc(sizeof *s);
  if (!s) return NULL;
  *s = (tp__server_session){.server = server, .is_kept = is_kept, .users = 1};
  s->tenant = tp__heap_copy(tp_text_of(tenant));
  s->id = tp__heap_copy(is_kept ? id : tp_text_of(made));
  s->agent_id = tp__heap_copy(tp_text_of(agent ? tp_agent_id(agent) : ""));
  if (s->tenant && s->id && s->agent_id) return s;
  session_free(s);
  return NULL;
}

static tp_status open_library_session(const tp__server_session *s, tp_agent *agent, tp_session **ret_session,
                                      tp_fault *fault) {
  bool has_history = s->is_kept && agent;
  tp_session_options options = {.struct_size = sizeof options,
                                .id = s->id,
                                .tenant = s->tenant[0] ? s->tenant : NULL,
                                .agent = agent,
                                .environment = s->server->options.environment,
                                .busy = has_history ? s->server->options.busy : TP_BUSY_REFUSE,
                                .busy_wait_ms = has_history ? s->server->options.busy_wait_ms : 0,
                                .history = has_history ? NULL : &no_history,
                                .shared_history = has_history ? s->server->options.shared_history : NULL,
                                .on_event = agent ? tp__exchange_event : NULL};
  return tp_session_open(s->server->runtime, &options, ret_session, fault);
}

/* Makes space for one more kept session. @param ret_idle  must be closed; NULL: none. @return false: there is no
 * space. */
static bool make_space_locked(tp_server *server, tp__server_session **ret_idle) {
  TP__LOCKED(&server->lock);
  *ret_idle = NULL;
  if (server->session_count < server->options.sessions_max) return true;
  tp__server_session *idle = server->oldest;
  if (!idle) return false;
  unlist_idle_locked(server, idle);
  idle->closes = true;
  *ret_idle = idle;
  return true;
}

static tp_status use_locked(tp_server *server, tp__server_session *s, const tp_agent *agent, tp_fault *fault) {
  TP__LOCKED(&server->lock);
  if (s->closes || !s->session)
    return tp__refuse(fault, TP_ERR_BUSY, s->id, "the session is being %s: send it again",
                      s->closes ? "closed" : "opened");
  if (strcmp(s->agent_id, agent ? tp_agent_id(agent) : "") != 0)
    return tp__refuse(fault, TP_ERR_USAGE, s->id, "the session %s belongs to %s%s", s->id,
                      s->agent_id[0] ? "the model " : "calls at /mcp", s->agent_id);
  if (s->users++ == 0) unlist_idle_locked(server, s);
  return TP_OK;
}

/* Adds the session to the list before it is opened, so that a second request of the same id does not open it again. */
static tp_status begin_kept(tp_server *server, tp__server_session *fresh, tp_agent *agent,
                            tp__server_session **ret_session, tp__server_session **ret_idle, tp_fault *fault) {
  tp__lock_acquire(&server->lock);
  tp__server_session *s = find_locked(server, fresh->tenant, tp_text_of(fresh->id));
  tp_status status = TP_OK;
  if (s) status = use_locked(server, s, agent, fault);
  else if (!make_space_locked(server, ret_idle))
    status = tp__refuse(fault, TP_ERR_FULL, NULL, "%zu sessions are in use, which is the limit", server->session_count);
  if (!s && status == TP_OK) {
    tp__server_session **bucket = bucket_of(server, fresh->tenant, tp_text_of(fresh->id));
    fresh->bucket_next = *bucket;
    *bucket = s = fresh;
    server->session_count++;
  }
  tp__lock_release(&server->lock);
  *ret_session = s;
  return status;
}

tp_status tp__server_session_take(tp_server *server, const char *tenant, tp_text id, tp_agent *agent,
                                  tp__server_session **ret_session, tp_fault *fault) {
  tp__server_session *fresh = session_new(server, tenant, id, agent), *s = fresh, *idle = NULL;
  if (!fresh) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a session");
  tp_status status = TP_OK;
  if (fresh->is_kept) status = begin_kept(server, fresh, agent, &s, &idle, fault);
  if (idle) close_session(idle);
  if (status != TP_OK || s != fresh) {
    session_free(fresh);
    if (status == TP_OK) *ret_session = s;
    return status;
  }
  tp_session *opened = NULL;
  status = open_library_session(s, agent, &opened, fault);
  tp__lock_acquire(&server->lock);
  s->session = opened;
  if (status != TP_OK && s->is_kept) remove_locked(server, s);
  server->open_count += status == TP_OK;
  tp__lock_release(&server->lock);
  assert((status == TP_OK) == (opened != NULL));
  if (status == TP_OK) *ret_session = s;
  else session_free(s);
  return status;
}

void tp__server_session_release(tp__server_session *s) {
  tp_server *server = s->server;
  tp__lock_acquire(&server->lock);
  assert(s->users > 0);
  bool closes = --s->users == 0 && !s->is_kept;
  if (s->users == 0 && s->is_kept) list_idle_locked(server, s);
  tp__lock_release(&server->lock);
  if (closes) close_session(s);
}

void tp__server_sessions_close(tp_server *server) {
  tp__lock_acquire(&server->lock);
  for (tp__server_session *s; (s = server->oldest);) {
    unlist_idle_locked(server, s);
    s->closes = true;
    tp__lock_release(&server->lock);
    close_session(s);
    tp__lock_acquire(&server->lock);
  }
  while (server->open_count > 0) tp__lock_condition_wait(&server->changed, &server->lock);
  tp__lock_release(&server->lock);
  assert(server->session_count == 0);
}
