/* SPDX-License-Identifier: Apache-2.0
 *
 * endpoint: an HTTP/1.1 server on one thread, bound to 127.0.0.1, that answers the nth request with the nth reply of a
 * script (the last one is repeated) and stores the requests. It never asserts: the test's own thread judges. */
#ifndef TEST_ENDPOINT_H
#define TEST_ENDPOINT_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ENDPOINT_CONNECTIONS_MAX = 512, ENDPOINT_REQUESTS_KEPT = 256 };

/* What comes after the first stops_at bytes of a body. */
typedef enum endpoint_then {
  ENDPOINT_ENDS,   /* the rest, and the end: the connection stays open for the next request */
  ENDPOINT_CLOSES, /* the connection is closed without the end of the body */
  ENDPOINT_RESETS, /* the connection is reset */
  ENDPOINT_WAITS,  /* nothing until endpoint_go(), then the rest */
  ENDPOINT_REPEATS /* the body again, for ever */
} endpoint_then;

typedef struct endpoint_reply {
  int status;          /* 0: 200 */
  const char *type;    /* NULL: text/event-stream */
  const char *headers; /* further lines, each with its CR LF; NULL: none */
  const char *body;
  size_t size;     /* 0: strlen(body) */
  size_t piece;    /* bytes that are sent at a time; 0: all */
  int pause_ms;    /* between two pieces */
  size_t stops_at; /* 0: the size of the body */
  endpoint_then then;
  bool waits_before; /* nothing at all, no head either, until endpoint_go() */
  bool gzip;
} endpoint_reply;

/* Chooses the reply to a request, on the server's thread; the reply must stay until endpoint_close(). */
typedef const endpoint_reply *endpoint_answer_fn(void *ctx, const char *request);

typedef struct endpoint_connection {
  int fd; /* -1: free */
  char *in;
  size_t in_size, in_capacity;
  const endpoint_reply *reply; /* NULL: a request is read */
  char *out;                   /* the head and the encoded body, or nothing */
  size_t out_size, out_capacity, sent;
  size_t body_at;   /* how much of the body was encoded */
  const char *body; /* reply->body, or its gzip form */
  char *packed;
  size_t size;
  int64_t send_at_ns; /* when the next piece may be sent; 0: at once */
  bool ended;         /* the end of the body was encoded */
} endpoint_connection;

typedef struct endpoint {
  const endpoint_reply *replies;
  size_t count;
  int port;
  char url[64]; /* "http://127.0.0.1:PORT/v1" */
  /* the server's thread alone */
  int listener, bell;
  pthread_t thread;
  endpoint_connection connections[ENDPOINT_CONNECTIONS_MAX];
  /* under mutex */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  endpoint_answer_fn *answer; /* NULL: by replies */
  void *answer_ctx;
  char *requests[ENDPOINT_REQUESTS_KEPT]; /* head and body, with a NUL */
  int request_count;
  int accepted, open, open_most;
  int left;  /* connections that the client closed before it had the whole answer */
  int parts; /* how often a WAITS was reached */
  bool go, stop;
} endpoint;

static inline int64_t endpoint_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- gzip with stored blocks: the client must undo it; made without a library ---- */

