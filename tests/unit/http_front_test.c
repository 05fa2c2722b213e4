/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP front of servers (server/http.h), used through sockets: whole answers and streams from other threads, the
 * effect of a slow client, clients that leave, and refusals. */
#include "server/http.h"

#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/lock.h"

enum { WAIT_MS = 20000, HELD_MAX = 64 };

/* ---- a host ---- */

/* The host's reaction to a request GET PATH: "/now" is answered at once; all others are held for the test. */
typedef struct host {
  tp__http *http;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  /* under mutex */
  tp__http_request *held[HELD_MAX];
  int holds, gone, drained, released, dones;
  tp__http_done done; /* the newest */
  char body[256], origin[64], method[16];
  size_t body_size;
} host;

static void count(host *h, int *counter) {
  pthread_mutex_lock(&h->mutex);
  (*counter)++;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->mutex);
}

static void wait_for(host *h, const int *counter, int value) {
  pthread_mutex_lock(&h->mutex);
  while (*counter < value) pthread_cond_wait(&h->changed, &h->mutex);
  pthread_mutex_unlock(&h->mutex);
}

static void take_request(void *ctx, tp__http_request *request) {
  host *h = ctx;
  tp_text body = tp__http_body(request), origin = tp__http_header(request, "oRigin");
  tp__http_set_data(request, h);
  tp__http_set_route(request, h, &h->holds);
  pthread_mutex_lock(&h->mutex);
  h->body_size = body.size;
  snprintf(h->body, sizeof h->body, "%.*s", (int)(body.size < 255 ? body.size : 255), body.size ? body.data : "");
  snprintf(h->origin, sizeof h->origin, "%.*s", (int)origin.size, origin.size ? origin.data : "");
  snprintf(h->method, sizeof h->method, "%s", tp__http_method(request));
  pthread_mutex_unlock(&h->mutex);
  if (strcmp(tp__http_path(request), "/now") == 0) {
    tp__http_answer(request, 200, (tp__http_field[]){{"X-Kind", "now"}, {NULL, NULL}}, tp_text_of("at once\n"));
    return;
  }
  if (strcmp(tp__http_path(request), "/large") == 0) {
    char *text = malloc(1 << 20);
    memset(text, 'x', 1 << 20);
    tp__http_answer(request, 200, NULL, (tp_text){text, 1 << 20});
    free(text);
    return;
  }
  pthread_mutex_lock(&h->mutex);
  h->held[h->holds++ % HELD_MAX] = request;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->mutex);
}

static void note_gone(void *ctx, void *data) {
  host *h = ctx;
  if (data == h) count(h, &h->gone);
}
static void note_drained(void *ctx, tp__http_request *request, void *data) {
  host *h = ctx;
  if (request && data == h) count(h, &h->drained);
}
static void note_done(void *ctx, const tp__http_done *done, void *data) {
  host *h = ctx;
  pthread_mutex_lock(&h->mutex);
  if (!data || data == h) h->done = *done;
  pthread_mutex_unlock(&h->mutex);
  count(h, &h->dones);
}
static void note_released(void *ctx, void *data) {
  host *h = ctx;
  if (data == h) count(h, &h->released);
}

static tp__http_request *held(host *h, int index) {
  wait_for(h, &h->holds, index + 1);
  return h->held[index % HELD_MAX];
}

