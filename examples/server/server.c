/* SPDX-License-Identifier: Apache-2.0
 *
 * A small OpenAI-compatible server on one thread of its own, an epoll loop:
 *
 *    server PORT [SCRIPT.yaml]      # port 0: any; prints "listening on 127.0.0.1:PORT"
 *
 * Built by itself:
 *    cc -D_GNU_SOURCE server.c -o server $(pkg-config --cflags --libs turnphase turnphase-declared) -pthread
 *
 *    POST /v1/chat/completions      # "stream": true for server-sent events
 *         X-Session-Id: ID          # a session that stays: with one message its own history is used, with more the
 *                                   # request's. Without the header: a session for this request alone
 *         X-Role: admin             # for the guard
 *    GET /v1/models                 # the names that clients may ask for
 *    DELETE /v1/sessions/ID
 *    GET /stats
 *
 * What the clients that people use look for is there: the role in the first chunk, finish_reason, usage in the last
 * chunk where stream_options.include_usage asks for it, content as a list of parts, the role developer, errors as an
 * object. What this server does not do is refused by name: n above 1, logprobs, tools of the client.
 *
 * A guard that denies is 403, one that is required and failed 503. A client that leaves cancels its turn. Without a
 * script the model says what it was asked. The server has no table of sessions or turns: a turn's `data` is its client,
 * which the guard and the listener of deltas find there, and a session is found by its id in the runtime.
 *
 * What comes on threads of the library (deltas, ends) goes into the client's mail and rings an eventfd; everything else
 * belongs to the loop. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "turnphase/declared.h"
#include "turnphase/turnphase.h"

enum { REQUEST_BYTES_MAX = 4 << 20, MESSAGES_MAX = 256, CALLS_MAX = 64, DRAIN_MS = 5000, SLOW_MS = 30000 };

/* ---- bytes that grow ---- */

typedef struct bytes {
  char *data;
  size_t size, capacity;
} bytes;

static void put(bytes *b, const char *data, size_t size) {
  if (b->size + size + 1 > b->capacity) {
    b->capacity = 2 * (b->size + size + 1);
    b->data = realloc(b->data, b->capacity);
    if (!b->data) abort(); /* a larger server would shed load before */
  }
  if (size > 0) memcpy(b->data + b->size, data, size);
  b->size += size;
  b->data[b->size] = '\0';
}

static void put_string(bytes *b, const char *string) { put(b, string, strlen(string)); }

/* ---- a client: one connection with one request ---- */

typedef struct client {
  /* the loop's */
  int fd; /* -1: gone */
  bytes in, out;
  size_t sent;
  tp_submission *turn; /* NULL: none under way */
  bool has_answer;     /* all of it is in `out`: close when it is sent */
  /* never change once its turn was submitted */
  bool streams, is_admin, wants_usage;
  char model[TP_ID_BYTES_MAX + 1], completion[32]; /* what chunks have as model and id */
  int64_t created;
  /* the turn's owner's, one call after the other */
  bool began_stream, had_delta;
  /* under mail_lock */
  bytes mail;
  bool ended, listed;
  struct client *next;
} client;

static pthread_mutex_t mail_lock = PTHREAD_MUTEX_INITIALIZER;
static client *mailed; /* under mail_lock: those with mail */
static bool drained;   /* under mail_lock */
static int bell, poller;
static tp_runtime *runtime;
static tp_agent *agent;
static unsigned request_count, completion_count;
static const char model_name[] = "echo"; /* where a request names none */

static void ring(void) {
  const uint64_t one = 1;
  (void)!write(bell, &one, sizeof one);
}

/* From any thread. */
static void mail(client *c, const bytes *text, bool ended) {
  pthread_mutex_lock(&mail_lock);
  put(&c->mail, text->data, text->size);
  c->ended = c->ended || ended;
  if (!c->listed) {
    c->listed = true;
    c->next = mailed;
    mailed = c;
  }
  pthread_mutex_unlock(&mail_lock);
  ring();
}

/* ---- answers ---- */

static const char *phrase_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 499:
      return "Client Closed Request";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Error";
  }
}

static void put_head(bytes *to, int status, const char *type, const size_t *size) {
  char head[256];
  int length = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nConnection: close\r\n", status,
                        phrase_of(status), type);
  put(to, head, (size_t)length);
  if (size) put(to, head, (size_t)snprintf(head, sizeof head, "Content-Length: %zu\r\n", *size));
  put_string(to, "\r\n");
}

