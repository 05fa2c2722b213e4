/* SPDX-License-Identifier: Apache-2.0
 *
 * postgres_proxy: a proxy between the hosts and the server of postgres_server.h, on a Unix socket of its own, that
 * fails on command: it cuts before COMMIT, after it, and anywhere, delays an answer, or becomes silent. It counts
 * statements that are prepared, and may look like a pooler. */
#ifndef TEST_POSTGRES_PROXY_H
#define TEST_POSTGRES_PROXY_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/host.h"
#include "tests/support/postgres_server.h"

typedef enum fault_kind {
  NO_FAULT,
  BEFORE_COMMIT, /* what a client has sent up to its COMMIT arrives, and no more */
  AFTER_COMMIT,  /* the server has answered COMMIT, and the answer does not arrive */
  ANYWHERE,      /* after some bytes of the server */
  SILENT,        /* nothing arrives any more, and nothing is closed */
  DELAYED,       /* all that comes from the server comes 100 ms later, once */
  FORGOTTEN,     /* the server does not know a statement that was prepared */
  CUTS
} fault_kind;

enum { PAIRS_MAX = 64, CHUNK = 65536 };

typedef struct pair {
  int client, server; /* -1: closed */
  bool is_silent;
} pair;

static struct {
  char directory[96], conninfo[160];
  int listener, wake[2];
  pthread_t thread;
  pair pairs[PAIRS_MAX];
  _Atomic int next; /* the fault that waits for its place */
  _Atomic int done; /* faults that were done */
  _Atomic bool refuses;
  size_t left;                /* bytes before ANYWHERE */
  _Atomic int prepared, used; /* messages Parse and Bind with the name of a statement */
  _Atomic bool pools;         /* clients get another number than that of their server's process, as from pgbouncer */
} proxy;

static inline void close_pair(pair *p) {
  if (p->client >= 0) close(p->client);
  if (p->server >= 0) close(p->server);
  *p = (pair){-1, -1, false};
}

static inline void fault_done(pair *p) {
  if (p) close_pair(p);
  proxy.next = NO_FAULT;
  proxy.done++;
}

static inline void send_all(int to, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(to, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return; /* its own side sees the end */
    bytes += sent;
    size -= (size_t)sent;
  }
}

/* A message begins with its type and its size; in a Bind the empty name of a portal comes before the statement's. */
static inline void look_at_names(char *bytes, size_t size) {
  static const char name[] = "turnphase_";
  enum { NAME = sizeof name - 1 };
  for (char *at = bytes + 6; (at = memmem(at, (size_t)(bytes + size - at), name, NAME)); at += NAME) {
    if (at[-5] == 'P') proxy.prepared++;
    if (at[-6] != 'B' || at[-1] != '\0') continue;
    proxy.used++;
    if (proxy.next != FORGOTTEN) continue;
    *at = 'T';
    proxy.next = NO_FAULT;
    proxy.done++;
  }
}

static inline void change_process(char *bytes, size_t size) {
  static const char head[] = {'K', 0, 0, 0, 12};
  char *key = proxy.pools ? memmem(bytes, size, head, sizeof head) : NULL;
  if (key && key + sizeof head + 4 <= bytes + size) key[sizeof head + 1] ^= 1;
}

