/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/mcp/http.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "domains/mcp/io.h"
#include "domains/mcp/sse.h"
#include "support/clock.h"

enum { CONNECT_MS = 10000, DELETE_MS = 2000, WORDS_BYTES = 200, RESUMES_MAX = 5, RETRY_MS = 1000, ID_SIZE = 256 };

typedef enum transfer_kind { POST, LISTEN, DELETE } transfer_kind;

/** A transfer. Only the I/O thread uses it, except for the members that the lock guards. */
typedef struct transfer {
  struct transfer *next;    /* the list of new transfers (under lock), then that of all transfers of the thread */
  tp__mcp_session *session; /* holds a reference */
  transfer_kind kind;
  int64_t id; /* the id of the request that it carries; -1: none */
  tp__bytes body;
  struct curl_slist *headers;
  CURL *easy;
  bool is_active;    /* set while it is in the multi handle */
  bool is_stream;    /* the answer is a stream of events */
  bool was_answered; /* the answer to its request has come */
  bool has_session;  /* its headers named the session */
  int resumes;       /* how often the stream was resumed */
  int64_t resume_ns; /* when the stream is resumed; INT64_MAX: it is not waiting */
  tp__bytes text;    /* the answer, when it is no stream; or the beginning of an error's body */
  tp__mcp_sse sse;
  char session_id[ID_SIZE]; /* the session id that the answer gave */
  /* under lock */
  bool is_cancelled;
} transfer;

/* The HTTP state of a session: session->link. Under the session's lock. */
typedef struct link {
  char session_id[ID_SIZE]; /* empty: the session has no id */
  bool is_ending;           /* set while a DELETE is under way */
} link;

static struct {
  tp__lock lock;
  transfer *first_new; /* under lock */
  transfer *all;       /* used by the I/O thread only; other threads only set is_cancelled, under lock */
} http = {.lock = TP__LOCK_INITIALIZER(TP__LOCK_mcp_http)};

/* ---- what comes ---- */

static bool is_type(const char *type, const char *wanted) {
  return type && strncasecmp(type, wanted, strlen(wanted)) == 0;
}

/* Takes the text of an event of a stream, or of the whole answer. */
static void take_answer_text(transfer *t, tp_text json) {
  tp__mcp_session_take(t->session, json);
  t->was_answered = t->id > 0 && !tp__mcp_session_waits(t->session, t->id);
}

static void take_event(void *ctx, tp_text data) { take_answer_text(ctx, data); }

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx) {
  static const char name[] = "mcp-session-id:";
  transfer *t = ctx;
  size_t all = size * count, from = sizeof name - 1;
  if (all <= from || strncasecmp(bytes, name, from) != 0) return all;
  while (from < all && bytes[from] == ' ') from++;
  size_t end = all;
  while (end > from && (unsigned char)bytes[end - 1] <= ' ') end--;
  if (end - from >= sizeof t->session_id) return all;
  memcpy(t->session_id, bytes + from, end - from);
  t->session_id[end - from] = '\0';
  for (const char *c = t->session_id; *c; c++)
    if (*c < '!' || *c > '~') t->session_id[0] = '\0'; /* an id that could not be sent back counts as none */
  return all;
}

/* Keeps the session id of the answer to initialize, before the next request needs it. The id in a refusal is ignored:
 * when Python's library refuses server/discover, it sends the id of a session that has ended. */
static void keep_session_id(transfer *t) {
  long status = 0;
  curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  if (!t->session_id[0] || status != 200) return;
  tp__lock_acquire(&t->session->lock);
  link *l = t->session->link;
  if (l && !l->is_ending) memcpy(l->session_id, t->session_id, sizeof l->session_id);
  tp__lock_release(&t->session->lock);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx) {
  transfer *t = ctx;
  size_t all = size * count;
  long status = 0;
  if (!t->is_stream && t->text.size == 0) {
    char *type = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
    t->is_stream = status == 200 && is_type(type, "text/event-stream");
    keep_session_id(t);
  }
  if (t->is_stream) return tp__mcp_sse_feed(&t->sse, bytes, all) ? all : 0;
  if (t->text.size + all > t->session->settings.options.message_bytes_max) return 0;
  tp__bytes_put(&t->text, bytes, all);
  return t->text.failed ? 0 : all;
}