/* Ends the value that the writer has and frees the writer. */
static bytes json_of(tp_writer *writer) {
  bytes json = {NULL, 0, 0};
  tp_text value, text;
  if (tp_writer_finish(writer, &value) == TP_OK && tp_json_encode(value, writer, &text, NULL) == TP_OK)
    put(&json, text.data, text.size);
  tp_writer_free(writer);
  return json;
}

static tp_writer *new_writer(void) {
  tp_writer *writer;
  if (tp_writer_new(NULL, &writer) != TP_OK) abort();
  return writer;
}

static void put_answer(bytes *to, int status, tp_writer *writer) {
  bytes json = json_of(writer);
  put_head(to, status, "application/json", &json.size);
  put(to, json.data, json.size);
  free(json.data);
}

/* {"error": {message, type, code, hook, phase}}: who refused, and its own words. */
static tp_writer *error_of(tp_text message, const char *type, tp_text hook, uint32_t phase) {
  tp_writer *w = new_writer();
  const tp_phase *row = phase ? tp_phase_get(runtime, phase) : NULL;
  tp_write_map(w, 1);
  tp_write_string(w, "error");
  tp_write_map(w, 4);
  tp_write_string(w, "message");
  tp_write_text(w, message);
  tp_write_string(w, "type");
  tp_write_string(w, type);
  tp_write_string(w, "hook");
  tp_write_text(w, hook);
  tp_write_string(w, "phase");
  tp_write_string(w, row ? row->name : "");
  return w;
}

static void put_error(bytes *to, int status, const char *message) {
  put_answer(to, status, error_of(tp_text_of(message), "invalid_request_error", (tp_text){NULL, 0}, 0));
}

static void write_pair(tp_writer *w, const char *key, const char *value) {
  tp_write_string(w, key);
  tp_write_string(w, value);
}

static void write_int_pair(tp_writer *w, const char *key, int64_t value) {
  tp_write_string(w, key);
  tp_write_int(w, value);
}

/* What each chunk, and a whole completion, begins with. @param more  pairs that follow. */
static tp_writer *begin_completion(const client *c, const char *object, size_t more) {
  tp_writer *w = new_writer();
  tp_write_map(w, 4 + more);
  write_pair(w, "object", object);
  write_pair(w, "id", c->completion);
  write_int_pair(w, "created", c->created);
  write_pair(w, "model", c->model);
  return w;
}

static void write_usage(tp_writer *w, const tp_turn_result *result) {
  tp_write_string(w, "usage");
  tp_write_map(w, 3);
  write_int_pair(w, "prompt_tokens", result->input_tokens);
  write_int_pair(w, "completion_tokens", result->output_tokens);
  write_int_pair(w, "total_tokens", result->input_tokens + result->output_tokens);
}

static const char *finish_reason_of(const tp_turn_result *result) {
  if (result->finish == TP_FINISH_LENGTH) return "length";
  return result->finish == TP_FINISH_FILTER || result->finish == TP_FINISH_REFUSAL ? "content_filter" : "stop";
}

/* Up to the delta or message, which is the caller's. */
static void begin_choice(tp_writer *w, const char *key) {
  tp_write_string(w, "choices");
  tp_write_array(w, 1);
  tp_write_map(w, 3);
  write_int_pair(w, "index", 0);
  tp_write_string(w, key);
}

static void end_choice(tp_writer *w, const tp_turn_result *result) {
  tp_write_string(w, "finish_reason");
  if (result) tp_write_string(w, finish_reason_of(result));
  else tp_write_null(w);
}

static tp_writer *completion_of(const client *c, const tp_turn_result *result) {
  tp_writer *w = begin_completion(c, "chat.completion", 2);
  begin_choice(w, "message");
  tp_write_map(w, 2);
  write_pair(w, "role", "assistant");
  tp_write_string(w, "content");
  tp_write_text(w, result->text);
  end_choice(w, result);
  write_usage(w, result);
  return w;
}

/* A chunk with a piece, with the role where it is the first one, or with how it ended. */
static tp_writer *chunk_of(const client *c, bool is_first, tp_text piece, const tp_turn_result *result) {
  tp_writer *w = begin_completion(c, "chat.completion.chunk", 1);
  begin_choice(w, "delta");
  tp_write_map(w, (size_t)is_first + (piece.size > 0));
  if (is_first) write_pair(w, "role", "assistant");
  if (piece.size > 0) {
    tp_write_string(w, "content");
    tp_write_text(w, piece);
  }
  end_choice(w, result);
  return w;
}