static void open_host(host *h, const tp__http_options *options) {
  *h = (host){.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  tp__http_handlers handlers = {.request = take_request,
                                .gone = note_gone,
                                .drained = note_drained,
                                .done = note_done,
                                .released = note_released,
                                .ctx = h};
  tp_fault fault = {0};
  assert_int_equal(tp__http_start(options, &handlers, &h->http, &fault), TP_OK);
  assert_true(tp__http_port(h->http) > 0);
}

static host *host_new(tp__http_options options) {
  host *h = malloc(sizeof *h);
  open_host(h, &options);
  return h;
}

static void host_free(host *h) {
  tp__http_free(h->http);
  assert_int_equal(h->released >= h->holds, true);
  assert_int_equal(h->dones >= h->released, true);
  free(h);
}

/* ---- a client ---- */

static int dial(const host *h) {
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons(tp__http_port(h->http)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
  return fd;
}

static void say(int fd, const char *text) {
  assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until the text contains `until`, or, with NULL, to the end of the connection. @return the text; static. */
static char *hear(int fd, const char *until) {
  static char text[1 << 16];
  size_t size = 0;
  text[0] = '\0';
  while (!(until && strstr(text, until)) && size < sizeof text - 1) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    ssize_t got = recv(fd, text + size, sizeof text - 1 - size, 0);
    if (got <= 0) break;
    size += (size_t)got;
    text[size] = '\0';
  }
  if (until && !strstr(text, until)) fail_msg("'%s' is not in '%s'", until, text);
  return text;
}

static void expect_end(int fd) {
  char byte;
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
  assert_true(recv(fd, &byte, 1, 0) <= 0);
  close(fd);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* ---- whole answers ---- */

TEST(a_request_is_answered_in_its_callback_and_the_connection_is_used_again) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  for (int i = 0; i < 3; i++) {
    say(fd, GET("/now"));
    char *text = hear(fd, "at once\n");
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    assert_non_null(strstr(text, "X-Kind: now\r\n"));
  }
  wait_for(h, &h->released, 3);
  assert_int_equal(h->gone, 0);
  close(fd);
  host_free(h);
}

TEST(a_request_is_answered_from_another_thread_with_its_body_and_headers_read) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, "POST /held HTTP/1.1\r\nHost: x\r\nORIGIN: http://a\r\nContent-Length: 5\r\n\r\nhe");
  say(fd, "llo");
  tp__http_request *request = held(h, 0);
  assert_string_equal(h->body, "hello");
  assert_string_equal(h->origin, "http://a");
  assert_string_equal(h->method, "POST");
  tp__http_answer(request, 404, NULL, (tp_text){0});
  assert_memory_equal(hear(fd, "\r\n\r\n"), "HTTP/1.1 404", 12);
  close(fd);
  host_free(h);
}

TEST(sixty_requests_wait_at_once_and_are_answered_in_another_order) {
  host *h = host_new((tp__http_options){0});
  int fds[60];
  for (int i = 0; i < 60; i++) say(fds[i] = dial(h), GET("/held"));
  wait_for(h, &h->holds, 60);
  for (int i = 59; i >= 0; i--) tp__http_answer(h->held[i], 200, NULL, tp_text_of("done"));
  for (int i = 0; i < 60; i++) {
    hear(fds[i], "done");
    close(fds[i]);
  }
  host_free(h);
}

TEST(a_large_body_arrives_whole) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  size_t size = 0;
  static char buffer[1 << 16];
  for (ssize_t got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;) size += (size_t)got;
  assert_true(size > 1 << 20);
  close(fd);
  wait_for(h, &h->released, 1);
  host_free(h);
}

TEST(a_chunked_body_is_joined) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, "POST /held HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  tp__http_request *request = held(h, 0);
  assert_string_equal(h->body, "abcde");
  tp__http_answer(request, 200, NULL, tp_text_of("ok\n"));
  hear(fd, "ok\n");
  close(fd);
  host_free(h);
}

/* ---- streams ---- */

TEST(a_stream_arrives_piece_by_piece) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  tp__http_stream_begin(request, 200, (tp__http_field[]){{"Content-Type", "text/event-stream"}, {NULL, NULL}});
  hear(fd, "\r\n\r\n");
  for (int i = 0; i < 3; i++) {
    char event[32];
    snprintf(event, sizeof event, "data: %d\n\n", i);
    assert_int_equal(tp__http_stream_put(request, tp_text_of(event)), TP_OK);
    hear(fd, event);
  }
  tp__http_stream_end(request);
  hear(fd, "0\r\n\r\n");
  say(fd, GET("/now")); /* the connection goes on */
  hear(fd, "at once");
  close(fd);
  host_free(h);
}

TEST(a_slow_reader_holds_a_stream_back_and_it_goes_on_when_he_reads) {
  host *h = host_new((tp__http_options){.stream_bytes_max = 64 << 10});
  int fd = dial(h), bytes = 4096;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  tp__http_stream_begin(request, 200, NULL);
  static char piece[4096];
  memset(piece, 'p', sizeof piece);
  int put = 0;
  while (tp__http_stream_put(request, (tp_text){piece, sizeof piece}) == TP_OK) assert_true(put++ < 4096);
  assert_true(put >= 16);
  assert_int_equal(tp__http_stream_put(request, (tp_text){piece, sizeof piece}), TP_ERR_FULL);
  static char buffer[1 << 16];
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  for (bool has_drained = false; !has_drained;) {
    if (poll(&ready, 1, 10) == 1) assert_true(recv(fd, buffer, sizeof buffer, 0) > 0);
    pthread_mutex_lock(&h->mutex);
    has_drained = h->drained > 0;
    pthread_mutex_unlock(&h->mutex);
  }
  assert_int_equal(tp__http_stream_put(request, tp_text_of("and the end")), TP_OK);
  tp__http_stream_end(request);
  size_t seen = 0; /* of the chunk's end */
  while (!memmem(buffer, seen, "0\r\n\r\n", 5)) {
    ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    assert_true(got > 0);
    seen = (size_t)got;
  }
  close(fd);
  wait_for(h, &h->released, 1);
  assert_int_equal(h->gone, 0);
  host_free(h);
}

