/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/fault.h"
#include "support/lock.h"

enum {
  EVENTS_MAX = 64,
  SWEEP_MS = 500,
  FLUSH_LIMIT_MS = 2000,
  BACKLOG = 1024,
  SEND_BUFFER_BYTES = 128 << 10,
  BLOCK_BYTES = 16 << 10,      /* the most bytes that libmicrohttpd sends at once */
  STREAM_BLOCK_BYTES = 512,    /* the same for a stream to HTTP/1.0; each has this much memory while it is open */
  ANSWER_HEAD_BYTES = 1 << 10, /* free space for the head of an answer, after the largest head of a request */
  KEPT_BYTES_MAX = 4 << 10,    /* the most memory that a stream keeps while no bytes wait */
  COPIED_BYTES_MAX = 64 << 10, /* a longer body is sent by read_out(), which notices whether the client reads */
  DISCARDED_MAX = 4            /* times body_bytes_max: how much of a too large body is read before its connection is
                                  closed */
};

typedef enum connection_state { CONNECTION_RECEIVES, CONNECTION_ANSWERS, CONNECTION_IDLE } connection_state;

/** A connection. Used by the front's thread only. */
typedef struct connection {
  tp__http *http;
  int fd;
  connection_state state;
  int64_t since_ms; /* when the state began */
  int64_t line_ns;  /* when the first line of the newest request was read */
  tp__http_request *request;
  bool left; /* the client has closed its sending side */
  struct connection *previous, *next;
} connection;

struct tp__http {
  /* never change */
  tp__http_options options;
  tp__http_handlers handlers;
  uint16_t port;
  int epoll_fd, wake_fd, listen_fd;
  struct MHD_Daemon *daemon;
  pthread_t thread;
  /* used by the front's thread only */
  connection *connections;
  int64_t swept_ms;
  tp__lock lock;
  tp__lock_condition changed;
  /* under lock */
  size_t open;                /* requests that were passed to the host and are not freed */
  tp__http_request *finished; /* requests that the host ended after libmicrohttpd had: the front's thread frees them */
  bool quiesce, quiet, stop;
  void (*call)(void *ctx); /* the function of tp__http_call(); NULL: none waits */
  void *call_ctx;
};

struct tp__http_request {
  /* never change */
  tp__http *http;
  const tp__http_handlers *handlers; /* the handlers for events after `request`: the front's, or those of
                                        tp__http_hand_over() */
  struct MHD_Connection *mhd;        /* valid until completed */
  /* used by the front's thread only; data that the host reads is valid until `request` returns */
  connection *connection;
  const char *method, *path;
  tp__bytes body;
  size_t discarded;
  bool passed;
  void *data;
  tp__http_done done; /* the data for `done` */
  tp__http_request *finished_next;
  tp__lock lock;
  /* under lock */
  uint64_t body_out;             /* bytes of the answer that were sent; of an answer that is no stream, its size */
  int64_t answered_ns;           /* 0: there is no answer yet */
  struct MHD_Response *response; /* kept until it is queued */
  unsigned status;
  tp__bytes out; /* out_at <= out.size */
  size_t out_at;
  int64_t moved_ms; /* when the client last read something, or nothing waited */
  bool is_stream, queued, suspended, refused;
  bool noticed;   /* the host was notified that the client may read no more */
  bool gone;      /* the client has left */
  bool ended;     /* the host has ended the request */
  bool completed; /* libmicrohttpd has ended the request */
};

/* ---- the life of a request ---- */

#ifdef TP_CHECKS
static void request_check_locked(const tp__http_request *request) {
  TP__LOCKED(&request->lock);
  assert(request->out_at <= request->out.size);
  assert(!request->suspended || !request->completed);
  assert(!request->ended || request->passed);
  assert(!(request->queued && request->response));
}
#endif

static void wake(tp__http *http) {
  uint64_t one = 1;
  (void)!write(http->wake_fd, &one, sizeof one); /* when it is full, the thread is awake */
}