/* The last chunk, without a choice. */
static tp_writer *usage_chunk_of(const client *c, const tp_turn_result *result) {
  tp_writer *w = begin_completion(c, "chat.completion.chunk", 2);
  tp_write_string(w, "choices");
  tp_write_array(w, 0);
  write_usage(w, result);
  return w;
}

static void put_event(client *c, bytes *to, tp_writer *writer) {
  bytes json = json_of(writer);
  if (!c->began_stream) put_head(to, 200, "text/event-stream", NULL);
  c->began_stream = true;
  put_string(to, "data: ");
  put(to, json.data, json.size);
  put_string(to, "\n\n");
  free(json.data);
}

/* ---- what the library says, on its threads ---- */

/* The status line waits for the first piece: until then a guard may still refuse. */
static void on_event(void *ctx, const tp_event *event) {
  (void)ctx;
  client *c = tp_event_data(event, TP_ID_TURN);
  bool is_delta = event->kind == TP_EVENT_MODEL_DELTA;
  if (!c || !c->streams) return;
  if (is_delta || !c->had_delta) {
    bytes text = {NULL, 0, 0};
    if (event->text.size > 0) put_event(c, &text, chunk_of(c, !c->began_stream, event->text, NULL));
    if (text.size > 0) mail(c, &text, false);
    free(text.data);
  }
  c->had_delta = is_delta; /* a model without deltas has its whole text in the end of its call */
}

/* 403: a guard denied. 503: a required guard did not answer, so whether it would have denied is unknown. */
static int status_of(const tp_turn_result *result) {
  if (result->phase) return result->state == TP_STATE_SUCCEEDED ? 403 : 503;
  switch (result->outcome) {
    case TP_TURN_COMPLETED:
      return 200;
    case TP_TURN_CANCELLED:
      return 499;
    case TP_TURN_TIMED_OUT:
      return 504;
    default:
      return result->code == TP_ERR_SHUTDOWN ? 503 : 502;
  }
}

static void on_end(void *ctx, const tp_turn_result *result) {
  client *c = ctx;
  bytes text = {NULL, 0, 0};
  int status = status_of(result);
  bool failed = status != 200;
  const char *type = status == 403   ? "denied"
                     : result->phase ? tp_reason_name(result->why)
                                     : tp_turn_outcome_name(result->outcome);
  tp_text words = result->bare_reason.size > 0 ? result->bare_reason : result->reason;
  tp_writer *answer = failed       ? error_of(words, type, result->subscription, result->phase)
                      : c->streams ? chunk_of(c, !c->began_stream, (tp_text){NULL, 0}, result)
                                   : completion_of(c, result);
  if (c->streams && (!failed || c->began_stream)) {
    put_event(c, &text, answer);
    if (!failed && c->wants_usage) put_event(c, &text, usage_chunk_of(c, result));
    put_string(&text, "data: [DONE]\n\n");
  } else {
    put_answer(&text, status, answer);
  }
  mail(c, &text, true);
  free(text.data);
}

static void on_drained(void *ctx, const tp_drain_report *report) {
  (void)ctx, (void)report;
  pthread_mutex_lock(&mail_lock);
  drained = true;
  pthread_mutex_unlock(&mail_lock);
  ring();
}

/* ---- hooks, and a model without a network ---- */

static bool says(tp_text text, const char *word) {
  return text.size && memmem(text.data, text.size, word, strlen(word));
}

static tp_answer guard(void *ctx, tp_call *call) {
  (void)ctx;
  const client *c = tp_call_data(call, TP_ID_TURN);
  tp_text text = tp_call_text(call, TP_FIELD_TEXT);
  if (says(text, "break the guard")) return tp_call_fail(call, 1, "the policy service does not answer");
  if (says(text, "forbidden") && !(c && c->is_admin)) return tp_call_deny(call, "that word is not allowed here");
  return tp_call_allow(call);
}

/* Stands for a slow search, which checks whether its result is still wanted. */
static tp_answer search(void *ctx, tp_call *call) {
  (void)ctx;
  const struct timespec pause = {0, 5000000};
  if (!says(tp_call_text(call, TP_FIELD_TEXT), "search")) return TP_ANSWER_DONE;
  while (!tp_call_cancelled(call)) nanosleep(&pause, NULL);
  return TP_ANSWER_DONE;
}