/* ---- a transfer ---- */

static void transfer_free(transfer *t) {
  tp__mcp_session *session = t->session;
  assert(!t->is_active);
  if (t->easy) curl_easy_cleanup(t->easy);
  curl_slist_free_all(t->headers);
  tp__bytes_fini(&t->body);
  tp__bytes_fini(&t->text);
  tp__mcp_sse_fini(&t->sse);
  tp__heap_free(t, sizeof *t);
  tp__mcp_session_unref(session);
}

static bool add_header(transfer *t, const char *header) {
  struct curl_slist *list = curl_slist_append(t->headers, header);
  if (!list) return false;
  t->headers = list;
  return true;
}

/* Adds a header "Name: value"; for an empty value libcurl needs another form. */
static bool add_pair(transfer *t, const char *name, const char *value) {
  tp__bytes header = {0};
  tp__bytes_printf(&header, value[0] ? "%s: %s" : "%s;%s", name, value);
  bool is_added = !header.failed && add_header(t, tp__bytes_string(&header));
  tp__bytes_fini(&header);
  return is_added;
}

static transfer *transfer_new(tp__mcp_session *session, transfer_kind kind, int64_t id) {
  const tp_mcp_options *o = &session->settings.options;
  transfer *t = tp__heap_alloc(sizeof *t);
  if (!t) return NULL;
  tp__mcp_session_ref(session);
  t->session = session;
  t->kind = kind;
  t->id = id;
  t->resume_ns = INT64_MAX;
  t->sse = (tp__mcp_sse){.on_event = take_event, .ctx = t, .bytes_max = o->message_bytes_max};
  t->easy = curl_easy_init();
  bool is_made =
      t->easy != NULL && add_header(t, "Content-Type: application/json") && add_header(t, "Expect:") &&
      add_header(t, kind == LISTEN ? "Accept: text/event-stream" : "Accept: application/json, text/event-stream");
  for (size_t i = 0; is_made && o->headers && o->headers[i]; i++) is_made = add_header(t, o->headers[i]);
  if (is_made) return t;
  transfer_free(t);
  return NULL;
}

/* Sets all options of libcurl, which copies none of the strings except the URL. */
static void prepare(transfer *t) {
  CURL *easy = t->easy;
  curl_easy_reset(easy);
  curl_easy_setopt(easy, CURLOPT_URL, t->session->settings.options.url);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
  if (t->kind == POST) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, t->body.data);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.size);
  } else if (t->kind == DELETE) {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)DELETE_MS);
  }
}

static void submit_transfer(transfer *t) {
  prepare(t);
  tp__lock_acquire(&http.lock);
  t->next = http.first_new;
  http.first_new = t;
  tp__lock_release(&http.lock);
  tp__mcp_io_wake();
}

enum { ALL_BUT_DELETE = -1, ALL = -2 };

/* Cancels the session's transfer for a request, or those that ALL and ALL_BUT_DELETE mean. */
static void cancel(const tp__mcp_session *session, int64_t id) {
  tp__lock_acquire(&http.lock);
  for (int list = 0; list < 2; list++)
    for (transfer *t = list ? http.all : http.first_new; t; t = t->next) {
      bool is_meant = id == ALL || (id == ALL_BUT_DELETE ? t->kind != DELETE : t->id == id);
      if (t->session == session && is_meant) t->is_cancelled = true;
    }
  tp__lock_release(&http.lock);
  tp__mcp_io_wake();
}

/* ---- how it ends ---- */

static void say_status(const transfer *t, long status, char *words, size_t size) {
  char shown[WORDS_BYTES];
  tp_text text = tp__bytes_text(&t->text);
  tp__show(shown, sizeof shown, text);
  const char *remedy = status == 401 || status == 403  ? ": it wants other headers than those of the options"
                       : status >= 300 && status < 400 ? ": another URL is not followed"
                                                       : "";
  snprintf(words, size, "HTTP %ld%s%s%s", status, remedy, text.size ? ": " : "", shown);
}