static inline uint32_t endpoint_crc(const char *data, size_t size) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < size; i++) {
    crc ^= (unsigned char)data[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

static inline size_t endpoint_little(char *to, uint32_t number, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = (char)(number >> 8 * i);
  return count;
}

static inline char *endpoint_pack(const char *data, size_t size, size_t *ret_size) {
  char *packed = malloc(size + size / 60000 * 5 + 64);
  if (!packed) abort();
  memcpy(packed, "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  size_t at = 10, done = 0;
  do {
    size_t block = size - done < 60000 ? size - done : 60000;
    packed[at++] = done + block == size;
    at += endpoint_little(packed + at, (uint32_t)block, 2);
    at += endpoint_little(packed + at, ~(uint32_t)block, 2);
    memcpy(packed + at, data + done, block);
    at += block;
    done += block;
  } while (done < size);
  at += endpoint_little(packed + at, endpoint_crc(data, size), 4);
  at += endpoint_little(packed + at, (uint32_t)size, 4);
  *ret_size = at;
  return packed;
}

/* ---- one connection ---- */

static inline void endpoint_put(endpoint_connection *c, const char *data, size_t size) {
  if (c->out_size + size > c->out_capacity) {
    c->out_capacity = 2 * (c->out_size + size);
    c->out = realloc(c->out, c->out_capacity);
    if (!c->out) abort();
  }
  memcpy(c->out + c->out_size, data, size);
  c->out_size += size;
}

static inline void endpoint_drop(endpoint *e, endpoint_connection *c, bool reset) {
  struct linger now = {1, 0};
  if (reset) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(c->fd);
  free(c->in);
  free(c->out);
  free(c->packed);
  *c = (endpoint_connection){.fd = -1};
  pthread_mutex_lock(&e->mutex);
  e->open--;
  pthread_cond_broadcast(&e->changed);
  pthread_mutex_unlock(&e->mutex);
}

/* The client went away. */
static inline void endpoint_lost(endpoint *e, endpoint_connection *c) {
  pthread_mutex_lock(&e->mutex);
  if (c->reply) e->left++;
  pthread_mutex_unlock(&e->mutex);
  endpoint_drop(e, c, false);
}

static inline const char *endpoint_header(const char *request, const char *name) {
  size_t size = strlen(name);
  for (const char *line = strchr(request, '\n'); line && line[1] != '\r'; line = strchr(line + 1, '\n'))
    if (strncasecmp(line + 1, name, size) == 0 && line[1 + size] == ':')
      return line + 2 + size + strspn(line + 2 + size, " ");
  return NULL;
}

static inline void endpoint_begin_reply(endpoint *e, endpoint_connection *c, size_t request_size) {
  char head[1024];
  char *request = malloc(request_size + 1);
  if (!request) abort();
  memcpy(request, c->in, request_size);
  request[request_size] = '\0';
  c->in_size -= request_size;
  memmove(c->in, c->in + request_size, c->in_size);
  pthread_mutex_lock(&e->mutex);
  endpoint_answer_fn *answer = e->answer;
  void *ctx = e->answer_ctx;
  pthread_mutex_unlock(&e->mutex);
  const endpoint_reply *answered = answer ? answer(ctx, request) : NULL;
  pthread_mutex_lock(&e->mutex);
  size_t n = (size_t)e->request_count++;
  if (n < ENDPOINT_REQUESTS_KEPT) e->requests[n] = request;
  else free(request);
  pthread_cond_broadcast(&e->changed);
  pthread_mutex_unlock(&e->mutex);
  const endpoint_reply *reply = answered ? answered : &e->replies[n < e->count ? n : e->count - 1];
  c->reply = reply;
  c->body = reply->body ? reply->body : "";
  c->size = reply->size ? reply->size : strlen(c->body);
  if (reply->gzip) c->body = c->packed = endpoint_pack(c->body, c->size, &c->size);
  int size =
      snprintf(head, sizeof head, "HTTP/1.1 %d Said\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n%s%s\r\n",
               reply->status ? reply->status : 200, reply->type ? reply->type : "text/event-stream",
               reply->gzip ? "Content-Encoding: gzip\r\n" : "", reply->headers ? reply->headers : "");
  endpoint_put(c, head, (size_t)size);
}

/* @return the size of a complete request at the start of the input; 0: there is none yet. */
static inline size_t endpoint_request_size(const endpoint_connection *c) {
  const char *end = memmem(c->in, c->in_size, "\r\n\r\n", 4);
  if (!end) return 0;
  size_t head = (size_t)(end - c->in) + 4;
  char *copy = malloc(head + 1); /* what was read has no NUL at its end, which strndup() of ASan looks for */
  if (!copy) abort();
  memcpy(copy, c->in, head);
  copy[head] = '\0';
  const char *length = endpoint_header(copy, "Content-Length");
  size_t size = head + (length ? (size_t)strtoul(length, NULL, 10) : 0);
  free(copy);
  return c->in_size >= size ? size : 0;
}

static inline void endpoint_read(endpoint *e, endpoint_connection *c) {
  if (c->in_capacity - c->in_size < 65536) {
    c->in_capacity = 2 * c->in_capacity + 65536;
    c->in = realloc(c->in, c->in_capacity);
    if (!c->in) abort();
  }
  ssize_t size = recv(c->fd, c->in + c->in_size, c->in_capacity - c->in_size, 0);
  if (size > 0) {
    c->in_size += (size_t)size;
    size_t request = c->reply ? 0 : endpoint_request_size(c);
    if (request > 0) endpoint_begin_reply(e, c, request);
  } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
    endpoint_lost(e, c);
  }
}

/* Encodes the next piece of the body. @return false when there is nothing to send now. */
static inline bool endpoint_next_piece(endpoint *e, endpoint_connection *c, bool go) {
  const endpoint_reply *reply = c->reply;
  size_t stop = reply->stops_at && reply->stops_at < c->size ? reply->stops_at : c->size;
  char size_line[32];
  if (c->body_at >= stop) {
    switch (reply->then) {
      case ENDPOINT_ENDS:
        stop = c->size;
        break;
      case ENDPOINT_CLOSES:
      case ENDPOINT_RESETS:
        endpoint_drop(e, c, reply->then == ENDPOINT_RESETS);
        return false;
      case ENDPOINT_WAITS:
        if (c->send_at_ns >= 0) {
          c->send_at_ns = -1; /* counted once */
          pthread_mutex_lock(&e->mutex);
          e->parts++;
          pthread_cond_broadcast(&e->changed);
          pthread_mutex_unlock(&e->mutex);
        }
        if (!go) return false;
        stop = c->size;
        break;
      case ENDPOINT_REPEATS:
        c->body_at = 0;
        break;
    }
  }
  size_t piece = reply->piece && reply->piece < stop - c->body_at ? reply->piece : stop - c->body_at;
  if (piece == 0) {
    endpoint_put(c, "0\r\n\r\n", 5);
    c->ended = true;
    return true;
  }
  endpoint_put(c, size_line, (size_t)snprintf(size_line, sizeof size_line, "%zx\r\n", piece));
  endpoint_put(c, c->body + c->body_at, piece);
  endpoint_put(c, "\r\n", 2);
  c->body_at += piece;
  if (reply->then == ENDPOINT_ENDS && c->body_at == c->size) { /* with the last piece: a client sees both at once */
    endpoint_put(c, "0\r\n\r\n", 5);
    c->ended = true;
  }
  if (c->send_at_ns >= 0) c->send_at_ns = reply->pause_ms ? endpoint_now_ns() + reply->pause_ms * INT64_C(1000000) : 0;
  return true;
}

static inline void endpoint_write(endpoint *e, endpoint_connection *c, bool go) {
  for (int i = 0; i < 64 && c->fd >= 0; i++) {
    if (c->sent < c->out_size) {
      ssize_t size = send(c->fd, c->out + c->sent, c->out_size - c->sent, MSG_NOSIGNAL);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (size < 0) {
        endpoint_lost(e, c);
        return;
      }
      c->sent += (size_t)size;
      if (c->sent < c->out_size) return;
      c->sent = c->out_size = 0;
    }
    if (c->ended) {
      free(c->packed);
      c->packed = NULL;
      c->reply = NULL;
      c->ended = false;
      c->body_at = 0;
      c->send_at_ns = 0;
      size_t request = endpoint_request_size(c);
      if (request == 0) return;
      endpoint_begin_reply(e, c, request);
    } else if (c->send_at_ns > endpoint_now_ns() || !endpoint_next_piece(e, c, go)) {
      return;
    }
  }
}

/* ---- the server ---- */

static inline void endpoint_accept(endpoint *e) {
  int one = 1, fd = accept(e->listener, NULL, NULL);
  if (fd < 0) return;
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  for (size_t i = 0; i < ENDPOINT_CONNECTIONS_MAX; i++) {
    if (e->connections[i].fd >= 0) continue;
    e->connections[i] = (endpoint_connection){.fd = fd};
    pthread_mutex_lock(&e->mutex);
    e->accepted++;
    if (++e->open > e->open_most) e->open_most = e->open;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->mutex);
    return;
  }
  close(fd);
}

static inline bool endpoint_writes(const endpoint_connection *c, bool go, int64_t *send_at_ns) {
  if (!c->reply || (c->reply->waits_before && !go)) return false;
  if (c->sent < c->out_size) return true;
  if (c->send_at_ns < 0) return go;
  if (c->send_at_ns == 0 || c->send_at_ns <= endpoint_now_ns()) return true;
  if (c->send_at_ns < *send_at_ns) *send_at_ns = c->send_at_ns;
  return false;
}

static inline void *endpoint_run(void *arg) {
  endpoint *e = arg;
  struct pollfd polled[ENDPOINT_CONNECTIONS_MAX + 2];
  endpoint_connection *of[ENDPOINT_CONNECTIONS_MAX + 2];
  for (;;) {
    int64_t send_at_ns = INT64_MAX;
    nfds_t count = 2;
    pthread_mutex_lock(&e->mutex);
    bool go = e->go, stop = e->stop;
    pthread_mutex_unlock(&e->mutex);
    if (stop) break;
    polled[0] = (struct pollfd){.fd = e->listener, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = e->bell, .events = POLLIN};
    for (size_t i = 0; i < ENDPOINT_CONNECTIONS_MAX; i++) {
      endpoint_connection *c = &e->connections[i];
      if (c->fd < 0) continue;
      short events = endpoint_writes(c, go, &send_at_ns) ? POLLIN | POLLOUT : POLLIN;
      of[count] = c;
      polled[count++] = (struct pollfd){.fd = c->fd, .events = events};
    }
    int64_t left_ms = send_at_ns == INT64_MAX ? -1 : (send_at_ns - endpoint_now_ns()) / 1000000 + 1;
    poll(polled, count, left_ms < 0 && send_at_ns != INT64_MAX ? 0 : (int)left_ms);
    uint64_t rung;
    if (polled[1].revents) (void)!read(e->bell, &rung, sizeof rung);
    for (nfds_t i = 2; i < count; i++) {
      if (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) endpoint_read(e, of[i]);
      if (of[i]->fd >= 0 && polled[i].revents & POLLOUT) endpoint_write(e, of[i], go);
    }
    if (polled[0].revents) endpoint_accept(e);
  }
  for (size_t i = 0; i < ENDPOINT_CONNECTIONS_MAX; i++)
    if (e->connections[i].fd >= 0) endpoint_drop(e, &e->connections[i], false);
  return NULL;
}

/* @param replies  at least one; they stay till endpoint_close(). */
static inline endpoint *endpoint_open(const endpoint_reply *replies, size_t count) {
  endpoint *e = calloc(1, sizeof *e);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  if (!e) abort();
  e->replies = replies;
  e->count = count;
  e->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  e->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (e->listener < 0 || e->bell < 0 || bind(e->listener, (struct sockaddr *)&address, size) != 0 ||
      listen(e->listener, 512) != 0 || getsockname(e->listener, (struct sockaddr *)&address, &size) != 0)
    abort();
  e->port = ntohs(address.sin_port);
  snprintf(e->url, sizeof e->url, "http://127.0.0.1:%d/v1", e->port);
  for (size_t i = 0; i < ENDPOINT_CONNECTIONS_MAX; i++) e->connections[i].fd = -1;
  pthread_mutex_init(&e->mutex, NULL);
  pthread_cond_init(&e->changed, NULL);
  if (pthread_create(&e->thread, NULL, endpoint_run, e) != 0) abort();
  return e;
}

/* From the next request on. */
static inline void endpoint_answer_with(endpoint *e, endpoint_answer_fn *answer, void *ctx) {
  pthread_mutex_lock(&e->mutex);
  e->answer = answer;
  e->answer_ctx = ctx;
  pthread_mutex_unlock(&e->mutex);
}

static inline void endpoint_signal(endpoint *e, bool *flag) {
  const uint64_t one = 1;
  pthread_mutex_lock(&e->mutex);
  *flag = true;
  pthread_mutex_unlock(&e->mutex);
  (void)!write(e->bell, &one, sizeof one);
}

/* Lets what waits go on, now and from now on. */
static inline void endpoint_go(endpoint *e) { endpoint_signal(e, &e->go); }

static inline void endpoint_close(endpoint *e) {
  endpoint_signal(e, &e->stop);
  pthread_join(e->thread, NULL);
  close(e->listener);
  close(e->bell);
  for (size_t i = 0; i < ENDPOINT_REQUESTS_KEPT; i++) free(e->requests[i]);
  pthread_cond_destroy(&e->changed);
  pthread_mutex_destroy(&e->mutex);
  free(e);
}

/* Waits until a counter (&e->left, …) is at least so much. */
static inline void endpoint_await(endpoint *e, const int *counter, int least) {
  pthread_mutex_lock(&e->mutex);
  while (*counter < least) pthread_cond_wait(&e->changed, &e->mutex);
  pthread_mutex_unlock(&e->mutex);
}

static inline int endpoint_count(endpoint *e, const int *counter) {
  pthread_mutex_lock(&e->mutex);
  int count = *counter;
  pthread_mutex_unlock(&e->mutex);
  return count;
}

/* Waits until every connection is closed, by whichever side. */
static inline void endpoint_await_closed(endpoint *e) {
  pthread_mutex_lock(&e->mutex);
  while (e->open > 0) pthread_cond_wait(&e->changed, &e->mutex);
  pthread_mutex_unlock(&e->mutex);
}

/* The request at index, with head and body; it must have come. Borrowed until endpoint_close(). */
static inline const char *endpoint_request(endpoint *e, size_t index) {
  pthread_mutex_lock(&e->mutex);
  const char *request = index < ENDPOINT_REQUESTS_KEPT ? e->requests[index] : NULL;
  pthread_mutex_unlock(&e->mutex);
  return request ? request : "";
}

static inline const char *endpoint_body(endpoint *e, size_t index) {
  const char *end = strstr(endpoint_request(e, index), "\r\n\r\n");
  return end ? end + 4 : "";
}

#endif