static tp__http_request *request_new(connection *c, struct MHD_Connection *mhd, const char *method, const char *path) {
  tp__http_request *request = tp__heap_alloc(sizeof *request);
  if (!request) return NULL;
  request->http = c->http;
  request->handlers = &c->http->handlers;
  request->mhd = mhd;
  request->connection = c;
  request->method = method;
  request->path = path;
  request->done.began_ns = c->line_ns;
  tp__lock_init(&request->lock, TP__LOCK_http_request);
  return request;
}

/* Frees a request that was completed and, if it was passed to the host, ended. On the front's thread. */
static void request_free(tp__http_request *request) {
  tp__http *http = request->http;
  const tp__http_handlers *front = &http->handlers, *handlers = request->handlers;
  tp__http_done *done = &request->done;
  done->bytes_in = request->body.size + request->discarded;
  done->bytes_out = request->queued ? request->body_out : 0;
  done->status = request->queued ? request->status : 0;
  done->answered_ns = request->answered_ns;
  if (front->done) front->done(front->ctx, done, handlers == front ? request->data : NULL);
  bool passed = request->passed;
  void *data = request->data;
  assert(!request->suspended && !request->connection);
  if (request->response) MHD_destroy_response(request->response);
  tp__bytes_fini(&request->out);
  tp__bytes_fini(&request->body);
  tp__lock_fini(&request->lock);
  tp__heap_free(request, sizeof *request);
  if (!passed) return;
  if (handlers->released) handlers->released(handlers->ctx, data);
  tp__lock_acquire(&http->lock);
  assert(http->open > 0);
  http->open--;
  tp__lock_condition_broadcast(&http->changed);
  tp__lock_release(&http->lock);
}

static void resume_locked(tp__http_request *request) {
  TP__LOCKED(&request->lock);
  TP__CHECK(request_check_locked(request));
  if (!request->suspended) return;
  request->suspended = false;
  MHD_resume_connection(request->mhd);
  wake(request->http); /* libmicrohttpd's own signal is not in the epoll set here */
}

/* Notifies the host that the client has left, or that the front ends. On the front's thread. */
static void notify(tp__http_request *request, bool gone) {
  const tp__http_handlers *handlers = request->handlers;
  tp__lock_acquire(&request->lock);
  bool is_news = request->passed && !request->noticed && !request->ended;
  request->noticed |= is_news;
  request->gone |= gone;
  tp__lock_release(&request->lock);
  if (is_news && handlers->gone) handlers->gone(handlers->ctx, request->data);
}

/* Handles a client that has left. On the front's thread. */
static void leave(tp__http_request *request) {
  notify(request, true);
  tp__lock_acquire(&request->lock);
  resume_locked(request);
  tp__lock_release(&request->lock);
}

static void end(tp__http_request *request) {
  tp__lock_acquire(&request->lock);
  assert(!request->ended);
  request->ended = true;
  resume_locked(request);
  bool is_last = request->completed;
  tp__lock_release(&request->lock);
  if (!is_last) return;
  tp__http *http = request->http;
  tp__lock_acquire(&http->lock);
  request->finished_next = http->finished;
  http->finished = request;
  wake(http); /* under the lock, since the front ends when it has freed this request */
  tp__lock_release(&http->lock);
}

/* ---- what the host sends ---- */

/* A content reader of libmicrohttpd: copies the waiting bytes, or suspends the connection until there are some. */
static ssize_t read_out(void *ctx, uint64_t position, char *buffer, size_t size_max) {
  tp__http_request *request = ctx;
  const tp__http_handlers *handlers = request->handlers;
  (void)position;
  tp__lock_acquire(&request->lock);
  TP__CHECK(request_check_locked(request));
  size_t waits = request->out.size - request->out_at;
  size_t size = waits < size_max ? waits : size_max;
  ssize_t result = (ssize_t)size;
  request->moved_ms = tp__monotonic_ms();
  if (request->gone) result = MHD_CONTENT_READER_END_WITH_ERROR;
  else if (size > 0) memcpy(buffer, request->out.data + request->out_at, size);
  else if (request->ended) result = MHD_CONTENT_READER_END_OF_STREAM;
  else {
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
  }
  request->out_at += size;
  if (request->is_stream) request->body_out += size;
  if (request->out_at == request->out.size) {
    if (request->out.capacity > KEPT_BYTES_MAX) tp__bytes_fini(&request->out);
    tp__bytes_clear(&request->out);
    request->out_at = 0;
  }
  bool has_drained = request->refused && !request->ended &&
                     request->out.size - request->out_at <= request->http->options.stream_bytes_max / 2;
  if (has_drained) request->refused = false;
  tp__lock_release(&request->lock);
  if (has_drained && handlers->drained) handlers->drained(handlers->ctx, request, request->data);
  return result;
}