/* Says what it was asked, word by word. */
static void echo_start(void *ctx, const tp_model_request *request, tp_token token) {
  (void)ctx;
  char words[512];
  bytes text = {NULL, 0, 0};
  tp_text last = request->message_count ? request->messages[request->message_count - 1]->text : (tp_text){NULL, 0};
  snprintf(words, sizeof words, "%.*s read %zu messages from %s with %zu parameters:", (int)request->model.size,
           request->model.data, request->message_count,
           request->messages[0]->role == TP_ROLE_SYSTEM ? "the system" : "the user",
           tp_value_count(request->parameters));
  put_string(&text, words);
  put(&text, " ", 1);
  put(&text, last.data, last.size);
  tp_status status = tp_model_delta(token, tp_text_of(words), NULL);
  if (status == TP_OK) status = tp_model_delta(token, (tp_text){text.data + strlen(words), last.size + 1}, NULL);
  tp_model_response response = {.struct_size = sizeof response,
                                .text = {text.data, text.size},
                                .stop_reason = tp_text_of("end_turn"),
                                .input_tokens = (int64_t)last.size,
                                .output_tokens = (int64_t)text.size};
  if (status == TP_OK) (void)!tp_model_complete(token, &response, NULL);
  free(text.data);
}

/* ---- reading a request ---- */

static tp_text header_of(const client *c, const char *name) {
  size_t length = strlen(name);
  for (const char *line = strstr(c->in.data, "\r\n"); line && strncmp(line, "\r\n\r\n", 4) != 0;
       line = strstr(line + 2, "\r\n")) {
    const char *at = line + 2;
    if (strncasecmp(at, name, length) != 0 || at[length] != ':') continue;
    at += length + 1;
    at += strspn(at, " \t");
    return (tp_text){at, strcspn(at, "\r\n")};
  }
  return (tp_text){NULL, 0};
}

/* What a request's structs point to, till the submit has copied it. */
typedef struct conversation {
  tp_writer *body, *parameters, *arguments[CALLS_MAX];
  tp_message messages[MESSAGES_MAX];
  const tp_message *list[MESSAGES_MAX];
  tp_tool_call calls[CALLS_MAX];
  const tp_tool_call *call_list[CALLS_MAX];
  char *texts[MESSAGES_MAX]; /* of messages whose content is a list of parts */
  size_t count, call_count;
  char model[TP_ID_BYTES_MAX + 1];
  const char *wrong;
} conversation;

static void free_conversation(conversation *v) {
  for (size_t i = 0; i < v->call_count; i++) tp_writer_free(v->arguments[i]);
  for (size_t i = 0; i < v->count; i++) free(v->texts[i]);
  tp_writer_free(v->parameters);
  tp_writer_free(v->body);
  free(v);
}

/* The arguments come as JSON in a string; what is none goes on as it is. */
static void read_call(conversation *v, tp_text call) {
  size_t i = v->call_count++;
  tp_text function = tp_value_get(call, "function"), json = tp_value_text(tp_value_get(function, "arguments"));
  v->arguments[i] = new_writer();
  v->call_list[i] = &v->calls[i];
  v->calls[i] = (tp_tool_call){.struct_size = sizeof v->calls[i],
                               .id = tp_value_text(tp_value_get(call, "id")),
                               .name = tp_value_text(tp_value_get(function, "name")),
                               .arguments = json};
  v->calls[i].malformed = json.size > 0 && (tp_json_decode(json, v->arguments[i], NULL) != TP_OK ||
                                            tp_writer_finish(v->arguments[i], &v->calls[i].arguments) != TP_OK);
}

/* A list of parts of text is their text. */
static tp_text read_parts(conversation *v, tp_text parts) {
  bytes joined = {NULL, 0, 0};
  for (tp_value_walk walk = {0}; tp_value_next(parts, &walk);) {
    tp_text type = tp_value_text(tp_value_get(walk.value, "type")),
            text = tp_value_text(tp_value_get(walk.value, "text"));
    if (!tp_text_is(type, "text") && !tp_text_is(type, "input_text"))
      v->wrong = "a part of a message that is no text is not taken here: send {\"type\": \"text\"}";
    if (text.size > 0) put(&joined, text.data, text.size);
  }
  v->texts[v->count] = joined.data;
  return (tp_text){joined.data, joined.size};
}

