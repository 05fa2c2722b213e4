/* SPDX-License-Identifier: Apache-2.0
 *
 * http: the HTTP/1.1 front of a server. Only this file calls libmicrohttpd.
 *
 * One thread of the front waits on epoll for all connections; no connection has a thread. A request whose body has come
 * is passed to the host's `request`, and the connection is suspended until the host answers from any thread: whole
 * (tp__http_answer()), or as a stream (tp__http_stream_begin(), _put(), _end()). Bytes that a client has not read wait
 * in the front, up to stream_bytes_max for each stream; then tp__http_stream_put() refuses, and `drained` is called
 * when the stream takes more.
 *
 * The front itself refuses a head above head_bytes_max (431, or it closes), a body above body_bytes_max (413), a
 * request with two lengths (400). It closes a connection whose request does not arrive, whose answer is not read, or
 * that is unused, for longer than the limits. It decodes nothing in a path: routes are compared byte by byte.
 *
 * Ownership: from the call of `request` on, the request belongs to the host, until the host ends it by either
 * tp__http_answer() or tp__http_stream_end(), exactly once, also after `gone`. When it has ended and its last byte was
 * sent, or its client has left, `done` is called once, and then `released`, with the data that the host attached and
 * now frees. `done` is also called for requests that the front itself refuses, unless no head of a request was read.
 *
 * Locks: one for each request; no callback is called under it. Threads: any, except functions that read a request: its
 * head and body are valid until the callback `request` returns. */
#ifndef TP__SERVER_HTTP_H
#define TP__SERVER_HTTP_H

#include "turnphase/base.h"

typedef struct tp__http tp__http;
typedef struct tp__http_request tp__http_request;

/** The data of an ended request. Times are monotonic. */
typedef struct tp__http_done {
  unsigned status;         /* the status that was answered; 0: the client left before */
  bool left;               /* the client left before the end of the answer, which may be sent nevertheless */
  int64_t began_ns;        /* when its first line was read */
  int64_t answered_ns;     /* when the answer, or the beginning of its stream, was sent; 0: never */
  int64_t ended_ns;        /* when its last byte was sent, or the client had left */
  uint64_t bytes_in;       /* bytes of its body, as far as it was read */
  uint64_t bytes_out;      /* bytes of the answer's body */
  const void *route, *who; /* as set by tp__http_set_route(); NULL if that was not called */
} tp__http_done;

/** The functions that the front calls, on its own thread, under no lock. None may block; request is required. */
typedef struct tp__http_handlers {
  void (*request)(void *ctx, tp__http_request *request);
  /** Called when the client has left and reads nothing any more; or when the front ends, and sends bytes of the host
   *  for at most 2 s more. It is called at most once, perhaps while another thread ends the request. */
  void (*gone)(void *ctx, void *data);
  /** Called when a stream that refused bytes accepts more. */
  void (*drained)(void *ctx, tp__http_request *request, void *data);
  /** @param data  the data that the host attached; NULL: none, or the request was not passed to the host. */
  void (*done)(void *ctx, const tp__http_done *done, void *data);
  void (*released)(void *ctx, void *data);
  void *ctx;
} tp__http_handlers;

/** Zero means default. */
typedef struct tp__http_options {
  /** Numeric: "127.0.0.1", "::1"; NULL: 127.0.0.1. */
  const char *address;
  uint16_t port; /* 0: any free port, which tp__http_port() returns */
  /** A TCP socket that listens, in place of address and port: it is duplicated. 0: none. */
  int socket;
  /** The most bytes: of the request line and the headers (8 KiB; each open connection has this much memory), of a body
   *  (4 MiB), and of the waiting bytes of one stream (256 KiB). */
  size_t head_bytes_max, body_bytes_max, stream_bytes_max;
  /** The most connections; 4,096. Later clients wait in the backlog. */
  unsigned connections_max;
  /** Limits: for a whole request, from its begin or from that of its connection (30 s); for an unused connection (75
   *  s); for an answer of which the client reads nothing (60 s). */
  uint32_t receive_limit_ms, idle_limit_ms, send_limit_ms;
  /** The bytes that a stream sends when it has sent nothing for keep_alive_ms (15 s), so that proxies keep it and a
   *  dead client is found; NULL: none. */
  const char *keep_alive;
  uint32_t keep_alive_ms;
} tp__http_options;