static struct MHD_Response *response_new(const tp__http_field *fields, uint64_t size, MHD_ContentReaderCallback read,
                                         void *ctx) {
  size_t block_bytes = size == MHD_SIZE_UNKNOWN ? STREAM_BLOCK_BYTES : BLOCK_BYTES;
  struct MHD_Response *response = read ? MHD_create_response_from_callback(size, block_bytes, read, ctx, NULL)
                                       : MHD_create_response_from_buffer(size, ctx, MHD_RESPMEM_MUST_COPY);
  for (; response && fields && fields->name; fields++)
    (void)!MHD_add_response_header(response, fields->name, fields->value);
  return response;
}

/* Sets the response. Without memory for one the connection is closed, so that the client sees the failure. */
static void set_response_locked(tp__http_request *request, unsigned status, struct MHD_Response *response) {
  TP__LOCKED(&request->lock);
  assert(!request->response && !request->queued && !request->ended);
  request->response = response;
  request->status = status;
  if (!response) request->gone = true;
}

void tp__http_answer(tp__http_request *request, unsigned status, const tp__http_field *fields, tp_text body) {
  assert(request && status >= 200 && status < 600);
  tp__lock_acquire(&request->lock);
  struct MHD_Response *response = NULL;
  if (body.size <= COPIED_BYTES_MAX) {
    response = response_new(fields, body.size, NULL, (void *)(uintptr_t)(body.size ? body.data : ""));
  } else {
    tp__bytes_put_text(&request->out, body);
    if (!request->out.failed) response = response_new(fields, body.size, read_out, request);
  }
  request->body_out = body.size;
  set_response_locked(request, status, response);
  tp__lock_release(&request->lock);
  end(request);
}

void tp__http_stream_begin(tp__http_request *request, unsigned status, const tp__http_field *fields) {
  assert(request && status >= 200 && status < 600);
  tp__lock_acquire(&request->lock);
  request->is_stream = true;
  set_response_locked(request, status, response_new(fields, MHD_SIZE_UNKNOWN, read_out, request));
  resume_locked(request);
  tp__lock_release(&request->lock);
}

tp_status tp__http_stream_put(tp__http_request *request, tp_text bytes) {
  tp_status status = TP_OK;
  tp__lock_acquire(&request->lock);
  assert(request->is_stream && !request->ended);
  size_t waits = request->out.size - request->out_at;
  if (request->gone) status = TP_ERR_CANCELLED;
  else if (waits > 0 && waits + bytes.size > request->http->options.stream_bytes_max) status = TP_ERR_FULL;
  request->refused |= status == TP_ERR_FULL;
  bool is_full = request->out.size + bytes.size >= request->out.capacity;
  if (status == TP_OK && request->out_at > 0 && (is_full || request->out_at >= waits)) {
    memmove(request->out.data, request->out.data + request->out_at, waits);
    request->out.size = waits;
    request->out_at = 0;
  }
  if (status == TP_OK) tp__bytes_put_text(&request->out, bytes);
  if (request->out.failed) {
    request->out.failed = false;
    status = TP_ERR_NO_MEMORY;
  }
  if (status == TP_OK) resume_locked(request);
  tp__lock_release(&request->lock);
  return status;
}

void tp__http_stream_end(tp__http_request *request) {
  assert(request->is_stream);
  end(request);
}

/* ---- what a client sends ---- */

const char *tp__http_method(const tp__http_request *request) { return request->method; }
const char *tp__http_path(const tp__http_request *request) { return request->path; }
tp_text tp__http_body(const tp__http_request *request) { return tp__bytes_text(&request->body); }