/* Resumes a stream that ended before its answer, from its last event on, in versions that allow it.
 * @return whether it is resumed. */
static bool resume(transfer *t, int64_t now_ns) {
  if (t->kind == LISTEN && t->id < 0 && t->is_stream) { /* the stream of the server's own messages is opened again */
    t->resumes = 1;
    t->resume_ns = now_ns + (t->sse.retry_ms ? t->sse.retry_ms : RETRY_MS) * TP__NS_IN_MS;
    return true;
  }
  bool has_streams = tp__mcp_session_has(t->session, TP__MCP_HAS_INITIALIZE);
  if (!t->is_stream || t->was_answered || !has_streams || t->sse.id.size == 0 || t->resumes >= RESUMES_MAX)
    return false;
  if (!tp__mcp_session_waits(t->session, t->id)) return false;
  t->resumes++;
  t->resume_ns = now_ns + (t->sse.retry_ms ? t->sse.retry_ms : RETRY_MS) * TP__NS_IN_MS;
  return true;
}

/* Begins the GET that continues a stream, with one Last-Event-ID. @return false without memory. */
static bool begin_resumed(transfer *t) {
  tp__bytes id = t->sse.id;
  t->sse.id = (tp__bytes){0};
  tp__mcp_sse_fini(&t->sse);
  t->sse = (tp__mcp_sse){.on_event = take_event, .ctx = t, .bytes_max = t->session->settings.options.message_bytes_max};
  for (struct curl_slist **at = &t->headers; *at;) {
    struct curl_slist *each = *at;
    bool goes = strncmp(each->data, "Last-Event-ID:", 14) == 0 || strncmp(each->data, "Accept:", 7) == 0 ||
                strncmp(each->data, "Content-Type:", 13) == 0;
    if (goes) {
      *at = each->next;
      each->next = NULL;
      curl_slist_free_all(each);
    } else {
      at = &each->next;
    }
  }
  bool is_added = add_header(t, "Accept: text/event-stream");
  if (id.size > 0) is_added = is_added && add_pair(t, "Last-Event-ID", tp__bytes_string(&id));
  t->sse.id = id;
  t->kind = LISTEN;
  t->is_stream = false;
  t->resume_ns = INT64_MAX;
  prepare(t);
  return is_added;
}

static void transfer_ended(transfer *t, CURLcode code) {
  char words[TP_FAULT_MESSAGE_SIZE] = "";
  long status = 0;
  curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  keep_session_id(t);
  if (t->kind == DELETE) {
    tp__mcp_session_lost(t->session, "it was closed");
    return;
  }
  if (!t->is_stream && code == CURLE_OK && t->text.size > 0 && t->id > 0) take_answer_text(t, tp__bytes_text(&t->text));
  if (t->kind == POST && t->id < 0) tp__mcp_session_delivered(t->session);
  if (t->id <= 0 || !tp__mcp_session_waits(t->session, t->id)) return;
  if (status == 404 && t->has_session) {
    tp__mcp_session_renew(t->session, t->id);
    return;
  }
  if (code != CURLE_OK && code != CURLE_WRITE_ERROR) snprintf(words, sizeof words, "%s", curl_easy_strerror(code));
  else if (code == CURLE_WRITE_ERROR)
    snprintf(words, sizeof words, "it sent more than %u bytes in one message, or there is no memory for it",
             (unsigned)t->session->settings.options.message_bytes_max);
  else if (status != 200) say_status(t, status, words, sizeof words);
  else snprintf(words, sizeof words, "its %s ended without an answer", t->is_stream ? "stream" : "response");
  tp__mcp_session_fail_request(t->session, t->id, words);
}

/* ---- the I/O thread ---- */

static bool take_cancelled(transfer *t) {
  tp__lock_acquire(&http.lock);
  bool is_cancelled = t->is_cancelled;
  tp__lock_release(&http.lock);
  return is_cancelled;
}

