/* SPDX-License-Identifier: Apache-2.0
 *
 * The test endpoint by itself, used by a client with plain sockets. */
#include "tests/support/test.h"
#include "tests/support/endpoint.h"

#define ONE_REPLY(...) endpoint_open((const endpoint_reply[]){__VA_ARGS__}, 1)

static int dial(const endpoint *e) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)e->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

static void ask(int fd) {
  static const char request[] = "POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
  assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
}

/* Reads to the end, or to the expected text. @return errno of the last recv(), or 0. */
static int hear(int fd, const char *until, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  while (at < size - 1 && !(until && strstr(text, until))) {
    ssize_t got = recv(fd, text + at, size - 1 - at, 0);
    if (got <= 0) return got < 0 ? errno : 0;
    at += (size_t)got;
    text[at] = '\0';
  }
  return 0;
}

TEST(a_request_is_kept_and_a_connection_serves_several) {
  char text[4096];
  const endpoint_reply replies[] = {{.body = "one"}, {.status = 429, .headers = "Retry-After: 7\r\n"}};
  endpoint *e = endpoint_open(replies, 2);
  int fd = dial(e);
  ask(fd);
  assert_int_equal(hear(fd, "0\r\n\r\n", text, sizeof text), 0);
  assert_non_null(strstr(text, "HTTP/1.1 200 "));
  assert_non_null(strstr(text, "\r\n\r\n3\r\none\r\n0\r\n\r\n"));
  ask(fd);
  assert_int_equal(hear(fd, "0\r\n\r\n", text, sizeof text), 0);
  assert_non_null(strstr(text, "HTTP/1.1 429 "));
  assert_non_null(strstr(text, "Retry-After: 7\r\n"));
  assert_string_equal(endpoint_body(e, 1), "body");
  assert_int_equal(endpoint_count(e, &e->request_count), 2);
  assert_int_equal(endpoint_count(e, &e->accepted), 1);
  close(fd);
  endpoint_await_closed(e);
  assert_int_equal(endpoint_count(e, &e->left), 0);
  endpoint_close(e);
}

TEST(a_body_comes_in_pieces_and_may_be_cut) {
  char text[4096];
  endpoint *e = ONE_REPLY({.body = "abcdef", .piece = 2, .pause_ms = 1, .stops_at = 3, .then = ENDPOINT_CLOSES});
  int fd = dial(e);
  ask(fd);
  assert_int_equal(hear(fd, NULL, text, sizeof text), 0);
  assert_non_null(strstr(text, "\r\n\r\n2\r\nab\r\n1\r\nc\r\n"));
  assert_null(strstr(text, "0\r\n\r\n"));
  close(fd);
  endpoint_close(e);
}

TEST(a_connection_may_be_reset) {
  char text[4096];
  endpoint *e = ONE_REPLY({.body = "abcdef", .stops_at = 3, .then = ENDPOINT_RESETS});
  int fd = dial(e);
  ask(fd);
  assert_int_equal(hear(fd, NULL, text, sizeof text), ECONNRESET);
  close(fd);
  endpoint_close(e);
}

TEST(what_waits_goes_on_when_it_is_let) {
  char text[4096];
  endpoint *e = ONE_REPLY({.body = "abcdef", .stops_at = 3, .then = ENDPOINT_WAITS});
  int fd = dial(e);
  ask(fd);
  endpoint_await(e, &e->parts, 1);
  assert_int_equal(hear(fd, "abc\r\n", text, sizeof text), 0);
  endpoint_go(e);
  assert_int_equal(hear(fd, "0\r\n\r\n", text, sizeof text), 0);
  assert_non_null(strstr(text, "def"));
  close(fd);
  endpoint_close(e);
}

TEST(a_client_that_leaves_is_noticed) {
  char text[4096];
  endpoint *e = ONE_REPLY({.body = "abc", .then = ENDPOINT_REPEATS});
  int fd = dial(e);
  ask(fd);
  assert_int_equal(hear(fd, "abc\r\n3\r\nabc", text, sizeof text), 0);
  close(fd);
  endpoint_await(e, &e->left, 1);
  endpoint_close(e);
}

TEST(gzip_is_what_the_format_says) {
  size_t size;
  char *packed = endpoint_pack("123456789", 9, &size);
  assert_int_equal(size, 10 + 5 + 9 + 8);
  assert_memory_equal(packed + 24, "\x26\x39\xf4\xcb", 4); /* the check value of CRC-32 */
  free(packed);
}
