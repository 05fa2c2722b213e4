/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/call.h"
#include "providers/openai/given.h"
#include "runtime/base/check.h"
#include "support/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
  REFUSAL_BYTES_MAX = 64 << 10,
  PLACE_SIZE = 256,
  SHOWN_SIZE = 200,
  REQUEST_ID_SIZE = 80,
  LINGER_MS = 100,
  PAUSE_MS_MAX = 60000,
  PIECES_BYTES = 32 << 10,
  BYTES_PER_TOKEN = 4
};

typedef tp__openai_call call;

static const tp__openai_config *config_of(const call *c) { return &c->core->config; }

/* ---- making ---- */

tp__openai_call *tp__openai_call_new(tp__openai_core *core, const tp_model_request *request, tp_token token,
                                     tp__bytes *body, tp__openai_names *names) {
  assert(core && token.bits != 0);
  call *c = tp__heap_alloc(sizeof *c);
  tp_text model = tp__openai_request_model(&core->config, request);
  char *name = c ? tp__heap_copy(model) : NULL;
  if (!name) {
    tp__heap_free(c, sizeof *c);
    return NULL;
  }
  c->core = core;
  c->token = token;
  c->body = *body;
  *body = (tp__bytes){0};
  c->names = *names;
  *names = (tp__openai_names){.rows = NULL};
  c->model = name;
  c->attempt = request->attempt;
  /* A text that is no header, which the host's function made, is left out. */
  const tp__openai_config *config = config_of(c);
  char text[56] = "";
  bool is_given =
      config->traceparent && config->traceparent(config->traceparent_ctx, request->ids, request->id_count, text);
  text[sizeof text - 1] = '\0';
  if (is_given && strlen(text) == 55 && strspn(text, "0123456789abcdef-") == 55)
    snprintf(c->traceparent, sizeof c->traceparent, "traceparent: %s", text);
  c->headers = (struct curl_slist){c->traceparent, config->headers};
  int64_t now_ns = tp__monotonic_ns(), left_ms = request->time_left_ms;
  c->deadline_ns = left_ms < (INT64_MAX - now_ns) / TP__NS_IN_MS ? now_ns + left_ms * TP__NS_IN_MS : INT64_MAX;
  return c;
}

void tp__openai_call_free(tp__openai_call *c) {
  if (c->reads) tp__openai_stream_fini(&c->stream);
  tp__bytes_fini(&c->body);
  tp__openai_names_fini(&c->names);
  tp__bytes_fini(&c->pieces);
  tp_writer_free(c->given);
  tp__bytes_fini(&c->refusal);
  tp__heap_string_free(c->model);
  tp__heap_free(c, sizeof *c);
}

/* ---- the end ---- */

static void drop_transfer(call *c, CURLM *multi) {
  if (!c->easy) return;
  curl_multi_remove_handle(multi, c->easy);
  curl_easy_cleanup(c->easy);
  c->easy = NULL;
}

static void fail_token(call *c) {
  tp__openai_failure *failure = &c->failure;
  (void)tp_model_fail(c->token, failure->code, failure->message, failure->retryable, NULL);
}

/* In the size of a piece. */
static const uint32_t THINKING = UINT32_C(1) << 31;

/* Also passes on text that is held back, when the answer is complete or fails, because the turn then goes on. */
static void pass_on_text(call *c) {
  tp_status status = TP_OK;
  uint32_t size;
  for (size_t at = 0; status == TP_OK && at < c->pieces.size; at += sizeof size + size) {
    memcpy(&size, c->pieces.data + at, sizeof size);
    bool thinking = size & THINKING;
    size &= ~THINKING;
    tp_text piece = {c->pieces.data + at + sizeof size, size};
    status = thinking ? tp_model_thinking(c->token, piece, NULL) : tp_model_delta(c->token, piece, NULL);
  }
  tp__bytes_clear(&c->pieces);
  if (status != TP_OK)
    (void)tp__openai_fail(&c->failure, status, false, "a piece of the answer was not taken: %s",
                          tp_status_text(status));
}