TEST(a_still_stream_is_kept_alive_by_comments) {
  host *h = host_new((tp__http_options){.keep_alive = ": \n\n", .keep_alive_ms = 1});
  int fd = dial(h);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  tp__http_stream_begin(request, 200, NULL);
  hear(fd, ": \n\n");
  tp__http_stream_end(request);
  hear(fd, "0\r\n\r\n");
  close(fd);
  host_free(h);
}

/* ---- clients that leave ---- */

TEST(a_client_that_leaves_is_noticed_while_its_answer_is_made) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  close(fd);
  wait_for(h, &h->gone, 1);
  assert_int_equal(h->released, 0);
  tp__http_answer(request, 200, NULL, tp_text_of("it is not read"));
  wait_for(h, &h->released, 1);
  host_free(h);
}

TEST(a_client_that_leaves_right_after_its_request_is_noticed_too) {
  host *h = host_new((tp__http_options){0});
  for (int i = 0; i < 20; i++) {
    int fd = dial(h);
    say(fd, GET("/held"));
    close(fd);
    tp__http_request *request = held(h, i);
    wait_for(h, &h->gone, i + 1);
    tp__http_answer(request, 200, NULL, (tp_text){0});
  }
  wait_for(h, &h->released, 20);
  host_free(h);
}

TEST(a_client_that_leaves_a_stream_is_noticed_and_the_stream_refuses) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  tp__http_stream_begin(request, 200, NULL);
  assert_int_equal(tp__http_stream_put(request, tp_text_of("one")), TP_OK);
  hear(fd, "one");
  close(fd);
  wait_for(h, &h->gone, 1);
  assert_int_equal(tp__http_stream_put(request, tp_text_of("two")), TP_ERR_CANCELLED);
  tp__http_stream_end(request);
  wait_for(h, &h->released, 1);
  host_free(h);
}

TEST(an_answer_and_a_client_that_leaves_at_once_agree) {
  host *h = host_new((tp__http_options){0});
  for (int i = 0; i < 50; i++) {
    int fd = dial(h);
    say(fd, GET("/held"));
    tp__http_request *request = held(h, i);
    close(fd);
    tp__http_answer(request, 200, NULL, tp_text_of("late"));
  }
  wait_for(h, &h->released, 50);
  host_free(h);
}

/* ---- what is refused ---- */