/* Passes a chunk of one side to the other one, unless the waiting fault must happen here. */
static inline void relay(pair *p, bool is_from_client) {
  static char bytes[CHUNK];
  int from = is_from_client ? p->client : p->server, to = is_from_client ? p->server : p->client;
  ssize_t size = recv(from, bytes, sizeof bytes, 0);
  if (size <= 0) {
    close_pair(p);
    return;
  }
  if (p->is_silent) return;
  if (is_from_client && size > 6) look_at_names(bytes, (size_t)size);
  if (!is_from_client) change_process(bytes, (size_t)size);
  const char *commit = memmem(bytes, (size_t)size, "COMMIT", 6);
  int kind = proxy.next;
  if (kind == BEFORE_COMMIT && is_from_client && commit) {
    send_all(to, bytes, (size_t)(commit - bytes));
    fault_done(p);
  } else if (kind == AFTER_COMMIT && !is_from_client && commit) {
    fault_done(p);
  } else if (kind == ANYWHERE && !is_from_client && proxy.left < (size_t)size) {
    send_all(to, bytes, proxy.left);
    fault_done(p);
  } else if (kind == SILENT && is_from_client && commit) {
    p->is_silent = true;
    fault_done(NULL);
  } else if (kind == DELAYED && !is_from_client) {
    fault_done(NULL);
    usleep(100000);
    send_all(to, bytes, (size_t)size);
  } else {
    if (kind == ANYWHERE && !is_from_client) proxy.left -= (size_t)size;
    send_all(to, bytes, (size_t)size);
  }
}

static inline int connect_to_server(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.5432", postgres_server.directory);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

static inline void accept_client(void) {
  int client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC), server = connect_to_server();
  pair *p = proxy.pairs;
  while (p < proxy.pairs + PAIRS_MAX && p->client >= 0) p++;
  if (proxy.refuses || client < 0 || server < 0 || p == proxy.pairs + PAIRS_MAX) {
    if (client >= 0) close(client);
    if (server >= 0) close(server);
    return;
  }
  *p = (pair){client, server, false};
}

static inline void *run_proxy(void *unused) {
  (void)unused;
  for (;;) {
    struct pollfd fds[2 * PAIRS_MAX + 2] = {{proxy.listener, POLLIN, 0}, {proxy.wake[0], POLLIN, 0}};
    for (int i = 0; i < PAIRS_MAX; i++) {
      fds[2 + 2 * i] = (struct pollfd){proxy.pairs[i].client, POLLIN, 0};
      fds[3 + 2 * i] = (struct pollfd){proxy.pairs[i].server, POLLIN, 0};
    }
    if (poll(fds, COUNT(fds), -1) < 0) continue;
    if (fds[1].revents) break;
    for (int i = 0; i < PAIRS_MAX; i++) {
      pair *p = &proxy.pairs[i];
      if (p->client >= 0 && fds[2 + 2 * i].revents) relay(p, true);
      if (p->server >= 0 && fds[3 + 2 * i].revents && fds[3 + 2 * i].fd == p->server) relay(p, false);
    }
    if (fds[0].revents) accept_client();
  }
  for (int i = 0; i < PAIRS_MAX; i++) close_pair(&proxy.pairs[i]);
  return NULL;
}

static inline void start_proxy(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(proxy.directory, sizeof proxy.directory, "%s/proxy", postgres_server.directory);
  snprintf(proxy.conninfo, sizeof proxy.conninfo, "host=%s dbname=postgres user=postgres", proxy.directory);
  assert_int_equal(mkdir(proxy.directory, 0700), 0);
  snprintf(address.sun_path, sizeof address.sun_path, "%.80s/.s.PGSQL.5432", proxy.directory);
  proxy.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(proxy.listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(proxy.listener, 64), 0);
  assert_int_equal(pipe(proxy.wake), 0);
  for (int i = 0; i < PAIRS_MAX; i++) proxy.pairs[i] = (pair){-1, -1, false};
  assert_int_equal(pthread_create(&proxy.thread, NULL, run_proxy, NULL), 0);
}

static inline void stop_proxy(void) {
  assert_int_equal(write(proxy.wake[1], "", 1), 1);
  pthread_join(proxy.thread, NULL);
  close(proxy.listener);
  close(proxy.wake[0]);
  close(proxy.wake[1]);
  char socket_path[128];
  snprintf(socket_path, sizeof socket_path, "%s/.s.PGSQL.5432", proxy.directory);
  unlink(socket_path);
  rmdir(proxy.directory);
}

#endif