static void take_new(CURLM *multi) {
  tp__lock_acquire(&http.lock);
  transfer *list = http.first_new;
  http.first_new = NULL;
  while (list) {
    transfer *t = list;
    list = t->next;
    t->next = http.all;
    http.all = t;
    t->is_active = curl_multi_add_handle(multi, t->easy) == CURLM_OK;
  }
  tp__lock_release(&http.lock);
}

static void drop(CURLM *multi, transfer *t) {
  if (t->is_active) curl_multi_remove_handle(multi, t->easy);
  t->is_active = false;
  tp__lock_acquire(&http.lock);
  transfer **at = &http.all;
  while (*at != t) at = &(*at)->next;
  *at = t->next;
  tp__lock_release(&http.lock);
  transfer_free(t);
}

static void take_ended(CURLM *multi, int64_t now_ns) {
  int left;
  for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
    char *private = NULL;
    CURLcode code = message->data.result;
    if (message->msg != CURLMSG_DONE) continue;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
    transfer *t = (transfer *)(void *)private;
    if (t->kind != DELETE && !take_cancelled(t) && resume(t, now_ns)) {
      curl_multi_remove_handle(multi, t->easy);
      t->is_active = false;
      continue;
    }
    if (!take_cancelled(t)) transfer_ended(t, code);
    else if (t->kind == DELETE) tp__mcp_session_lost(t->session, "it was closed");
    drop(multi, t);
  }
}

int64_t tp__mcp_http_step(CURLM *multi, int64_t now_ns) {
  int running;
  int64_t next_ns = INT64_MAX;
  take_new(multi);
  curl_multi_perform(multi, &running);
  take_ended(multi, now_ns);
  for (transfer *t = http.all, *next; t; t = next) {
    next = t->next;
    if (take_cancelled(t)) {
      if (t->kind == DELETE) tp__mcp_session_lost(t->session, "it was closed");
      drop(multi, t);
    } else if (t->resume_ns <= now_ns) {
      t->is_active = begin_resumed(t) && curl_multi_add_handle(multi, t->easy) == CURLM_OK;
      next_ns = now_ns;
    } else if (!t->is_active && t->resume_ns == INT64_MAX) { /* libcurl did not accept the transfer */
      if (t->id > 0) tp__mcp_session_fail_request(t->session, t->id, "there is no memory for the transfer");
      if (t->kind == DELETE) tp__mcp_session_lost(t->session, "it was closed");
      drop(multi, t);
    } else if (t->resume_ns < next_ns) {
      next_ns = t->resume_ns;
    }
  }
  return next_ns;
}

void tp__mcp_http_end(CURLM *multi) {
  take_new(multi);
  while (http.all) drop(multi, http.all);
}

/* ---- the transport ---- */

static tp_status http_start_locked(tp__mcp_session *session, tp_fault *fault) {
  TP__LOCKED(&session->lock);
  if (!session->link) session->link = tp__heap_alloc(sizeof(link));
  if (!session->link) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a connection");
  *(link *)session->link = (link){0};
  return TP_OK;
}

static bool add_parameter(void *ctx, const tp__mcp_header *header) {
  transfer *t = ctx;
  tp__bytes name = {0}, value = {0};
  if (header->value.size == 0) return true;
  tp__bytes_put_string(&name, "Mcp-Param-");
  tp__bytes_put_text(&name, header->name);
  bool goes_on = tp__mcp_header_encode_value(header->value, &value) && !name.failed && !value.failed &&
                 add_pair(t, tp__bytes_string(&name), tp__bytes_string(&value));
  if (!goes_on) t->id = 0; /* it was not sent: the caller reports that */
  tp__bytes_fini(&name);
  tp__bytes_fini(&value);
  return goes_on;
}