static const struct {
  const char *what, *request, *status;
} refusals[] = {
    {"a body above the limit", "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 1025\r\n\r\n", "413"},
    {"a body of a gigabyte", "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n", "413"},
    {"a body whose length overflows",
     "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", "4"},
    {"chunks above the limit",
     "POST /held HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3ff\r\n%1023\r\n2\r\nxx\r\n0\r\n\r\n", "413"},
    {"two lengths", "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "400"},
    {"a length and chunks",
     "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
    {"no host in HTTP/1.1", "GET /held HTTP/1.1\r\n\r\n", "400"},
    {"a head above the limit", "GET /held HTTP/1.1\r\nHost: x\r\nX-Long: %12000\r\n\r\n", "4"},
    {"a head just above the limit", "GET /now HTTP/1.1\r\nHost: x\r\nX-Long: %8170\r\n\r\n", "431"},
    {"the largest head", "GET /now HTTP/1.1\r\nHost: x\r\nX-Long: %8150\r\n\r\n", "200"},
    {"a path above the limit", "GET /%12000 HTTP/1.1\r\nHost: x\r\n\r\n", "4"},
    {"a length that is no number", "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n", "4"},
};

/* %N is a text of N letters. */
static char *expand(const char *pattern) {
  char *text = calloc(1, 1 << 15), *end = text;
  while (*pattern) {
    if (*pattern != '%') {
      *end++ = *pattern++;
      continue;
    }
    long letters = strtol(pattern + 1, (char **)&pattern, 10);
    memset(end, 'a', (size_t)letters);
    end += letters;
  }
  return text;
}

TEST(what_is_too_large_or_ambiguous_is_refused_and_never_passed) {
  host *h = host_new((tp__http_options){.body_bytes_max = 1024, .head_bytes_max = 8192});
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    char *request = expand(refusals[i].request), status[32];
    int fd = dial(h);
    say(fd, request);
    snprintf(status, sizeof status, "HTTP/1.1 %s", refusals[i].status);
    const char *text = hear(fd, "\r\n");
    if (strncmp(text, status, strlen(status)) != 0) fail_msg("%s: %.40s", refusals[i].what, text);
    close(fd);
    free(request);
  }
  assert_int_equal(h->holds, 0);
  host_free(h);
}

static const char *const begun[] = {"", "G", "GET /now HTT", "GET /now HTTP/1.1\r\nHost:",
                                    "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"};
enum { BEGUN = sizeof begun / sizeof begun[0] };

TEST(a_request_that_never_arrives_whole_is_closed) {
  host *h = host_new((tp__http_options){.receive_limit_ms = 1});
  int fds[BEGUN];
  for (int i = 0; i < BEGUN; i++) say(fds[i] = dial(h), begun[i]);
  for (int i = 0; i < BEGUN; i++) expect_end(fds[i]);
  host_free(h);
}

TEST(a_client_that_leaves_within_its_request_is_closed_before_its_limit) {
  host *h = host_new((tp__http_options){.receive_limit_ms = 600000, .idle_limit_ms = 600000});
  int fds[BEGUN + 1];
  for (int i = 0; i < BEGUN; i++) say(fds[i] = dial(h), begun[i]);
  say(fds[BEGUN] = dial(h), GET("/now")); /* and one that has had its answer */
  hear(fds[BEGUN], "at once\n");
  for (int i = 0; i <= BEGUN; i++) shutdown(fds[i], SHUT_WR);
  for (int i = 0; i <= BEGUN; i++) expect_end(fds[i]);
  int fd = dial(h); /* its request is whole: it gets the answer */
  say(fd, GET("/now"));
  shutdown(fd, SHUT_WR);
  hear(fd, "at once\n");
  close(fd);
  host_free(h);
}

TEST(an_unused_connection_is_closed) {
  host *h = host_new((tp__http_options){.idle_limit_ms = 1});
  int fd = dial(h);
  say(fd, GET("/now"));
  hear(fd, "at once\n");
  expect_end(fd);
  host_free(h);
}

TEST(an_answer_that_is_not_read_is_closed) {
  host *h = host_new((tp__http_options){.send_limit_ms = 1, .stream_bytes_max = 32 << 20});
  int fd = dial(h), bytes = 4096;
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  tp__http_stream_begin(request, 200, NULL);
  static char text[16 << 20];
  assert_int_equal(tp__http_stream_put(request, (tp_text){text, sizeof text}), TP_OK);
  wait_for(h, &h->gone, 1);
  tp__http_stream_end(request);
  wait_for(h, &h->released, 1);
  close(fd);
  host_free(h);
}

TEST(a_wrong_address_and_a_taken_port_are_named) {
  tp__http_handlers handlers = {.request = take_request};
  tp__http *http = NULL;
  tp_fault fault = {0};
  assert_int_equal(tp__http_start(&(tp__http_options){.address = "localhost"}, &handlers, &http, &fault), TP_ERR_USAGE);
  assert_string_equal(fault.subject, "localhost");
  host *h = host_new((tp__http_options){0});
  tp__http_options taken = {.port = tp__http_port(h->http)};
  assert_int_equal(tp__http_start(&taken, &handlers, &http, &fault), TP_ERR_IO);
  assert_non_null(strstr(fault.message, "in use"));
  assert_null(http);
  host_free(h);
}

/* ---- the end ---- */

static void *end_host(void *ctx) {
  host *h = ctx;
  tp__http_free(h->http);
  return NULL;
}

TEST(the_end_sends_what_is_answered_and_waits_for_what_is_held) {
  host *h = host_new((tp__http_options){0});
  int first = dial(h), second = dial(h), idle = dial(h);
  pthread_t ender;
  say(first, GET("/held"));
  tp__http_request *of_first = held(h, 0);
  say(second, GET("/held"));
  tp__http_request *of_second = held(h, 1);
  tp__http_answer(of_first, 200, NULL, tp_text_of("in time"));
  assert_int_equal(pthread_create(&ender, NULL, end_host, h), 0);
  wait_for(h, &h->gone, 1); /* that of the second */
  tp__http_answer(of_second, 503, NULL, tp_text_of("the server ends"));
  assert_int_equal(pthread_join(ender, NULL), 0);
  hear(first, "in time");
  hear(second, "the server ends");
  expect_end(second);
  expect_end(idle);
  close(first);
  assert_int_equal(h->released, 2);
  free(h);
}

TEST(no_connection_is_accepted_after_the_stop_and_open_requests_go_on) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons(tp__http_port(h->http)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  tp__http_stop_accepting(h->http);
  int refused = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(refused, (struct sockaddr *)&at, sizeof at), -1);
  close(refused);
  tp__http_answer(request, 200, NULL, tp_text_of("still here"));
  hear(fd, "still here");
  close(fd);
  host_free(h);
}