/* The transfer ends first, so that its connection is closed when the turn gets the failure. */
static void fail_call(call *c, CURLM *multi) {
  drop_transfer(c, multi);
  pass_on_text(c);
  c->state = TP__OPENAI_OVER;
  fail_token(c);
}

/* No rule can distinguish such a stream from one that repeats itself on purpose, so a person must decide. */
static void note_growth(call *c) {
  char text[256];
  snprintf(
      text, sizeof text,
      "each piece of the answer begins with the piece before it: if %.100s sends all of its text in each piece, set "
      "its quirk (--cumulative-deltas)",
      config_of(c)->place);
  (void)!tp_model_note(c->token, tp_text_of("answer.grows"), tp_text_of(text), NULL); /* a stale token hears nothing */
}

static void complete_call(call *c, CURLM *multi, int64_t now_ns) {
  tp_model_response response;
  pass_on_text(c);
  if (c->failure.code != TP_OK) {
    fail_call(c, multi);
    return;
  }
  if (tp__openai_answer_response(&c->stream.answer, &response) != TP_OK) {
    c->failure = c->stream.answer.failure;
    fail_call(c, multi);
    return;
  }
  if (tp_writer_new(tp__heap, &c->given) != TP_OK ||
      tp__openai_given_write(config_of(c), &c->stream.answer, c->given, &response.provider_data) != TP_OK) {
    (void)tp__openai_fail(&c->failure, TP_ERR_NO_MEMORY, false, "no memory for the model's answer");
    fail_call(c, multi);
    return;
  }
  tp__openai_names_restore(&c->names, &response);
  response.cost_micros = tp__openai_cost(config_of(c), tp_text_of(c->model), &c->stream.answer.usage);
  if (response.input_tokens + response.output_tokens > 0)
    tp__openai_rate_give(&c->core->tokens, c->tokens - (double)response.input_tokens - (double)response.output_tokens);
  if (c->stream.answer.grows) note_growth(c);
  c->state = c->easy ? TP__OPENAI_ANSWERED : TP__OPENAI_OVER;
  c->answered_ns = now_ns;
  (void)tp_model_complete(c->token, &response, NULL);
}

/* It will not be sent. */
static void unreserve(call *c) {
  if (!c->reserves) return;
  c->reserves = false;
  tp__openai_rate_give(&c->core->requests, 1);
  tp__openai_rate_give(&c->core->tokens, c->tokens);
}

void tp__openai_call_abort(tp__openai_call *c, CURLM *multi) {
  bool open = c->state == TP__OPENAI_WAITS || c->state == TP__OPENAI_SENT;
  unreserve(c);
  drop_transfer(c, multi);
  c->state = TP__OPENAI_OVER;
  if (!open) return;
  (void)tp__openai_fail(&c->failure, TP_ERR_CANCELLED, false, "the request was cancelled");
  fail_token(c);
}

/* ---- what libcurl calls ---- */

/* The turn gets the pieces after the input of all requests was read. So an engine worker that is woken for one request
 * finds the pieces of the others, too. */
static tp_status on_text(void *ctx, tp_text piece, bool thinking) {
  call *c = ctx;
  uint32_t size = (uint32_t)piece.size | (thinking ? THINKING : 0);
  assert(piece.size < THINKING); /* an answer has at most 64 MiB */
  tp__bytes_put(&c->pieces, (const char *)&size, sizeof size);
  tp__bytes_put(&c->pieces, piece.data, piece.size);
  return c->pieces.failed ? TP_ERR_NO_MEMORY : TP_OK;
}

static bool begin_reading(call *c) {
  const tp__openai_config *config = config_of(c);
  c->stream = (tp__openai_stream){.form = config->form,
                                  .bytes_max = config->response_bytes_max,
                                  .on_text = config->no_stream ? NULL : on_text,
                                  .ctx = c,
                                  .secrets = &config->secrets,
                                  .quirks = config->quirks};
  c->reads = true;
  if (tp__openai_stream_init(&c->stream) != TP_OK)
    (void)tp__openai_fail(&c->failure, TP_ERR_NO_MEMORY, false, "no memory for the model's answer");
  return c->failure.code == TP_OK;
}