static void read_message(conversation *v, tp_text message) {
  static const char *const roles[] = {
      [TP_ROLE_USER] = "user", [TP_ROLE_ASSISTANT] = "assistant", [TP_ROLE_TOOL] = "tool", [TP_ROLE_SYSTEM] = "system"};
  tp_text role = tp_value_text(tp_value_get(message, "role")), calls = tp_value_get(message, "tool_calls");
  tp_text content = tp_value_get(message, "content");
  tp_message *m = &v->messages[v->count];
  *m = (tp_message){.struct_size = sizeof *m, .text = tp_value_text(content)};
  for (int r = 1; r <= TP_ROLE_SYSTEM; r++)
    if (roles[r] && tp_text_is(role, roles[r])) m->role = (tp_role)r;
  if (tp_text_is(role, "developer")) m->role = TP_ROLE_SYSTEM;
  tp_value_kind kind = tp_value_kind_of(content);
  if (kind == TP_VALUE_ARRAY) m->text = read_parts(v, content);
  else if (content.size > 0 && kind != TP_VALUE_TEXT && kind != TP_VALUE_NULL)
    v->wrong = "the content of a message must be a string or a list of parts";
  if (m->role == TP_ROLE_TOOL) m->call_id = tp_value_text(tp_value_get(message, "tool_call_id"));
  m->calls = &v->call_list[v->call_count];
  for (tp_value_walk walk = {0}; calls.size > 0 && tp_value_next(calls, &walk); m->call_count++) {
    if (v->call_count == CALLS_MAX) v->wrong = "too many tool calls";
    else read_call(v, walk.value);
  }
  v->list[v->count++] = m;
}

/* What this server would have to leave out in silence. */
static const char *why_not(tp_text body) {
  if (tp_value_int(tp_value_get(body, "n"), 1) != 1) return "n must be 1";
  if (tp_value_bool(tp_value_get(body, "logprobs"), false)) return "there are no logprobs here";
  if (tp_value_count(tp_value_get(body, "tools")) > 0) return "tools are the server's own here: send none";
  return NULL;
}

static void read_parameters(conversation *v, tp_text body, tp_turn_request *request) {
  static const char *const names[] = {"temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop"};
  size_t count = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) count += tp_value_get(body, names[i]).size > 0;
  if (count == 0) return;
  tp_write_map(v->parameters, count);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tp_text value = tp_value_get(body, names[i]);
    if (value.size == 0) continue;
    tp_write_string(v->parameters, names[i]);
    tp_write_value(v->parameters, value);
  }
  (void)!tp_writer_finish(v->parameters, &request->parameters);
}

/* The last message is the turn's own; those before it are its history, where the session is not to use its own. */
static conversation *read_body(client *c, tp_text json, bool has_session, tp_turn_request *request) {
  conversation *v = calloc(1, sizeof *v);
  if (!v) abort();
  tp_fault fault = {0};
  tp_text body = {NULL, 0};
  v->body = new_writer();
  v->parameters = new_writer();
  if (tp_json_decode(json, v->body, &fault) != TP_OK || tp_writer_finish(v->body, &body) != TP_OK) {
    v->wrong = "the body is no JSON";
    return v;
  }
  tp_text messages = tp_value_get(body, "messages"), model = tp_value_text(tp_value_get(body, "model"));
  for (tp_value_walk walk = {0}; messages.size > 0 && tp_value_next(messages, &walk) && v->count < MESSAGES_MAX;)
    read_message(v, walk.value);
  if (v->count == MESSAGES_MAX) v->wrong = "too many messages";
  if (v->count == 0 || v->messages[v->count - 1].role != TP_ROLE_USER) v->wrong = "the last message must be the user's";
  if (model.size > TP_ID_BYTES_MAX) v->wrong = "the model's name is too long";
  if (!v->wrong) v->wrong = why_not(body);
  if (v->wrong) return v;
  c->streams = tp_value_bool(tp_value_get(body, "stream"), false);
  c->wants_usage = tp_value_bool(tp_value_get(tp_value_get(body, "stream_options"), "include_usage"), false);
  c->created = (int64_t)time(NULL);
  snprintf(c->model, sizeof c->model, "%.*s", model.size ? (int)model.size : (int)sizeof model_name,
           model.size ? model.data : model_name);
  snprintf(c->completion, sizeof c->completion, "chatcmpl-%u", ++completion_count);
  snprintf(v->model, sizeof v->model, "%.*s", (int)model.size, model.size ? model.data : "");
  *request = (tp_turn_request){.struct_size = sizeof *request, .text = v->messages[v->count - 1].text, .data = c};
  if (model.size > 0) request->model_name = v->model;
  if (!has_session || v->count > 1) {
    request->messages = v->list;
    request->message_count = v->count - 1;
  }
  read_parameters(v, body, request);
  return v;
}