/* ---- how a request went ---- */

static tp__http_done done_of(host *h, int index) {
  wait_for(h, &h->dones, index + 1);
  pthread_mutex_lock(&h->mutex);
  tp__http_done done = h->done;
  pthread_mutex_unlock(&h->mutex);
  return done;
}

TEST(a_request_that_was_answered_is_done_with_its_sizes_and_times) {
  host *h = host_new((tp__http_options){.body_bytes_max = 100});
  int fd = dial(h);
  say(fd, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  hear(fd, "at once\n");
  tp__http_done done = done_of(h, 0);
  assert_int_equal(done.status, 200);
  assert_false(done.left);
  assert_int_equal(done.bytes_in, 5);
  assert_int_equal(done.bytes_out, 8);
  assert_ptr_equal(done.route, h);
  assert_ptr_equal(done.who, &h->holds);
  assert_true(0 < done.began_ns && done.began_ns <= done.answered_ns && done.answered_ns <= done.ended_ns);
  int64_t before_ns = done.began_ns;
  say(fd, GET("/held")); /* the same connection */
  tp__http_stream_begin(held(h, 0), 201, NULL);
  assert_int_equal(tp__http_stream_put(held(h, 0), tp_text_of("abc")), TP_OK);
  hear(fd, "abc");
  tp__http_stream_end(held(h, 0));
  done = done_of(h, 1);
  assert_int_equal(done.status, 201);
  assert_int_equal(done.bytes_out, 3); /* without what chunks add */
  assert_true(done.began_ns > before_ns);
  say(fd, GET("/large"));
  char block[4096];
  for (size_t size = 0; size < 1 << 20;) {
    ssize_t got = recv(fd, block, sizeof block, 0);
    assert_true(got > 0);
    size += (size_t)got;
  }
  assert_int_equal(done_of(h, 2).bytes_out, 1 << 20);
  close(fd);
  host_free(h);
}

TEST(what_the_front_refuses_is_done_without_a_route) {
  host *h = host_new((tp__http_options){.body_bytes_max = 100});
  static const struct {
    const char *head;
    unsigned status;
  } rows[] = {{"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", 413},
              {"POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400}};
  for (int i = 0; i < 2; i++) {
    int fd = dial(h);
    say(fd, rows[i].head);
    hear(fd, "}}\n");
    tp__http_done done = done_of(h, i);
    assert_int_equal(done.status, rows[i].status);
    assert_null(done.route);
    assert_true(done.bytes_out > 0);
    close(fd);
  }
  assert_int_equal(h->released, 0);
  host_free(h);
}

TEST(a_client_that_leaves_is_done_after_its_host_has_ended) {
  host *h = host_new((tp__http_options){0});
  int fd = dial(h);
  say(fd, GET("/held"));
  tp__http_request *request = held(h, 0);
  close(fd);
  wait_for(h, &h->gone, 1);
  tp__http_answer(request, 200, NULL, tp_text_of("late"));
  tp__http_done done = done_of(h, 0);
  assert_true(done.left); /* also where the front had not closed the connection when the answer came */
  assert_true(done.status == 0 || done.status == 200);
  assert_true(done.status == 0 ? done.bytes_out == 0 && done.answered_ns == 0 : done.answered_ns > 0);
  fd = dial(h); /* and one within its request, which is not passed */
  say(fd, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe");
  close(fd);
  done = done_of(h, 1);
  assert_true(done.left);
  assert_int_equal(done.status, 0);
  host_free(h);
}