/* Pauses while the answer is held back. Data that libcurl has read ahead also waits until the turn got the earlier
 * pieces. With HTTP/2 the streams of a connection would wait for each other in libcurl. So there, held text waits in
 * `pieces` and stops no other answer. */
static bool pauses(const call *c) {
  long version = 0;
  if (!c->reads || (c->pieces.size < PIECES_BYTES && !tp_model_held(c->token))) return false;
  curl_easy_getinfo(c->easy, CURLINFO_HTTP_VERSION, &version);
  return version == CURL_HTTP_VERSION_1_0 || version == CURL_HTTP_VERSION_1_1;
}

static size_t take_body(char *bytes, size_t one, size_t count, void *ctx) {
  call *c = ctx;
  size_t size = one * count;
  c->byte_ns = tp__monotonic_ns();
  if (pauses(c)) {
    c->paused_ns = c->byte_ns;
    return CURL_WRITEFUNC_PAUSE;
  }
  if (c->status == 0) curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
  if (c->status < 200 || c->status > 299) {
    size_t left = REFUSAL_BYTES_MAX - c->refusal.size;
    tp__bytes_put(&c->refusal, bytes, size < left ? size : left);
    return size;
  }
  if (!c->reads && !begin_reading(c)) return CURL_WRITEFUNC_ERROR;
  if (tp__openai_stream_feed(&c->stream, bytes, size)) return size;
  return c->stream.answer.failure.code == TP_OK ? size : CURL_WRITEFUNC_ERROR; /* done: what follows is not read */
}

static int on_connected(void *ctx, char *to, char *from, int to_port, int from_port) {
  call *c = ctx;
  (void)to;
  (void)from;
  (void)to_port;
  (void)from_port;
  c->connected_ns = tp__monotonic_ns();
  return CURL_PREREQFUNC_OK;
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address) {
  call *c = ctx;
  (void)purpose;
  ++*c->connections;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- sending ---- */

static void set_options(CURL *easy, call *c) {
  tp__openai_set_request(config_of(c), easy, &c->body);
  if (c->traceparent[0]) curl_easy_setopt(easy, CURLOPT_HTTPHEADER, &c->headers);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "turnphase");
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, c->curl_error);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, c);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, c);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, c);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, c);
}

static void send_request(call *c, CURLM *multi, int64_t now_ns) {
  c->reserves = false;
  c->sent_ns = now_ns;
  c->state = TP__OPENAI_SENT;
  c->easy = curl_easy_init();
  if (c->easy) {
    set_options(c->easy, c);
    if (curl_multi_add_handle(multi, c->easy) == CURLM_OK) return;
    curl_easy_cleanup(c->easy);
    c->easy = NULL;
  }
  (void)tp__openai_fail(&c->failure, TP_ERR_NO_MEMORY, false, "no memory for a request");
  fail_call(c, multi);
}

static int64_t after_pause_ns(const call *c, int64_t now_ns) {
  if (c->attempt <= 1) return now_ns;
  uint32_t doublings = c->attempt - 2 < 16 ? c->attempt - 2 : 16;
  uint64_t pause_ms = (uint64_t)config_of(c)->retry_wait_ms << doublings;
  if (pause_ms > PAUSE_MS_MAX) pause_ms = PAUSE_MS_MAX;
  int64_t start_ns = now_ns + (int64_t)pause_ms * TP__NS_IN_MS;
  return c->core->not_before_ns > start_ns ? c->core->not_before_ns : start_ns;
}

/* Reserves one request, and an estimate of its tokens. */
static int64_t reserve_ns(call *c, int64_t now_ns) {
  tp__openai_core *core = c->core;
  double tokens = (double)c->body.size / BYTES_PER_TOKEN;
  c->tokens = tokens < core->tokens.capacity ? tokens : core->tokens.capacity;
  c->reserves = true;
  int64_t requests_ns = tp__openai_rate_take(&core->requests, 1, now_ns);
  int64_t tokens_ns = tp__openai_rate_take(&core->tokens, c->tokens, now_ns);
  return requests_ns > tokens_ns ? requests_ns : tokens_ns;
}

