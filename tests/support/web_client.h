/* SPDX-License-Identifier: Apache-2.0
 *
 * web_client: a client of an HTTP server on this machine that sends given bytes unchanged. */
#ifndef TEST_WEB_CLIENT_H
#define TEST_WEB_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { WEB_WAIT_MS = 20000, WEB_BYTES = 1 << 18 };

/* An answer with its head; the bytes are static, of the newest. */
typedef struct web_answer {
  int status;
  const char *head, *body;
} web_answer;

static inline int web_dial(uint32_t port) {
  struct sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
  return fd;
}

/* A server that has closed is no failure: its answer is read. */
static inline void web_send(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes += sent;
    size -= (size_t)sent;
  }
}

static inline void web_say(int fd, const char *text) { web_send(fd, text, strlen(text)); }

/* Reads until the text contains `until`, or, with NULL, to the end of the connection. */
static inline char *web_hear(int fd, const char *until) {
  static char text[WEB_BYTES];
  size_t size = 0;
  text[0] = '\0';
  while (!(until && strstr(text, until)) && size < sizeof text - 1) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, WEB_WAIT_MS), 1);
    ssize_t got = recv(fd, text + size, sizeof text - 1 - size, 0);
    if (got <= 0) break;
    size += (size_t)got;
    text[size] = '\0';
  }
  return text;
}

static inline web_answer web_answer_of(char *text) {
  web_answer answer = {.head = text, .body = ""};
  char *end = strstr(text, "\r\n\r\n");
  if (strncmp(text, "HTTP/1.1 ", 9) == 0) answer.status = atoi(text + 9);
  if (end) {
    *end = '\0';
    answer.body = end + 4;
  }
  return answer;
}

/* @param headers  each with \r\n at its end.  @param body  NULL: none. */
static inline void web_say_request(int fd, const char *method, const char *path, const char *headers,
                                   const char *body) {
  char head[2048];
  size_t size = body ? strlen(body) : 0;
  int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path,
                        headers);
  if (body) length += snprintf(head + length, sizeof head - (size_t)length, "Content-Length: %zu\r\n", size);
  assert_true((size_t)length + 2 < sizeof head);
  web_say(fd, head);
  web_say(fd, "\r\n");
  web_send(fd, body ? body : "", size);
}

static inline web_answer web_ask(uint32_t port, const char *method, const char *path, const char *headers,
                                 const char *body) {
  int fd = web_dial(port);
  web_say_request(fd, method, path, headers, body);
  web_answer answer = web_answer_of(web_hear(fd, NULL));
  close(fd);
  return answer;
}

#endif