/* ---- the routes ---- */

static int status_of_refusal(tp_status status) {
  if (status == TP_ERR_FULL) return 429;
  return strcmp(tp_status_category(status), "usage") == 0 ? 400 : 503;
}

static tp_status open_session(const char *id, tp_session **ret_session, tp_fault *fault) {
  tp_session_options options = {.struct_size = sizeof options, .id = id, .agent = agent};
  return tp_session_open(runtime, &options, ret_session, fault);
}

/* A session for one request is closed at once: its close comes after its turn. */
static tp_status submit(client *c, tp_text session_id, const tp_turn_request *request, tp_fault *fault) {
  char id[2 * TP_ID_BYTES_MAX]; /* one that is cut is still too long, and refused */
  bool stays = session_id.size > 0;
  if (stays) snprintf(id, sizeof id, "%.*s", (int)session_id.size, session_id.data);
  else snprintf(id, sizeof id, "request-%u", ++request_count);
  tp_session *found = stays ? tp_session_find(runtime, NULL, id) : NULL, *session = found;
  tp_status status = found ? TP_OK : open_session(id, &session, fault);
  if (status == TP_OK) status = tp_turn_submit(session, request, on_end, c, &c->turn, fault);
  if (!stays && session) tp_session_close(session, NULL, NULL);
  tp_session_unref(found);
  return status;
}

static void complete(client *c, tp_text body) {
  tp_turn_request request;
  tp_fault fault = {0};
  tp_text session_id = header_of(c, "X-Session-Id"), role = header_of(c, "X-Role");
  c->is_admin = role.size == 5 && memcmp(role.data, "admin", 5) == 0;
  conversation *v = read_body(c, body, session_id.size > 0, &request);
  tp_status status = v->wrong ? TP_OK : submit(c, session_id, &request, &fault);
  if (v->wrong) put_error(&c->out, 400, v->wrong);
  else if (status != TP_OK) put_error(&c->out, status_of_refusal(status), fault.message);
  c->has_answer = v->wrong || status != TP_OK;
  free_conversation(v);
}

static void show_stats(client *c) {
  tp_runtime_stats s = {.struct_size = sizeof s};
  tp_runtime_stats_get(runtime, &s);
  const struct {
    const char *name;
    uint64_t count;
  } rows[] = {{"sessions_open", s.sessions_open},
              {"turns_open", s.turns_open},
              {"turns_queued", s.turns_queued},
              {"turns_completed", s.turns_completed},
              {"turns_failed", s.turns_failed},
              {"turns_denied", s.turns_denied},
              {"turns_cancelled", s.turns_cancelled},
              {"turns_timed_out", s.turns_timed_out},
              {"denials", s.denials},
              {"failures", s.failures},
              {"jobs_open", s.jobs_open},
              {"tokens_open", s.tokens_open}};
  tp_writer *w = new_writer();
  tp_write_map(w, sizeof rows / sizeof *rows);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tp_write_string(w, rows[i].name);
    tp_write_int(w, (int64_t)rows[i].count);
  }
  put_answer(&c->out, 200, w);
}

static void show_models(client *c) {
  tp_writer *w = new_writer();
  tp_write_map(w, 2);
  write_pair(w, "object", "list");
  tp_write_string(w, "data");
  tp_write_array(w, 1);
  tp_write_map(w, 4);
  write_pair(w, "id", model_name);
  write_pair(w, "object", "model");
  write_int_pair(w, "created", 0);
  write_pair(w, "owned_by", "turnphase");
  put_answer(&c->out, 200, w);
}

static void close_session(client *c, tp_text id) {
  char name[2 * TP_ID_BYTES_MAX];
  snprintf(name, sizeof name, "%.*s", (int)id.size, id.data);
  tp_session *session = tp_session_find(runtime, NULL, name);
  const tp_session_end end = {.struct_size = sizeof end, .reason = "deleted"};
  if (session && tp_session_close_with(session, &end, NULL, NULL, NULL) == TP_OK) {
    tp_writer *w = new_writer();
    tp_write_map(w, 1);
    tp_write_string(w, "deleted");
    tp_write_bool(w, true);
    put_answer(&c->out, 200, w);
  } else {
    put_error(&c->out, 404, "no such session");
  }
  tp_session_unref(session);
}

