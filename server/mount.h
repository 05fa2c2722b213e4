/* SPDX-License-Identifier: Apache-2.0
 *
 * mount: lets another library answer at a path of a server (tp_server_options.mount), behind the server's keys and on
 * its connections. Two libraries share this header and server/http.h, and each has a copy of the code of http.c: a
 * mount of another version, or of another build, is refused when the server starts.
 *
 * The server decides who may call, finds the tenant, and writes the access log and the metrics; the mount answers. A
 * client is one key of one tenant. Each client has a session of its own for the work of the mount, so that this work
 * has the tenant of the client and the environment of the server.
 *
 * Ownership: the mount belongs to the library that answers, and outlives the server. A server has at most one mount,
 * and a mount at most one server at a time.
 * Threads: all functions of a mount but `stop` are called on the front's thread; `stop` on that of tp_server_free().
 * session_take is called from `request` only, session_release on any thread. No lock is held. */
#ifndef TP__SERVER_MOUNT_H
#define TP__SERVER_MOUNT_H

#include "server/http.h"
#include "turnphase/turn.h"

/** The functions of a server that a mount may call. */
typedef struct tp__mount_server {
  void *ctx;
  /** Takes the session of a client, which stays open until it is released.
   *  @param client  as `request` got it.   @param ret_hold  for session_release. */
  tp_status (*session_take)(void *ctx, const char *client, tp_session **ret_session, void **ret_hold, tp_fault *fault);
  void (*session_release)(void *hold);
} tp__mount_server;

struct tp_mount {
  /** tp_version() and tp__http_request_bytes() of the library that answers. */
  const char *version;
  size_t request_bytes;
  /** Called when a server begins to pass requests; the server outlives them. NULL: it passes no more requests.
   *  @return false: the mount has a server already. */
  bool (*enter)(void *ctx, const tp__mount_server *server);
  /** Passes a request of an admitted client. The mount sets its own handlers for it (tp__http_hand_over()), and ends
   *  it.
   *  @param client  names the key and the tenant without showing the key, 1 to 79 bytes; borrowed.
   *  @param drains  set when the server ends: nothing new may begin, but messages about running calls are accepted. */
  void (*request)(void *ctx, tp__http_request *request, const char *client, bool drains);
  /** Begins nothing new, lets running work end until until_ms, and cancels the rest. When it returns, nothing runs. */
  void (*stop)(void *ctx, int64_t until_ms);
  void *ctx;
};

#endif