/** Listens, and starts the thread.
 *  @param handlers  copied.   @param ret_http  ended by tp__http_free().
 *  @return TP_OK; TP_ERR_USAGE for an address that is none; TP_ERR_IO with the reason; TP_ERR_THREAD;
 *          TP_ERR_NO_MEMORY. */
tp_status tp__http_start(const tp__http_options *options, const tp__http_handlers *handlers, tp__http **ret_http,
                         tp_fault *fault) TP_MUST_USE;
uint16_t tp__http_port(const tp__http *http);
/** Runs a function on the front's thread, between two requests, and waits for its end: meanwhile no request is passed.
 *  Not from a callback, and not at the same time as tp__http_free(). Threads: any, one at a time. */
void tp__http_call(tp__http *http, void (*function)(void *ctx), void *ctx);
/** No new connection is accepted from here on. */
void tp__http_stop_accepting(tp__http *http);
/** Calls `gone` for requests that the host has not ended, waits until it has ended them, sends the answers (for at most
 *  2 s) and closes all connections. Not from a callback. Accepts NULL. */
void tp__http_free(tp__http *http);

/* ---- a request ---- */

/** In this order: the method ("POST"); the path ("/mcp"); the first header of a name, in upper or lower case, or empty;
 *  the number of headers of a name; the body. Borrowed until `request` returns. */
const char *tp__http_method(const tp__http_request *request);
const char *tp__http_path(const tp__http_request *request);
tp_text tp__http_header(const tp__http_request *request, const char *name);
unsigned tp__http_header_count(const tp__http_request *request, const char *name);
tp_text tp__http_body(const tp__http_request *request);
/** Copies a parameter of the query, unescaped.
 *  @return false: it is missing or empty, has a NUL or a broken escape, or does not fit. */
bool tp__http_query(const tp__http_request *request, const char *name, char *ret_value, size_t size);
/** How often a parameter is in the query; NULL: how many there are of any name. */
unsigned tp__http_query_count(const tp__http_request *request, const char *name);
/** Sets the data for `gone`, `drained` and `released`. Called from `request`, before the host ends the request. */
void tp__http_set_data(tp__http_request *request, void *data);
/** Sets other handlers for `gone`, `drained` and `released` of this request. They must outlive the front, and get its
 *  data. `done` is still the front's, and gets NULL for the data. Called from `request`, before the data is set.
 *  @param handlers  not copied. */
void tp__http_hand_over(tp__http_request *request, const tp__http_handlers *handlers);
/** The size of a request in this copy of the code: libraries that pass requests to each other compare it. */
size_t tp__http_request_bytes(void);
/** Sets two pointers of the host for `done`. Called from `request`, before the host ends the request. */
void tp__http_set_route(tp__http_request *request, const void *route, const void *who);

/* ---- its answer ---- */

typedef struct tp__http_field {
  const char *name, *value;
} tp__http_field;

/** @param fields  copied, as the body is; ended by a NULL name; may be NULL. */
void tp__http_answer(tp__http_request *request, unsigned status, const tp__http_field *fields, tp_text body);
void tp__http_stream_begin(tp__http_request *request, unsigned status, const tp__http_field *fields);
/** @param bytes  copied. An empty stream accepts any size.
 *  @return TP_OK; TP_ERR_FULL: nothing was accepted, and `drained` follows; TP_ERR_CANCELED: the client has left;
 *          TP_ERR_NO_MEMORY. */
tp_status tp__http_stream_put(tp__http_request *request, tp_text bytes) TP_MUST_USE;
void tp__http_stream_end(tp__http_request *request);

#endif