static void fail_late(call *c, const char *why, int64_t now_ns) {
  (void)tp__openai_fail(&c->failure, TP_ERR_MODEL_UNAVAILABLE, false, "%s: attempt %u would be sent in %lld ms, %s",
                        config_of(c)->place, c->attempt, (long long)((c->start_ns - now_ns) / TP__NS_IN_MS), why);
  unreserve(c);
}

void tp__openai_call_plan(tp__openai_call *c, int64_t now_ns) {
  assert(c->state == TP__OPENAI_WAITS && !c->easy);
  int64_t rate_ns = reserve_ns(c, now_ns);
  c->start_ns = after_pause_ns(c, now_ns);
  bool by_rate = rate_ns > c->start_ns;
  if (by_rate) c->start_ns = rate_ns;
  if (c->start_ns == now_ns) return;
  if (c->start_ns > c->deadline_ns) fail_late(c, "after the turn's deadline; give turns more time (limit_ms)", now_ns);
  else if (by_rate && rate_ns - now_ns > config_of(c)->retry_after_ms_max * TP__NS_IN_MS)
    fail_late(c, "behind retry_after_ms_max: raise requests_per_minute or tokens_per_minute, or ask less often",
              now_ns);
}

/* ---- limits ---- */

/* The limit that passes first. While the transfer is paused there is none, because the holder of the answer has its own
 * limit. */
static int64_t next_limit(const call *c, const char **ret_name, uint32_t *ret_ms, const char **ret_what) {
  const tp__openai_config *config = config_of(c);
  int64_t next_ns = c->sent_ns + config->total_ms * TP__NS_IN_MS, other_ns = INT64_MAX;
  if (c->paused_ns) next_ns = INT64_MAX;
  *ret_name = "total_ms";
  *ret_ms = config->total_ms;
  *ret_what = "the answer was not whole";
  uint32_t ms = c->byte_ns ? config->idle_ms : config->first_byte_ms;
  if (c->paused_ns) return next_ns;
  if (c->byte_ns) other_ns = c->byte_ns + ms * TP__NS_IN_MS;
  else if (c->connected_ns) other_ns = c->connected_ns + ms * TP__NS_IN_MS;
  if (other_ns >= next_ns) return next_ns;
  *ret_name = c->byte_ns ? "idle_ms" : "first_byte_ms";
  *ret_ms = ms;
  *ret_what = c->byte_ns ? "the answer stood still" : "nothing of an answer came";
  return other_ns;
}

int64_t tp__openai_call_next_ns(const tp__openai_call *c) {
  assert(c->state != TP__OPENAI_OVER);
  const char *name, *what;
  uint32_t ms;
  switch (c->state) {
    case TP__OPENAI_WAITS:
      return c->start_ns;
    case TP__OPENAI_SENT:
      return next_limit(c, &name, &ms, &what);
    case TP__OPENAI_ANSWERED:
      return c->answered_ns + LINGER_MS * TP__NS_IN_MS;
    case TP__OPENAI_OVER:
      break;
  }
  return INT64_MAX;
}

/* @return false: the transfer has failed, and the call is over. */
static bool go_on(call *c, CURLM *multi, int64_t now_ns) {
  c->sent_ns += now_ns - c->paused_ns; /* the limit of the whole answer does not count the pause */
  c->byte_ns = now_ns;
  c->paused_ns = 0;
  CURLcode code = curl_easy_pause(c->easy, CURLPAUSE_CONT); /* reads what waits, and may pause again */
  if (code == CURLE_OK) return true;
  tp__openai_call_ended(c, multi, code, now_ns);
  return false;
}

static void step_sent(call *c, CURLM *multi, int64_t now_ns) {
  const char *name, *what;
  uint32_t ms;
  if (c->pieces.size > 0 && !tp_model_held(c->token)) pass_on_text(c);
  if (c->failure.code == TP_OK && c->paused_ns && !tp_model_held(c->token) && !go_on(c, multi, now_ns)) return;
  if (c->failure.code != TP_OK) {
    fail_call(c, multi);
    return;
  }
  if (c->reads && c->stream.answer.done && c->stream.answer.failure.code == TP_OK) {
    complete_call(c, multi, now_ns);
    return;
  }
  if (next_limit(c, &name, &ms, &what) > now_ns) return;
  (void)tp__openai_fail(&c->failure, TP_ERR_MODEL, true, "%s: %s within %u ms (%s); try again, or raise it",
                        config_of(c)->place, what, ms, name);
  fail_call(c, multi);
}