tp_text tp__http_header(const tp__http_request *request, const char *name) {
  const char *value = MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
  tp_text text = value ? tp_text_of(value) : (tp_text){0};
  while (text.size > 0 && strchr(" \t", text.data[0])) text.data++, text.size--;
  while (text.size > 0 && strchr(" \t", text.data[text.size - 1])) text.size--;
  return text;
}

typedef struct count_of {
  const char *name; /* NULL: any name */
  unsigned count;
} count_of;

static enum MHD_Result count_value(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value) {
  count_of *counted = ctx;
  (void)kind, (void)value;
  counted->count += !counted->name || strcasecmp(name, counted->name) == 0;
  return MHD_YES;
}

static unsigned count_headers(struct MHD_Connection *mhd, const char *name) {
  count_of counted = {.name = name};
  MHD_get_connection_values(mhd, MHD_HEADER_KIND, count_value, &counted);
  return counted.count;
}

unsigned tp__http_header_count(const tp__http_request *request, const char *name) {
  return count_headers(request->mhd, name);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool tp__http_query(const tp__http_request *request, const char *name, char *ret_value, size_t size) {
  const char *value = MHD_lookup_connection_value(request->mhd, MHD_GET_ARGUMENT_KIND, name);
  size_t count = 0;
  for (; value && *value && count + 1 < size; value++) {
    ret_value[count] = *value;
    if (*value == '%') {
      int high = hex_digit(value[1]), low = high < 0 ? -1 : hex_digit(value[2]);
      if (low < 0 || high + low == 0) return false;
      ret_value[count] = (char)(high << 4 | low);
      value += 2;
    }
    count++;
  }
  ret_value[count] = '\0';
  return value && !*value && count > 0;
}

unsigned tp__http_query_count(const tp__http_request *request, const char *name) {
  count_of counted = {.name = name};
  MHD_get_connection_values(request->mhd, MHD_GET_ARGUMENT_KIND, count_value, &counted);
  return counted.count;
}

void tp__http_set_data(tp__http_request *request, void *data) { request->data = data; }

size_t tp__http_request_bytes(void) { return sizeof(tp__http_request); }

void tp__http_hand_over(tp__http_request *request, const tp__http_handlers *handlers) {
  assert(!request->data);
  request->handlers = handlers;
}

void tp__http_set_route(tp__http_request *request, const void *route, const void *who) {
  request->done.route = route;
  request->done.who = who;
}

/* ---- what libmicrohttpd calls, on the front's thread ---- */

static void set_state(connection *c, connection_state state) {
  c->state = state;
  c->since_ms = tp__monotonic_ms();
}

static connection *connection_of(struct MHD_Connection *mhd) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

/* Refuses a request, which is not passed to the host. */
static enum MHD_Result refuse(tp__http_request *request, unsigned status, const char *why) {
  static const tp__http_field fields[] = {{"Content-Type", "application/json"}, {"Connection", "close"}, {NULL, NULL}};
  tp__bytes body = {0};
  tp__bytes_printf(&body, "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\"}}\n", why);
  const char *text = tp__bytes_string(&body);
  struct MHD_Response *response = response_new(fields, strlen(text), NULL, (void *)(uintptr_t)text);
  enum MHD_Result result = response ? MHD_queue_response(request->mhd, status, response) : MHD_NO;
  if (response) MHD_destroy_response(response);
  request->status = status;
  request->queued = result == MHD_YES;
  request->body_out = strlen(text);
  request->answered_ns = tp__monotonic_ns();
  tp__bytes_fini(&body);
  return result;
}

static enum MHD_Result begin(connection *c, struct MHD_Connection *mhd, const char *method, const char *path,
                             void **ret_request) {
  unsigned lengths = count_headers(mhd, "Content-Length"), codings = count_headers(mhd, "Transfer-Encoding");
  const char *length = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Content-Length");
  tp__http_request *request = request_new(c, mhd, method, path);
  c->request = request;
  *ret_request = request;
  if (!request) return MHD_NO;
  const union MHD_ConnectionInfo *head = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  if (head && head->header_size > c->http->options.head_bytes_max)
    return refuse(request, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large");
  if (lengths + codings > 1) return refuse(request, MHD_HTTP_BAD_REQUEST, "the length of the body is given twice");
  if (length && strtoull(length, NULL, 10) > c->http->options.body_bytes_max)
    return refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large");
  return MHD_YES;
}

static enum MHD_Result take_body(tp__http_request *request, const char *data, size_t *size) {
  size_t max = request->http->options.body_bytes_max;
  bool fits = request->discarded == 0 && *size <= max && request->body.size <= max - *size;
  if (fits) {
    tp__bytes_put(&request->body, data, *size);
  } else {
    tp__bytes_fini(&request->body);
    request->discarded += *size;
  }
  *size = 0;
  return request->body.failed || request->discarded > DISCARDED_MAX * max ? MHD_NO : MHD_YES;
}

/* Queues the host's answer, or waits for it. */
static enum MHD_Result answer(tp__http_request *request) {
  enum MHD_Result result = MHD_YES;
  tp__lock_acquire(&request->lock);
  TP__CHECK(request_check_locked(request));
  struct MHD_Response *response = request->response;
  if (response) {
    request->response = NULL;
    request->queued = true;
    request->answered_ns = tp__monotonic_ns();
    request->moved_ms = request->answered_ns / TP__NS_IN_MS;
  } else if (request->gone) {
    result = MHD_NO;
  } else {
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
  }
  unsigned status = request->status;
  tp__lock_release(&request->lock);
  if (!response) return result;
  result = MHD_queue_response(request->mhd, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result pass(tp__http_request *request) {
  tp__http *http = request->http;
  if (request->discarded > 0) return refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large");
  set_state(request->connection, CONNECTION_ANSWERS);
  request->passed = true;
  tp__lock_acquire(&http->lock);
  http->open++;
  tp__lock_release(&http->lock);
  http->handlers.request(http->handlers.ctx, request);
  request->method = request->path = NULL;
  if (request->connection->left) leave(request);
  return answer(request);
}

static enum MHD_Result on_access(void *ctx, struct MHD_Connection *mhd, const char *url, const char *method,
                                 const char *version, const char *data, size_t *size, void **request) {
  (void)ctx, (void)version;
  if (!*request) {
    connection *c = connection_of(mhd);
    return c ? begin(c, mhd, method, url, request) : MHD_NO;
  }
  if (*size > 0) return take_body(*request, data, size);
  tp__http_request *r = *request;
  return r->passed ? answer(r) : pass(r);
}

static void *on_request_line(void *ctx, const char *uri, struct MHD_Connection *mhd) {
  (void)ctx, (void)uri;
  connection *c = connection_of(mhd);
  if (c) c->line_ns = tp__monotonic_ns();
  if (c && c->state == CONNECTION_IDLE) set_state(c, CONNECTION_RECEIVES);
  return NULL;
}

static void on_completed(void *ctx, struct MHD_Connection *mhd, void **ended, enum MHD_RequestTerminationCode how) {
  tp__http_request *request = *ended;
  connection *c = connection_of(mhd);
  (void)ctx;
  *ended = NULL;
  if (c) {
    set_state(c, CONNECTION_IDLE);
    c->request = NULL;
  }
  if (!request) return;
  request->done.ended_ns = tp__monotonic_ns();
  if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK) leave(request);
  tp__lock_acquire(&request->lock);
  request->done.left = request->gone || how != MHD_REQUEST_TERMINATED_COMPLETED_OK;
  request->connection = NULL;
  request->completed = true;
  request->suspended = false;
  bool is_last = request->ended || !request->passed;
  tp__lock_release(&request->lock);
  if (is_last) request_free(request);
}

static void on_connection(void *ctx, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode what) {
  tp__http *http = ctx;
  connection *c = *context;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    c = info ? tp__heap_alloc(sizeof *c) : NULL;
    *context = c;
    if (!c) return; /* without memory its request is refused */
    *c = (connection){.http = http, .fd = info->connect_fd, .next = http->connections};
    set_state(c, CONNECTION_RECEIVES);
    if (c->next) c->next->previous = c;
    http->connections = c;
    int bytes = SEND_BUFFER_BYTES;
    (void)setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    /* libmicrohttpd does not watch a suspended connection: this detects a client that leaves. */
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
    (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
  } else if (c) {
    assert(!c->request);
    *(c->previous ? &c->previous->next : &http->connections) = c->next;
    if (c->next) c->next->previous = c->previous;
    (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    tp__heap_free(c, sizeof *c);
    *context = NULL;
  }
}

/* Keeps escapes, so that a path is compared as it came. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *mhd, char *text) {
  (void)ctx, (void)mhd;
  return strlen(text);
}

/* ---- the thread ---- */

/* @return true: the connection must be closed. */
static bool sweep_request(tp__http_request *request, int64_t now_ms) {
  const tp__http_options *options = &request->http->options;
  tp__lock_acquire(&request->lock);
  int64_t still_ms = now_ms - request->moved_ms;
  bool is_stuck = request->queued && !request->suspended && still_ms > (int64_t)options->send_limit_ms;
  bool is_still = request->suspended && request->is_stream && request->queued && options->keep_alive;
  if (is_still && still_ms > (int64_t)options->keep_alive_ms) {
    tp__bytes_put_string(&request->out, options->keep_alive);
    request->out.failed = false; /* the next put may succeed */
    request->moved_ms = now_ms;
    resume_locked(request);
  }
  tp__lock_release(&request->lock);
  return is_stuck;
}

static void look_at(tp__http *http, const struct epoll_event *event) {
  uint64_t count;
  if (event->data.ptr == &http->wake_fd) {
    (void)!read(http->wake_fd, &count, sizeof count);
  } else if (event->data.ptr != http) {
    connection *c = event->data.ptr;
    c->left = true;
    if (c->request && c->request->passed) leave(c->request);
  }
}

static void run_once(tp__http *http) {
  struct epoll_event events[EVENTS_MAX];
  MHD_UNSIGNED_LONG_LONG of_daemon;
  int timeout_ms = SWEEP_MS;
  if (MHD_get_timeout(http->daemon, &of_daemon) == MHD_YES && of_daemon < SWEEP_MS) timeout_ms = (int)of_daemon;
  int count = epoll_wait(http->epoll_fd, events, EVENTS_MAX, timeout_ms);
  for (int i = 0; i < count; i++) look_at(http, &events[i]);
  MHD_run(http->daemon);
  /* This runs on the front's thread. */
  tp__lock_acquire(&http->lock);
  tp__http_request *request = http->finished;
  http->finished = NULL;
  tp__lock_release(&http->lock);
  for (tp__http_request *next; request; request = next) {
    next = request->finished_next;
    request_free(request);
  }
  int64_t now_ms = tp__monotonic_ms();
  if (now_ms - http->swept_ms < SWEEP_MS) return;
  http->swept_ms = now_ms;
  for (connection *c = http->connections; c; c = c->next) {
    uint32_t limit_ms = c->state == CONNECTION_IDLE ? http->options.idle_limit_ms : http->options.receive_limit_ms;
    bool is_late = c->state != CONNECTION_ANSWERS && now_ms - c->since_ms > (int64_t)limit_ms;
    if (c->state == CONNECTION_ANSWERS && c->request) is_late = sweep_request(c->request, now_ms);
    is_late |= c->left && c->state != CONNECTION_ANSWERS; /* the rest of its request will not come */
    if (is_late) (void)shutdown(c->fd, SHUT_RDWR);        /* libmicrohttpd sees the end, and closes the connection */
  }
}

static void quiesce(tp__http *http) {
  int fd = MHD_quiesce_daemon(http->daemon);
  if (fd >= 0) close(fd);
  tp__lock_acquire(&http->lock);
  http->quiet = true;
  tp__lock_condition_broadcast(&http->changed);
  tp__lock_release(&http->lock);
}

static bool is_open(tp__http *http, bool *ret_quiesce, bool *ret_stop) {
  tp__lock_acquire(&http->lock);
  *ret_quiesce = http->quiesce && !http->quiet;
  *ret_stop = http->stop;
  bool open = http->open > 0;
  tp__lock_release(&http->lock);
  return open;
}

static void run_call(tp__http *http) {
  tp__lock_acquire(&http->lock);
  void (*call)(void *ctx) = http->call;
  void *ctx = http->call_ctx;
  tp__lock_release(&http->lock);
  if (!call) return;
  call(ctx);
  tp__lock_acquire(&http->lock);
  http->call = NULL;
  tp__lock_condition_broadcast(&http->changed);
  tp__lock_release(&http->lock);
}

/* @param flush  answers that the host still sends are sent first; else everything is closed at once. */
static void close_connections(tp__http *http, bool flush) {
  for (connection *c = http->connections; c; c = c->next) {
    bool is_passed = c->request && c->request->passed;
    if (is_passed && flush) notify(c->request, false);
    else if (is_passed) leave(c->request);
    if (!flush || !is_passed) (void)shutdown(c->fd, SHUT_RDWR);
  }
}

static void *run(void *ctx) {
  tp__http *http = ctx;
  bool to_quiesce = false, stop = false, open = true;
  int64_t closing_ms = 0;
  while (!stop || open) {
    run_once(http);
    run_call(http);
    open = is_open(http, &to_quiesce, &stop);
    if (to_quiesce) quiesce(http);
    if (!stop) continue;
    if (closing_ms == 0) closing_ms = tp__monotonic_ms();
    close_connections(http, tp__monotonic_ms() - closing_ms < FLUSH_LIMIT_MS);
  }
  close_connections(http, false);
  return NULL;
}

/* ---- start and end ---- */

typedef union socket_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
} socket_address;

static tp_status take_socket(tp__http *http, tp_fault *fault) {
  socket_address at = {0};
  socklen_t size = sizeof at;
  int listens = 0, theirs = http->options.socket;
  socklen_t listens_size = sizeof listens;
  bool is_tcp =
      getsockname(theirs, &at.any, &size) == 0 && (at.any.sa_family == AF_INET || at.any.sa_family == AF_INET6);
  if (!is_tcp || getsockopt(theirs, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || !listens)
    return tp__refuse(fault, TP_ERR_USAGE, "socket", "descriptor %d is no TCP socket that listens", theirs);
  int fd = http->listen_fd = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
  if (fd < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return tp__refuse_errno(fault, TP_ERR_IO, "socket", errno, "cannot duplicate descriptor %d", theirs);
  http->port = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
  return TP_OK;
}

static tp_status listen_at(tp__http *http, tp_fault *fault) {
  const tp__http_options *o = &http->options;
  if (o->socket) return take_socket(http, fault);
  socket_address at = {0};
  socklen_t size = sizeof at.v4;
  int yes = 1;
  if (inet_pton(AF_INET, o->address, &at.v4.sin_addr) == 1) {
    at.v4.sin_family = AF_INET;
    at.v4.sin_port = htons(o->port);
  } else if (inet_pton(AF_INET6, o->address, &at.v6.sin6_addr) == 1) {
    at.v6.sin6_family = AF_INET6;
    at.v6.sin6_port = htons(o->port);
    size = sizeof at.v6;
  } else {
    return tp__refuse(fault, TP_ERR_USAGE, o->address, "%s is no numeric address, such as 127.0.0.1, ::1 or 0.0.0.0",
                      o->address);
  }
  int fd = http->listen_fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return tp__refuse_errno(fault, TP_ERR_IO, o->address, errno, "no socket");
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, &at.any, size) != 0 || listen(fd, BACKLOG) != 0 || getsockname(fd, &at.any, &size) != 0)
    return tp__refuse_errno(fault, TP_ERR_IO, o->address, errno, "cannot listen on %s, port %u", o->address, o->port);
  http->port = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
  return TP_OK;
}

static bool add_to_epoll(const tp__http *http, int fd, void *what) {
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
  return fd >= 0 && epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static tp_status start_daemon(tp__http *http, tp_fault *fault) {
  const tp__http_options *o = &http->options;
  http->daemon = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_access, http, MHD_OPTION_LISTEN_SOCKET,
      http->listen_fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
      http, MHD_OPTION_URI_LOG_CALLBACK, on_request_line, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, http,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->head_bytes_max + ANSWER_HEAD_BYTES, MHD_OPTION_CONNECTION_LIMIT,
      o->connections_max, MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
  if (!http->daemon) return tp__refuse(fault, TP_ERR_SYSTEM, o->address, "libmicrohttpd did not start");
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  if (!info || !add_to_epoll(http, info->epoll_fd, http) || !add_to_epoll(http, http->wake_fd, &http->wake_fd))
    return tp__refuse_errno(fault, TP_ERR_SYSTEM, o->address, errno, "epoll");
  return TP_OK;
}

static void http_free(tp__http *http) {
  if (http->daemon) {
    int fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0) close(fd);
    MHD_stop_daemon(http->daemon);
  } else if (http->listen_fd >= 0) {
    close(http->listen_fd);
  }
  assert(!http->connections && http->open == 0);
  if (http->epoll_fd >= 0) close(http->epoll_fd);
  if (http->wake_fd >= 0) close(http->wake_fd);
  tp__heap_string_free((char *)(uintptr_t)http->options.address);
  tp__heap_string_free((char *)(uintptr_t)http->options.keep_alive);
  tp__lock_condition_fini(&http->changed);
  tp__lock_fini(&http->lock);
  tp__heap_free(http, sizeof *http);
}

tp_status tp__http_start(const tp__http_options *options, const tp__http_handlers *handlers, tp__http **ret_http,
                         tp_fault *fault) {
  assert(options && handlers && handlers->request);
  tp__http *http = tp__heap_alloc(sizeof *http);
  if (!http) return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  http->options = *options;
  http->handlers = *handlers;
  http->listen_fd = -1;
  tp__http_options *o = &http->options;
  if (!o->address) o->address = "127.0.0.1";
  if (!o->head_bytes_max) o->head_bytes_max = 8 << 10;
  if (!o->body_bytes_max) o->body_bytes_max = 4 << 20;
  if (!o->stream_bytes_max) o->stream_bytes_max = 256 << 10;
  if (!o->connections_max) o->connections_max = 4096;
  if (!o->receive_limit_ms) o->receive_limit_ms = 30000;
  if (!o->idle_limit_ms) o->idle_limit_ms = 75000;
  if (!o->send_limit_ms) o->send_limit_ms = 60000;
  if (!o->keep_alive_ms) o->keep_alive_ms = 15000;
  http->options.address = tp__heap_copy(tp_text_of(http->options.address));
  if (options->keep_alive) http->options.keep_alive = tp__heap_copy(tp_text_of(options->keep_alive));
  tp__lock_init(&http->lock, TP__LOCK_http);
  tp__lock_condition_init(&http->changed);
  http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  tp_status status = TP_OK;
  if (!http->options.address || (options->keep_alive && !http->options.keep_alive))
    status = tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the server");
  if (status == TP_OK) status = listen_at(http, fault);
  if (status == TP_OK) status = start_daemon(http, fault);
  if (status == TP_OK) {
    int error = tp__thread_spawn(&http->thread, run, http);
    if (error) status = tp__refuse_errno(fault, TP_ERR_NO_THREAD, http->options.address, error, "no thread");
  }
  if (status == TP_OK) *ret_http = http;
  else http_free(http);
  return status;
}

uint16_t tp__http_port(const tp__http *http) { return http->port; }

void tp__http_call(tp__http *http, void (*function)(void *ctx), void *ctx) {
  assert(!pthread_equal(pthread_self(), http->thread));
  tp__lock_acquire(&http->lock);
  assert(!http->call && !http->stop);
  http->call = function;
  http->call_ctx = ctx;
  wake(http);
  while (http->call) tp__lock_condition_wait(&http->changed, &http->lock);
  tp__lock_release(&http->lock);
}

void tp__http_stop_accepting(tp__http *http) {
  assert(!pthread_equal(pthread_self(), http->thread));
  tp__lock_acquire(&http->lock);
  http->quiesce = true;
  wake(http);
  while (!http->quiet) tp__lock_condition_wait(&http->changed, &http->lock);
  tp__lock_release(&http->lock);
}

void tp__http_free(tp__http *http) {
  if (!http) return;
  tp__http_stop_accepting(http);
  tp__lock_acquire(&http->lock);
  http->stop = true;
  tp__lock_release(&http->lock);
  wake(http);
  pthread_join(http->thread, NULL);
  http_free(http);
}