static bool starts(const client *c, const char *with, tp_text *ret_rest) {
  size_t length = strlen(with);
  if (c->in.size < length || memcmp(c->in.data, with, length) != 0) return false;
  const char *rest = c->in.data + length;
  *ret_rest = (tp_text){rest, strcspn(rest, " \r\n")};
  return true;
}

/* Once, when all of the request is there. */
static void route(client *c, tp_text body) {
  tp_text rest;
  c->has_answer = true;
  if (starts(c, "POST /v1/chat/completions ", &rest)) complete(c, body);
  else if (starts(c, "GET /v1/models ", &rest)) show_models(c);
  else if (starts(c, "DELETE /v1/sessions/", &rest)) close_session(c, rest);
  else if (starts(c, "GET /stats ", &rest)) show_stats(c);
  else
    put_error(&c->out, 404,
              "there is POST /v1/chat/completions, GET /v1/models, DELETE /v1/sessions/ID and GET /stats");
}

/* ---- the loop ---- */

static void free_if_done(client *c) {
  if (c->fd >= 0 || c->turn) return; /* a turn's end is mailed to its client, wherever that is */
  free(c->in.data);
  free(c->out.data);
  free(c->mail.data);
  free(c);
}

/* The client has left, or has its answer. */
static void hang_up(client *c) {
  close(c->fd);
  c->fd = -1;
  tp_submission_cancel(c->turn); /* harmless where it has ended */
  free_if_done(c);
}

static void watch(const client *c, uint32_t events) {
  struct epoll_event event = {.events = events | EPOLLRDHUP, .data.ptr = (void *)(uintptr_t)c};
  epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
}

/* @return whether the client is still there. */
static bool flush(client *c) {
  while (c->fd >= 0 && c->sent < c->out.size) {
    ssize_t count = send(c->fd, c->out.data + c->sent, c->out.size - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count < 0) {
      hang_up(c);
      return false;
    }
    c->sent += (size_t)count;
  }
  if (c->fd >= 0 && c->sent < c->out.size) watch(c, EPOLLIN | EPOLLOUT);
  else if (c->fd >= 0 && c->has_answer) {
    hang_up(c);
    return false;
  } else if (c->fd >= 0) watch(c, EPOLLIN);
  return true;
}

/* @return whether all of the request is there, with its body. */
static bool has_request(client *c, tp_text *ret_body) {
  const char *end = c->in.data ? strstr(c->in.data, "\r\n\r\n") : NULL;
  if (!end) return false;
  tp_text length = header_of(c, "Content-Length");
  size_t size = length.size > 0 ? strtoul(length.data, NULL, 10) : 0, head = (size_t)(end + 4 - c->in.data);
  *ret_body = (tp_text){end + 4, size};
  return size <= REQUEST_BYTES_MAX && c->in.size >= head + size;
}

static void on_readable(client *c) {
  char buffer[16384];
  tp_text body;
  ssize_t count = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    hang_up(c);
    return;
  }
  if (c->turn || c->has_answer) return; /* one request for each connection */
  put(&c->in, buffer, (size_t)count);
  if (c->in.size > REQUEST_BYTES_MAX + sizeof buffer) {
    put_error(&c->out, 413, "the request is too large");
    c->has_answer = true;
  } else if (has_request(c, &body)) {
    route(c, body);
  }
  (void)flush(c);
}

static void read_mail(void) {
  uint64_t rings;
  (void)!read(bell, &rings, sizeof rings);
  pthread_mutex_lock(&mail_lock);
  client *list = mailed;
  mailed = NULL;
  pthread_mutex_unlock(&mail_lock);
  while (list) {
    client *c = list;
    pthread_mutex_lock(&mail_lock);
    list = c->next;
    c->listed = false;
    put(&c->out, c->mail.data, c->mail.size);
    c->mail.size = 0;
    bool ended = c->ended;
    pthread_mutex_unlock(&mail_lock);
    if (ended) {
      c->has_answer = true;
      tp_submission_unref(c->turn);
      c->turn = NULL;
    }
    if (c->fd < 0) free_if_done(c);
    else (void)flush(c);
  }
}

static void accept_client(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  client *c = calloc(1, sizeof *c);
  if (!c) abort();
  c->fd = fd;
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

static void add(int fd, void *mark) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = mark};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