void tp__openai_call_step(tp__openai_call *c, CURLM *multi, int64_t now_ns) {
  assert(now_ns > 0);
  if (c->gone) tp__openai_call_abort(c, multi);
  switch (c->state) {
    case TP__OPENAI_WAITS:
      if (c->failure.code != TP_OK) fail_call(c, multi);
      else if (c->start_ns <= now_ns) send_request(c, multi, now_ns);
      break;
    case TP__OPENAI_SENT:
      step_sent(c, multi, now_ns);
      break;
    case TP__OPENAI_ANSWERED:
      if (tp__openai_call_next_ns(c) <= now_ns) tp__openai_call_abort(c, multi);
      break;
    case TP__OPENAI_OVER:
      break;
  }
}

/* ---- how a transfer ended ---- */

/* Without secrets, and short. */
static void show_text(const call *c, tp_text text, char *buffer, size_t size) {
  tp__bytes clean = {0};
  tp__put_without(&clean, text, &config_of(c)->secrets);
  tp__show(buffer, size, tp__bytes_text(&clean));
  tp__bytes_fini(&clean);
}

static void show_hidden(const call *c, const char *text, char *buffer, size_t size) {
  show_text(c, tp_text_of(text), buffer, size);
}

static const char *header_of(call *c, const char *name) {
  struct curl_header *header;
  return curl_easy_header(c->easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : NULL;
}

/* "HTTP 429 from example.com (request req_1)" */
static void name_place(call *c, char place[PLACE_SIZE]) {
  const char *id = header_of(c, "x-request-id");
  char shown[REQUEST_ID_SIZE] = "";
  if (!id) id = header_of(c, "request-id");
  if (id) show_hidden(c, id, shown, sizeof shown);
  snprintf(place, PLACE_SIZE, "HTTP %ld from %.120s%s%s%s", c->status, config_of(c)->place, id ? " (request " : "",
           shown, id ? ")" : "");
}

/* @return milliseconds; below 0: the endpoint gave no time. */
static int64_t retry_after_ms(call *c) {
  const char *exact = header_of(c, "retry-after-ms");
  curl_off_t seconds = 0;
  if (exact && exact[0] >= '0' && exact[0] <= '9') return strtoll(exact, NULL, 10);
  if (!header_of(c, "retry-after") || curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK) return -1;
  return seconds < INT32_MAX ? (int64_t)seconds * 1000 : INT64_C(1000) * INT32_MAX;
}

static void note_retry_after(call *c, int64_t now_ns) {
  int64_t after_ms = retry_after_ms(c);
  if (!c->failure.retryable || after_ms <= 0) return;
  if (after_ms <= config_of(c)->retry_after_ms_max) {
    int64_t until_ns = now_ns + after_ms * TP__NS_IN_MS;
    if (until_ns > c->core->not_before_ns) c->core->not_before_ns = until_ns;
    return;
  }
  size_t size = strlen(c->failure.message);
  c->failure.retryable = false;
  c->failure.code = TP_ERR_MODEL_UNAVAILABLE;
  snprintf(c->failure.message + size, sizeof c->failure.message - size,
           "; it asks for a pause of %lld s, above retry_after_ms_max", (long long)(after_ms / 1000));
}

static void fail_with_status(call *c, int64_t now_ns) {
  char place[PLACE_SIZE], shown[SHOWN_SIZE];
  name_place(c, place);
  if (c->status >= 300 && c->status < 400) {
    char *to = NULL;
    curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
    tp_text shown_to = tp_text_of(to ? to : "nowhere");
    shown_to.size = tp__url_place_size(shown_to); /* a query may have anything in it */
    show_text(c, shown_to, shown, sizeof shown);
    (void)tp__openai_fail(&c->failure, TP_ERR_MODEL, false,
                          "%s: it leads to %s, and redirects are not followed; if you trust it, make it the base_url",
                          place, shown);
    return;
  }
  tp__openai_fail_said(&c->failure, place, c->status, tp__bytes_text(&c->refusal), &config_of(c)->secrets);
  note_retry_after(c, now_ns);
}

/* The meaning of libcurl's errors; errors that are not in this table are not retryable. */
static const struct curl_row {
  CURLcode code;
  bool retryable;
  const char *remedy;
} curl_rows[] = {
    {CURLE_COULDNT_RESOLVE_HOST, true, "check the host in base_url, and the network"},
    {CURLE_COULDNT_RESOLVE_PROXY, true, "check proxy, and the network"},
    {CURLE_COULDNT_CONNECT, true, "check base_url, and that a server listens there"},
    {CURLE_PROXY, true, "check proxy"},
    {CURLE_OPERATION_TIMEDOUT, true, "try again, or raise connect_ms"},
    {CURLE_SSL_CONNECT_ERROR, true, "check that base_url is a TLS endpoint"},
    {CURLE_PEER_FAILED_VERIFICATION, false, "its certificate is not trusted: check base_url, or set ca_file"},
    {CURLE_SSL_CACERT_BADFILE, false, "check ca_file"},
    {CURLE_GOT_NOTHING, true, "try again"},
    {CURLE_SEND_ERROR, true, "try again"},
    {CURLE_RECV_ERROR, true, "try again"},
    {CURLE_PARTIAL_FILE, true, "try again"},
    {CURLE_HTTP2, true, "try again"},
    {CURLE_HTTP2_STREAM, true, "try again"},
    {CURLE_BAD_CONTENT_ENCODING, false, "the answer is not compressed as it says"},
    {CURLE_WEIRD_SERVER_REPLY, false, "check that base_url is an HTTP endpoint"},
    {CURLE_UNSUPPORTED_PROTOCOL, false, "check base_url"},
    {CURLE_URL_MALFORMAT, false, "check base_url"},
};

static void fail_with_curl(call *c, CURLcode code) {
  static const struct curl_row unknown = {CURLE_OK, false, "check base_url and the network"};
  const struct curl_row *row = &unknown;
  char shown[SHOWN_SIZE];
  for (size_t i = 0; i < sizeof curl_rows / sizeof *curl_rows; i++)
    if (curl_rows[i].code == code) row = &curl_rows[i];
  show_hidden(c, c->curl_error[0] ? c->curl_error : curl_easy_strerror(code), shown, sizeof shown);
  tp_status status = code == CURLE_OUT_OF_MEMORY ? TP_ERR_NO_MEMORY : TP_ERR_MODEL;
  (void)tp__openai_fail(&c->failure, status, row->retryable, "%s%s: %s; %s", config_of(c)->place,
                        c->reads ? ", in the middle of the answer" : "", shown, row->remedy);
}

static void judge_call(call *c, CURLcode code, int64_t now_ns) {
  if (c->status == 0) curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
  if (c->reads && c->stream.answer.failure.code != TP_OK) c->failure = c->stream.answer.failure;
  if (c->failure.code != TP_OK) return;
  if (c->status != 0 && (c->status < 200 || c->status > 299)) fail_with_status(c, now_ns);
  else if (c->reads && c->stream.answer.done) return;
  else if (code != CURLE_OK) fail_with_curl(c, code);
  else if (!c->reads)
    (void)tp__openai_fail(&c->failure, TP_ERR_MODEL, true, "HTTP %ld from %s: the answer is empty; try again",
                          c->status, config_of(c)->place);
  else if (!tp__openai_stream_end(&c->stream)) c->failure = c->stream.answer.failure;
}

void tp__openai_call_ended(tp__openai_call *c, CURLM *multi, CURLcode code, int64_t now_ns) {
  if (c->state != TP__OPENAI_SENT) {
    tp__openai_call_abort(c, multi);
    return;
  }
  judge_call(c, code, now_ns);
  drop_transfer(c, multi);
  if (c->failure.code != TP_OK) fail_call(c, multi);
  else complete_call(c, multi, now_ns);
}