/* Adds the headers Mcp-Method, Mcp-Name and Mcp-Param-*. */
static bool add_message_headers_locked(transfer *t, const char *method, tp_text params) {
  TP__LOCKED(&t->session->lock);
  tp_text name = tp__mcp_header_name(tp_text_of(method), params);
  tp__bytes value = {0};
  int64_t id = t->id;
  tp__mcp_header_encode(name, &value);
  bool is_added = !value.failed && add_pair(t, "Mcp-Method", method) &&
                  (name.size == 0 || add_pair(t, "Mcp-Name", tp__bytes_string(&value)));
  tp__bytes_fini(&value);
  if (!is_added || strcmp(method, "tools/call") != 0) return is_added;
  tp_text schema = tp__mcp_session_schema_locked(t->session, name);
  (void)tp__mcp_headers_of(schema, tp_value_get(params, "arguments"), add_parameter, t, NULL);
  is_added = t->id == id;
  t->id = id;
  return is_added;
}

static tp_status http_send_locked(tp__mcp_session *session, int64_t id, const char *method, tp_text params,
                                  tp_text json, tp_fault *fault) {
  TP__LOCKED(&session->lock);
  const link *l = session->link;
  tp_mcp_version version = session->is_probing ? TP__MCP_VERSION_NEWEST : session->version;
  assert(l);
  transfer *t = transfer_new(session, POST, id);
  if (!t) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for a request");
  tp__bytes_put_text(&t->body, json);
  bool is_made = !t->body.failed;
  if (is_made && tp__mcp_version_has(version, TP__MCP_HAS_HEADER))
    is_made = add_pair(t, "MCP-Protocol-Version", tp_mcp_version_name(version));
  if (is_made && l->session_id[0]) {
    is_made = add_pair(t, "Mcp-Session-Id", l->session_id);
    t->has_session = true;
  }
  if (is_made && method[0] && tp__mcp_version_has(version, TP__MCP_HAS_META))
    is_made = add_message_headers_locked(t, method, params);
  if (is_made) {
    submit_transfer(t);
    return TP_OK;
  }
  transfer_free(t); /* this is never the last reference to the session, since the caller has one */
  return tp__refuse(fault, TP_ERR_USAGE, NULL,
                    "an argument that is sent as a header has no form there, or there is no memory");
}

/* Opens the stream of the server's own messages; many servers do not have one. */
static void http_listen_locked(tp__mcp_session *session) {
  TP__LOCKED(&session->lock);
  const link *l = session->link;
  transfer *t = transfer_new(session, LISTEN, -1);
  bool is_made = t != NULL;
  if (is_made && tp__mcp_version_has(session->version, TP__MCP_HAS_HEADER))
    is_made = add_pair(t, "MCP-Protocol-Version", tp_mcp_version_name(session->version));
  if (is_made && l->session_id[0]) is_made = add_pair(t, "Mcp-Session-Id", l->session_id);
  if (is_made) submit_transfer(t);
  else if (t) transfer_free(t);
}

static void http_give_up_locked(tp__mcp_session *session, int64_t id) {
  TP__LOCKED(&session->lock);
  cancel(session, id);
}

/* Stops the transport; a DELETE ends the session of the server, too. */
static bool http_stop_locked(tp__mcp_session *session) {
  TP__LOCKED(&session->lock);
  link *l = session->link;
  cancel(session, ALL_BUT_DELETE);
  if (!l || !l->session_id[0] || l->is_ending) return l && l->is_ending;
  transfer *t = transfer_new(session, DELETE, -1);
  bool is_made = t && add_pair(t, "Mcp-Session-Id", l->session_id) &&
                 add_pair(t, "MCP-Protocol-Version", tp_mcp_version_name(session->version));
  l->is_ending = is_made;
  l->session_id[0] = '\0';
  if (is_made) submit_transfer(t);
  else if (t) transfer_free(t);
  return is_made;
}

static void http_kill_locked(tp__mcp_session *session) {
  TP__LOCKED(&session->lock);
  cancel(session, ALL);
}

static void http_free(tp__mcp_session *session) {
  if (session->link) tp__heap_free(session->link, sizeof(link));
}

const tp__mcp_transport tp__mcp_http = {.confirms = true,
                                        .start_locked = http_start_locked,
                                        .send_locked = http_send_locked,
                                        .listen_locked = http_listen_locked,
                                        .give_up_locked = http_give_up_locked,
                                        .stop_locked = http_stop_locked,
                                        .kill_locked = http_kill_locked,
                                        .free = http_free};