/* Till a signal has come and the drain that it submits is over: turns under way have their time. */
static void loop(int listener, int signals) {
  static char of_listener, of_bell, of_signals;
  add(listener, &of_listener);
  add(bell, &of_bell);
  add(signals, &of_signals);
  for (bool over = false; !over;) {
    struct epoll_event event;
    if (epoll_wait(poller, &event, 1, -1) != 1) continue;
    if (event.data.ptr == &of_listener) {
      accept_client(listener);
    } else if (event.data.ptr == &of_bell) {
      read_mail();
      pthread_mutex_lock(&mail_lock);
      over = drained && !mailed;
      pthread_mutex_unlock(&mail_lock);
    } else if (event.data.ptr == &of_signals) {
      struct signalfd_siginfo signal;
      (void)!read(signals, &signal, sizeof signal);
      epoll_ctl(poller, EPOLL_CTL_DEL, listener, NULL);
      if (tp_runtime_drain_submit(runtime, DRAIN_MS, on_drained, NULL, NULL) != TP_OK) over = true;
    } else if (event.events & EPOLLOUT) {
      (void)flush(event.data.ptr);
    } else {
      on_readable(event.data.ptr);
    }
  }
}

/* ---- setting up ---- */

static tp_status load_script(const char *path, tp_model **ret_model, tp_fault *fault) {
  bytes yaml = {NULL, 0, 0};
  char buffer[4096];
  FILE *file = fopen(path, "r");
  for (size_t count; file && (count = fread(buffer, 1, sizeof buffer, file)) > 0;) put(&yaml, buffer, count);
  if (file) fclose(file);
  tp_status status = tp_script_model_load((tp_text){yaml.data, yaml.size}, path, ret_model, fault);
  free(yaml.data);
  return status;
}

static tp_status add_agent(const char *script, tp_fault *fault) {
  static const tp_model echo = {
      .struct_size = sizeof echo, .name = "echo", .start = echo_start, .placement = TP_PLACEMENT_INLINE};
  tp_model *scripted = NULL;
  tp_status status = script ? load_script(script, &scripted, fault) : TP_OK;
  if (status != TP_OK) return status;
  const tp_agent_config config = {
      .struct_size = sizeof config, .id = "assistant", .model_name = model_name, .model = script ? scripted : &echo};
  status = tp_agent_add(runtime, &config, &agent, fault);
  if (status != TP_OK) tp_model_free(scripted);
  return status;
}

static tp_status set_up(const char *script, tp_fault *fault) {
  const tp_hook hooks[] = {{.struct_size = sizeof(tp_hook),
                            .id = "guard",
                            .phase = "turn.intake",
                            .run = guard,
                            .failure = TP_FAILURE_REQUIRED,
                            .limit_ms = 1000,
                            .placement = TP_PLACEMENT_INLINE},
                           {.struct_size = sizeof(tp_hook),
                            .id = "search",
                            .phase = "turn.pre_prompt_context",
                            .run = search,
                            .limit_ms = SLOW_MS}};
  const tp_listener deltas = {.struct_size = sizeof deltas,
                              .on_event = on_event,
                              .kinds = UINT64_C(1) << TP_EVENT_MODEL_DELTA | UINT64_C(1) << TP_EVENT_MODEL_END};
  tp_status status = tp_runtime_new(NULL, &runtime, fault);
  for (int i = 0; i < 2 && status == TP_OK; i++) status = tp_hook_add(runtime, &hooks[i], fault);
  if (status == TP_OK) status = tp_runtime_listen(runtime, &deltas, NULL, fault);
  return status == TP_OK ? add_agent(script, fault) : status;
}

static int listen_on(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 64) != 0) return -1;
  getsockname(fd, (struct sockaddr *)&address, &size);
  printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
  fflush(stdout);
  return fd;
}

int main(int argc, char **argv) {
  tp_fault fault = {0};
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  sigprocmask(SIG_BLOCK, &stops, NULL);
  bell = eventfd(0, EFD_CLOEXEC);
  poller = epoll_create1(EPOLL_CLOEXEC);
  int signals = signalfd(-1, &stops, SFD_CLOEXEC);
  bool ready = argc >= 2 && set_up(argc > 2 ? argv[2] : NULL, &fault) == TP_OK;
  int listener = ready ? listen_on((uint16_t)strtol(argv[1], NULL, 10)) : -1;
  if (listener >= 0) loop(listener, signals);
  else fprintf(stderr, "server: %s\n", ready ? "the port is not free" : argc < 2 ? "PORT is missing" : fault.message);
  tp_runtime_free(runtime);
  return listener >= 0 ? 0 : 1;
}
